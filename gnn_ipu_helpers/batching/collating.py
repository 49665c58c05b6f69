"""The padding contract: what a batch of fixed size is. Every loader makes its batches here.

First the arithmetic, for many batches at once: where each row of each batch comes from, where padding begins,
and what is added to numbers of nodes (`lay_out`). Then the batches, one after another: a gather into fresh
memory for each attribute (`Collator`). Last, how mini-batches become a combined batch (`combine_batches`).
"""

from __future__ import annotations

import copy
from typing import Any, Callable, Iterator, NamedTuple, Sequence, Tuple

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Batch, Data

from .._backend import poptorch
from .graphs import (
    EDGE,
    GRAPH,
    GRAPHS,
    NODE,
    Field,
    GraphTable,
    Group,
    Picked,
    Schema,
    StoreKey,
    end_points,
    graph_rows,
    infer_schema,
    kind_of,
    moves_with_nodes,
    repeated,
    spans,
)
from .options import FixedSizeOptions, check_options, list_of_names
from .trimming import Trimmed, take_report, with_report

# PyG's Data lists these attributes first, then the others by name.
_FIRST_KEYS = ("x", "edge_index", "edge_attr", "y", "pos")

# A store and the name of an attribute in it.
Key = Tuple[StoreKey, str]

MASKS = {NODE: "nodes_mask", EDGE: "edges_mask", GRAPH: "graphs_mask"}


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

    The batch has exactly `options.num_nodes` nodes, `num_edges` edges and `num_graphs` graphs (of each
    node and edge type, if heterogeneous): the real graphs first, then the padding graphs, which share the
    padding nodes and edges evenly. The edges of a padding graph lead from its first node to itself.

    Args:
        samples: The real graphs.
        options: The fixed size.
        add_pad_masks: Add `nodes_mask`, `edges_mask` and `graphs_mask`, True where real.
        follow_batch: Attributes that get their own `<name>_batch` and `<name>_ptr`.
        exclude_keys: Attributes to leave out.
        schema: The attributes and their levels, where the samples alone could be ambiguous; see
            `gnn_ipu_helpers.batching.graphs.infer_schema`.
        ids: What to call the graphs in messages (default: their positions).
    """
    check_options(options)
    excluded = list_of_names("exclude_keys", exclude_keys)
    followed = list_of_names("follow_batch", follow_batch)
    schema = infer_schema(samples, excluded) if schema is None else schema.without(excluded)
    collator = Collator(schema, options, add_pad_masks, followed)
    table = GraphTable.of_samples(samples, collator.schema, ids)
    table.check_edges()
    return collator.collate(table, torch.arange(len(samples)))


# -- where everything goes -----------------------------------------------------------------------------------


class Layout(NamedTuple):
    """Where the rows of M batches come from and go to. N padded rows of a group, P graphs in a batch.

    Args:
        num_real: For each group the number of real rows in each batch.
        rows: For each group the table's rows of all batches, one after another, without padding.
        ptr: For each group where each graph begins in its batch, `[M, P + 1]`.
        graph_of: For each group the graph that each row of a padded batch belongs to, `[M, N]`.
        steps: By position of the field, what is added to the values of each graph, `[M, P]` or
            `[M, 2, P]`.
        offsets: The same for each row of a padded batch, `[M, N]` or `[M, 2, N]`.
    """

    num_real: dict[Group, list[int]]
    rows: dict[Group, Tensor]
    ptr: dict[Group, Tensor]
    graph_of: dict[Group, Tensor]
    steps: dict[int, Tensor]
    offsets: dict[int, Tensor]


def lay_out(
    table: GraphTable, batches: Sequence[Tensor], options: FixedSizeOptions, followed: Sequence[Group]
) -> Layout:
    """Works out rows, padding and offsets of many batches at once, each given by the positions of its graphs.

    The rows of the groups `followed` get to know their graph.
    """
    sizes = torch.tensor([len(batch) for batch in batches])
    graphs = torch.cat(list(batches))
    num_real = {GRAPHS: sizes.tolist()}
    _check_fit(table, batches, num_real, options)
    slots = (
        repeated(torch.arange(len(sizes)), sizes),
        spans(torch.zeros_like(sizes), sizes),
    )
    counts = {group: count.index_select(0, graphs) for group, count in table.counts.items()}
    matrices = {
        group: _matrix(count, slots, (len(sizes), options.num_graphs)) for group, count in counts.items()
    }
    num_real = {**{group: matrix.sum(1).tolist() for group, matrix in matrices.items()}, **num_real}
    _check_fit(table, batches, num_real, options)
    padded = _padded(matrices, sizes, options)
    padded[GRAPHS] = torch.ones(len(sizes), options.num_graphs, dtype=torch.long)
    rows = {group: spans(table.starts[group].index_select(0, graphs), counts[group]) for group in counts}
    rows[GRAPHS] = table.places.index_select(0, graphs)
    ptr = {group: torch.nn.functional.pad(matrix.cumsum(1), (1, 0)) for group, matrix in padded.items()}
    steps = {i: _steps(table, i, graphs, slots, ptr) for i in table.shifts}
    offsets = {}
    for position, step in steps.items():
        field = table.schema.fields[position]
        if options.pad_positions is not None and field.name == "edge_index":
            step = _away_from_loops(field, step, sizes)
        offsets[position] = _offsets(field, step, padded)
    numbers = torch.arange(options.num_graphs).expand(len(sizes), -1)
    graph_of = {group: _spread(numbers, padded[group]) for group in followed}
    return Layout(num_real, rows, ptr, graph_of, steps, offsets)


def _matrix(values: Tensor, slots: tuple[Tensor, Tensor], shape: tuple[int, ...]) -> Tensor:
    """Values of real graphs, each in the slot of its graph; 0 for padding graphs."""
    matrix = torch.zeros(shape, dtype=torch.long)
    matrix[slots] = values
    return matrix


def fits(table: GraphTable, graphs: Tensor, options: FixedSizeOptions) -> bool:
    """Whether the graphs at these positions have no more nodes and edges than fit beside padding."""
    return all(int(table.counts[g][graphs].sum()) <= options.room(g) for g in table.counts)


def _check_fit(
    table: GraphTable,
    batches: Sequence[Tensor],
    num_real: dict[Group, list[int]],
    options: FixedSizeOptions,
) -> None:
    """Raises if a batch has more graphs, nodes or edges than fit beside the padding."""
    for group, totals in num_real.items():
        most, room = max(totals), options.room(group)
        if most <= room:
            continue
        if group == GRAPHS:
            raise ValueError(
                f"A batch of {most} graphs does not fit: num_graphs={options.num_graphs} leaves room for "
                f"{room}, one being reserved for padding. Raise num_graphs or make smaller batches."
            )
        batch = batches[totals.index(most)]
        counts = table.counts[group][batch]
        largest, total = int(counts.max()), int(counts.sum())
        graph = f"raph {int(table.ids[batch[counts.argmax()]])} with {largest} {kind_of(group)}"
        if largest > room:
            what, fewer, total = f"G{graph} does not fit", "", largest
        else:
            what = (
                f"The {len(batch)} graphs of a batch, with {total} {kind_of(group)} together, do not fit "
                f"(the largest is g{graph})"
            )
            fewer = (
                " put fewer graphs into a batch (FixedSizeStrategy.StreamPack and Pack do so by themselves),"
            )
        raise ValueError(
            f"{what}: {options.lack_of_room(group, total)},{fewer} or choose another over_size_strategy: "
            "OverSizeStrategy.Skip leaves out what is too large, TrimNodesAndEdges cuts it down."
        )


def _padded(counts: dict[Group, Tensor], sizes: Tensor, options: FixedSizeOptions) -> dict[Group, Tensor]:
    """The rows of every graph with padding graphs included, `[M, P]` for each group.

    Padding is split evenly over the padding graphs, the first ones taking the remainder. Where there are
    fewer padding nodes than padding graphs, the last graphs stay empty and carry no edges either. `counts`
    are the rows of real graphs, `[M, P]` for each group, `sizes` the numbers of real graphs, `[M]`.
    """
    place = torch.arange(options.num_graphs) - sizes.unsqueeze(1)
    num_padding = options.num_graphs - sizes
    padded, with_nodes = {}, {}
    for group, matrix in sorted(counts.items(), key=lambda item: item[0][0] != NODE):
        spare = options.budget(group) - matrix.sum(1)
        if group[0] == NODE:
            # An edge between two nodes needs both in its graph: fewer padding graphs, with two nodes or more.
            carriers = num_padding if options.pad_positions is None else num_padding.minimum(spare // 2)
            with_nodes[group] = torch.minimum(carriers, spare)
        else:
            carriers = torch.minimum(*(with_nodes[end] for end in end_points(group[1])))
        share = torch.div(spare, carriers, rounding_mode="floor").unsqueeze(1)
        extra = (spare % carriers).unsqueeze(1)
        is_carrier = (place >= 0) & (place < carriers.unsqueeze(1))
        padded[group] = matrix + is_carrier * (share + (place < extra))
    return padded


def _spread(values: Tensor, counts: Tensor) -> Tensor:
    """Repeats each graph's value for each of its rows: `[M, P]` to `[M, N]`."""
    return repeated(values.reshape(-1), counts.reshape(-1)).view(len(counts), -1)


