"""The real datasets, where they are at hand: PyG's classes with the published figures."""

import pytest
import torch
from torch_geometric.datasets import IMDB, QM9, Planetoid, TUDataset

from gnn_ipu_helpers import datasets


@pytest.mark.parametrize(
    ("name", "nodes", "features", "edges", "classes", "split"),
    [
        ("cora", 2708, 1433, 10556, 7, (140, 500, 1000)),
        ("pubmed", 19717, 500, 88648, 3, (60, 500, 1000)),
    ],
)
def test_citation_graphs(real, name, nodes, features, edges, classes, split):
    dataset = real(name)
    data = dataset[0]
    assert isinstance(dataset, Planetoid)
    assert (data.num_nodes, dataset.num_features, data.num_edges) == (nodes, features, edges)
    assert dataset.num_classes == classes
    assert tuple(int(data[f"{part}_mask"].sum()) for part in ("train", "val", "test")) == split


def test_mutag(real):
    dataset = real("mutag")
    assert isinstance(dataset, TUDataset)
    assert [tuple(graph.edge_index.shape) for graph in dataset[:2]] == [(2, 38), (2, 28)]
    assert max(graph.num_nodes for graph in dataset) == 28
    assert max(graph.num_edges for graph in dataset) == 66
    assert datasets.describe(dataset) == "MUTAG: real data, 188 graphs, 3,371 nodes, 7,442 edges, 2 classes"


def test_proteins(real):
    dataset = real("proteins")
    sizes = [graph.num_nodes for graph in dataset]
    assert isinstance(dataset, TUDataset)
    assert (len(dataset), min(sizes), max(sizes)) == (1113, 4, 620)
    assert max(graph.num_edges for graph in dataset) == 2098


def test_imdb(real):
    dataset = real("imdb")
    movies = dataset[0]["movie"]
    assert isinstance(dataset, IMDB)
    assert tuple(movies.x.shape) == (4278, 3066)
    assert [int(movies[f"{part}_mask"].sum()) for part in ("train", "val", "test")] == [400, 400, 3478]


def test_qm9_says_whether_it_is_all_or_a_part(real):
    dataset = real("qm9")
    part = (
        "all 130,831 molecules"
        if len(dataset) == 130831
        else f"a part: {len(dataset):,} of 130,831 molecules"
    )
    assert isinstance(dataset, QM9)
    assert datasets.describe(dataset) == f"QM9: real data, {part}"
    assert dataset[0].y.shape == (1, 19)


def test_fashion_mnist(real):
    train, test = real("fashion_mnist")
    values = train.data.to(torch.float32) / 255
    assert (len(train), len(test)) == (60000, 10000)
    assert (round(float(values.mean()), 4), round(float(values.std()), 4)) == (0.2860, 0.3530)


def schema(data):
    """Keys with dtype and shape, sizes that differ between graphs left out."""
    if not hasattr(data, "node_types"):
        return {
            key: (value.dtype, value.dim(), value.shape[1:]) for key, value in data if torch.is_tensor(value)
        }
    return {kind: schema_of_store(data[kind]) for kind in [*data.node_types, *data.edge_types]}


def schema_of_store(store):
    return {key: (value.dtype, value.shape) for key, value in store.items()}


@pytest.mark.parametrize("name", ["cora", "pubmed", "mutag", "proteins", "imdb", "qm9"])
def test_a_stand_in_has_the_schema_of_the_real_dataset(real, stand_in, name):
    original, made = real(name), stand_in(name)
    assert type(made).__mro__[2] is type(original).__mro__[2]
    sample, other = original[0], made[0]
    edges_vary = {"edge_index"} if name in ("mutag", "proteins", "qm9") else set()
    expected, found = schema(sample), schema(other)
    assert expected.keys() == found.keys()
    assert all(expected[key] == found[key] for key in expected if key not in edges_vary)
    assert set(original.slices or ()) == set(made.slices or ())


@pytest.mark.parametrize("name", ["cora", "pubmed", "mutag", "proteins"])
def test_a_stand_in_has_the_label_balance_and_size_of_the_real_dataset(real, stand_in, name):
    original, made = real(name)._data, stand_in(name)._data
    assert torch.equal(original.y.bincount(), made.y.bincount())
    assert original.x.shape == made.x.shape
    assert original.edge_index.shape == made.edge_index.shape


def test_the_imdb_stand_in_has_the_label_balance_of_the_real_dataset(real, stand_in):
    original, made = real("imdb")[0]["movie"].y, stand_in("imdb")[0]["movie"].y
    assert torch.equal(original.bincount(), made.bincount())


@pytest.mark.parametrize("name", ["mutag", "proteins"])
def test_a_stand_in_has_the_originals_sizes_and_labels_graph_for_graph(real, stand_in, name):
    original, made = real(name), stand_in(name)
    for key in ("x", "edge_index"):
        assert torch.equal(original.slices[key], made.slices[key])
    assert torch.equal(original._data.y, made._data.y)


@pytest.mark.parametrize("name", ["cora", "pubmed"])
def test_a_stand_in_has_the_originals_spread_of_links(real, stand_in, name):
    spreads = [dataset[0].edge_index[0].bincount().bincount() for dataset in (real(name), stand_in(name))]
    assert torch.equal(*spreads)


def test_the_imdb_stand_in_has_the_originals_spread_of_links(real, stand_in):
    for kind in real("imdb")[0].edge_types:
        for end in (0, 1):
            spreads = [
                dataset[0][kind].edge_index[end].bincount().bincount()
                for dataset in (real("imdb"), stand_in("imdb"))
            ]
            assert torch.equal(*spreads)


def test_the_qm9_stand_in_has_the_originals_sizes_in_the_mean(real, stand_in):
    for key, tolerance in (("x", 0.02), ("edge_index", 0.05)):
        original, made = (
            dataset.slices[key].diff().float().mean() for dataset in (real("qm9"), stand_in("qm9"))
        )
        assert float(made) == pytest.approx(float(original), rel=tolerance)


def test_the_files_at_hand_are_the_originals(real):
    for name in ("cora", "pubmed", "mutag", "proteins", "imdb"):
        assert ": real data" in datasets.describe(real(name))
    assert ": real data" in datasets.describe(real("fashion_mnist")[0])
