"""FixedSizeDataLoader: both paths, all strategies, combined batches and workers."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import BatchSampler, Dataset, SequentialSampler, Subset
from torch_geometric.data import Batch
from torch_geometric.loader import DataLoader as PyGDataLoader

from gnn_ipu_helpers import datasets, poptorch
from gnn_ipu_helpers.batching import (
    DataLoader,
    FixedSizeDataLoader,
    FixedSizeOptions,
    FixedSizeStrategy,
    OverSizeStrategy,
    efficiency,
)

from .graphs import InMemory, assert_same_batch, graph, hetero_graph, homogeneous, keys_of, real_dataset

PAD, STREAM, PACK = FixedSizeStrategy.PadToMax, FixedSizeStrategy.StreamPack, FixedSizeStrategy.Pack
NAMES = ("x", "z", "frames", "train_mask", "edge_attr", "y_graph", "pair", "scalar", "root_index", "number")


def molecules(number=40):
    """Graphs of 2 to 9 nodes that know their own number."""
    sizes = torch.randint(2, 10, (number,), generator=torch.Generator().manual_seed(1)).tolist()
    graphs = [graph(size, 2 * size - 2, seed, names=NAMES) for seed, size in enumerate(sizes)]
    for position, data in enumerate(graphs):
        data.name = f"molecule {position}"
        data.position = torch.tensor([position])
    return graphs


def numbers(loader):
    """The numbers of the real graphs of each batch."""
    return [batch.position[batch.graphs_mask].tolist() for batch in loader]


def options_for(strategy):
    return None if strategy == PAD else FixedSizeOptions(40, 80, 10)


def loader_of_molecules(strategy, **kwargs):
    """Batches of the forty molecules, packed as the strategy says."""
    return FixedSizeDataLoader(
        InMemory(molecules()),
        10,
        fixed_size_options=options_for(strategy),
        fixed_size_strategy=strategy,
        **kwargs,
    )


class OnDisk(Dataset):
    """A dataset of another kind: graphs come from somewhere, one by one."""

    def __init__(self, graphs):
        self._graphs = graphs

    def __len__(self):
        return len(self._graphs)

    def __getitem__(self, index):
        return self._graphs[index].clone()


# -- both paths ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("strategy", FixedSizeStrategy)
@pytest.mark.parametrize(
    "general", [list, OnDisk, lambda graphs: InMemory(graphs, transform=lambda data: data)]
)
def test_every_kind_of_dataset_gives_the_same_batches(general, strategy):
    graphs = molecules()
    options = FixedSizeOptions(60, 120, 8, 1.0, 2.0, 3.0, pad_graph_defaults={"name": "padding"})
    loaders = [
        FixedSizeDataLoader(
            dataset,
            shuffle=True,
            fixed_size_options=options,
            fixed_size_strategy=strategy,
            follow_batch=["x", "pair"],
            exclude_keys=["z"],
            generator=torch.Generator().manual_seed(3),
        )
        for dataset in (InMemory(graphs), general(list(InMemory(graphs))))
    ]
    pairs = list(zip(*loaders))
    assert len(pairs) == len(loaders[0]) == len(loaders[1])
    for gathered, collated in pairs:
        assert_same_batch(gathered, collated)


@given(homogeneous(), st.integers(2, 5))
def test_gathered_batches_are_those_of_the_general_path(graphs, batch_size):
    dataset = InMemory(graphs)
    for gathered, collated in zip(
        FixedSizeDataLoader(dataset, batch_size), FixedSizeDataLoader(list(dataset), batch_size)
    ):
        assert_same_batch(gathered, collated)


def test_heterogeneous_datasets_give_the_same_batches_on_both_paths():
    graphs = [hetero_graph(number, 2 * number, 3, 4, seed=number) for number in (1, 2, 3, 4, 5)]
    pairs = list(zip(FixedSizeDataLoader(InMemory(graphs), 3), FixedSizeDataLoader(graphs, 3)))
    assert len(pairs) == 3
    for gathered, collated in pairs:
        assert_same_batch(gathered, collated)


@pytest.mark.parametrize(
    "select",
    [
        lambda dataset: dataset[[7, 3, 3, 1]],
        lambda dataset: Subset(dataset, [7, 3, 3, 1]),
        lambda dataset: Subset(dataset[:10], torch.tensor([7, 3, 3, 1])),
    ],
)
def test_selections_of_a_dataset_load_the_selected_graphs(select):
    loader = FixedSizeDataLoader(select(InMemory(molecules())), 3)
    assert numbers(loader) == [[7, 3], [3, 1]]


def test_graphs_of_an_in_memory_dataset_are_not_read_one_by_one(monkeypatch):
    dataset = InMemory(molecules())
    loader = FixedSizeDataLoader(dataset, 10, shuffle=True)
    monkeypatch.setattr(
        "torch_geometric.data.separate.separate", lambda *_, **__: pytest.fail("a graph was read")
    )
    monkeypatch.setattr(InMemory, "__getitem__", lambda *_: pytest.fail("a graph was read"))
    assert sum(map(len, numbers(loader))) == len(dataset)


def test_batches_do_not_share_memory():
    first, second, *_ = FixedSizeDataLoader(InMemory(molecules()), 5)
    for name in keys_of(first):
        if isinstance(first[name], torch.Tensor):
            storage = first[name].untyped_storage()
            assert storage.data_ptr() != second[name].untyped_storage().data_ptr()
            assert storage.nbytes() == first[name].numel() * first[name].element_size()


def test_the_graphs_of_a_batch_are_those_of_pygs_loader():
    dataset = InMemory(molecules())
    torch.manual_seed(5)
    ours = list(FixedSizeDataLoader(dataset, 8, shuffle=True))
    torch.manual_seed(5)
    theirs = list(PyGDataLoader(dataset, 7, shuffle=True))
    assert len(ours) == len(theirs)
    for batch, expected in zip(ours, theirs):
        for name in ("x", "frames", "y", "pair", "scalar"):
            assert torch.equal(batch[name][: len(expected[name])], expected[name])
        assert torch.equal(batch.edge_index[:, batch.edges_mask], expected.edge_index)
        assert torch.equal(batch.root_index[batch.graphs_mask], expected.root_index)


def test_levels_are_found_from_the_whole_dataset_not_from_one_batch():
    graphs = [graph(1, 0, names=("x", "y_node"))] * 4 + [graph(3, 2, names=("x", "y_node"))]
    for dataset in (graphs, InMemory(graphs)):
        batch = next(iter(FixedSizeDataLoader(dataset, 3)))
        assert batch.y.shape == (7,)


# -- epochs ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("strategy", FixedSizeStrategy)
@pytest.mark.parametrize("shuffle", [False, True])
def test_an_epoch_yields_every_graph_once_and_has_the_length_it_says(strategy, shuffle):
    loader = loader_of_molecules(strategy, shuffle=shuffle)
    for _ in range(3):
        length = len(loader)
        batches = numbers(loader)
        assert len(batches) == length
        assert sorted(sum(batches, [])) == list(range(40))


@pytest.mark.parametrize("strategy", [PAD, STREAM])
def test_without_shuffling_graphs_come_in_order(strategy):
    loader = FixedSizeDataLoader(
        molecules(), 10, fixed_size_options=options_for(strategy), fixed_size_strategy=strategy
    )
    assert sum(numbers(loader), []) == list(range(40))


@pytest.mark.parametrize("strategy", FixedSizeStrategy)
def test_shuffling_makes_another_epoch_each_time(strategy):
    loader = loader_of_molecules(strategy, shuffle=True)
    torch.manual_seed(0)
    first, second = numbers(loader), numbers(loader)
    assert first != second
    torch.manual_seed(0)
    assert numbers(loader) == first


def test_asking_for_the_length_of_padded_epochs_draws_no_order():
    loader = FixedSizeDataLoader(InMemory(molecules()), 10, shuffle=True)
    torch.manual_seed(0)
    expected = numbers(loader)
    torch.manual_seed(0)
    assert len(loader) == 5
    assert numbers(loader) == expected


def test_an_epoch_broken_off_does_not_disturb_the_next_one():
    loader = FixedSizeDataLoader(
        InMemory(molecules()),
        shuffle=True,
        fixed_size_options=FixedSizeOptions(30, 60, 10),
        fixed_size_strategy=STREAM,
    )
    for _ in range(5):
        next(iter(loader))
        length = len(loader)
        assert len(numbers(loader)) == length


@pytest.mark.parametrize("strategy", FixedSizeStrategy)
def test_workers_change_nothing(strategy):
    epochs = []
    for num_workers in (0, 2):
        loader = loader_of_molecules(
            strategy, shuffle=True, num_workers=num_workers, persistent_workers=num_workers > 0
        )
        torch.manual_seed(4)
        epochs.append([batch for _ in range(2) for batch in loader])
    assert len(epochs[0]) == len(epochs[1])
    for one, other in zip(*epochs):
        assert_same_batch(one, other)


def test_a_sampler_gives_the_order():
    assert numbers(FixedSizeDataLoader(InMemory(molecules()), 3, sampler=[9, 4, 7])) == [[9, 4], [7]]


def test_a_batch_sampler_gives_the_batches():
    batches = BatchSampler(SequentialSampler(range(6)), 4, drop_last=False)
    loader = FixedSizeDataLoader(InMemory(molecules()), 5, batch_sampler=batches)
    assert len(loader) == 2
    assert numbers(loader) == [[0, 1, 2, 3], [4, 5]]


def test_drop_last_leaves_out_an_incomplete_batch():
    loader = FixedSizeDataLoader(InMemory(molecules()), 10, drop_last=True)
    assert [len(batch) for batch in numbers(loader)] == [9, 9, 9, 9]
    assert len(loader) == 4


def test_the_dataset_of_a_loader_has_the_length_of_the_graphs():
    loader = FixedSizeDataLoader(InMemory(molecules()), 10)
    assert len(loader.dataset) == 40
    assert loader.dataset[3].position == 3


# -- strategies ------------------------------------------------------------------------------------------


def train_split(dataset):
    torch.manual_seed(12345)
    return dataset.shuffle()[:150]


def test_stream_pack_gives_the_batches_of_poptorch_geometric():
    dataset = train_split(real_dataset("mutag"))
    figures = {}
    for num_nodes, num_edges in ((400, 800), (179, 395)):
        loader = FixedSizeDataLoader(
            dataset,
            fixed_size_options=FixedSizeOptions(num_nodes, num_edges, 10),
            fixed_size_strategy=STREAM,
        )
        figures[num_nodes] = (f"{efficiency(loader).nodes:.2%}", [int(b.graphs_mask.sum()) for b in loader])
    assert figures[400][0] == "39.91%"
    assert figures[179] == ("84.23%", [9, 8, 9, 9, 8, 9, 9, 8, 8, 9, 9, 9, 9, 8, 9, 9, 9, 2])


def test_inferred_sizes_of_mutag_are_those_of_poptorch_geometric():
    batch = next(iter(FixedSizeDataLoader(datasets.mutag(), 10)))
    assert batch.x.shape == (253, 7)
    assert batch.edge_index.shape == (2, 595)
    assert int(batch.graphs_mask.sum()) == 9


@pytest.mark.parametrize("strategy", [STREAM, PACK])
def test_packing_works_with_inferred_options(strategy):
    loader = FixedSizeDataLoader(InMemory(molecules()), 6, shuffle=True, fixed_size_strategy=strategy)
    assert loader.fixed_size_options.num_graphs == 6
    assert sorted(sum(numbers(loader), [])) == list(range(40))


def test_pack_wastes_less_than_stream_pack_and_that_less_than_padding():
    dataset, shares = train_split(datasets.mutag()), []
    for strategy in (PAD, STREAM, PACK):
        options = (
            FixedSizeOptions.from_dataset(dataset, 10) if strategy == PAD else FixedSizeOptions(179, 400, 20)
        )
        loader = FixedSizeDataLoader(dataset, fixed_size_options=options, fixed_size_strategy=strategy)
        shares.append(efficiency(loader).nodes)
    assert shares[0] < shares[1] < shares[2]


def test_efficiency_is_real_over_total():
    loader = FixedSizeDataLoader([graph(3, 2), graph(5, 4)], fixed_size_options=FixedSizeOptions(9, 8, 3))
    share = efficiency(loader)
    assert (share.nodes, share.edges, share.graphs) == pytest.approx((8 / 9, 6 / 8, 2 / 3))
    assert str(share).startswith("88.89% of nodes")


def test_efficiency_needs_masks():
    loader = FixedSizeDataLoader([graph(3, 2)], add_pad_masks=False)
    with pytest.raises(ValueError, match="add_pad_masks=True"):
        efficiency(loader)


# -- graphs that do not fit ------------------------------------------------------------------------------


@pytest.mark.parametrize("strategy", FixedSizeStrategy)
def test_a_graph_that_does_not_fit_is_an_error_that_names_it(strategy):
    graphs = [graph(3, 2), graph(9, 2), graph(3, 2)]
    with pytest.raises(ValueError, match=r"Graph 1 with 9 nodes .* num_nodes to at least 10"):
        list(
            FixedSizeDataLoader(
                graphs, fixed_size_options=FixedSizeOptions(8, 20, 3), fixed_size_strategy=strategy
            )
        )


@pytest.mark.parametrize("strategy", FixedSizeStrategy)
@pytest.mark.parametrize("kind", [list, InMemory])
def test_skipped_graphs_are_counted_and_told(strategy, kind):
    graphs = molecules()
    too_large = {position for position, data in enumerate(graphs) if data.num_nodes > 8}
    loader = FixedSizeDataLoader(
        kind(graphs),
        fixed_size_options=FixedSizeOptions(9, 99, 2),
        fixed_size_strategy=strategy,
        over_size_strategy=OverSizeStrategy.Skip,
    )
    with pytest.warns(UserWarning, match=f"{len(too_large)} graphs are skipped"):
        batches = numbers(loader)
    assert loader.skipped == len(too_large)
    assert set(sum(batches, [])) == set(range(40)) - too_large
    assert len(batches) == len(loader)


def test_skipping_every_graph_is_an_error():
    loader = FixedSizeDataLoader(
        [graph(9, 2)],
        fixed_size_options=FixedSizeOptions(8, 8, 2),
        over_size_strategy=OverSizeStrategy.Skip,
    )
    with pytest.raises(ValueError, match="All 1 graphs would be skipped"):
        len(loader)


@pytest.mark.parametrize("kind", [list, InMemory])
def test_trimmed_batches_are_counted(kind):
    graphs = [graph(5, 4, seed) for seed in range(6)]
    loader = FixedSizeDataLoader(
        kind(graphs),
        fixed_size_options=FixedSizeOptions(9, 7, 3),
        over_size_strategy=OverSizeStrategy.TrimNodesAndEdges,
    )
    for batch in loader:
        assert batch.num_graphs == 3
        assert int(batch.nodes_mask.sum()) == 8
        assert (batch.ptr.diff() > 0).all()
    assert (loader.trimmed.nodes, loader.trimmed.batches) == (6, 3)
    assert loader.trimmed.edges >= 3


def test_trimming_is_the_same_in_workers():
    graphs = [graph(5, 4, seed) for seed in range(8)]
    epochs = []
    for num_workers in (0, 2):
        loader = FixedSizeDataLoader(
            graphs,
            fixed_size_options=FixedSizeOptions(9, 7, 3),
            over_size_strategy=OverSizeStrategy.TrimNodesAndEdges,
            num_workers=num_workers,
        )
        epochs.append((list(loader), loader.trimmed))
    assert epochs[0][1] == epochs[1][1]
    for one, other in zip(epochs[0][0], epochs[1][0]):
        assert_same_batch(one, other)


# -- combined batches ------------------------------------------------------------------------------------


def combining(**settings):
    options = poptorch.Options()
    options.deviceIterations(settings.get("iterations", 1))
    options.replicationFactor(settings.get("replicas", 1))
    options.Training.gradientAccumulation(settings.get("accumulation", 1))
    return options


@pytest.mark.parametrize(
    ("settings", "number"),
    [({"iterations": 4}, 4), ({"iterations": 2, "replicas": 2}, 4), ({"accumulation": 3}, 3)],
)
def test_a_combined_batch_is_its_mini_batches_on_dimension_0(settings, number):
    dataset = InMemory(molecules(36))
    singles = list(FixedSizeDataLoader(dataset, 4))
    loader = FixedSizeDataLoader(dataset, 4, options=combining(**settings))
    assert len(loader) == len(singles) // number
    for at, batch in enumerate(loader):
        parts = singles[at * number : (at + 1) * number]
        assert batch.edge_index.shape == (2 * number, parts[0].num_edges)
        for name in ("x", "edge_index", "y", "batch", "ptr", "nodes_mask", "graphs_mask"):
            assert torch.equal(batch[name], torch.cat([part[name] for part in parts]))
        assert batch.stores[0]["num_nodes"] == parts[0].num_nodes


@pytest.mark.parametrize("strategy", FixedSizeStrategy)
def test_the_remainder_is_spread_so_that_no_mini_batch_is_without_a_graph(strategy):
    loader = loader_of_molecules(strategy, options=combining(iterations=4))
    batches = list(loader)
    assert len(batches) == len(loader)
    assert sum(int(batch.graphs_mask.sum()) for batch in batches) == 40
    for batch in batches:
        assert batch.graphs_mask.view(4, 10).any(dim=1).all()


def test_graphs_fewer_than_mini_batches_are_left_out_with_a_notice():
    loader = FixedSizeDataLoader(InMemory(molecules(19)), 10, options=combining(iterations=2))
    with pytest.warns(UserWarning, match="1 graphs are left out .* fewer than the 2 mini-batches"):
        batches = numbers(loader)
    assert batches == [list(range(18))]
    assert loader.left_out == 1


def test_drop_last_leaves_out_an_incomplete_combined_batch_without_a_notice():
    loader = FixedSizeDataLoader(InMemory(molecules(30)), 10, options=combining(iterations=2), drop_last=True)
    assert numbers(loader) == [list(range(18))]
    assert loader.left_out == 0


# -- bad input -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"dataset": []}, ValueError, r"empty \(got 0 graphs\)"),
        ({"batch_size": 1}, ValueError, r"batch_size should be at least 2.*got 1\)"),
        (
            {"batch_size": 8, "fixed_size_options": FixedSizeOptions(99, 99, 10)},
            ValueError,
            "batch_size=8 does not match fixed_size_options.num_graphs=10",
        ),
        ({"collate_fn": list}, TypeError, "leave out collate_fn"),
        ({"shuffle": True, "sampler": [0]}, ValueError, "leave out shuffle"),
        ({"shuffle": True, "batch_sampler": [[0]]}, ValueError, "leave out shuffle and sampler"),
        ({"fixed_size_strategy": "pack"}, ValueError, "'pack' is not a valid FixedSizeStrategy"),
        ({"dataset": [graph(2, 1), hetero_graph(1, 1, 1, 1)]}, TypeError, "cannot share a batch"),
        ({"dataset": [torch.zeros(3)]}, TypeError, "should hold Data or HeteroData objects .got Tensor"),
    ],
)
def test_bad_input_is_refused_with_what_to_change(arguments, error, message):
    with pytest.raises(error, match=message):
        FixedSizeDataLoader(**{"dataset": [graph(3, 2), graph(4, 2)], **arguments})


@pytest.mark.parametrize("kind", [list, InMemory])
def test_an_edge_that_leads_nowhere_is_found_on_both_paths(kind):
    graphs = molecules(4)
    graphs[2].edge_index[0, 0] = 77
    with pytest.raises(ValueError, match="An edge of graph 2 leads to node 77"):
        list(FixedSizeDataLoader(kind(graphs), 5))


def test_a_type_seen_too_late_is_refused():
    graphs = [hetero_graph(1, 1, 1, None)] * 1500
    graphs[2] = hetero_graph(1, 1, 1, 1)
    loader = FixedSizeDataLoader(graphs, fixed_size_options=FixedSizeOptions(9, 9, 4))
    with pytest.raises(ValueError, match=r"Graph 2 has the type \('paper', 'cites', 'paper'\)"):
        next(iter(loader))


def test_a_dataset_without_known_sizes_is_read_through_only_once():
    class Counting(OnDisk):
        reads = 0

        def __getitem__(self, index):
            Counting.reads += 1
            return super().__getitem__(index)

    loader = FixedSizeDataLoader(Counting(molecules()), 10, fixed_size_strategy=STREAM)
    assert len(loader) > 0
    assert Counting.reads == 40


# -- ordinary batches ------------------------------------------------------------------------------------


def test_the_ordinary_loader_gives_pygs_batches():
    dataset = InMemory(molecules())
    for ours, theirs in zip(DataLoader(dataset, 7), PyGDataLoader(dataset, 7)):
        assert isinstance(ours, Batch)
        assert_same_batch(ours, theirs)
    assert len(DataLoader(dataset, 7)) == 6
    assert len(DataLoader(dataset, 7, drop_last=True)) == 5


def test_the_ordinary_loader_combines_graphs_of_one_size():
    loader = DataLoader([graph(3, 2, seed) for seed in range(6)], 1, options=combining(iterations=3))
    assert len(loader) == 2
    assert [batch.x.shape for batch in loader] == [(9, 3), (9, 3)]


def test_the_ordinary_loader_refuses_to_combine_graphs_of_several_sizes():
    loader = DataLoader([graph(3, 2), graph(3, 5)], 1, options=combining(iterations=2))
    with pytest.raises(
        ValueError, match=r"'edge_index' has the shapes \[\[2, 2\], \[2, 5\]\]. FixedSizeDataLoader"
    ):
        list(loader)


def test_the_ordinary_loader_refuses_empty_batches():
    with pytest.raises(ValueError, match=r"batch_size should be at least 1 \(got 0\)"):
        DataLoader([graph(3, 2)], 0)
