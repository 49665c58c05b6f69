"""Which graphs go into which batch, worked out for a whole epoch before it begins."""

from __future__ import annotations

from typing import Any, Dict, Iterator, NamedTuple, Sequence, Union

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Sampler

from .graphs import EDGE, NODE, Group, kind_of, read_graphs
from .options import FixedSizeOptions, OverSizeStrategy, whole_number
from .packing import assign_packs


class Plan(NamedTuple):
    """The mini-batches of an epoch."""

    graphs: Tensor  # in the order in which they come, [R]
    sizes: list[int]  # how many of them each mini-batch takes
    skipped: int = 0  # graphs that do not fit
    left_out: int = 0  # graphs too few for a combined batch

    def mini_batches(self) -> list[Tensor]:
        """The graphs of each mini-batch."""
        return list(self.graphs.split(self.sizes))


def share(batches: Sequence[Any], process: int, num_processes: int, num_replicas: int = 1) -> list[Any]:
    """The mini-batches of one process of several: of those that all replicas take at once, its own.

    Step by step, the processes together see what one process with as many more replicas would see.
    """
    first, block = process * num_replicas, num_replicas * num_processes
    own = [range(at + first, at + first + num_replicas) for at in range(0, len(batches), block)]
    return [batches[place] for places in own for place in places]


