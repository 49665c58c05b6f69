"""Models that an IPU accepts: the check must not find anything in them."""

import logging
import math
import warnings

import numpy as np
import torch
import torch.nn.functional as F
import torch_geometric.nn as pyg
from torch import nn
from torch_geometric.nn import (
    BatchNorm,
    CGConv,
    GATConv,
    GATv2Conv,
    GCNConv,
    GINConv,
    GINEConv,
    HeteroConv,
    HGTConv,
    JumpingKnowledge,
    LayerNorm,
    Linear,
    MessagePassing,
    NNConv,
    PNAConv,
    RGCNConv,
    SAGEConv,
    TransformerConv,
    global_add_pool,
    global_max_pool,
    global_mean_pool,
    to_hetero,
)
from torch_geometric.utils import (
    add_self_loops,
    degree,
    one_hot,
    scatter,
    softmax,
    to_dense_adj,
    to_dense_batch,
)

from gnn_ipu_helpers import poptorch
from gnn_ipu_helpers.porting import MaskedBatchNorm

from . import corpus_inputs as given

CASES = []
logger = logging.getLogger(__name__)


def accepted(*inputs, training=False, **kwargs):
    """Put the decorated class in the corpus, to be built without arguments and called with `inputs`."""

    def register(model):
        CASES.append((model, inputs, kwargs, training))
        return model

    return register


@accepted(given.x, given.edge_index, given.y, given.mask, training=True)
class PortedGCN(nn.Module):
    """Node classification with the loss inside and labels of -100 where there is nothing to learn."""

    def __init__(self):
        super().__init__()
        self.conv1 = GCNConv(given.CHANNELS, 16, add_self_loops=False)
        self.conv2 = GCNConv(16, given.CLASSES, add_self_loops=False)

    def forward(self, x, edge_index, y, train_mask):
        x = self.conv1(x, edge_index).relu()
        x = F.dropout(x, p=0.5, training=self.training)
        out = self.conv2(x, edge_index).log_softmax(dim=-1)
        if self.training:
            return F.nll_loss(out, torch.where(train_mask, y, -100))
        return out


@accepted(given.padded_batch(), training=True)
class PortedGIN(nn.Module):
    """Graph classification on a padded batch: masked statistics, pooling with size, masked loss."""

    def __init__(self):
        super().__init__()
        mlp = nn.Sequential(nn.Linear(given.CHANNELS, 16), nn.ReLU(), nn.Linear(16, 16))
        self.conv = GINConv(mlp, train_eps=True)
        self.norm = MaskedBatchNorm(16)
        self.lin = nn.Linear(16, given.CLASSES)

    def forward(self, data):
        x = self.norm(self.conv(data.x, data.edge_index), data.nodes_mask).relu()
        out = self.lin(global_mean_pool(x, data.batch, size=given.NUM_GRAPHS))
        target = torch.where(data.graphs_mask, data.y, -100)
        return out, F.cross_entropy(out, target, ignore_index=-100)


@accepted(given.x, given.edge_index)
class DeepSAGE(nn.Module):
    """A list of layers with residual connections."""

    def __init__(self):
        super().__init__()
        self.convs = nn.ModuleList(SAGEConv(given.CHANNELS, given.CHANNELS) for _ in range(3))
        self.norms = nn.ModuleList(nn.LayerNorm(given.CHANNELS) for _ in range(3))

    def forward(self, x, edge_index):
        for conv, norm in zip(self.convs, self.norms):
            x = x + norm(conv(x, edge_index)).relu()
        return x