def _steps(
    table: GraphTable, position: int, graphs: Tensor, slots: tuple[Tensor, Tensor], ptr: dict[Group, Tensor]
) -> Tensor:
    """What each graph's values of a field are moved by, `[M, P]` or `[M, 2, P]`."""
    field, shift = table.schema.fields[position], table.shifts[position]
    if shift is None and field.level == EDGE and field.store is not None:
        return torch.stack([ptr[end][:, :-1] for end in end_points(field.store)], dim=1)
    if shift is None:
        nodes = ptr[NODE, field.store]
        # An empty padding graph begins behind the last node, which is no node to point at.
        return nodes[:, :-1].clamp(max=int(nodes[0, -1]) - 1)
    num_batches, num_graphs = ptr[GRAPHS].size(0), ptr[GRAPHS].size(1) - 1
    matrix = _matrix(shift[graphs], slots, (num_batches, num_graphs, shift.size(1)))
    steps = (matrix.cumsum(1) - matrix).transpose(1, 2)
    return steps.squeeze(1) if shift.size(1) == 1 else steps


def _away_from_loops(field: Field, steps: Tensor, sizes: Tensor) -> Tensor:
    """The steps with which a padding edge leads from the first node of its graph to the second one."""
    if steps.dim() == 2:
        steps = torch.stack([steps, steps], dim=1)
    if len(set(end_points(field.store))) == 2:
        # Between two types there are no loops, and nodes of different types lie apart.
        return steps
    is_padding = torch.arange(steps.size(2)) >= sizes.unsqueeze(1)
    return torch.stack([steps[:, 0], steps[:, 1] + is_padding], dim=1)


