"""Packing: which graphs share a batch so that hardly any of it is padding, from their sizes alone.

All packs are filled at the same time, one round of a graph for each pack after another, so that the work is
a few sorts of packs and not a search for every graph:

1. The first rounds deal graphs out in the order given. With a shuffled order, any two can meet.
2. The other graphs follow, those of odd sizes first. In each round the emptiest packs get the largest graphs.
   The odd sizes even out the differences between packs; in the end a graph of ordinary size is left for each
   pack, and each pack has just that much room.
3. What did not fit is put where it fits best, or into packs of its own.
"""

from __future__ import annotations

from typing import Iterator

import numpy as np

# Up to so many graphs, a plan costs so little that several are made and the best one is kept.
_FEW_GRAPHS = 2_000

# So many rounds at the end are enough to even out the packs; all before them deal graphs out as they come.
_MATCHED_ROUNDS = 20

# What share of the rounds at least deals graphs out in the order given, and how many packs are filled: the
# fewest possible times a factor, plus some more. From the fairest to the most frugal.
_MANY = ((0.25, 1.002, 0), (0.25, 1.005, 0), (0.1, 1.005, 0))
_FEW = tuple((share, 1.0, more) for share in (0.5, 0.25, *[0.1] * 10) for more in (0, 1))

# A plan is good enough within this factor of the fewest possible packs, or with one pack more; where graphs
# are few, not before so many attempts at the fewest themselves.
_GOOD_ENOUGH = 1.007
_EARNEST_ATTEMPTS = 6


def assign_packs(sizes: np.ndarray, room: np.ndarray) -> np.ndarray:
    """Assigns every graph to a pack under several budgets at once.

    The result depends on nothing but the arguments. Graphs early in the order are placed as they come.

    Args:
        sizes: What each graph takes of each budget: nodes, edges, and 1 for itself, ``[G, D]``.
        room: The budgets, ``[D]``. Every graph has to fit into them alone.

    Returns:
        The number of its pack for each graph, ``[G]``. Packs are numbered by their first graphs.
    """
    return _numbered_by_first(_best_attempt(sizes, room))


def _numbered_by_first(packs: np.ndarray) -> np.ndarray:
    first = np.full(packs.max() + 1, len(packs))
    first[packs[::-1]] = np.arange(len(packs))[::-1]
    rank = np.empty(len(first), dtype=np.int64)
    rank[np.argsort(first, kind="stable")] = np.arange(len(first))
    return rank[packs]


def _best_attempt(sizes: np.ndarray, room: np.ndarray) -> np.ndarray:
    best = None
    fewest = fewest_packs(sizes, room)
    earnest_attempts = _EARNEST_ATTEMPTS if len(sizes) <= _FEW_GRAPHS else 0
    for attempt, (order, share, num_packs) in enumerate(_attempts(sizes, fewest)):
        packs = np.empty(len(sizes), dtype=np.int64)
        packs[order] = _Packs(sizes[order], room, num_packs).fill(share)
        best = packs if best is None or packs.max() < best.max() else best
        if best.max() + 1 <= max(fewest * _GOOD_ENOUGH, fewest + (attempt >= earnest_attempts)):
            break
    return best


def fewest_packs(sizes: np.ndarray, room: np.ndarray) -> int:
    """A lower bound on the number of packs: no budget can be filled more than completely."""
    return max(int(np.ceil((sizes.sum(axis=0) / room).max() - 1e-9)), 1)


def _attempts(sizes: np.ndarray, fewest: int) -> Iterator[tuple[np.ndarray, float, int]]:
    """Orders of the graphs, shares of rounds in that order, and numbers of packs to try."""
    order = np.arange(len(sizes))
    rng = np.random.default_rng(len(sizes))
    for share, factor, more in _FEW if len(sizes) <= _FEW_GRAPHS else _MANY:
        yield order, share, int(np.ceil(fewest * factor)) + more
        order = np.concatenate([order[:2], rng.permutation(order[2:])])


class _Packs:
    """Packs that are being filled.

    Args:
        sizes: What each graph takes of each budget, ``[G, D]``.
        room: The budgets, ``[D]``.
        num_packs: How many packs to begin with.
    """

    def __init__(self, sizes: np.ndarray, room: np.ndarray, num_packs: int) -> None:
        self._sizes, self._room = sizes, room
        self._free = np.tile(room, (num_packs, 1))
        self._pack_of = np.full(len(sizes), -1, dtype=np.int64)
        # How much each budget matters: the fullest ones decide.
        filled = sizes.sum(axis=0) / room
        self._weight = (filled / filled.max()) ** 4 / room

    def fill(self, share: float) -> np.ndarray:
        """Places all graphs, that share of the rounds in the order given, and returns their packs ``[G]``."""
        self._match(self._deal(np.arange(len(self._sizes)), share))
        self._squeeze_in()
        self._best_fit(np.flatnonzero(self._pack_of < 0))
        return _numbered_by_first(self._pack_of)

    def _place(self, graphs: np.ndarray, packs: np.ndarray) -> None:
        """Puts each graph into the pack beside it, if it fits; no pack comes twice."""
        fits = (self._sizes[graphs] <= self._free[packs]).all(axis=1)
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
        fits = (sizes.cumsum(axis=0) <= self._free).all(axis=2)
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

    def _squeeze_in(self) -> None:
        """While many graphs are left over, puts the largest of them into the emptiest packs, all at once."""
        num_left = len(self._sizes) + 1
        rest = np.flatnonzero(self._pack_of < 0)
        while _FEW_GRAPHS < len(rest) < num_left:
            num_left = len(rest)
            rest = rest[np.argsort(-(self._sizes[rest] @ self._weight), kind="stable")]
            packs = np.argsort(-(self._free @ self._weight), kind="stable")
            number = min(len(rest), len(packs))
            self._place(rest[:number], packs[:number])
            rest = np.flatnonzero(self._pack_of < 0)

    def _best_fit(self, graphs: np.ndarray) -> None:
        """Puts graphs, the largest first, into the pack that they fill best, or into a new one."""
        if len(graphs) == 0:
            return
        graphs = graphs[np.argsort(-(self._sizes[graphs] / self._room).max(axis=1), kind="stable")]
        # Most packs are too full for even the smallest of these graphs.
        open_packs = np.flatnonzero((self._free >= self._sizes[graphs].min(axis=0)).all(axis=1))
        numbers = np.concatenate([open_packs, len(self._free) + np.arange(len(graphs))])
        free = np.concatenate([self._free[open_packs], np.tile(self._room, (len(graphs), 1))])
        num_open = len(open_packs)
        for graph in graphs:
            left = free[:num_open] - self._sizes[graph]
            fitting = np.flatnonzero((left >= 0).all(axis=1))
            at = fitting[np.argmin(left[fitting] @ (1 / self._room))] if len(fitting) else num_open
            num_open = max(num_open, at + 1)
            self._pack_of[graph] = numbers[at]
            free[at] -= self._sizes[graph]


def _main_direction(points: np.ndarray) -> np.ndarray:
    """The direction ``[D]`` in which points ``[P, D]`` differ most."""
    centred = points - points.mean(axis=0)
    return np.linalg.eigh(centred.T @ centred)[1][:, -1]
