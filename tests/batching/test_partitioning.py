"""Partitions: clusters that cover the graph once, are the same every time, and feed PyG's loaders."""

import sys

import pytest
import torch
import torch_geometric.loader
from torch_geometric.data import Data, HeteroData
from torch_geometric.loader import ClusterLoader
from torch_geometric.utils import to_undirected

from gnn_ipu_helpers.batching.partitioning import partition


def graph_of_communities(num_communities=6, size=10):
    """Complete communities in a ring, with one edge from each to the next."""
    inside = torch.combinations(torch.arange(size)).t()
    edges = [inside + size * number for number in range(num_communities)]
    starts = torch.arange(num_communities) * size
    edges.append(torch.stack([starts, starts.roll(-1) + 1]))
    edge_index = to_undirected(torch.cat(edges, dim=1))
    num_nodes = num_communities * size
    return Data(
        x=torch.arange(num_nodes).float().view(-1, 1),
        y=torch.arange(num_nodes) // size,
        edge_index=edge_index,
        edge_attr=torch.arange(edge_index.size(1)),
    )


@pytest.mark.parametrize("recursive", [False, True])
def test_clusters_are_the_communities(recursive):
    clusters = partition(graph_of_communities(), 6, recursive=recursive)
    assert isinstance(clusters, torch_geometric.loader.ClusterData)
    assert repr(clusters) == "ClusterData(6)"
    assert sorted(cluster.y.unique().tolist() for cluster in clusters) == [[number] for number in range(6)]


def test_every_node_lies_in_one_cluster_with_its_own_attributes():
    data = graph_of_communities()
    clusters = partition(data, 4)
    assert len(clusters) == 4
    assert (
        sorted(torch.cat([cluster.x for cluster in clusters]).view(-1).tolist()) == data.x.view(-1).tolist()
    )
    for cluster in clusters:
        ends = cluster.x.view(-1).long()[cluster.edge_index]
        assert torch.equal(data.edge_index[:, cluster.edge_attr], ends)


def test_all_clusters_together_give_the_graph_back():
    data = graph_of_communities()
    (batch,) = ClusterLoader(partition(data, 4), batch_size=4)
    ends = batch.x.view(-1).long()[batch.edge_index]
    assert torch.equal(data.edge_index[:, batch.edge_attr], ends)
    assert sorted(batch.edge_attr.tolist()) == list(range(data.num_edges))


def test_the_same_graph_gives_the_same_clusters():
    torch.manual_seed(0)
    first = partition(graph_of_communities(), 5)
    torch.manual_seed(1)
    second = partition(graph_of_communities(), 5)
    assert torch.equal(first.partition.node_perm, second.partition.node_perm)


def test_edges_of_one_direction_and_self_loops_are_kept_but_do_not_change_the_clusters():
    data = graph_of_communities()
    one_way = data.edge_index[:, data.edge_index[0] < data.edge_index[1]]
    loops = torch.arange(data.num_nodes).repeat(2, 1)
    directed = Data(x=data.x, edge_index=torch.cat([one_way, loops], dim=1))
    clusters = partition(directed, 6)
    assert torch.equal(clusters.partition.node_perm, partition(data, 6).partition.node_perm)
    assert sum(cluster.num_edges for cluster in clusters) == directed.num_edges - 6


def test_one_part_is_the_whole_graph():
    (whole,) = partition(graph_of_communities(), 1)
    assert whole.num_nodes == 60


def test_edges_between_clusters_can_be_kept():
    data = graph_of_communities()
    clusters = partition(data, 6, keep_inter_cluster_edges=True)
    assert sum(cluster.num_edges for cluster in clusters) == data.num_edges


def test_a_saved_partition_is_read_back(tmp_path, monkeypatch):
    data = graph_of_communities()
    saved = partition(data, 6, save_dir=tmp_path / "parts")
    monkeypatch.setitem(sys.modules, "pymetis", None)
    read = partition(data, 6, save_dir=tmp_path / "parts")
    assert torch.equal(read.partition.node_perm, saved.partition.node_perm)


def test_a_saved_partition_of_another_graph_is_refused(tmp_path):
    partition(graph_of_communities(), 6, save_dir=tmp_path)
    with pytest.raises(ValueError, match="of another graph, of 60 nodes and 552 edges; this one has 70"):
        partition(graph_of_communities(7), 6, save_dir=tmp_path)


def test_without_any_metis_the_error_names_the_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "pymetis", None)
    monkeypatch.setattr("torch_geometric.typing.WITH_TORCH_SPARSE", False)
    monkeypatch.setattr("torch_geometric.typing.WITH_METIS", False)
    with pytest.raises(ImportError, match="pip install pymetis"):
        partition(graph_of_communities(), 6)


@pytest.mark.parametrize("num_parts", [0, -1, 61])
def test_a_bad_number_of_parts_is_refused(num_parts):
    with pytest.raises(ValueError, match=rf"between 1 and the number of nodes, 60 \(got {num_parts}\)"):
        partition(graph_of_communities(), num_parts)


def test_an_edge_to_a_missing_node_is_refused():
    data = graph_of_communities()
    data.edge_index[1, 0] = 60
    with pytest.raises(IndexError, match="A node in 'edge_index' needs to lie between 0 and 59"):
        partition(data, 6)


def test_a_heterogeneous_graph_is_refused():
    with pytest.raises(TypeError, match="one homogeneous 'Data' \\(got 'HeteroData'\\)"):
        partition(HeteroData(), 2)


def test_a_graph_without_edge_index_is_refused():
    with pytest.raises(ValueError, match="has no 'edge_index' to partition"):
        partition(Data(x=torch.ones(3, 1)), 2)
