"""FixedSizeOptions: what they say, what they refuse, and how they are found."""

import math

import pytest
from torch.utils.data import Subset
from torch_geometric.loader import DataLoader as PyGDataLoader

from gnn_ipu_helpers.batching import FixedSizeOptions

from .graphs import InMemory, graph, hetero_graph

SIZES = [(5, 4), (2, 9), (7, 0), (3, 3)]
WRITES, CITES = ("author", "writes", "paper"), ("paper", "cites", "paper")


@pytest.fixture
def graphs():
    return [graph(nodes, edges, seed) for seed, (nodes, edges) in enumerate(SIZES)]


def test_repr_is_that_of_poptorch_geometric():
    expected = (
        "FixedSizeOptions(num_nodes=1000 (At least one node reserved for padding), "
        "num_edges=2000 (At least one edge reserved for padding), "
        "num_graphs=2 (At least one graph reserved for padding), "
        "node_pad_value=0.0, edge_pad_value=0.0, graph_pad_value=0.0, pad_graph_defaults={})"
    )
    assert repr(FixedSizeOptions(1000, 2000)) == expected


def test_without_edges_there_is_room_for_a_fully_connected_graph():
    assert FixedSizeOptions(10).num_edges == 90
    assert FixedSizeOptions({"a": 4, "b": 6}).num_edges == 90


def test_one_number_for_all_types_becomes_one_for_each():
    options = FixedSizeOptions(10, 20)
    assert not options.is_hetero()
    assert options.to_hetero(["a", "b"], [("a", "to", "b")]) is options
    assert options.is_hetero()
    assert options.num_nodes == {"a": 10, "b": 10}
    assert options.num_edges == {("a", "to", "b"): 20}
    assert (options.total_num_nodes, options.total_num_edges) == (20, 20)


def test_numbers_given_for_each_type_stay():
    options = FixedSizeOptions({"a": 3, "b": 4}, 20).to_hetero(["a", "b"], [("a", "to", "b")])
    assert options.num_nodes == {"a": 3, "b": 4}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_nodes": 10, "num_graphs": 1}, r"num_graphs should be at least 2.*got 1\)"),
        ({"num_nodes": math.nan}, r"num_nodes should be a whole number.*got nan\)"),
        ({"num_nodes": 10, "num_edges": math.inf}, r"num_edges should be a whole number.*got inf\)"),
        ({"num_nodes": 2.5}, r"num_nodes .*got 2.5\)"),
        ({"num_nodes": 1}, r"num_nodes .* at least 2 \(one real and one padding node\) \(got 1\)"),
        ({"num_nodes": 10, "num_edges": -1}, r"num_edges .* at least 0 \(got -1\)"),
        ({"num_nodes": {"a": 0}}, r"num_nodes\['a'\] should be"),
        ({"num_nodes": "many"}, r"num_nodes .*got 'many'\)"),
    ],
)
def test_sizes_that_make_no_sense_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        FixedSizeOptions(**arguments)


def test_whole_numbers_of_any_type_are_accepted():
    assert FixedSizeOptions(28.0, 56).num_nodes == 28


def test_from_dataset_makes_room_for_the_largest_graphs(graphs):
    expected = FixedSizeOptions(7 * 3 + 1, 9 * 3 + 1, 4)
    assert FixedSizeOptions.from_dataset(graphs, 4) == expected
    assert FixedSizeOptions.from_dataset(InMemory(graphs), 4) == expected


def test_from_dataset_looks_only_at_the_graphs_meant(graphs):
    expected = FixedSizeOptions(5 + 1, 9 + 1, 2)
    assert FixedSizeOptions.from_dataset(Subset(InMemory(graphs), [0, 1]), 2) == expected
    assert FixedSizeOptions.from_dataset(InMemory(graphs)[:2], 2) == expected


@pytest.mark.parametrize("kind", [list, InMemory])
def test_from_dataset_looks_at_no_more_graphs_than_allowed(graphs, kind):
    assert FixedSizeOptions.from_dataset(kind(graphs), 2, sample_limit=1) == FixedSizeOptions(6, 5, 2)


def test_from_dataset_sees_what_a_transform_does(graphs):
    def grow(data):
        return graph(30, 40)

    assert FixedSizeOptions.from_dataset(InMemory(graphs, transform=grow), 2) == FixedSizeOptions(31, 41, 2)


def test_from_dataset_finds_the_size_of_each_type():
    options = FixedSizeOptions.from_dataset([hetero_graph(2, 5, 3, None), hetero_graph(4, 1, 2, 6)], 3)
    assert options.num_nodes == {"author": 9, "paper": 11}
    assert options.num_edges == {WRITES: 7, CITES: 13}


def test_from_dataset_refuses_an_empty_dataset():
    with pytest.raises(ValueError, match="empty"):
        FixedSizeOptions.from_dataset([], 4)


def test_from_dataset_refuses_a_batch_of_padding_alone(graphs):
    with pytest.raises(ValueError, match=r"batch_size should be at least 2.*got 1\)"):
        FixedSizeOptions.from_dataset(graphs, 1)


def test_from_loader_makes_room_for_the_largest_batch(graphs):
    assert FixedSizeOptions.from_loader(PyGDataLoader(graphs, 2), sample_limit=5) == FixedSizeOptions(
        11, 14, 3
    )
    assert FixedSizeOptions.from_loader(PyGDataLoader(graphs, 2), sample_limit=1) == FixedSizeOptions(
        8, 14, 3
    )


def test_from_loader_finds_the_size_of_each_type():
    loader = PyGDataLoader([hetero_graph(2, 5, 3, 1), hetero_graph(4, 1, 2, 6)], 1)
    options = FixedSizeOptions.from_loader(loader, sample_limit=2)
    assert options.num_nodes == {"author": 5, "paper": 6}
    assert options.num_edges == {WRITES: 4, CITES: 7}


def test_from_loader_refuses_an_empty_loader():
    with pytest.raises(ValueError, match="The loader is empty"):
        FixedSizeOptions.from_loader([])


def test_options_with_the_same_values_are_equal():
    assert FixedSizeOptions(9, 9, 3) == FixedSizeOptions(9, 9, 3)
    assert FixedSizeOptions(9, 9, 3) != FixedSizeOptions(9, 9, 4)
