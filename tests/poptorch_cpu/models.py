"""Small models for the tests."""

import torch
import torch.nn.functional as F
from torch_geometric.nn import GCNConv


class GCN(torch.nn.Module):
    """Two convolutions and the loss."""

    def __init__(self, features=8, hidden=6, classes=4, dropout=0.0):
        super().__init__()
        self.first = GCNConv(features, hidden, add_self_loops=False)
        self.second = GCNConv(hidden, classes, add_self_loops=False)
        self.dropout = dropout

    def forward(self, x, edge_index, y=None):
        hidden = F.dropout(self.first(x, edge_index).relu(), self.dropout, self.training)
        out = self.second(hidden, edge_index)
        return out if y is None else (out, F.cross_entropy(out, y))


class Classifier(torch.nn.Module):
    """A linear layer over ``[batch, 5]`` and the loss over ``[batch]`` labels of 3 classes."""

    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(5, 3)

    def forward(self, x, y):
        out = self.linear(x)
        return out, F.cross_entropy(out, y)


def classified(batch):
    """Inputs for a ``Classifier``."""
    return torch.randn(batch, 5), torch.randint(3, (batch,))
