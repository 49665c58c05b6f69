"""Stand-ins for Cora, PubMed and IMDB: networks whose links and words both hint at the class of a node.

As in the originals every node type has its numbers of nodes and links, the same spread of links per node, the
same classes and the same split. What the links join and what the words are is made up.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch_geometric.data import Data, HeteroData

from .random_integers import Grouped, RandomIntegers, shuffled_labels, shuffled_sizes
from .real_data import IMDB, Planetoid

_LINE = 1 << 24
_NUM_TRAIN_PER_CLASS, _NUM_VAL, _NUM_TEST = 20, 500, 1000


class _Citations(NamedTuple):
    """What a citation graph is made of; shares are in percent."""

    seed: int
    class_sizes: tuple[int, ...]
    num_words: int
    words: tuple[int, int]
    has_weights: bool
    topical_words: float
    links_in_class: float
    links_anywhere: float
    reach: int


_CITATIONS = {
    "Cora": _Citations(
        seed=1,
        class_sizes=(351, 217, 418, 818, 426, 298, 180),
        num_words=1433,
        words=(8, 29),
        has_weights=False,
        topical_words=26,
        links_in_class=82,
        links_anywhere=0,
        reach=2,
    ),
    "PubMed": _Citations(
        seed=2,
        class_sizes=(4103, 7739, 7875),
        num_words=500,
        words=(30, 91),
        has_weights=True,
        topical_words=18,
        links_in_class=73,
        links_anywhere=8,
        reach=40,
    ),
}


def make_citations(name: str) -> Planetoid:
    """Papers that cite mostly their own class: x `[n, num_words]`, edge_index `[2, e]`, y and masks `[n]`."""
    figures = _CITATIONS[name]
    draws = RandomIntegers(figures.seed)
    labels = _training_first(shuffled_labels(draws, figures.class_sizes), len(figures.class_sizes))
    edge_index = _draw_links(draws, labels, shuffled_sizes(draws, f"{name.lower()}_links"), figures)
    shortest, longest = figures.words
    lengths = shortest + draws.below(longest - shortest + 1, len(labels))
    counts = _draw_words(draws, labels, lengths, figures.num_words, figures.topical_words)
    features = _weigh(counts) if figures.has_weights else (counts > 0).astype(np.float32)
    data = Data(
        x=torch.from_numpy(features), edge_index=torch.from_numpy(edge_index), y=torch.from_numpy(labels)
    )
    stops = np.cumsum([_NUM_TRAIN_PER_CLASS * len(figures.class_sizes), _NUM_VAL])
    node = torch.arange(len(labels))
    data.train_mask = node < int(stops[0])
    data.val_mask = (node >= int(stops[0])) & (node < int(stops[1]))
    data.test_mask = node >= len(labels) - _NUM_TEST
    return Planetoid.made(data, name=name, split="public")


def _training_first(labels: np.ndarray, num_classes: int) -> np.ndarray:
    """The labels with twenty of each class moved to the front, otherwise in the same order."""
    rank = np.empty(len(labels), np.int64)
    for label in range(num_classes):
        members = np.flatnonzero(labels == label)
        rank[members] = np.arange(len(members))
    return labels[np.argsort(rank >= _NUM_TRAIN_PER_CLASS, kind="stable")]


def _draw_links(
    draws: RandomIntegers, labels: np.ndarray, num_links: np.ndarray, figures: _Citations
) -> np.ndarray:
    """Links both ways without loops or repeats, int64 `[2, num_links.sum()]`, as many per node as asked for.

    Papers lie on a line of subjects, and a link joins two that lie close to each other: that makes triangles
    and parts with few links between them, which clusters and neighbourhoods are about. Each end of a link is
    put near its paper, most among ends of the same class only, and ends that come to lie side by side are
    joined. The ends of an often cited paper lie further apart, so that they meet others than each other.
    """
    place = draws.below(_LINE, len(labels))
    paper = np.repeat(np.arange(len(labels)), num_links)
    reach = _LINE // len(labels) * (figures.reach + num_links[paper] // 2)
    end = place[paper] + draws.below(2 * reach, len(paper)) - reach
    anywhere = draws.chance(figures.links_anywhere, len(paper))
    end[anywhere] = draws.below(_LINE, len(paper))[anywhere]
    among_all = len(figures.class_sizes)
    among = np.where(draws.chance(figures.links_in_class, len(paper)), labels[paper], among_all)
    for label in range(among_all):
        members = np.flatnonzero(among == label)
        among[members[: len(members) % 2]] = among_all  # the odd one out finds a partner among all
    left, right = paper[np.lexsort((end, among))].reshape(-1, 2).T
    right = _without_repeats(draws, left, right)
    pairs = np.stack([np.concatenate([left, right]), np.concatenate([right, left])])
    return np.ascontiguousarray(pairs[:, np.lexsort(pairs)])


def _without_repeats(draws: RandomIntegers, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """The right ends, exchanged until no pair is a loop or occurs twice: with nearby pairs if possible."""
    right, width, num_nodes = right.copy(), 4, int(max(left.max(), right.max())) + 1
    while True:
        _, first = np.unique(np.minimum(left, right) * num_nodes + np.maximum(left, right), return_index=True)
        is_wrong = left == right
        is_wrong[np.delete(np.arange(len(left)), first)] = True
        wrong = np.flatnonzero(is_wrong)
        if len(wrong) == 0:
            return right
        others = (wrong + 1 + draws.below(min(width, len(left) - 1), len(wrong))) % len(left)
        for one, other in zip(wrong, others):
            right[one], right[other] = right[other], right[one]
        width *= 2


def _draw_words(
    draws: RandomIntegers, labels: np.ndarray, lengths: np.ndarray, num_words: int, topical: float
) -> np.ndarray:
    """How often each document uses each word, float32 `[num_documents, num_words]`.

    A word is drawn from the class's own topic in `topical` of a hundred cases, else from all words; in both,
    a word's frequency falls with its rank as in natural language.
    """
    frequency = 1 + 40000 // (20 + draws.order(num_words))
    topic_of_word = draws.below(int(labels.max()) + 1, num_words)
    document = np.repeat(np.arange(len(labels)), lengths)
    everyday = draws.weighted(frequency, len(document))
    of_topic = Grouped(topic_of_word, frequency).draw(draws, labels[document])
    word = np.where(draws.chance(topical, len(document)), of_topic, everyday)
    pair, count = np.unique(document * num_words + word, return_counts=True)
    counts = np.zeros((len(labels), num_words), dtype=np.float32)
    counts.flat[pair] = count
    return counts


def _weigh(counts: np.ndarray) -> np.ndarray:
    """Term frequency times a whole-numbered rarity, in thousandths: float32 of the same shape."""
    documents = (counts > 0).sum(axis=0)
    rarity = 10 + 40 * len(counts) // (len(counts) // 5 + 10 * documents)
    return counts * rarity.astype(np.float32) / np.float32(1000)


_GENRE_SIZES = (1135, 1584, 1559)
_NUM_PLOT_WORDS, _TOPICAL_PLOT_WORDS = 3066, 28
# Percent of people's movies that are of their favourite genre by choice.
_LOYALTY = {"director": 80, "actor": 52}
_MOVIE_SPLIT = {"train_mask": 400, "val_mask": 400, "test_mask": 3478}


def make_movies() -> IMDB:
    """Movies whose directors and actors have a favourite genre, with words from the plot.

    One graph: movie, director and actor nodes with x `[n, 3066]`, and edges from and to movies.
    """
    draws = RandomIntegers(3)
    genres = shuffled_labels(draws, _GENRE_SIZES)
    movies = np.arange(len(genres))
    jobs = {"director": movies, "actor": np.repeat(movies, shuffled_sizes(draws, "imdb_movie_actors"))}
    people = {kind: _engage(draws, jobs[kind], genres[jobs[kind]], kind) for kind in jobs}
    lengths = 3 + draws.below(4, len(genres)) + draws.below(5, len(genres))
    words = _draw_words(draws, genres, lengths, _NUM_PLOT_WORDS, _TOPICAL_PLOT_WORDS)

    data = HeteroData()
    data["movie"].x = torch.from_numpy(words)
    for kind in people:
        data[kind].x = _mean_of_movies(words, jobs[kind], people[kind])
    data["movie"].y = torch.from_numpy(genres)
    order, start = draws.order(len(genres)), 0
    for name, size in _MOVIE_SPLIT.items():
        mask = np.zeros(len(genres), dtype=bool)
        mask[order[start : start + size]] = True
        data["movie"][name] = torch.from_numpy(mask)
        start += size
    for kind in people:
        data["movie", kind].edge_index = _sorted_pairs(jobs[kind], people[kind])
    for kind in people:
        data[kind, "movie"].edge_index = _sorted_pairs(people[kind], jobs[kind])
    return IMDB.made(data)


def _engage(draws: RandomIntegers, movies: np.ndarray, genres: np.ndarray, kind: str) -> np.ndarray:
    """One person for each job, given its movie and genre; nobody has two jobs in one movie."""
    num_jobs = shuffled_sizes(draws, f"imdb_{kind}_movies")
    person = np.repeat(np.arange(len(num_jobs)), num_jobs)
    favourite = genres[draws.order(len(genres))[: len(num_jobs)]]
    any_genre = genres[draws.order(len(genres))]
    wanted = np.where(draws.chance(_LOYALTY[kind], len(person)), favourite[person], any_genre)
    # Jobs and wishes, both in the order of their genres, meet one by one.
    engaged = np.empty_like(person)
    engaged[np.lexsort((draws.order(len(genres)), genres))] = person[
        np.lexsort((draws.order(len(wanted)), wanted))
    ]
    num_movies = int(movies.max()) + 1
    return _without_repeats(draws, movies, engaged + num_movies) - num_movies


def _mean_of_movies(words: np.ndarray, movies: np.ndarray, people: np.ndarray) -> torch.Tensor:
    """What each person's movies are about on average, float32 `[num_people, num_words]`."""
    of_movie, word = np.nonzero(words)
    per_movie = np.bincount(of_movie, minlength=len(words))
    start = np.cumsum(per_movie) - per_movie
    length = per_movie[movies]
    # The entries of each job's movie, one after another.
    entry = np.arange(length.sum()) + np.repeat(start[movies] - (np.cumsum(length) - length), length)
    jobs = np.bincount(people)
    total = np.zeros((len(jobs), words.shape[1]), dtype=np.float32)
    np.add.at(total, (np.repeat(people, length), word[entry]), words[of_movie[entry], word[entry]])
    return torch.from_numpy(total / jobs.astype(np.float32)[:, None])


def _sorted_pairs(source: np.ndarray, target: np.ndarray) -> torch.Tensor:
    order = np.lexsort((target, source))
    return torch.from_numpy(np.stack([source[order], target[order]]))
