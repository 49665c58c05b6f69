"""Batches beside plain PyG's of the same graphs: any dataset, strategy, number of processes and workers.

The real part of every batch is compared with `Batch.from_data_list` of the graphs that it says it holds, and
subgraphs with rows of the graph that they come from. Types may be empty, and transforms change sizes.
"""

import contextlib
import warnings

import torch
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from torch.utils.data import Subset
from torch_geometric.data import Batch, HeteroData
from torch_geometric.loader import ClusterLoader
from torch_geometric.loader import DataLoader as PyGDataLoader

from gnn_ipu_helpers import poptorch
from gnn_ipu_helpers.batching import (
    FixedSizeClusterLoader,
    FixedSizeDataLoader,
    FixedSizeNeighborLoader,
    FixedSizeOptions,
    FixedSizeStrategy,
    PackSampler,
    partition,
)

from .graphs import InMemory, assert_same_batch, graph, stores_of

AUTHOR, PAPER, VENUE = "author", "paper", "venue"
WRITES, CITES, IN = (AUTHOR, "writes", PAPER), (PAPER, "cites", PAPER), (PAPER, "in", VENUE)

# How often a type is empty: in no graph, in some of them, or in all.
EMPTY = st.sampled_from(("never", "sometimes", "always"))


def sizes(most, empty):
    """Numbers of nodes or edges, some or all of which are 0."""
    return {
        "never": st.integers(1, most),
        "sometimes": st.integers(0, most),
        "always": st.just(0),
    }[empty]


@st.composite
def graphs_with_empty_types(draw, max_graphs=9):
    """Homogeneous or heterogeneous graphs in which some types are empty now and then, or always."""
    number = draw(st.integers(1, max_graphs))
    if draw(st.booleans()):
        edges = sizes(8, draw(EMPTY))
        nodes = sizes(6, draw(st.sampled_from(("never", "sometimes"))))
        names = ("x", "z", "edge_attr", "edge-flag 2", "y_graph", "pair")
        graphs = []
        for seed in range(number):
            num_nodes = draw(nodes)
            graphs.append(graph(num_nodes, draw(edges) if num_nodes else 0, seed, names=names))
        graphs.append(graph(4, 0 if all(data.num_edges == 0 for data in graphs) else 5, number, names=names))
    else:
        nodes = {key: sizes(4, draw(EMPTY)) for key in (AUTHOR, VENUE)}
        nodes[PAPER] = st.integers(1, 5)
        edges = {key: sizes(6, draw(EMPTY)) for key in (WRITES, CITES, IN)}
        graphs = [typed_graph(draw, nodes, edges, seed) for seed in range(number)]
        # With one or two papers in all graphs, nothing tells their attributes from those of the graph.
        graphs.append(typed_graph(draw, {**nodes, PAPER: st.just(3)}, edges, number))
    for position, data in enumerate(graphs):
        data.position = torch.tensor([position])
    return graphs


def typed_graph(draw, nodes, edges, seed):
    """A heterogeneous graph with so many nodes of each type, and edges where there are both ends."""
    random = torch.Generator().manual_seed(seed)
    data = HeteroData()
    for key, number in nodes.items():
        data[key].x = torch.randn(draw(number), 2, generator=random)
    data[PAPER].y = torch.randint(3, (data[PAPER].num_nodes,), generator=random)
    for key, number in edges.items():
        ends = [data[end].num_nodes for end in (key[0], key[2])]
        number = draw(number) if all(ends) else 0
        index = [torch.randint(max(end, 1), (number,), generator=random) for end in ends]
        data[key].edge_index = torch.stack(index)
        data[key].edge_attr = torch.randn(number, 1, generator=random)
    return data


class Doubled:
    """A transform that keeps sizes."""

    def __call__(self, data):
        data = data.clone()
        for store in data.node_stores:
            store.x = 2 * store.x
        return data


class Grown:
    """A transform that adds nodes and edges, more of them to some graphs than to others."""

    def __call__(self, data):
        data = data.clone()
        more = int(data.position) % 3
        for store in data.node_stores:
            num_nodes = store.num_nodes
            for name, value in list(store.items()):
                # The `y` of a homogeneous graph is that of the graph.
                if name in ("x", "z") or (name == "y" and isinstance(data, HeteroData)):
                    store[name] = torch.cat([value, value.new_ones(more, *value.shape[1:])])
            if "num_nodes" in store:
                store.num_nodes = num_nodes + more
        for store in data.edge_stores:
            if more and store.num_edges:
                for name in ("edge_index", "edge_attr", "edge-flag 2"):
                    if name in store:
                        dim = 1 if name == "edge_index" else 0
                        store[name] = torch.cat([store[name], store[name].narrow(dim, 0, 1)], dim=dim)
        return data


