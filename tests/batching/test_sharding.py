"""Several processes: equal, disjoint shares of an epoch, with and without workers; and packs for PyG."""

import gc
import sys

import pytest
import torch
from torch_geometric.loader import DataLoader as PyGDataLoader

from gnn_ipu_helpers import (
    DataLoader,
    FixedSizeClusterLoader,
    FixedSizeDataLoader,
    FixedSizeNeighborLoader,
    FixedSizeOptions,
    FixedSizeStrategy,
    PackSampler,
    partition,
    poptorch,
)

from .graphs import InMemory, assert_same_batch, graph
from .test_neighbor_loader import random_graph

SIZES = FixedSizeOptions(30, 60, 10)


def molecules(number):
    graphs = [graph(3 + at % 7, 2 + at % 9, at, names=("x", "y_graph")) for at in range(number)]
    for at, data in enumerate(graphs):
        data.position = torch.tensor([at])
    return InMemory(graphs)


def options_of(process, num_processes, iterations=1):
    options = poptorch.Options()
    options.deviceIterations(iterations)
    options.Distributed.configureProcessId(process, num_processes)
    return options


def with_strategy(strategy):
    def loader(dataset, **kwargs):
        options = None if strategy == FixedSizeStrategy.PadToMax else SIZES
        size = {"batch_size": 5} if options is None else {}
        return FixedSizeDataLoader(
            dataset, fixed_size_options=options, fixed_size_strategy=strategy, **size, **kwargs
        )

    return loader


GRAPH_LOADERS = {strategy.name: with_strategy(strategy) for strategy in FixedSizeStrategy}
GRAPH_LOADERS["ordinary"] = lambda dataset, **kwargs: DataLoader(dataset, 3, **kwargs)


def numbers(batch):
    mask = batch.graphs_mask if "graphs_mask" in batch else torch.ones_like(batch.position).bool()
    return batch.position[mask].tolist()


def seeded():
    return torch.Generator().manual_seed(3)


@pytest.mark.parametrize("num_graphs", [40, 13, 5])
@pytest.mark.parametrize("num_processes", [2, 3])
@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("kind", GRAPH_LOADERS)
def test_shares_are_equal_disjoint_and_hold_every_graph(kind, shuffle, num_processes, num_graphs):
    dataset, steps, seen = molecules(num_graphs), set(), []
    for process in range(num_processes):
        options = options_of(process, num_processes)
        generator = seeded() if shuffle else None
        loader = GRAPH_LOADERS[kind](dataset, shuffle=shuffle, options=options, generator=generator)
        for epoch in range(2):
            length = len(loader)
            batches = [numbers(batch) for batch in loader]
            assert len(batches) == length
            assert all(batches)
            steps.add((epoch, length))
            seen += [(epoch, number) for batch in batches for number in batch]
    assert len(steps) == 2
    assert sorted(seen) == [(epoch, number) for epoch in range(2) for number in range(num_graphs)]


@pytest.mark.parametrize("kind", GRAPH_LOADERS)
def test_workers_change_no_share(kind):
    shares = [
        list(
            GRAPH_LOADERS[kind](
                molecules(40),
                shuffle=True,
                options=options_of(1, 2),
                generator=seeded(),
                num_workers=num_workers,
            )
        )
        for num_workers in (0, 2)
    ]
    assert len(shares[0]) == len(shares[1]) > 0
    for one, other in zip(*shares):
        assert_same_batch(one, other)


@pytest.mark.parametrize("kind", [kind for kind in GRAPH_LOADERS if kind != "ordinary"])
def test_processes_together_see_step_by_step_what_replicas_see(kind):
    dataset, replicas = molecules(40), poptorch.Options()
    replicas.replicationFactor(2)
    whole = list(GRAPH_LOADERS[kind](dataset, shuffle=True, options=replicas, generator=seeded()))
    shares = [
        list(GRAPH_LOADERS[kind](dataset, shuffle=True, options=options_of(process, 2), generator=seeded()))
        for process in range(2)
    ]
    assert len(whole) == len(shares[0])
    for both, one, other in zip(whole, *shares):
        assert torch.equal(both.x, torch.cat([one.x, other.x]))
        assert torch.equal(both.edge_index, torch.cat([one.edge_index, other.edge_index]))


