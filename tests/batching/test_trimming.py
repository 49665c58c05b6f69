"""Trimming: what is dropped, what is kept, and what is left of the graph."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch_geometric.utils import subgraph

from gnn_ipu_helpers.batching import FixedSizeDataLoader, FixedSizeOptions, OverSizeStrategy, Trimmed, trim

from .graphs import assert_same_graph, graph, hetero_graph

NODES, EDGES, BOTH = (
    OverSizeStrategy.TrimNodes,
    OverSizeStrategy.TrimEdges,
    OverSizeStrategy.TrimNodesAndEdges,
)
WRITES, CITES = ("author", "writes", "paper"), ("paper", "cites", "paper")


def numbered(num_nodes, num_edges, seed=0):
    """A graph whose nodes and edges know their numbers."""
    data = graph(num_nodes, num_edges, seed, names=("x", "edge_attr", "y_graph"))
    data.n_id, data.e_id = torch.arange(num_nodes), torch.arange(num_edges)
    return data


@given(
    st.integers(1, 12),
    st.integers(0, 20),
    st.integers(2, 14),
    st.integers(0, 20),
    st.sampled_from((None, 7)),
)
def test_what_is_left_is_part_of_the_graph_and_fits(num_nodes, num_edges, room_nodes, room_edges, seed):
    data = numbered(num_nodes, num_edges)
    generator = None if seed is None else torch.Generator().manual_seed(seed)
    left, trimmed = trim(data, FixedSizeOptions(room_nodes, room_edges), BOTH, generator=generator)
    assert 1 <= left.num_nodes <= max(room_nodes - 1, 1)
    assert left.num_edges <= room_edges
    assert (trimmed.nodes, trimmed.edges) == (num_nodes - left.num_nodes, num_edges - left.num_edges)
    assert torch.equal(left.x, data.x[left.n_id])
    assert torch.equal(left.edge_attr, data.edge_attr[left.e_id])
    assert torch.equal(left.n_id[left.edge_index], data.edge_index[:, left.e_id])


def test_dropping_nodes_drops_their_edges_and_no_others():
    data = numbered(9, 30)
    left, _ = trim(data, FixedSizeOptions(6, 99), NODES)
    edge_index, _ = subgraph(torch.arange(5), data.edge_index, relabel_nodes=True, num_nodes=9)
    assert torch.equal(left.edge_index, edge_index)


def test_without_a_generator_the_last_ones_go_first():
    left, trimmed = trim(numbered(9, 30), FixedSizeOptions(6, 3), BOTH)
    assert left.n_id.tolist() == [0, 1, 2, 3, 4]
    assert left.e_id.tolist() == sorted(left.e_id.tolist())
    assert (trimmed.nodes, trimmed.edges, trimmed.batches) == (4, 27, 1)


def test_a_generator_chooses_at_random():
    kept = {
        tuple(
            trim(
                numbered(9, 0), FixedSizeOptions(4, 3), NODES, generator=torch.Generator().manual_seed(seed)
            )[0].n_id.tolist()
        )
        for seed in range(9)
    }
    assert len(kept) > 3


@pytest.mark.parametrize("seed", range(5))
def test_protected_nodes_are_kept(seed):
    options, random = FixedSizeOptions(5, 99), torch.Generator().manual_seed(seed)
    left, _ = trim(numbered(9, 5), options, NODES, 3, generator=random)
    assert left.n_id[:3].tolist() == [0, 1, 2]


@pytest.mark.parametrize("num_edges", [4, 7])
def test_every_graph_with_edges_keeps_one_as_in_poptorch_geometric(num_edges):
    graphs = [numbered(3, count, seed) for seed, count in enumerate((8, 0, 1, 20, 2))]
    options = FixedSizeOptions(99, num_edges, 6)
    (batch,) = FixedSizeDataLoader(graphs, 6, fixed_size_options=options, over_size_strategy=EDGES)
    assert batch.batch[batch.edge_index[0, batch.edges_mask]].unique().tolist() == [0, 2, 3, 4]
    assert batch.edges_mask.all()


def test_fewer_edges_than_graphs_still_fit():
    graphs = [numbered(3, 5, seed) for seed in range(4)]
    options = FixedSizeOptions(99, 2, 5)
    (batch,) = FixedSizeDataLoader(graphs, 5, fixed_size_options=options, over_size_strategy=EDGES)
    assert batch.edges_mask.tolist() == [True, True]


def test_each_type_is_trimmed_to_its_own_room():
    data = hetero_graph(5, 6, 9, 7)
    options = FixedSizeOptions({"author": 4, "paper": 7}, {WRITES: 2, CITES: 3})
    left, trimmed = trim(data, options, BOTH, {"author": 1})
    assert (left["author"].num_nodes, left["paper"].num_nodes) == (3, 6)
    assert left[WRITES].num_edges <= 2
    assert left[CITES].num_edges == 3
    assert left["author"].x.equal(data["author"].x[:3])
    assert left[WRITES].edge_attr.size(0) == left[WRITES].num_edges
    assert trimmed.nodes == 2


def test_a_graph_that_fits_stays_as_it_is():
    data = numbered(4, 5)
    left, trimmed = trim(data, FixedSizeOptions(5, 5), BOTH)
    assert_same_graph(data, left)
    assert (trimmed.nodes, trimmed.edges, trimmed.batches) == (0, 0, 0)


def test_the_graph_given_is_not_changed():
    data = numbered(9, 5)
    before = data.clone()
    trim(data, FixedSizeOptions(5, 3), BOTH)
    assert_same_graph(before, data)


def test_what_has_to_stay_but_does_not_fit_is_an_error():
    with pytest.raises(ValueError, match=r"of its 9 nodes, 7 have to stay .* num_nodes to at least 8"):
        trim(numbered(9, 5), FixedSizeOptions(5, 9), NODES, 7)


def test_attributes_that_point_at_nodes_forbid_dropping_nodes():
    data = numbered(9, 5)
    data.partner_index = torch.arange(9).flip(0)
    with pytest.raises(ValueError, match=r"'partner_index', which refers to nodes"):
        trim(data, FixedSizeOptions(5, 9), NODES)


def test_reports_add_up():
    total = Trimmed(1, 2, 1, 10, 20, 1) + Trimmed(3, 0, 1, 10, 10, 1)
    assert total == Trimmed(4, 2, 2, 20, 30, 2)
    assert total.percent == {"nodes": 20.0, "edges": pytest.approx(6.667, abs=1e-3), "batches": 100.0}
