"""More models that an IPU accepts, by the kinds of Python that people write, on padded batches too."""

import functools

import torch
import torch.nn.functional as F
import torch_geometric.nn as pyg
from torch import nn
from torch.utils.checkpoint import checkpoint
from torch_geometric.nn import GAE, GCNConv, GINConv, GPSConv, SAGEConv, global_add_pool, global_mean_pool
from torch_geometric.utils import degree as in_degree
from torch_geometric.utils import scatter
from torch_geometric.utils import softmax as edge_softmax
from torch_geometric.utils import to_dense_adj as dense_adjacency
from torch_geometric.utils import to_dense_batch as dense

from gnn_ipu_helpers import poptorch
from gnn_ipu_helpers.porting import MaskedBatchNorm

from . import corpus_inputs as given
from .corpus_refused import refusing

CASES = []
accepted = refusing(CASES)
C, N, G = given.CHANNELS, given.NUM_NODES, given.NUM_GRAPHS
graph = (given.x, given.edge_index)
padded = given.padded_batch()
parts = (padded.x, padded.edge_index, padded.batch, padded.y, padded.graphs_mask)


@accepted(*graph, given.batch)
def closure():
    conv = SAGEConv(C, C)

    def call(x, edge_index, batch):
        return global_mean_pool(conv(x, edge_index).relu(), batch, size=G)

    return call


def twice(forward):
    @functools.wraps(forward)
    def inner(self, x):
        return forward(self, forward(self, x))

    return inner


