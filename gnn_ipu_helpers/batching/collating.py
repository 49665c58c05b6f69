"""The padding contract: what a batch of fixed size is. Every loader makes its batches here."""

from __future__ import annotations

import copy
from typing import Any, Sequence

import torch
from torch import Tensor
from torch_geometric.data import Batch, Data

from .options import FixedSizeOptions
from .padding import Prepared, prepare
from .schema import EDGE, GRAPH, NODE, Field, Schema, StoreKey, infer_schema
from .table import Column, GraphTable, check_edges, graph_rows

# PyG's Data lists these attributes first, then the others by name.
_FIRST_KEYS = ("x", "edge_index", "edge_attr", "y", "pos")

_MASKS = {NODE: "nodes_mask", EDGE: "edges_mask", GRAPH: "graphs_mask"}


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

    The batch has exactly ``options.num_nodes`` nodes, ``num_edges`` edges and ``num_graphs`` graphs (of each
    node and edge type, if heterogeneous): the real graphs first, then the padding graphs, which share the
    padding nodes and edges evenly. The edges of a padding graph lead from its first node to itself.

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
        self._targets = [_Target(field, options) for field in self.schema.fields]
        self._empty = self._make_empty()

    def prepare(self, table: GraphTable, batches: Sequence[Tensor]) -> list[Prepared]:
        """Works out where everything goes for many batches, given by the positions of their graphs."""
        return prepare(table, batches, self.options, self._followed)

    def assemble(self, table: GraphTable, prepared: Prepared) -> Batch:
        """Fills one batch."""
        batch = copy.copy(self._empty)
        stores = {store._key: store for store in batch.stores}
        slices: dict[Any, Any] = {}
        steps: dict[Any, Any] = {}
        for position, (target, column) in enumerate(zip(self._targets, table.columns)):
            key, name = target.store, target.name
            stores[key][name] = target.fill(column, prepared, position)
            # PyG keeps the slices of the global store at the top.
            (slices if key is None else slices.setdefault(key, {}))[name] = target.ptr(prepared)
            (steps if key is None else steps.setdefault(key, {}))[name] = target.steps(prepared, position)
            if name in self._follow_batch:
                stores[key][f"{name}_batch"] = self._graph_of(self.schema.fields[position], prepared)
                stores[key][f"{name}_ptr"] = target.ptr(prepared).clone()
        self._add_structure(stores, prepared)
        batch._slice_dict, batch._inc_dict = slices, steps
        return batch

    def _graph_of(self, field: Field, prepared: Prepared) -> Tensor:
        """Which graph each entry of an attribute belongs to."""
        if field.level != GRAPH:
            return prepared.graph_of[field.group].clone()
        return self._numbers[self.options.num_graphs].repeat_interleave(field.rows)

    def _add_structure(self, stores: dict[StoreKey, Any], prepared: Prepared) -> None:
        """Adds which graph a node belongs to, and which nodes, edges and graphs are real."""
        for key in self.schema.node_types:
            stores[key]["batch"] = prepared.graph_of[NODE, key].clone()
            stores[key]["ptr"] = prepared.ptr[NODE, key].clone()
        for key in self.schema.stating_num_nodes:
            stores[key]._num_nodes = prepared.ptr[NODE, key].diff().tolist()
        if self._add_pad_masks:
            for group in self.schema.groups:
                mask = self._numbers[self._budgets[group]] < prepared.rows[group].size(0)
                stores[group[1]][_MASKS[group[0]]] = mask
            graphs_mask = self._numbers[self.options.num_graphs] < prepared.places.size(0)
            stores[None][_MASKS[GRAPH]] = graphs_mask

    def _make_empty(self) -> Batch:
        """A batch with all its attributes, in their final order, but without values."""
        batch = Batch(_base_cls=self.schema.data_class)
        names: dict[StoreKey, list[str]] = {None: []}
        for field in self.schema.fields:
            own = names.setdefault(field.store, [])
            own.append(field.name)
            if field.name in self._follow_batch:
                own += [f"{field.name}_batch", f"{field.name}_ptr"]
        for level, key in self.schema.groups:
            structure = ["batch", "ptr"] if level == NODE else []
            masks = [_MASKS[level]] if self._add_pad_masks else []
            names[key] = names.get(key, []) + structure + masks
        names[None] += [_MASKS[GRAPH]] if self._add_pad_masks else []
        for key, own in names.items():
            store = batch.stores[0] if key is None else batch[key]
            for name in own if self.schema.is_hetero else sorted(own, key=_order):
                store[name] = ()
        for key in self.schema.stating_num_nodes:
            (batch.stores[0] if key is None else batch[key])["num_nodes"] = self._budgets[NODE, key]
        batch.stores[0]["num_nodes"] = sum(self._budgets[NODE, key] for key in self.schema.node_types)
        batch.stores[0]["num_edges"] = sum(self._budgets[EDGE, key] for key in self.schema.edge_types)
        batch._num_graphs = self.options.num_graphs
        return batch


