"""Stand-ins for Cora and PubMed: papers that cite mostly their own class, in words that hint at it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch_geometric.data import Data

from .draws import Draws, Grouped, long_tail, shuffled_labels
from .topics import draw_words


class Figures(NamedTuple):
    """Figures of the original, and how clearly links and words speak of the class (in percent)."""

    seed: int
    class_sizes: tuple
    num_links: int
    num_words: int
    words: tuple
    same_class_percent: float
    topic_percent: float
    has_weights: bool


CORA = Figures(
    seed=1,
    class_sizes=(351, 217, 418, 818, 426, 298, 180),
    num_links=5278,
    num_words=1433,
    words=(8, 29),
    same_class_percent=76,
    topic_percent=22,
    has_weights=False,
)
PUBMED = Figures(
    seed=2,
    class_sizes=(4103, 7739, 7875),
    num_links=44324,
    num_words=500,
    words=(30, 91),
    same_class_percent=70,
    topic_percent=18,
    has_weights=True,
)
_NUM_TRAIN_PER_CLASS, _NUM_VAL, _NUM_TEST = 20, 500, 1000


def make_citations(figures: Figures) -> Data:
    """One graph with x `[n, num_words]`, edge_index `[2, 2 * num_links]`, y and three masks `[n]`."""
    draws = Draws(figures.seed)
    labels = _training_first(shuffled_labels(draws, list(figures.class_sizes)), len(figures.class_sizes))
    edge_index = draw_links(draws, labels, figures.num_links, figures.same_class_percent)
    shortest, longest = figures.words
    lengths = shortest + draws.below(longest - shortest + 1, len(labels))
    counts = draw_words(draws, labels, lengths, figures.num_words, figures.topic_percent)
    features = _weigh(counts) if figures.has_weights else (counts > 0).astype(np.float32)
    data = Data(
        x=torch.from_numpy(features), edge_index=torch.from_numpy(edge_index), y=torch.from_numpy(labels)
    )
    stops = np.cumsum([_NUM_TRAIN_PER_CLASS * len(figures.class_sizes), _NUM_VAL])
    node = torch.arange(len(labels))
    data.train_mask = node < int(stops[0])
    data.val_mask = (node >= int(stops[0])) & (node < int(stops[1]))
    data.test_mask = node >= len(labels) - _NUM_TEST
    return data


def draw_links(draws: Draws, labels: np.ndarray, num_links: int, same_class_percent: float) -> np.ndarray:
    """Links both ways without loops or repeats, int64 `[2, 2 * num_links]`; every node has at least one."""
    num_nodes = len(labels)
    popularity = long_tail(draws, num_nodes, top=3000)
    own_class = Grouped(labels, popularity)
    source, target = np.empty(0, np.int64), np.empty(0, np.int64)
    proposals = np.arange(num_nodes)
    while len(source) < num_links:
        partner = _partners(draws, labels, popularity, own_class, proposals, same_class_percent)
        low = np.concatenate([source, np.minimum(proposals, partner)])
        high = np.concatenate([target, np.maximum(proposals, partner)])
        _, first = np.unique(low * num_nodes + high, return_index=True)
        first.sort()
        source, target = low[first][:num_links], high[first][:num_links]
        proposals = draws.weighted(popularity, num_links)
    pairs = np.stack([np.concatenate([source, target]), np.concatenate([target, source])])
    return np.ascontiguousarray(pairs[:, np.lexsort(pairs)])


def _partners(draws, labels, popularity, own_class, nodes, same_class_percent):
    partner = nodes.copy()
    while (same := partner == nodes).any():
        seekers = nodes[same]
        near = own_class.draw(draws, labels[seekers])
        far = draws.weighted(popularity, len(seekers))
        partner[same] = np.where(draws.chance(same_class_percent, len(seekers)), near, far)
    return partner


def _training_first(labels: np.ndarray, num_classes: int) -> np.ndarray:
    """The labels with twenty of each class moved to the front, otherwise in the same order."""
    rank = np.empty(len(labels), np.int64)
    for label in range(num_classes):
        members = np.flatnonzero(labels == label)
        rank[members] = np.arange(len(members))
    return labels[np.argsort(rank >= _NUM_TRAIN_PER_CLASS, kind="stable")]


def _weigh(counts: np.ndarray) -> np.ndarray:
    """Term frequency times a whole-numbered rarity, in thousandths: float32 of the same shape."""
    documents = (counts > 0).sum(axis=0)
    rarity = 10 + 40 * len(counts) // (len(counts) // 5 + 10 * documents)
    return counts * rarity.astype(np.float32) / np.float32(1000)
