"""Datasets out of the ordinary: they work, or one sentence names the attribute and what to do about it."""

import logging
import warnings

import numpy as np
import pytest
import torch
from torch.utils.data import IterableDataset
from torch_geometric.data import Data, HeteroData
from torch_geometric.loader import ClusterLoader

from gnn_ipu_helpers import (
    DataLoader,
    FixedSizeClusterLoader,
    FixedSizeDataLoader,
    FixedSizeNeighborLoader,
    FixedSizeOptions,
    FixedSizeStrategy,
    OverSizeStrategy,
    efficiency,
    partition,
)
from gnn_ipu_helpers.batching import PackSampler, collate_fixed_size, trim

from .graphs import InMemory, graph, hetero_graph

PACK, STREAM = FixedSizeStrategy.Pack, FixedSizeStrategy.StreamPack
SKIP, BOTH = OverSizeStrategy.Skip, OverSizeStrategy.TrimNodesAndEdges
CITES = ("paper", "cites", "paper")


def points(number=12):
    return [Data(x=torch.ones(2 + at % 4, 1), edge_index=torch.zeros(2, 0).long()) for at in range(number)]


# -- nothing of a kind ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("strategy", FixedSizeStrategy)
@pytest.mark.parametrize("options", [None, FixedSizeOptions(12, 0, 5)], ids=["found", "num_edges=0"])
def test_graphs_without_edges_can_be_batched(strategy, options):
    size = {} if options else {"batch_size": 5}
    loader = FixedSizeDataLoader(
        points(),
        fixed_size_options=options,
        fixed_size_strategy=strategy,
        over_size_strategy=SKIP
        if options and strategy == FixedSizeStrategy.PadToMax
        else OverSizeStrategy.Error,
        **size,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        real = sum(int(batch.graphs_mask.sum()) for batch in loader)
    assert real + loader.skipped == 12


def test_a_type_without_any_nodes_or_edges_needs_no_budget():
    graphs = [hetero_graph(2, 3 + at % 2, 2, 0, seed=at) for at in range(9)]
    for data in graphs:
        data["editor"].x = torch.ones(0, 2)
    options = FixedSizeOptions.for_packing(graphs, num_graphs=4)
    loader = FixedSizeDataLoader(graphs, fixed_size_options=options, fixed_size_strategy=PACK)
    assert sum(int(batch.graphs_mask.sum()) for batch in loader) == 9
    assert options.num_edges[CITES] == 1


# -- trimming and what names nodes ---------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [list, InMemory])
@pytest.mark.parametrize("seed", range(5))
def test_nodes_that_a_graph_names_are_kept_and_renumbered(kind, seed):
    graphs = [graph(9, 12, at, names=("x", "root_index")) for at in range(4)]
    for data in graphs:
        data.root_index = torch.tensor([8 - seed])
    loader = FixedSizeDataLoader(
        kind(graphs), fixed_size_options=FixedSizeOptions(12, 9, 3), over_size_strategy=BOTH
    )
    for at, batch in enumerate(loader):
        for place in range(2):
            root = int(batch.root_index[place])
            assert int(batch.batch[root]) == place
            assert torch.equal(batch.x[root], graphs[2 * at + place].x[8 - seed])


def test_an_edge_stays_only_if_all_its_numbers_of_nodes_do():
    data = graph(9, 20, names=("x",))
    data.neg_edge_index = torch.randint(9, (2, 20), generator=torch.Generator().manual_seed(1))
    data.e_id, data.n_id = torch.arange(20), torch.arange(9)
    left, trimmed = trim(data, FixedSizeOptions(6, 99), OverSizeStrategy.TrimNodes)
    for name in ("edge_index", "neg_edge_index"):
        assert torch.equal(left.n_id[left[name]], data[name][:, left.e_id])
    stays = (data.edge_index < 5).all(0) & (data.neg_edge_index < 5).all(0)
    assert left.e_id.tolist() == stays.nonzero().view(-1).tolist()
    assert trimmed.edges == 20 - int(stays.sum())


class Pairs(Data):
    """Names edges in its own way."""

    def __inc__(self, key, value, *args, **kwargs):
        return self.num_edges if key == "pair_of_edges" else super().__inc__(key, value, *args, **kwargs)


def test_numbers_that_only_the_class_understands_forbid_trimming():
    data = Pairs(
        x=torch.ones(9, 1), edge_index=torch.zeros(2, 6).long(), pair_of_edges=torch.tensor([[5, 2]])
    )
    with pytest.raises(ValueError, match=r"'pair_of_edges', which refers to nodes or edges. Leave it out"):
        trim(data, FixedSizeOptions(20, 3), OverSizeStrategy.TrimEdges)
    assert trim(data, FixedSizeOptions(20, 6), BOTH)[0] is data


def test_a_number_of_a_node_that_is_not_there_forbids_trimming():
    data = graph(9, 12, names=("x",))
    data.root_index = torch.tensor([30])
    with pytest.raises(
        ValueError, match=r"'root_index' refers to nodes that they do not have .*from 30 to 30"
    ):
        trim(data, FixedSizeOptions(6, 99), BOTH)


# -- attributes ----------------------------------------------------------------------------------------------


def with_attribute(**attributes):
    return [Data(**{"x": torch.ones(3, 2), "edge_index": torch.zeros(2, 4).long(), **attributes})] * 2


@pytest.mark.parametrize("kind", [list, InMemory])
@pytest.mark.parametrize(
    ("attributes", "options", "message"),
    [
        ({"own_index": torch.ones(3).bool()}, {}, r"'own_index' numbers nodes.*got torch.bool\).*\.long\(\)"),
        ({"edge_index": torch.zeros(2, 4)}, {}, r"'edge_index' numbers nodes.*got torch.float32\)"),
        ({"edge_index": torch.zeros(4, 2).long()}, {}, r"\[2, num_edges\] \(got \[4, \d\]\).*transpose it"),
        ({"w": torch.ones(3, requires_grad=True)}, {}, r"'w' requires a gradient.*\.detach\(\)"),
        ({"z": torch.ones(3).byte()}, {"node_pad_value": -1}, r"node_pad_value=-1 does not fit .*'z'.*uint8"),
        (
            {"z": torch.ones(3).long()},
            {"node_pad_value": 0.5},
            r"node_pad_value=0.5 does not fit .*'z'.*int64",
        ),
        (
            {"h": torch.ones(3).half()},
            {"node_pad_value": 1e6},
            r"node_pad_value=1000000.0 does not fit .*'h'",
        ),
        ({"nodes_mask": torch.ones(3).bool()}, {}, r"'nodes_mask', which is the name .*add_pad_masks=False"),
    ],
)
def test_attributes_that_no_batch_can_hold_as_they_are_meant_are_named(kind, attributes, options, message):
    graphs = with_attribute(**attributes)
    if kind is InMemory and "w" in attributes:
        graphs = [data.clone() for data in graphs]
    with pytest.raises(ValueError, match=message):
        FixedSizeDataLoader(kind(graphs), fixed_size_options=FixedSizeOptions(9, 9, 2, **options))


@pytest.mark.parametrize(
    "dtype",
    [torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.float16, torch.bfloat16]
    + [torch.float64, torch.complex64],
)
@pytest.mark.parametrize("kind", [list, InMemory])
def test_attributes_of_every_dtype_are_padded(dtype, kind):
    graphs = with_attribute(
        value=torch.ones(3, 2).to(dtype), e=torch.ones(4).to(dtype), g=torch.ones(1, 2).to(dtype)
    )
    options = FixedSizeOptions(8, 9, 3, node_pad_value=1, edge_pad_value=0, graph_pad_value=1)
    (batch,) = FixedSizeDataLoader(kind(graphs), fixed_size_options=options)
    assert batch.value.dtype == batch.e.dtype == batch.g.dtype == dtype
    assert torch.equal(batch.value, torch.ones(8, 2).to(dtype))
    assert torch.equal(batch.e, (torch.arange(9) < 8).to(dtype))
    assert torch.equal(batch.g, torch.ones(3, 2).to(dtype))


def test_numbers_of_nodes_are_not_asked_to_hold_a_pad_value():
    (batch,) = FixedSizeDataLoader(
        with_attribute(), fixed_size_options=FixedSizeOptions(8, 9, 3, edge_pad_value=0.5)
    )
    assert int(batch.edge_index[0, -1]) == 6


def test_attributes_that_are_not_tensors_are_named_once(caplog):
    graphs = [Data(x=torch.ones(2, 1), edge_index=torch.zeros(2, 1).long(), odd_name="a") for _ in range(3)]
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            list(FixedSizeDataLoader(graphs, 2))
        list(FixedSizeDataLoader(graphs, 2, exclude_keys=["odd_name"]))
    (record,) = caplog.records
    assert "leave out 'odd_name', which are not tensors" in record.getMessage()


def test_an_attribute_left_out_by_name_is_not_looked_at():
    graphs = with_attribute(own_index=torch.ones(3).bool())
    (batch,) = FixedSizeDataLoader(graphs, 3, exclude_keys=["own_index"])
    assert "own_index" not in batch


# -- datasets and samplers -----------------------------------------------------------------------------------


class Endless(IterableDataset):
    def __iter__(self):
        yield graph(3, 2)


@pytest.mark.parametrize(
    "dataset", [Endless(), {0: graph(3, 2)}, iter([graph(3, 2)])], ids=["stream", "dict", "iter"]
)
@pytest.mark.parametrize("loader", [FixedSizeDataLoader, DataLoader])
def test_what_is_no_sequence_of_graphs_is_refused(dataset, loader):
    with pytest.raises(TypeError, match=r"a sequence of graphs, with a length .*Make a list of its graphs"):
        loader(dataset)


def test_one_graph_is_no_dataset():
    with pytest.raises(TypeError, match=r"got one Data\). Put it into a list; .*FixedSizeNeighborLoader"):
        FixedSizeDataLoader(graph(3, 2))


@pytest.mark.parametrize(
    ("batches", "error", "message"),
    [
        ([], ValueError, "batch_sampler gives no batches"),
        ([[0], []], ValueError, r"at least one \(got \[\]\)"),
        ([0, 1], ValueError, r"of the graphs of each batch, at least one \(got 0\)"),
        ([[0.5]], ValueError, r"got \[0.5\]\)"),
        ([[0, 9]], IndexError, r"between 0 and 3 \(got values from 0 to 9\)"),
        ([[-1]], IndexError, r"between 0 and 3 \(got values from -1 to -1\)"),
    ],
)
def test_odd_batch_samplers_are_refused(batches, error, message):
    loader = FixedSizeDataLoader([graph(3, 2)] * 4, 4, batch_sampler=batches)
    with pytest.raises(error, match=message):
        next(iter(loader))


def test_a_batch_sampler_that_is_used_up_after_one_epoch_is_refused():
    with pytest.raises(TypeError, match=r"anew in every epoch \(got generator\). Make a list of it"):
        FixedSizeDataLoader([graph(3, 2)] * 4, 4, batch_sampler=([0] for _ in range(2)))


@pytest.mark.parametrize("kind", [list, tuple, torch.tensor, np.array, iter])
def test_a_batch_sampler_may_give_positions_in_any_form(kind):
    class Batches:
        def __iter__(self):
            return iter([kind([2, 0]), kind([1])])

    loader = FixedSizeDataLoader(
        [graph(at + 1, 2, names=("x",)) for at in range(3)], 3, batch_sampler=Batches()
    )
    assert [int(batch.nodes_mask.sum()) for batch in loader] == [4, 2]


@pytest.mark.parametrize("kind", [list, InMemory])
def test_graphs_of_given_batches_that_do_not_fit_are_skipped(kind):
    graphs = [graph(nodes, 2, nodes, names=("x",)) for nodes in (3, 9, 4, 5)]
    loader = FixedSizeDataLoader(
        kind(graphs),
        fixed_size_options=FixedSizeOptions(9, 9, 3),
        over_size_strategy=SKIP,
        batch_sampler=[[0, 1], [2, 3]],
    )
    with pytest.warns(UserWarning, match="2 graphs are skipped"):
        assert [int(batch.nodes_mask.sum()) for batch in loader] == [3, 4]
    assert loader.skipped == 2


def test_skipped_describes_the_last_epoch_and_draws_nothing():
    loader = FixedSizeDataLoader(
        InMemory([graph(nodes, 2, nodes) for nodes in (3, 9, 4, 5)]),
        shuffle=True,
        fixed_size_options=FixedSizeOptions(8, 9, 2),
        over_size_strategy=SKIP,
    )
    assert loader.skipped == 0
    with pytest.warns(UserWarning, match="1 graphs are skipped"):
        list(loader)
    before = torch.get_rng_state()
    assert (loader.skipped, loader.left_out) == (1, 0)
    assert torch.equal(torch.get_rng_state(), before)


def test_a_batch_size_of_two_that_contradicts_the_options_is_refused():
    with pytest.raises(ValueError, match="batch_size=2 does not match fixed_size_options.num_graphs=10"):
        FixedSizeDataLoader([graph(3, 2)], 2, fixed_size_options=FixedSizeOptions(99, 99, 10))


def grow(data):
    grow.times += 1
    return graph(3 + grow.times, 2, names=("x",))


@pytest.mark.parametrize("strategy", [PACK, STREAM])
def test_a_transform_that_changes_sizes_after_planning_is_named(strategy):
    grow.times = 0
    dataset = InMemory([graph(3, 2, names=("x",))] * 6, transform=grow)
    loader = FixedSizeDataLoader(
        dataset, fixed_size_options=FixedSizeOptions(11, 20, 4), fixed_size_strategy=strategy
    )
    with pytest.raises(
        ValueError,
        match=r"(?s)Graph \d had \d nodes when .* has \d+ now: the dataset's transform, <function grow",
    ):
        list(loader)


# -- options -------------------------------------------------------------------------------------------------


def test_a_loader_that_shows_nothing_new_is_not_read_a_thousand_times():
    reads = []

    class Three:
        def __iter__(self):
            for nodes in (3, 5, 4):
                reads.append(nodes)
                yield graph(nodes, 2)

    assert FixedSizeOptions.from_loader(Three()) == FixedSizeOptions(6, 3, 2)
    assert len(reads) <= 9


@pytest.mark.parametrize("limit", [0, -1])
def test_a_sample_limit_that_shows_nothing_is_refused(limit):
    with pytest.raises(ValueError, match=rf"sample_limit should be at least 1.*got {limit}\)"):
        FixedSizeOptions.from_dataset([graph(3, 2)], 2, sample_limit=limit)
    with pytest.raises(ValueError, match=rf"sample_limit should be at least 1.*got {limit}\)"):
        FixedSizeOptions.from_loader([graph(3, 2)], sample_limit=limit)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (
            {"fixed_size_strategy": "pack"},
            ValueError,
            r"Did you mean 'Pack'\? Give one of FixedSizeStrategy.PadToMax",
        ),
        ({"over_size_strategy": "TrimNode"}, ValueError, r"Did you mean 'TrimNodes'\?"),
        ({"batchsize": 3}, TypeError, r"no argument 'batchsize'. Did you mean 'batch_size'\?"),
        ({"num_worker": 1}, TypeError, r"no argument 'num_worker'. Did you mean 'num_workers'\?"),
        ({"fixed_size_options": 10}, TypeError, r"needs to be a FixedSizeOptions \(got int\)"),
        ({"num_workers": "2"}, ValueError, r"num_workers should be a whole number .*got '2'\)"),
    ],
)
def test_misspelt_arguments_get_the_nearest_name(arguments, error, message):
    with pytest.raises(error, match=message):
        FixedSizeDataLoader([graph(3, 2)] * 3, **arguments)


