"""More models that an IPU refuses, by the kinds of Python people write; marked as in `corpus_refused`."""

import functools
import math
import random
import time

import numpy as np
import torch
import torch.nn.functional as F
import torch_geometric.nn as pyg
import torch_geometric.utils as pyg_utils
from torch import nn
from torch.utils.checkpoint import checkpoint
from torch_geometric.nn import GAE, GATConv, GCNConv, GPSConv, HeteroConv, SAGEConv, global_mean_pool
from torch_geometric.utils import coalesce as merged
from torch_geometric.utils import negative_sampling
from torch_geometric.utils import softmax as edge_softmax
from torch_geometric.utils import to_dense_batch as dense

from . import corpus_inputs as given
from .corpus_refused import refusing

CASES = []
refused = refusing(CASES)
C = given.CHANNELS
graph = (given.x, given.edge_index)
calls = 0


@refused(*graph, given.batch)
def closure_with_pool():
    """A model that is a function over layers of its surroundings."""
    conv = SAGEConv(C, C)

    def call(x, edge_index, batch):
        x = conv(x, edge_index).relu()
        return global_mean_pool(x, batch)  # <- finding: size= global_mean_pool

    return call


def logged(forward):
    @functools.wraps(forward)
    def inner(self, *args):
        return forward(self, *args)

    return inner


@refused(given.x, given.mask)
class DecoratedForward(nn.Module):
    @logged
    def forward(self, x, mask):
        return x[mask].mean(dim=0)  # <- finding: torch.where


@refused(given.x, given.mask)
def functional_model():
    """Weights in a dict, operations as functions."""
    weights = {"w": torch.randn(4, C), "b": torch.zeros(4)}

    def call(x, mask):
        out = F.linear(x, weights["w"], weights["b"])
        rows = torch.nonzero(mask)  # <- finding: topk
        return out[rows.view(-1)]

    return call


@refused(*graph)
class SequentialOfConvolutions(nn.Module):
    def __init__(self):
        super().__init__()
        layers = [(GCNConv(C, C), "x, edge_index -> x"), nn.ReLU(), (GCNConv(C, 4), "x, edge_index -> x")]
        self.layers = pyg.Sequential("x, edge_index", layers)

    def forward(self, x, edge_index):
        return self.layers(x, edge_index)  # <- finding: GCNConv add_self_loops=False model.layers


