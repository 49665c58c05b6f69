"""Dropping nodes and edges of graphs that are too large for the fixed size."""

from __future__ import annotations

import copy
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch_geometric.data import Data

from .graphs import (
    EDGE,
    GRAPH,
    NODE,
    GraphTable,
    Group,
    Schema,
    StoreKey,
    end_points,
    infer_schema,
    kind_of,
    spans,
)
from .options import FixedSizeOptions, OverSizeStrategy, check_options


class Trimmed(NamedTuple):
    """What trimming dropped: nodes, edges, and in how many batches, each beside what there was before.

    Adding two gives the total.
    """

    nodes: int = 0
    edges: int = 0
    batches: int = 0
    of_nodes: int = 0
    of_edges: int = 0
    of_batches: int = 0

    def __add__(self, other: Trimmed) -> Trimmed:  # type: ignore[override]
        return Trimmed(*(mine + yours for mine, yours in zip(self, other)))

    @property
    def percent(self) -> dict[str, float]:
        """The dropped share of nodes and edges, and the share of batches that lost any."""
        shares = zip(("nodes", "edges", "batches"), self[:3], self[3:])
        return {name: 100 * dropped / total if total else 0.0 for name, dropped, total in shares}

    def __repr__(self) -> str:
        parts = (
            f"{name}={getattr(self, name)} of {getattr(self, 'of_' + name)} ({percent:.2f} %)"
            for name, percent in self.percent.items()
        )
        return f"Trimmed({', '.join(parts)})"


def trim(
    sample: Data,
    options: FixedSizeOptions,
    strategy: OverSizeStrategy,
    num_protected_nodes: int | dict[StoreKey, int] = 0,
    *,
    generator: torch.Generator | None = None,
    schema: Schema | None = None,
) -> tuple[Data, Trimmed]:
    """Drops nodes and edges of one graph until it fits, as far as the strategy allows.

    Args:
        sample: The graph; it is left as it is.
        options: The fixed size.
        strategy: What may be dropped. `Error` and `Skip` drop nothing.
        num_protected_nodes: That many nodes at the front are kept (in a heterogeneous graph: by node type).
        generator: Chooses at random what to drop. Without it the last nodes and edges go first, which in a
            neighbour sample are those farthest from the seeds.
        schema: The attributes and their levels, where the sample alone could be ambiguous.

    Returns:
        The graph that is left, and what was dropped.
    """
    check_options(options)
    strategy, schema = OverSizeStrategy(strategy), schema or infer_schema([sample])
    if isinstance(num_protected_nodes, int):
        num_protected_nodes = {None: num_protected_nodes}
    table = GraphTable.of_samples([sample], schema)
    smaller, dropped = trim_table(table, options, strategy, num_protected_nodes, generator)
    if not dropped.batches:
        return sample, dropped
    sample = copy.copy(sample)
    for position, (field, column) in enumerate(zip(schema.fields, smaller.columns)):
        store = sample if field.store is None else sample[field.store]
        if field.level != GRAPH:
            store[field.name] = column
        elif position in table.shifts:
            store[field.name] = column.reshape(torch.as_tensor(store[field.name]).shape)
    for key in schema.stating_num_nodes:
        (sample if key is None else sample[key]).num_nodes = int(smaller.counts[NODE, key][0])
    return sample, dropped


def with_report(batch: Data, trimmed: Trimmed) -> Data:
    """Notes on a batch what was trimmed from it, so that a worker's report reaches the loader."""
    if trimmed.of_batches:
        batch.stores[0]._trimmed = trimmed
    return batch


def take_report(batch: Data) -> Trimmed:
    """Takes the note off a batch; combined batches carry the sum of their mini-batches."""
    return vars(batch.stores[0]).pop("_trimmed", Trimmed())