def _offsets(field: Field, steps: Tensor, padded: dict[Group, Tensor]) -> Tensor:
    """The steps, for each row of each batch: `[M, N]` or `[M, 2, N]`."""
    if field.level == GRAPH:
        return steps.repeat_interleave(field.rows, dim=-1)
    if steps.dim() == 2:
        return _spread(steps, padded[field.group])
    return torch.stack([_spread(side, padded[field.group]) for side in steps.unbind(1)], dim=1)


# -- the batches ---------------------------------------------------------------------------------------------


class Collator:
    """Makes batches of one fixed size from a table of graphs; arguments as in `collate_fixed_size`."""

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
        self._empty = self._make_empty()
        self._targets = [_Target(field, schema, options) for field in self.schema.fields]
        followed = {field.group for field in self.schema.fields if field.name in self._follow_batch}
        self._followed = [
            group for group in [*schema.groups, GRAPHS] if group[0] == NODE or group in followed
        ]

    def collate(self, table: GraphTable, graphs: Tensor) -> Batch:
        """One batch of the graphs at these positions of a table."""
        return next(self.collate_many(table, [graphs]))

    def collate_many(self, table: GraphTable, batches: Sequence[Tensor]) -> Iterator[Batch]:
        """One batch after another, from the positions of their real graphs in a table.

        What can be worked out for all of them at once, is.
        """
        layout = lay_out(table, batches, self.options, self._followed)
        fills = [
            (target.store, target.name, target.filler(column, layout, position))
            for position, (target, column) in enumerate(zip(self._targets, table.columns))
        ]
        # What PyG keeps to take a batch apart again: where the entries of each graph begin, [P + 1], and what
        # was added to the values of each.
        none = [torch.zeros(self.options.num_graphs, dtype=torch.long)] * len(batches)
        steps: list[Sequence[Tensor]] = [none] * len(self._targets)
        for position, step in layout.steps.items():
            steps[position] = (step if step.dim() == 2 else step.transpose(1, 2).unsqueeze(-1)).unbind(0)
        begins = {
            kind: (layout.ptr[kind[0]] * kind[1]).unbind(0)
            for kind in {(field.group, field.rows): None for field in self.schema.fields}
        }
        slices = [begins[field.group, field.rows] for field in self.schema.fields]
        structure = [(*key, values) for key, values in self._structure(layout).items()]
        for at in range(len(batches)):
            batch = copy.copy(self._empty)
            # The attributes of a store lie in this dictionary; the store itself takes ten times as long.
            values = {store._key: store._mapping for store in batch.stores}
            for key, name, fill in fills:
                values[key][name] = fill(at)
            for key, name, each in structure:
                values[key][name] = torch.from_numpy(each[at].copy())
            for store in batch.stores if self.schema.stating_num_nodes else ():
                if store._key in self.schema.stating_num_nodes:
                    store._num_nodes = store.ptr.diff().tolist()
            own = vars(batch)
            own["_slice_dict"], own["_inc_dict"] = self._nested(slices, at), self._nested(steps, at)
            yield batch

    def _nested(self, each: Sequence[Sequence[Tensor]], batch: int) -> dict[Any, Any]:
        """The values of one batch as PyG keeps them, by store and field, the global store at the top."""
        nested: dict[Any, Any] = {}
        for target, values in zip(self._targets, each):
            own = nested if target.store is None else nested.setdefault(target.store, {})
            own[target.name] = values[batch]
        return nested

    def _structure(self, layout: Layout) -> dict[Key, np.ndarray]:
        """Which graph each row belongs to, and which nodes, edges and graphs are real, for all batches."""
        values: dict[Key, np.ndarray] = {}
        for key in self.schema.node_types:
            values[key, "batch"] = layout.graph_of[NODE, key].numpy()
            values[key, "ptr"] = layout.ptr[NODE, key].numpy()
        if self._add_pad_masks:
            for group, num_real in layout.num_real.items():
                values[group[1], MASKS[group[0]]] = (
                    np.arange(self.options.budget(group)) < np.array(num_real)[:, None]
                )
        for field in self.schema.fields:
            if field.name in self._follow_batch:
                graph_of = layout.graph_of[field.group].numpy().repeat(field.rows, axis=1)
                values[field.store, f"{field.name}_batch"] = graph_of
                values[field.store, f"{field.name}_ptr"] = layout.ptr[field.group].numpy() * field.rows
        return values

    def _make_empty(self) -> Batch:
        """A batch with all its attributes, in their final order, but without values."""
        # First the attributes that a batch has and the graphs do not.
        names: dict[StoreKey, list[str]] = {None: []}
        for field in self.schema.fields:
            if field.name in self._follow_batch:
                names.setdefault(field.store, []).extend([f"{field.name}_batch", f"{field.name}_ptr"])
        for level, key in [*self.schema.groups, GRAPHS]:
            own = names.setdefault(key, [])
            own += ["batch", "ptr"] if level == NODE else []
            own += [MASKS[level]] if self._add_pad_masks else []
        for field in self.schema.fields:
            if field.name in names.get(field.store, ()) and field.name != "batch":
                masks = " Make the loader with add_pad_masks=False," if field.name in MASKS.values() else ""
                raise ValueError(
                    f"The graphs carry an attribute '{field.name}', which is the name of one that every "
                    f"batch gets.{masks} Rename it, or leave it out with exclude_keys=['{field.name}']."
                )

        batch = Batch(_base_cls=self.schema.data_class)
        budgets = {group: self.options.budget(group) for group in self.schema.groups}
        for field in reversed(self.schema.fields):
            names.setdefault(field.store, []).insert(0, field.name)
        for key in [None, *self.schema.node_types, *self.schema.edge_types]:
            store = batch.stores[0] if key is None else batch[key]
            for name in names[key] if self.schema.is_hetero else sorted(names[key], key=_pygs_order):
                store[name] = ()
        for key in self.schema.stating_num_nodes:
            (batch.stores[0] if key is None else batch[key])["num_nodes"] = budgets[NODE, key]
        batch.stores[0]["num_nodes"] = sum(budgets[NODE, key] for key in self.schema.node_types)
        batch.stores[0]["num_edges"] = sum(budgets[EDGE, key] for key in self.schema.edge_types)
        batch._num_graphs = self.options.num_graphs
        return batch


