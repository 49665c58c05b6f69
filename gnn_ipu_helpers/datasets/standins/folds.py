"""Stand-in for PROTEINS: chains folded in space, each element linked along the chain and to those nearby."""

from __future__ import annotations

import numpy as np
import torch
from torch_geometric.data import Data

from .draws import Draws

_SEED = 5
_CLASS_SIZES = (663, 450)
_NUM_NODES, _NUM_EDGES, _MAX_EDGES = 43471, 162088, 2098
# Sizes of the original's graphs at every tenth of each class, smallest to largest.
_SIZE_TENTHS = (
    (4, 15, 20, 23, 28, 34, 40, 51, 69, 98, 620),
    (4, 6, 9, 11, 14, 16, 20, 24, 33, 46, 150),
)
# Percent of helices and of sheets among the elements, by class; the rest are turns.
_HELIX, _SHEET = (52, 44), (45, 53)
_NUM_KINDS = 3


def make_folds() -> list[Data]:
    """1113 connected graphs with x `[n, 3]`, edge_index `[2, e]` and y `[1]`, class 0 first."""
    draws = Draws(_SEED)
    sizes = _match_total(np.concatenate([_sizes(draws, label) for label in (0, 1)]), _NUM_NODES)
    labels = np.repeat((0, 1), _CLASS_SIZES)
    num_links = _links_per_graph(sizes)
    return [_fold(draws, *figures) for figures in zip(sizes.tolist(), num_links.tolist(), labels.tolist())]


def _sizes(draws: Draws, label: int) -> np.ndarray:
    """Numbers of nodes spread over the original's tenths (low in the last of them), in random order."""
    count = _CLASS_SIZES[label]
    tenths = np.array(_SIZE_TENTHS[label])
    tenth, within = np.divmod(np.arange(count) * 10000 // (count - 1), 1000)
    below, above = tenths[tenth], tenths[np.minimum(tenth + 1, 10)]
    last = tenth == 9
    share = np.where(last, within**4 // 10**9, within)
    return (below + (above - below) * share // 1000)[draws.order(count)]


def _match_total(values: np.ndarray, total: int, lowest: int = 4) -> np.ndarray:
    """The values, the middling ones moved by as little as possible so that they add up to `total`."""
    ranks = np.argsort(values, kind="stable")
    movable = ranks[len(ranks) // 10 : -len(ranks) // 20]
    movable = movable[values[movable] > lowest + 3]
    return _spread(values, movable, total)


def _links_per_graph(sizes: np.ndarray) -> np.ndarray:
    """Undirected links of each graph: near 1.86 per node, at most one per pair, adding up exactly."""
    target, most = _NUM_EDGES // 2, np.minimum(sizes * (sizes - 1) // 2, _MAX_EDGES // 2)
    links = np.clip(sizes * target // int(sizes.sum()), sizes - 1, most)
    roomy = np.argsort(links - most, kind="stable")[: len(sizes) // 2]
    return _spread(links, roomy, target)


def _spread(values: np.ndarray, movable: np.ndarray, total: int) -> np.ndarray:
    """The values with those at `movable` changed evenly so that all add up to `total`."""
    gap = total - int(values.sum())
    step, extra = divmod(abs(gap), len(movable))
    values = values.copy()
    values[movable] += np.sign(gap) * (step + (np.arange(len(movable)) < extra))
    return values


def _fold(draws: Draws, num_nodes: int, num_links: int, label: int) -> Data:
    """A random walk on a grid; links join neighbours on the chain, then whatever lies closest."""
    steps = draws.below(7, 3 * num_nodes).reshape(num_nodes, 3) - 3
    place = np.cumsum(steps, axis=0)
    squared = ((place[:, None] - place[None]) ** 2).sum(axis=-1)
    row, col = np.triu_indices(num_nodes, k=1)
    on_chain = col == row + 1
    chosen = np.lexsort((col, row, squared[row, col], ~on_chain))[:num_links]
    row, col = np.concatenate([row[chosen], col[chosen]]), np.concatenate([col[chosen], row[chosen]])
    order = np.lexsort((col, row))
    roll = draws.below(100, num_nodes)
    kind = (roll >= _HELIX[label]).astype(np.int64) + (roll >= _HELIX[label] + _SHEET[label])
    return Data(
        edge_index=torch.from_numpy(np.stack([row, col])[:, order]),
        x=torch.eye(_NUM_KINDS)[torch.from_numpy(kind)],
        y=torch.tensor([label]),
    )