@pytest.mark.parametrize("name", ["Pack", "FixedSizeStrategy.Pack"])
def test_the_name_of_a_strategy_stands_for_it(name):
    assert FixedSizeStrategy(name) is FixedSizeStrategy.Pack


@pytest.mark.parametrize("kind", [list, InMemory])
def test_tensors_without_values_are_refused(kind):
    graphs = [graph(3, 2), graph(4, 2)]
    for data in graphs:
        data.w = torch.empty(data.num_nodes, device="meta")
    with pytest.raises(ValueError, match=r"'w' lies on the device 'meta'.*exclude_keys=\['w'\]"):
        FixedSizeDataLoader(kind(graphs), 2)


def test_edges_without_values_are_refused():
    with pytest.raises(ValueError, match="'edge_index' on the device 'meta'"):
        FixedSizeNeighborLoader(Data(edge_index=torch.empty(2, 3, device="meta").long(), num_nodes=3), [1])


@pytest.mark.parametrize("wrong", [None, 3])
def test_efficiency_of_what_is_no_loader_is_refused(wrong):
    with pytest.raises(TypeError, match=rf"loader of fixed-size batches \(got {type(wrong).__name__}\)"):
        efficiency(wrong)


# -- parts of one graph --------------------------------------------------------------------------------------