def _order(name: str) -> tuple[int, str]:
    return (_FIRST_KEYS.index(name) if name in _FIRST_KEYS else len(_FIRST_KEYS)), name


class _Target:
    """Where one attribute goes in every batch: what does not change from batch to batch is worked out once."""

    def __init__(self, field: Field, options: FixedSizeOptions) -> None:
        self.store, self.name = field.store, field.name
        self._field = field
        self._is_graph = field.level == GRAPH
        self._group = field.group
        self._length = options.num_graphs * field.rows if self._is_graph else options.budget(self._group)
        self._shape = field.padded_shape(self._length)
        self._dim, self._dtype = field.dim, field.dtype
        self._pad_value = options.pad_value(field.level)
        self._pad_object = options.pad_graph_defaults.get(field.name)
        self._graph_ptr = torch.arange(options.num_graphs + 1) * field.rows
        self._no_steps = torch.zeros(options.num_graphs, dtype=torch.long)

    def fill(self, column: Column, prepared: Prepared, position: int) -> Any:
        """The values of one batch: the real ones, then padding."""
        rows = graph_rows(self._field, prepared.places) if self._is_graph else prepared.rows[self._group]
        num_real = rows.size(0)
        if self._dtype is None:
            return [column[row] for row in rows.tolist()] + [self._pad_object] * (self._length - num_real)
        values = torch.empty(self._shape, dtype=self._dtype)
        _gather(column, self._dim, rows, values)
        padding = values.narrow(self._dim, num_real, self._length - num_real)
        offsets = prepared.offsets.get(position)
        if offsets is None:
            padding.fill_(self._pad_value)
        else:
            padding.zero_()
            values += _along(offsets, self._dim, values)
        return values

    def ptr(self, prepared: Prepared) -> Tensor:
        """Where each graph begins, ``[P + 1]``."""
        return self._graph_ptr if self._is_graph else prepared.ptr[self._group]

    def steps(self, prepared: Prepared, position: int) -> Tensor:
        """What was added to the values of each graph, shaped as PyG subtracts it again."""
        steps = prepared.steps.get(position)
        if steps is None:
            return self._no_steps
        return steps if steps.dim() == 1 else steps.t().unsqueeze(-1)


def _gather(column: Tensor, dim: int, rows: Tensor, out: Tensor) -> None:
    """Copies rows of a column to the front of ``out``."""
    if dim == 1 and column.dim() == 2:
        for side in range(column.size(0)):
            torch.index_select(column[side], 0, rows, out=out[side].narrow(0, 0, rows.size(0)))
    else:
        torch.index_select(column, dim, rows, out=out.narrow(dim, 0, rows.size(0)))


def _along(offsets: Tensor, dim: int, values: Tensor) -> Tensor:
    """Offsets ``[N]`` or ``[2, N]``, shaped to be added to values that lie along a dimension."""
    if offsets.dim() == 2 or dim == values.dim() - 1:
        return offsets
    return offsets.view([-1 if at == dim else 1 for at in range(values.dim())])
