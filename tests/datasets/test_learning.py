"""Stand-ins can be learned by the tutorials' models, and not from the features alone."""

import pytest
import torch
import torch.nn.functional as F
import torch_geometric.transforms as T
from torch import nn
from torch_geometric.loader import DataLoader
from torch_geometric.nn import GCNConv, HeteroConv, SAGEConv, global_mean_pool

MARGIN = 0.05


def train(model, loss, steps, **settings):
    optimizer = torch.optim.Adam(model.parameters(), **settings)
    model.train()
    for _ in range(steps):
        optimizer.zero_grad()
        loss().backward()
        optimizer.step()
    model.eval()


def accuracy(logits, labels, mask):
    return float((logits.argmax(dim=-1) == labels)[mask].float().mean())


def linear_accuracy(x, y, train_mask, test_mask):
    torch.manual_seed(0)
    model = nn.Linear(x.size(1), int(y.max()) + 1)
    train(
        model, lambda: F.cross_entropy(model(x[train_mask]), y[train_mask]), 100, lr=0.05, weight_decay=5e-4
    )
    return accuracy(model(x), y, test_mask)


class GCN(nn.Module):
    def __init__(self, num_features, num_classes):
        super().__init__()
        self.first = GCNConv(num_features, 16, cached=True)
        self.second = GCNConv(16, num_classes, cached=True)

    def forward(self, data):
        x = F.dropout(self.first(data.x, data.edge_index).relu(), 0.5, self.training)
        return self.second(x, data.edge_index)


@pytest.mark.parametrize(("name", "least", "steps"), [("cora", 0.75, 100), ("pubmed", 0.70, 50)])
def test_a_two_layer_gcn_learns_citations_better_than_a_linear_model(stand_in, name, least, steps):
    data = T.NormalizeFeatures()(stand_in(name)[0].clone())
    torch.manual_seed(0)
    model = GCN(data.num_features, int(data.y.max()) + 1)
    target = data.y[data.train_mask]
    train(
        model,
        lambda: F.cross_entropy(model(data)[data.train_mask], target),
        steps,
        lr=0.02,
        weight_decay=5e-4,
    )
    with torch.no_grad():
        reached = accuracy(model(data), data.y, data.test_mask)
    assert reached >= least
    assert linear_accuracy(data.x, data.y, data.train_mask, data.test_mask) <= reached - MARGIN


class PooledGCN(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = GCNConv(7, 64)
        self.out = nn.Linear(64, 2)

    def forward(self, batch):
        x = global_mean_pool(self.conv(batch.x, batch.edge_index).relu(), batch.batch)
        return self.out(F.dropout(x, 0.5, self.training))


def test_a_gcn_with_mean_pooling_learns_mutag(stand_in):
    torch.manual_seed(12345)
    dataset = stand_in("mutag").shuffle()
    training = next(iter(DataLoader(dataset[:150], batch_size=150)))
    test = next(iter(DataLoader(dataset[150:], batch_size=38)))
    model = PooledGCN()
    train(model, lambda: F.cross_entropy(model(training), training.y), 150, lr=0.01)
    assert accuracy(model(test), test.y, slice(None)) >= 0.75


class HeteroSAGE(nn.Module):
    def __init__(self, edge_types):
        super().__init__()
        self.inputs = nn.ModuleDict({kind: nn.Linear(3066, 16) for kind in ("movie", "director", "actor")})
        self.convs = nn.ModuleList(
            [HeteroConv({kind: SAGEConv(16, 16) for kind in edge_types}) for _ in range(2)]
        )
        self.out = nn.Linear(16, 3)

    def forward(self, data):
        x = {kind: layer(data[kind].x).relu() for kind, layer in self.inputs.items()}
        for conv in self.convs:
            x = {
                kind: F.dropout(value.relu(), 0.5, self.training)
                for kind, value in conv(x, data.edge_index_dict).items()
            }
        return self.out(x["movie"])


def test_a_heterogeneous_sage_learns_imdb_better_than_a_linear_model(stand_in):
    data = stand_in("imdb")[0]
    movies = data["movie"]
    torch.manual_seed(0)
    model = HeteroSAGE(data.edge_types)
    mask, target = movies.train_mask, movies.y[movies.train_mask]
    train(model, lambda: F.cross_entropy(model(data)[mask], target), 30, lr=0.01, weight_decay=1e-3)
    with torch.no_grad():
        reached = accuracy(model(data), movies.y, movies.test_mask)
    assert reached >= 0.50
    assert linear_accuracy(movies.x, movies.y, mask, movies.test_mask) <= reached - MARGIN


def test_a_small_network_learns_garments(stand_in):
    training, test = stand_in("fashion_mnist")
    x = training.data[:3000].unsqueeze(1).float() / 255
    y = training.targets[:3000]
    torch.manual_seed(0)
    layers = [nn.MaxPool2d(2), nn.Flatten(), nn.Linear(196, 64), nn.ReLU(), nn.Linear(64, 10)]
    model = nn.Sequential(*layers)
    train(model, lambda: F.cross_entropy(model(x), y), 60, lr=0.01)
    reached = accuracy(model(test.data.unsqueeze(1).float() / 255), test.targets, slice(None))
    assert 0.75 <= reached <= 0.97


def test_a_gnn_learns_the_gap_of_molecules_better_than_their_mean(stand_in):
    torch.manual_seed(0)
    dataset = stand_in("qm9").shuffle()
    training = next(iter(DataLoader(dataset[:1000], batch_size=1000)))
    test = next(iter(DataLoader(dataset[1000:1500], batch_size=500)))
    first, second, out = GCNConv(11, 32), GCNConv(32, 32), nn.Linear(32, 1)
    model = nn.ModuleList([first, second, out])

    def predict(batch):
        x = second(first(batch.x, batch.edge_index).relu(), batch.edge_index).relu()
        return out(global_mean_pool(x, batch.batch)).squeeze(-1)

    mean = training.y[:, 4].mean()
    train(model, lambda: F.mse_loss(predict(training), training.y[:, 4] - mean), 60, lr=0.02)
    error = F.mse_loss(predict(test), test.y[:, 4] - mean)
    assert error < 0.8 * test.y[:, 4].var()