@refused(*graph)
class Checkpointed(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = GCNConv(C, C)

    def forward(self, x, edge_index):
        return checkpoint(self.step, x, edge_index, use_reentrant=False)

    def step(self, x, edge_index):
        return self.conv(x, edge_index).relu()  # <- finding: model.conv add_self_loops=False


class Positive(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x[x > 0].sum()  # <- finding of OwnFunction: torch.where

    @staticmethod
    def backward(ctx, gradient):
        return gradient


@refused(given.x)
class OwnFunction(nn.Module):
    def forward(self, x):
        return Positive.apply(x)


@refused(given.x, given.mask)
class TopKOfAMask(nn.Module):
    def forward(self, x, mask):
        k = int(mask.sum())  # <- finding: stay with the tensor
        return torch.topk(x[:, 0], k).values


@refused(given.x, given.batch)
class TriesToCount(nn.Module):
    def forward(self, x, batch):
        try:
            count = batch.max().item() + 1  # <- finding: stay with the tensor
        except RuntimeError:
            count = 1
        return x / count


@refused(given.x, given.batch)
class LoopsOverAList(nn.Module):
    def forward(self, x, batch):
        total = x.new_zeros(C)
        for graph in batch.unique().tolist():  # <- finding: loader
            total = total + x[batch == graph].mean(dim=0)  # <- finding: torch.where
        return total


@refused(given.x, given.batch)
class RepeatsByCount(nn.Module):
    def forward(self, x, batch):
        counts = pyg_utils.degree(batch, given.NUM_GRAPHS, dtype=torch.long)
        index = torch.repeat_interleave(torch.arange(given.NUM_GRAPHS), counts)  # <- finding: output_size=
        return x * index.unsqueeze(-1)


@refused(given.batch)
class CountsWithBincount(nn.Module):
    def forward(self, batch):
        return torch.bincount(batch).float()  # <- finding: degree num_nodes=


@refused(given.x, given.batch)
class DenseWithoutLargest(nn.Module):
    def forward(self, x, batch):
        rows, mask = dense(x, batch, batch_size=given.NUM_GRAPHS)  # <- finding: max_num_nodes=
        return rows.sum(dim=1)


@refused(given.x, given.edge_index, given.edge_weight)
class AliasedSoftmax(nn.Module):
    def forward(self, x, edge_index, weight):
        alpha = edge_softmax(weight, edge_index[1])  # <- finding: num_nodes= softmax
        return alpha * x[edge_index[0], 0]


@refused(given.edge_index)
class DegreeThroughItsModule(nn.Module):
    def forward(self, edge_index):
        return pyg_utils.degree(edge_index[0])  # <- finding: num_nodes= degree


@refused(given.x, given.edge_index, given.edge_attr)
class MergesEdges(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = SAGEConv(C, C)

    def forward(self, x, edge_index, edge_attr):
        edge_index, edge_attr = merged(edge_index, edge_attr)  # <- finding: pre_transform
        return self.conv(x, edge_index)


@refused(*graph, training=True)
class LinkPrediction(nn.Module):
    """Negative edges drawn inside the model."""

    def __init__(self):
        super().__init__()
        self.conv = SAGEConv(C, C)

    def forward(self, x, edge_index):
        z = self.conv(x, edge_index)
        negative = negative_sampling(edge_index, x.size(0))  # <- finding: loader
        edges = torch.cat([edge_index, negative], dim=1)
        score = (z[edges[0]] * z[edges[1]]).sum(dim=-1)
        label = torch.cat([torch.ones(edge_index.size(1)), torch.zeros(negative.size(1))])
        return F.binary_cross_entropy_with_logits(score, label)


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = GCNConv(C, C)
        self.conv2 = GCNConv(C, 4)

    def forward(self, x, edge_index):
        x = self.conv1(x, edge_index).relu()  # <- finding of autoencoder: model.encoder.conv1
        return self.conv2(x, edge_index)  # <- finding of autoencoder: model.encoder.conv2


@refused(*graph)
def autoencoder():
    return GAE(Encoder())


@refused(*graph, training=True)
class ReconstructionLoss(nn.Module):
    """GAE's own loss, which draws negative edges."""

    def __init__(self):
        super().__init__()
        self.gae = GAE(SAGEConv(C, 4))

    def forward(self, x, edge_index):
        z = self.gae.encode(x, edge_index)
        loss = self.gae.recon_loss(z, edge_index)  # <- finding: host
        return nn.functional.l1_loss(loss, torch.zeros(()))


@refused(torch.randint(1, 9, (given.NUM_NODES,)), given.pos, given.batch)
class Potential(nn.Module):
    def __init__(self):
        super().__init__()
        self.schnet = pyg.SchNet(C, C, 1, 4, cutoff=100.0, max_num_neighbors=3)

    def forward(self, z, pos, batch):
        return self.schnet(z, pos, batch)  # <- finding: model.schnet.readout dim_size


@refused(*graph, given.batch)
class GraphTransformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.gps = GPSConv(C, SAGEConv(C, C), heads=2, norm="graph_norm")

    def forward(self, x, edge_index, batch):
        return self.gps(x, edge_index, batch)  # <- finding: model.gps norm_kwargs


@refused(given.x_dict, given.edge_index_dict)
class BetweenTwoTypes(nn.Module):
    def __init__(self):
        super().__init__()
        self.convs = nn.ModuleDict({"plays": GATConv((C, C), 4)})

    def forward(self, x_dict, edge_index_dict):
        (edge_type, edge_index), _ = edge_index_dict.items()
        pair = (x_dict["actor"], x_dict["movie"])
        return self.convs[edge_type[1]](pair, edge_index)  # <- finding: model.convs.plays two node types


@refused({"paper": given.x}, {("paper", "cites", "paper"): given.edge_index})
class WithinOneType(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = HeteroConv({("paper", "cites", "paper"): GCNConv(C, 4)})

    def forward(self, x_dict, edge_index_dict):
        x_dict = self.conv(x_dict, edge_index_dict)  # <- finding: model.conv.convs['paper', AddSelfLoops
        return x_dict["paper"]


@refused(given.x)
class CountsCalls(nn.Module):
    def __init__(self):
        super().__init__()
        self.n = 0

    def forward(self, x):
        self.n += 1  # <- finding: register_buffer
        return x * self.n


@refused(given.x)
class KeepsAState(nn.Module):
    def __init__(self):
        super().__init__()
        self.h = torch.zeros(C)

    def forward(self, x):
        self.h = self.h + x.sum(0)  # <- finding: register_buffer self.h
        return x + self.h


@refused(given.x)
class KeepsAHistory(nn.Module):
    def __init__(self):
        super().__init__()
        self.history = []

    def forward(self, x):
        self.history.append(x.mean())  # <- finding: after the call
        return x * 2


@refused(given.x)
class CountsGlobally(nn.Module):
    def forward(self, x):
        global calls
        calls += 1  # <- finding: after the call
        return x * 2


@refused(given.x)
class AssignsABuffer(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(C))

    def forward(self, x):
        self.mean = 0.9 * self.mean + 0.1 * x.mean(0)  # <- finding: self.mean.copy_
        return x - self.mean


@refused(given.x)
class DrawsWithPython(nn.Module):
    def forward(self, x):
        return x * random.random()  # <- finding: torch.rand


@refused(given.x)
class DrawsWithNumpy(nn.Module):
    def forward(self, x):
        noise = np.random.rand(C)  # noqa: NPY002 # <- finding: torch.rand
        return x + torch.as_tensor(noise, dtype=torch.float32)


@refused(given.x)
class FlipsACoin(nn.Module):
    def forward(self, x):
        if random.random() < 0.5:  # <- finding: torch.rand
            x = -x
        return x


@refused(given.x)
class LooksAtTheClock(nn.Module):
    def forward(self, x):
        start = time.time()  # <- finding: outside forward
        return x * 2 + start


@refused(given.x)
class MovesToCuda(nn.Module):
    def forward(self, x):
        return x.cuda() * 2  # <- finding: drop


@refused(given.x)
class MovesToADevice(nn.Module):
    def forward(self, x):
        return x.to("cuda") * 2  # <- finding: drop


@refused(given.x)
class NeedsALibrary(nn.Module):
    def forward(self, x):
        import torch_spline_conv  # <- finding: install

        return torch_spline_conv.spline_basis(x)


@refused(given.x)
class ComparesWithMax(nn.Module):
    def forward(self, x):
        return x / max(x[0, 0], x[1, 1])  # <- finding: torch.where


@refused(given.x)
class ComparesWithMin(nn.Module):
    def forward(self, x):
        bound = min(x.sum(), 1.0)  # <- finding: torch.where
        return x * bound


@refused(given.x)
class SortsNumbers(nn.Module):
    def forward(self, x):
        low, high = sorted([x[0, 0], x[1, 1]])  # <- finding: torch.where
        return (x - low) / high


@refused(given.x)
class AsksForAny(nn.Module):
    def forward(self, x):
        return -x if any(x[:, 0] > 0) else x  # <- finding: torch.where


@refused(given.x, given.batch)
class TooFewGraphs(nn.Module):
    def forward(self, x, batch):
        return global_mean_pool(x, batch, size=2)  # <- finding: size=3 or more global_mean_pool


@refused(given.y)
class SmallEmbedding(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(3, C)

    def forward(self, kind):
        return self.embedding(kind)  # <- finding: 4 or more


@refused(given.x, given.y, training=True)
class TooFewClasses(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(C, 3)

    def forward(self, x, y):
        return F.cross_entropy(self.lin(x), y)  # <- finding: 4 or more outputs


@refused(given.x, given.batch)
class IndexBeyond(nn.Module):
    def forward(self, x, batch):
        return x[:2][batch]  # <- finding: larger


@refused(given.pos)
class IsolatedPoints(nn.Module):
    def forward(self, pos):
        return pyg.radius_graph(pos, r=0.001)  # <- finding: fixed-size loader


@refused(given.pos, given.batch)
class TooManyNeighbours(nn.Module):
    def forward(self, pos, batch):
        return pyg.knn_graph(pos, k=5, batch=batch)  # <- finding: fewer neighbours


@refused(given.x, given.y, training=True)
class TwoLosses(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(C, 4)

    def forward(self, x, y):
        out = self.lin(x)
        first = F.cross_entropy(out, y)
        second = F.mse_loss(out, torch.zeros_like(out))  # <- finding: identity_loss
        return first, second


@refused(given.x, given.y, training=True)
class UnmarkedLoss(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(C, 4)

    def forward(self, x, y):
        out = self.lin(x).log_softmax(dim=-1)
        return -(F.one_hot(y, 4) * out).mean()  # <- finding: identity_loss


@refused(given.x, given.y, given.mask, training=True)
class SelectsBesideTheLoss(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(C, 4)

    def forward(self, x, y, mask):
        out = self.lin(x)
        loss = F.cross_entropy(out, y)
        return loss, out[:, 0][mask]  # <- finding: torch.where


@refused(given.x, given.y, training=True)
class ListsBesideTheLoss(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(C, 4)

    def forward(self, x, y):
        out = self.lin(x)
        return F.cross_entropy(out, y), (out.argmax(-1) == y).nonzero()  # <- finding: topk


@refused(*graph)
class SparseProduct(nn.Module):
    def forward(self, x, edge_index):
        ones = torch.ones(edge_index.size(1))
        adj = torch.sparse_coo_tensor(edge_index, ones, (12, 12))  # <- finding: edge_index and edge_weight
        return torch.sparse.mm(adj, x)


@refused(given.batch)
class CountsDistinct(nn.Module):
    def forward(self, batch):
        return batch.float() / len(torch.unique(batch))  # <- finding: loader


@refused(given.x, given.batch)
class CutsOff(nn.Module):
    def forward(self, x, batch):
        count = (batch == 0).sum()
        return x[: int(count)]  # <- finding: use a constant


@refused(given.x)
class HalvesUntilSmall(nn.Module):
    def forward(self, x):
        steps = 0
        while x.norm().item() > 1:  # <- finding: torch.where
            x = x / 2
            steps += 1
        return x * steps


@refused(*graph, given.edge_attr, given.batch)
class Fingerprint(nn.Module):
    def __init__(self):
        super().__init__()
        self.model = pyg.AttentiveFP(C, C, 4, C, 1, 1)

    def forward(self, x, edge_index, edge_attr, batch):
        return self.model(x, edge_index, edge_attr, batch)  # <- finding: subclass AttentiveFP size=


@refused(*graph)
class ReadyMadeWithLoopsInside(nn.Module):
    def __init__(self):
        super().__init__()
        self.rect = pyg.RECT_L(C, C)

    def forward(self, x, edge_index):
        return self.rect(x, edge_index)  # <- finding: model.rect.conv.add_self_loops = False


@refused(*graph, given.batch)
class PoolsInAList(nn.Module):
    def __init__(self):
        super().__init__()
        self.pools = nn.ModuleList([pyg.TopKPooling(C), pyg.SAGPooling(C)])

    def forward(self, x, edge_index, batch):
        for pool in self.pools:
            x, edge_index, _, batch, *_ = pool(x, edge_index, batch=batch)  # <- finding: fixed size
        return global_mean_pool(x, batch, size=given.NUM_GRAPHS)


@refused(given.x)
class RoundsInPython(nn.Module):
    def forward(self, x):
        return x * math.ceil(x.abs().max())  # <- finding: stay with the tensor


@refused(given.x, given.edge_index)
class GrowsUntilConnected(nn.Module):
    def forward(self, x, edge_index):
        nodes, *_ = pyg_utils.k_hop_subgraph(0, 1, edge_index)  # <- finding: pre_transform
        return x[nodes]
