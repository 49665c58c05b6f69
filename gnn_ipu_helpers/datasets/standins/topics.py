"""Sparse bags of words in which each class favours words of its own."""

from __future__ import annotations

import numpy as np

from .draws import Draws, Grouped


def draw_words(
    draws: Draws, labels: np.ndarray, lengths: np.ndarray, num_words: int, topic_percent: float
) -> np.ndarray:
    """How often each document uses each word, float32 `[num_documents, num_words]`.

    A word is drawn from the class's own topic in `topic_percent` of a hundred cases, else from all words; in
    both, a word's frequency falls with its rank as in natural language.
    """
    frequency = 1 + 40000 // (20 + draws.order(num_words))
    topic_of_word = draws.below(int(labels.max()) + 1, num_words)
    document = np.repeat(np.arange(len(labels)), lengths)
    everyday = draws.weighted(frequency, len(document))
    topical = Grouped(topic_of_word, frequency).draw(draws, labels[document])
    word = np.where(draws.chance(topic_percent, len(document)), topical, everyday)
    pair, count = np.unique(document * num_words + word, return_counts=True)
    counts = np.zeros((len(labels), num_words), dtype=np.float32)
    counts.flat[pair] = count
    return counts
