"""The padding contract: what a batch of fixed size is. Every loader makes its batches here."""

from __future__ import annotations

import copy
import math
from typing import Any, NamedTuple, Sequence, Tuple

import torch
from torch import Tensor
from torch_geometric.data import Batch, Data

from .options import FixedSizeOptions
from .padding import GRAPHS, Layout, lay_out
from .schema import EDGE, GRAPH, NODE, Field, Group, Schema, StoreKey, infer_schema
from .table import Column, GraphTable, Picked, check_edges, graph_rows

# PyG's Data lists these attributes first, then the others by name.
_FIRST_KEYS = ("x", "edge_index", "edge_attr", "y", "pos")

# A store and the name of an attribute in it.
Key = Tuple[StoreKey, str]

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
    return collator.collate(table, torch.arange(len(samples)))


class Prepared(NamedTuple):
    """One of several batches that are made together.

    Args:
        real: For each field the real values of each batch.
        structure: By store and name, what says which graph a row belongs to and which rows are real, for each
            batch.
        ptr: For each field where each graph begins, for each batch.
        steps: For each field what is added to the values of each graph, for each batch.
        offsets: By position of the field, what is added to each padded value, for each batch.
        batch: Which of the batches this is.
    """

    real: list[Sequence[Any]]
    structure: dict[Key, Sequence[Tensor]]
    ptr: list[Sequence[Tensor]]
    steps: list[Sequence[Tensor]]
    offsets: dict[int, Sequence[Tensor]]
    batch: int