def large(num_nodes=20, num_edges=60, **attributes):
    random = torch.Generator().manual_seed(0)
    edge_index = torch.randint(num_nodes, (2, num_edges), generator=random)
    return Data(x=torch.randn(num_nodes, 2, generator=random), edge_index=edge_index, **attributes)


@pytest.mark.parametrize("num_edges", [0, 4])
def test_clusters_of_isolated_nodes_can_be_loaded(num_edges):
    data = large(8, num_edges, node=torch.arange(8))
    loader = FixedSizeClusterLoader(partition(data, 4), FixedSizeOptions(9, 9))
    assert sorted(node for batch in loader for node in batch.node[batch.nodes_mask].tolist()) == list(
        range(8)
    )


def test_edge_attributes_of_clusters_are_found_whatever_their_name():
    data = large()
    data.edge_attr, data.w = torch.arange(60), torch.arange(60)
    clusters = partition(data, 4)
    for batch, plain in zip(
        FixedSizeClusterLoader(clusters, FixedSizeOptions(26, 69), 2), ClusterLoader(clusters, batch_size=2)
    ):
        assert torch.equal(batch.w, batch.edge_attr)
        assert torch.equal(batch.w[batch.edges_mask], plain.edge_attr)


def test_attributes_of_parts_can_be_left_out():
    data = large(own_index=torch.ones(20).bool())
    del data.own_index
    data.partner_index = torch.arange(20)
    small = FixedSizeOptions(6, 9)
    with pytest.raises(ValueError, match=r"exclude_keys=\['partner_index'\]"):
        list(FixedSizeNeighborLoader(data, [5, 5], None, 3, small))
    loader = FixedSizeNeighborLoader(data, [5, 5], None, 3, small, exclude_keys=["partner_index"])
    assert len(list(loader)) == 7
    clusters = FixedSizeClusterLoader(partition(data, 4), small, exclude_keys=["partner_index"])
    assert len(list(clusters)) == 4


