"""How to get each dataset: read, fetched or made."""

from __future__ import annotations

from pathlib import Path
from typing import Callable

from . import catalogue, images, real
from .loading import Recipe
from .standins import citations, classes
from .standins.aromatics import make_aromatics
from .standins.folds import make_folds
from .standins.garments import make_garments
from .standins.molecules import read_molecules
from .standins.movies import make_movies


def _reader(entry: catalogue.Entry, dataset_class: type, *args) -> Callable:
    def build(raw_dir: Path, processed_dir: Path):
        return dataset_class(raw_dir, processed_dir, *args)

    return lambda folder: real.load_real(entry, build, folder)


def _planetoid(entry: catalogue.Entry, figures: citations.Figures) -> Recipe:
    def fetch(folder: Path) -> None:
        real.Planetoid.fetch(folder, name=entry.name, split="public")

    def make():
        return classes.Planetoid(entry.name, citations.make_citations(figures))

    return Recipe(entry, _reader(entry, real.Planetoid, entry.name), fetch, make)


def _tu(entry: catalogue.Entry, make_graphs: Callable, *widths: int) -> Recipe:
    parts = ("num_node_attributes", "num_node_labels", "num_edge_attributes", "num_edge_labels")

    def fetch(folder: Path) -> None:
        real.TUDataset.fetch(folder, name=entry.name, cleaned=False)

    def make():
        return classes.TUDataset(entry.name, make_graphs(), dict(zip(parts, widths)))

    return Recipe(entry, _reader(entry, real.TUDataset, entry.name), fetch, make)


CORA = _planetoid(catalogue.CORA, citations.CORA)
PUBMED = _planetoid(catalogue.PUBMED, citations.PUBMED)
MUTAG = _tu(catalogue.MUTAG, make_aromatics, 0, 7, 0, 4)
PROTEINS = _tu(catalogue.PROTEINS, make_folds, 1, 3, 0, 0)
IMDB = Recipe(
    catalogue.IMDB,
    _reader(catalogue.IMDB, real.IMDB),
    real.IMDB.fetch,
    lambda: classes.IMDB(make_movies()),
)
QM9 = Recipe(
    catalogue.QM9,
    _reader(catalogue.QM9, real.QM9),
    real.QM9.fetch,
    lambda: classes.QM9(*read_molecules()),
)
FASHION_MNIST = Recipe(
    catalogue.FASHION_MNIST,
    images.read_idx_folder,
    images.fetch_idx_files,
    make_garments,
)
