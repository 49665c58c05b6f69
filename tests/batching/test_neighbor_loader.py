"""Neighbour batches of a fixed size: seeds first, real pieces of the graph, the same for any workers."""

import copy
import pickle
import warnings

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_geometric.data import Data, HeteroData
from torch_geometric.nn import SAGEConv, to_hetero
from torch_geometric.sampler import NeighborSampler
from torch_geometric.transforms import AddSelfLoops

from gnn_ipu_helpers import (
    FixedSizeNeighborLoader,
    FixedSizeOptions,
    OverSizeStrategy,
    compile_count,
    efficiency,
    neighbor_loader,
    poptorch,
)
from gnn_ipu_helpers.batching.sampling import VectorisedNeighborSampler

TORCH = tuple(int(part) for part in torch.__version__.split(".")[:2])
ROOMY = FixedSizeOptions(num_nodes=70, num_edges=300)


def random_graph(num_nodes=60, num_edges=240, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return Data(
        x=torch.randn(num_nodes, 4, generator=generator),
        edge_index=torch.randint(num_nodes, (2, num_edges), generator=generator),
        edge_attr=torch.arange(num_edges),
        y=torch.randint(3, (num_nodes,), generator=generator),
        train_mask=torch.arange(num_nodes) % 3 == 0,
    )


def random_hetero_graph(seed=0):
    generator = torch.Generator().manual_seed(seed)
    sizes = {"movie": 40, "actor": 30, "critic": 6}
    data = HeteroData()
    for node_type, size in sizes.items():
        data[node_type].x = torch.randn(size, 4, generator=generator)
    data["movie"].y = torch.randint(3, (40,), generator=generator)
    for source, target, num_edges in [
        ("actor", "movie", 100),
        ("movie", "actor", 100),
        ("movie", "critic", 9),
    ]:
        ends = [torch.randint(sizes[end], (num_edges,), generator=generator) for end in (source, target)]
        data[source, "to", target].edge_index = torch.stack(ends)
    return data


def layout(batch):
    """Shape, dtype and strides of every tensor, and every other value."""
    return [
        {
            name: (value.shape, value.dtype, value.stride()) if isinstance(value, torch.Tensor) else value
            for name, value in store.items()
        }
        for store in batch.stores
    ]


def same(first, second):
    return all(
        torch.equal(value, other[name]) if isinstance(value, torch.Tensor) else value == other[name]
        for store, other in zip(first.stores, second.stores)
        for name, value in store.items()
    )


def seeds_of(batch):
    return batch.n_id[batch.seeds_mask].tolist()


# -- what a batch is -----------------------------------------------------------------------------------------


@settings(max_examples=40)
@given(
    st.integers(1, 9),
    st.lists(st.sampled_from([-1, 0, 1, 3]), min_size=1, max_size=2),
    st.booleans(),
    st.integers(0, 1000),
)
def test_every_batch_is_a_padded_piece_of_the_graph(batch_size, num_neighbors, replace, seed):
    data = random_graph(num_nodes=20, num_edges=60, seed=seed)
    torch.manual_seed(seed)
    options = FixedSizeOptions(num_nodes=25, num_edges=100)
    batches = list(
        FixedSizeNeighborLoader(
            data,
            num_neighbors,
            batch_size=batch_size,
            fixed_size_options=options,
            replace=replace,
            shuffle=True,
        )
    )
    assert sorted(node for batch in batches for node in seeds_of(batch)) == list(range(20))
    for batch in batches:
        assert layout(batch) == layout(batches[0])
        real, padding = batch.edge_index[:, batch.edges_mask], batch.edge_index[:, ~batch.edges_mask]
        assert torch.equal(data.edge_index[:, batch.e_id[batch.edges_mask]], batch.n_id[real])
        assert torch.equal(batch.edge_attr[batch.edges_mask], batch.e_id[batch.edges_mask])
        assert torch.equal(batch.x[batch.nodes_mask], data.x[batch.n_id[batch.nodes_mask]])
        assert not batch.nodes_mask[padding].any()
        assert batch.nodes_mask[real].all()
        assert batch.graphs_mask.tolist() == [True, False]


def test_seeds_come_first_and_input_id_tells_which():
    loader = FixedSizeNeighborLoader(random_graph(), [3], [9, 2, 5, 7, 1], 2, ROOMY)
    first, _, last = loader
    assert seeds_of(first) == first.n_id[:2].tolist() == [9, 2]
    assert first.input_id.tolist() == [0, 1]
    assert first.seeds_mask.nonzero().view(-1).tolist() == [0, 1]
    assert seeds_of(last) == last.n_id[:1].tolist() == [1]
    assert last.input_id.tolist() == [4, -1]
    assert first.batch_size == last.batch_size == 2


def test_batch_size_counts_seeds_even_after_a_copy_or_a_worker():
    (batch,) = FixedSizeNeighborLoader(random_graph(), [3], [9, 2, 5], 3, ROOMY)
    for other in (batch, copy.copy(batch), pickle.loads(pickle.dumps(batch))):
        assert other.batch_size == other["batch_size"] == 3
        assert other.num_graphs == 2


def test_pad_masks_can_be_left_out():
    loader = FixedSizeNeighborLoader(
        random_graph(), [3], batch_size=4, fixed_size_options=ROOMY, add_pad_masks=False
    )
    batch = next(iter(loader))
    assert "nodes_mask" not in batch
    assert int(batch.seeds_mask.sum()) == 4


def test_a_transform_runs_before_padding():
    data = random_graph()
    del data.edge_attr
    transform = AddSelfLoops()
    (batch,) = FixedSizeNeighborLoader(
        data, [-1], [4, 8], 2, ROOMY, transform=transform, subgraph_type="induced"
    )
    (plain,) = neighbor_loader(data, [-1], [4, 8], batch_size=2, subgraph_type="induced")
    assert int(batch.edges_mask.sum()) == transform(plain).num_edges
    assert "e_id" not in batch


@pytest.mark.parametrize("subgraph_type", ["induced", "bidirectional"])
def test_other_subgraph_types_give_what_pyg_gives(subgraph_type):
    data = random_graph()
    (batch,) = FixedSizeNeighborLoader(data, [-1], [4, 8], 2, ROOMY, subgraph_type=subgraph_type)
    (plain,) = neighbor_loader(data, [-1], [4, 8], batch_size=2, subgraph_type=subgraph_type)
    assert torch.equal(batch.edge_index[:, batch.edges_mask], plain.edge_index)
    assert torch.equal(batch.n_id[batch.nodes_mask], plain.n_id)


def test_an_attribute_with_as_many_entries_as_a_sample_has_edges_stays_with_the_nodes():
    # Around node 1 there are two nodes and two edges.
    data = Data(x=torch.ones(3, 1), y=torch.arange(3), edge_index=torch.tensor([[0, 0], [1, 1]]))
    (batch,) = FixedSizeNeighborLoader(data, [-1], [1], 1, FixedSizeOptions(num_nodes=5, num_edges=4))
    assert batch.y.tolist() == [1, 0, 0, 0, 0]


def untouched(sample):
    return sample


@pytest.mark.parametrize(
    ("data", "seeds"),
    [(random_graph(), None), (random_hetero_graph(), "movie")],
    ids=["homogeneous", "heterogeneous"],
)
@pytest.mark.parametrize(
    "size", [ROOMY, FixedSizeOptions(num_nodes=12, num_edges=8)], ids=["roomy", "trimmed"]
)
def test_batches_are_the_same_whether_a_transform_has_to_see_them_or_not(data, seeds, size):
    loaders = [
        FixedSizeNeighborLoader(data, [3, 2], seeds, 5, size, shuffle=True, transform=transform)
        for transform in (None, untouched)
    ]
    for loader in loaders:
        torch.manual_seed(0)
        loader.batches = list(loader)
    assert all(same(*pair) for pair in zip(*(loader.batches for loader in loaders)))
    assert loaders[0].trimmed == loaders[1].trimmed


def test_attributes_of_the_whole_graph_come_along_and_so_do_those_that_look_like_numbers_of_nodes():
    data = random_graph()
    data.scale = torch.tensor([2.5])
    data.own_index = torch.arange(60)
    (batch,) = FixedSizeNeighborLoader(data, [-1], [4, 8], 2, ROOMY)
    assert batch.scale.tolist() == [2.5, 0.0]
    assert torch.equal(batch.own_index[batch.nodes_mask], batch.n_id[batch.nodes_mask])


# -- epochs --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shuffle", [False, True])
def test_an_epoch_has_every_seed_once_and_the_length_it_says(shuffle):
    data = random_graph()
    loader = FixedSizeNeighborLoader(data, [2], data.train_mask, 6, ROOMY, shuffle=shuffle)
    for _ in range(2):
        seeds = [node for batch in loader for node in seeds_of(batch)]
        assert sorted(seeds) == data.train_mask.nonzero().view(-1).tolist()
        assert (seeds == sorted(seeds)) != shuffle
    assert len(loader) == len(list(loader)) == 4


def test_drop_last_leaves_out_the_incomplete_batch():
    data = random_graph()
    loader = FixedSizeNeighborLoader(data, [2], data.train_mask, 6, ROOMY, drop_last=True)
    assert [int(batch.seeds_mask.sum()) for batch in loader] == [6, 6, 6]
    assert len(loader) == 3


def test_a_sampler_gives_the_order():
    loader = FixedSizeNeighborLoader(random_graph(), [2], None, 2, ROOMY, sampler=[30, 10, 50])
    assert [seeds_of(batch) for batch in loader] == [[30, 10], [50]]


def test_a_batch_sampler_gives_the_seeds_of_each_mini_batch():
    loader = FixedSizeNeighborLoader(
        random_graph(), [2], None, 3, ROOMY, batch_sampler=[[30, 10], [50, 1, 2]]
    )
    assert [seeds_of(batch) for batch in loader] == [[30, 10], [50, 1, 2]]
    loader = FixedSizeNeighborLoader(random_graph(), [2], None, 2, ROOMY, batch_sampler=[[50, 1, 2]])
    with pytest.raises(ValueError, match="A mini-batch of 3 seeds has no room: batch_size=2"):
        list(loader)


def epochs(num_workers, seed=0, generator=None, **kwargs):
    """Two shuffled epochs, and the user's next random number."""
    torch.manual_seed(seed)
    loader = FixedSizeNeighborLoader(
        random_graph(),
        [2, 2],
        batch_size=20,
        fixed_size_options=ROOMY,
        shuffle=True,
        num_workers=num_workers,
        generator=generator,
        **kwargs,
    )
    return list(loader) + list(loader), float(torch.rand(()))


@pytest.mark.parametrize("persistent", [False, True])
def test_workers_change_nothing(persistent):
    alone, next_alone = epochs(0)
    together, next_together = epochs(2, persistent_workers=persistent)
    assert len(alone) == len(together) == 6
    assert all(same(first, second) for first, second in zip(alone, together))
    assert next_alone == next_together


def test_another_seed_and_another_epoch_give_other_batches():
    batches, _ = epochs(0)
    others, _ = epochs(0, seed=1)
    assert not same(batches[0], others[0])
    assert not same(batches[0], batches[3])


def test_a_generator_takes_the_place_of_the_global_one():
    first, _ = epochs(0, seed=0, generator=torch.Generator().manual_seed(7))
    second, _ = epochs(0, seed=1, generator=torch.Generator().manual_seed(7))
    assert all(same(*pair) for pair in zip(first, second))


# -- sizes ---------------------------------------------------------------------------------------------------


def test_the_size_is_found_by_sampling_without_touching_the_random_numbers():
    torch.manual_seed(0)
    loader = FixedSizeNeighborLoader(random_graph(), [-1], batch_size=10)
    drawn = torch.rand(())
    torch.manual_seed(0)
    assert torch.rand(()) == drawn
    largest = max(sample.num_nodes for sample in neighbor_loader(random_graph(), [-1], batch_size=10))
    assert loader.fixed_size_options.num_nodes == largest + 1
    assert len(list(loader)) == 6
    assert loader.trimmed.batches == 0


def test_options_come_from_the_plain_loader():
    plain = neighbor_loader(random_graph(), [-1, -1], batch_size=10)
    options = FixedSizeOptions.from_loader(plain)
    loader = FixedSizeNeighborLoader(random_graph(), [-1, -1], batch_size=10, fixed_size_options=options)
    assert len(list(loader)) == 6
    assert loader.trimmed.batches == 0


@pytest.mark.parametrize(
    ("strategy", "size"),
    [
        (OverSizeStrategy.TrimNodes, FixedSizeOptions(num_nodes=20, num_edges=300)),
        (OverSizeStrategy.TrimEdges, FixedSizeOptions(num_nodes=70, num_edges=15)),
        (OverSizeStrategy.TrimNodesAndEdges, FixedSizeOptions(num_nodes=11, num_edges=3)),
    ],
)
def test_trimming_keeps_the_seeds_and_the_nearest_and_counts_the_rest(strategy, size):
    data = random_graph()
    arguments = dict(num_neighbors=[-1, -1], batch_size=10)
    loader = FixedSizeNeighborLoader(data, fixed_size_options=size, over_size_strategy=strategy, **arguments)
    batches, plain = list(loader), list(neighbor_loader(data, **arguments))

    for batch, sample in zip(batches, plain):
        kept = batch.n_id[batch.nodes_mask]
        assert torch.equal(kept, sample.n_id[: kept.numel()])
        assert int(batch.seeds_mask.sum()) == 10
        assert torch.equal(
            data.edge_index[:, batch.e_id[batch.edges_mask]],
            batch.n_id[batch.edge_index[:, batch.edges_mask]],
        )
    for what, mask in (("nodes", "nodes_mask"), ("edges", "edges_mask")):
        total = sum(getattr(sample, f"num_{what}") for sample in plain)
        dropped = total - sum(int(batch[mask].sum()) for batch in batches)
        assert (getattr(loader.trimmed, what), getattr(loader.trimmed, f"of_{what}")) == (dropped, total)
        assert loader.trimmed.percent[what] == pytest.approx(100 * dropped / total)
    assert loader.trimmed.batches == loader.trimmed.of_batches == 6


def test_what_workers_trim_is_counted_for_one_epoch():
    small = FixedSizeOptions(num_nodes=20, num_edges=20)
    loaders = [
        FixedSizeNeighborLoader(
            random_graph(), [-1, -1], batch_size=10, fixed_size_options=small, num_workers=workers
        )
        for workers in (0, 1)
    ]
    for loader in loaders:
        for _ in range(2):
            assert len(list(loader)) == 6
    assert loaders[0].trimmed == loaders[1].trimmed
    assert loaders[0].trimmed.batches == 6


def test_error_says_what_does_not_fit():
    loader = FixedSizeNeighborLoader(
        random_graph(),
        [-1, -1],
        batch_size=10,
        fixed_size_options=FixedSizeOptions(num_nodes=20, num_edges=300),
        over_size_strategy=OverSizeStrategy.Error,
    )
    with pytest.raises(ValueError, match=r"nodes does not fit: num_nodes=20 leaves room for 19"):
        list(loader)


def skipping(num_nodes, options=None):
    data = random_graph()
    return FixedSizeNeighborLoader(
        data,
        [-1],
        batch_size=5,
        fixed_size_options=FixedSizeOptions(num_nodes=num_nodes, num_edges=300),
        over_size_strategy=OverSizeStrategy.Skip,
        options=options,
    )


def test_skip_leaves_out_what_does_not_fit_and_says_so():
    sizes = [sample.num_nodes for sample in neighbor_loader(random_graph(), [-1], batch_size=5)]
    limit = sorted(sizes)[len(sizes) // 2]
    loader = skipping(num_nodes=limit + 1)
    with pytest.warns(UserWarning, match="subgraphs are skipped because they do not fit"):
        batches = list(loader)
    assert [int(batch.nodes_mask.sum()) for batch in batches] == [size for size in sizes if size <= limit]
    assert loader.skipped == sum(size > limit for size in sizes)


def test_skipping_fills_combined_batches_up_with_the_next_ones():
    sizes = [sample.num_nodes for sample in neighbor_loader(random_graph(), [-1], batch_size=5)]
    limit = sorted(sizes)[-2]
    loader = skipping(num_nodes=limit + 1, options=poptorch.Options().deviceIterations(2))
    with pytest.warns(UserWarning, match="1 of them because the others"):
        batches = list(loader)
    assert len(sizes) == 12
    assert len(batches) == 5
    assert loader.skipped == 2
    assert all(batch.x.shape == (2 * (limit + 1), 4) for batch in batches)


# -- combined batches ----------------------------------------------------------------------------------------


def test_a_combined_batch_is_its_mini_batches_one_after_another():
    data = random_graph()
    single = list(FixedSizeNeighborLoader(data, [-1], batch_size=10, fixed_size_options=ROOMY))
    options = poptorch.Options().deviceIterations(3)
    combined = list(
        FixedSizeNeighborLoader(data, [-1], batch_size=10, fixed_size_options=ROOMY, options=options)
    )
    assert len(combined) == 2
    assert combined[0].edge_index.shape == (6, 300)
    assert combined[0].batch_size == 10
    for name in ("x", "edge_index", "seeds_mask", "input_id", "nodes_mask"):
        assert torch.equal(combined[1][name], torch.cat([batch[name] for batch in single[3:]]))


def test_the_remainder_of_a_combined_epoch_is_spread():
    options = poptorch.Options().deviceIterations(4)
    loader = FixedSizeNeighborLoader(random_graph(), [2], range(25), 5, ROOMY, options=options)
    first, last = loader
    assert len(loader) == 2
    num_seeds = last.seeds_mask.view(4, -1).sum(1)
    assert sorted(num_seeds.tolist()) == [1, 1, 1, 2]
    seeds = torch.cat([first.n_id[first.seeds_mask], last.n_id[last.seeds_mask]])
    assert seeds.tolist() == list(range(25))
    assert torch.equal((last.input_id.view(4, 5) >= 0).sum(1), num_seeds)


def test_seeds_too_few_for_a_combined_batch_are_left_out_with_a_notice():
    options = poptorch.Options().deviceIterations(4)
    loader = FixedSizeNeighborLoader(random_graph(), [2], range(22), 5, ROOMY, options=options)
    with pytest.warns(UserWarning, match="2 graphs are left out"):
        (batch,) = loader
    assert int(batch.seeds_mask.sum()) == 20


# -- heterogeneous graphs ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        FixedSizeOptions(num_nodes=60, num_edges=150),
        FixedSizeOptions(
            num_nodes={"movie": 50, "actor": 40, "critic": 3},
            num_edges={
                ("actor", "to", "movie"): 120,
                ("movie", "to", "actor"): 110,
                ("movie", "to", "critic"): 1,
            },
        ),
        None,
    ],
    ids=["one number", "by type", "found"],
)
def test_a_heterogeneous_batch_is_padded_for_every_type(options):
    data = random_hetero_graph()
    given = copy.deepcopy(options)
    loader = FixedSizeNeighborLoader(data, [3, 3], ("movie", range(7)), 3, options)
    assert options == given
    batches = list(loader)
    for batch in batches:
        assert layout(batch) == layout(batches[0])
        movie = batch["movie"]
        assert (movie.batch_size, movie.input_id.shape) == (3, (3,))
        for node_type in data.node_types:
            store = batch[node_type]
            assert store.x.shape[0] == loader.fixed_size_options.num_nodes[node_type]
            assert torch.equal(store.x[store.nodes_mask], data[node_type].x[store.n_id[store.nodes_mask]])
        for edge_type in data.edge_types:
            store = batch[edge_type]
            row, col = store.edge_index[:, store.edges_mask]
            ends = torch.stack([batch[edge_type[0]].n_id[row], batch[edge_type[2]].n_id[col]])
            assert torch.equal(data[edge_type].edge_index[:, store.e_id[store.edges_mask]], ends)
    last = batches[-1]["movie"]
    assert last.n_id[last.seeds_mask].tolist() == [6]
    assert last.input_id.tolist() == [6, -1, -1]
    assert not batches[0]["critic"].nodes_mask.any()