def selected(dataset, chosen):
    """Ways to take some graphs of a dataset, each of which PyG or torch offers."""
    ways = {"subset": Subset(dataset, chosen)}
    if isinstance(dataset, InMemory):
        ways["index"] = dataset[torch.tensor(chosen)]
        ways["subset of index"] = Subset(dataset[chosen], list(range(len(chosen)))[::-1])
    return ways


@st.composite
def any_dataset(draw):
    """A dataset of any kind: a list, in memory, with a transform, or a selection of one of these."""
    graphs = draw(graphs_with_empty_types())
    transform = draw(st.sampled_from((None, Doubled(), Grown())))
    if draw(st.booleans()):
        dataset = InMemory(graphs, transform)
    else:
        dataset = graphs if transform is None else [transform(data) for data in graphs]
    if draw(st.booleans()):
        chosen = draw(st.lists(st.integers(0, len(graphs) - 1), min_size=1, max_size=6, unique=True))
        # The last one tells attributes of nodes from those of the graph.
        chosen = [*(at for at in chosen if at != len(graphs) - 1), len(graphs) - 1]
        ways = selected(dataset, chosen)
        dataset = ways[draw(st.sampled_from(sorted(ways)))]
    return dataset


STRATEGIES = st.sampled_from(list(FixedSizeStrategy))


def loader_of(dataset, strategy, batch_size=4, **kwargs):
    """A loader with room for the largest graphs of the dataset."""
    options = FixedSizeOptions.from_dataset(dataset, batch_size)
    return FixedSizeDataLoader(
        dataset, fixed_size_options=options, fixed_size_strategy=strategy, shuffle=True, **kwargs
    )


def seeded():
    return torch.Generator().manual_seed(7)


def by_position(dataset):
    """The graphs as the dataset gives them out, one by one, by the number that each of them carries."""
    return {int(data.position): data for data in (dataset[at] for at in range(len(dataset)))}


def positions(batch):
    """The numbers of the real graphs."""
    return batch.position[batch.graphs_mask].tolist()


def assert_begins_with_pygs(batch, graphs):
    """The real part of a batch is PyG's batch of the same graphs, to the bit, in every type."""
    plain = Batch.from_data_list(graphs)
    assert batch.graphs_mask.tolist() == [at < len(graphs) for at in range(batch.num_graphs)]
    for key, store in stores_of(plain).items():
        ours = stores_of(batch)[key]
        for name, value in store.items():
            if not isinstance(value, torch.Tensor):
                continue
            dim = plain.__cat_dim__(name, value, store) or 0
            # Where padding begins: `ptr` goes on from the last real graph.
            real = ours[name].narrow(dim, 0, value.size(dim))
            assert real.dtype == value.dtype, (key, name)
            assert torch.equal(real, value), (key, name)
        for level, mask in (("num_nodes", "nodes_mask"), ("num_edges", "edges_mask")):
            if mask in ours:
                assert int(ours[mask].sum()) == getattr(store, level), (key, mask)


@given(any_dataset(), STRATEGIES, st.integers(2, 5))
def test_every_batch_begins_with_pygs_batch_of_its_graphs(dataset, strategy, batch_size):
    plain, seen, shapes = by_position(dataset), [], set()
    for batch in loader_of(dataset, strategy, batch_size, generator=seeded()):
        own = positions(batch)
        assert_begins_with_pygs(batch, [plain[at] for at in own])
        seen += own
        shapes.add(
            tuple(
                value.shape for store in batch.stores for value in store.values() if hasattr(value, "shape")
            )
        )
    assert sorted(seen) == sorted(plain)
    assert len(shapes) == 1


