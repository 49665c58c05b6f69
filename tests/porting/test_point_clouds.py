"""Neighbour search against brute force over Python loops, and what happens where neighbours are missing."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gnn_ipu_helpers.porting import point_clouds


@st.composite
def clouds(draw):
    """Points [N, 2] of up to three graphs, with their graph numbers."""
    sizes = draw(st.lists(st.integers(1, 6), min_size=1, max_size=3))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 10**6)))
    points = torch.randn(sum(sizes), 2, generator=generator)
    return points, torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes))


def neighbours(x, batch, node, keep=lambda distance: True, loop=False):
    """Nodes of the same graph, nearest first."""
    found = [
        (math.dist(x[node].tolist(), x[other].tolist()), other)
        for other in range(len(x))
        if batch[other] == batch[node] and (loop or other != node)
    ]
    return [other for distance, other in sorted(found) if keep(distance)]


def edges_of(edge_index, node, last):
    """Sources of the edges into `node`, without those between the last points, for missing ones."""
    pairs = edge_index.t().tolist()
    return [source for source, target in pairs if target == node and (source, target) != (last, last)]


@settings(max_examples=50)
@given(clouds(), st.integers(1, 4), st.booleans())
def test_knn_graph_joins_each_point_to_its_nearest(cloud, k, loop):
    x, batch = cloud
    edge_index = point_clouds.knn_graph(x, k, batch, loop=loop)

    assert edge_index.shape == (2, k * len(x))
    for node in range(len(x) - 1):
        assert edges_of(edge_index, node, len(x) - 1) == neighbours(x, batch, node, loop=loop)[:k]


@settings(max_examples=50)
@given(clouds(), st.integers(1, 4))
def test_radius_graph_joins_points_that_are_near(cloud, most):
    x, batch = cloud
    edge_index = point_clouds.radius_graph(x, 1.0, batch, max_num_neighbors=most)

    assert edge_index.shape == (2, min(most, len(x)) * len(x))
    for node in range(len(x) - 1):
        expected = neighbours(x, batch, node, keep=lambda distance: distance <= 1.0)[:most]
        assert edges_of(edge_index, node, len(x) - 1) == expected


def test_missing_neighbours_join_the_last_points():
    x = torch.tensor([[0.0], [1.0], [9.0]])
    edge_index = point_clouds.knn_graph(x, 2, torch.tensor([0, 0, 1]))

    assert edge_index.tolist() == [[1, 2, 0, 2, 2, 2], [0, 2, 1, 2, 2, 2]]


def test_flow_turns_the_edges_round():
    x = torch.tensor([[0.0], [1.0], [3.0]])
    forwards = point_clouds.knn_graph(x, 1)
    backwards = point_clouds.knn_graph(x, 1, flow="target_to_source")

    assert forwards.tolist() == [[1, 0, 1], [0, 1, 2]]
    assert backwards.tolist() == forwards.flip(0).tolist()


def test_knn_and_radius_return_queries_before_points():
    x = torch.tensor([[0.0], [1.0], [5.0]])
    y = torch.tensor([[0.9], [4.0]])

    assert point_clouds.knn(x, y, 2).tolist() == [[0, 0, 1, 1], [1, 0, 2, 1]]
    assert point_clouds.radius(x, y, 0.5, max_num_neighbors=1).tolist() == [[0, 1], [1, 2]]


def test_cosine_distance_ignores_length():
    x = torch.tensor([[10.0, 0.0], [0.0, 1.0]])
    y = torch.tensor([[0.1, 0.01]])

    assert point_clouds.knn(x, y, 1, cosine=True)[1].tolist() == [0]
    assert point_clouds.knn(x, y, 1)[1].tolist() == [1]


def test_nearest_assigns_every_point_to_the_closest_centre_of_its_graph():
    x = torch.tensor([[0.0], [4.0], [0.0]])
    centres = torch.tensor([[1.0], [5.0], [100.0]])

    assert point_clouds.nearest(x, centres).tolist() == [0, 1, 0]
    assert point_clouds.nearest(x, centres, torch.tensor([0, 0, 1]), torch.tensor([0, 0, 1])).tolist() == [
        0,
        1,
        2,
    ]


def test_fps_goes_to_the_farthest_point_each_time():
    x = torch.tensor([[0.0], [1.0], [10.0], [6.0], [2.0]])

    assert point_clouds.fps(x, ratio=0.6, random_start=False).tolist() == [0, 2, 3]
    assert len(set(point_clouds.fps(x, ratio=1.0).tolist())) == 5


def test_fps_refuses_a_batch_and_says_why():
    with pytest.raises(ValueError, match="batch=None"):
        point_clouds.fps(torch.zeros(4, 3), torch.zeros(4, dtype=torch.long))


def test_voxel_grid_numbers_the_cells_of_each_graph_apart():
    pos = torch.tensor([[0.0, 0.0], [0.9, 0.2], [1.1, 0.0], [0.0, 1.5], [2.0, 1.9]])

    assert point_clouds.voxel_grid(pos, 1.0).tolist() == [0, 0, 1, 3, 5]
    assert point_clouds.voxel_grid(pos, 1.0, batch=torch.tensor([0, 0, 0, 1, 1])).tolist() == [0, 0, 1, 9, 11]
    assert point_clouds.voxel_grid(pos, [1.0, 5.0], start=-1.0, end=3.0).tolist() == [1, 1, 2, 1, 3]
