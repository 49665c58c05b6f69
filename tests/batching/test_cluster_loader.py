"""Cluster batches of a fixed size: merged clusters with the edges between them, trimmed and padded."""

import pytest
import torch
import torch.nn.functional as F
from torch_geometric.data import Data
from torch_geometric.loader import ClusterLoader
from torch_geometric.nn import GCNConv

from gnn_ipu_helpers import (
    FixedSizeClusterLoader,
    FixedSizeOptions,
    OverSizeStrategy,
    efficiency,
    partition,
    poptorch,
)

ROOMY = FixedSizeOptions(num_nodes=45, num_edges=400)


def random_graph(num_nodes=80, num_edges=400, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return Data(
        x=torch.randn(num_nodes, 4, generator=generator),
        edge_index=torch.randint(num_nodes, (2, num_edges), generator=generator),
        edge_attr=torch.rand(num_edges, generator=generator),
        y=torch.randint(3, (num_nodes,), generator=generator),
        node=torch.arange(num_nodes),
        train_mask=torch.arange(num_nodes) % 2 == 0,
    )


@pytest.fixture(scope="module")
def clusters():
    return partition(random_graph(), 8)


def same(first, second):
    return all(
        torch.equal(value, second[name]) if isinstance(value, torch.Tensor) else value == second[name]
        for name, value in first.stores[0].items()
    )


def test_a_batch_is_what_pyg_makes_of_the_clusters_then_padding(clusters):
    for batch, plain in zip(
        FixedSizeClusterLoader(clusters, ROOMY, 4), ClusterLoader(clusters, batch_size=4)
    ):
        assert torch.equal(batch.edge_index[:, batch.edges_mask], plain.edge_index)
        for name in ("x", "y", "node", "train_mask"):
            assert torch.equal(batch[name][batch.nodes_mask], plain[name])
            assert batch[name].shape[0] == 45
        assert torch.equal(batch.edge_attr[batch.edges_mask], plain.edge_attr)
        assert not batch.nodes_mask[batch.edge_index[:, ~batch.edges_mask]].any()
        assert batch.graphs_mask.tolist() == [True, False]


@pytest.mark.parametrize("shuffle", [False, True])
def test_an_epoch_has_every_node_once_and_the_length_it_says(clusters, shuffle):
    loader = FixedSizeClusterLoader(clusters, ROOMY, batch_size=3, shuffle=shuffle)
    nodes = torch.cat([batch.node[batch.nodes_mask] for batch in loader])
    assert sorted(nodes.tolist()) == list(range(80))
    assert len(loader) == 3


def test_drop_last_leaves_out_the_incomplete_batch(clusters):
    loader = FixedSizeClusterLoader(clusters, ROOMY, batch_size=3, drop_last=True)
    assert len(loader) == len(list(loader)) == 2


def test_options_come_from_the_plain_loader(clusters):
    plain = ClusterLoader(clusters, batch_size=4)
    options = FixedSizeOptions.from_loader(plain, sample_limit=2)
    assert options.num_nodes == max(batch.num_nodes for batch in plain) + 1
    loader = FixedSizeClusterLoader(clusters, options, batch_size=4)
    assert all(batch.num_nodes == options.num_nodes for batch in loader)
    assert loader.trimmed.batches == 0


def epochs(clusters, num_workers, seed=0):
    torch.manual_seed(seed)
    loader = FixedSizeClusterLoader(clusters, ROOMY, 3, shuffle=True, num_workers=num_workers)
    return list(loader) + list(loader)


def test_workers_change_nothing_but_the_seed_does(clusters):
    alone, together = epochs(clusters, 0), epochs(clusters, 2)
    assert all(same(first, second) for first, second in zip(alone, together))
    assert not same(alone[0], alone[3])
    assert not same(alone[0], epochs(clusters, 0, seed=1)[0])


def test_trimming_fits_and_counts_what_it_drops(clusters):
    loader = FixedSizeClusterLoader(clusters, FixedSizeOptions(num_nodes=35, num_edges=60), batch_size=4)
    plain = list(ClusterLoader(clusters, batch_size=4))
    batches = list(loader)
    assert {batch.num_nodes for batch in batches} == {35}
    assert loader.trimmed.nodes == sum(sample.num_nodes for sample in plain) - 2 * 34
    kept_edges = sum(int(batch.edges_mask.sum()) for batch in batches)
    assert loader.trimmed.edges == sum(sample.num_edges for sample in plain) - kept_edges
    assert loader.trimmed.percent["nodes"] == pytest.approx(100 * loader.trimmed.nodes / 80)
    assert (loader.trimmed.batches, loader.trimmed.of_batches) == (2, 2)
    assert "nodes=12 of 80 (15.00 %)" in repr(loader.trimmed)


def test_error_and_skip(clusters):
    small = FixedSizeOptions(num_nodes=35, num_edges=400)
    with pytest.raises(ValueError, match="does not fit: num_nodes=35"):
        list(FixedSizeClusterLoader(clusters, small, 4, over_size_strategy=OverSizeStrategy.Error))
    loader = FixedSizeClusterLoader(clusters, small, 4, over_size_strategy=OverSizeStrategy.Skip)
    with pytest.warns(UserWarning, match="2 subgraphs are skipped"):
        assert list(loader) == []
    assert loader.skipped == 2


def test_combined_batches(clusters):
    options = poptorch.Options().deviceIterations(2)
    (combined,) = FixedSizeClusterLoader(clusters, ROOMY, 4, options=options)
    first, second = FixedSizeClusterLoader(clusters, ROOMY, 4)
    assert combined.edge_index.shape == (4, 400)
    assert torch.equal(combined.x, torch.cat([first.x, second.x]))


def test_loss_and_gradients_are_those_of_plain_pyg(clusters):
    torch.manual_seed(0)
    model = GCNConv(4, 3, add_self_loops=False)

    def loss_and_gradients(batch, mask):
        model.zero_grad()
        target = torch.where(mask, batch.y, -100)
        loss = F.cross_entropy(model(batch.x, batch.edge_index, batch.edge_attr), target)
        loss.backward()
        return [loss.detach(), *(parameter.grad.clone() for parameter in model.parameters())]

    for batch, plain in zip(
        FixedSizeClusterLoader(clusters, ROOMY, 4), ClusterLoader(clusters, batch_size=4)
    ):
        padded = loss_and_gradients(batch, batch.train_mask & batch.nodes_mask)
        for value, expected in zip(padded, loss_and_gradients(plain, plain.train_mask)):
            torch.testing.assert_close(value, expected, rtol=1e-6, atol=1e-6)


def test_efficiency_counts_the_real_share(clusters):
    share = efficiency(FixedSizeClusterLoader(clusters, ROOMY, 4))
    assert share.nodes == pytest.approx(80 / 90)
    assert share.graphs == 0.5


def test_an_unpartitioned_graph_is_refused():
    with pytest.raises(TypeError, match=r"got Data\). Make one with 'partition\(data, num_parts\)'"):
        FixedSizeClusterLoader(random_graph(), ROOMY)


@pytest.mark.parametrize("batch_size", [0, -1])
def test_a_bad_batch_size_is_refused(clusters, batch_size):
    with pytest.raises(ValueError, match=rf"batch_size should be at least 1 \(got {batch_size}\)"):
        FixedSizeClusterLoader(clusters, ROOMY, batch_size)


def test_something_else_than_options_is_refused(clusters):
    with pytest.raises(TypeError, match=r"needs to be a FixedSizeOptions \(got dict\)"):
        FixedSizeClusterLoader(clusters, {"num_nodes": 5})