def test_fewer_seeds_than_a_batch_holds_are_padded():
    (batch,) = FixedSizeNeighborLoader(large(), [2], [1, 2], batch_size=30)
    assert batch.num_nodes >= 31
    assert batch.input_id.tolist() == [0, 1] + [-1] * 28


def test_a_label_of_the_only_node_belongs_to_the_node():
    data = Data(x=torch.ones(1, 2), edge_index=torch.zeros(2, 0).long(), y=torch.tensor([7]))
    (batch,) = FixedSizeNeighborLoader(data, [2], None, 1, FixedSizeOptions(5, 4, node_pad_value=-1))
    assert batch.y.tolist() == [7, -1, -1, -1, -1]


def test_the_error_of_a_neighbour_loader_advises_what_it_has():
    loader = FixedSizeNeighborLoader(
        large(), [5, 5], None, 3, FixedSizeOptions(6, 99), over_size_strategy=OverSizeStrategy.Error
    )
    with pytest.raises(
        ValueError, match=r"Raise num_nodes to at least \d+, take fewer seeds or neighbours"
    ) as caught:
        list(loader)
    assert "Pack" not in str(caught.value)


def test_sampling_leaves_torchs_random_numbers_alone():
    loader = FixedSizeNeighborLoader(large(), [2], None, 5, FixedSizeOptions(30, 99))
    batches = iter(loader)
    before = torch.get_rng_state()
    list(batches)
    assert torch.equal(torch.get_rng_state(), before)


