"""Padding that harms no geometry: no distance is zero, and models train as on the graphs alone."""

import pytest
import torch
from torch_geometric.data import Batch, Data, HeteroData
from torch_geometric.nn import SchNet
from torch_geometric.nn.models.dimenet import BesselBasisLayer

from gnn_ipu_helpers import FixedSizeDataLoader, FixedSizeOptions, FixedSizeStrategy, datasets
from gnn_ipu_helpers.batching import collate_fixed_size

from .graphs import assert_same_batch

CUTOFF = 5.0


@pytest.fixture(scope="module")
def molecules():
    return [molecule for molecule in datasets.qm9()[:24]]


def loader_of(molecules, strategy, pad_positions=10.0):
    if strategy == FixedSizeStrategy.PadToMax:
        options = FixedSizeOptions.from_dataset(molecules, 6, pad_positions=pad_positions)
    else:
        options = FixedSizeOptions.for_packing(molecules, num_graphs=6, pad_positions=pad_positions)
    return FixedSizeDataLoader(
        molecules, fixed_size_options=options, fixed_size_strategy=strategy, exclude_keys=["name", "smiles"]
    )


@pytest.mark.parametrize("strategy", FixedSizeStrategy)
def test_padding_edges_join_two_nodes_that_lie_apart(molecules, strategy):
    for batch in loader_of(molecules, strategy):
        row, col = batch.edge_index[:, ~batch.edges_mask]
        assert not batch.nodes_mask[row].any()
        assert torch.equal(batch.batch[row], batch.batch[col])
        assert torch.equal((batch.pos[row] - batch.pos[col]).norm(dim=1), torch.full((len(row),), 10.0))
        padding = batch.pos[~batch.nodes_mask]
        assert len(padding) >= 2
        assert torch.pdist(padding).min() >= 10.0


def test_real_graphs_are_those_of_the_default_batch(molecules):
    options = [FixedSizeOptions(90, 200, 5, pad_positions=distance) for distance in (None, 10.0)]
    plain, apart = (
        collate_fixed_size(molecules[:4], each, exclude_keys=["name", "smiles"]) for each in options
    )
    for name in ("x", "z", "edge_attr", "y", "batch", "ptr", "nodes_mask", "edges_mask"):
        assert torch.equal(plain[name], apart[name])
    assert torch.equal(plain.pos[plain.nodes_mask], apart.pos[apart.nodes_mask])
    assert torch.equal(plain.edge_index[:, plain.edges_mask], apart.edge_index[:, apart.edges_mask])
    for one, other in zip(molecules[:4], apart.to_data_list()):
        assert torch.equal(one.edge_index, other.edge_index)


def test_by_default_padding_is_that_of_poptorch_geometric(molecules):
    kept = {"exclude_keys": ["name", "smiles"]}
    batch = collate_fixed_size(molecules[:4], FixedSizeOptions(90, 200, 5), **kept)
    assert_same_batch(
        batch, collate_fixed_size(molecules[:4], FixedSizeOptions(90, 200, 5, pad_positions=None), **kept)
    )
    assert not batch.pos[~batch.nodes_mask].any()


class ByDistance(torch.nn.Module):
    """DimeNet's distance embedding over the edges given: a square root, and 1 / distance."""

    def __init__(self):
        super().__init__()
        self.atoms = torch.nn.Embedding(20, 8)
        self.basis = BesselBasisLayer(6, CUTOFF)
        self.linear = torch.nn.Linear(6, 8)

    def forward(self, z, pos, batch, num_graphs, edge_index):
        row, col = edge_index
        distance = (pos[row] - pos[col]).pow(2).sum(-1).sqrt()
        message = self.atoms(z)[row] * self.linear(self.basis(distance))
        nodes = torch.zeros(len(z), 8).index_add(0, col, message)
        return torch.zeros(num_graphs, 8).index_add(0, batch, nodes).sum(-1)


