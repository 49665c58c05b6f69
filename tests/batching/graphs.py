"""Random graphs and datasets for the tests of batching, and what the tests compare."""

from __future__ import annotations

import pytest
import torch
from hypothesis import strategies as st
from torch_geometric.data import Data, HeteroData, InMemoryDataset

from gnn_ipu_helpers import datasets


class InMemory(InMemoryDataset):
    """Graphs laid end to end, as PyG's own in-memory datasets hold them."""

    def __init__(self, graphs, transform=None):
        super().__init__(transform=transform)
        self.data, self.slices = self.collate(graphs)


def graph(num_nodes, num_edges, seed=0, **attributes):
    """A random graph with features, weights, labels and whatever else is asked for by name."""
    random = torch.Generator().manual_seed(seed)
    makers = {
        "x": lambda: torch.randn(num_nodes, 3, generator=random),
        "z": lambda: torch.randint(100, (num_nodes,), generator=random, dtype=torch.int32),
        "frames": lambda: torch.randn(num_nodes, 2, 2, generator=random, dtype=torch.float64),
        "train_mask": lambda: torch.rand(num_nodes, generator=random) < 0.5,
        "edge_attr": lambda: torch.randn(num_edges, 2, generator=random),
        "edge_weight": lambda: torch.rand(num_edges, generator=random, dtype=torch.float16),
        "y_graph": lambda: torch.randn(1, 4, generator=random),
        "y_node": lambda: torch.randint(5, (num_nodes,), generator=random),
        "pair": lambda: torch.randn(2, generator=random),
        "scalar": lambda: torch.randn((), generator=random),
        "number": lambda: int(torch.randint(9, (), generator=random)),
        "root_index": lambda: torch.randint(num_nodes, (1,), generator=random),
        "neg_edge_index": lambda: torch.randint(num_nodes, (2, num_edges), generator=random),
        "short": lambda: torch.randn(num_nodes, 2, generator=random).bfloat16(),
        "codes": lambda: torch.randint(200, (num_nodes,), generator=random).byte(),
        "edge_phase": lambda: torch.randn(num_edges, dtype=torch.complex64, generator=random),
        "edge-flag 2": lambda: torch.rand(num_edges, 1, generator=random) < 0.5,
        "none": lambda: torch.randn(1, 0, generator=random),
    }
    edge_index = torch.randint(max(num_nodes, 1), (2, num_edges), generator=random)
    data = Data(edge_index=edge_index, num_nodes=num_nodes)
    for name in attributes.get("names", ("x", "edge_attr", "y_graph")):
        value = makers[name]()
        data["y" if name.startswith("y_") else name] = value
    return data


def hetero_graph(num_authors, num_papers, num_writes, num_cites, seed=0):
    """A random heterogeneous graph; types with no nodes or with None edges are absent."""
    random = torch.Generator().manual_seed(seed)
    data = HeteroData()
    data["author"].x = torch.randn(num_authors, 2, generator=random)
    data["paper"].x = torch.randn(num_papers, 3, generator=random)
    data["paper"].y = torch.randint(3, (num_papers,), generator=random)
    data["author", "writes", "paper"].edge_index = torch.stack(
        [
            torch.randint(num_authors, (num_writes,), generator=random),
            torch.randint(num_papers, (num_writes,), generator=random),
        ]
    )
    data["author", "writes", "paper"].edge_attr = torch.randn(num_writes, 2, generator=random)
    if num_cites is not None:
        cites = torch.randint(num_papers, (2, num_cites), generator=random)
        data["paper", "cites", "paper"].edge_index = cites
    data.target = torch.randn(1, generator=random)
    return data


LEVELS = (
    "x",
    "z",
    "frames",
    "train_mask",
    "edge_attr",
    "edge_weight",
    "pair",
    "scalar",
    "number",
    "root_index",
    "neg_edge_index",
    "short",
    "codes",
    "edge_phase",
    "edge-flag 2",
    "none",
)


@st.composite
def homogeneous(draw, max_graphs=8):
    """A list of graphs with the same attributes, 0-edge graphs and single nodes among them."""
    names = draw(st.sets(st.sampled_from(LEVELS)))
    names = sorted(names) + [draw(st.sampled_from(("y_graph", "y_node")))]
    sizes = draw(st.lists(st.tuples(st.integers(1, 7), st.integers(0, 9)), min_size=1, max_size=max_graphs))
    # With one or two nodes or edges in all graphs, nothing tells their attributes from those of the graph.
    sizes.append((draw(st.integers(3, 7)), draw(st.integers(3, 9))))
    graphs = [graph(nodes, edges, seed, names=names) for seed, (nodes, edges) in enumerate(sizes)]
    if "x" in names and draw(st.booleans()):
        for data in graphs:
            del data.num_nodes
    return graphs


@st.composite
def heterogeneous(draw, max_graphs=6):
    """A list of heterogeneous graphs, some of which lack an edge type."""
    count = st.integers(1, 5)
    sizes = draw(
        st.lists(
            st.tuples(count, count, st.integers(0, 6), st.none() | st.integers(0, 6)),
            min_size=1,
            max_size=max_graphs,
        )
    )
    sizes.append((2, 3, 4, 5))
    return [hetero_graph(*size, seed=seed) for seed, size in enumerate(sizes)]


def real_dataset(name):
    """One of the tutorials' datasets, for figures that hold for the real data only."""
    dataset = getattr(datasets, name)()
    if "stand-in" in datasets.describe(dataset):
        pytest.skip(f"{name} is a stand-in here")
    return dataset


def keys_of(data):
    """The names of a graph's attributes; a property in old versions of PyG."""
    return data.keys() if callable(data.keys) else data.keys


def stores_of(data):
    """The stores of a graph by key."""
    return {store._key: store for store in data.stores}


def same(one, other):
    """Whether two values are the same to the bit, dtype, shape and strides included."""
    if not isinstance(one, torch.Tensor):
        return type(one) is type(other) and one == other
    return (
        one.dtype == other.dtype
        and one.stride() == other.stride()
        and one.shape == other.shape
        and torch.equal(one, other)
    )


def assert_same_batch(one, other):
    """Two batches have the same attributes in the same order, to the bit."""
    assert type(one) is type(other)
    assert list(stores_of(one)) == list(stores_of(other))
    for key, store in stores_of(one).items():
        assert list(store.keys()) == list(stores_of(other)[key].keys())
        for name, value in store.items():
            assert same(value, stores_of(other)[key][name]), (key, name)


def assert_same_graph(one, other):
    """Every attribute of the first graph is in the second one, to the bit."""
    for key, store in stores_of(one).items():
        for name, value in store.items():
            found = stores_of(other)[key][name]
            if isinstance(value, (int, float)):
                assert found == value, (key, name)
            else:
                value = value.reshape(1) if value.dim() == 0 else value
                assert found.dtype == value.dtype, (key, name)
                assert torch.equal(found.reshape(value.shape), value), (key, name)