@accepted(given.x, given.edge_index)
class AttentionHeads(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = GATConv(given.CHANNELS, 4, heads=2, add_self_loops=False)
        self.conv2 = GATv2Conv(8, given.CLASSES, heads=2, concat=False, add_self_loops=False)

    def forward(self, x, edge_index):
        x = F.elu(self.conv1(x, edge_index))
        x, (_, alpha) = self.conv2(x, edge_index, return_attention_weights=True)
        return x, alpha


@accepted(given.x, given.edge_index, given.batch)
class JumpingKnowledgeNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.convs = nn.ModuleList(SAGEConv(given.CHANNELS, given.CHANNELS) for _ in range(2))
        self.jump = JumpingKnowledge("lstm", given.CHANNELS, 2)

    def forward(self, x, edge_index, batch):
        outputs = []
        for conv in self.convs:
            x = F.relu(conv(x, edge_index))
            outputs.append(x)
        return global_add_pool(self.jump(outputs), batch, size=given.NUM_GRAPHS)


@accepted(given.x, given.edge_index, given.edge_attr)
class EdgeFeatures(nn.Module):
    """Layers that use edge attributes: NNConv, GINEConv, CGConv."""

    def __init__(self):
        super().__init__()
        size = given.CHANNELS
        self.conv1 = NNConv(
            size, size, nn.Sequential(nn.Linear(size, 16), nn.ReLU(), nn.Linear(16, size * size))
        )
        self.conv2 = GINEConv(nn.Linear(size, size), edge_dim=size)
        self.conv3 = CGConv(size, dim=size)

    def forward(self, x, edge_index, edge_attr):
        x = self.conv1(x, edge_index, edge_attr).relu()
        x = self.conv2(x, edge_index, edge_attr).relu()
        return self.conv3(x, edge_index, edge_attr)


@accepted({"x": given.x, "edge_index": given.edge_index, "y": given.y})
class DictInput(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = SAGEConv(given.CHANNELS, given.CLASSES)

    def forward(self, sample):
        out = self.conv(sample["x"], sample["edge_index"])
        return {"out": out, "loss": F.cross_entropy(out, sample["y"])}


@accepted(given.x_dict, given.edge_index_dict)
class HeteroLayers(nn.Module):
    """HeteroConv with another layer for each relation, and a loop over a dict of constant keys."""

    def __init__(self):
        super().__init__()
        plays, with_ = given.edge_index_dict
        self.conv = HeteroConv(
            {
                plays: GATConv((given.CHANNELS, given.CHANNELS), given.CHANNELS, add_self_loops=False),
                with_: SAGEConv((given.CHANNELS, given.CHANNELS), given.CHANNELS),
            }
        )
        self.lin = Linear(given.CHANNELS, given.CLASSES)

    def forward(self, x_dict, edge_index_dict):
        x_dict = self.conv(x_dict, edge_index_dict)
        x_dict = {key: F.leaky_relu(x) for key, x in x_dict.items()}
        return self.lin(x_dict["movie"])


@accepted(given.x_dict, given.edge_index_dict)
class HGT(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = HGTConv(given.CHANNELS, 16, given.metadata, heads=2)
        self.lin = nn.Linear(16, given.CLASSES)

    def forward(self, x_dict, edge_index_dict):
        return self.lin(self.conv(x_dict, edge_index_dict)["movie"])


@accepted(given.x_dict, given.edge_index_dict)
class ConvertedToHetero(nn.Module):
    def __init__(self):
        super().__init__()
        self.model = to_hetero(pyg.GraphSAGE(given.CHANNELS, 16, 2, given.CLASSES), given.metadata)

    def forward(self, x_dict, edge_index_dict):
        return self.model(x_dict, edge_index_dict)["movie"]


@accepted(given.x, given.edge_index, given.edge_type)
class Relational(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = RGCNConv(given.CHANNELS, 16, num_relations=3, num_bases=2)
        self.conv2 = RGCNConv(16, given.CLASSES, num_relations=3)

    def forward(self, x, edge_index, edge_type):
        x = self.conv1(x, edge_index, edge_type).relu()
        return self.conv2(x, edge_index, edge_type)


@accepted(given.x, given.mask)
class MaskingWithWhere(nn.Module):
    def forward(self, x, mask):
        kept = torch.where(mask.unsqueeze(-1), x, 0.0)
        filled = x.masked_fill(~mask.unsqueeze(-1), float("-inf")).amax(dim=0)
        return kept.sum(dim=0) / mask.sum().clamp(min=1), filled


@accepted(given.x, given.mask)
class MaskedAssignment(nn.Module):
    """Assigning a constant where a mask is True keeps all shapes."""

    def forward(self, x, mask):
        x = x.clone()
        x[mask] = 0.0
        x[:, 0] = 1.0
        return x


@accepted(given.x)
class ConstantTopK(nn.Module):
    def __init__(self):
        super().__init__()
        self.score = nn.Linear(given.CHANNELS, 1)

    def forward(self, x):
        score = self.score(x).squeeze(-1)
        values, order = torch.topk(score, k=5)
        return x[order] * values.sigmoid().unsqueeze(-1)


@accepted(given.x, given.edge_index, given.batch)
class DensePooling(nn.Module):
    """DiffPool on dense batches of fixed size."""

    def __init__(self):
        super().__init__()
        self.assign = pyg.DenseSAGEConv(given.CHANNELS, 2)
        self.embed = pyg.DenseSAGEConv(given.CHANNELS, given.CHANNELS)

    def forward(self, x, edge_index, batch):
        size = {"batch_size": given.NUM_GRAPHS, "max_num_nodes": 4}
        dense, mask = to_dense_batch(x, batch, **size)
        adj = to_dense_adj(edge_index, batch, **size)
        assignment = self.assign(dense, adj, mask)
        x, adj, link_loss, entropy = pyg.dense_diff_pool(self.embed(dense, adj, mask), adj, assignment, mask)
        return x.mean(dim=1), link_loss + entropy


@accepted(given.x, given.edge_index)
class OwnGCNLayer(MessagePassing):
    """PyG's tutorial layer with the number of nodes said."""

    def __init__(self):
        super().__init__(aggr="add")
        self.lin = nn.Linear(given.CHANNELS, given.CHANNELS, bias=False)

    def forward(self, x, edge_index):
        edge_index, _ = add_self_loops(edge_index, num_nodes=x.size(0))
        row, col = edge_index
        deg = degree(col, x.size(0), dtype=x.dtype)
        deg_inv_sqrt = deg.pow(-0.5)
        deg_inv_sqrt[deg_inv_sqrt == float("inf")] = 0
        return self.propagate(edge_index, x=self.lin(x), norm=deg_inv_sqrt[row] * deg_inv_sqrt[col])

    def message(self, x_j, norm):
        return norm.view(-1, 1) * x_j


@accepted(given.x, given.edge_index, given.edge_weight)
class OwnAttention(nn.Module):
    def forward(self, x, edge_index, edge_weight):
        row, col = edge_index
        num_nodes = x.size(0)
        alpha = softmax(edge_weight, col, num_nodes=num_nodes)
        return scatter(alpha.view(-1, 1) * x[row], col, dim=0, dim_size=num_nodes, reduce="sum")


@accepted(given.y, given.edge_index)
class Embeddings(nn.Module):
    """Categorical features through an embedding and a one-hot of fixed width."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(given.CLASSES, given.CHANNELS)
        self.conv = SAGEConv(given.CHANNELS + given.CLASSES, given.CHANNELS)

    def forward(self, kind, edge_index):
        hot = one_hot(kind, num_classes=given.CLASSES)
        return self.conv(torch.cat([self.embedding(kind), hot], dim=-1), edge_index)


@accepted(given.x, given.batch)
class SizesAndShapes(nn.Module):
    """Sizes of tensors are constants: Python may count, compare, branch and format with them."""

    def forward(self, x, batch):
        num_nodes, width = x.shape
        assert num_nodes == batch.numel(), f"{num_nodes} nodes but {batch.numel()} numbers of graphs"
        if num_nodes > 1 and x.dim() == 2:
            x = x / math.sqrt(width)
        for part in range(width // 4):
            x = x + part * torch.arange(num_nodes).view(-1, 1) / len(x)
        return torch.stack(list(x.split(num_nodes // 2))).mean(dim=0)


@accepted(given.x, given.edge_index, given.batch)
class SeveralReadouts(nn.Module):
    def __init__(self):
        super().__init__()
        self.num_graphs = given.NUM_GRAPHS
        self.readout = pyg.MultiAggregation(["mean", "std", pyg.SoftmaxAggregation(learn=True)])

    def forward(self, x, edge_index, batch):
        readouts = [
            global_max_pool(x, batch, self.num_graphs),
            self.readout(x, batch, dim_size=self.num_graphs),
        ]
        return torch.cat(readouts, dim=-1)


@accepted(given.x, given.batch)
class SetReadouts(nn.Module):
    """Aggregations that PyG guards with an assertion on the data."""

    def __init__(self):
        super().__init__()
        self.gru = pyg.GRUAggregation(given.CHANNELS, given.CHANNELS)
        self.median = pyg.MedianAggregation()
        self.sort = pyg.SortAggregation(k=3)

    def forward(self, x, batch):
        fixed = {"dim_size": given.NUM_GRAPHS, "max_num_elements": 4}
        ordered = self.sort(x, batch, **fixed)
        return torch.cat(
            [self.gru(x, batch, **fixed), self.median(x, batch, dim_size=given.NUM_GRAPHS), ordered], -1
        )


@accepted(given.x, given.edge_index, given.edge_attr, training=True)
class BatchNormWithoutPadding(nn.Module):
    """On one full graph there is no padding, and batch statistics are what they should be."""

    def __init__(self):
        super().__init__()
        self.conv = TransformerConv(given.CHANNELS, 4, heads=2, edge_dim=given.CHANNELS)
        self.norm = BatchNorm(8)

    def forward(self, x, edge_index, edge_attr):
        out = self.norm(self.conv(x, edge_index, edge_attr))
        return F.mse_loss(out, torch.zeros_like(out))


@accepted(given.padded_batch())
class BatchNormInEvaluation(nn.Module):
    """With running statistics padding pollutes nothing."""

    def __init__(self):
        super().__init__()
        self.norm = BatchNorm(given.CHANNELS)
        self.row_norm = LayerNorm(given.CHANNELS, mode="node")

    def forward(self, data):
        return self.row_norm(self.norm(data.x))


@accepted(given.x, given.batch)
class NormalisedPerGraph(nn.Module):
    def __init__(self):
        super().__init__()
        self.norms = nn.ModuleList(
            [pyg.GraphNorm(given.CHANNELS), pyg.LayerNorm(given.CHANNELS), pyg.PairNorm()]
        )

    def forward(self, x, batch):
        for norm in self.norms:
            x = norm(x, batch, batch_size=given.NUM_GRAPHS)
        return x


@accepted(given.x, given.edge_index)
class Aggregators(nn.Module):
    def __init__(self):
        super().__init__()
        histogram = torch.tensor([0, 0, 0, given.NUM_NODES])
        self.conv = PNAConv(
            given.CHANNELS, 8, ["mean", "min", "max", "std"], ["identity", "attenuation"], histogram
        )

    def forward(self, x, edge_index):
        return self.conv(x, edge_index)


@accepted(given.pos, given.batch)
class PointCloud(nn.Module):
    """Neighbours found inside the model, without pyg-lib."""

    def __init__(self):
        super().__init__()
        self.conv = SAGEConv(3, given.CHANNELS)

    def forward(self, pos, batch):
        edge_index = pyg.knn_graph(pos, k=3, batch=batch)
        return global_max_pool(self.conv(pos, edge_index), batch, size=given.NUM_GRAPHS)


@accepted(given.x, given.edge_index)
class HostSideWords(nn.Module):
    """Constants may be printed, logged, warned about and computed with NumPy: that happens while tracing."""

    def __init__(self):
        super().__init__()
        self.scale = float(np.sqrt(given.CHANNELS))

    def forward(self, x, edge_index):
        print("tracing", x.shape)
        logger.info("nodes: %d", x.size(0))
        if x.size(0) < 3:
            warnings.warn("a very small graph", stacklevel=2)
        print(f"{x.size(0)} nodes of {x.dtype}, edges {tuple(edge_index.shape)}")
        frequencies = torch.from_numpy(np.arange(given.CHANNELS, dtype=np.float32))
        return x / self.scale * frequencies * np.sqrt(2.0)


@accepted(given.x, given.y, training=True)
class CustomLoss(nn.Module):
    """A loss of several parts, with a buffer and a clamp."""

    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(given.CHANNELS, given.CLASSES)
        self.register_buffer("weights", torch.tensor([1.0, 2.0, 1.0, 0.5]))

    def forward(self, x, y):
        out = self.lin(x)
        nll = F.cross_entropy(out, y, weight=self.weights)
        penalty = sum(p.square().sum() for p in self.parameters())
        return out, poptorch.identity_loss(nll + 1e-4 * penalty.clamp(max=10.0), reduction="none")


@accepted(given.x, given.edge_index, num_layers=2)
class KeywordsAndDefaults(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = pyg.APPNP(K=3, alpha=0.1, add_self_loops=False)

    def forward(self, x, edge_index, edge_weight=None, num_layers=1):
        for _ in range(num_layers):
            x = self.conv(x, edge_index, edge_weight)
        return x if edge_weight is None else x * edge_weight.mean()


@accepted(given.x)
class ConvolutionalNet(nn.Module):
    """No graph at all: the appendix's CNN, with batch statistics over images."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(1, 4, 3, padding=1),
            nn.BatchNorm2d(4),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(16, 2),
        )

    def forward(self, x):
        return self.net(x.view(-1, 1, 4, 4)[:6])


@accepted(given.padded_batch())
class AsksItsData(nn.Module):
    """Sizes that a data object knows from the shapes of its tensors, and attributes that it may lack."""

    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(given.CHANNELS, given.CLASSES)

    def forward(self, data):
        x = self.lin(data.x) / data.num_nodes + degree(data.edge_index[0], data.num_nodes).unsqueeze(1)
        weight = data.get("edge_weight")
        if weight is not None or "pos" in data:
            x = x * 2
        x = x + torch.arange(data.size(0)).unsqueeze(1) * data.num_edges * data.num_features
        return global_add_pool(x, data.batch, size=data.num_graphs)


@accepted(given.padded_batch())
class AssignsToItsData(nn.Module):
    """Layers that hand their result on in the data object."""

    def __init__(self):
        super().__init__()
        self.convs = nn.ModuleList([SAGEConv(given.CHANNELS, given.CHANNELS) for _ in range(2)])

    def forward(self, data):
        for conv in self.convs:
            data.x = conv(data.x, data.edge_index).relu()
        return global_mean_pool(data.x, data.batch, size=data.num_graphs)
