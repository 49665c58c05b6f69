"""What PyG users write every day: link prediction, focal losses, virtual nodes, dataclasses, logging …

Marked as in `corpus_refused` and `corpus_warned`.
"""

import dataclasses
import functools
import logging
import warnings
from typing import NamedTuple

import torch
import torch.nn.functional as F
import torch_geometric.nn as pyg
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from torch_geometric.nn import GATv2Conv, GINEConv, JumpingKnowledge, SAGEConv, global_add_pool
from torch_geometric.utils import dropout_edge, scatter, to_dense_batch

from gnn_ipu_helpers import poptorch

from . import corpus_inputs as given
from .corpus_layers_elsewhere import Gate
from .corpus_refused import refusing

REFUSED, ACCEPTED, WARNED = [], [], []
refused, accepted, warned = refusing(REFUSED), refusing(ACCEPTED), refusing(WARNED)
C, N, G, K = given.CHANNELS, given.NUM_NODES, given.NUM_GRAPHS, given.CLASSES
E = given.edge_index.size(1)
graph = (given.x, given.edge_index)
graphs = (*graph, given.batch)
padded = given.padded_batch()
parts = (padded.x, padded.edge_index, padded.batch, padded.y, padded.graphs_mask)
pairs = torch.stack([torch.arange(6), torch.arange(6, 12)])
log = logging.getLogger(__name__)


# Links and edges.


@accepted(*graph, pairs, torch.arange(6) % 2, training=True)
class LinkScores(nn.Module):
    """Pairs drawn in the loader, binary cross-entropy on their dot products."""

    def __init__(self):
        super().__init__()
        self.conv = SAGEConv(C, 16)

    def forward(self, x, edge_index, edge_label_index, edge_label):
        z = self.conv(x, edge_index)
        logits = (z[edge_label_index[0]] * z[edge_label_index[1]]).sum(dim=-1)
        return logits, F.binary_cross_entropy_with_logits(logits, edge_label.float())


@refused(*graph, pairs, torch.arange(6) % 2, training=True)
class RanksPositives(nn.Module):
    """A margin between positive and negative links, told apart by their labels."""

    def __init__(self):
        super().__init__()
        self.conv = SAGEConv(C, 16)

    def forward(self, x, edge_index, pairs, label):
        z = self.conv(x, edge_index)
        score = (z[pairs[0]] * z[pairs[1]]).sum(dim=-1)
        positive = score[label == 1]  # <- finding: torch.where
        negative = score[label == 0]  # <- finding: torch.where
        return F.relu(1 - positive.mean() + negative.mean())  # <- finding: identity_loss


