"""The padding contract: what a batch of fixed size is. Every loader makes its batches here."""

from __future__ import annotations

from typing import Any, Dict, Sequence

import torch
from torch import Tensor
from torch_geometric.data import Batch, Data

from .options import FixedSizeOptions
from .padding import Prepared, prepare
from .schema import EDGE, GRAPH, NODE, Field, Schema, StoreKey, infer_schema
from .table import Column, GraphTable, check_edges, graph_rows

# PyG's Data lists these attributes first, then the others by name.
_FIRST_KEYS = ("x", "edge_index", "edge_attr", "y", "pos")

Values = Dict[str, Any]


def collate_fixed_size(
    samples: Sequence[Data],
    options: FixedSizeOptions,
    *,
    add_pad_masks: bool = True,
    follow_batch: Sequence[str] | None = None,
    exclude_keys: Sequence[str] | None = None,
    schema: Schema | None = None,
    ids: Tensor | None = None,
) -> Batch:
    """Puts graphs into one batch and pads it to the fixed size.

    The batch has exactly ``options.num_nodes`` nodes, ``num_edges`` edges and ``num_graphs`` graphs (for each node
    and edge type, if heterogeneous): the real graphs first, then the padding graphs, which share the padding nodes
    and edges evenly. The edges of a padding graph lead from its first node to itself.

    Args:
        samples: The real graphs.
        options: The fixed size.
        add_pad_masks: Add ``nodes_mask``, ``edges_mask`` and ``graphs_mask``, True where real.
        follow_batch: Attributes that get their own ``<name>_batch`` and ``<name>_ptr``.
        exclude_keys: Attributes to leave out.
        schema: The attributes and their levels, where the samples alone could be ambiguous; see
            :func:`~gnn_ipu_helpers.batching.schema.infer_schema`.
        ids: What to call the graphs in messages (default: their positions).
    """
    if schema is None:
        schema = infer_schema(samples, exclude_keys or ())
    collator = Collator(schema.without(exclude_keys or ()), options, add_pad_masks, follow_batch)
    table = GraphTable.of_samples(samples, collator.schema, ids)
    check_edges(table)
    return collator.assemble(table, collator.prepare(table, [torch.arange(len(samples))])[0])


