"""Models that run on an IPU, and probably not as they are meant. The line that the check must name ends in
`# <- warning:` and words of its remedy."""

import torch
import torch.nn.functional as F
import torch_geometric.nn as pyg
from torch import nn
from torch_geometric.nn import BatchNorm, GraphNorm, SAGEConv, global_mean_pool

from . import corpus_inputs as given
from .corpus_refused import refusing

CASES = []
warned = refusing(CASES)
C, G = given.CHANNELS, given.NUM_GRAPHS
padded = given.padded_batch()
parts = (padded.x, padded.edge_index, padded.batch, padded.y, padded.graphs_mask)


class Base(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.lin = SAGEConv(C, 16), nn.Linear(16, given.CLASSES)

    def pooled(self, x, edge_index, batch):
        return self.lin(global_mean_pool(self.conv(x, edge_index).relu(), batch, size=G))


@warned(*parts, training=True)
class UnmaskedClasses(Base):
    def forward(self, x, edge_index, batch, y, mask):
        out = self.pooled(x, edge_index, batch)
        return F.cross_entropy(out, y)  # <- warning: torch.where(data.graphs_mask, y, -100)


@warned(*parts, training=True)
class LastGraphCutOff(Base):
    """Right as long as a batch holds one padding graph, and no longer."""

    def forward(self, x, edge_index, batch, y, mask):
        out = self.pooled(x, edge_index, batch)
        return F.cross_entropy(out[:-1], y[:-1])  # <- warning: graphs_mask -100


@warned(padded, training=True)
class UnmaskedRegression(Base):
    def forward(self, data):
        out = self.pooled(data.x, data.edge_index, data.batch)[:, 0]
        return F.mse_loss(out, data.y.float())  # <- warning: poptorch.identity_loss F.mse_loss graphs_mask


@warned(padded, training=True)
class UnmaskedBinary(Base):
    def forward(self, data):
        out = self.pooled(data.x, data.edge_index, data.batch)[:, 0]
        target = (data.y > 0).float()
        return F.binary_cross_entropy_with_logits(out, target)  # <- warning: identity_loss _with_logits(out,


@warned(padded, training=True)
class LossOnNodes(Base):
    def forward(self, data):
        out = self.lin(self.conv(data.x, data.edge_index))
        target = data.x[:, : given.CLASSES]
        return F.l1_loss(out, target)  # <- warning: identity_loss nodes_mask F.l1_loss


@warned(*parts, training=True)
class Centred(Base):
    def forward(self, x, edge_index, batch, y, mask):
        x = x - x.mean(dim=0)  # <- warning: nodes_mask
        out = self.pooled(x, edge_index, batch)
        return F.cross_entropy(out, torch.where(mask, y, -100))


@warned(*parts, training=True)
class CentredInTwoSteps(Base):
    def forward(self, x, edge_index, batch, y, mask):
        mean = x.mean(dim=0)  # <- warning: nodes_mask
        deviation = x - mean
        out = self.pooled(deviation, edge_index, batch)
        return F.cross_entropy(out, torch.where(mask, y, -100))


@warned(padded)
class ReadoutOfAll(Base):
    """One vector for the whole batch."""

    def forward(self, data):
        x = self.conv(data.x, data.edge_index)
        return self.lin(x.mean(dim=0))  # <- warning: global_mean_pool


@warned(padded)
class LargestOfAll(Base):
    def forward(self, data):
        x = self.conv(data.x, data.edge_index)
        return x / x.amax(dim=0)  # <- warning: nodes_mask


@warned(*parts, training=True)
class SoftmaxOverAll(Base):
    def forward(self, x, edge_index, batch, y, mask):
        x = self.conv(x, edge_index)
        x = x.softmax(dim=0)  # <- warning: torch_geometric.utils.softmax
        out = self.lin(global_mean_pool(x, batch, size=G))
        return F.cross_entropy(out, torch.where(mask, y, -100))


@warned(padded)
class AttentionOverAll(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(C, 2, batch_first=True)

    def forward(self, data):
        rows = data.x.unsqueeze(0)
        out, _ = self.attention(rows, rows, rows)  # <- warning: key_padding_mask
        return out.squeeze(0)


@warned(padded, training=True)
class BatchNormOverPadding(Base):
    """A GIN-like classifier whose statistics the padding nodes would pollute."""

    def __init__(self):
        super().__init__()
        self.norm = BatchNorm(16)
        self.mlp = nn.Sequential(nn.Linear(16, 16), nn.BatchNorm1d(16), nn.ReLU(), self.lin)

    def forward(self, data):
        x = self.norm(self.conv(data.x, data.edge_index)).relu()  # <- warning: MaskedBatchNorm nodes_mask
        x = global_mean_pool(x, data.batch, size=given.NUM_GRAPHS)
        out = self.mlp(x)  # <- warning: MaskedBatchNorm graphs_mask
        return F.cross_entropy(out, torch.where(data.graphs_mask, data.y, -100))


@warned(padded.x, padded.edge_index, training=True)
class BatchNormOverPaddedTensors(Base):
    """The same seen from the edge list alone, which ends in repeated self-loops."""

    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(16)
        self.register_buffer("real", torch.arange(given.NUM_NODES) < 8)

    def forward(self, x, edge_index):
        out = self.lin(self.norm(self.conv(x, edge_index)))  # <- warning: MaskedBatchNorm
        return F.cross_entropy(out, torch.where(self.real, 1, -100))


@warned(padded)
class GraphNormWithoutBatch(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = GraphNorm(C)

    def forward(self, data):
        return self.norm(data.x)  # <- warning: batch=data.batch GraphNorm


@warned(padded)
class LayerNormOverTheGraph(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = pyg.LayerNorm(C)

    def forward(self, data):
        return self.norm(data.x)  # <- warning: batch=data.batch LayerNorm


@warned(padded, training=True)
class AccuracyOverAll(Base):
    """The loss is masked, and the accuracy beside it counts padding graphs."""

    def forward(self, data):
        out = self.pooled(data.x, data.edge_index, data.batch)
        loss = F.cross_entropy(out, torch.where(data.graphs_mask, data.y, -100))
        right = out[:, :1] + data.y.unsqueeze(-1)
        return loss, right.mean()  # <- warning: graphs_mask


@warned(given.x)
class DropoutInEvaluation(nn.Module):
    def forward(self, x):
        return F.dropout(x, 0.5)  # <- warning: training=self.training


@warned(given.x, given.y, training=True)
class IdleLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(C, given.CLASSES)
        self.unused = nn.Linear(C, C)

    def forward(self, x, y):  # <- warning: freeze
        return F.cross_entropy(self.lin(x), y)


@warned(padded, training=True)
class RootOfZero(nn.Module):
    """Distances along padding edges are zero, and a root has no derivative there."""

    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(C, 3)

    def forward(self, data):
        pos = self.lin(data.x)
        row, col = data.edge_index
        squared = (pos[row] - pos[col]).square().sum(dim=-1)
        length = squared.sqrt()  # <- warning: 1e-12
        length = global_mean_pool(length, data.batch[row], size=G)
        target = torch.where(data.graphs_mask, length.detach() * 2, length)
        return F.mse_loss(length, target)


@warned(given.x, given.y, training=True)
class HalvedAfterwards(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(C, given.CLASSES)

    def forward(self, x, y):
        loss = F.cross_entropy(self.lin(x), y)
        return loss / 2  # <- warning: identity_loss
