"""What stand-ins are drawn from: random integers that are the same everywhere, and the originals' sizes."""

from __future__ import annotations

from pathlib import Path
from typing import Sequence, Union

import numpy as np

_HALF = np.uint64(32)
Bound = Union[int, np.ndarray]


class RandomIntegers:
    """A stream of random integers that leaves global generators alone.

    NumPy promises to keep the raw bits of a seeded PCG64, but not what its `Generator` makes of them; so only
    the raw bits are used here, in integer arithmetic.
    """

    def __init__(self, seed: int):
        self._bits = np.random.PCG64(seed)

    def below(self, bound: Bound, size: int) -> np.ndarray:
        """`size` integers, int64, from 0 up to but without `bound` (one number, or one per draw)."""
        high = self._bits.random_raw(size) >> _HALF
        return ((high * np.asarray(bound).astype(np.uint64)) >> _HALF).astype(np.int64)

    def chance(self, percent: float, size: int) -> np.ndarray:
        """`size` booleans, true in `percent` of a hundred cases."""
        return self.below(10000, size) < round(100 * percent)

    def weighted(self, weights: np.ndarray, size: int) -> np.ndarray:
        """`size` indices into the whole-numbered `weights`, drawn in proportion to them."""
        ends = np.cumsum(weights)
        return np.searchsorted(ends, self.below(int(ends[-1]), size), side="right")

    def order(self, size: int) -> np.ndarray:
        """A random order of the numbers below `size`."""
        return np.argsort(self._bits.random_raw(size), kind="stable")

    def bytes(self, size: int) -> np.ndarray:
        """`size` random bytes, uint8."""
        return self._bits.random_raw((size + 7) // 8).astype("<u8").view(np.uint8)[:size]


class Grouped:
    """Draws members of groups in proportion to whole-numbered weights, a group given for each draw."""

    def __init__(self, groups: np.ndarray, weights: np.ndarray):
        self._members = np.argsort(groups, kind="stable")
        self._ends = np.cumsum(weights[self._members])
        sizes = np.bincount(groups, weights=weights).astype(np.int64)
        self._stops = np.cumsum(sizes)
        self._sizes = sizes

    def draw(self, draws: RandomIntegers, groups: np.ndarray) -> np.ndarray:
        """One member of each of the `groups`."""
        start = self._stops[groups] - self._sizes[groups]
        place = start + draws.below(self._sizes[groups], len(groups))
        return self._members[np.searchsorted(self._ends, place, side="right")]


def original_sizes(name: str) -> np.ndarray:
    """Sizes measured on a real dataset by `tools/measure_originals.py`, int64.

    Nodes, edges and label of each graph, `[num_graphs, 3]`; or how many members have size 0, 1, 2, ...
    """
    with np.load(Path(__file__).with_name("original_sizes.npz"), allow_pickle=False) as arrays:
        return arrays[name].astype(np.int64)


def shuffled_sizes(draws: RandomIntegers, name: str) -> np.ndarray:
    """One size for each member, spread as in the original, in random order."""
    return shuffled_labels(draws, original_sizes(name))


def shuffled_labels(draws: RandomIntegers, counts: Sequence[int] | np.ndarray) -> np.ndarray:
    """Labels 0, 1, ... in random order, as many of each as `counts` says."""
    labels = np.repeat(np.arange(len(counts)), counts)
    return labels[draws.order(len(labels))]