def test_a_heterogeneous_graph_with_an_index_of_its_own_is_trimmed():
    data = HeteroData()
    data["a"].x, data["b"].x = torch.arange(6.0).view(6, 1), torch.arange(5.0).view(5, 1)
    ends = torch.stack([torch.arange(5), torch.arange(5)])
    data["a", "to", "b"].edge_index = ends
    data["a", "to", "b"].other_index = ends.flip(1)
    left, _ = trim(data, FixedSizeOptions({"a": 4, "b": 4}, {("a", "to", "b"): 9}), BOTH)
    store = left["a", "to", "b"]
    for name in ("edge_index", "other_index"):
        assert (store[name][0] < 3).all()
        assert torch.equal(left["a"].x[store[name][0]], left["b"].x[store[name][1]])


# -- arguments of another kind -------------------------------------------------------------------------------

ROOMY = FixedSizeOptions(40, 80, 3)


def of_graphs(**kwargs):
    return list(FixedSizeDataLoader([graph(3, 4, seed) for seed in range(4)], **kwargs))


def of_neighbours(num_neighbors=(2,), **kwargs):
    data = graph(9, 20, names=("x", "y_node"))
    return list(FixedSizeNeighborLoader(data, num_neighbors, fixed_size_options=ROOMY, **kwargs))


