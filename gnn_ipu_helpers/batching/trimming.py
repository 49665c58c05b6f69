"""Dropping nodes and edges of graphs that are too large for the fixed size."""

from __future__ import annotations

import copy
from typing import NamedTuple

import torch
from torch import Tensor
from torch_geometric.data import Data

from .options import FixedSizeOptions
from .padding import largest_fill
from .schema import EDGE, GRAPH, NODE, Group, Schema, end_points, infer_schema
from .strategies import OverSizeStrategy
from .table import GraphTable, within


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
    num_protected_nodes: int | dict[str, int] = 0,
    *,
    generator: torch.Generator | None = None,
    schema: Schema | None = None,
) -> tuple[Data, Trimmed]:
    """Drops nodes and edges of one graph until it fits, as far as the strategy allows.

    Args:
        sample: The graph; it is left as it is.
        options: The fixed size.
        strategy: What may be dropped. ``Error`` and ``Skip`` drop nothing.
        num_protected_nodes: That many nodes at the front are kept (in a heterogeneous graph: by node type).
        generator: Chooses at random what to drop. Without it the last nodes and edges go first, which in a
            neighbour sample are those farthest from the seeds.
        schema: The attributes and their levels, where the sample alone could be ambiguous.

    Returns:
        The graph that is left, and what was dropped.
    """
    schema = schema or infer_schema([sample])
    if isinstance(num_protected_nodes, int):
        num_protected_nodes = {None: num_protected_nodes}
    table = GraphTable.of_samples([sample], schema)
    smaller, dropped = trim_table(table, options, strategy, num_protected_nodes, generator)
    if not dropped.batches:
        return sample, dropped
    sample = copy.copy(sample)
    for field, column in zip(schema.fields, smaller.columns):
        if field.level != GRAPH:
            (sample if field.store is None else sample[field.store])[field.name] = column
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
    num_protected_nodes: dict[str | None, int] | None = None,
    generator: torch.Generator | None = None,
) -> tuple[GraphTable, Trimmed]:
    """Drops nodes and edges of the graphs of one batch until they fit together; every graph keeps a node.

    Args:
        table: The graphs of the batch, lying one after another without gaps.
        options: The fixed size.
        strategy: What may be dropped.
        num_protected_nodes: How many nodes at the front of the batch are kept, by node type.
        generator: Chooses at random what to drop; without it the last ones go first.
    """
    protected = num_protected_nodes or {}
    before = table
    if strategy.trims_nodes:
        keep = {
            group: _keep_nodes(table, group, options, protected.get(group[1], 0), generator)
            for group in table.schema.groups
            if group[0] == NODE
        }
        table = _without_nodes(table, keep)
    if strategy.trims_edges:
        table = _filter(
            table, {g: _keep_edges(table, g, options, generator) for g in table.counts if g[0] == EDGE}
        )
    of_nodes, of_edges = (_total(before, level) for level in (NODE, EDGE))
    nodes, edges = of_nodes - _total(table, NODE), of_edges - _total(table, EDGE)
    return table, Trimmed(nodes, edges, int(nodes + edges > 0), of_nodes, of_edges, 1)


def nothing_trimmed(table: GraphTable, graphs: Tensor) -> Trimmed:
    """The report on a batch of some of the graphs that fits as it is."""
    of_nodes, of_edges = (
        sum(int(counts[graphs].sum()) for group, counts in table.counts.items() if group[0] == level)
        for level in (NODE, EDGE)
    )
    return Trimmed(of_nodes=of_nodes, of_edges=of_edges, of_batches=1)


def _total(table: GraphTable, level: str) -> int:
    return sum(int(counts.sum()) for group, counts in table.counts.items() if group[0] == level)


