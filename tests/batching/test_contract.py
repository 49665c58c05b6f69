"""What a batch of fixed size is: every rule as a property over random graphs."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gnn_ipu_helpers.batching import FixedSizeOptions, collate_fixed_size

from .graphs import assert_same_graph, graph, hetero_graph, heterogeneous, homogeneous, keys_of, stores_of

AUTHOR, PAPER = "author", "paper"
WRITES, CITES = (AUTHOR, "writes", PAPER), (PAPER, "cites", PAPER)


def room_for(graphs, spare_nodes, spare_edges, spare_graphs):
    """Options into which the graphs fit, with so much padding."""
    return FixedSizeOptions(
        sum(data.num_nodes for data in graphs) + spare_nodes,
        sum(data.num_edges for data in graphs) + spare_edges,
        len(graphs) + spare_graphs,
    )


@st.composite
def padded(draw):
    graphs = draw(homogeneous())
    options = room_for(graphs, draw(st.integers(1, 9)), draw(st.integers(0, 9)), draw(st.integers(1, 4)))
    options.node_pad_value, options.edge_pad_value, options.graph_pad_value = draw(
        st.sampled_from(((0.0, 0.0, 0.0), (1.0, 2.0, 3.0)))
    )
    return graphs, options, collate_fixed_size(graphs, options)


@given(padded())
def test_a_batch_has_exactly_the_fixed_size(case):
    _, options, batch = case
    assert batch.num_nodes == options.num_nodes
    assert batch.num_edges == options.num_edges
    assert batch.num_graphs == options.num_graphs
    assert batch.edge_index.shape == (2, options.num_edges)
    assert batch.batch.shape == batch.nodes_mask.shape == (options.num_nodes,)
    assert batch.edges_mask.shape == (options.num_edges,)
    assert batch.graphs_mask.shape == (options.num_graphs,)
    assert batch.ptr.shape == (options.num_graphs + 1,)


@given(padded())
def test_attributes_get_the_size_of_their_level(case):
    graphs, options, batch = case
    lengths = {
        **dict.fromkeys(("x", "z", "frames", "train_mask"), options.num_nodes),
        **dict.fromkeys(("edge_attr", "edge_weight"), options.num_edges),
        **dict.fromkeys(("scalar", "number", "root_index"), options.num_graphs),
        "pair": 2 * options.num_graphs,
        "y": options.num_graphs if graphs[0].y.dim() == 2 else options.num_nodes,
    }
    for name in set(keys_of(graphs[0])) & set(lengths):
        assert batch[name].size(0) == lengths[name], name
        assert batch[name].is_contiguous(), name
        if name != "number":
            assert batch[name].dtype == graphs[0][name].dtype, name


@given(padded())
def test_unpadding_gives_the_graphs_back_to_the_bit(case):
    graphs, _, batch = case
    for original, restored in zip(graphs, batch.to_data_list()):
        assert_same_graph(original, restored)


@given(padded())
def test_real_graphs_come_first_and_masks_tell_them(case):
    graphs, _, batch = case
    sizes = [
        (batch.graphs_mask, len(graphs)),
        (batch.nodes_mask, sum(data.num_nodes for data in graphs)),
        (batch.edges_mask, sum(data.num_edges for data in graphs)),
    ]
    for mask, number in sizes:
        assert mask.dtype == torch.bool
        assert mask[:number].all()
        assert not mask[number:].any()
    assert not batch.nodes_mask[-1]
    assert not batch.graphs_mask[-1]


@given(padded())
def test_batch_and_ptr_agree(case):
    graphs, options, batch = case
    assert torch.equal(batch.ptr.diff(), torch.bincount(batch.batch, minlength=options.num_graphs))
    assert batch.ptr.diff()[: len(graphs)].tolist() == [data.num_nodes for data in graphs]


@given(padded())
def test_padding_nodes_are_split_evenly_the_first_graphs_taking_the_rest(case):
    graphs, options, batch = case
    shares = batch.ptr.diff()[len(graphs) :]
    whole, rest = divmod(int((~batch.nodes_mask).sum()), options.num_graphs - len(graphs))
    assert shares.tolist() == [whole + (place < rest) for place in range(len(shares))]


@given(padded())
def test_a_padding_edge_is_a_loop_on_the_first_node_of_its_padding_graph(case):
    graphs, options, batch = case
    loops = batch.edge_index[:, ~batch.edges_mask]
    assert torch.equal(loops[0], loops[1])
    firsts = batch.ptr[len(graphs) : -1][batch.ptr.diff()[len(graphs) :] > 0]
    whole, rest = divmod(loops.size(1), len(firsts))
    expected = [first for place, first in enumerate(firsts) for _ in range(whole + (place < rest))]
    assert loops[0].tolist() == [int(first) for first in expected]


@given(padded())
def test_no_real_edge_touches_padding(case):
    _, _, batch = case
    assert batch.nodes_mask[batch.edge_index[:, batch.edges_mask]].all()
    assert not batch.nodes_mask[batch.edge_index[:, ~batch.edges_mask]].any()


@given(padded())
def test_padding_has_the_pad_value_of_its_level(case):
    graphs, options, batch = case
    for name in set(keys_of(batch)) & {"x", "z", "frames"}:
        assert (batch[name][~batch.nodes_mask] == options.node_pad_value).all()
    for name in set(keys_of(batch)) & {"edge_attr", "edge_weight"}:
        assert (batch[name][~batch.edges_mask] == options.edge_pad_value).all()
    for name in set(keys_of(batch)) & {"scalar", "number"}:
        assert (batch[name][~batch.graphs_mask] == options.graph_pad_value).all()
    if "train_mask" in keys_of(batch):
        assert (batch.train_mask[~batch.nodes_mask] == bool(options.node_pad_value)).all()


@given(padded())
def test_numbers_of_nodes_move_with_their_graph(case):
    graphs, _, batch = case
    if "root_index" in keys_of(batch):
        expected = [int(data.root_index) + int(start) for data, start in zip(graphs, batch.ptr)]
        assert batch.root_index[batch.graphs_mask].tolist() == expected
        assert (batch.root_index < batch.num_nodes).all()


@st.composite
def padded_hetero(draw):
    graphs = draw(heterogeneous())
    spare = draw(st.integers(1, 6))
    totals = {AUTHOR: 0, PAPER: 0, WRITES: 0, CITES: 0}
    for data in graphs:
        for key in totals:
            if key in data.node_types:
                totals[key] += data[key].num_nodes
            elif key in data.edge_types:
                totals[key] += data[key].num_edges
    options = FixedSizeOptions(
        {AUTHOR: totals[AUTHOR] + spare, PAPER: totals[PAPER] + 1},
        {WRITES: totals[WRITES] + 2, CITES: totals[CITES] + spare},
        len(graphs) + draw(st.integers(1, 3)),
    )
    return graphs, options, collate_fixed_size(graphs, options)


@given(padded_hetero())
def test_every_type_of_a_heterogeneous_batch_has_its_fixed_size(case):
    graphs, options, batch = case
    assert batch.num_graphs == options.num_graphs
    assert batch.graphs_mask.tolist() == [place < len(graphs) for place in range(options.num_graphs)]
    assert batch.target.shape == (options.num_graphs,)
    for key, number in options.num_nodes.items():
        assert batch[key].x.size(0) == batch[key].num_nodes == number
        assert batch[key].batch.shape == batch[key].nodes_mask.shape == (number,)
        assert batch[key].ptr.tolist()[-1] == number
        assert not batch[key].nodes_mask[-1]
    for key, number in options.num_edges.items():
        assert batch[key].edge_index.shape == (2, number)
        assert batch[key].edges_mask.shape == (number,)


@given(padded_hetero())
def test_padding_edges_of_a_type_join_padding_nodes_of_one_graph(case):
    _, _, batch = case
    for source, relation, target in (WRITES, CITES):
        store = batch[source, relation, target]
        for nodes, ends in ((source, store.edge_index[0]), (target, store.edge_index[1])):
            assert torch.equal(batch[nodes].nodes_mask[ends], store.edges_mask)
        origins = batch[source].batch[store.edge_index[0]]
        assert torch.equal(origins, batch[target].batch[store.edge_index[1]])


@given(padded_hetero())
def test_a_heterogeneous_batch_gives_its_graphs_back(case):
    graphs, _, batch = case
    for original, restored in zip(graphs, batch.to_data_list()):
        assert_same_graph(original, restored)
        if CITES not in original.edge_types:
            assert restored[CITES].edge_index.shape == (2, 0)


def test_attributes_come_in_the_order_of_poptorch_geometric():
    names = ("x", "z", "edge_attr", "y_graph")
    batch = collate_fixed_size([graph(3, 4, names=names)], FixedSizeOptions(5, 6, 2))
    expected = "x edge_index edge_attr y batch edges_mask graphs_mask nodes_mask ptr z num_nodes num_edges"
    assert list(batch.stores[0].keys()) == expected.split()


def test_a_heterogeneous_batch_prints_as_in_poptorch_geometric():
    batch = collate_fixed_size([hetero_graph(2, 2, 1, 1)], FixedSizeOptions(5, 6, 2))
    stores = {key: list(store.keys()) for key, store in stores_of(batch).items()}
    assert stores == {
        None: ["target", "graphs_mask", "num_nodes", "num_edges"],
        AUTHOR: ["x", "batch", "ptr", "nodes_mask"],
        PAPER: ["x", "y", "batch", "ptr", "nodes_mask"],
        WRITES: ["edge_index", "edge_attr", "edges_mask"],
        CITES: ["edge_index", "edges_mask"],
    }
    assert (batch.stores[0]["num_nodes"], batch.stores[0]["num_edges"]) == (10, 12)


def test_masks_can_be_left_out():
    batch = collate_fixed_size([graph(3, 4)], FixedSizeOptions(5, 6, 2), add_pad_masks=False)
    assert not [name for name in keys_of(batch) if name.endswith("_mask")]


def test_padding_graphs_without_a_node_left_for_them_stay_empty():
    batch = collate_fixed_size([graph(3, 2)], FixedSizeOptions(4, 8, 4))
    assert batch.ptr.tolist() == [0, 3, 4, 4, 4]
    assert (batch.edge_index[:, 2:] == 3).all()


def test_excluded_attributes_are_left_out():
    batch = collate_fixed_size([graph(3, 4)], FixedSizeOptions(5, 6, 2), exclude_keys=["edge_attr"])
    assert "edge_attr" not in keys_of(batch)


def test_followed_attributes_tell_the_graph_of_their_entries():
    graphs = [graph(2, 3, names=("edge_attr", "pair")), graph(3, 1, names=("edge_attr", "pair"))]
    batch = collate_fixed_size(graphs, FixedSizeOptions(7, 6, 3), follow_batch=["edge_attr", "pair"])
    assert batch.edge_attr_batch.tolist() == [0, 0, 0, 1, 2, 2]
    assert batch.edge_attr_ptr.tolist() == [0, 3, 4, 6]
    assert batch.pair_batch.tolist() == [0, 0, 1, 1, 2, 2]
    assert batch.pair_ptr.tolist() == [0, 2, 4, 6]


def test_other_objects_are_kept_only_with_a_default_for_padding_graphs():
    data = graph(2, 1)
    data.name, data.smiles = "water", "O"
    options = FixedSizeOptions(4, 4, 3, pad_graph_defaults={"name": "padding"})
    batch = collate_fixed_size([data], options)
    assert batch.name == ["water", "padding", "padding"]
    assert "smiles" not in keys_of(batch)


def test_the_class_of_the_graphs_decides_how_values_move():
    class Counted(type(graph(1, 0))):
        def __inc__(self, key, value, *args, **kwargs):
            return 10 if key == "ticket" else super().__inc__(key, value, *args, **kwargs)

    graphs = [Counted(x=torch.zeros(2, 1), edge_index=torch.tensor([[0], [1]]), ticket=torch.tensor([1]))] * 2
    batch = collate_fixed_size(graphs, FixedSizeOptions(5, 3, 3))
    assert batch.ticket.tolist() == [1, 11, 20]
    assert batch.edge_index.tolist() == [[0, 2, 4], [1, 3, 4]]


def test_tensors_that_are_not_contiguous_are_accepted():
    data = graph(3, 4)
    plain = collate_fixed_size([data], FixedSizeOptions(5, 6, 2))
    data.x = data.x.t().contiguous().t()
    data.edge_index = data.edge_index.t().contiguous().t()
    assert not data.x.is_contiguous()
    batch = collate_fixed_size([data], FixedSizeOptions(5, 6, 2))
    assert torch.equal(batch.x, plain.x)
    assert torch.equal(batch.edge_index, plain.edge_index)
    assert batch.x.stride() == plain.x.stride()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (FixedSizeOptions(3, 9, 2), r"Graph 0 with 3 nodes .* Raise num_nodes to at least 4"),
        (FixedSizeOptions(9, 3, 2), r"Graph 0 with 4 edges .* Raise num_edges to at least 4"),
    ],
)
def test_a_graph_that_is_too_large_is_named_with_the_budget_it_needs(options, message):
    with pytest.raises(ValueError, match=message):
        collate_fixed_size([graph(3, 4)], options)


def test_more_graphs_than_fit_are_refused():
    with pytest.raises(ValueError, match=r"A batch of 2 graphs .* num_graphs=2 leaves room for 1"):
        collate_fixed_size([graph(2, 1)] * 2, FixedSizeOptions(9, 9, 2))


def test_graphs_that_are_too_large_only_together_are_named_with_their_sum():
    with pytest.raises(ValueError, match="The 2 graphs of a batch, with 6 nodes together"):
        collate_fixed_size([graph(3, 1)] * 2, FixedSizeOptions(6, 9, 3))


def test_an_edge_that_leads_nowhere_is_refused():
    data = graph(3, 4)
    data.edge_index[1, 2] = 3
    with pytest.raises(
        ValueError, match="An edge of graph 1 leads to node 3, but the graph has only 3 nodes"
    ):
        collate_fixed_size([graph(3, 4), data], FixedSizeOptions(9, 9, 3))


def test_homogeneous_and_heterogeneous_graphs_do_not_mix():
    with pytest.raises(TypeError, match="cannot share a batch .*got Data first and HeteroData at position 1"):
        collate_fixed_size([graph(2, 1), hetero_graph(1, 1, 1, 1)], FixedSizeOptions(9, 9, 3))


def test_no_graphs_at_all_are_refused():
    with pytest.raises(ValueError, match="empty"):
        collate_fixed_size([], FixedSizeOptions(9, 9, 3))


def test_an_attribute_of_no_level_is_refused_unless_excluded():
    graphs = [graph(3, 2), graph(4, 2)]
    graphs[0].rings, graphs[1].rings = torch.zeros(5), torch.zeros(6)
    options = FixedSizeOptions(9, 9, 3)
    with pytest.raises(ValueError, match=r"'rings' belongs to neither .* exclude_keys=\['rings'\]"):
        collate_fixed_size(graphs, options)
    assert "rings" not in keys_of(collate_fixed_size(graphs, options, exclude_keys=["rings"]))


def test_an_attribute_that_a_graph_lacks_is_named():
    graphs = [graph(3, 2), graph(4, 2)]
    del graphs[1].edge_attr
    with pytest.raises(ValueError, match="Graph 1 has no attribute 'edge_attr'"):
        collate_fixed_size(graphs, FixedSizeOptions(9, 9, 3))


def test_an_attribute_of_another_dtype_is_named():
    graphs = [graph(3, 2), graph(4, 2)]
    graphs[1].x = graphs[1].x.double()
    with pytest.raises(
        ValueError, match=r"'x' should have dtype torch.float32 .*got torch.float64 in graph 1"
    ):
        collate_fixed_size(graphs, FixedSizeOptions(9, 9, 3))


def test_sparse_attributes_are_refused():
    data = graph(3, 2)
    data.adj = torch.eye(3).to_sparse()
    with pytest.raises(ValueError, match="'adj' is a sparse tensor"):
        collate_fixed_size([data], FixedSizeOptions(9, 9, 3))


def test_options_for_types_do_not_fit_homogeneous_graphs():
    with pytest.raises(ValueError, match="the graphs are homogeneous"):
        collate_fixed_size([graph(2, 1)], FixedSizeOptions({"a": 9}, {("a", "to", "a"): 9}, 2))


def test_options_without_a_type_of_the_graphs_are_refused():
    options = FixedSizeOptions({AUTHOR: 9}, {WRITES: 9, CITES: 9}, 2)
    with pytest.raises(ValueError, match="no num_nodes for the node type 'paper'"):
        collate_fixed_size([hetero_graph(1, 1, 1, 1)], options)
