"""PyG's layers train compiled as they do in eager PyTorch, parameter by parameter."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch_geometric import nn

from gnn_ipu_helpers import check
from gnn_ipu_helpers import poptorch_cpu as poptorch

from .side_by_side import assert_trains_like_eager

NODES, EDGES, FEATURES, HIDDEN, RELATIONS, GRAPHS = 12, 30, 8, 6, 3, 3


def _mlp(features=FEATURES, hidden=HIDDEN):
    return torch.nn.Sequential(
        torch.nn.Linear(features, hidden), torch.nn.ReLU(), torch.nn.Linear(hidden, hidden)
    )


# Called with features and edges.
PLAIN = {
    "GCNConv": lambda: nn.GCNConv(FEATURES, HIDDEN, add_self_loops=False),
    "ChebConv": lambda: nn.ChebConv(FEATURES, HIDDEN, K=2),
    "SAGEConv": lambda: nn.SAGEConv(FEATURES, HIDDEN),
    "GraphConv": lambda: nn.GraphConv(FEATURES, HIDDEN),
    "GatedGraphConv": lambda: nn.GatedGraphConv(FEATURES, num_layers=2),
    "ResGatedGraphConv": lambda: nn.ResGatedGraphConv(FEATURES, HIDDEN),
    "GATConv": lambda: nn.GATConv(FEATURES, HIDDEN, heads=2, add_self_loops=False),
    "GATv2Conv": lambda: nn.GATv2Conv(FEATURES, HIDDEN, add_self_loops=False),
    "TransformerConv": lambda: nn.TransformerConv(FEATURES, HIDDEN),
    "TAGConv": lambda: nn.TAGConv(FEATURES, HIDDEN, K=2),
    "ARMAConv": lambda: nn.ARMAConv(FEATURES, HIDDEN),
    "SGConv": lambda: nn.SGConv(FEATURES, HIDDEN, K=2, add_self_loops=False),
    "SSGConv": lambda: nn.SSGConv(FEATURES, HIDDEN, alpha=0.1, K=2, add_self_loops=False),
    "GINConv": lambda: nn.GINConv(_mlp()),
    "EdgeConv": lambda: nn.EdgeConv(_mlp(2 * FEATURES)),
    "FeaStConv": lambda: nn.FeaStConv(FEATURES, HIDDEN, heads=2, add_self_loops=False),
    "LEConv": lambda: nn.LEConv(FEATURES, HIDDEN),
    "GENConv": lambda: nn.GENConv(FEATURES, HIDDEN, norm="layer"),
    "FiLMConv": lambda: nn.FiLMConv(FEATURES, HIDDEN),
    "EGConv": lambda: nn.EGConv(FEATURES, HIDDEN, num_heads=2, num_bases=2, add_self_loops=False),
    "GeneralConv": lambda: nn.GeneralConv(FEATURES, HIDDEN),
    "MFConv": lambda: nn.MFConv(FEATURES, HIDDEN, max_degree=4),
    "AntiSymmetricConv": lambda: nn.AntiSymmetricConv(
        FEATURES, phi=nn.GCNConv(FEATURES, FEATURES, add_self_loops=False)
    ),
    "GraphSAGE": lambda: nn.GraphSAGE(FEATURES, HIDDEN, num_layers=2),
}

# Called with features, edges and edge features.
WITH_EDGE_FEATURES = {
    "NNConv": lambda: nn.NNConv(FEATURES, HIDDEN, _mlp(4, FEATURES * HIDDEN)),
    "CGConv": lambda: nn.CGConv(FEATURES, dim=4),
    "GINEConv": lambda: nn.GINEConv(_mlp(), edge_dim=4),
    "GMMConv": lambda: nn.GMMConv(FEATURES, HIDDEN, dim=4, kernel_size=2),
}


def _rgat():
    """RGATConv with every weight filled: PyG leaves one as it comes from memory, which may be NaN."""
    layer = nn.RGATConv(FEATURES, HIDDEN, RELATIONS)
    torch.nn.init.uniform_(layer.l2)
    return layer


# Called with features, edges and the relation of each edge.
RELATIONAL = {
    "RGCNConv": lambda: nn.RGCNConv(FEATURES, HIDDEN, RELATIONS),
    "RGATConv": _rgat,
}

# Called with features and the graph of each node.
NORMS = {
    "BatchNorm": lambda: nn.BatchNorm(FEATURES),
    "LayerNorm": lambda: nn.LayerNorm(FEATURES, mode="node"),
    "PairNorm": lambda: nn.PairNorm(),
}

# Called with features, the graph of each node, and the number of graphs.
POOLS = {
    "global_mean_pool": nn.global_mean_pool,
    "global_max_pool": nn.global_max_pool,
    "global_add_pool": nn.global_add_pool,
    "SoftmaxAggregation": nn.SoftmaxAggregation(learn=True),
    "PowerMeanAggregation": nn.PowerMeanAggregation(learn=True),
    "Set2Set": nn.Set2Set(FEATURES, processing_steps=2),
}


class _Readout(torch.nn.Module):
    """A linear layer before and after the layer under test, and the loss."""

    def __init__(self, layer):
        super().__init__()
        self.encode = torch.nn.Linear(FEATURES, FEATURES)
        self.layer = layer
        self.decode = torch.nn.LazyLinear(2)

    def forward(self, x, target, *others):
        out = self.decode(self.layer(self.encode(x), *others))
        return F.mse_loss(out, target)


def _assert_layer_trains(layer, *others, rows=NODES):
    model = _Readout(layer)
    x, target = torch.rand(NODES, FEATURES), torch.randn(rows, 2)
    model.eval()(x, target, *others)  # gives the lazy layer its size
    assert_trains_like_eager(model, x, target, *others)


def _edges():
    return torch.randint(NODES, (2, EDGES))


@pytest.mark.parametrize("name", PLAIN)
def test_layer_trains_like_eager(name):
    _assert_layer_trains(PLAIN[name](), _edges())


@pytest.mark.parametrize("name", WITH_EDGE_FEATURES)
def test_layer_with_edge_features_trains_like_eager(name):
    _assert_layer_trains(WITH_EDGE_FEATURES[name](), _edges(), torch.rand(EDGES, 4))


@pytest.mark.parametrize("name", RELATIONAL)
def test_relational_layer_trains_like_eager(name):
    _assert_layer_trains(RELATIONAL[name](), _edges(), torch.randint(RELATIONS, (EDGES,)))


@pytest.mark.parametrize("name", NORMS)
def test_norm_trains_like_eager(name):
    _assert_layer_trains(NORMS[name]())


class _Pooled(torch.nn.Module):
    def __init__(self, pool):
        super().__init__()
        self.pool = pool

    def forward(self, x, batch):
        if isinstance(self.pool, nn.Aggregation):
            return self.pool(x, batch, dim_size=GRAPHS)
        return self.pool(x, batch, size=GRAPHS)


@pytest.mark.parametrize("name", POOLS)
def test_pooling_trains_like_eager(name):
    batch = torch.arange(NODES) // (NODES // GRAPHS)
    _assert_layer_trains(_Pooled(POOLS[name]), batch, rows=GRAPHS)


@pytest.mark.parametrize("weights", [torch.float32, torch.float16])
@pytest.mark.parametrize("inputs", [torch.float32, torch.float16])
def test_layers_compute_in_the_type_of_their_input(weights, inputs):
    for layer, shape in ((torch.nn.Linear(4, 5), (3, 4)), (torch.nn.Conv1d(4, 5, 2), (1, 4, 4))):
        x = torch.randn(shape).to(inputs)
        expected = copy.deepcopy(layer).to(weights).to(inputs)(x)
        result = poptorch.inferenceModel(layer.to(weights))(x)
        assert result.dtype == inputs
        torch.testing.assert_close(result, expected)


def test_weights_in_float32_are_trained_by_activations_in_half():
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(4, 4)

        def forward(self, x, y):
            return torch.nn.functional.mse_loss(self.linear(x), y)

    model, (x, y) = Model(), torch.randn(2, 4).half()
    trained = poptorch.trainingModel(model, optimizer=poptorch.optim.SGD(model.parameters(), lr=0.2))
    losses = [float(trained(x, y)) for _ in range(50)]
    assert losses[-1] < 0.01 * losses[0]
    assert model.linear.weight.dtype == torch.float32


@pytest.mark.parametrize("dtype", [torch.half, torch.uint8])
def test_check_and_wrapped_model_agree_on_weights_of_another_type(dtype):
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.convolution, self.linear = torch.nn.Conv2d(3, 4, 3), torch.nn.Linear(4, 2)

        def forward(self, x):
            return self.linear(self.convolution(x.half()).mean((2, 3)))

    model, x = Model().eval(), torch.ones(2, 3, 8, 8, dtype=dtype)
    assert check(model, x).ok
    result = poptorch.inferenceModel(model)(x)
    assert result.dtype == torch.half
    torch.testing.assert_close(result, copy.deepcopy(model).half()(x.half()))
