"""Which graphs go into which batch, worked out for a whole epoch before it begins."""

from __future__ import annotations

from bisect import bisect_right
from typing import NamedTuple, Sequence

import numpy as np
import torch
from torch import Tensor

from .options import FixedSizeOptions
from .packing import assign_packs
from .padding import kind_of, largest_fill
from .schema import EDGE, Group


class Plan(NamedTuple):
    """The mini-batches of an epoch.

    Args:
        graphs: The graphs in the order in which they come, ``[R]``.
        sizes: How many of them each mini-batch takes.
        skipped: Graphs left out because they do not fit.
        left_out: Graphs left out because too few remained for a combined batch.
    """

    graphs: Tensor
    sizes: list[int]
    skipped: int = 0
    left_out: int = 0

    def mini_batches(self) -> list[Tensor]:
        """The graphs of each mini-batch."""
        return list(self.graphs.split(self.sizes))


class Budgets(NamedTuple):
    """The sizes of graphs beside the room that a batch has for them. D node and edge types, G graphs.

    Args:
        groups: The node and edge types.
        sizes: Nodes or edges of each graph and type, ``[G, D]``.
        room: The most of each type that fits into a batch, ``[D]``.
        num_graphs: The most real graphs that fit into a batch.
    """

    groups: list[Group]
    sizes: Tensor
    room: Tensor
    num_graphs: int

    @classmethod
    def of(cls, counts: dict[Group, Tensor], options: FixedSizeOptions, keep_edge: bool) -> Budgets:
        """The budgets for graphs of these sizes; ``keep_edge`` reserves one edge of each type for padding."""
        groups = list(counts)
        room = [largest_fill(group, options) - int(keep_edge and group[0] == EDGE) for group in groups]
        sizes = torch.stack([counts[group] for group in groups], dim=1)
        return cls(groups, sizes, torch.tensor(room), options.num_graphs - 1)

    def too_large(self) -> Tensor:
        """Which graphs do not even fit alone, ``[G]``."""
        return (self.sizes > self.room).any(dim=1)

    def clipped(self) -> Budgets:
        """The same with every graph cut down to what fits."""
        return self._replace(sizes=torch.minimum(self.sizes, self.room))

    def check(self) -> None:
        """Raises if a graph does not fit alone."""
        graphs = self.too_large().nonzero()
        if len(graphs) == 0:
            return
        graph = int(graphs[0])
        column = int((self.sizes[graph] > self.room).nonzero()[0])
        group, size, room = self.groups[column], int(self.sizes[graph, column]), int(self.room[column])
        name = f"num_{group[0]}s"
        raise ValueError(
            f"Graph {graph} with {size} {kind_of(group)} does not fit: {name}={room + 1} leaves room for "
            f"{room} (at least one is padding). Raise {name} to at least {size + 1}, or choose another "
            f"over_size_strategy: OverSizeStrategy.Skip leaves out the {len(graphs)} graphs that are too "
            "large, TrimNodesAndEdges cuts them down."
        )


def pad_to_max(order: Tensor, graphs_per_batch: int, drop_last: bool = False) -> Plan:
    """The same number of graphs for every batch, in the given order; the last one takes what is left."""
    full, rest = divmod(len(order), graphs_per_batch)
    if drop_last or rest == 0:
        return Plan(order[: full * graphs_per_batch], [graphs_per_batch] * full)
    return Plan(order, [graphs_per_batch] * full + [rest])


def without_misfits(plan: Plan, budgets: Budgets) -> Plan:
    """Leaves out the graphs that no longer fit beside those before them in the same batch."""
    kept: list[int] = []
    sizes: list[int] = []
    for batch in plan.mini_batches():
        free = budgets.room.clone()
        before = len(kept)
        for graph in batch.tolist():
            if (budgets.sizes[graph] <= free).all():
                free -= budgets.sizes[graph]
                kept.append(graph)
        if len(kept) > before:
            sizes.append(len(kept) - before)
    return Plan(torch.tensor(kept, dtype=torch.long), sizes, plan.skipped + len(plan.graphs) - len(kept))


def stream_pack(order: Tensor, budgets: Budgets) -> Plan:
    """Graphs in the given order, a new batch as soon as the next one no longer fits."""
    totals = [[0, *column.tolist()] for column in budgets.sizes[order].cumsum(0).unbind(1)]
    room = budgets.room.tolist()
    sizes: list[int] = []
    start = 0
    while start < len(order):
        end = min(start + budgets.num_graphs, len(order))
        for total, most in zip(totals, room):
            end = min(end, bisect_right(total, total[start] + most, start, end + 1) - 1)
        sizes.append(end - start)
        start = end
    return Plan(order, sizes)


def pack(order: Tensor, budgets: Budgets) -> Plan:
    """Packs planned under all budgets at once; within a pack, graphs keep the given order."""
    if len(order) == 0:
        return Plan(order, [])
    sizes = torch.cat([budgets.sizes[order], torch.ones(len(order), 1, dtype=torch.long)], dim=1).numpy()
    packs = torch.from_numpy(assign_packs(sizes, np.append(budgets.room.numpy(), budgets.num_graphs)))
    return Plan(order[packs.argsort(stable=True)], packs.bincount().tolist())


def combined(plan: Plan, num_mini_batches: int, drop_last: bool) -> Plan:
    """Makes the number of mini-batches a multiple of what one combined batch takes.

    The remainder is split up so that no mini-batch is without a real graph: a mean loss over none would be
    NaN. If fewer graphs than mini-batches remain, they are left out.

    Args:
        plan: The mini-batches.
        num_mini_batches: Mini-batches in a combined batch.
        drop_last: Leave the remainder out in any case.
    """
    rest = len(plan.sizes) % num_mini_batches
    if rest == 0:
        return plan
    first, last = plan.sizes[: len(plan.sizes) - rest], plan.sizes[len(plan.sizes) - rest :]
    if not drop_last and sum(last) >= num_mini_batches:
        return plan._replace(sizes=first + _split_up(last, num_mini_batches))
    num_left = 0 if drop_last else sum(last)
    return plan._replace(graphs=plan.graphs[: sum(first)], sizes=first, left_out=num_left)


def _split_up(sizes: Sequence[int], parts: int) -> list[int]:
    """Halves the largest batches, in their places, until there are so many."""
    sizes = list(sizes)
    while len(sizes) < parts:
        at = sizes.index(max(sizes))
        sizes[at : at + 1] = [(sizes[at] + 1) // 2, sizes[at] // 2]
    return sizes
