"""Stand-in for IMDB: movies whose directors and actors have a favourite genre, with words from the plot."""

from __future__ import annotations

import numpy as np
import torch
from torch_geometric.data import HeteroData

from .draws import Draws, Grouped, long_tail, shuffled_labels
from .topics import draw_words

_SEED = 3
_GENRE_SIZES = (1135, 1584, 1559)
_NUM_DIRECTORS, _NUM_ACTORS = 2081, 5257
_CAST, _NUM_SMALLER_CASTS = 3, 6
_NUM_WORDS, _TOPIC_PERCENT = 3066, 28
_DIRECTOR_LOYALTY, _ACTOR_LOYALTY = 80, 52
_SPLIT = {"train_mask": 400, "val_mask": 400, "test_mask": 3478}


def make_movies() -> HeteroData:
    """One graph: movie, director and actor nodes with x `[n, 3066]`, and edges from and to movies."""
    draws = Draws(_SEED)
    genres = shuffled_labels(draws, list(_GENRE_SIZES))
    movies = np.arange(len(genres))
    jobs = {"director": movies, "actor": _roles(draws, movies)}
    people = {
        "director": _engage(draws, genres, _NUM_DIRECTORS, _DIRECTOR_LOYALTY),
        "actor": _engage(draws, genres[jobs["actor"]], _NUM_ACTORS, _ACTOR_LOYALTY),
    }
    _part_doubles(draws, jobs["actor"], people["actor"])
    lengths = 3 + draws.below(4, len(genres)) + draws.below(4, len(genres))
    words = draw_words(draws, genres, lengths, _NUM_WORDS, _TOPIC_PERCENT)

    data = HeteroData()
    data["movie"].x = torch.from_numpy(words)
    for person in people:
        data[person].x = _mean_of_movies(words, jobs[person], people[person])
    data["movie"].y = torch.from_numpy(genres)
    _split(draws, data["movie"], len(genres))
    for person in people:
        data["movie", person].edge_index = _sorted_pairs(jobs[person], people[person])
    for person in people:
        data[person, "movie"].edge_index = _sorted_pairs(people[person], jobs[person])
    return data


def _engage(draws: Draws, genres: np.ndarray, num_people: int, loyalty: float) -> np.ndarray:
    """One person for each job, given the genres of the jobs; everyone gets at least one.

    The first jobs go round once and make each person's favourite genre; `loyalty` percent of the others go to
    people who favour that genre, the rest to anybody, popular people first.
    """
    jobs = draws.order(len(genres))
    first, later = jobs[:num_people], jobs[num_people:]
    person = np.empty(len(genres), np.int64)
    person[first] = draws.order(num_people)
    favourite = np.empty(num_people, np.int64)
    favourite[person[first]] = genres[first]
    popularity = long_tail(draws, num_people, top=300)
    loyal = Grouped(favourite, popularity).draw(draws, genres[later])
    anybody = draws.weighted(popularity, len(later))
    person[later] = np.where(draws.chance(loyalty, len(later)), loyal, anybody)
    return person


def _roles(draws: Draws, movies: np.ndarray) -> np.ndarray:
    """The movie of each role: three per movie, two for a few, as in the original."""
    roles = np.repeat(movies, _CAST)
    dropped = _CAST * draws.order(len(movies))[:_NUM_SMALLER_CASTS]
    return np.delete(roles, dropped)


def _part_doubles(draws: Draws, movies: np.ndarray, people: np.ndarray) -> None:
    """Exchange people between roles until nobody plays twice in one movie."""
    while True:
        pairs = movies * len(people) + people
        _, first = np.unique(pairs, return_index=True)
        doubles = np.delete(np.arange(len(people)), first)
        if len(doubles) == 0:
            return
        others = draws.below(len(people), len(doubles))
        for one, other in zip(doubles, others):
            people[one], people[other] = people[other], people[one]


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


def _split(draws: Draws, store, num_movies: int) -> None:
    order, start = draws.order(num_movies), 0
    for name, size in _SPLIT.items():
        mask = np.zeros(num_movies, dtype=bool)
        mask[order[start : start + size]] = True
        store[name] = torch.from_numpy(mask)
        start += size