def _pygs_order(name: str) -> tuple[int, str]:
    return (_FIRST_KEYS.index(name) if name in _FIRST_KEYS else len(_FIRST_KEYS)), name


class _Target:
    """Where one attribute goes in every batch; what is the same for all batches is worked out once."""

    def __init__(self, field: Field, schema: Schema, options: FixedSizeOptions) -> None:
        self.store, self.name = field.store, field.name
        self._field, dtype = field, field.dtype
        self._length = options.budget(field.group) * field.rows
        self._shape = field.padded_shape(self._length)
        # Numbers of nodes are padded with the first node of the padding graph.
        pad_value = 0 if moves_with_nodes(schema, field) else options.pad_value(field)
        self._pad_object = options.pad_graph_defaults.get(field.name)
        # NumPy knows no bfloat16, but can copy its bits.
        self._dtype = self._padding = self._positions = None
        if dtype is not None:
            self._bits = torch.int16 if dtype == torch.bfloat16 else dtype
            self._padding = torch.zeros((), dtype=dtype).fill_(pad_value).view(self._bits).numpy()
            self._dtype = self._padding.dtype
        if options.pad_positions is not None and field.name == "pos" and field.level == NODE:
            self._positions = self._on_a_line(schema, options, options.pad_positions)

    def _on_a_line(self, schema: Schema, options: FixedSizeOptions, distance: float) -> np.ndarray:
        """Positions of all nodes of a type if they were padding, apart from one another and other types."""
        if not self._field.dtype.is_floating_point or len(self._shape) != 2:
            raise ValueError(
                "pad_positions needs the attribute 'pos' to hold floating-point coordinates of shape "
                f"[num_nodes, D] (got {self._field.dtype} of shape [num_nodes, "
                f"{', '.join(map(str, self._shape[1:]))}])."
            )
        before = schema.node_types[: schema.node_types.index(self.store)]
        first = sum(options.budget((NODE, key)) for key in before)
        positions = torch.full(self._shape, options.node_pad_value, dtype=self._field.dtype)
        positions[:, 0] = distance * torch.arange(first, first + self._length)
        return positions.view(self._bits).numpy()

    def filler(self, column: Any, layout: Layout, position: int) -> Callable[[int], Any]:
        """What gives the values in each batch: the real ones and then padding, in memory of their own."""
        field, dim, shape, dtype = self._field, self._field.dim, self._shape, self._dtype
        rows = graph_rows(field, layout.rows[field.group])
        bounds = [0, *np.cumsum([number * field.rows for number in layout.num_real[field.group]]).tolist()]
        if dtype is None:
            numbers, padding = rows.tolist(), [self._pad_object] * self._length
            return lambda at: (
                [column[row] for row in numbers[bounds[at] : bounds[at + 1]]]
                + padding[bounds[at + 1] - bounds[at] :]
            )
        if isinstance(column, Picked):
            column, rows = column.column, column.rows[rows]
        # NumPy's gathers of short rows are twice as fast as torch's. Every row is there, so that clipping
        # changes nothing; it saves a buffer.
        source, places = column.view(self._bits).numpy(), rows.numpy()
        is_plain, constant, positions = self._bits == field.dtype, self._padding, self._positions
        before = (slice(None),) * dim
        offsets = layout.offsets[position].numpy() if position in layout.offsets else None
        if offsets is not None and offsets.ndim == 2:
            along = [length if axis == dim else 1 for axis, length in enumerate(shape)]
            offsets = offsets.reshape(len(offsets), *along)

        def fill(at: int) -> Tensor:
            first, last = bounds[at], bounds[at + 1]
            number, filled = last - first, np.empty(shape, dtype)
            if offsets is not None:
                filled[...] = offsets[at]
                real = filled[(*before, slice(number))]
                real += source.take(places[first:last], dim, None, "clip")
            elif dim == 0:
                source.take(places[first:last], 0, filled[:number], "clip")
                filled[number:] = constant if positions is None else positions[number:]
            else:
                filled[(*before, slice(number))] = source.take(places[first:last], dim, None, "clip")
                filled[(*before, slice(number, None))] = constant
            values = torch.from_numpy(filled)
            return values if is_plain else values.view(torch.bfloat16)

        return fill


