"""Models that an IPU refuses. The line that the check must name ends in `# <- finding:` and words of its
remedy."""

import numpy as np
import torch
import torch.nn.functional as F
import torch_geometric.transforms as T
from torch import nn
from torch_geometric.nn import (
    GCN,
    ASAPooling,
    EdgePooling,
    GATConv,
    GCNConv,
    GraphConv,
    GraphNorm,
    GRUAggregation,
    LayerNorm,
    MeanAggregation,
    MessagePassing,
    SAGEConv,
    SAGPooling,
    Sequential,
    TopKPooling,
    global_add_pool,
    global_max_pool,
    global_mean_pool,
)
from torch_geometric.utils import (
    add_self_loops,
    coalesce,
    degree,
    dense_to_sparse,
    dropout_edge,
    remove_self_loops,
    scatter,
    softmax,
    subgraph,
    to_dense_adj,
    to_dense_batch,
    to_undirected,
)

from . import corpus_inputs as given

CASES = []


def refusing(cases):
    """A decorator that puts a class in `cases`, to be built without arguments and called with `inputs`."""

    def refused(*inputs, training=False, **kwargs):
        def register(model):
            cases.append((model, inputs, kwargs, training))
            return model

        return register

    return refused


refused = refusing(CASES)


@refused(given.x, given.edge_index, given.y, given.mask, training=True)
class CoraStyleTraining(nn.Module):
    """Semi-supervised node classification as the PyG introduction writes it."""

    def __init__(self):
        super().__init__()
        self.conv = SAGEConv(given.CHANNELS, given.CLASSES)

    def forward(self, x, edge_index, y, train_mask):
        out = self.conv(x, edge_index)
        return F.cross_entropy(out[train_mask], y[train_mask])  # <- finding: torch.where -100