def test_heterogeneous_trimming_keeps_the_seeds():
    size = FixedSizeOptions(num_nodes=6, num_edges=4)
    loader = FixedSizeNeighborLoader(random_hetero_graph(), [5, 5], "movie", 5, size)
    seeds = [node for batch in loader for node in batch["movie"].n_id[batch["movie"].seeds_mask].tolist()]
    assert seeds == list(range(40))
    assert loader.trimmed.batches == 8


# -- training ------------------------------------------------------------------------------------------------


class TwoLayers(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = SAGEConv((4, 4), 8)
        self.conv2 = SAGEConv((8, 8), 3)

    def forward(self, x, edge_index):
        return self.conv2(self.conv1(x, edge_index).relu(), edge_index)


def loss_and_gradients(model, loss):
    model.zero_grad()
    loss.backward()
    used = [parameter for parameter in model.parameters() if parameter.grad is not None]
    return [loss.detach(), *(parameter.grad.clone() for parameter in used)]


def assert_equal(first, second):
    assert len(first) == len(second)
    for one, other in zip(first, second):
        torch.testing.assert_close(one, other, rtol=1e-6, atol=1e-6)


def test_loss_and_gradients_over_the_seeds_are_those_of_plain_pyg():
    torch.manual_seed(0)
    data, model = random_graph(), TwoLayers()
    arguments = dict(num_neighbors=[-1, -1], input_nodes=data.train_mask, batch_size=6)
    for batch, plain in zip(
        FixedSizeNeighborLoader(data, fixed_size_options=ROOMY, **arguments),
        neighbor_loader(data, **arguments),
    ):
        target = torch.where(batch.seeds_mask, batch.y, -100)
        padded = F.cross_entropy(model(batch.x, batch.edge_index), target)
        out = model(plain.x, plain.edge_index)[: plain.batch_size]
        expected = F.cross_entropy(out, plain.y[: plain.batch_size])
        assert_equal(loss_and_gradients(model, padded), loss_and_gradients(model, expected))


def test_loss_and_gradients_over_the_seeds_of_a_heterogeneous_graph_are_those_of_plain_pyg():
    torch.manual_seed(0)
    data = random_hetero_graph()
    data = data.edge_type_subgraph([key for key in data.edge_types if "critic" not in key])
    model = to_hetero(TwoLayers(), data.metadata())
    arguments = dict(num_neighbors=[-1, -1], input_nodes="movie", batch_size=7)
    for batch, plain in zip(FixedSizeNeighborLoader(data, **arguments), neighbor_loader(data, **arguments)):
        movie, seeds = batch["movie"], plain["movie"].batch_size
        target = torch.where(movie.seeds_mask, movie.y, -100)
        padded = F.cross_entropy(model(batch.x_dict, batch.edge_index_dict)["movie"], target)
        out = model(plain.x_dict, plain.edge_index_dict)["movie"][:seeds]
        expected = F.cross_entropy(out, plain["movie"].y[:seeds])
        assert_equal(loss_and_gradients(model, padded), loss_and_gradients(model, expected))


class WithLoss(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = TwoLayers()

    def forward(self, x, edge_index, y, seeds_mask):
        out = self.layers(x, edge_index)
        return out, F.cross_entropy(out, torch.where(seeds_mask, y, -100))


@pytest.mark.skipif(TORCH < (2, 6), reason="compiling needs torch 2.6 or later")
def test_an_epoch_with_an_incomplete_batch_trains_through_one_compilation():
    torch.manual_seed(0)
    data, model = random_graph(), WithLoss()
    eager = copy.deepcopy(model)
    optimizer = torch.optim.SGD(eager.parameters(), lr=0.1)
    wrapped = poptorch.trainingModel(model, optimizer=poptorch.optim.SGD(model.parameters(), lr=0.1))
    loader = FixedSizeNeighborLoader(data, [3, 3], data.train_mask, 6, ROOMY, shuffle=True)
    for batch in loader:
        inputs = (batch.x, batch.edge_index, batch.y, batch.seeds_mask)
        _, expected = eager(*inputs)
        optimizer.zero_grad()
        expected.backward()
        optimizer.step()
        _, loss = wrapped(*inputs)
        torch.testing.assert_close(loss, expected.detach(), rtol=1e-5, atol=1e-5)
    assert compile_count(wrapped) == 1


def test_efficiency_counts_the_real_share():
    loader = FixedSizeNeighborLoader(random_graph(), [-1], [4, 8, 9], 2, ROOMY)
    plain = list(neighbor_loader(random_graph(), [-1], [4, 8, 9], batch_size=2))
    share = efficiency(loader)
    assert share.nodes == pytest.approx(sum(sample.num_nodes for sample in plain) / (2 * 70))
    assert share.edges == pytest.approx(sum(sample.num_edges for sample in plain) / (2 * 300))
    assert share.graphs == 0.5


# -- the plain loader ----------------------------------------------------------------------------------------


def test_the_plain_loader_is_pygs_with_our_sampler_where_pyg_lib_is_missing(monkeypatch):
    monkeypatch.setattr("torch_geometric.typing.WITH_PYG_LIB", False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loader = neighbor_loader(random_graph(), [2], batch_size=4, shuffle=True)
    assert isinstance(loader.node_sampler, VectorisedNeighborSampler)
    assert next(iter(loader)).batch_size == 4


def test_the_plain_loader_leaves_sampling_to_pyg_lib_where_it_can(monkeypatch):
    monkeypatch.setattr("torch_geometric.typing.WITH_PYG_LIB", True)
    assert type(neighbor_loader(random_graph(), [2]).node_sampler) is NeighborSampler
    induced = neighbor_loader(random_graph(), [2], subgraph_type="induced")
    assert isinstance(induced.node_sampler, VectorisedNeighborSampler)


def test_a_sampler_of_ones_own_is_used():
    sampler = VectorisedNeighborSampler(random_graph(), [1])
    assert neighbor_loader(random_graph(), [5], neighbor_sampler=sampler).node_sampler is sampler


@pytest.mark.parametrize("argument", ["time_attr", "weight_attr"])
def test_what_only_pyg_lib_can_do_is_refused_without_it(monkeypatch, argument):
    monkeypatch.setattr("torch_geometric.typing.WITH_PYG_LIB", False)
    with pytest.raises(NotImplementedError, match=f"Sampling by '{argument}' needs 'pyg-lib'"):
        neighbor_loader(random_graph(), [2], **{argument: "edge_attr"})


# -- bad input -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("input_nodes", "error", "message"),
    [
        ([], ValueError, "'input_nodes' selects no node: nothing to sample"),
        (torch.zeros(60, dtype=torch.bool), ValueError, "'input_nodes' selects no node"),
        (torch.ones(59, dtype=torch.bool), ValueError, r"each of the 60 nodes \(got shape \[59\]\)"),
        ([0, 60], IndexError, "'input_nodes' needs to lie between 0 and 59"),
        ([-1], IndexError, "'input_nodes' needs to lie between 0 and 59"),
        (torch.ones(3), TypeError, r"a mask or node indices in one dimension \(got torch.float32"),
        (torch.zeros(2, 2, dtype=torch.long), TypeError, r"of shape \[2, 2\]"),
        ("movie", TypeError, r"a mask or node indices in one dimension \(got 'movie'\)"),
        (object(), TypeError, "a mask or node indices in one dimension"),
    ],
)
def test_bad_seeds_are_refused(input_nodes, error, message):
    with pytest.raises(error, match=message):
        FixedSizeNeighborLoader(random_graph(), [2], input_nodes)


@pytest.mark.parametrize(
    ("input_nodes", "error", "message"),
    [
        (None, ValueError, r"needs to be a node type or \(type, indices or mask\)"),
        ("film", ValueError, r"a type out of \['movie', 'actor', 'critic'\] \(got 'film'\)"),
        (torch.arange(3), ValueError, "needs to be a node type"),
        (("critic", torch.ones(5, dtype=torch.bool)), ValueError, "each of the 6 nodes of type 'critic'"),
        (("critic", [6]), IndexError, "'input_nodes' of type 'critic' needs to lie between 0 and 5"),
        (("critic", []), ValueError, "selects no node of type 'critic'"),
    ],
)
def test_bad_seeds_of_a_heterogeneous_graph_are_refused(input_nodes, error, message):
    with pytest.raises(error, match=message):
        FixedSizeNeighborLoader(random_hetero_graph(), [2], input_nodes)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (dict(batch_size=0), ValueError, "batch_size should be at least 1"),
        (
            dict(batch_size=10, fixed_size_options=FixedSizeOptions(10, 50)),
            ValueError,
            "10 seeds do not fit a batch",
        ),
        (dict(fixed_size_options=100), TypeError, r"needs to be a FixedSizeOptions \(got int\)"),
        (dict(disjoint=True), ValueError, "'disjoint' cannot be True"),
        (dict(shuffle=True, sampler=[1, 2]), ValueError, "leave out shuffle"),
        (dict(num_neighbors=[-3]), ValueError, r"-1 for all neighbours \(got -3\)"),
    ],
)
def test_bad_arguments_are_refused(arguments, error, message):
    with pytest.raises(error, match=message):
        FixedSizeNeighborLoader(
            random_graph(), **{"num_neighbors": [2], "fixed_size_options": ROOMY, **arguments}
        )


def test_several_graphs_are_refused():
    with pytest.raises(TypeError, match=r"one 'Data' or 'HeteroData' \(got 'list'\)"):
        FixedSizeNeighborLoader([random_graph()], [2])