class Collator:
    """Makes batches of one fixed size from a table of graphs.

    Args:
        schema: The attributes of the graphs.
        options: The fixed size.
        add_pad_masks: Add ``nodes_mask``, ``edges_mask`` and ``graphs_mask``.
        follow_batch: Attributes that get their own ``<name>_batch`` and ``<name>_ptr``.
    """

    def __init__(
        self,
        schema: Schema,
        options: FixedSizeOptions,
        add_pad_masks: bool = True,
        follow_batch: Sequence[str] | None = None,
    ) -> None:
        self.schema = schema.with_objects(options.pad_graph_defaults)
        self.options = options
        self._add_pad_masks = add_pad_masks
        self._follow_batch = set(follow_batch or ())
        self._budgets = {group: options.budget(group) for group in schema.groups}
        self._numbers = {size: torch.arange(size) for size in {options.num_graphs, *self._budgets.values()}}
        followed = {f.group for f in self.schema.fields if f.level != GRAPH and f.name in self._follow_batch}
        self._followed = [group for group in schema.groups if group[0] == NODE or group in followed]
        self._zeros = torch.zeros(options.num_graphs, dtype=torch.long)

    def prepare(self, table: GraphTable, batches: Sequence[Tensor]) -> list[Prepared]:
        """Works out where everything goes, for many batches at once; ``batches`` holds positions of graphs."""
        return prepare(table, batches, self.options, self._followed)

    def assemble(self, table: GraphTable, prepared: Prepared) -> Batch:
        """Fills one batch."""
        stores: dict[StoreKey, Values] = {key: {} for key in self._store_keys()}
        slices: dict[Any, Any] = {}
        steps: dict[Any, Any] = {}
        for position, (field, column) in enumerate(zip(self.schema.fields, table.columns)):
            values = stores[field.store]
            values[field.name] = self._fill(table, prepared, position, field, column)
            ptr, graph_of = self._bounds(field, prepared)
            step = prepared.steps.get(position, self._zeros)
            _nested(slices, field)[field.name] = ptr
            _nested(steps, field)[field.name] = step if step.dim() == 1 else step.t().unsqueeze(-1)
            if field.name in self._follow_batch:
                values[f"{field.name}_batch"] = graph_of.clone()
                values[f"{field.name}_ptr"] = ptr.clone()
        self._add_structure(stores, prepared)
        return self._batch(stores, slices, steps, prepared)

    # -- values -------------------------------------------------------------------------------------------------

    def _fill(
        self, table: GraphTable, prepared: Prepared, position: int, field: Field, column: Column
    ) -> Any:
        """One attribute of the batch: the real values, then padding."""
        rows = self._real_rows(table, prepared, field)
        if field.dtype is None:
            missing = self.options.num_graphs - len(rows)
            return [column[row] for row in rows.tolist()] + [
                self.options.pad_graph_defaults[field.name]
            ] * missing
        length = self.options.num_graphs * field.rows if field.level == GRAPH else self._budgets[field.group]
        values = torch.empty(field.padded_shape(length), dtype=field.dtype)
        _gather(column, field.dim, rows, values)
        padding = values.narrow(field.dim, len(rows), length - len(rows))
        offsets = prepared.offsets.get(position)
        if offsets is None:
            padding.fill_(self.options.pad_value(field.level))
        else:
            padding.zero_()
            values += _along(offsets, field, values)
        return values

    def _real_rows(self, table: GraphTable, prepared: Prepared, field: Field) -> Tensor:
        if field.level != GRAPH:
            return prepared.rows[field.group]
        return graph_rows(field, table.places[prepared.graphs])

    def _bounds(self, field: Field, prepared: Prepared) -> tuple[Tensor, Tensor]:
        """Where each graph begins in an attribute, and which graph each of its entries belongs to."""
        if field.level != GRAPH:
            return prepared.ptr[field.group], prepared.graph_of.get(field.group)
        numbers = self._numbers[self.options.num_graphs]
        return torch.arange(self.options.num_graphs + 1) * field.rows, numbers.repeat_interleave(field.rows)

    # -- structure ----------------------------------------------------------------------------------------------

    def _store_keys(self) -> list[StoreKey]:
        return list(dict.fromkeys([None, *self.schema.node_types, *self.schema.edge_types]))

    def _add_structure(self, stores: dict[StoreKey, Values], prepared: Prepared) -> None:
        """Adds which graph a node belongs to, which rows are real, and the numbers of nodes and edges."""
        for key in self.schema.node_types:
            stores[key]["batch"] = prepared.graph_of[NODE, key].clone()
            stores[key]["ptr"] = prepared.ptr[NODE, key].clone()
        if self._add_pad_masks:
            for group in self.schema.groups:
                name = "nodes_mask" if group[0] == NODE else "edges_mask"
                stores[group[1]][name] = self._numbers[self._budgets[group]] < len(prepared.rows[group])
            stores[None]["graphs_mask"] = self._numbers[self.options.num_graphs] < len(prepared.graphs)
        stores[None]["num_nodes"] = sum(self._budgets[NODE, key] for key in self.schema.node_types)
        stores[None]["num_edges"] = sum(self._budgets[EDGE, key] for key in self.schema.edge_types)

    def _batch(self, stores: dict[StoreKey, Values], slices: Any, steps: Any, prepared: Prepared) -> Batch:
        batch = Batch(_base_cls=self.schema.data_class)
        for key, values in stores.items():
            store = batch.stores[0] if key is None else batch[key]
            for name in sorted(values, key=self._order) if not self.schema.is_hetero else values:
                store[name] = values[name]
        for key in self.schema.stating_num_nodes:
            store = batch.stores[0] if key is None else batch[key]
            store.num_nodes = self._budgets[NODE, key]
            store._num_nodes = prepared.ptr[NODE, key].diff().tolist()
        batch._num_graphs = self.options.num_graphs
        batch._slice_dict, batch._inc_dict = slices, steps
        return batch

    def _order(self, name: str) -> tuple[int, str]:
        if name in ("num_nodes", "num_edges"):
            return len(_FIRST_KEYS) + 1, {"num_nodes": "", "num_edges": "~"}[name]
        first = _FIRST_KEYS.index(name) if name in _FIRST_KEYS else len(_FIRST_KEYS)
        return first, name


def _nested(by_field: dict[Any, Any], field: Field) -> dict[str, Any]:
    """The dictionary of a field's store; PyG keeps those of the global store at the top."""
    return by_field if field.store is None else by_field.setdefault(field.store, {})


def _gather(column: Tensor, dim: int, rows: Tensor, out: Tensor) -> None:
    """Copies rows of a column to the front of ``out``."""
    if dim == 1 and column.dim() == 2:
        for source, target in zip(column, out):
            torch.index_select(source, 0, rows, out=target[: len(rows)])
    else:
        torch.index_select(column, dim, rows, out=out.narrow(dim, 0, len(rows)))


def _along(offsets: Tensor, field: Field, values: Tensor) -> Tensor:
    """Offsets ``[N]`` or ``[2, N]``, shaped to be added to the values."""
    if offsets.dim() == 2:
        return offsets
    return offsets.view([-1 if dim == field.dim else 1 for dim in range(values.dim())])