class Workspace:
    """Memory that is used again and again: fresh memory takes longer to get than to fill."""

    def __init__(self) -> None:
        self._memory: dict[Key, Tensor] = {}

    def empty(self, key: Key, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        """A tensor without values, in the memory that the one before with this key had."""
        size = math.prod(shape)
        memory = self._memory.get(key)
        if memory is None or memory.numel() < size:
            # Somewhat larger, since the next one may be.
            memory = self._memory[key] = torch.empty(size + size // 4, dtype=dtype)
        return memory[:size].view(shape)


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
        self._targets = [_Target(field, options) for field in self.schema.fields]
        followed = {_group(field) for field in self.schema.fields if field.name in self._follow_batch}
        self._followed = [
            group for group in [*schema.groups, GRAPHS] if group[0] == NODE or group in followed
        ]
        self._no_steps = torch.zeros(options.num_graphs, dtype=torch.long)
        self._empty = self._make_empty()

    def collate(self, table: GraphTable, graphs: Tensor) -> Batch:
        """One batch of the graphs at these positions of a table."""
        return self.assemble(self.prepare(table, [graphs])[0])

    def prepare(
        self, table: GraphTable, batches: Sequence[Tensor], workspace: Workspace | None = None
    ) -> list[Prepared]:
        """Works out and gathers all that can be had for many batches at once.

        Args:
            table: The graphs.
            batches: For each batch the positions of its real graphs in the table.
            workspace: Memory to use again. What was prepared in it before is lost.
        """
        workspace = Workspace() if workspace is None else workspace
        layout = lay_out(table, batches, self.options, self._followed)
        columns = zip(self._targets, table.columns)
        real = [target.gather(column, layout, workspace) for target, column in columns]
        begins = {(group, 1): ptr.unbind(0) for group, ptr in layout.ptr.items()}
        ptr = []
        for field in self.schema.fields:
            begin = (_group(field), field.rows)
            if begin not in begins:
                begins[begin] = (layout.ptr[begin[0]] * field.rows).unbind(0)
            ptr.append(begins[begin])
        steps = [self._steps_of(layout, position) for position in range(len(self._targets))]
        offsets = {position: offset.unbind(0) for position, offset in layout.offsets.items()}
        structure = self._structure(layout)
        return [Prepared(real, structure, ptr, steps, offsets, batch) for batch in range(len(batches))]

    def assemble(self, prepared: Prepared) -> Batch:
        """Makes one batch of what was prepared, in memory of its own."""
        at = prepared.batch
        batch = copy.copy(self._empty)
        # The attributes of a store lie in this dictionary; going through the store takes ten times as long.
        values = {store._key: store._mapping for store in batch.stores}
        slices: dict[Any, Any] = {}
        steps: dict[Any, Any] = {}
        for position, target in enumerate(self._targets):
            key, name = target.store, target.name
            values[key][name] = target.pad(prepared.real[position][at], prepared.offsets.get(position), at)
            # PyG keeps the slices of the global store at the top.
            (slices if key is None else slices.setdefault(key, {}))[name] = prepared.ptr[position][at]
            (steps if key is None else steps.setdefault(key, {}))[name] = prepared.steps[position][at]
        for (key, name), each in prepared.structure.items():
            values[key][name] = each[at].clone()
        for store in batch.stores if self.schema.stating_num_nodes else ():
            if store._key in self.schema.stating_num_nodes:
                store._num_nodes = store.ptr.diff().tolist()
        batch._slice_dict, batch._inc_dict = slices, steps
        return batch

    def _steps_of(self, layout: Layout, position: int) -> Sequence[Tensor]:
        """What is added to the values of each graph, shaped as PyG subtracts it again."""
        steps = layout.steps.get(position)
        if steps is None:
            return [self._no_steps] * len(layout.num_real[GRAPHS])
        return (steps if steps.dim() == 2 else steps.transpose(1, 2).unsqueeze(-1)).unbind(0)

    def _structure(self, layout: Layout) -> dict[Key, Sequence[Tensor]]:
        """Which graph each row belongs to, and which nodes, edges and graphs are real."""
        values: dict[Key, Sequence[Tensor]] = {}
        for key in self.schema.node_types:
            values[key, "batch"] = layout.graph_of[NODE, key].unbind(0)
            values[key, "ptr"] = layout.ptr[NODE, key].unbind(0)
        if self._add_pad_masks:
            for group, num_real in layout.num_real.items():
                numbers = torch.arange(
                    self.options.num_graphs if group == GRAPHS else self.options.budget(group)
                )
                values[group[1], _MASKS[group[0]]] = (numbers < torch.tensor(num_real).unsqueeze(1)).unbind(0)
        for field in self.schema.fields:
            if field.name in self._follow_batch:
                graph_of = layout.graph_of[_group(field)].repeat_interleave(field.rows, dim=1)
                values[field.store, f"{field.name}_batch"] = graph_of.unbind(0)
                values[field.store, f"{field.name}_ptr"] = (layout.ptr[_group(field)] * field.rows).unbind(0)
        return values

    def _make_empty(self) -> Batch:
        """A batch with all its attributes, in their final order, but without values."""
        batch = Batch(_base_cls=self.schema.data_class)
        budgets = {group: self.options.budget(group) for group in self.schema.groups}
        for key, names in self._names().items():
            store = batch.stores[0] if key is None else batch[key]
            for name in names if self.schema.is_hetero else sorted(names, key=_order):
                store[name] = ()
        for key in self.schema.stating_num_nodes:
            (batch.stores[0] if key is None else batch[key])["num_nodes"] = budgets[NODE, key]
        batch.stores[0]["num_nodes"] = sum(budgets[NODE, key] for key in self.schema.node_types)
        batch.stores[0]["num_edges"] = sum(budgets[EDGE, key] for key in self.schema.edge_types)
        batch._num_graphs = self.options.num_graphs
        return batch

    def _names(self) -> dict[StoreKey, list[str]]:
        """The attributes of each store of a batch."""
        names: dict[StoreKey, list[str]] = {None: []}
        for field in self.schema.fields:
            own = names.setdefault(field.store, [])
            own.append(field.name)
            if field.name in self._follow_batch:
                own += [f"{field.name}_batch", f"{field.name}_ptr"]
        for level, key in [*self.schema.groups, GRAPHS]:
            own = names.setdefault(key, [])
            own += ["batch", "ptr"] if level == NODE else []
            own += [_MASKS[level]] if self._add_pad_masks else []
        return names


def _order(name: str) -> tuple[int, str]:
    return (_FIRST_KEYS.index(name) if name in _FIRST_KEYS else len(_FIRST_KEYS)), name


def _group(field: Field) -> Group:
    """What a field's entries are counted with."""
    return GRAPHS if field.level == GRAPH else field.group


class _Target:
    """Where one attribute goes in every batch; what is the same for all batches is worked out once."""

    def __init__(self, field: Field, options: FixedSizeOptions) -> None:
        self.store, self.name = field.store, field.name
        self._field, self._group = field, _group(field)
        self._length = (
            options.num_graphs * field.rows if field.level == GRAPH else options.budget(field.group)
        )
        self._pad_value = options.pad_value(field.level)
        self._pad_object = options.pad_graph_defaults.get(field.name)
        # How torch wants to be told to pad: from the last dimension to the padded one.
        self._behind = [0] * (2 * (len(field.shape) - 1 - field.dim)) + [0]

    def gather(self, column: Column, layout: Layout, workspace: Workspace) -> Sequence[Any]:
        """The real values of each batch."""
        field = self._field
        rows = graph_rows(field, layout.rows[self._group])
        numbers = [number * field.rows for number in layout.num_real[self._group]]
        if field.dtype is None:
            return [[column[row] for row in part.tolist()] for part in rows.split(numbers)]
        if isinstance(column, Picked):
            return [column.index_select(field.dim, part) for part in rows.split(numbers)]
        values = workspace.empty((self.store, self.name), field.padded_shape(rows.size(0)), field.dtype)
        if field.dim == 1 and column.dim() == 2:
            # Row by row is twice as fast as along the second dimension.
            for side, out in zip(column, values):
                torch.index_select(side, 0, rows, out=out)
        else:
            torch.index_select(column, field.dim, rows, out=values)
        return values.split(numbers, dim=field.dim)

    def pad(self, real: Any, offsets: Sequence[Tensor] | None, batch: int) -> Any:
        """The real values of one batch, and padding."""
        if self._field.dtype is None:
            return real + [self._pad_object] * (self._length - len(real))
        if isinstance(real, Picked):
            return real.padded(self._length, self._pad_value)
        padding = [*self._behind, self._length - real.size(self._field.dim)]
        if offsets is None:
            return torch.constant_pad_nd(real, padding, self._pad_value)
        values = torch.constant_pad_nd(real, padding)
        values += _along(offsets[batch], self._field.dim, values)
        return values


def _along(offsets: Tensor, dim: int, values: Tensor) -> Tensor:
    """Offsets ``[N]`` or ``[2, N]``, shaped to be added to values that lie along a dimension."""
    if offsets.dim() == 2 or dim == values.dim() - 1:
        return offsets
    return offsets.view([-1 if at == dim else 1 for at in range(values.dim())])