def test_shares_are_made_of_combined_batches():
    dataset, seen = molecules(40), []
    for process in range(2):
        loader = GRAPH_LOADERS["Pack"](dataset, options=options_of(process, 2, iterations=3))
        for batch in loader:
            assert batch.graphs_mask.view(3, -1).any(1).all()
            seen += numbers(batch)
    assert sorted(seen) == list(range(40))


@pytest.mark.parametrize("kind", ["neighbours", "clusters"])
def test_parts_of_one_graph_are_shared_too(kind):
    data = random_graph()
    data.number = torch.arange(60)
    clusters = partition(data, 7)
    seen, steps = [], set()
    for process in range(2):
        arguments = {"options": options_of(process, 2), "shuffle": True, "generator": seeded()}
        if kind == "neighbours":
            loader = FixedSizeNeighborLoader(data, [2], None, 9, FixedSizeOptions(61, 250), **arguments)
            batches = [batch.n_id[batch.seeds_mask] for batch in loader]
        else:
            loader = FixedSizeClusterLoader(clusters, FixedSizeOptions(61, 250), 2, **arguments)
            batches = [batch.number[batch.nodes_mask] for batch in loader]
        steps.add(len(batches))
        assert len(batches) == len(loader)
        seen += torch.cat(batches).tolist()
    assert len(steps) == 1
    assert sorted(seen) == list(range(60))


@pytest.mark.parametrize("kind", ["neighbours", "clusters"])
def test_skipping_what_only_one_process_sees_is_refused(kind):
    """Which subgraphs fit shows when they are made: the processes would take different numbers of steps."""
    data, arguments = random_graph(), {"over_size_strategy": "Skip", "options": options_of(0, 2)}
    loaders = {
        "neighbours": lambda: FixedSizeNeighborLoader(data, [2], None, 9, SIZES, **arguments),
        "clusters": lambda: FixedSizeClusterLoader(partition(data, 7), SIZES, 2, **arguments),
    }
    with pytest.raises(ValueError, match="Skip cannot be shared by 2 processes.*TrimNodesAndEdges"):
        loaders[kind]()


def test_shuffling_without_a_common_seed_is_refused():
    with pytest.raises(ValueError, match=r"options.randomSeed\(seed\) with the same seed everywhere"):
        FixedSizeDataLoader(molecules(9), 3, shuffle=True, options=options_of(0, 2))


def test_the_seed_of_the_options_is_common_to_all_processes():
    seen = []
    for process in range(2):
        torch.manual_seed(process)
        options = options_of(process, 2)
        options.randomSeed(5)
        torch.manual_seed(process)
        loader = FixedSizeDataLoader(molecules(20), 3, shuffle=True, options=options)
        seen += [number for batch in loader for number in numbers(batch)]
    assert sorted(seen) == list(range(20))
    assert seen != list(range(20))


# -- PopTorch's own loader underneath ------------------------------------------------------------------------


def test_a_refused_argument_leaves_nothing_behind_that_fails_when_it_is_deleted(monkeypatch):
    failed = []
    monkeypatch.setattr(sys, "unraisablehook", failed.append)
    for arguments in (
        {"batch_size": 1},
        {"fixed_size_options": 3},
        {"batchsize": 3},
        {"shuffle": True, "sampler": [1]},
    ):
        with pytest.raises((TypeError, ValueError)):
            FixedSizeDataLoader(molecules(5), **arguments)
    with pytest.raises(TypeError):
        FixedSizeClusterLoader(random_graph(), SIZES)
    gc.collect()
    assert failed == []


