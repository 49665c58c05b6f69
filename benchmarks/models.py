"""The models whose training step is measured, each with the tensors of one mini-batch.

The batch of molecules has the size of a packed QM9 batch: 128 graphs of 18 atoms and 38 directed bonds, so
2,304 nodes and 4,864 edges. Cora and IMDB stand for the node classifiers, with the sizes of the real data;
all values are drawn here, so that no dataset is needed.
"""

from __future__ import annotations

from typing import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric import nn as gnn

from gnn_ipu_helpers import poptorch

GRAPHS, ATOMS, BONDS = 128, 18, 19
NODES, EDGES, WIDTH = GRAPHS * ATOMS, 2 * GRAPHS * BONDS, 64
RELATIONS = 4


def molecules(atoms: int = ATOMS, graphs: int = GRAPHS) -> dict[str, Tensor]:
    """A batch of random molecules: trees with `BONDS - ATOMS + 1` more bonds, both directions of each."""
    parts = []
    for graph in range(graphs):
        child = torch.arange(1, atoms)
        parent = (torch.rand(atoms - 1) * child).long()
        closing = torch.randint(atoms, (2, BONDS - ATOMS + 1))
        parts.append(torch.cat([torch.stack([parent, child]), closing], dim=1) + graph * atoms)
    bonds = torch.cat(parts, dim=1)
    edges = torch.cat([bonds, bonds.flip(0)], dim=1)
    nodes = graphs * atoms
    return {
        "x": torch.randn(nodes, 11),
        "edge_index": edges,
        "edge_attr": torch.randn(edges.size(1), 4),
        "edge_type": torch.randint(RELATIONS, (edges.size(1),)),
        "pos": torch.randn(nodes, 3),
        "z": torch.randint(1, 10, (nodes,)),
        "batch": torch.arange(nodes) // atoms,
        "y": torch.randn(graphs),
        "graphs_mask": torch.arange(graphs) < graphs - 1,
    }


class Molecular(nn.Module):
    """An embedding, three layers with relu, the mean over each graph and the loss.

    Args:
        make_layer: A layer from `WIDTH` features to as many, called with features, edges and `extra`.
        extra: The name of what the layer takes beside them, if anything.
    """

    def __init__(self, make_layer: Callable[[], nn.Module], extra: str | None = None) -> None:
        super().__init__()
        self.embed = nn.Linear(11, WIDTH)
        self.layers = nn.ModuleList(make_layer() for _ in range(3))
        self.head = nn.Linear(WIDTH, 1)
        self.extra = extra

    def forward(self, x, edge_index, batch, y, extra=None):
        x = self.embed(x)
        for layer in self.layers:
            x = (layer(x, edge_index) if extra is None else layer(x, edge_index, extra)).relu()
        return F.mse_loss(self.head(gnn.global_mean_pool(x, batch, size=GRAPHS)).squeeze(1), y)

    def arguments(self) -> tuple:
        """The tensors of one mini-batch."""
        made = molecules()
        extra = () if self.extra is None else (made[self.extra],)
        return (made["x"], made["edge_index"], made["batch"], made["y"], *extra)


class GapNet(nn.Module):
    """Three GINE layers with layer norm over bonds and their lengths, as in notebook 3."""

    def __init__(self, graphs: int = GRAPHS) -> None:
        super().__init__()
        self.graphs = graphs
        self.embed = nn.Linear(11, WIDTH)
        self.convs, self.norms = nn.ModuleList(), nn.ModuleList()
        for _ in range(3):
            self.convs.append(gnn.GINEConv(gnn.MLP([WIDTH, WIDTH, WIDTH], norm=None), edge_dim=5))
            self.norms.append(nn.LayerNorm(WIDTH))
        self.head = gnn.MLP([WIDTH, WIDTH, 1], norm=None)

    def forward(self, x, edge_index, edge_attr, pos, batch, y, graphs_mask):
        source, target = edge_index
        length = (pos[source] - pos[target]).norm(dim=1, keepdim=True)
        edge_attr = torch.cat([edge_attr, length], dim=1)
        x = self.embed(x)
        for conv, norm in zip(self.convs, self.norms):
            x = x + norm(conv(x, edge_index, edge_attr)).relu()
        predicted = self.head(gnn.global_mean_pool(x, batch, size=self.graphs)).squeeze(1)
        weight = graphs_mask / graphs_mask.sum()
        return F.l1_loss(predicted * weight, y * weight, reduction="sum")

    def arguments(self) -> tuple:
        """The tensors of one mini-batch."""
        made = molecules()
        return tuple(
            made[name] for name in ("x", "edge_index", "edge_attr", "pos", "batch", "y", "graphs_mask")
        )