def trim_table(
    table: GraphTable,
    options: FixedSizeOptions,
    strategy: OverSizeStrategy,
    num_protected_nodes: dict[StoreKey, int] | None = None,
    generator: torch.Generator | None = None,
) -> tuple[GraphTable, Trimmed]:
    """Drops nodes and edges of the graphs of one batch until they fit together.

    Every graph keeps a node, and one of the edges left to it if there is room for one of each.

    Args:
        table: The graphs of the batch, lying one after another without gaps.
        options: The fixed size.
        strategy: What may be dropped.
        num_protected_nodes: How many nodes at the front of the batch are kept, by node type.
        generator: Chooses at random what to drop; without it the last ones go first.
    """
    before, protected = table, num_protected_nodes or {}
    for level, may_drop in ((NODE, strategy.trims_nodes), (EDGE, strategy.trims_edges)):
        totals = {group: int(counts.sum()) for group, counts in table.counts.items() if group[0] == level}
        excess = {group: total - options.room(group) for group, total in totals.items()}
        if not may_drop or all(number <= 0 for number in excess.values()):
            continue
        _refuse_foreign_numbers(table)
        named = _named_nodes(table) if level == NODE else {}
        keep = {}
        for group, number in excess.items():
            keep[group] = torch.ones(totals[group], dtype=torch.bool)
            if number > 0:
                first = protected.get(group[1], 0) if level == NODE else 0
                keep[group][_rows_to_drop(table, group, number, first, named, options, generator)] = False
        table = _without_nodes(table, keep) if level == NODE else _filter(table, keep)
    return table, _report(before, table)


def nothing_trimmed(table: GraphTable, graphs: Tensor) -> Trimmed:
    """The report on a batch of some of the graphs that fits as it is."""
    counts = table._replace(counts={group: count[graphs] for group, count in table.counts.items()})
    return _report(counts, counts)


def _report(before: GraphTable, after: GraphTable) -> Trimmed:
    (of_nodes, nodes), (of_edges, edges) = (
        [
            sum(int(count.sum()) for group, count in table.counts.items() if group[0] == level)
            for table in (before, after)
        ]
        for level in (NODE, EDGE)
    )
    any_dropped = int(nodes < of_nodes or edges < of_edges)
    return Trimmed(of_nodes - nodes, of_edges - edges, any_dropped, of_nodes, of_edges, 1)


def _refuse_foreign_numbers(table: GraphTable) -> None:
    """Raises if an attribute refers to nodes or edges in a way that dropping some of them would break."""
    for position, shift in table.shifts.items():
        field = table.schema.fields[position]
        if shift is None and field.level != NODE:
            continue
        # PyG moves what is called 'batch' by its own largest value, which has to do with neither.
        if shift is None or "batch" not in field.name:
            raise ValueError(
                f"Nodes and edges cannot be dropped from graphs with the attribute '{field.name}', which "
                f"refers to nodes or edges. Leave it out with exclude_keys=['{field.name}'], or raise "
                "num_nodes and num_edges."
            )


def _rows_named(table: GraphTable, position: int) -> list[tuple[Group, Tensor]]:
    """For each side of an attribute that numbers nodes: which nodes, and their rows in the table."""
    field = table.schema.fields[position]
    values: Any = table.columns[position]
    if field.level == GRAPH:
        counts = torch.full((table.num_graphs,), field.rows)
    else:
        counts = table.counts[field.group]
    graph = torch.repeat_interleave(torch.arange(table.num_graphs), counts)
    shape = [1] * values.dim()
    shape[field.dim] = -1
    sides: list[tuple[Group, Any, list[int]]] = [((NODE, None), values, shape)]
    if field.store is not None:
        sides = [(end, side, [-1]) for end, side in zip(end_points(field.store), values)]
    for group, side, shape in sides:
        if ((side < 0) | (side >= table.counts[group][graph].view(shape))).any():
            raise ValueError(
                f"Nodes cannot be dropped from graphs whose attribute '{field.name}' refers to "
                f"{kind_of(group)} that they do not have (got values from {int(side.min())} to "
                f"{int(side.max())}). Correct it, or leave it out with exclude_keys=['{field.name}']."
            )
    return [(group, side + table.starts[group][graph].view(shape)) for group, side, shape in sides]