@accepted(given.x)
class Decorated(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(C, C)

    @twice
    def forward(self, x):
        return self.lin(x).relu()


@accepted(given.x)
def functional():
    weights = {"w": torch.randn(4, C), "b": torch.zeros(4)}

    def call(x):
        return F.linear(x, **{"weight": weights["w"], "bias": weights["b"]}).tanh()

    return call


@accepted(*graph)
class SequentialOfConvolutions(nn.Module):
    def __init__(self):
        super().__init__()
        first = (GCNConv(C, C, add_self_loops=False), "x, edge_index -> x1")
        last = (lambda a, b: a + b, "x, x1 -> x")
        self.layers = pyg.Sequential("x, edge_index", [first, nn.ReLU(), last])

    def forward(self, x, edge_index):
        return self.layers(x, edge_index)


@accepted(*graph)
class Checkpointed(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = SAGEConv(C, C)

    def forward(self, x, edge_index):
        return checkpoint(self.conv, x, edge_index, use_reentrant=False)


class Reversed(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, gradient):
        return -gradient


@accepted(given.x, given.y, training=True)
class GradientReversal(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(C, 4)

    def forward(self, x, y):
        return F.cross_entropy(Reversed.apply(self.lin(x)), y)


@accepted(given.x, given.batch)
class SortsAndScatters(nn.Module):
    def forward(self, x, batch):
        values, order = torch.sort(x[:, 0], descending=True)
        best = x[order[:3]]
        sums = scatter(x, batch, dim=0, dim_size=G, reduce="max")
        return best, values.cumsum(0), sums, torch.zeros(G, C).index_add(0, batch, x)


@accepted(given.x)
class TriesAKey(nn.Module):
    def forward(self, x):
        options = {"scale": 2.0}
        try:
            return x * options["factor"]
        except KeyError:
            return x * options["scale"]


@accepted(given.x)
class RepeatsAConstant(nn.Module):
    def forward(self, x):
        index = torch.arange(G).repeat_interleave(N // G)
        counts = torch.full((G,), N // G)
        same = torch.repeat_interleave(torch.arange(G), counts, output_size=N)
        return x * (index + same).unsqueeze(-1)


@accepted(*graph, given.batch)
class AliasedDense(nn.Module):
    def forward(self, x, edge_index, batch):
        rows, mask = dense(x, batch, batch_size=G, max_num_nodes=4)
        adj = dense_adjacency(edge_index, batch, batch_size=G, max_num_nodes=4)
        return adj @ rows * mask.unsqueeze(-1)


@accepted(*graph, given.edge_weight)
class AliasedUtilities(nn.Module):
    def forward(self, x, edge_index, weight):
        alpha = edge_softmax(weight, edge_index[1], num_nodes=N)
        return x * in_degree(edge_index[1], N).unsqueeze(-1), alpha


@accepted(*graph, given.edge_index.flip(1), training=True)
class LinkPrediction(nn.Module):
    """Negative edges come with the batch."""

    def __init__(self):
        super().__init__()
        self.conv = SAGEConv(C, C)

    def forward(self, x, edge_index, negative):
        z = self.conv(x, edge_index)
        edges = torch.cat([edge_index, negative], dim=1)
        score = (z[edges[0]] * z[edges[1]]).sum(dim=-1)
        label = torch.cat([torch.ones(edge_index.size(1)), torch.zeros(negative.size(1))])
        return score, F.binary_cross_entropy_with_logits(score, label)


@accepted(*graph, given.edge_index.flip(1), training=True)
class Autoencoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.gae = GAE(SAGEConv(C, 4))

    def forward(self, x, edge_index, negative):
        z = self.gae.encode(x, edge_index)
        return poptorch.identity_loss(self.gae.recon_loss(z, edge_index, negative), reduction="none")


@accepted(*graph, given.batch)
class GraphTransformer(nn.Module):
    def __init__(self):
        super().__init__()
        norm = {"norm": "layer_norm", "norm_kwargs": {"mode": "node"}}
        self.gps = GPSConv(C, SAGEConv(C, C), heads=2, **norm)

    def forward(self, x, edge_index, batch):
        return self.gps(x, edge_index, batch)


@accepted(*graph)
class IsomorphismInEvaluation(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = GINConv(nn.Sequential(nn.Linear(C, C), nn.BatchNorm1d(C), nn.ReLU(), nn.Linear(C, C)))

    def forward(self, x, edge_index):
        return self.conv(x, edge_index)


@accepted(given.x)
class BufferInPlace(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(C))
        self.register_buffer("count", torch.zeros(()))

    def forward(self, x):
        self.count.add_(1)
        self.mean.copy_(0.9 * self.mean + 0.1 * x.mean(0))
        return x - self.mean


@accepted(given.x)
class LocalState(nn.Module):
    """Python objects that live and die inside forward are its own business."""

    def forward(self, x):
        history = []
        table = {}
        for step in range(3):
            x = x.tanh()
            history.append(x)
            table[step] = x.mean()
        return torch.stack(history), table[2]


@accepted(given.x)
class CountsSizes(nn.Module):
    def forward(self, x):
        width = max(x.size(1), 4)
        return x / min(width, 100) * torch.maximum(x[:, :1], x[:, 1:2]).clamp(min=0)


@accepted(given.x)
class ManyModules(nn.Module):
    def __init__(self):
        super().__init__()
        self.heads = nn.ModuleDict({"a": nn.Linear(C, 2), "b": nn.Linear(C, 3)})
        self.tied = self.heads["a"]

    def forward(self, x):
        return {name: head(x) for name, head in self.heads.items()}, (self.tied(x), [x])


@accepted(given.x)
class Partial(nn.Module):
    def __init__(self):
        super().__init__()
        self.pool = functools.partial(torch.mean, dim=0)
        self.act = getattr(torch, "relu")  # noqa: B009

    def forward(self, x):
        return self.pool(self.act(x))


@accepted(given.x)
class DenseTransformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(C, 2, 16, batch_first=True)

    def forward(self, x):
        return self.layer(x.view(G, -1, C))


@accepted(given.x)
class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.gru = nn.LSTM(C, 4), nn.GRUCell(C, 4)

    def forward(self, x):
        return self.lstm(x.view(4, 3, C))[0], self.gru(x)


@accepted(given.x, given.batch)
class EinsumAndIndices(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("order", torch.tensor([2, 0, 1]))

    def forward(self, x, batch):
        out = torch.einsum("nf,nf->n", x, x)
        return x[:, self.order], out.gather(0, batch), x.index_select(1, self.order)


@accepted(given.x, edge_weight=None)
class Optional(nn.Module):
    def forward(self, x, edge_weight=None, scale=2.0):
        return x * scale if edge_weight is None else x * edge_weight


@accepted(given.x_dict, given.edge_index_dict, given.y, training=True)
class LossOnOneType(nn.Module):
    """Weights that lead to other types only have nothing to learn, and that is meant."""

    def __init__(self):
        super().__init__()
        convs = {kind: SAGEConv((C, C), given.CLASSES) for kind in given.edge_index_dict}
        self.conv = pyg.HeteroConv(convs)

    def forward(self, x_dict, edge_index_dict, y):
        return F.cross_entropy(self.conv(x_dict, edge_index_dict)["movie"], y)


@accepted(*parts, training=True)
class MaskedClasses(nn.Module):
    """A padded batch in parts: pooling by graph and the label -100 keep padding away from everything real."""

    def __init__(self):
        super().__init__()
        self.conv, self.lin = SAGEConv(C, 16), nn.Linear(16, given.CLASSES)

    def forward(self, x, edge_index, batch, y, mask):
        x = F.dropout(self.conv(x, edge_index).relu(), 0.5, self.training)
        out = self.lin(global_mean_pool(x, batch, size=G))
        return out, F.cross_entropy(out, torch.where(mask, y, -100))


@accepted(*parts, training=True)
class MaskedRegression(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.lin = SAGEConv(C, 16), nn.Linear(16, 1)

    def forward(self, x, edge_index, batch, y, mask):
        out = self.lin(global_add_pool(self.conv(x, edge_index).relu(), batch, size=G)).squeeze(-1)
        error = F.mse_loss(out, y.float(), reduction="none")
        return poptorch.identity_loss((error * mask).sum() / mask.sum(), reduction="none")


@accepted(padded)
class NormalisedWithinGraphs(nn.Module):
    def __init__(self):
        super().__init__()
        self.norms = nn.ModuleList([pyg.GraphNorm(C), pyg.LayerNorm(C), pyg.InstanceNorm(C)])
        self.masked = MaskedBatchNorm(C)

    def forward(self, data):
        x = data.x
        for norm in self.norms:
            x = norm(x, data.batch, batch_size=G)
        return self.masked(x, data.nodes_mask)


@accepted(padded, training=True)
class AttentionWithinGraphs(nn.Module):
    """Dense batches, keys of padding masked, and a loss on nodes that leaves padding out."""

    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(C, 2, batch_first=True)

    def forward(self, data):
        rows, mask = dense(data.x, data.batch, batch_size=G, max_num_nodes=4)
        out, _ = self.attention(rows, rows, rows, key_padding_mask=~mask)
        error = F.l1_loss(out, rows, reduction="none").mean(dim=(1, 2))
        error = torch.where(data.graphs_mask, error, 0.0)
        return poptorch.identity_loss(error.sum() / data.graphs_mask.sum(), reduction="none")


@accepted(padded)
class DistancesInPadding(nn.Module):
    """Geometry along padding edges is harmless where nothing real hears of it."""

    def forward(self, data):
        row, col = data.edge_index
        length = (data.x[row] - data.x[col]).square().sum(dim=-1).sqrt()
        return scatter(length, col, dim_size=N, reduce="sum")