class ByRadius(torch.nn.Module):
    """SchNet, whose edges are all pairs of a graph within a radius."""

    def __init__(self):
        super().__init__()
        self.net = SchNet(16, 16, 2, 10, CUTOFF, interaction_graph=self.pairs)

    def pairs(self, pos, batch):
        apart = torch.cdist(pos, pos, compute_mode="donot_use_mm_for_euclid_dist")
        near = (apart < CUTOFF) & (batch[:, None] == batch) & ~torch.eye(len(pos), dtype=torch.bool)
        row, col = near.nonzero().t()
        return torch.stack([row, col]), (pos[row] - pos[col]).pow(2).sum(-1).sqrt()

    def forward(self, z, pos, batch, num_graphs, edge_index):
        out = self.net(z, pos, batch).view(-1)
        # SchNet counts graphs by the largest number in 'batch'; the last padding graphs may be empty.
        return torch.cat([out, torch.zeros(num_graphs - len(out))])


def loss_gradients(model, batch, num_graphs, mask):
    model.zero_grad()
    pos = batch.pos.clone().requires_grad_()
    out = model(batch.z, pos, batch.batch, num_graphs, batch.edge_index)
    loss = torch.where(mask, (out - batch.y[:, 4]) ** 2, 0.0).sum()
    loss.backward()
    used = [parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None]
    return [loss.detach(), *used], pos.grad


@pytest.mark.parametrize("strategy", FixedSizeStrategy)
@pytest.mark.parametrize("model", [ByDistance, ByRadius])
def test_losses_and_gradients_are_finite_and_those_of_the_graphs_alone(molecules, model, strategy):
    torch.manual_seed(0)
    model, by_idx = model(), {int(molecule.idx): molecule for molecule in molecules}
    for batch in loader_of(molecules, strategy):
        padded, forces = loss_gradients(model, batch, batch.num_graphs, batch.graphs_mask)
        alone = Batch.from_data_list([by_idx[int(idx)] for idx in batch.idx[batch.graphs_mask]])
        expected, expected_forces = loss_gradients(model, alone, alone.num_graphs, torch.tensor(True))
        assert all(torch.isfinite(value).all() for value in [*padded, forces])
        torch.testing.assert_close(padded, expected, rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(forces[batch.nodes_mask], expected_forces, rtol=1e-4, atol=1e-4)
        assert not forces[~batch.nodes_mask].any()


def test_without_it_the_gradients_are_not_finite(molecules):
    torch.manual_seed(0)
    batch = next(iter(loader_of(molecules, FixedSizeStrategy.PadToMax, pad_positions=None)))
    values, forces = loss_gradients(ByDistance(), batch, batch.num_graphs, batch.graphs_mask)
    assert not all(torch.isfinite(value).all() for value in [*values, forces])


def test_nodes_of_different_types_lie_apart_too():
    data = HeteroData()
    for node_type in "ab":
        data[node_type].pos = torch.rand(3, 3)
    data["a", "to", "b"].edge_index = torch.zeros(2, 2).long()
    data["a", "to", "a"].edge_index = torch.zeros(2, 2).long()
    options = FixedSizeOptions(
        {"a": 8, "b": 5}, {("a", "to", "b"): 4, ("a", "to", "a"): 4}, 3, pad_positions=2.0
    )
    batch = collate_fixed_size([data], options)
    for source, relation, target in data.edge_types:
        store = batch[source, relation, target]
        row, col = store.edge_index[:, ~store.edges_mask]
        assert ((batch[source].pos[row] - batch[target].pos[col]).norm(dim=1) >= 2.0).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_nodes": 9, "pad_positions": 0}, r"pad_positions should be a distance larger than 0.*got 0\)"),
        (
            {"num_nodes": 2, "pad_positions": 1.0},
            r"at least 3 \(one real and, with pad_positions, two padding",
        ),
    ],
)
def test_distances_that_make_no_sense_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        FixedSizeOptions(**options)


def test_positions_that_are_not_coordinates_are_refused():
    data = Data(pos=torch.ones(3, 3).long(), edge_index=torch.zeros(2, 2).long())
    with pytest.raises(ValueError, match=r"'pos' to hold floating-point coordinates.*got torch.int64"):
        collate_fixed_size([data], FixedSizeOptions(9, 9, pad_positions=1.0))