# -- combined batches ----------------------------------------------------------------------------------------


def num_mini_batches(options: Any) -> int:
    """How many mini-batches one call of a wrapped model takes.

    That is device iterations × replicas × gradient accumulation steps, found through PopTorch's own loader.

    Args:
        options: A `poptorch.Options`, or None for the default ones.
    """
    if options is None:
        return 1
    loader = poptorch.DataLoader(options, range(1), batch_size=1, auto_distributed_partitioning=False)
    return loader.combinedBatchSize


def combine_batches(batches: list[Any]) -> Any:
    """Concatenates the tensors of batches of one size on dimension 0: `edge_index` gets `[2k, E]`.

    Everything that is not a tensor (`num_nodes`, `num_edges` …) is that of the first mini-batch.

    Args:
        batches: The mini-batches, `Batch` objects with the same attributes. The first one is changed.
    """
    combined = batches[0]
    if len(batches) == 1:
        return combined
    trimmed = sum((take_report(batch) for batch in batches), Trimmed())
    for position, store in enumerate(combined.stores):
        others = [batch.stores[position] for batch in batches[1:]]
        for name, value in list(store.items()):
            if isinstance(value, Tensor):
                store[name] = _concatenate(name, [value, *(other[name] for other in others)])
            elif isinstance(value, list):
                store[name] = value + [item for other in others for item in other[name]]
    # The parts can no longer be told apart the way PyG separates a batch.
    combined._slice_dict = combined._inc_dict = None
    return with_report(combined, trimmed)


def _concatenate(name: str, values: list[Tensor]) -> Tensor:
    shapes = {tuple(value.shape) for value in values}
    if len(shapes) > 1:
        raise ValueError(
            f"Mini-batches of different sizes cannot be combined: '{name}' has the shapes "
            f"{[list(shape) for shape in sorted(shapes)]}. FixedSizeDataLoader makes batches of one size."
        )
    return torch.cat(values)