def _keep_nodes(
    table: GraphTable,
    group: Group,
    options: FixedSizeOptions,
    num_protected: int,
    generator: torch.Generator | None,
) -> Tensor:
    counts = table.counts[group]
    keep = torch.ones(int(counts.sum()), dtype=torch.bool)
    excess = len(keep) - largest_fill(group, options)
    if excess <= 0:
        return keep
    droppable = keep.clone()
    droppable[:num_protected] = False
    spare_one = counts > 0
    if generator is not None:
        spared = (torch.rand(len(counts), generator=generator) * counts).long()
    else:
        spared = torch.zeros_like(counts)
    droppable[(table.starts[group] + spared)[spare_one]] = False
    candidates = droppable.nonzero().squeeze(1)
    if len(candidates) < excess:
        what = "nodes" if group[1] is None else f"nodes of type {group[1]!r}"
        needed = len(keep) - len(candidates) + 1
        raise ValueError(
            f"Trimming cannot make the batch fit: of its {len(keep)} {what}, {len(keep) - len(candidates)} "
            "have to stay (one of each graph, and the seeds), but "
            f"num_nodes={options.budget(group)} leaves room for {largest_fill(group, options)}. Raise "
            f"num_nodes to at least {needed} or make smaller batches."
        )
    keep[_choose(candidates, excess, generator)] = False
    return keep


def _keep_edges(
    table: GraphTable, group: Group, options: FixedSizeOptions, generator: torch.Generator | None
) -> Tensor:
    keep = torch.ones(int(table.counts[group].sum()), dtype=torch.bool)
    excess = len(keep) - largest_fill(group, options)
    if excess > 0:
        keep[_choose(torch.arange(len(keep)), excess, generator)] = False
    return keep


def _choose(candidates: Tensor, number: int, generator: torch.Generator | None) -> Tensor:
    if generator is None:
        return candidates[len(candidates) - number :]
    return candidates[torch.randperm(len(candidates), generator=generator)[:number]]


def _without_nodes(table: GraphTable, keep: dict[Group, Tensor]) -> GraphTable:
    """Drops nodes, the edges that touch them, and numbers the others anew."""
    columns = list(table.columns)
    for position, field in enumerate(table.schema.fields):
        if position not in table.shifts or field.level == GRAPH:
            continue
        if table.shifts[position] is not None or field.level != EDGE:
            raise ValueError(
                f"Nodes cannot be dropped from graphs with the attribute '{field.name}', which refers to "
                f"nodes. Leave it out with exclude_keys=['{field.name}']."
            )
        ends = end_points(field.store)
        own = torch.repeat_interleave(torch.arange(table.num_graphs), table.counts[field.group])
        absolute = [columns[position][side] + table.starts[end][own] for side, end in enumerate(ends)]
        keep[field.group] = keep[ends[0]][absolute[0]] & keep[ends[1]][absolute[1]]
        numbers = [_numbers_within(table, end, keep[end])[at] for end, at in zip(ends, absolute)]
        columns[position] = torch.stack(numbers)
    return _filter(table._replace(columns=columns), keep)


def _numbers_within(table: GraphTable, group: Group, keep: Tensor) -> Tensor:
    """The new number of each kept node within its graph."""
    graph = torch.repeat_interleave(torch.arange(table.num_graphs), table.counts[group])
    kept = torch.zeros_like(table.counts[group]).index_add_(0, graph, keep.long())
    numbers = torch.zeros(len(keep), dtype=torch.long)
    numbers[keep] = within(kept)
    return numbers


def _filter(table: GraphTable, keep: dict[Group, Tensor]) -> GraphTable:
    counts, starts, columns = dict(table.counts), dict(table.starts), list(table.columns)
    for group, kept in keep.items():
        graph = torch.repeat_interleave(torch.arange(table.num_graphs), table.counts[group])
        counts[group] = torch.zeros_like(table.counts[group]).index_add_(0, graph, kept.long())
        starts[group] = counts[group].cumsum(0) - counts[group]
    for position, field in enumerate(table.schema.fields):
        if field.level != GRAPH and field.group in keep:
            rows = keep[field.group].nonzero().squeeze(1)
            columns[position] = columns[position].index_select(field.dim, rows)
    return table._replace(columns=columns, counts=counts, starts=starts)
