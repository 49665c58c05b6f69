"""The tutorials' datasets: real where they can be had, stand-ins with the same schema where not.

Every function looks for raw files under `root` (default: `$DATASETS_DIR`, else `data/` at the repository's
root), then tries a download, then makes a stand-in and says so once. `GNN_IPU_DATA=real` or
`GNN_IPU_DATA=standin` forces one. `transform` runs on each access, `pre_transform` once, when loading.
"""

from __future__ import annotations

from typing import Callable

import torch_geometric.datasets as pyg

from . import recipes
from .errors import DatasetError
from .images import FashionMNIST
from .loading import load_graphs, obtain
from .locate import PathLike, default_root
from .origin import describe

__all__ = [
    "DatasetError",
    "cora",
    "default_root",
    "describe",
    "fashion_mnist",
    "imdb",
    "mutag",
    "proteins",
    "pubmed",
    "qm9",
]


def cora(
    transform: Callable | None = None,
    pre_transform: Callable | None = None,
    root: PathLike | None = None,
) -> pyg.Planetoid:
    """Cora, one citation graph of 2708 papers in 7 classes, split 140/500/1000.

    x `[2708, 1433]`, edge_index `[2, 10556]`, y `[2708]`, train_mask, val_mask and test_mask `[2708]`.
    """
    return load_graphs(recipes.CORA, transform, pre_transform, root)


def pubmed(
    transform: Callable | None = None,
    pre_transform: Callable | None = None,
    root: PathLike | None = None,
) -> pyg.Planetoid:
    """PubMed, one citation graph of 19717 papers in 3 classes, split 60/500/1000.

    x `[19717, 500]`, edge_index `[2, 88648]`, y `[19717]`, train_mask, val_mask and test_mask `[19717]`.
    """
    return load_graphs(recipes.PUBMED, transform, pre_transform, root)


def mutag(
    transform: Callable | None = None,
    pre_transform: Callable | None = None,
    root: PathLike | None = None,
) -> pyg.TUDataset:
    """MUTAG, 188 molecules in 2 classes (mutagenic to Salmonella or not).

    Each has x `[n, 7]`, edge_index `[2, e]`, edge_attr `[e, 4]` and y `[1]`, with n <= 28 and e <= 66.
    """
    return load_graphs(recipes.MUTAG, transform, pre_transform, root)


def proteins(
    transform: Callable | None = None,
    pre_transform: Callable | None = None,
    root: PathLike | None = None,
) -> pyg.TUDataset:
    """PROTEINS, 1113 proteins in 2 classes (enzyme or not).

    Each has x `[n, 3]`, edge_index `[2, e]` and y `[1]`, with 4 <= n <= 620 and e <= 2098.
    """
    return load_graphs(recipes.PROTEINS, transform, pre_transform, root)


def imdb(
    transform: Callable | None = None,
    pre_transform: Callable | None = None,
    root: PathLike | None = None,
) -> pyg.IMDB:
    """IMDB, one heterogeneous graph of 4278 movies in 3 classes, 2081 directors and 5257 actors.

    Every node type has x `[num_nodes, 3066]`, movies also y and the masks of a 400/400/3478 split. Four edge
    types: movie to director (4278 edges) and movie to actor (12828 edges), both ways.
    """
    return load_graphs(recipes.IMDB, transform, pre_transform, root)


def qm9(
    transform: Callable | None = None,
    pre_transform: Callable | None = None,
    root: PathLike | None = None,
) -> pyg.QM9:
    """QM9, molecules of up to nine heavy atoms with 19 targets, all 130831 or as many as the raw file holds.

    Each has x `[n, 11]`, z `[n]`, pos `[n, 3]`, edge_index `[2, e]`, edge_attr `[e, 4]`, y `[1, 19]` (the
    HOMO-LUMO gap in eV in column 4), name, smiles and idx `[1]`; n <= 29. `describe` says which part it is.
    """
    return load_graphs(recipes.QM9, transform, pre_transform, root)


def fashion_mnist(
    transform: Callable | None = None,
    pre_transform: Callable | None = None,
    root: PathLike | None = None,
) -> tuple[FashionMNIST, FashionMNIST]:
    """FashionMNIST as two torch datasets, 60000 training and 10000 test images.

    An item is a pair of an image, float32 `[1, 28, 28]` between 0 and 1, and its label, an int from 0 to 9.
    `transform` gets one image on each access, `pre_transform` all of a dataset, `[n, 1, 28, 28]`, once.
    """
    arrays, origin = obtain(recipes.FASHION_MNIST, root)
    train = FashionMNIST(*arrays[:2], origin, transform, pre_transform)
    test = FashionMNIST(*arrays[2:], origin, transform, pre_transform)
    return train, test