@settings(max_examples=40)
@given(graphs_with_empty_types(), st.data())
def test_every_way_to_select_graphs_selects_pygs(graphs, data):
    order = data.draw(st.permutations(range(len(graphs) - 1)))
    # The last graph tells attributes of nodes from those of the graph.
    chosen = [len(graphs) - 1, *order[: len(graphs) // 2]]
    for dataset in selected(InMemory(graphs), chosen).values():
        seen = []
        for batch in FixedSizeDataLoader(dataset, 3):
            assert_begins_with_pygs(batch, [graphs[at] for at in positions(batch)])
            seen += positions(batch)
        assert seen == [int(dataset[at].position) for at in range(len(chosen))]
        assert sorted(seen) == sorted(chosen)


@settings(max_examples=40)
@given(any_dataset(), st.integers(2, 5))
def test_sizes_chosen_for_packing_hold_any_graphs(dataset, num_graphs):
    options = FixedSizeOptions.for_packing(dataset, num_graphs=num_graphs)
    plain, seen = by_position(dataset), []
    pack = FixedSizeStrategy.Pack
    for batch in FixedSizeDataLoader(dataset, fixed_size_options=options, fixed_size_strategy=pack):
        assert_begins_with_pygs(batch, [plain[at] for at in positions(batch)])
        seen += positions(batch)
    assert sorted(seen) == sorted(plain)


@given(any_dataset(), st.integers(1, 3), st.booleans())
def test_packs_for_pygs_own_loader_stay_within_limits_and_hold_every_graph(dataset, num_graphs, shuffle):
    plain = by_position(dataset)
    most = max(data.num_nodes for data in plain.values())
    sampler = PackSampler(dataset, num_nodes=2 * most, num_graphs=num_graphs, shuffle=shuffle)
    seen = []
    for batch in PyGDataLoader(dataset, batch_sampler=sampler):
        assert batch.num_nodes <= 2 * most
        assert batch.num_graphs <= num_graphs
        seen += batch.position.tolist()
    assert sorted(seen) == sorted(plain)


def processes(dataset, strategy, number, iterations, **kwargs):
    """One loader for each of several processes, in combined batches of so many."""
    for process in range(number):
        options = poptorch.Options()
        options.deviceIterations(iterations)
        options.Distributed.configureProcessId(process, number)
        yield loader_of(dataset, strategy, options=options, generator=seeded(), **kwargs)


@given(any_dataset(), STRATEGIES, st.integers(2, 3))
def test_processes_take_equal_disjoint_shares_of_pygs_graphs(dataset, strategy, number):
    plain, batches, lengths, left_out = by_position(dataset), [], set(), set()
    with leaving_out():
        for loader in processes(dataset, strategy, number, iterations=1):
            own = list(loader)
            assert len(own) == len(loader)
            lengths.add(len(own))
            left_out.add(loader.left_out)
            for batch in own:
                assert_begins_with_pygs(batch, [plain[at] for at in positions(batch)])
            batches += [positions(batch) for batch in own]
    assert len(lengths) == 1
    assert_shared(plain, batches, number, left_out)


@contextlib.contextmanager
def leaving_out():
    """A place where graphs may be left out, with a notice."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".* graphs are left out in this epoch")
        yield


def assert_shared(items, batches, number, left_out):
    """Every item comes once over all processes, unless equal shares are possible in no way."""
    seen = [item for batch in batches for item in batch]
    assert all(batches)
    assert len(seen) == len(set(seen))
    (num_missing,) = left_out
    assert len(set(items) - set(seen)) == num_missing < number
    if num_missing:
        assert {len(batch) for batch in batches} <= {1}


def mini_batches(batch, number):
    """The numbers of the real graphs in each mini-batch of a combined one."""
    masks = batch.graphs_mask.view(number, -1)
    return [own[mask].tolist() for own, mask in zip(batch.position.view(number, -1), masks)]


@given(any_dataset(), STRATEGIES, st.integers(1, 2), st.integers(2, 3))
def test_combined_batches_leave_out_fewer_graphs_than_they_have_mini_batches(
    dataset, strategy, number, iterations
):
    plain, seen, lengths, left_out = by_position(dataset), [], set(), set()
    with leaving_out():
        for loader in processes(dataset, strategy, number, iterations):
            batches = list(loader)
            lengths.add(len(batches))
            left_out.add(loader.left_out)
            for batch in batches:
                parts = mini_batches(batch, iterations)
                assert all(parts)
                seen += [at for part in parts for at in part]
    assert len(lengths) == len(left_out) == 1
    missing = set(plain) - set(seen)
    assert len(seen) == len(set(seen))
    assert len(missing) == left_out.pop() < number * iterations


# Starting workers takes long and has little to do with the data: few examples.
@settings(max_examples=3, suppress_health_check=list(HealthCheck))
@given(any_dataset(), STRATEGIES, st.integers(1, 2))
def test_workers_give_the_same_batches(dataset, strategy, number):
    assume(len(dataset) >= 2 * number)
    shares = [
        [batch for loader in processes(dataset, strategy, number, 1, num_workers=workers) for batch in loader]
        for workers in (0, 2)
    ]
    assert len(shares[0]) == len(shares[1])
    for one, other in zip(*shares):
        assert_same_batch(one, other)


# -- parts of one graph --------------------------------------------------------------------------------------


@st.composite
def large_graphs(draw):
    """One graph, homogeneous or heterogeneous, some of whose types are empty."""
    if draw(st.booleans()):
        num_nodes = draw(st.integers(3, 12))
        number = draw(st.sampled_from((0, 1, 20)))
        data = graph(num_nodes, number, draw(st.integers(0, 99)), names=("x", "edge_attr", "y_node"))
        return data, None
    nodes = {AUTHOR: sizes(6, draw(EMPTY)), VENUE: sizes(6, draw(EMPTY)), PAPER: st.integers(2, 9)}
    edges = {key: sizes(15, draw(EMPTY)) for key in (WRITES, CITES, IN)}
    return typed_graph(draw, nodes, edges, draw(st.integers(0, 99))), PAPER


def assert_is_part_of(batch, data):
    """The real rows of every type are the graph's own, those that `n_id` and `e_id` name."""
    for key, store in stores_of(data).items():
        ours = stores_of(batch)[key]
        for name, value in store.items():
            if name == "edge_index":
                real = ours.edge_index[:, ours.edges_mask]
                ends = (key, key) if key is None else (key[0], key[2])
                named = [stores_of(batch)[end].n_id[side] for end, side in zip(ends, real)]
                assert torch.equal(torch.stack(named), value[:, ours.e_id[ours.edges_mask]]), key
            elif isinstance(value, torch.Tensor):
                level, ids = ("edges_mask", "e_id") if name == "edge_attr" else ("nodes_mask", "n_id")
                real = ours[level]
                assert torch.equal(ours[name][real], value[ours[ids][real]]), (key, name)


def shares_of(make_loader, num_processes):
    """The batches of all processes, as many in each; and how many items they leave out."""
    batches, lengths, left_out = [], set(), set()
    for process in range(num_processes):
        options = poptorch.Options()
        options.Distributed.configureProcessId(process, num_processes)
        loader = make_loader(options=options, shuffle=True, generator=seeded())
        with leaving_out():
            lengths.add(len(loader))
            own = list(loader)
        assert {len(own)} == lengths
        batches += own
        left_out.add(loader.left_out)
    return batches, left_out


# A loader of each kind is made for every example: fewer of them.
@settings(max_examples=40)
@given(large_graphs(), st.integers(-1, 2), st.integers(1, 2), st.integers(1, 4), st.integers(1, 2))
def test_neighbourhoods_are_parts_of_graphs_with_empty_types(case, fan_out, hops, batch_size, num_processes):
    data, seed_type = case
    num_seeds = data.num_nodes if seed_type is None else data[seed_type].num_nodes

    def loader(**kwargs):
        sizes = FixedSizeOptions(40, 60)
        return FixedSizeNeighborLoader(data, [fan_out] * hops, seed_type, batch_size, sizes, **kwargs)

    batches, left_out = shares_of(loader, num_processes)
    for batch in batches:
        assert_is_part_of(batch, data)
    stores = [stores_of(batch)[seed_type] for batch in batches]
    seeds = [store.n_id[store.seeds_mask].tolist() for store in stores]
    assert_shared(range(num_seeds), seeds, num_processes, left_out)


@settings(max_examples=40)
@given(st.integers(0, 60), st.integers(1, 5), st.integers(1, 3), st.integers(1, 2))
def test_clusters_are_merged_as_by_pyg(num_edges, num_parts, batch_size, num_processes):
    data = graph(20, num_edges, num_parts, names=("x", "edge_attr", "y_node"))
    data.number = torch.arange(20)
    clusters = partition(data, num_parts)
    cluster_of = torch.empty(20, dtype=torch.long)
    for number in range(num_parts):
        cluster_of[clusters[number].number] = number

    def loader(**kwargs):
        return FixedSizeClusterLoader(clusters, FixedSizeOptions(21, 61), batch_size, **kwargs)

    batches, left_out = shares_of(loader, num_processes)
    nodes = [batch.number[batch.nodes_mask] for batch in batches]
    for batch, own in zip(batches, nodes):
        plain = data.subgraph(own)
        edges = {*map(tuple, own[batch.edge_index[:, batch.edges_mask]].t().tolist())}
        assert edges == {*map(tuple, own[plain.edge_index].t().tolist())}
        assert torch.equal(batch.x[batch.nodes_mask], data.x[own])
        assert torch.equal(batch.y[batch.nodes_mask], data.y[own])
    chosen = [sorted(set(cluster_of[own].tolist())) for own in nodes]
    assert_shared(range(num_parts), chosen, num_processes, left_out)
    if num_edges < 40:
        return  # PyG fails on clusters without an edge
    for batch, plain in zip(loader(), ClusterLoader(clusters, batch_size=batch_size)):
        assert torch.equal(batch.edge_index[:, batch.edges_mask], plain.edge_index)
        assert torch.equal(batch.edge_attr[batch.edges_mask], plain.edge_attr)
        assert torch.equal(batch.y[batch.nodes_mask], plain.y)
