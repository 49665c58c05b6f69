"""Models as PyG users write them: closures, decorators, ready-made models, layers with names of their own
that say Norm or Attention and are neither.

Marked as in `corpus_refused` and `corpus_warned`.
"""

import functools
import random

import torch
import torch.nn.functional as F
import torch_geometric.nn as pyg
from torch import nn
from torch.utils.checkpoint import checkpoint
from torch_geometric.nn import GCNConv, SAGEConv, global_add_pool, global_mean_pool
from torch_geometric.utils import (
    coalesce,
    degree,
    negative_sampling,
    remove_self_loops,
    scatter,
    softmax,
    to_dense_adj,
    to_dense_batch,
)

from gnn_ipu_helpers import poptorch

from . import corpus_inputs as given
from .corpus_refused import refusing

REFUSED, ACCEPTED, WARNED = [], [], []
refused, accepted, warned = refusing(REFUSED), refusing(ACCEPTED), refusing(WARNED)
C, N, G, K = given.CHANNELS, given.NUM_NODES, given.NUM_GRAPHS, given.CLASSES
graph = (given.x, given.edge_index)
padded = given.padded_batch()
parts = (padded.x, padded.edge_index, padded.batch, padded.y, padded.graphs_mask)
molecules = (torch.arange(N) % 5 + 1, given.pos, given.batch)


def class_loss(out, y, mask):
    return F.cross_entropy(out, torch.where(mask, y, -100))


class Normalise(nn.Module):
    """Rows of length one: no statistics over rows."""

    def forward(self, x):
        return x / (x.norm(dim=-1, keepdim=True) + 1.0)


