"""The neighbour sampler against brute force: what it samples, in which order, and how likely."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch_geometric.data import Data, HeteroData
from torch_geometric.loader import LinkNeighborLoader, NeighborLoader
from torch_geometric.sampler import NodeSamplerInput
from torch_geometric.sampler.base import NumNeighbors
from torch_geometric.utils import subgraph

from gnn_ipu_helpers.batching.sampling import VectorisedNeighborSampler


def random_graph(num_nodes=40, num_edges=200, seed=0):
    generator = torch.Generator().manual_seed(seed)
    edge_index = torch.randint(num_nodes, (2, num_edges), generator=generator)
    return Data(
        x=torch.arange(num_nodes).float().view(-1, 1),
        edge_index=edge_index,
        edge_attr=torch.arange(num_edges),
    )


def random_hetero_graph(seed=0):
    generator = torch.Generator().manual_seed(seed)
    sizes = {"movie": 30, "actor": 20, "studio": 5}
    data = HeteroData()
    for node_type, size in sizes.items():
        data[node_type].x = torch.arange(size).float().view(-1, 1)
    for source, target, num_edges in [
        ("actor", "movie", 90),
        ("movie", "actor", 90),
        ("movie", "movie", 40),
        ("studio", "movie", 30),
        ("actor", "studio", 0),
    ]:
        ends = [torch.randint(sizes[end], (num_edges,), generator=generator) for end in (source, target)]
        data[source, "to", target].edge_index = torch.stack(ends)
    return data


def sample(sampler, seeds, input_type=None):
    seeds = torch.as_tensor(seeds)
    return sampler.sample_from_nodes(
        NodeSamplerInput(torch.arange(seeds.numel()), seeds, input_type=input_type)
    )


def in_degree(data, node):
    return int((data.edge_index[1] == node).sum())


def hops(values, sizes):
    return torch.split(values, list(sizes))


graphs = st.builds(
    random_graph,
    num_nodes=st.integers(1, 30),
    num_edges=st.integers(0, 120),
    seed=st.integers(0, 2**20),
)
fan_outs = st.lists(st.sampled_from([-1, 0, 1, 2, 3, 7]), min_size=1, max_size=3)


@given(graphs, fan_outs, st.booleans(), st.booleans(), st.data())
def test_a_sample_is_a_piece_of_the_graph_with_the_seeds_first(data, num_neighbors, replace, disjoint, draw):
    seeds = draw.draw(st.lists(st.integers(0, data.num_nodes - 1), min_size=1, max_size=6))
    sampler = VectorisedNeighborSampler(data, num_neighbors, replace=replace, disjoint=disjoint)
    out = sample(sampler, seeds)

    assert out.node[: len(seeds)].tolist() == seeds
    assert torch.equal(data.edge_index[:, out.edge], torch.stack([out.node[out.row], out.node[out.col]]))
    assert sum(out.num_sampled_nodes) == out.node.numel()
    assert sum(out.num_sampled_edges) == out.row.numel()
    later = out.node[len(seeds) :]
    if disjoint:
        assert torch.equal(out.batch[out.row], out.batch[out.col])
        later = later + data.num_nodes * out.batch[len(seeds) :]
    else:
        assert not set(later.tolist()) & set(seeds)
    assert later.unique().numel() == later.numel()


@given(graphs, fan_outs, st.booleans(), st.data())
def test_every_node_of_a_hop_gets_its_fan_out_and_no_more(data, num_neighbors, replace, draw):
    seeds = draw.draw(st.lists(st.integers(0, data.num_nodes - 1), min_size=1, max_size=6, unique=True))
    out = sample(VectorisedNeighborSampler(data, num_neighbors, replace=replace), seeds)

    first = 0
    edges_by_hop = zip(hops(out.col, out.num_sampled_edges), hops(out.edge, out.num_sampled_edges))
    for fan_out, size, (col, edge) in zip(num_neighbors, out.num_sampled_nodes, edges_by_hop):
        for local in range(first, first + size):
            degree = in_degree(data, int(out.node[local]))
            if fan_out < 0:
                expected = degree
            else:
                expected = (fan_out if degree else 0) if replace else min(degree, fan_out)
            mine = edge[col == local]
            assert mine.numel() == expected
            assert (replace and fan_out >= 0) or mine.unique().numel() == expected
        assert bool(((col >= first) & (col < first + size)).all())
        first += size


@given(graphs, st.integers(1, 3))
def test_all_neighbours_are_the_nodes_within_so_many_hops(data, num_hops):
    out = sample(VectorisedNeighborSampler(data, [-1] * num_hops), [0])

    reached = {0}
    for _ in range(num_hops):
        near = torch.isin(data.edge_index[1], torch.tensor(sorted(reached)))
        reached |= set(data.edge_index[0, near].tolist())
    assert set(out.node.tolist()) == reached


def star(num_centres, num_leaves):
    """Every centre has an edge from every leaf; the leaves come after the centres."""
    leaf = torch.arange(num_centres, num_centres + num_leaves).repeat(num_centres)
    centre = torch.arange(num_centres).repeat_interleave(num_leaves)
    return Data(edge_index=torch.stack([leaf, centre]), num_nodes=num_centres + num_leaves)


def chi_square_is_plausible(counts, expected):
    """Whether counts with equal expectation deviate less than about five standard deviations."""
    freedom = counts.size - 1
    statistic = float(((counts - expected) ** 2 / expected).sum())
    return abs(statistic - freedom) < 5 * (2 * freedom) ** 0.5


@pytest.mark.parametrize(("num_leaves", "fan_out"), [(5, 2), (6, 5), (12, 3)])
def test_without_replacement_every_set_of_neighbours_is_equally_likely(num_leaves, fan_out):
    torch.manual_seed(0)
    num_centres = 20_000
    out = sample(
        VectorisedNeighborSampler(star(num_centres, num_leaves), [fan_out]), torch.arange(num_centres)
    )

    leaf = (out.node[out.row] - num_centres).view(num_centres, fan_out).sort().values.numpy()
    _, counts = np.unique(leaf, axis=0, return_counts=True)
    num_sets = np.prod(np.arange(num_leaves, num_leaves - fan_out, -1)) // np.prod(np.arange(1, fan_out + 1))
    assert counts.size == num_sets
    assert chi_square_is_plausible(counts, num_centres / num_sets)


def test_with_replacement_every_sequence_of_neighbours_is_equally_likely():
    torch.manual_seed(0)
    num_centres = 20_000
    sampler = VectorisedNeighborSampler(star(num_centres, 4), [3], replace=True)
    out = sample(sampler, torch.arange(num_centres))

    leaf = (out.node[out.row] - num_centres).view(num_centres, 3).numpy()
    _, counts = np.unique(leaf, axis=0, return_counts=True)
    assert counts.size == 4**3
    assert chi_square_is_plausible(counts, num_centres / 4**3)


def test_edges_of_one_hop_are_sorted_by_target():
    out = sample(VectorisedNeighborSampler(random_graph(), [3, 3]), [5, 1, 9])
    for col in hops(out.col, out.num_sampled_edges):
        assert bool((col.diff() >= 0).all())


@pytest.mark.parametrize("disjoint", [False, True])
def test_new_nodes_come_in_the_order_in_which_they_are_met(disjoint):
    data = random_graph()
    out = sample(VectorisedNeighborSampler(data, [-1, -1], disjoint=disjoint), [5, 1, 9])
    met = list(dict.fromkeys([0, 1, 2, *out.row.tolist()]))
    assert met == list(range(out.node.numel()))


def test_a_seed_named_twice_is_there_twice():
    out = sample(VectorisedNeighborSampler(random_graph(), [-1]), [7, 3, 7])
    assert out.node[:3].tolist() == [7, 3, 7]
    assert int((out.col == 0).sum()) == int((out.col == 2).sum()) == in_degree(random_graph(), 7)


def test_disjoint_subgraphs_are_those_of_the_seeds_taken_alone():
    data = random_graph()
    together = sample(VectorisedNeighborSampler(data, [-1, -1], disjoint=True), [4, 8, 4])
    for number, seed in enumerate([4, 8, 4]):
        alone = sample(VectorisedNeighborSampler(data, [-1, -1]), [seed])
        assert sorted(together.node[together.batch == number].tolist()) == sorted(alone.node.tolist())
        mine = together.batch[together.row] == number
        assert sorted(together.edge[mine].tolist()) == sorted(alone.edge.tolist())


@pytest.mark.parametrize("disjoint", [False, True])
def test_an_induced_sample_has_every_edge_between_its_nodes(disjoint):
    data = random_graph()
    sampler = VectorisedNeighborSampler(data, [2, 2], subgraph_type="induced", disjoint=disjoint)
    out = sample(sampler, [4, 8])

    parts = [out.node[out.batch == number] for number in range(2)] if disjoint else [out.node]
    expected = [subgraph(part, data.edge_index, edge_attr=data.edge_attr)[1] for part in parts]
    assert sorted(out.edge.tolist()) == sorted(torch.cat(expected).tolist())
    assert torch.equal(data.edge_index[:, out.edge], torch.stack([out.node[out.row], out.node[out.col]]))


def test_a_bidirectional_sample_has_every_edge_both_ways():
    out = sample(VectorisedNeighborSampler(random_graph(), [2, 2], subgraph_type="bidirectional"), [4, 8])
    edges = set(zip(out.row.tolist(), out.col.tolist()))
    assert edges == {(col, row) for row, col in edges}


def test_torch_seed_decides_the_sample():
    sampler = VectorisedNeighborSampler(random_graph(), [2, 2])
    edges = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        edges.append(sample(sampler, [4, 8]).edge.tolist())
    assert edges[0] == edges[1]
    assert edges[0] != edges[2]


def test_a_failed_sample_leaves_nothing_behind():
    sampler = VectorisedNeighborSampler(random_graph(), [-1])
    expected = sample(sampler, [4]).node
    with pytest.raises(IndexError, match="A seed needs to lie between 0 and 39"):
        sample(sampler, [3, 40])
    assert torch.equal(sample(sampler, [4]).node, expected)


@pytest.mark.parametrize("disjoint", [False, True])
@pytest.mark.parametrize("subgraph_type", ["directional", "induced"])
def test_a_heterogeneous_sample_is_a_piece_of_the_graph_for_every_type(subgraph_type, disjoint):
    data = random_hetero_graph()
    sampler = VectorisedNeighborSampler(data, [2, 2], subgraph_type=subgraph_type, disjoint=disjoint)
    out = sample(sampler, [3, 5], input_type="movie")

    assert set(out.node) == set(data.node_types)
    assert set(out.row) == set(data.edge_types)
    assert out.node["movie"][:2].tolist() == [3, 5]
    for edge_type in data.edge_types:
        source, _, target = edge_type
        ends = torch.stack([out.node[source][out.row[edge_type]], out.node[target][out.col[edge_type]]])
        assert torch.equal(data[edge_type].edge_index[:, out.edge[edge_type]], ends)
        if disjoint:
            subgraphs = (out.batch[source][out.row[edge_type]], out.batch[target][out.col[edge_type]])
            assert torch.equal(*subgraphs)


def test_fan_outs_can_differ_by_edge_type():
    data = random_hetero_graph()
    fan_outs = NumNeighbors({("actor", "to", "movie"): [3, 0]}, default=[0, 0])
    out = sample(VectorisedNeighborSampler(data, fan_outs), [3, 5], input_type="movie")

    degree = torch.bincount(data["actor", "to", "movie"].edge_index[1], minlength=30)[[3, 5]]
    assert out.num_sampled_edges["actor", "to", "movie"] == [int(degree.clamp(max=3).sum()), 0]
    assert all(edges.numel() == 0 for key, edges in out.edge.items() if key != ("actor", "to", "movie"))
    assert out.num_sampled_nodes["movie"] == [2, 0, 0]


def test_the_second_hop_of_a_heterogeneous_graph_starts_from_the_first():
    data = random_hetero_graph()
    out = sample(VectorisedNeighborSampler(data, [-1, -1]), [3], input_type="movie")
    movie_to_actor = data["movie", "to", "actor"].edge_index
    first_actors = out.node["actor"][: out.num_sampled_nodes["actor"][1]]
    expected = torch.isin(movie_to_actor[1], first_actors).nonzero().view(-1)
    assert sorted(out.edge["movie", "to", "actor"].tolist()) == expected.tolist()


def test_pyg_neighbor_loader_takes_the_sampler():
    data = random_graph()
    sampler = VectorisedNeighborSampler(data, [2, 2])
    loader = NeighborLoader(data, [2, 2], neighbor_sampler=sampler, input_nodes=[9, 2, 5], batch_size=2)
    first, last = loader
    assert first.n_id[:2].tolist() == [9, 2]
    assert (first.batch_size, last.batch_size) == (2, 1)
    assert (first.input_id.tolist(), last.input_id.tolist()) == ([0, 1], [2])
    assert torch.equal(first.edge_attr, first.e_id)
    assert torch.equal(first.x, data.x[first.n_id])


def test_pyg_link_loader_takes_the_sampler():
    data = random_graph()
    sampler = VectorisedNeighborSampler(data, [2])
    loader = LinkNeighborLoader(
        data,
        [2],
        neighbor_sampler=sampler,
        edge_label_index=data.edge_index[:, :6],
        batch_size=3,
        neg_sampling="binary",
    )
    batch = next(iter(loader))
    assert torch.equal(batch.n_id[batch.edge_label_index[:, :3]], data.edge_index[:, :3])


def test_disjoint_subgraphs_of_links_have_both_their_ends():
    data = random_hetero_graph()
    edge_type = ("actor", "to", "movie")
    sampler = VectorisedNeighborSampler(data, [2], disjoint=True)
    loader = LinkNeighborLoader(
        data,
        [2],
        neighbor_sampler=sampler,
        edge_label_index=(edge_type, data[edge_type].edge_index[:, :3]),
        batch_size=3,
    )
    (batch,) = loader
    assert batch["actor"].batch[:3].tolist() == batch["movie"].batch[:3].tolist() == [0, 1, 2]
    for source, relation, target in data.edge_types:
        row, col = batch[source, relation, target].edge_index
        assert torch.equal(batch[source].batch[row], batch[target].batch[col])


@pytest.mark.parametrize("bad", [[-2], [10, -5], [1.5], [True], ["3"]])
def test_a_bad_fan_out_is_refused(bad):
    with pytest.raises(ValueError, match=r"whole numbers from 0, or -1 for all neighbours \(got"):
        VectorisedNeighborSampler(random_graph(), bad)


def test_no_hop_at_all_is_refused():
    with pytest.raises(ValueError, match="at least one hop"):
        VectorisedNeighborSampler(random_graph(), [])


def test_fan_outs_by_edge_type_need_a_heterogeneous_graph():
    with pytest.raises(TypeError, match="a 'Data' takes one list such as"):
        VectorisedNeighborSampler(random_graph(), {("a", "to", "b"): [1]})


def test_fan_outs_need_every_edge_type_and_no_other():
    data = random_hetero_graph()
    fan_outs = {key: [2] for key in data.edge_types}
    with pytest.raises(ValueError, match=r"'num_neighbors' names \[\('movie', 'by', 'studio'\)\], and needs"):
        VectorisedNeighborSampler(data, {**fan_outs, ("movie", "by", "studio"): [2]})
    del fan_outs["actor", "to", "studio"]
    with pytest.raises(ValueError, match=r"'num_neighbors' lacks \[\('actor', 'to', 'studio'\)\], and needs"):
        VectorisedNeighborSampler(data, fan_outs)


@pytest.mark.parametrize(("end", "name"), [(0, "source"), (1, "target")])
def test_an_edge_to_a_missing_node_is_refused(end, name):
    data = random_graph()
    data.edge_index[end, 0] = 40
    with pytest.raises(IndexError, match=f"a {name} in 'edge_index' needs to lie between 0 and 39"):
        VectorisedNeighborSampler(data, [2])


def test_a_heterogeneous_edge_to_a_missing_node_names_its_type():
    data = random_hetero_graph()
    data["studio", "to", "movie"].edge_index[0, 0] = 5
    with pytest.raises(IndexError, match=r"Edge type \('studio', 'to', 'movie'\): a source"):
        VectorisedNeighborSampler(data, [2])


def test_a_graph_without_edges_to_sample_is_refused():
    with pytest.raises(ValueError, match="The graph has no 'edge_index'"):
        VectorisedNeighborSampler(Data(x=torch.ones(3, 1)), [2])


def test_something_else_than_a_graph_is_refused():
    with pytest.raises(TypeError, match="one 'Data' or 'HeteroData' \\(got 'list'\\)"):
        VectorisedNeighborSampler([random_graph()], [2])