WRONG_KINDS = {
    "a name instead of names": (
        lambda: of_graphs(exclude_keys="edge_attr"),
        r"exclude_keys should be a list of names .*Write exclude_keys=\['edge_attr'\]",
    ),
    "a name to follow": (lambda: of_graphs(follow_batch="x"), r"Write follow_batch=\['x'\]"),
    "a name for neighbours": (lambda: of_neighbours(exclude_keys="x"), r"Write exclude_keys=\['x'\]"),
    "a name for the ordinary loader": (
        lambda: DataLoader([graph(3, 4)], exclude_keys="x"),
        r"Write exclude_keys=\['x'\]",
    ),
    "defaults without values": (
        lambda: FixedSizeOptions(9, 9, pad_graph_defaults=["name"]),
        r"pad_graph_defaults should be a dictionary .*got \['name'\]",
    ),
    "a padding value that is no number": (
        lambda: of_graphs(fixed_size_options=FixedSizeOptions(40, 80, 3, node_pad_value="0")),
        r"node_pad_value should be a number \(got '0'\)",
    ),
    "a seed instead of a generator": (
        lambda: of_graphs(shuffle=True, generator=5),
        r"generator should be a torch.Generator \(got int\).*manual_seed\(5\)",
    ),
    "an iterator as sampler": (lambda: of_graphs(sampler=iter([0, 1])), "sampler .*anew in every epoch"),
    "other options": (lambda: of_graphs(options={}), r"options should be a poptorch.Options \(got dict\)"),
    "part of a graph in a batch": (
        lambda: DataLoader([graph(3, 4)], 2.5),
        r"batch_size should be a whole number of at least 1 \(got 2.5\)",
    ),
    "part of a seed in a batch": (lambda: of_neighbours(batch_size=2.5), "whole number of at least 1"),
    "one number of neighbours": (
        lambda: of_neighbours(3),
        r"'num_neighbors' needs a list, with a number for every hop \(got 3\)",
    ),
    "part of a node as seed": (lambda: of_neighbours(input_nodes=[0.5]), r"node indices .*got \[0.5\]"),
    "part of a cluster": (lambda: partition(graph(9, 20), 2.5), r"between 1 and .* 9 \(got 2.5\)"),
    "a name of a strategy": (
        lambda: trim(graph(9, 20), FixedSizeOptions(5, 5), "TrimNode"),
        "not a valid OverSizeStrategy. Did you mean 'TrimNodes'",
    ),
    "no options to collate": (
        lambda: collate_fixed_size([graph(3, 4)], None),
        r"'fixed_size_options' needs to be a FixedSizeOptions \(got NoneType\)",
    ),
    "batches of something else": (
        lambda: FixedSizeOptions.from_loader([1, 2]),
        r"A loader of graphs should yield Data or HeteroData .*got int",
    ),
    "part of a node as limit": (
        lambda: PackSampler([graph(3, 4)], num_nodes=10.5),
        r"num_nodes should be a whole number of at least 1 \(got 10.5\)",
    ),
}


@pytest.mark.parametrize("case", WRONG_KINDS)
def test_arguments_of_another_kind_are_refused_in_a_sentence(case):
    call, message = WRONG_KINDS[case]
    with pytest.raises((TypeError, ValueError), match=message):
        call()


def test_a_sampler_may_have_no_length():
    class Every(torch.utils.data.Sampler):
        def __init__(self):
            pass

        def __iter__(self):
            return iter([2, 0, 1])

    numbered = [graph(3, 4, seed) for seed in range(3)]
    for number, data in enumerate(numbered):
        data.number = torch.tensor([number])
    loader = FixedSizeDataLoader(numbered, 3, sampler=Every())
    assert [batch.number[batch.graphs_mask].tolist() for batch in loader] == [[2, 0], [1]]