@accepted(*graph, given.edge_attr, given.edge_weight, training=True)
class EdgeRegression(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.head = GINEConv(nn.Linear(C, C)), nn.Linear(3 * C, 1)

    def forward(self, x, edge_index, edge_attr, edge_y):
        x = self.conv(x, edge_index, edge_attr).relu()
        ends = torch.cat([x[edge_index[0]], x[edge_index[1]], edge_attr], dim=-1)
        return F.smooth_l1_loss(self.head(ends).view(-1), edge_y)


@refused(*graph)
class DropsEdges(nn.Module):
    """DropEdge on by default, as in the paper."""

    def __init__(self):
        super().__init__()
        self.conv = SAGEConv(C, C)

    def forward(self, x, edge_index):
        edge_index, kept = dropout_edge(edge_index, p=0.2)  # <- finding: mask
        return self.conv(x, edge_index)


@accepted(*graph, training=True)
class DropsMessages(nn.Module):
    """The static way to drop edges."""

    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(C, K)

    def forward(self, x, edge_index):
        keep = (torch.rand(edge_index.size(1)) > 0.2).float()
        out = scatter(self.lin(x)[edge_index[0]] * keep.unsqueeze(-1), edge_index[1], dim_size=x.size(0))
        return F.cross_entropy(out, edge_index.new_zeros(x.size(0)))


# Readouts.


@accepted(*graphs)
class JumpsAndSets(nn.Module):
    def __init__(self):
        super().__init__()
        self.convs = nn.ModuleList([SAGEConv(C, C), SAGEConv(C, C)])
        self.jump, self.readout = JumpingKnowledge("lstm", C, 2), pyg.Set2Set(C, processing_steps=2)

    def forward(self, x, edge_index, batch):
        layers = []
        for conv in self.convs:
            x = conv(x, edge_index).relu()
            layers.append(x)
        return self.readout(self.jump(layers), batch, dim_size=G)


@refused(*graphs)
class SetsWithoutSize(nn.Module):
    def __init__(self):
        super().__init__()
        self.jump, self.readout = JumpingKnowledge("cat"), pyg.Set2Set(C, processing_steps=2)

    def forward(self, x, edge_index, batch):
        return self.readout(self.jump([x]), batch)  # <- finding: dim_size= Set2Set


@accepted(*graphs)
class VirtualNode(nn.Module):
    """A node that hears from all nodes of its graph and answers."""

    def __init__(self):
        super().__init__()
        self.embedding, self.conv, self.mlp = nn.Embedding(1, C), SAGEConv(C, C), nn.Linear(C, C)

    def forward(self, x, edge_index, batch):
        virtual = self.embedding(batch.new_zeros(G))
        for _ in range(2):
            x = self.conv(x + virtual[batch], edge_index).relu()
            virtual = virtual + self.mlp(global_add_pool(x, batch, size=G))
        return virtual


@refused(*graphs)
class VirtualNodeOfTheLargest(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(1, C)

    def forward(self, x, edge_index, batch):
        num_graphs = batch[-1] + 1
        virtual = self.embedding(torch.zeros(num_graphs, dtype=torch.long))  # <- finding: constant
        return x + virtual[batch]


@refused(given.x, given.batch)
class ScattersWithoutSize(nn.Module):
    def forward(self, x, batch):
        mean = scatter(x, batch, dim=0, reduce="mean")  # <- finding: dim_size= scatter
        return x - mean[batch]


@refused(given.x, given.batch)
class PacksSequences(nn.Module):
    """A GRU over the nodes of each graph, packed by length."""

    def __init__(self):
        super().__init__()
        self.gru = nn.GRU(C, C, batch_first=True)

    def forward(self, x, batch):
        rows, mask = to_dense_batch(x, batch, batch_size=G, max_num_nodes=4)
        lengths = mask.sum(dim=1)
        packed = pack_padded_sequence(rows, lengths.cpu(), batch_first=True)  # <- finding: torch.where(mask
        out, _ = self.gru(packed)
        return pad_packed_sequence(out, batch_first=True)[0]


@accepted(given.x, given.batch)
class TransformerOverNodes(nn.Module):
    def __init__(self):
        super().__init__()
        layer = nn.TransformerEncoderLayer(C, 2, 16, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)

    def forward(self, x, batch):
        rows, mask = to_dense_batch(x, batch, batch_size=G, max_num_nodes=6)
        return self.encoder(rows, src_key_padding_mask=~mask).mean(dim=1)


@refused(given.x, given.batch)
class TransformerBackToNodes(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(C, 2, 16, dropout=0.0, batch_first=True)

    def forward(self, x, batch):
        rows, mask = to_dense_batch(x, batch, batch_size=G, max_num_nodes=6)
        return self.layer(rows, src_key_padding_mask=~mask)[mask]  # <- finding: torch.where


# Normalisations.


@refused(*graphs)
class GraphNormed(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm = SAGEConv(C, C), pyg.GraphNorm(C)

    def forward(self, x, edge_index, batch):
        return self.norm(self.conv(x, edge_index), batch)  # <- finding: batch_size= GraphNorm


@warned(padded, training=True)
class PairNormed(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm, self.lin = SAGEConv(C, C), pyg.PairNorm(), nn.Linear(C, K)

    def forward(self, data):
        x = self.norm(self.conv(data.x, data.edge_index))  # <- warning: batch=data.batch batch_size= PairNorm
        out = self.lin(pyg.global_mean_pool(x, data.batch, size=G))
        return F.cross_entropy(out, torch.where(data.graphs_mask, data.y, -100))


@accepted(padded, training=True)
class PairNormedWithinGraphs(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm, self.lin = SAGEConv(C, C), pyg.PairNorm(), nn.Linear(C, K)

    def forward(self, data):
        x = self.norm(self.conv(data.x, data.edge_index), batch=data.batch, batch_size=G)
        out = self.lin(pyg.global_mean_pool(x, data.batch, size=G))
        return F.cross_entropy(out, torch.where(data.graphs_mask, data.y, -100))


# Losses.


@accepted(*graphs, given.graph_y, torch.rand(G), training=True)
class TwoTasks(nn.Module):
    """Several losses with learned weights, added up and marked."""

    def __init__(self):
        super().__init__()
        self.conv, self.classes, self.value = SAGEConv(C, 16), nn.Linear(16, K), nn.Linear(16, 1)
        self.log_weights = nn.Parameter(torch.zeros(2))

    def forward(self, x, edge_index, batch, y, value):
        x = pyg.global_mean_pool(self.conv(x, edge_index), batch, size=G)
        losses = torch.stack([F.cross_entropy(self.classes(x), y), F.mse_loss(self.value(x).view(-1), value)])
        total = (losses * torch.exp(-self.log_weights) + self.log_weights).sum()
        return poptorch.identity_loss(total, reduction="none")


@refused(*graphs, given.graph_y, torch.rand(G), training=True)
class TwoTasksUnmarked(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.classes, self.value = SAGEConv(C, 16), nn.Linear(16, K), nn.Linear(16, 1)

    def forward(self, x, edge_index, batch, y, value):
        x = pyg.global_mean_pool(self.conv(x, edge_index), batch, size=G)
        first = F.cross_entropy(self.classes(x), y)
        second = F.mse_loss(self.value(x).view(-1), value)  # <- finding: poptorch.identity_loss
        return first + 0.5 * second


@warned(given.x, given.y, training=True)
class FocalUnmarked(nn.Module):
    """Trains on plain cross-entropy unless it is marked."""

    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(C, K)

    def forward(self, x, y):
        ce = F.cross_entropy(self.lin(x), y, reduction="none")
        return ((1 - torch.exp(-ce)) ** 2 * ce).mean()  # <- warning: poptorch.identity_loss


@accepted(given.x, given.y, training=True)
class FocalMarked(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(C, K)

    def forward(self, x, y):
        ce = F.cross_entropy(self.lin(x), y, reduction="none")
        focal = ((1 - torch.exp(-ce)) ** 2 * ce).mean()
        return poptorch.identity_loss(focal, reduction="none")


@accepted(given.x, given.y, training=True)
class SmoothedLabels(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(C, K)
        self.criterion = nn.CrossEntropyLoss(label_smoothing=0.1, weight=torch.ones(K), ignore_index=-1)

    def forward(self, x, y):
        return self.criterion(self.lin(x), y)


@warned(*parts, training=True)
class LabelSmoothedPadding(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.lin = SAGEConv(C, 16), nn.Linear(16, K)
        self.criterion = nn.CrossEntropyLoss(label_smoothing=0.1)

    def forward(self, x, edge_index, batch, y, mask):
        out = self.lin(pyg.global_mean_pool(self.conv(x, edge_index), batch, size=G))
        return self.criterion(out, y)  # <- warning: torch.where(data.graphs_mask, y, -100)


# Weights and state.


@accepted(given.y, training=True)
class TiedWeights(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.decoder = nn.Embedding(K, C), nn.Linear(C, K, bias=False)
        self.decoder.weight = self.embedding.weight

    def forward(self, y):
        return F.cross_entropy(self.decoder(self.embedding(y)), y)


@accepted(given.x, training=True)
class MovingAverage(nn.Module):
    """A buffer that follows the mean, without a gradient."""

    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(C, C)
        self.register_buffer("mean", torch.zeros(C))

    def forward(self, x):
        out = self.lin(x)
        with torch.no_grad():
            self.mean.mul_(0.9).add_(out.detach().mean(dim=0), alpha=0.1)
        return F.mse_loss(out, self.mean.expand_as(out))


@refused(given.x, training=True)
class MovingAverageAssigned(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(C, C)
        self.register_buffer("mean", torch.zeros(C))

    def forward(self, x):
        out = self.lin(x)
        with torch.no_grad():
            self.mean = 0.9 * self.mean + 0.1 * out.mean(dim=0)  # <- finding: self.mean.copy_
        return F.mse_loss(out, self.mean.expand_as(out))


@refused(given.x)
class RemembersTheLast(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin, self.last = nn.Linear(C, C), None

    def forward(self, x):
        x = self.lin(x) if self.last is None else self.lin(x) + self.last
        self.last = x.detach()  # <- finding: register_buffer
        return x


# Python around the tensors.


@dataclasses.dataclass
class Prediction:
    logits: torch.Tensor
    embedding: torch.Tensor


class Scores(NamedTuple):
    logits: torch.Tensor
    loss: torch.Tensor


@accepted(*graph, given.y, training=True)
class ReturnsANamedTuple(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = SAGEConv(C, K)

    def forward(self, x, edge_index, y):
        logits = self.conv(x, edge_index)
        return Scores(logits=logits, loss=F.cross_entropy(logits, y))


@accepted(given.x)
class UsesADataclass(nn.Module):
    """A dataclass on the way, tensors at the end."""

    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(C, K)

    def predict(self, x):
        return Prediction(logits=self.lin(x), embedding=x)

    def forward(self, x):
        found = self.predict(x)
        return found.logits.softmax(dim=-1), found.embedding


@accepted(given.x, given.edge_index)
class WithProperties(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self._depth = SAGEConv(C, C), 2

    @property
    def depth(self):
        return self._depth

    @property
    def device(self):
        return next(self.parameters()).device

    def forward(self, x, edge_index):
        x = x.to(self.device)
        for _ in range(self.depth):
            x = self.conv(x, edge_index)
        return x


@refused(given.x)
class SortsPairs(nn.Module):
    def forward(self, x):
        halves = dict(zip(("left", "right"), x.chunk(2, dim=-1)))
        return [half for _, half in sorted(halves.items())]  # <- finding: sorted(tensors)


@accepted(given.x)
class WithAGoodLayerElsewhere(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = Gate(C, keeps_all=True)

    def forward(self, x):
        return self.gate(x).sum(dim=0)


@accepted(given.x)
class LambdasAndPartials(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(C, C)
        self.activations = {
            "swish": lambda t: t * t.sigmoid(),
            "leaky": functools.partial(F.leaky_relu, negative_slope=0.1),
        }
        self.normalise = functools.partial(F.normalize, dim=-1)

    def forward(self, x):
        for activation in self.activations.values():
            x = activation(self.lin(x))
        return self.normalise(x)


@refused(given.x, given.batch)
class PartialPool(nn.Module):
    def __init__(self):
        super().__init__()
        self.pool = functools.partial(scatter, dim=0, reduce="max")

    def forward(self, x, batch):
        return self.pool(x, batch)  # <- finding: dim_size= scatter


def _gelu(x: torch.Tensor) -> torch.Tensor:
    return x * 0.5 * (1.0 + torch.erf(x / 1.41421))


with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # deprecated, and still in use
    fused_gelu = torch.jit.script(_gelu)


@accepted(given.x)
class CallsAScript(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(C, C)

    def forward(self, x):
        return fused_gelu(self.lin(x))


@accepted(given.x, given.mask)
class InPlace(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(C, C)

    def forward(self, x, mask):
        x = self.lin(x)
        x.relu_().mul_(2.0)
        x[:, 0] = 0.0
        x.masked_fill_(mask.unsqueeze(-1), 0.0)
        out = torch.zeros_like(x)
        out.index_add_(0, torch.arange(len(x)), x)
        return out


@accepted(given.x, given.edge_index)
class LogsShapes(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = SAGEConv(C, C)

    def forward(self, x, edge_index):
        assert x.dim() == 2, f"expected [N, F], got {tuple(x.shape)}"
        assert edge_index.shape[0] == 2
        log.debug(f"{x.shape[0]} nodes, {edge_index.shape[1]} edges")
        print(f"{self.__class__.__name__}: {x.shape}")
        return self.conv(x, edge_index)


@refused(given.x)
class LogsValues(nn.Module):
    def forward(self, x):
        log.info(f"mean {x.mean().item():.3f}")  # <- finding: after the call
        return x * 2


@refused(given.x)
class WarnsOfValues(nn.Module):
    def forward(self, x):
        log.warning(  # <- finding: after the call
            "largest %.3f of %d",
            x.max(),
            f"{x.mean():.2f}",  # <- finding: after the call
        )
        return x * 2


@accepted(given.x)
class LogsValuesThatNobodyReads(nn.Module):
    """Nothing is formatted, because the level is not shown."""

    def forward(self, x):
        log.debug("mean %.3f", x.mean())
        return x * 2


@refused(given.x, given.edge_index)
class AssertsOnIndices(nn.Module):
    def forward(self, x, edge_index):
        assert edge_index.max() < x.size(0)  # <- finding: host
        return x[edge_index[0]]


@refused(given.x)
class RefusesNan(nn.Module):
    def forward(self, x):
        if torch.isnan(x).any():  # <- finding: torch.where
            raise ValueError("nan in x")
        return x * 2


@accepted(*graph)
class FrozenEncoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder, self.head = SAGEConv(C, C), nn.Linear(C, K)

    def forward(self, x, edge_index):
        with torch.no_grad():
            x = self.encoder(x, edge_index)
        return self.head(x)


@accepted(*graph)
class ReturnsAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = GATv2Conv(C, C, heads=2, add_self_loops=False)

    def forward(self, x, edge_index):
        out, (edges, attention) = self.conv(x, edge_index, return_attention_weights=True)
        return {"out": out, "attention": attention}


@accepted(given.x, given.y)
class EinopsByHand(nn.Module):
    """Views, chunks, comprehensions and zips over constant sizes."""

    def __init__(self):
        super().__init__()
        self.heads = nn.ModuleDict({name: nn.Linear(C // 2, 2) for name in ("left", "right")})

    def forward(self, x, y):
        halves = dict(zip(self.heads, x.chunk(2, dim=-1)))
        outputs = [self.heads[name](halves[name]) for name in sorted(halves)]
        classes = F.one_hot(y, num_classes=K).float()
        return torch.cat([*outputs, classes], dim=-1)


@refused(given.x, given.y)
class LoopsOverClasses(nn.Module):
    def forward(self, x, y):
        means = []
        for label in y.unique():  # <- finding: host
            means.append(x[y == label].mean(dim=0))  # <- finding: torch.where
        return torch.stack(means)


@refused(*graph)
class SamplesNodes(nn.Module):
    def forward(self, x, edge_index):
        chosen = torch.bernoulli(torch.full((x.size(0),), 0.5)).bool()
        return x[chosen]  # <- finding: torch.where


@accepted(*graph)
class PermutesNodes(nn.Module):
    """As Deep Graph Infomax corrupts its input."""

    def forward(self, x, edge_index):
        return x[torch.randperm(x.size(0))], x.flip(0)


@refused(given.x, torch.tensor(3))
class TakesTheFirst(nn.Module):
    """A number of rows that comes as a tensor, such as `data.batch_size` of a neighbour batch."""

    def forward(self, x, batch_size):
        return x[:batch_size]  # <- finding: constant


@accepted(given.x, 3)
class TakesTheFirstOfANumber(nn.Module):
    def forward(self, x, batch_size):
        return x[:batch_size]