@refused(given.x, given.edge_index)
class DefaultGCN(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = GCNConv(given.CHANNELS, 16)
        self.conv2 = GCNConv(16, given.CLASSES)

    def forward(self, x, edge_index):
        x = self.conv1(x, edge_index).relu()  # <- finding: GCNConv add_self_loops=False AddSelfLoops
        x = F.dropout(x, training=self.training)
        return self.conv2(x, edge_index).log_softmax(dim=-1)  # <- finding: add_self_loops=False


@refused(given.x, given.edge_index)
class DefaultGAT(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = GATConv(given.CHANNELS, 4, heads=2)

    def forward(self, x, edge_index):
        return F.elu(self.conv(x, edge_index))  # <- finding: GATConv add_self_loops=False


@refused(given.x, given.edge_index)
class WrappedReadyMadeModel(nn.Module):
    """A ready-made model of PyG behind a wrapper."""

    def __init__(self):
        super().__init__()
        self.gcn = GCN(given.CHANNELS, 16, 2, given.CLASSES)

    def forward(self, x, edge_index):
        return self.gcn(x, edge_index)  # <- finding: add_self_loops=False


@refused(given.x, given.edge_index, given.batch)
class GraphClassifier(nn.Module):
    """MUTAG's tutorial model: the number of graphs comes from `batch`."""

    def __init__(self):
        super().__init__()
        self.conv1 = GraphConv(given.CHANNELS, 16)
        self.conv2 = GraphConv(16, 16)
        self.lin = nn.Linear(16, given.CLASSES)

    def forward(self, x, edge_index, batch):
        x = self.conv1(x, edge_index).relu()
        x = self.conv2(x, edge_index).relu()
        x = global_mean_pool(x, batch)  # <- finding: size= global_mean_pool
        return self.lin(x)


@refused(given.x, given.batch)
class SeveralReadouts(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(3 * given.CHANNELS, given.CLASSES)

    def forward(self, x, batch):
        parts = [
            global_add_pool(x, batch),  # <- finding: size= global_add_pool
            global_max_pool(x, batch),  # <- finding: size= global_max_pool
            global_mean_pool(x, batch),  # <- finding: size= global_mean_pool
        ]
        return self.lin(torch.cat(parts, dim=-1))


@refused(given.x, given.batch)
class AggregationModule(nn.Module):
    def __init__(self):
        super().__init__()
        self.readout = MeanAggregation()

    def forward(self, x, batch):
        return self.readout(x, batch)  # <- finding: dim_size= MeanAggregation


@refused(given.x, given.batch)
class RecurrentReadout(nn.Module):
    def __init__(self):
        super().__init__()
        self.readout = GRUAggregation(given.CHANNELS, given.CHANNELS)

    def forward(self, x, batch):
        return self.readout(x, batch, dim_size=given.NUM_GRAPHS)  # <- finding: max_num_elements=


@refused(given.x, given.edge_index, given.batch)
class HierarchicalPooling(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = GraphConv(given.CHANNELS, given.CHANNELS)
        self.pool = TopKPooling(given.CHANNELS, ratio=0.8)

    def forward(self, x, edge_index, batch):
        x = F.relu(self.conv(x, edge_index))
        pooled = self.pool(x, edge_index, None, batch)  # <- finding: fixed size
        x, batch = pooled[0], pooled[3]
        return global_mean_pool(x, batch, size=given.NUM_GRAPHS)


@refused(given.x, given.edge_index, given.batch)
class SelfAttentionPooling(nn.Module):
    def __init__(self):
        super().__init__()
        self.pool = SAGPooling(given.CHANNELS)

    def forward(self, x, edge_index, batch):
        return self.pool(x, edge_index, batch=batch)[0]  # <- finding: fixed size


@refused(given.x, given.edge_index, given.batch)
class EdgeContraction(nn.Module):
    def __init__(self):
        super().__init__()
        self.pool = EdgePooling(given.CHANNELS)

    def forward(self, x, edge_index, batch):
        x, edge_index, batch, _ = self.pool(x, edge_index, batch)  # <- finding: fixed size
        return x


@refused(given.x, given.edge_index)
class AdaptiveStructurePooling(nn.Module):
    def __init__(self):
        super().__init__()
        self.pool = ASAPooling(given.CHANNELS)

    def forward(self, x, edge_index):
        return self.pool(x, edge_index)[0]  # <- finding: fixed size


@refused(given.x)
class ClipWhenLarge(nn.Module):
    """Branching on a tensor."""

    def forward(self, x):
        norm = x.norm()
        if norm > 1.0:  # <- finding: torch.where
            x = x / norm
        return x


@refused(given.x)
class EarlyExit(nn.Module):
    """A branch, and behind it more that a trace alone would never reach."""

    def forward(self, x):
        while x.abs().max() > 1.0:  # <- finding: torch.where
            x = x * 0.5
        positive = x[x > 0]  # <- finding: torch.where
        return positive.sum() + int(x.argmax())  # <- finding: stay with the tensor


@refused(given.x)
class ScaledByItem(nn.Module):
    def forward(self, x):
        scale = x.abs().max().item()  # <- finding: stay with the tensor
        return x / scale


@refused(given.x, given.batch)
class LoopOverGraphs(nn.Module):
    """One graph after the other, as many as the data say."""

    def forward(self, x, batch):
        results = []
        for graph in range(int(batch.max()) + 1):  # <- finding: constant
            results.append(x[batch == graph].mean(dim=0))  # <- finding: torch.where
        return torch.stack(results)


@refused(given.x, given.mask)
class NonzeroIndices(nn.Module):
    def forward(self, x, mask):
        chosen = mask.nonzero().view(-1)  # <- finding: topk
        return x.index_select(0, chosen)


@refused(given.x)
class WhereWithOneArgument(nn.Module):
    def forward(self, x):
        rows = torch.where(x[:, 0] > 0)[0]  # <- finding: torch.where(mask, a, b)
        return x[rows].sum(dim=0)


@refused(given.x, given.batch)
class UniqueTypes(nn.Module):
    def forward(self, x, batch):
        kinds = torch.unique(batch)  # <- finding: loader
        return x.sum() * kinds.numel()


@refused(given.x, given.mask)
class MaskedSelect(nn.Module):
    def forward(self, x, mask):
        return torch.masked_select(x[:, 0], mask).mean()  # <- finding: torch.where(mask, x, 0)


@refused(given.x, given.batch)
class RepeatByCount(nn.Module):
    """Graph features spread to nodes by counts instead of by index."""

    def forward(self, x, batch):
        counts = degree(batch, given.NUM_GRAPHS, dtype=torch.long)
        pooled = global_mean_pool(x, batch, size=given.NUM_GRAPHS)
        return x + pooled.repeat_interleave(counts, dim=0)  # <- finding: output_size=


@refused(given.x, given.edge_index)
class OwnMessagePassing(MessagePassing):
    """The GCN layer of PyG's tutorial on message passing, with the number of nodes left open."""

    def __init__(self):
        super().__init__(aggr="add")
        self.lin = nn.Linear(given.CHANNELS, given.CHANNELS, bias=False)

    def forward(self, x, edge_index):
        edge_index, _ = add_self_loops(edge_index)  # <- finding: num_nodes=
        row, col = edge_index
        deg = degree(col, x.size(0), dtype=x.dtype)
        norm = deg.pow(-0.5)[row] * deg.pow(-0.5)[col]
        return self.propagate(edge_index, x=self.lin(x), norm=norm)

    def message(self, x_j, norm):
        return norm.view(-1, 1) * x_j


@refused(given.x, given.edge_index, given.edge_weight)
class OwnAttention(nn.Module):
    def forward(self, x, edge_index, edge_weight):
        row, col = edge_index
        alpha = softmax(edge_weight, col)  # <- finding: num_nodes= softmax
        return scatter(alpha.view(-1, 1) * x[row], col, dim=0, reduce="sum")  # <- finding: dim_size= scatter


@refused(given.edge_index)
class DegreeFeatures(nn.Module):
    def forward(self, edge_index):
        return degree(edge_index[1]).log1p()  # <- finding: num_nodes= degree


@refused(given.x, given.batch)
class DenseTransformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(given.CHANNELS, 2, batch_first=True)

    def forward(self, x, batch):
        dense, mask = to_dense_batch(x, batch)  # <- finding: max_num_nodes= batch_size=
        out, _ = self.attention(dense, dense, dense, key_padding_mask=~mask)
        return out[mask]  # <- finding: torch.where


@refused(given.x, given.edge_index, given.batch)
class DenseAdjacency(nn.Module):
    def forward(self, x, edge_index, batch):
        adj = to_dense_adj(edge_index, batch)  # <- finding: max_num_nodes=
        return adj.sum(dim=-1)


@refused(given.x, given.edge_index)
class CleansEdgesInside(nn.Module):
    """Data preparation that belongs in a transform."""

    def __init__(self):
        super().__init__()
        self.conv = SAGEConv(given.CHANNELS, given.CHANNELS)

    def forward(self, x, edge_index):
        edge_index, _ = remove_self_loops(edge_index)  # <- finding: pre_transform
        edge_index = to_undirected(edge_index)  # <- finding: pre_transform
        edge_index = coalesce(edge_index)  # <- finding: pre_transform
        return self.conv(x, edge_index)


@refused(given.x, given.edge_index, given.mask)
class InducedSubgraph(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = SAGEConv(given.CHANNELS, given.CHANNELS)

    def forward(self, x, edge_index, mask):
        edge_index, _ = subgraph(mask, edge_index)  # <- finding: pre_transform
        return self.conv(x, edge_index)


@refused(given.x, given.edge_index, training=True)
class EdgeDropout(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = SAGEConv(given.CHANNELS, given.CHANNELS)

    def forward(self, x, edge_index):
        edge_index, _ = dropout_edge(edge_index, p=0.2, training=self.training)  # <- finding: random 0/1 mask
        out = self.conv(x, edge_index)
        return F.mse_loss(out, torch.zeros_like(out))


@refused(given.x)
class LearnedGraph(nn.Module):
    """Edges where two nodes are similar enough."""

    def forward(self, x):
        similarity = x @ x.t()
        edge_index, weight = dense_to_sparse((similarity > 0.5).float())  # <- finding: pre_transform
        return weight.sum()


@refused(given.x)
class PrintsItsMean(nn.Module):
    def forward(self, x):
        print("mean of the batch", x.mean())  # <- finding: print
        return x * 2


@refused(given.x)
class ThroughNumpy(nn.Module):
    def forward(self, x):
        scale = np.abs(x.detach().numpy()).max()  # <- finding: torch function
        return x / scale


@refused(given.x)
class FormatsItsMean(nn.Module):
    """A print with a tensor inside the text, among prints of constants."""

    def forward(self, x):
        print(f"shape {tuple(x.shape)} of {x.dtype}")
        print(f"mean {x.mean():.3f}")  # <- finding: print
        return x * 2


@refused(given.x)
class NumpyAndBack(nn.Module):
    def forward(self, x):
        values = x.numpy()  # <- finding: torch function
        return torch.from_numpy(values) * 2


@refused(given.x, given.y)
class CountsClasses(nn.Module):
    """A one-hot as wide as the largest label, and sizes made of it."""

    def forward(self, x, y):
        hot = F.one_hot(y).float()  # <- finding: num_classes=
        largest = y.max()
        first = x[: largest + 1]  # <- finding: use a constant
        return hot.sum() + first.sum() + x[largest].sum()  # <- finding: index_select


@refused(given.x, given.batch)
class ThroughAList(nn.Module):
    def forward(self, x, batch):
        sizes = batch.bincount(minlength=given.NUM_GRAPHS).tolist()  # <- finding: degree
        return torch.stack([part.mean(dim=0) for part in x.split(sizes)])


@refused(given.x)
class AssertsOnData(nn.Module):
    def forward(self, x):
        assert x.abs().max() < 100, "features must be scaled"  # <- finding: host
        return x * 2


@refused(given.x, given.edge_index, given.batch)
class NormalisedPerGraph(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = SAGEConv(given.CHANNELS, given.CHANNELS)
        self.graph_norm = GraphNorm(given.CHANNELS)
        self.layer_norm = LayerNorm(given.CHANNELS)

    def forward(self, x, edge_index, batch):
        x = self.graph_norm(self.conv(x, edge_index), batch)  # <- finding: batch_size= GraphNorm
        return self.layer_norm(x, batch)  # <- finding: batch_size= LayerNorm


@refused(given.x, given.edge_index, training=True)
class LossOutsideForward(nn.Module):
    """A model whose training loop computes the loss."""

    def __init__(self):
        super().__init__()
        self.conv = SAGEConv(given.CHANNELS, given.CLASSES)

    def forward(self, x, edge_index):
        x = self.conv(x, edge_index)
        return F.log_softmax(x, dim=-1)  # <- finding: return the loss


@refused(given.x, given.edge_index, given.batch)
class SequentialWithPool(nn.Module):
    """Layers in a `Sequential` of PyG, whose forward is generated code."""

    def __init__(self):
        super().__init__()
        self.layers = Sequential(
            "x, edge_index, batch",
            [
                (SAGEConv(given.CHANNELS, given.CHANNELS), "x, edge_index -> x"),
                nn.ReLU(),
                (global_mean_pool, "x, batch -> x"),
            ],
        )

    def forward(self, x, edge_index, batch):
        return self.layers(x, edge_index, batch)  # <- finding: size=


@refused(given.x_dict, given.edge_index_dict)
class LazyHetero(nn.Module):
    """Lazy layers that have seen no data yet, one of which adds self-loops."""

    def __init__(self):
        super().__init__()
        self.to_movie = GATConv((-1, -1), 4)
        self.to_actor = SAGEConv((-1, -1), 4)

    def forward(self, x_dict, edge_index_dict):  # <- finding: torch.no_grad()
        movie, actor = x_dict["movie"], x_dict["actor"]
        plays, back = edge_index_dict.values()
        movies = self.to_movie((actor, movie), plays)  # <- finding: GATConv add_self_loops=False
        return {"movie": movies, "actor": self.to_actor((movie, actor), back)}


@refused(given.x, given.edge_index, given.batch, given.graph_y, training=True)
class NestedHelpers(nn.Module):
    """The cause sits in a helper function of the user's, called from a submodule."""

    class Head(nn.Module):
        def __init__(self):
            super().__init__()
            self.lin = nn.Linear(given.CHANNELS, given.CLASSES)

        def forward(self, x, batch):
            return self.lin(_readout(x, batch))

    def __init__(self):
        super().__init__()
        self.conv = SAGEConv(given.CHANNELS, given.CHANNELS)
        self.head = NestedHelpers.Head()

    def forward(self, x, edge_index, batch, y):
        return F.cross_entropy(self.head(self.conv(x, edge_index), batch), y)


def _readout(x, batch):
    return global_add_pool(x, batch)  # <- finding of NestedHelpers: size=


@refused(given.padded_batch())
class CopiesItsData(nn.Module):
    """A data object copied in the model: the tensors are all that it needs."""

    def forward(self, data):
        data = data.clone()  # <- finding: x = data.x before the call
        return data.x * 2


@refused(given.padded_batch())
class TransformsItsData(nn.Module):
    """A transform belongs to the dataset."""

    def __init__(self):
        super().__init__()
        self.transform = T.NormalizeFeatures()

    def forward(self, data):
        return self.transform(data).x  # <- finding: dataset pre_transform


@refused(given.x, given.pos)
class ForcesFromEnergy(nn.Module):
    """A derivative of the output, as potentials for molecules have it."""

    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(given.CHANNELS + 3, 1)

    def forward(self, x, pos):
        pos = pos.requires_grad_(True)  # <- finding: formula host
        energy = self.lin(torch.cat([x, pos], dim=1)).tanh().sum()
        return -torch.autograd.grad(energy, pos)[0]  # <- finding: formula host


@refused(given.x, given.y, training=True)
class StepsByItself(nn.Module):
    """The training loop's lines moved into the model."""

    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(given.CHANNELS, given.CLASSES)

    def forward(self, x, y):
        loss = F.cross_entropy(self.lin(x), y)
        loss.backward()  # <- finding: return the loss leave backward to the device
        return loss