def test_a_loader_keeps_the_options_it_was_made_with():
    options = poptorch.Options()
    assert FixedSizeDataLoader(molecules(5), 3, options=options).options is options


# -- the sampler for PyG's loader ----------------------------------------------------------------------------


def test_packs_for_pyg_stay_within_all_limits_and_hold_every_graph():
    dataset = molecules(100)
    sampler = PackSampler(dataset, num_nodes=40, num_edges=50, num_graphs=9, shuffle=True)
    loader, epochs = PyGDataLoader(dataset, batch_sampler=sampler), []
    for _ in range(2):
        length = len(loader)
        batches = list(loader)
        assert len(batches) == length
        assert all(b.num_nodes <= 40 and b.num_edges <= 50 and b.num_graphs <= 9 for b in batches)
        epochs.append([number for batch in batches for number in batch.position.tolist()])
        assert sorted(epochs[-1]) == list(range(100))
    assert epochs[0] != epochs[1]


def test_the_seed_decides_all_epochs_and_one_of_them_can_be_asked_for():
    dataset = molecules(30)
    one, other = (PackSampler(dataset, num_nodes=40, shuffle=True, seed=seed) for seed in (4, 4))
    first, second = list(one), list(one)
    assert [list(other), list(other)] == [first, second]
    other.set_epoch(0)
    assert list(other) == first
    assert list(PackSampler(dataset, num_nodes=40, shuffle=True, seed=5)) != first


def test_the_length_while_an_epoch_runs_is_its_own():
    sampler = PackSampler(molecules(100), num_nodes=40, num_edges=50, shuffle=True)
    for _ in range(4):
        length, batches = len(sampler), iter(sampler)
        number = sum(len(sampler) == length for _ in batches)
        assert number == length


def test_packs_can_be_shared_among_replicas():
    dataset = molecules(33)
    shares = [
        PackSampler(dataset, num_nodes=40, shuffle=True, num_replicas=3, rank=rank) for rank in range(3)
    ]
    assert len({len(share) for share in shares}) == 1
    assert sorted(graph for share in shares for batch in share for graph in batch) == list(range(33))


def test_one_number_limits_all_types_together_and_a_dictionary_each():
    from .graphs import hetero_graph

    graphs = [hetero_graph(1 + at % 3, 2, 2, 1, seed=at) for at in range(12)]
    for batch in PackSampler(graphs, num_nodes=9):
        assert sum(graphs[at].num_nodes for at in batch) <= 9
    for batch in PackSampler(graphs, num_nodes={"author": 3}, num_graphs=2):
        assert sum(graphs[at]["author"].num_nodes for at in batch) <= 3
        assert len(batch) <= 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "at least one limit"),
        (
            {"num_nodes": 5},
            r"Graph 3 with 6 nodes does not fit: num_nodes=5 .* Raise num_nodes to at least 6",
        ),
        ({"num_nodes": 1, "over_size_strategy": 1}, "All 9 graphs would be skipped"),
        ({"num_nodes": 20, "over_size_strategy": 4}, "should be Error or Skip"),
        ({"num_nodes": 20, "rank": 1}, r"rank should lie between 0 and .*got 1\)"),
        ({"num_nodes": {"a": 20}}, r"names \['a'\], which are no node types"),
        ({"num_graphs": 0}, r"num_graphs should be at least 1 \(got 0\)"),
        ({"num_nodes": 20, "seed": "a"}, r"seed should be a whole number \(got 'a'\)"),
        ({"num_nodes": 20, "num_replicas": "2"}, r"num_replicas should be a whole number .*got '2'\)"),
    ],
)
def test_limits_that_make_no_sense_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        PackSampler(molecules(9), **arguments)


def test_graphs_too_large_for_the_limits_can_be_skipped():
    sampler = PackSampler(molecules(9), num_nodes=5, over_size_strategy=1)
    assert sorted(at for batch in sampler for at in batch) == [0, 1, 2, 7, 8]