class NormalMLP(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(C, C)

    def forward(self, x):
        return self.lin(x).relu()


@accepted(*parts, training=True)
class NamesThatSayNorm(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.conv, self.head = Normalise(), pyg.GINConv(NormalMLP()), nn.Linear(C, K)

    def forward(self, x, edge_index, batch, y, mask):
        out = self.head(global_add_pool(self.conv(self.norm(x), edge_index), batch, size=G))
        return out, class_loss(out, y, mask)


class Normalised(nn.Module):
    def forward(self, x):
        return x - x.mean(dim=0)  # <- warning of CentredByAModuleOfItsOwn: nodes_mask .sum(0)


@warned(*parts, training=True)
class CentredByAModuleOfItsOwn(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.head = Normalised(), nn.Linear(C, K)

    def forward(self, x, edge_index, batch, y, mask):
        out = self.head(global_add_pool(self.norm(x), batch, size=G))
        return out, class_loss(out, y, mask)


@warned(*parts, training=True)
class ModelNamedAfterItsBatchNorm(nn.Module):
    def __init__(self):
        super().__init__()
        self.net, self.head = pyg.GIN(C, 16, 2, norm="batch_norm"), nn.Linear(16, K)

    def forward(self, x, edge_index, batch, y, mask):
        x = self.net(x, edge_index)  # <- warning: MaskedBatchNorm nodes_mask
        out = self.head(global_add_pool(x, batch, size=G))
        return out, class_loss(out, y, mask)


class AttentionPool(nn.Module):
    """A readout that is called attention, and whose first step is a plain mean."""

    def forward(self, x, batch):
        x = x * x.mean(dim=0)  # <- warning of ReadoutCalledAttention: nodes_mask .sum(0)
        return global_add_pool(x, batch, size=G)


@warned(*parts, training=True)
class ReadoutCalledAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.pool, self.head = AttentionPool(), nn.Linear(C, K)

    def forward(self, x, edge_index, batch, y, mask):
        out = self.head(self.pool(x, batch))
        return out, class_loss(out, y, mask)


@warned(*parts, training=True)
class EveryPairByEinsum(nn.Module):
    def __init__(self):
        super().__init__()
        self.query, self.head = nn.Linear(C, C), nn.Linear(C, K)

    def forward(self, x, edge_index, batch, y, mask):
        score = torch.einsum("id,jd->ij", self.query(x), x)
        share = score.softmax(dim=-1)  # <- warning: masked_fill(~data.nodes_mask, -inf)
        x = torch.einsum("ij,jd->id", share, x)
        out = self.head(global_add_pool(x, batch, size=G))
        return out, class_loss(out, y, mask)


@accepted(*parts, training=True)
class EveryPairMasked(nn.Module):
    """`EveryPairByEinsum` as its remedy says, and within each graph."""

    def __init__(self):
        super().__init__()
        self.query, self.head = nn.Linear(C, C), nn.Linear(C, K)

    def forward(self, x, edge_index, batch, y, mask):
        score = torch.einsum("id,jd->ij", self.query(x), x)
        share = score.masked_fill(~mask[batch], float("-inf")).softmax(dim=-1)
        x = torch.einsum("ij,jd->id", share, torch.where(mask[batch].unsqueeze(-1), x, 0.0))
        out = self.head(global_add_pool(x, batch, size=G))
        return out, class_loss(out, y, mask)


def block():
    linear = nn.Linear(C, C)

    def run(x):
        return linear(x)[x.sum(dim=-1) > 0]  # <- finding of ClosureSelectsRows: torch.where

    return run


@refused(given.x)
class ClosureSelectsRows(nn.Module):
    def __init__(self):
        super().__init__()
        self.run = block()

    def forward(self, x):
        return self.run(x).sum(dim=0)


def decorated(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        return function(*args, **kwargs)

    return wrapper


@accepted(*graph)
class DecoratedForward(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = GCNConv(C, K, add_self_loops=False)

    @decorated
    def forward(self, x, edge_index):
        return self.conv(x, edge_index)


@refused(*graph)
class LoopsInASequential(nn.Module):
    def __init__(self):
        super().__init__()
        layers = [(GCNConv(C, C), "x, edge_index -> x"), nn.ReLU(), nn.Linear(C, K)]
        self.net = pyg.Sequential("x, edge_index", layers)

    def forward(self, x, edge_index):
        return self.net(x, edge_index)  # <- finding: `model.net.module_0` add_self_loops=False


@accepted(*graph, given.y, training=True)
class RecomputedLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.head = SAGEConv(C, C), nn.Linear(C, K)

    def forward(self, x, edge_index, y):
        x = checkpoint(self.conv, x, edge_index, use_reentrant=False)
        return F.cross_entropy(self.head(x), y)


class Binarise(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return (x > 0).float()

    @staticmethod
    def backward(ctx, gradient):
        return gradient


@accepted(*graph, given.y, training=True)
class StraightThrough(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.head = SAGEConv(C, C), nn.Linear(C, K)

    def forward(self, x, edge_index, y):
        return F.cross_entropy(self.head(Binarise.apply(self.conv(x, edge_index))), y)


@refused(given.x)
class BestByThreshold(nn.Module):
    def __init__(self):
        super().__init__()
        self.score = nn.Linear(C, 1)

    def forward(self, x):
        score = self.score(x).squeeze(-1)
        number = int((score > 0).sum()) + 1  # <- finding: tensor
        return x[score.topk(number).indices].mean(dim=0)


@accepted(given.x)
class BestHalf(nn.Module):
    def __init__(self):
        super().__init__()
        self.score = nn.Linear(C, 1)

    def forward(self, x):
        best = self.score(x).squeeze(-1).topk(x.size(0) // 2)
        return (x[best.indices] * best.values.sigmoid().unsqueeze(-1)).mean(dim=0)


@accepted(*parts, training=True)
class DenseOfGivenSize(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(C, 2, batch_first=True)
        self.head = nn.Linear(C, K)

    def forward(self, x, edge_index, batch, y, mask):
        rows, is_node = to_dense_batch(x, batch, batch_size=G, max_num_nodes=4)
        rows, _ = self.attention(rows, rows, rows, key_padding_mask=~is_node, need_weights=False)
        out = self.head(torch.where(is_node.unsqueeze(-1), rows, 0.0).sum(dim=1))
        return out, class_loss(out, y, mask)


@refused(*graph)
class AttentionByHand(nn.Module):
    def __init__(self):
        super().__init__()
        self.score = nn.Linear(2 * C, 1)

    def forward(self, x, edge_index):
        source, target = edge_index
        weight = self.score(torch.cat([x[source], x[target]], dim=-1))
        weight = softmax(weight, target)  # <- finding: num_nodes softmax
        return scatter(weight * x[source], target, dim_size=x.size(0))


@refused(*graph)
class ConvolutionByHand(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(C, K))

    def forward(self, x, edge_index):
        edge_index, _ = remove_self_loops(edge_index)  # <- finding: pre_transform
        source, target = edge_index
        scale = degree(target, x.size(0)).clamp(min=1).rsqrt()
        messages = (scale[source] * scale[target]).unsqueeze(-1) * (x @ self.weight)[source]
        return scatter(messages, target, dim_size=x.size(0))


@refused(*graph)
class BothDirections(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = SAGEConv(C, C)

    def forward(self, x, edge_index):
        edge_index = coalesce(torch.cat([edge_index, edge_index.flip(0)], dim=1))  # <- finding: pre_transform
        return self.conv(x, edge_index)


@refused(*graph, training=True)
class DrawsNegativeLinks(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = SAGEConv(C, C)

    def forward(self, x, edge_index):
        z = self.conv(x, edge_index)
        negative = negative_sampling(edge_index, num_nodes=N)  # <- finding: fixed number loader
        pairs = torch.cat([edge_index, negative], dim=1)
        label = torch.arange(pairs.size(1)) < edge_index.size(1)
        return F.binary_cross_entropy_with_logits((z[pairs[0]] * z[pairs[1]]).sum(-1), label.float())


@accepted(*graph, given.edge_index.flip(0), training=True)
class AutoencoderOfGivenPairs(nn.Module):
    def __init__(self):
        super().__init__()
        self.gae = pyg.GAE(pyg.GCN(C, C, 2, 4, add_self_loops=False))

    def forward(self, x, edge_index, negative):
        z = self.gae.encode(x, edge_index)
        return z, poptorch.identity_loss(self.gae.recon_loss(z, edge_index, negative), reduction="none")


@accepted(*graph, given.batch)
class AttentionAcrossTheGraph(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = pyg.GPSConv(C, pyg.GINConv(nn.Linear(C, C)), heads=2)

    def forward(self, x, edge_index, batch):
        return self.conv(x, edge_index, batch)


@refused(*molecules)
class EquivariantEnergies(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = pyg.ViSNet(
            hidden_channels=8, num_layers=1, num_heads=2, num_rbf=4, lmax=1, max_num_neighbors=3, cutoff=9.0
        )

    def forward(self, z, pos, batch):
        return self.net(z, pos, batch)[0]  # <- finding: SchNet masks supported_layers


@refused(*graph, given.batch)
class GlobalAttentionModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = pyg.SGFormer(C, C, K, gnn_num_layers=1)

    def forward(self, x, edge_index, batch):
        return self.net(x, edge_index, batch)  # <- finding: model.net.trans_conv convs[0].add_self_loops


@refused(*molecules)
class EnergiesWithoutSize(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = pyg.SchNet(C, C, 1, 4, cutoff=9.0, max_num_neighbors=3)

    def forward(self, z, pos, batch):
        return self.net(z, pos, batch)  # <- finding: model.net.readout dim_size


@accepted({"x": given.x, "edge_index": given.edge_index})
class DictionaryIn(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = SAGEConv(C, C)

    def forward(self, data):
        return {"out": self.conv(data["x"], data["edge_index"])}


@accepted({"a": given.x, "b": given.x}, {"a__to__b": given.edge_index})
class LayerPerRelation(nn.Module):
    def __init__(self):
        super().__init__()
        self.convs = nn.ModuleDict({"a__to__b": SAGEConv((C, C), C)})

    def forward(self, x_dict, edges):
        out = dict(x_dict)
        for name, edge_index in edges.items():
            source, _, target = name.split("__")
            out[target] = out[target] + self.convs[name]((x_dict[source], x_dict[target]), edge_index)
        return out["b"]


@refused(given.x, training=True)
class SkipsALayerByChance(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(C, C)

    def forward(self, x):
        if random.random() < 0.1:  # <- finding: torch.rand
            return x.square().mean()
        return F.mse_loss(x + self.lin(x), x)


@accepted(given.x, training=True)
class SkipsRowsByChance(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(C, C)

    def forward(self, x):
        keep = (torch.rand(x.size(0), 1) < 0.9).float() / 0.9
        return F.mse_loss(x + keep * self.lin(x), x)


@accepted(*parts, training=True)
class LayersReadByAnLstm(nn.Module):
    def __init__(self):
        super().__init__()
        self.net, self.head = pyg.GraphSAGE(C, C, 3, C, jk="lstm"), nn.Linear(C, K)

    def forward(self, x, edge_index, batch, y, mask):
        out = self.head(global_mean_pool(self.net(x, edge_index), batch, G))
        return out, class_loss(out, y, mask)


@refused(*graph, given.batch)
class PoolsOnTheWayDown(nn.Module):
    """A ready-made model whose layers add self-loops too: what it keeps of the graph is what cannot stay."""

    def __init__(self):
        super().__init__()
        self.net = pyg.GraphUNet(C, C, C, depth=1)

    def forward(self, x, edge_index, batch):
        return self.net(x, edge_index, batch)  # <- finding: score global_mean_pool


@refused(*graph, given.batch)
class AdjacencyWithoutLargest(nn.Module):
    def forward(self, x, edge_index, batch):
        dense = to_dense_adj(edge_index, batch, batch_size=G)  # <- finding: max_num_nodes to_dense_adj
        return dense.sum(dim=-1)


@refused(given.x, given.batch)
class AttentionalReadout(nn.Module):
    def __init__(self):
        super().__init__()
        self.pool = pyg.AttentionalAggregation(nn.Linear(C, 1))

    def forward(self, x, batch):
        return self.pool(x, batch)  # <- finding: dim_size AttentionalAggregation


@refused(given.x)
class SplitsByLengths(nn.Module):
    def forward(self, x):
        lengths = x[:, 0].gt(0).long() + 1
        return x[: lengths.sum()].mean(dim=0)  # <- finding: constant torch.where


@refused(given.x, given.batch)
class LoopsOverGraphs(nn.Module):
    def forward(self, x, batch):
        means = [x[batch == number].mean(dim=0) for number in range(G)]  # <- finding: torch.where
        return torch.stack(means)


@refused(given.x)
class RefusesWhatIsNotANumber(nn.Module):
    def forward(self, x):
        if x.isnan().any():  # <- finding: torch.where
            raise ValueError("not a number")
        return x.sum()


@refused(given.x, given.batch)
class ReadsTheNumberOfGraphs(nn.Module):
    def forward(self, x, batch):
        return global_add_pool(x, batch, size=batch.max().item() + 1)  # <- finding: tensor