class PackedGCN(nn.Module):
    """One GCN layer on packs of molecules, as in notebook 4."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = gnn.GCNConv(11, WIDTH, add_self_loops=False)
        self.linear = nn.Linear(WIDTH, 2)

    def forward(self, x, edge_index, batch, graphs_mask, y):
        x = gnn.global_mean_pool(self.conv(x, edge_index).relu(), batch, size=GRAPHS)
        logits = self.linear(F.dropout(x, 0.5, self.training))
        labels = torch.where(graphs_mask, y, -100)
        loss = F.cross_entropy(logits, labels, reduction="sum") / graphs_mask.sum()
        return logits, poptorch.identity_loss(loss, reduction="none")

    def arguments(self) -> tuple:
        """The tensors of one mini-batch."""
        made = molecules()
        labels = (made["y"] > 0).long()
        return made["x"], made["edge_index"], made["batch"], made["graphs_mask"], labels


class SchNet(nn.Module):
    """PyG's SchNet over the bonds as its interaction graph."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(100, WIDTH)
        self.spread = gnn.models.schnet.GaussianSmearing(0.0, 10.0, 50)
        self.blocks = nn.ModuleList(
            gnn.models.schnet.InteractionBlock(WIDTH, 50, WIDTH, 10.0) for _ in range(3)
        )
        self.head = nn.Sequential(
            nn.Linear(WIDTH, WIDTH // 2), gnn.models.schnet.ShiftedSoftplus(), nn.Linear(WIDTH // 2, 1)
        )

    def forward(self, z, pos, edge_index, batch, y):
        h = self.embed(z)
        weight = (pos[edge_index[0]] - pos[edge_index[1]]).norm(dim=-1)
        attributes = self.spread(weight)
        for block in self.blocks:
            h = h + block(h, edge_index, weight, attributes)
        return F.mse_loss(gnn.global_mean_pool(self.head(h), batch, size=GRAPHS).squeeze(1), y)

    def arguments(self) -> tuple:
        """The tensors of one mini-batch."""
        made = molecules()
        return made["z"], made["pos"], made["edge_index"], made["batch"], made["y"]


class NodeClassifier(nn.Module):
    """Two layers with dropout on one graph, as in notebooks 2 (Cora) and 5 (sampled parts of PubMed)."""

    def __init__(self, conv: type, nodes: int, edges: int, features: int, hidden: int, **kwargs) -> None:
        super().__init__()
        self.first, self.second = conv(features, hidden, **kwargs), conv(hidden, 7, **kwargs)
        self.sizes = nodes, edges, features

    def forward(self, x, edge_index, y, mask):
        x = F.dropout(self.first(x, edge_index).relu(), 0.5, self.training)
        logits = self.second(x, edge_index)
        return logits, F.cross_entropy(logits, torch.where(mask, y, -100))

    def arguments(self) -> tuple:
        """The tensors of one mini-batch."""
        nodes, edges, features = self.sizes
        x = (torch.rand(nodes, features) < 0.013).float()
        edge_index = torch.randint(nodes, (2, edges))
        return x, edge_index, torch.randint(7, (nodes,)), torch.rand(nodes) < 0.2


FILMS = {"movie": 600, "director": 300, "actor": 700}
ROLES = [("movie", "director"), ("movie", "actor"), ("director", "movie"), ("actor", "movie")]
METADATA = (list(FILMS), [(source, "to", target) for source, target in ROLES])


class Hetero(nn.Module):
    """Two layers over films, directors and actors, as in notebook 6."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.project = nn.ModuleDict({key: nn.Linear(256, WIDTH) for key in FILMS})
        if kind == "HGT":
            make = lambda: gnn.HGTConv(WIDTH, WIDTH, METADATA, heads=2)  # noqa: E731
        else:
            make = lambda: gnn.HeteroConv(  # noqa: E731
                {edge: gnn.SAGEConv((WIDTH, WIDTH), WIDTH) for edge in METADATA[1]}, aggr="sum"
            )
        self.convs = nn.ModuleList(make() for _ in range(2))
        self.head = nn.Linear(WIDTH, 3)

    def forward(self, x_dict, edge_index_dict, y, mask):
        x_dict = {key: self.project[key](x).relu() for key, x in x_dict.items()}
        for conv in self.convs:
            x_dict = {key: x.relu() for key, x in conv(x_dict, edge_index_dict).items()}
        return F.cross_entropy(self.head(x_dict["movie"]), torch.where(mask, y, -100))

    def arguments(self) -> tuple:
        """The tensors of one mini-batch."""
        x_dict = {key: torch.randn(size, 256) for key, size in FILMS.items()}
        edges = {
            (source, "to", target): torch.stack(
                [torch.randint(FILMS[source], (900,)), torch.randint(FILMS[target], (900,))]
            )
            for source, target in ROLES
        }
        return x_dict, edges, torch.randint(3, (FILMS["movie"],)), torch.rand(FILMS["movie"]) < 0.5


def _mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH))


def _pna() -> nn.Module:
    degrees = torch.tensor([0, 600, 900, 500, 200, 100, 4])
    return gnn.PNAConv(
        WIDTH, WIDTH, ["mean", "min", "max", "std"], ["identity", "amplification", "attenuation"], degrees
    )


MODELS: dict[str, Callable[[], nn.Module]] = {
    "GCN": lambda: Molecular(lambda: gnn.GCNConv(WIDTH, WIDTH, add_self_loops=False)),
    "GIN": lambda: Molecular(lambda: gnn.GINConv(_mlp())),
    "GINE": lambda: Molecular(lambda: gnn.GINEConv(_mlp(), edge_dim=4), "edge_attr"),
    "SAGE": lambda: Molecular(lambda: gnn.SAGEConv(WIDTH, WIDTH)),
    "GAT": lambda: Molecular(lambda: gnn.GATConv(WIDTH, WIDTH // 4, heads=4, add_self_loops=False)),
    "GATv2": lambda: Molecular(lambda: gnn.GATv2Conv(WIDTH, WIDTH // 4, heads=4, add_self_loops=False)),
    "PNA": lambda: Molecular(_pna),
    "TransformerConv": lambda: Molecular(lambda: gnn.TransformerConv(WIDTH, WIDTH // 4, heads=4)),
    "RGCN": lambda: Molecular(lambda: gnn.RGCNConv(WIDTH, WIDTH, RELATIONS), "edge_type"),
    "HGT": lambda: Hetero("HGT"),
    "SchNet": SchNet,
    "notebook 2: GCN on Cora": lambda: NodeClassifier(
        gnn.GCNConv, 2708, 13264, 1433, 16, add_self_loops=False
    ),
    "notebook 3: GapNet on QM9": GapNet,
    "notebook 4: packed GCN": PackedGCN,
    "notebook 5: SAGE on PubMed": lambda: NodeClassifier(gnn.SAGEConv, 1700, 3000, 500, 64),
    "notebook 6: HeteroConv on IMDB": lambda: Hetero("SAGE"),
}
