"""Datasets in both ways: raw files written into a scratch folder, and no network at all."""

import os
from pathlib import Path

import numpy as np
import pytest
import torch

from gnn_ipu_helpers import datasets
from gnn_ipu_helpers.datasets import catalogue, loading
from gnn_ipu_helpers.datasets.real_data import content_digest, find_raw_folder
from gnn_ipu_helpers.datasets.standin_graphs import make_mutag

ENTRIES = {
    "cora": catalogue.CORA,
    "pubmed": catalogue.PUBMED,
    "mutag": catalogue.MUTAG,
    "proteins": catalogue.PROTEINS,
    "imdb": catalogue.IMDB,
    "qm9": catalogue.QM9,
    "fashion_mnist": catalogue.FASHION_MNIST,
}
GRAPH_NAMES = [name for name in ENTRIES if name != "fashion_mnist"]


@pytest.fixture(autouse=True)
def _as_in_a_new_process(monkeypatch):
    monkeypatch.delenv("GNN_IPU_DATA", raising=False)
    loading._names_told.clear()


@pytest.fixture
def offline(monkeypatch):
    monkeypatch.setattr("gnn_ipu_helpers.datasets.download.reachable", lambda url: False)


@pytest.fixture
def online(monkeypatch):
    monkeypatch.setattr("gnn_ipu_helpers.datasets.download.reachable", lambda url: True)


@pytest.fixture(scope="session")
def stand_in():
    """Loads a stand-in by name, once for the whole run."""
    made = {}

    def load(name):
        if name not in made:
            with pytest.MonkeyPatch.context() as patch:
                patch.setenv("GNN_IPU_DATA", "standin")
                made[name] = getattr(datasets, name)()
        return made[name]

    return load


@pytest.fixture
def real():
    """Loads a real dataset by name, or skips the test where its raw files are not at hand."""

    def load(name, **kwargs):
        root = datasets.default_root()
        if find_raw_folder(ENTRIES[name], root) is None:
            pytest.skip(f"no raw files of {ENTRIES[name].name} under {root}")
        return getattr(datasets, name)(**kwargs)

    return load


def write_mutag(folder: Path) -> None:
    """Graphs as large as the original's, in the text format of the TU datasets."""
    folder.mkdir(parents=True)
    graphs = list(make_mutag())
    starts = np.cumsum([0] + [graph.num_nodes for graph in graphs])
    edges = np.concatenate([graph.edge_index.numpy().T + start + 1 for graph, start in zip(graphs, starts)])
    columns = {
        "A": edges,
        "graph_indicator": np.repeat(np.arange(len(graphs)), np.diff(starts)) + 1,
        "graph_labels": np.array([2 * int(graph.y) - 1 for graph in graphs]),
        "node_labels": np.concatenate([graph.x.argmax(dim=1).numpy() for graph in graphs]),
        "edge_labels": np.concatenate([graph.edge_attr.argmax(dim=1).numpy() for graph in graphs]),
    }
    columns["edge_labels"][:2] = 3  # the rare triple bond, so that all four kinds occur
    for name, values in columns.items():
        np.savetxt(folder / f"MUTAG_{name}.txt", values, fmt="%d", delimiter=", ")


def write_qm9(folder: Path, dataset) -> None:
    """Molecules of `dataset` in the format of PyG's `qm9_v3.pt`."""
    folder.mkdir(parents=True)
    molecules = [{**molecule.to_dict(), "idx": int(molecule.idx)} for molecule in dataset]
    torch.save(molecules, folder / "qm9_v3.pt")


@pytest.fixture
def take_for_originals(monkeypatch):
    """Makes the files of a folder count as the originals of their names."""

    def take(folder):
        for path in folder.iterdir():
            name = path.name[:-3] if path.suffix == ".gz" else path.name
            monkeypatch.setitem(catalogue.SHA256, name, content_digest(path))

    return take


@pytest.fixture
def mutag_root(tmp_path, take_for_originals):
    folder = tmp_path / "TUDataset" / "MUTAG" / "raw"
    write_mutag(folder)
    take_for_originals(folder)
    return tmp_path


@pytest.fixture
def qm9_root(tmp_path, stand_in):
    write_qm9(tmp_path / "QM9" / "raw", stand_in("qm9")[:20])
    return tmp_path


def files_under(folder: Path):
    return sorted(os.path.join(where, name) for where, _, names in os.walk(folder) for name in names)
