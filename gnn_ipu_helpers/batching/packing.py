"""Packing: which graphs share a batch so that hardly any of it is padding, from their sizes alone.

All packs are filled at the same time, one round of a graph for each pack after another, so that the work is
a few sorts of packs and not a search for every graph:

1. The first rounds deal graphs out in the order given. With a shuffled order, any two can meet.
2. The other graphs follow, those of odd sizes first. In each round the emptiest packs get the largest graphs.
   The odd sizes even out the differences between packs; in the end a graph of ordinary size is left for each
   pack, and each pack has just that much room.
3. What did not fit is exchanged: a pack gives a graph away and takes one or two that fill it better.
4. What is still left is put where it fits best, or into packs of its own.
"""

from __future__ import annotations

from typing import Any, Iterator, NamedTuple

import numpy as np
from torch import Tensor

from .graphs import EDGE, NODE, Group

# Below this many graphs, planning is cheap enough to try several plans and keep the best.
_FEW_GRAPHS = 2_000

# This many rounds at the end are enough to even out the packs; all before them deal graphs out as they come.
_MATCHED_ROUNDS = 20

# What share of the rounds at least deals graphs out in the order given, and how many packs more than the
# fewest possible are filled. From the fairest to the most frugal.
_FEW = tuple((share, more) for share in (0.5, 0.25, *[0.1] * 10) for more in (0, 1))

# A plan is good enough within this factor of the fewest possible packs, or with one pack more; where graphs
# are few, not before so many attempts at the fewest themselves.
_GOOD_ENOUGH = 1.005
_EARNEST_ATTEMPTS = 6

# Exchanges: how many packs are looked at in a round, how many rounds there are at most, and after how many
# rounds without any exchange it is given up.
_PACKS_AT_ONCE = 1_000
_MOST_ROUNDS = 600
_IDLE_ROUNDS = 30


# How much more room than the average graphs need is tried out for the budgets that are not wished for.
_SLACK = (0.005, 0.01, 0.02, 0.03, 0.05, 0.08, 0.12, 0.2, 0.3, 0.5)

# Budgets are tried out on this many graphs, in several orders: one alone can be lucky.
_TRIED_ON = 4_000
_ORDERS = 3


def fewest_packs(sizes: np.ndarray, room: np.ndarray) -> int:
    """A lower bound on the number of packs that any plan needs.

    No budget can be filled more than completely, and graphs larger than half of it cannot share a pack (the
    bound L2 of Martello and Toth, for each budget by itself).

    Args:
        sizes: What each graph takes of each budget, `[G, D]`.
        room: The budgets, `[D]`.
    """
    return max([_fewest(column, int(most)) for column, most in zip(sizes.T, room)], default=1)