class Budgets(NamedTuple):
    """The sizes of graphs beside the room that a batch has for them. D node and edge types, G graphs."""

    groups: list[Group]  # node and edge types
    sizes: Tensor  # of each graph and type, [G, D]
    room: Tensor  # the most of each type that fits into a batch, [D]
    num_graphs: int  # the most real graphs in a batch

    @classmethod
    def of(cls, counts: dict[Group, Tensor], options: FixedSizeOptions, keep_edge: bool) -> Budgets:
        """The budgets for graphs of these sizes; `keep_edge` reserves one edge of each type for padding."""
        groups = list(counts)
        room = torch.tensor([options.room(group, keep_edge) for group in groups])
        sizes = torch.stack([counts[group] for group in groups], dim=1)
        return cls(groups, sizes, room, options.num_graphs - 1)

    def too_large(self) -> Tensor:
        """Which graphs do not even fit alone, `[G]`."""
        return (self.sizes > self.room).any(dim=1)

    def clipped(self) -> Budgets:
        """The same with every graph cut down to what fits."""
        return self._replace(sizes=torch.minimum(self.sizes, self.room))

    def check(self, reserved: bool = True) -> None:
        """Raises if a graph does not fit alone; `reserved` says that room is kept for padding."""
        graphs = self.too_large().nonzero()
        if len(graphs) == 0:
            return
        graph = int(graphs[0])
        column = int((self.sizes[graph] > self.room).nonzero()[0])
        group, size, room = self.groups[column], int(self.sizes[graph, column]), int(self.room[column])
        name, more = f"num_{group[0]}s", int(reserved)
        padding, trimming = (
            (" (at least one is padding)", ", TrimNodesAndEdges cuts them down") if reserved else ("", "")
        )
        raise ValueError(
            f"Graph {graph} with {size} {kind_of(group)} does not fit: {name}={room + more} leaves room for "
            f"{room}{padding}. Raise {name} to at least {size + more}, or choose another over_size_strategy: "
            f"OverSizeStrategy.Skip leaves out the {len(graphs)} graphs that are too large{trimming}."
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
    """Graphs in the given order, a new batch as soon as the next one no longer fits.

    As in PopTorch Geometric, it does not fit either if it would leave a padding graph without a node or an
    edge; unless it is alone.
    """
    nodes, edges = (torch.tensor([group[0] == level for group in budgets.groups]) for level in (NODE, EDGE))
    # Limits on the nodes and edges of each type, on the graphs, and on what is left for padding graphs.
    limits = [*budgets.room.tolist(), budgets.num_graphs]
    columns = [*budgets.sizes[order].unbind(1), torch.ones(len(order), dtype=torch.long)]
    for kind in (nodes, edges):
        limits.append(int(budgets.room[kind].sum()) - budgets.num_graphs)
        columns.append(budgets.sizes[order][:, kind].sum(1) - 1)
    sizes: list[int] = []
    used = [0] * len(limits)
    for graph in torch.stack(columns, dim=1).tolist():
        with_graph = [before + size for before, size in zip(used, graph)]
        if sizes and all(total <= most for total, most in zip(with_graph, limits)):
            sizes[-1] += 1
            used = with_graph
        else:
            sizes.append(1)
            used = graph
    return Plan(order, sizes)


def pack(order: Tensor, budgets: Budgets, thorough: bool = False) -> Plan:
    """Packs planned under all budgets at once; within a pack, graphs keep the given order.

    Args:
        order: The graphs.
        budgets: Their sizes and the room of a pack.
        thorough: Look for the fewest packs. For an order that is not shuffled, in which it does not matter
            that graphs meet the same others every time.
    """
    if len(order) == 0:
        return Plan(order, [])
    each = torch.ones(len(order), 1, dtype=torch.long)
    sizes = torch.cat([budgets.sizes[order], each], dim=1).numpy()
    room = np.append(budgets.room.numpy(), budgets.num_graphs)
    packs = assign_packs(sizes, room, thorough)
    # Short numbers are sorted in a tenth of the time.
    by_pack = packs.astype(np.min_scalar_type(packs.max())).argsort(kind="stable")
    return Plan(order[by_pack], np.bincount(packs).tolist())


def combined(plan: Plan, num_mini_batches: int, drop_last: bool, num_processes: int = 1) -> Plan:
    """Makes the number of mini-batches a multiple of what one step takes, a combined batch in each process.

    The remainder is split up so that no mini-batch is without a real graph: a mean loss over none would be
    NaN. If fewer graphs than mini-batches remain, one process leaves them out; several split up other
    mini-batches as well, so that each graph comes in one of them.

    Args:
        plan: The mini-batches.
        num_mini_batches: Mini-batches in a combined batch.
        drop_last: Leave the remainder out in any case.
        num_processes: How many processes share the epoch.
    """
    block = num_mini_batches * num_processes
    rest = len(plan.sizes) % block
    if rest == 0:
        return plan
    first, last = plan.sizes[: len(plan.sizes) - rest], plan.sizes[len(plan.sizes) - rest :]
    if not drop_last and sum(last) >= block:
        return plan._replace(sizes=first + _split_up(last, block))
    if not drop_last and num_processes > 1 and len(plan.graphs) >= len(first) + block:
        return plan._replace(sizes=_split_up(plan.sizes, len(first) + block))
    num_left = 0 if drop_last else sum(last)
    return plan._replace(graphs=plan.graphs[: sum(first)], sizes=first, left_out=num_left)


def _split_up(sizes: Sequence[int], parts: int) -> list[int]:
    """Halves the largest batches, in their places, until there are so many."""
    sizes = list(sizes)
    while len(sizes) < parts:
        at = sizes.index(max(sizes))
        sizes[at : at + 1] = [(sizes[at] + 1) // 2, sizes[at] // 2]
    return sizes


Limit = Union[None, int, Dict[Any, int]]


class PackSampler(Sampler):
    """Plans batches under limits on nodes, edges and graphs at once, for PyG's own `DataLoader`.

    The batches are full as `FixedSizeStrategy.Pack` makes them, but without any padding. All of them are
    known before an epoch begins, so that the loader has a length, which may differ a little from epoch to
    epoch.

    Args:
        dataset: The graphs. Their sizes are read once, from the slices of an in-memory dataset.
        num_nodes: The most nodes of a batch; a dictionary for the nodes of each type.
        num_edges: The most edges of a batch; a dictionary for the edges of each type.
        num_graphs: The most graphs of a batch.
        shuffle: A new order, and so new batches, every epoch. Without it, the batches are the fewest that can
            be found and the same every time.
        seed: Decides the orders of all epochs.
        over_size_strategy: What happens to graphs that do not fit alone: `Error` or `Skip`.
        num_replicas: How many processes share each epoch, in equal numbers of batches.
        rank: Which of them this is.

    Example:
        >>> from torch_geometric.data import Data
        >>> graphs = [Data(num_nodes=nodes, edge_index=torch.zeros(2, 0).long()) for nodes in (6, 5, 4, 3, 2)]
        >>> list(PackSampler(graphs, num_nodes=10))
        [[0, 2], [1, 3, 4]]
    """

    def __init__(
        self,
        dataset: Any,
        num_nodes: Limit = None,
        num_edges: Limit = None,
        num_graphs: int | None = None,
        shuffle: bool = False,
        seed: int = 0,
        over_size_strategy: OverSizeStrategy = OverSizeStrategy.Error,
        num_replicas: int = 1,
        rank: int = 0,
    ) -> None:
        if num_nodes is None and num_edges is None and num_graphs is None:
            raise ValueError("PackSampler needs at least one limit: num_nodes, num_edges or num_graphs.")
        whole_number("seed", seed)
        whole_number("num_replicas", num_replicas, least=1)
        if whole_number("rank", rank) not in range(num_replicas):
            raise ValueError(
                f"rank should lie between 0 and num_replicas - 1, {num_replicas - 1} (got {rank})."
            )
        strategy = OverSizeStrategy(over_size_strategy)
        if strategy.trims:
            raise ValueError(
                "PackSampler leaves graphs whole: over_size_strategy should be Error or Skip (got "
                f"{strategy})."
            )
        counts = read_graphs(dataset).counts
        self._budgets = _limits(counts, {NODE: num_nodes, EDGE: num_edges}, num_graphs)
        self._num_graphs = len(dataset)
        self._shuffle, self._seed, self._epoch = shuffle, seed, 0
        self._processes = (rank, num_replicas)
        self._plan: Plan | None = None
        self._running: Plan | None = None
        if strategy == OverSizeStrategy.Error:
            self._budgets.check(reserved=False)
        self._fitting = (~self._budgets.too_large()).nonzero().squeeze(1)
        if len(self._fitting) == 0:
            raise ValueError(
                f"All {len(dataset)} graphs would be skipped: none of them fits into the limits."
            )

    def set_epoch(self, epoch: int) -> None:
        """Makes the next epoch the one of this number, as after an interruption."""
        if whole_number("epoch", epoch) != self._epoch:
            self._epoch, self._plan = epoch, None

    def _current(self) -> Plan:
        """The plan of the epoch that comes next."""
        if self._plan is None:
            order = self._fitting
            if self._shuffle:
                random = torch.Generator().manual_seed(self._seed + self._epoch)
                order = order[torch.randperm(len(order), generator=random)]
            plan = pack(order, self._budgets, thorough=not self._shuffle)
            self._plan = combined(plan, 1, drop_last=False, num_processes=self._processes[1])
        return self._plan

    def __len__(self) -> int:
        """The number of batches of the running epoch, or of the next one if none is running."""
        return len((self._running or self._current()).sizes) // self._processes[1]

    def __iter__(self) -> Iterator[list[int]]:
        plan = self._running = self._current()
        if self._shuffle:
            self.set_epoch(self._epoch + 1)
        try:
            yield from (batch.tolist() for batch in share(plan.mini_batches(), *self._processes))
        finally:
            if self._running is plan:
                self._running = None


def _limits(counts: dict[Group, Tensor], limits: dict[str, Limit], num_graphs: int | None) -> Budgets:
    """The sizes that are limited, and their limits; one number limits all types of a level together."""
    groups, sizes, room = [], [], []
    for level, limit in limits.items():
        known = {key: count for (at, key), count in counts.items() if at == level}
        if isinstance(limit, dict):
            unknown = [key for key in limit if key not in known]
            if unknown:
                raise ValueError(
                    f"num_{level}s names {unknown}, which are no {level} types of the dataset: {list(known)}."
                )
            each = {(level, key): (known[key], most) for key, most in limit.items()}
        else:
            total_size: Any = sum(known.values())
            each = {} if limit is None else {(level, None): (total_size, limit)}
        for group, (size, most) in each.items():
            groups.append(group)
            sizes.append(size)
            room.append(whole_number(f"num_{level}s", most, least=1))
    total = len(next(iter(counts.values())))
    if num_graphs is not None:
        whole_number("num_graphs", num_graphs, least=1)
    table = torch.stack(sizes, dim=1) if sizes else torch.zeros(total, 0, dtype=torch.long)
    return Budgets(groups, table, torch.tensor(room, dtype=torch.long), num_graphs or total)