def _named_nodes(table: GraphTable) -> dict[Group, Tensor]:
    """The rows of the nodes that graph-level attributes refer to, which therefore have to stay."""
    named: dict[Group, list[Tensor]] = {}
    for position in table.shifts:
        if table.schema.fields[position].level == GRAPH and table.shifts[position] is None:
            for group, rows in _rows_named(table, position):
                named.setdefault(group, []).append(rows.reshape(-1))
    return {group: torch.cat(rows) for group, rows in named.items()}


def _rows_to_drop(
    table: GraphTable,
    group: Group,
    number: int,
    num_protected: int,
    named: dict[Group, Tensor],
    options: FixedSizeOptions,
    generator: torch.Generator | None,
) -> Tensor:
    """So many rows of a group: at random, or without a generator the last ones."""
    counts = table.counts[group]
    total = int(counts.sum())
    droppable = torch.ones(total, dtype=torch.bool)
    droppable[:num_protected] = False
    if group[0] == NODE or int((counts > 0).sum()) <= total - number:
        # One row of each graph that has any stays: one at random, or the first one.
        within = torch.zeros_like(counts)
        if generator is not None:
            within = (torch.rand(len(counts), generator=generator) * counts).long()
        droppable[(table.starts[group] + within)[counts > 0]] = False
    if group in named:
        droppable[named[group]] = False
    candidates = droppable.nonzero().squeeze(1)
    if len(candidates) < number:
        num_staying = total - len(candidates)
        others = ", and what attributes of the graphs refer to" if group in named else ""
        raise ValueError(
            f"Trimming cannot make the batch fit: of its {total} {kind_of(group)}, {num_staying} have to "
            f"stay (one of each graph, and the seeds{others}), but "
            f"{options.lack_of_room(group, num_staying)} or make smaller batches."
        )
    if generator is None:
        return candidates[len(candidates) - number :]
    return candidates[torch.randperm(len(candidates), generator=generator)[:number]]


def _without_nodes(table: GraphTable, keep: dict[Group, Tensor]) -> GraphTable:
    """Drops nodes and the edges that name any of them, and numbers the others anew."""
    keep, columns = dict(keep), list(table.columns)
    # The new number of each kept node within its graph.
    numbers = {group: torch.zeros(len(kept), dtype=torch.long) for group, kept in keep.items()}
    for group, kept in keep.items():
        counts = _counts_kept(table, group, kept)
        numbers[group][kept] = spans(torch.zeros_like(counts), counts)
    for position, field in enumerate(table.schema.fields):
        if position not in table.shifts or table.shifts[position] is not None:
            continue
        sides = _rows_named(table, position)
        renumbered = [numbers[group][rows] for group, rows in sides]
        columns[position] = renumbered[0] if field.store is None else torch.stack(renumbered)
        columns[position] = columns[position].to(field.dtype)
        if field.level == EDGE:
            # An edge stays if every attribute that names nodes for it names only nodes that stay.
            for group, rows in sides:
                stays = keep[group][rows]
                if field.store is None:
                    stays = stays.movedim(field.dim, 0).flatten(1).all(1) if stays.dim() > 1 else stays
                keep[field.group] = keep.get(field.group, torch.ones_like(stays)) & stays
    return _filter(table._replace(columns=columns), keep)


def _counts_kept(table: GraphTable, group: Group, keep: Tensor) -> Tensor:
    graph = torch.repeat_interleave(torch.arange(table.num_graphs), table.counts[group])
    return torch.zeros_like(table.counts[group]).index_add_(0, graph, keep.long())


def _filter(table: GraphTable, keep: dict[Group, Tensor]) -> GraphTable:
    counts, starts, columns = dict(table.counts), dict(table.starts), list(table.columns)
    for group, kept in keep.items():
        counts[group] = _counts_kept(table, group, kept)
        starts[group] = counts[group].cumsum(0) - counts[group]
    for position, field in enumerate(table.schema.fields):
        if field.level != GRAPH and field.group in keep:
            rows = keep[field.group].nonzero().squeeze(1)
            columns[position] = columns[position].index_select(field.dim, rows)
    return table._replace(columns=columns, counts=counts, starts=starts)
