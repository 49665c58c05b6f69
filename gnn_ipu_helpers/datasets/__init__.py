"""The tutorials' datasets: real where they can be had, stand-ins with the same schema where not.

Every function looks for raw files under `root`, then tries a download, then makes a stand-in and says so.
`GNN_IPU_DATA=real` or `GNN_IPU_DATA=standin` forces one. The default `root` is `$DATASETS_DIR`, else `data/`
at the repository's root when running from a checkout, else `~/.cache/gnn_ipu_helpers` (`default_root`).

Files come from where PyG gets them and are kept only if they are the originals, by their SHA-256 (of QM9 only
the archive's own checksum is known). Files that you placed yourself and that differ are used, with a note,
unless `GNN_IPU_DATA=real`.

A stand-in has its original's sizes: nodes and edges of every graph of MUTAG and PROTEINS; nodes, links and
the spread of links per node of Cora, PubMed and IMDB; of QM9, whose stand-in is other molecules, the mean.

`transform` runs on each access, `pre_transform` once, when loading.
"""

from __future__ import annotations

from functools import partial
from typing import Callable

import torch_geometric.datasets as pyg

from . import catalogue, real_data, standin_graphs, standin_molecules, standin_networks
from .fashion_mnist import FashionMNIST, make_garments, read_idx_folder
from .loading import PathLike, default_root, describe, load_graphs, obtain
from .real_data import DatasetError

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
    transform: Callable | None = None, pre_transform: Callable | None = None, root: PathLike | None = None
) -> pyg.Planetoid:
    """Cora, one citation graph of 2708 papers in 7 classes, split 140/500/1000.

    x `[2708, 1433]`, edge_index `[2, 10556]`, y `[2708]`, train_mask, val_mask and test_mask `[2708]`.

    Example:
        >>> cora()[0].edge_index.shape
        torch.Size([2, 10556])
    """
    make = partial(standin_networks.make_citations, "Cora")
    return load_graphs(catalogue.CORA, real_data.Planetoid, make, transform, pre_transform, root)


def pubmed(
    transform: Callable | None = None, pre_transform: Callable | None = None, root: PathLike | None = None
) -> pyg.Planetoid:
    """PubMed, one citation graph of 19717 papers in 3 classes, split 60/500/1000.

    x `[19717, 500]`, edge_index `[2, 88648]`, y `[19717]`, train_mask, val_mask and test_mask `[19717]`.

    Example:
        >>> pubmed()[0].num_nodes
        19717
    """
    make = partial(standin_networks.make_citations, "PubMed")
    return load_graphs(catalogue.PUBMED, real_data.Planetoid, make, transform, pre_transform, root)


def mutag(
    transform: Callable | None = None, pre_transform: Callable | None = None, root: PathLike | None = None
) -> pyg.TUDataset:
    """MUTAG, 188 molecules in 2 classes (mutagenic to Salmonella or not).

    Each has x `[n, 7]`, edge_index `[2, e]`, edge_attr `[e, 4]` and y `[1]`, with n <= 28 and e <= 66.

    Example:
        >>> mutag()[0]
        Data(edge_index=[2, 38], x=[17, 7], edge_attr=[38, 4], y=[1])
    """
    return load_graphs(
        catalogue.MUTAG, real_data.TUDataset, standin_graphs.make_mutag, transform, pre_transform, root
    )


def proteins(
    transform: Callable | None = None, pre_transform: Callable | None = None, root: PathLike | None = None
) -> pyg.TUDataset:
    """PROTEINS, 1113 proteins in 2 classes (enzyme or not).

    Each has x `[n, 3]`, edge_index `[2, e]` and y `[1]`, with 4 <= n <= 620 and e <= 2098.

    Example:
        >>> proteins()[0]
        Data(edge_index=[2, 162], x=[42, 3], y=[1])
    """
    return load_graphs(
        catalogue.PROTEINS, real_data.TUDataset, standin_graphs.make_proteins, transform, pre_transform, root
    )


def imdb(
    transform: Callable | None = None, pre_transform: Callable | None = None, root: PathLike | None = None
) -> pyg.IMDB:
    """IMDB, one heterogeneous graph of 4278 movies in 3 classes, 2081 directors and 5257 actors.

    Every node type has x `[num_nodes, 3066]`, movies also y and the masks of a 400/400/3478 split. Four edge
    types: movie to director (4278 edges) and movie to actor (12828 edges), both ways.

    Example:
        >>> imdb()[0]["movie"].x.shape
        torch.Size([4278, 3066])
    """
    return load_graphs(
        catalogue.IMDB, real_data.IMDB, standin_networks.make_movies, transform, pre_transform, root
    )


def qm9(
    transform: Callable | None = None, pre_transform: Callable | None = None, root: PathLike | None = None
) -> pyg.QM9:
    """QM9, molecules of up to nine heavy atoms with 19 targets, all 130831 or as many as the raw file holds.

    Each has x `[n, 11]`, z `[n]`, pos `[n, 3]`, edge_index `[2, e]`, edge_attr `[e, 4]`, y `[1, 19]` (the
    HOMO-LUMO gap in eV in column 4), name, smiles and idx `[1]`; n <= 29. `describe` says which part it is.

    Example:
        >>> qm9()[0].y.shape
        torch.Size([1, 19])
    """
    return load_graphs(
        catalogue.QM9, real_data.QM9, standin_molecules.read_molecules, transform, pre_transform, root
    )


def fashion_mnist(
    transform: Callable | None = None, pre_transform: Callable | None = None, root: PathLike | None = None
) -> tuple[FashionMNIST, FashionMNIST]:
    """FashionMNIST as two torch datasets, 60000 training and 10000 test images.

    An item is a pair of an image, float32 `[1, 28, 28]` between 0 and 1, and its label, an int from 0 to 9.
    `transform` gets one image on each access, `pre_transform` all of a dataset, `[n, 1, 28, 28]`, once.

    Example:
        >>> train, test = fashion_mnist()
        >>> train[0][0].shape
        torch.Size([1, 28, 28])
    """
    arrays, loaded = obtain(catalogue.FASHION_MNIST, read_idx_folder, make_garments, root)
    train_images, train_labels, test_images, test_labels = arrays
    train = FashionMNIST(train_images, train_labels, loaded, transform, pre_transform)
    return train, FashionMNIST(test_images, test_labels, loaded, transform, pre_transform)
