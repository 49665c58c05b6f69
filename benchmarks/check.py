"""Seconds that `check` takes on models like those of the tutorials, and what it finds; the aim is under 3 s.

Run with ``python benchmarks/check.py``. Each model is checked once as a user brings it and once ported. The
first check of a process also loads the tracer, which is shown apart.
"""

from __future__ import annotations

import sys
import time
import warnings
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
warnings.simplefilter("ignore")  # PyG's own deprecations at import

from torch_geometric.nn import GCNConv, GINEConv, HGTConv, SAGEConv, global_mean_pool, to_hetero  # noqa: E402

from gnn_ipu_helpers import poptorch  # noqa: E402
from gnn_ipu_helpers.porting import check  # noqa: E402

AIM = 3.0


class NodeClassifier(nn.Module):
    """Two layers on a citation graph, as in tutorials 1, 2 and 5."""

    def __init__(self, is_ported: bool):
        super().__init__()
        loops = {"add_self_loops": False} if is_ported else {}
        self.is_ported = is_ported
        self.conv1 = GCNConv(1433, 16, **loops)
        self.conv2 = GCNConv(16, 7, **loops)

    def forward(self, x, edge_index, y, mask):
        x = F.dropout(self.conv1(x, edge_index).relu(), 0.5, self.training)
        out = self.conv2(x, edge_index)
        if self.is_ported:
            return F.cross_entropy(out, torch.where(mask, y, -100))
        return F.cross_entropy(out[mask], y[mask])


class MoleculeRegressor(nn.Module):
    """Four message-passing layers with edge features and a readout, as in tutorials 3 and 4."""

    def __init__(self, is_ported: bool):
        super().__init__()
        self.size = 10 if is_ported else None
        self.encode = nn.Linear(11, 64)
        self.convs = nn.ModuleList(GINEConv(nn.Linear(64, 64), edge_dim=4) for _ in range(4))
        self.head = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1))

    def forward(self, x, edge_index, edge_attr, batch, y):
        x = self.encode(x)
        for conv in self.convs:
            x = x + conv(x, edge_index, edge_attr).relu()
        return F.mse_loss(self.head(global_mean_pool(x, batch, self.size)).squeeze(-1), y)


class MaskedRegressor(MoleculeRegressor):
    """The same on a padded batch, with a loss over the real molecules: `check` also tries the padding."""

    def __init__(self):
        super().__init__(is_ported=True)

    def forward(self, x, edge_index, edge_attr, batch, y, mask):
        x = self.encode(x)
        for conv in self.convs:
            x = x + conv(x, edge_index, edge_attr).relu()
        error = F.mse_loss(self.head(global_mean_pool(x, batch, self.size)).squeeze(-1), y, reduction="none")
        return poptorch.identity_loss((error * mask).sum() / mask.sum(), reduction="none")


class HeteroClassifier(nn.Module):
    """A heterogeneous model with the loss of one node type, as in tutorial 6."""

    def __init__(self, inner: nn.Module):
        super().__init__()
        self.inner = inner

    def forward(self, x_dict, edge_index_dict, y):
        return F.cross_entropy(self.inner(x_dict, edge_index_dict)["movie"][:, :3], y)


class TwoSAGE(nn.Module):
    """What `to_hetero` converts."""

    def __init__(self):
        super().__init__()
        self.conv1 = SAGEConv((3066, 3066), 64)
        self.conv2 = SAGEConv((64, 64), 64)

    def forward(self, x, edge_index):
        return self.conv2(self.conv1(x, edge_index).relu(), edge_index)


def citation_graph() -> tuple:
    """Tensors of Cora's sizes."""
    edge_index = torch.randint(0, 2708, (2, 13264))
    return torch.rand(2708, 1433), edge_index, torch.randint(0, 7, (2708,)), torch.arange(2708) < 140


def molecules() -> tuple:
    """A batch of ten QM9-sized molecules."""
    edge_index = torch.randint(0, 262, (2, 505))
    batch = torch.arange(262) * 10 // 262
    return torch.rand(262, 11), edge_index, torch.rand(505, 4), batch, torch.rand(10)


def padded_molecules() -> tuple:
    """The same as a fixed-size loader gives it: eight molecules and two padding graphs."""
    x, edge_index, edge_attr, batch, y = molecules()
    first = int((batch < 8).sum())
    edge_index = torch.cat([edge_index[:, :400] % first, torch.full((2, 105), first)], dim=1)
    return x, edge_index, edge_attr, batch, y, torch.arange(10) < 8


def films() -> tuple:
    """Tensors of the sizes of IMDB's first 1000 films."""
    sizes = {"movie": 1000, "director": 482, "actor": 1469}
    pairs = [("movie", "director"), ("director", "movie"), ("movie", "actor"), ("actor", "movie")]
    edges = {
        (source, "to", target): torch.stack(
            [torch.randint(0, sizes[source], (2000,)), torch.randint(0, sizes[target], (2000,))]
        )
        for source, target in pairs
    }
    return {kind: torch.rand(size, 3066) for kind, size in sizes.items()}, edges, torch.randint(0, 3, (1000,))


def main() -> None:
    """Print a row per model."""
    inputs = films()
    metadata = (list(inputs[0]), list(inputs[1]))
    start = time.perf_counter()
    check(nn.Linear(1, 1).eval(), torch.ones(1, 1))
    print(f"{'first check of the process':38s} {time.perf_counter() - start:6.2f} s")
    models = [
        ("GCN on Cora, unported", NodeClassifier(False), citation_graph()),
        ("GCN on Cora, ported", NodeClassifier(True), citation_graph()),
        ("GINE on QM9, unported", MoleculeRegressor(False), molecules()),
        ("GINE on QM9, ported", MoleculeRegressor(True), molecules()),
        ("GINE on padded QM9, ported", MaskedRegressor(), padded_molecules()),
        ("to_hetero(SAGE) on IMDB", HeteroClassifier(to_hetero(TwoSAGE(), metadata)), inputs),
        ("HGT on IMDB", HeteroClassifier(HGTConv(3066, 64, metadata, heads=4)), inputs),
    ]
    for name, model, arguments in models:
        start = time.perf_counter()
        report = check(model, *arguments)
        seconds = time.perf_counter() - start
        aim = "within" if seconds < AIM else "over"
        found = f"{len(report.findings)} findings  {len(report.warnings)} warnings"
        print(f"{name:38s} {seconds:6.2f} s  {found}  {aim} the {AIM:g} s aim")


if __name__ == "__main__":
    main()