def _fewest(sizes: np.ndarray, room: int) -> int:
    """The bound for one budget: graphs of sizes `[G]` and the room of a pack."""
    if room <= 0 or not sizes.any():
        return 1
    of_size = np.bincount(sizes, minlength=room + 1)
    # How many graphs are at most that large, and what they take together.
    number, total = of_size.cumsum(), (of_size * np.arange(len(of_size))).cumsum()
    # Leave out graphs smaller than a threshold. Those that leave no room for the others stay alone, and those
    # larger than half a pack are in different packs, so that the others have to share the room beside them.
    threshold = np.arange(room // 2 + 1)
    smaller = np.append(0, total[: room // 2])
    apart = number[room - threshold] - number[room // 2]
    too_much = total[room - threshold] - smaller - apart * room
    bound = len(sizes) - number[room // 2] + np.maximum(-(-too_much // room), 0)
    return max(int(bound.max()), 1)


def assign_packs(sizes: np.ndarray, room: np.ndarray, thorough: bool = False) -> np.ndarray:
    """Assigns every graph to a pack under several budgets at once.

    The result depends on nothing but the arguments. Graphs early in the order are placed as they come.

    Args:
        sizes: What each graph takes of each budget: nodes, edges, and 1 for itself, `[G, D]`.
        room: The budgets, `[D]`. Every graph has to fit into them alone.
        thorough: Look for the fewest packs, though graphs then meet less freely.

    Returns:
        The number of its pack for each graph, `[G]`. Packs are numbered by their first graphs.
    """
    used = sizes.any(axis=0)
    sizes, room = sizes[:, used], room[used]
    fewest = fewest_packs(sizes, room)
    few = len(sizes) <= _FEW_GRAPHS
    enough = fewest + 1 if thorough else max(int(fewest * _GOOD_ENOUGH), fewest + 1)
    best: Any = None
    for attempt, (order, share, num_packs) in enumerate(_attempts(len(sizes), fewest, enough)):
        if best is not None and num_packs > best.max():
            continue  # No fewer than there are already.
        packs = np.empty(len(sizes), dtype=np.int64)
        packs[order] = _Packs(sizes[order], room, num_packs).fill(share, enough)
        best = packs if best is None or packs.max() < best.max() else best
        if best.max() + 1 <= (fewest if few and attempt < _EARNEST_ATTEMPTS else enough):
            break
    if thorough and few and best.max() + 1 > fewest:
        packs = _Packs(sizes, room, fewest).best_fit(np.arange(len(sizes)))
        best = packs if packs.max() < best.max() else best
    return _numbered_by_first(best)


def _attempts(num_graphs: int, fewest: int, enough: int) -> Iterator[tuple[np.ndarray, float, int]]:
    """Orders of the graphs, shares of rounds in that order, and numbers of packs to try."""
    order = np.arange(num_graphs)
    if num_graphs > _FEW_GRAPHS:
        # What is left over when these packs are full goes into the others that are allowed.
        for share, part in ((0.25, 0.8), (0.1, 0.6)):
            yield order, share, fewest + int((enough - 1 - fewest) * part)
        return
    rng = np.random.default_rng(num_graphs)
    for share, more in _FEW:
        yield order, share, fewest + more
        order = np.concatenate([order[:2], rng.permutation(order[2:])])


def _numbered_by_first(packs: np.ndarray) -> np.ndarray:
    first = np.full(packs.max() + 1, len(packs))
    first[packs[::-1]] = np.arange(len(packs))[::-1]
    first = first[first < len(packs)]
    rank = np.empty(packs.max() + 1, dtype=np.int64)
    rank[packs[np.sort(first)]] = np.arange(len(first))
    return rank[packs]


class _Packs:
    """Packs that are being filled.

    Args:
        sizes: What each graph takes of each budget, `[G, D]`.
        room: The budgets, `[D]`.
        num_packs: How many packs to begin with.
    """

    def __init__(self, sizes: np.ndarray, room: np.ndarray, num_packs: int) -> None:
        self._sizes, self._room = sizes, room
        self._free = np.tile(room, (num_packs, 1))
        self._pack_of = np.full(len(sizes), -1, dtype=np.int64)
        # How much each budget matters: the fullest ones decide.
        filled = sizes.sum(axis=0) / room
        self._weight = (filled / filled.max()) ** 16 / room

    def fill(self, share: float, enough: int) -> np.ndarray:
        """Places all graphs and returns their packs `[G]`.

        Args:
            share: What share of the rounds deals graphs out in the order given.
            enough: How many packs are few enough.
        """
        self._match(self._deal(np.arange(len(self._sizes)), share))
        self._exchange(enough - len(self._free))
        return self.best_fit(np.flatnonzero(self._pack_of < 0))

    def _place(self, graphs: np.ndarray, packs: np.ndarray) -> None:
        """Puts each graph into the pack beside it, if it fits; no pack comes twice."""
        fits = _all_fit(self._free[packs] - self._sizes[graphs])
        self._pack_of[graphs[fits]] = packs[fits]
        self._free[packs[fits]] -= self._sizes[graphs[fits]]

    def _deal(self, graphs: np.ndarray, share: float) -> np.ndarray:
        """Deals out the first graphs as they come; returns the others."""
        # The first two share a pack, so that there are no two graphs that never meet.
        for graph in graphs[:2]:
            self._place(graph[None], np.zeros(1, dtype=np.int64))
        graphs = graphs[2:]
        num_packs, num_rounds = len(self._free), len(graphs) // len(self._free)
        num_dealt = max(int(num_rounds * share), num_rounds - 1 - _MATCHED_ROUNDS)
        rounds = graphs[: num_dealt * num_packs].reshape(num_dealt, num_packs)
        sizes = self._sizes[rounds]
        fits = _all_fit(self._free - sizes.cumsum(axis=0))
        packs = np.broadcast_to(np.arange(num_packs), rounds.shape)
        self._pack_of[rounds[fits]] = packs[fits]
        self._free -= (sizes * fits[..., None]).sum(axis=0)
        return graphs[rounds.size :]

    def _match(self, graphs: np.ndarray) -> None:
        """Deals out graphs so that all packs get full: the emptiest packs get the largest graphs."""
        if len(graphs) == 0:
            return
        odd = ((self._sizes[graphs] - self._sizes[graphs].mean(axis=0)) * self._weight) ** 2
        graphs = graphs[np.argsort(-odd.sum(axis=1), kind="stable")]
        shares = self._num_graphs_to_come(len(graphs))
        for left in range(shares.max(), 0, -1):
            packs = np.flatnonzero(shares >= left)
            round_, graphs = graphs[: len(packs)], graphs[len(packs) :]
            direction = _main_direction(self._free[packs] * self._weight) * self._weight
            packs = packs[np.argsort(-(self._free[packs] @ direction), kind="stable")]
            self._place(round_[np.argsort(-(self._sizes[round_] @ direction), kind="stable")], packs)

    def _num_graphs_to_come(self, num_graphs: int) -> np.ndarray:
        """Shares graphs out among the packs by how empty they are."""
        empty = np.maximum(self._free @ self._weight, 1e-12)
        exact = empty * (num_graphs / empty.sum())
        shares = np.floor(exact).astype(np.int64)
        shares[np.argsort(shares - exact, kind="stable")[: num_graphs - shares.sum()]] += 1
        return shares

    def _exchange(self, more_packs: int) -> None:
        """Exchanges graphs of packs for left-over ones that fill the packs better.

        It ends when what is left over should fit into so many packs more.
        """
        left = np.flatnonzero(self._pack_of < 0)
        if len(left) == 0:
            return
        rng, weight = np.random.default_rng(len(left)), self._weight
        members, slots = self._members()
        # An empty slot holds no graph, of size 0: the last row.
        sizes = np.concatenate([self._sizes, np.zeros((1, self._sizes.shape[1]), dtype=np.int64)])
        worth, idle = sizes @ weight, 0
        for round_ in range(_MOST_ROUNDS):
            if len(left) == 0 or idle == _IDLE_ROUNDS or self._is_little(left, more_packs):
                return
            open_packs = np.flatnonzero((self._free @ weight > 1e-9) & (slots < members.shape[1] - 1))
            packs = rng.permutation(open_packs)[:_PACKS_AT_ONCE]
            left = rng.permutation(left)
            # One left-over graph for each pack, or two, which makes the left-over ones fewer.
            if round_ % 2 and len(left) > 1:
                offers = left[: len(left) // 2 * 2].reshape(-1, 2)
            else:
                offers = np.stack([left, np.full(len(left), -1)], axis=1)
            at = np.arange(len(packs)) % len(offers)
            offered = sizes[offers[at]].sum(axis=1)
            # What is free in each pack when it gives away this graph, or (in the last place) none.
            given = np.concatenate([members[packs], np.full((len(packs), 1), -1)], axis=1)
            free = self._free[packs][:, None] + sizes[given] - offered[:, None]
            gain = (offered @ weight)[:, None] - worth[given]
            # Two for one is worth something even if it fills the pack no better.
            gain += 1e-9 * (offers[at, 1:] >= 0)
            gain[~_all_fit(free) | (gain < 1e-12)] = 0
            # An empty slot gives nothing away, as the last place does.
            gain[:, :-1][given[:, :-1] < 0] = 0
            choice = gain.argmax(axis=1)
            best = gain[np.arange(len(packs)), choice]
            # Each offer goes to the pack that gains most by it.
            order = np.argsort(-best, kind="stable")
            order = order[best[order] > 0]
            _, first = np.unique(at[order], return_index=True)
            chosen = order[first]
            idle = 0 if len(chosen) else idle + 1
            if len(chosen) == 0:
                continue
            packs, choice, taken = packs[chosen], choice[chosen], offers[at[chosen]]
            away = given[chosen, choice]
            self._free[packs] = free[chosen, choice]
            self._pack_of[taken[:, 0]] = packs
            second = taken[:, 1] >= 0
            self._pack_of[taken[second, 1]] = packs[second]
            self._pack_of[away[away >= 0]] = -1
            # The first graph takes the slot that was left, or a new one; the second one a new one.
            new = away < 0
            place = np.where(new, slots[packs], choice)
            members[packs, place] = taken[:, 0]
            slots[packs] += new
            rows = packs[second]
            members[rows, slots[rows]] = taken[second, 1]
            slots[rows] += 1
            left = np.flatnonzero(self._pack_of < 0)

    def _members(self) -> tuple[np.ndarray, np.ndarray]:
        """The graphs of each pack in slots, some of which stay free (-1), and how many slots are taken."""
        placed = np.flatnonzero(self._pack_of >= 0)
        placed = placed[np.argsort(self._pack_of[placed], kind="stable")]
        slots = np.bincount(self._pack_of[placed], minlength=len(self._free))
        members = np.full((len(self._free), slots.max() + 4), -1, dtype=np.int64)
        at = np.arange(len(placed)) - np.repeat(np.cumsum(slots) - slots, slots)
        members[self._pack_of[placed], at] = placed
        return members, slots

    def _is_little(self, graphs: np.ndarray, num_packs: int) -> bool:
        """Whether graphs should fit into so many packs, most of which cannot be filled completely."""
        needed = (self._sizes[graphs].sum(axis=0) / self._room).max()
        return needed <= (num_packs if num_packs <= 1 else 0.9 * num_packs)

    def best_fit(self, graphs: np.ndarray) -> np.ndarray:
        """Puts graphs, the largest first, where they fit best, or into new packs; returns all packs `[G]`."""
        if len(graphs) == 0:
            return _numbered_by_first(self._pack_of)
        graphs = graphs[np.argsort(-(self._sizes[graphs] / self._room).max(axis=1), kind="stable")]
        # Most packs are too full for even the smallest of these graphs.
        open_packs = np.flatnonzero(_all_fit(self._free - self._sizes[graphs].min(axis=0)))
        numbers = np.concatenate([open_packs, len(self._free) + np.arange(len(graphs))])
        free = np.concatenate([self._free[open_packs], np.tile(self._room, (len(graphs), 1))])
        num_open = len(open_packs)
        for graph in graphs:
            left = free[:num_open] - self._sizes[graph]
            fitting = np.flatnonzero(_all_fit(left))
            at = fitting[np.argmin(left[fitting] @ (1 / self._room))] if len(fitting) else num_open
            num_open = max(num_open, at + 1)
            self._pack_of[graph] = numbers[at]
            free[at] -= self._sizes[graph]
        return _numbered_by_first(self._pack_of)


def _all_fit(free: np.ndarray) -> np.ndarray:
    """Where nothing is below zero, `[..., D]` to `[...]`: NumPy's `all` is slow along so short an axis."""
    fits = free[..., 0] >= 0
    for budget in range(1, free.shape[-1]):
        fits &= free[..., budget] >= 0
    return fits


def _main_direction(points: np.ndarray) -> np.ndarray:
    """The direction `[D]` in which points `[P, D]` differ most."""
    centred = points - points.mean(axis=0)
    return np.linalg.eigh(centred.T @ centred)[1][:, -1]


# -- choosing the budgets ------------------------------------------------------------------------------------


class Choice(NamedTuple):
    """Budgets for real graphs, without padding."""

    room: dict[Group, int]  # nodes or edges of each type
    num_graphs: int  # graphs
    explanation: str  # why these


def choose_budgets(
    sizes: dict[Group, Tensor], num_nodes: int | None = None, num_graphs: int | None = None
) -> Choice:
    """Finds the budgets with the smallest padded epoch for a wished number of nodes or of graphs in a pack.

    Args:
        sizes: Nodes and edges of each graph, `[G]` for each type.
        num_nodes: Wished real nodes in a pack, of all types together.
        num_graphs: Wished real graphs in a pack.
    """
    groups = list(sizes)
    each = np.ones(len(sizes[groups[0]]), dtype=np.int64)
    table = np.stack([*(sizes[group].numpy() for group in groups), each], axis=1)
    nodes = np.array([group[0] == NODE for group in groups] + [False])
    edges = np.array([group[0] == EDGE for group in groups] + [False])
    fixed = np.zeros(table.shape[1], dtype=bool)
    if num_nodes is not None:
        all_nodes = table[:, nodes].sum(axis=1)
        largest = int(all_nodes.argmax())
        if all_nodes[largest] > num_nodes:
            raise ValueError(
                f"num_nodes={num_nodes + 1} leaves room for {num_nodes} real nodes, but graph {largest} has "
                f"{all_nodes[largest]}. Give at least num_nodes={all_nodes[largest] + 1}."
            )
        average = num_nodes / all_nodes.mean() * table.mean(axis=0)
        fixed |= nodes & (nodes.sum() == 1)
    else:
        average = num_graphs * table.mean(axis=0)
        fixed[-1] = True
    rng = np.random.default_rng(0)
    orders = [rng.permutation(len(table))[:_TRIED_ON] for _ in range(_ORDERS)]
    budgets = []
    for slack in _SLACK:
        # What is wished for has no slack.
        room = np.where(fixed, np.rint(average), np.ceil(average * (1 + slack))).astype(np.int64)
        room = np.maximum(room, table.max(axis=0))
        packs_needed = sum(assign_packs(table[order], room).max() + 1 for order in orders)
        budgets.append((packs_needed * (room[:-1] + 1).sum(), tuple(room)))
    room = np.array(min(budgets)[1])
    num_packs = assign_packs(table, room).max() + 1
    real = [table[:, kind].sum() / (num_packs * (room + 1)[kind].sum()) for kind in (nodes, edges)]
    explanation = (
        f"{len(table)} graphs of {table[:, nodes].sum() / len(table):.1f} nodes and "
        f"{table[:, edges].sum() / len(table):.1f} edges on average, about {len(table) / num_packs:.1f} to a "
        f"batch, take {num_packs} batches (no plan takes fewer than {fewest_packs(table, room)}), in which "
        f"{real[0]:.1%} of nodes and {real[1]:.1%} of edges are real"
    )
    return Choice(dict(zip(groups, room[:-1].tolist())), int(room[-1]), explanation)
