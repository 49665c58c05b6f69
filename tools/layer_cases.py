"""One example call for every layer of `torch_geometric.nn`: how to build it and what to call it with."""

from __future__ import annotations

import dataclasses
from typing import Any, Callable

import torch
import torch_geometric.nn as pyg
from torch import nn
from torch_geometric.nn.models.sgformer import SGModule
from torch_geometric.utils import degree, to_dense_batch

from gnn_ipu_helpers import poptorch

NUM_NODES, NUM_EDGES, NUM_GRAPHS, CHANNELS = 12, 36, 3, 8
MOST_NODES = NUM_NODES // NUM_GRAPHS
WRITES, CITES, WRITTEN = ("author", "writes", "paper"), ("paper", "cites", "paper"), ("paper", "by", "author")
METADATA = (["paper", "author"], [WRITES, CITES, WRITTEN])


@dataclasses.dataclass(frozen=True)
class Fix:
    """What makes a layer static: the `argument` in words, and how to build or call it then."""

    argument: str
    build: Callable[[], nn.Module] | None = None
    options: dict[str, Any] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Case:
    """A layer: its `name`, `build` which makes it as a module, `call` which names the attributes of
    `Sample` to call it with, and `options` for the call. `fix` is tried where it is not static so;
    `note` says why it is not tried at all, and `instead` what to write in its place where that is not what
    the check says."""

    name: str
    build: Callable[[], nn.Module] | None = None
    call: tuple[str, ...] = ("x", "edge_index")
    options: dict[str, Any] = dataclasses.field(default_factory=dict)
    fix: Fix | None = None
    note: str = ""
    instead: str = ""


class Sample:
    """The tensors the cases are called with, from a fixed seed: `NUM_GRAPHS` equal graphs, edges sorted
    by target, no self-loops."""

    def __init__(self) -> None:
        generator = torch.Generator().manual_seed(1)
        nodes = torch.arange(NUM_NODES)
        size = NUM_NODES // NUM_GRAPHS
        self.batch = nodes // size
        self.ptr = torch.arange(0, NUM_NODES + 1, size)
        step = torch.arange(1, NUM_EDGES // NUM_NODES + 1)
        target = nodes.repeat_interleave(len(step))
        source = self.batch[target] * size + (target % size + step.repeat(NUM_NODES)) % size
        self.edge_index = torch.stack([source, target])
        self.edge_batch = self.batch[source]
        self.other_edge_index = self.edge_index.flip(0)
        self.edge_weight = torch.rand(NUM_EDGES, generator=generator)
        self.edge_attr = torch.randn(NUM_EDGES, CHANNELS, generator=generator)
        self.pseudo = torch.rand(NUM_EDGES, 2, generator=generator)
        self.edge_type = torch.randint(0, 3, (NUM_EDGES,), generator=generator)
        self.node_type = torch.randint(0, 3, (NUM_NODES,), generator=generator)
        self.sorted_type = self.node_type.sort().values
        self.x = torch.randn(NUM_NODES, CHANNELS, generator=generator)
        self.x_0 = torch.randn(NUM_NODES, CHANNELS, generator=generator)
        self.x_layers = torch.randn(NUM_NODES, 2, CHANNELS, generator=generator)
        self.x_list = [self.x, self.x_0]
        self.x_list_dict = {"paper": [self.x, self.x_0], "author": [self.x_0, self.x]}
        self.signed_x = torch.randn(NUM_NODES, CHANNELS, generator=generator)
        self.pos = torch.randn(NUM_NODES, 3, generator=generator)
        self.normal = nn.functional.normalize(torch.randn(NUM_NODES, 3, generator=generator), dim=-1)
        self.dense_x = torch.randn(NUM_GRAPHS, size, CHANNELS, generator=generator)
        self.dense_adj = (torch.rand(NUM_GRAPHS, size, size, generator=generator) > 0.5).float()
        self.assignment = torch.randn(NUM_GRAPHS, size, 2, generator=generator)
        self.cluster = nodes // 2
        self.x_dict = {"paper": self.x, "author": self.x_0[:6]}
        self.edge_index_dict = {
            WRITES: torch.stack([source % 6, target]),
            CITES: self.edge_index,
            WRITTEN: torch.stack([source, target % 6]),
        }
        self.labels = torch.randint(0, 3, (NUM_NODES,), generator=generator)
        self.mask = torch.arange(NUM_NODES) < 6
        self.head = torch.randint(0, NUM_NODES, (10,), generator=generator)
        self.relation = torch.randint(0, 3, (10,), generator=generator)
        self.tail = torch.randint(0, NUM_NODES, (10,), generator=generator)
        self.z = torch.randint(1, 9, (NUM_NODES,), generator=generator)
        self.time = torch.rand(NUM_NODES, generator=generator)
        self.u = torch.randn(NUM_GRAPHS, CHANNELS, generator=generator)
        self.query = torch.randn(5, 3, generator=generator)
        self.mesh_edge_index = torch.stack(
            [torch.randint(0, NUM_NODES, (4 * NUM_NODES,), generator=generator), nodes.repeat_interleave(4)]
        )
        self.hyperedge_index = torch.stack([nodes.repeat(2), torch.arange(2 * NUM_NODES) % 5])
        self.hyperedge_weight = torch.rand(5, generator=generator)
        self.degree_histogram = torch.tensor([0, 0, 0, NUM_NODES])
        self.embeddings = torch.randn(NUM_GRAPHS, 4, CHANNELS, generator=generator)

    @property
    def triplets(self) -> torch.Tensor:
        """The triplets of `edge_index`, as a dataset would list them."""
        return list_triplets(self.edge_index)


def _mlp(inputs: int = CHANNELS, outputs: int = CHANNELS) -> nn.Module:
    return nn.Sequential(nn.Linear(inputs, outputs), nn.Tanh(), nn.Linear(outputs, outputs))


class _Function(nn.Module):
    """A function of PyG as a module with one weight in front of its first argument, so that it can be
    trained."""

    def __init__(self, function: Callable, channels: int | None = CHANNELS):
        super().__init__()
        self.function = function
        self.scale = nn.Parameter(torch.full((channels,), 1.5)) if channels else None

    def forward(self, x, *args, **kwargs):
        return self.function(x if self.scale is None else x * self.scale, *args, **kwargs)


class _OfPositions(nn.Module):
    """A function that returns indices of points, followed by a weighted use of those points."""

    def __init__(self, function: Callable):
        super().__init__()
        self.function = function
        self.scale = nn.Parameter(torch.full((3,), 1.5))

    def forward(self, pos, *args, **kwargs):
        return (pos * self.scale)[self.function(pos, *args, **kwargs)]


class _EdgeModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.mlp = _mlp(4 * CHANNELS)

    def forward(self, source, target, edge_attr, u, batch):
        return self.mlp(torch.cat([source, target, edge_attr, u[batch]], dim=-1))


SIZE = {"size": NUM_GRAPHS}
DIM_SIZE = {"dim_size": NUM_GRAPHS}
BATCH_SIZE = {"batch_size": NUM_GRAPHS}
ELEMENTS = {"dim_size": NUM_GRAPHS, "max_num_elements": NUM_NODES // NUM_GRAPHS}
C = CHANNELS


def _loops(build: Callable[..., nn.Module]) -> dict:
    """`build` and `fix` of a layer that adds self-loops unless told otherwise."""
    return {"build": build, "fix": Fix("add_self_loops=False", lambda: build(add_self_loops=False))}


def _rgat(**kwargs) -> nn.Module:
    """RGATConv with every weight filled: PyG leaves one as it comes from memory, which may be NaN."""
    layer = pyg.RGATConv(C, C, 3, heads=2, **kwargs)
    nn.init.uniform_(layer.l2)
    return layer


def _pooled(name: str, build: Callable[[], nn.Module], call=("x", "batch")) -> Case:
    return Case(name, build, call, fix=Fix("dim_size", options=DIM_SIZE))


def _dense_aggregation(name: str, build: Callable[[], nn.Module]) -> Case:
    return Case(name, build, ("x", "batch"), fix=Fix("dim_size, max_num_elements", options=ELEMENTS))


CUDA_ONLY = "needs CUDA and pylibcugraph"
_PLAIN_TWIN = "`{}`, which computes the same"

CONVOLUTIONS = [
    Case("SimpleConv", lambda: _Function(pyg.SimpleConv())),
    Case("GCNConv", **_loops(lambda **kw: pyg.GCNConv(C, C, **kw))),
    Case("ChebConv", lambda: pyg.ChebConv(C, C, K=3)),
    Case("SAGEConv", lambda: pyg.SAGEConv(C, C)),
    Case("CuGraphSAGEConv", note=CUDA_ONLY, instead=_PLAIN_TWIN.format("SAGEConv")),
    Case("GraphConv", lambda: pyg.GraphConv(C, C)),
    Case("GravNetConv", lambda: pyg.GravNetConv(C, C, 3, 4, k=3), ("x", "batch")),
    Case("GatedGraphConv", lambda: pyg.GatedGraphConv(C, 2)),
    Case("ResGatedGraphConv", lambda: pyg.ResGatedGraphConv(C, C)),
    Case("GATConv", **_loops(lambda **kw: pyg.GATConv(C, C, heads=2, **kw))),
    Case("CuGraphGATConv", note=CUDA_ONLY, instead=_PLAIN_TWIN.format("GATConv")),
    Case("FusedGATConv", note="needs CUDA and dgNN", instead=_PLAIN_TWIN.format("GATConv")),
    Case("GATv2Conv", **_loops(lambda **kw: pyg.GATv2Conv(C, C, heads=2, **kw))),
    Case("TransformerConv", lambda: pyg.TransformerConv(C, C, heads=2)),
    Case("AGNNConv", **_loops(lambda **kw: pyg.AGNNConv(**kw))),
    Case("TAGConv", lambda: pyg.TAGConv(C, C)),
    Case("GINConv", lambda: pyg.GINConv(_mlp(), train_eps=True)),
    Case("GINEConv", lambda: pyg.GINEConv(_mlp(), edge_dim=C), ("x", "edge_index", "edge_attr")),
    Case("ARMAConv", lambda: pyg.ARMAConv(C, C, 2, 2)),
    Case("SGConv", **_loops(lambda **kw: pyg.SGConv(C, C, **kw))),
    Case("SSGConv", **_loops(lambda **kw: pyg.SSGConv(C, C, alpha=0.1, **kw))),
    Case("APPNP", **_loops(lambda **kw: _Function(pyg.APPNP(3, 0.1, **kw)))),
    Case("MFConv", lambda: pyg.MFConv(C, C)),
    Case("RGCNConv", lambda: pyg.RGCNConv(C, C, 3), ("x", "edge_index", "edge_type")),
    Case("FastRGCNConv", lambda: pyg.FastRGCNConv(C, C, 3), ("x", "edge_index", "edge_type")),
    Case("CuGraphRGCNConv", note=CUDA_ONLY, instead=_PLAIN_TWIN.format("RGCNConv")),
    Case("RGATConv", _rgat, ("x", "edge_index", "edge_type")),
    Case(
        "RGATConv within relations",
        lambda: _rgat(attention_mechanism="within-relation"),
        ("x", "edge_index", "edge_type"),
    ),
    Case("SignedConv", lambda: pyg.SignedConv(C, C, True), ("x", "edge_index", "other_edge_index")),
    Case("DNAConv", call=("x_layers", "edge_index"), **_loops(lambda **kw: pyg.DNAConv(C, **kw))),
    Case(
        "PointNetConv",
        call=("x", "pos", "edge_index"),
        **_loops(lambda **kw: pyg.PointNetConv(_mlp(C + 3), **kw)),
    ),
    Case("GMMConv", lambda: pyg.GMMConv(C, C, 2, 3), ("x", "edge_index", "pseudo")),
    Case("SplineConv", lambda: pyg.SplineConv(C, C, 2, 3), ("x", "edge_index", "pseudo")),
    Case("NNConv", lambda: pyg.NNConv(C, C, _mlp(C, C * C)), ("x", "edge_index", "edge_attr")),
    Case("CGConv", lambda: pyg.CGConv(C, C), ("x", "edge_index", "edge_attr")),
    Case("EdgeConv", lambda: pyg.EdgeConv(_mlp(2 * C))),
    Case("DynamicEdgeConv", lambda: pyg.DynamicEdgeConv(_mlp(2 * C), 3), ("x", "batch")),
    Case("XConv", lambda: pyg.XConv(C, C, 3, 3), ("x", "pos", "batch")),
    Case(
        "PPFConv",
        call=("x", "pos", "normal", "edge_index"),
        **_loops(lambda **kw: pyg.PPFConv(_mlp(C + 4), **kw)),
    ),
    Case("FeaStConv", **_loops(lambda **kw: pyg.FeaStConv(C, C, 2, **kw))),
    Case(
        "PointTransformerConv",
        call=("x", "pos", "edge_index"),
        **_loops(lambda **kw: pyg.PointTransformerConv(C, C, **kw)),
    ),
    Case(
        "HypergraphConv",
        lambda: pyg.HypergraphConv(C, C),
        ("x", "hyperedge_index"),
        fix=Fix("num_edges", options={"num_edges": 5}),
    ),
    Case("LEConv", lambda: pyg.LEConv(C, C)),
    Case(
        "PNAConv",
        lambda: pyg.PNAConv(
            C, C, ["mean", "max", "std"], ["identity", "amplification"], Sample().degree_histogram
        ),
    ),
    Case("ClusterGCNConv", lambda: pyg.ClusterGCNConv(C, C, diag_lambda=0.5)),
    Case("GENConv", lambda: pyg.GENConv(C, C)),
    Case("GCN2Conv", call=("x", "x_0", "edge_index"), **_loops(lambda **kw: pyg.GCN2Conv(C, 0.1, **kw))),
    Case(
        "PANConv",
        note="needs torch-sparse, and returns a sparse matrix",
        instead="`TAGConv` or `MixHopConv`, which also weigh paths of several lengths",
    ),
    Case(
        "WLConv",
        lambda: _Function(pyg.WLConv(), None),
        ("labels", "edge_index"),
        instead="colour the nodes in the dataset (`pre_transform`), or `WLConvContinuous`",
    ),
    Case("WLConvContinuous", lambda: _Function(pyg.WLConvContinuous())),
    Case(
        "FiLMConv",
        lambda: pyg.FiLMConv(C, C, 3),
        ("x", "edge_index", "edge_type"),
    ),
    Case(
        "SuperGATConv",
        lambda: pyg.SuperGATConv(C, C, heads=2, attention_type="SD"),
        fix=Fix(
            "add_self_loops=False and `neg_edge_index`",
            lambda: pyg.SuperGATConv(C, C, heads=2, attention_type="SD", add_self_loops=False),
            {"neg_edge_index": Sample().other_edge_index},
        ),
    ),
    Case("FAConv", call=("x", "x_0", "edge_index"), **_loops(lambda **kw: pyg.FAConv(C, **kw))),
    Case("EGConv", **_loops(lambda **kw: pyg.EGConv(C, C, num_heads=2, **kw))),
    Case(
        "PDNConv",
        call=("x", "edge_index", "edge_attr"),
        **_loops(lambda **kw: pyg.PDNConv(C, C, C, 4, **kw)),
    ),
    Case("GeneralConv", lambda: pyg.GeneralConv(C, C, C), ("x", "edge_index", "edge_attr")),
    Case("HGTConv", lambda: pyg.HGTConv(C, C, METADATA, heads=2), ("x_dict", "edge_index_dict")),
    Case(
        "HEATConv",
        lambda: pyg.HEATConv(C, C, 3, 3, 4, C, 4, heads=2),
        ("x", "edge_index", "node_type", "edge_type", "edge_attr"),
    ),
    Case(
        "HeteroConv",
        lambda: pyg.HeteroConv(
            {
                WRITES: pyg.SAGEConv((C, C), C),
                CITES: pyg.GATConv(C, C, add_self_loops=False),
            }
        ),
        ("x_dict", "edge_index_dict"),
    ),
    Case("HANConv", lambda: pyg.HANConv(C, C, METADATA, heads=2), ("x_dict", "edge_index_dict")),
    Case("LGConv", lambda: _Function(pyg.LGConv())),
    Case(
        "PointGNNConv",
        lambda: pyg.PointGNNConv(_mlp(C, 3), _mlp(C + 3), _mlp()),
        ("x", "pos", "edge_index"),
    ),
    Case(
        "GPSConv",
        lambda: pyg.GPSConv(C, pyg.SAGEConv(C, C), heads=2),
        ("x", "edge_index", "batch"),
    ),
    Case(
        "AntiSymmetricConv",
        lambda: pyg.AntiSymmetricConv(C),
        fix=Fix(
            "phi=GCNConv(…, add_self_loops=False)",
            lambda: pyg.AntiSymmetricConv(C, pyg.GCNConv(C, C, add_self_loops=False, bias=False)),
        ),
    ),
    Case("DirGNNConv", lambda: pyg.DirGNNConv(pyg.SAGEConv(C, C))),
    Case("MixHopConv", **_loops(lambda **kw: pyg.MixHopConv(C, C, **kw))),
    Case("MeshCNNConv", lambda: pyg.MeshCNNConv(C, C), ("x", "mesh_edge_index")),
]

AGGREGATIONS = [
    _pooled("MultiAggregation", lambda: _Function(pyg.MultiAggregation(["mean", "max", "std"]))),
    *(
        _pooled(name, lambda name=name: _Function(getattr(pyg.aggr, name)()))
        for name in (
            "SumAggregation",
            "MeanAggregation",
            "MaxAggregation",
            "MinAggregation",
            "MulAggregation",
            "VarAggregation",
            "StdAggregation",
            "MedianAggregation",
            "VariancePreservingAggregation",
        )
    ),
    _pooled("SoftmaxAggregation", lambda: pyg.SoftmaxAggregation(learn=True)),
    _pooled("PowerMeanAggregation", lambda: pyg.PowerMeanAggregation(learn=True)),
    _pooled("QuantileAggregation", lambda: _Function(pyg.QuantileAggregation([0.25, 0.75]))),
    _dense_aggregation("LSTMAggregation", lambda: pyg.LSTMAggregation(C, C)),
    _dense_aggregation("GRUAggregation", lambda: pyg.GRUAggregation(C, C)),
    _pooled("Set2Set", lambda: pyg.Set2Set(C, 2)),
    _pooled(
        "DegreeScalerAggregation",
        lambda: _Function(
            pyg.DegreeScalerAggregation(["mean", "max"], ["identity", "linear"], Sample().degree_histogram)
        ),
    ),
    _dense_aggregation("SortAggregation", lambda: _Function(pyg.SortAggregation(3))),
    _dense_aggregation("GraphMultisetTransformer", lambda: pyg.GraphMultisetTransformer(C, 2)),
    _pooled("AttentionalAggregation", lambda: pyg.AttentionalAggregation(_mlp(C, 1), _mlp())),
    Case(
        "EquilibriumAggregation",
        note="solves an optimisation problem inside forward, with gradients of its own",
        instead="`SoftmaxAggregation(learn=True)` or `DeepSetsAggregation` with `dim_size`",
    ),
    _pooled("MLPAggregation", lambda: pyg.MLPAggregation(C, C, 4, num_layers=1)),
    _pooled("DeepSetsAggregation", lambda: pyg.DeepSetsAggregation(_mlp(), _mlp())),
    _dense_aggregation("SetTransformerAggregation", lambda: pyg.SetTransformerAggregation(C)),
    _dense_aggregation("LCMAggregation", lambda: pyg.aggr.LCMAggregation(C, C)),
    _dense_aggregation(
        "PatchTransformerAggregation", lambda: pyg.aggr.PatchTransformerAggregation(C, C, 2, C)
    ),
]

NORMALISATIONS = [
    Case("BatchNorm", lambda: pyg.BatchNorm(C), ("x",)),
    Case("HeteroBatchNorm", lambda: pyg.HeteroBatchNorm(C, 3), ("x", "node_type")),
    Case(
        "InstanceNorm",
        lambda: pyg.InstanceNorm(C, affine=True),
        ("x", "batch"),
        fix=Fix("batch_size", options=BATCH_SIZE),
    ),
    Case("LayerNorm", lambda: pyg.LayerNorm(C), ("x", "batch"), fix=Fix("batch_size", options=BATCH_SIZE)),
    Case("HeteroLayerNorm", lambda: pyg.HeteroLayerNorm(C, 3), ("x", "node_type")),
    Case("GraphNorm", lambda: pyg.GraphNorm(C), ("x", "batch"), fix=Fix("batch_size", options=BATCH_SIZE)),
    Case(
        "GraphSizeNorm",
        lambda: _Function(pyg.GraphSizeNorm()),
        ("x", "batch"),
        fix=Fix("batch_size", options=BATCH_SIZE),
    ),
    Case(
        "PairNorm",
        lambda: _Function(pyg.PairNorm()),
        ("x", "batch"),
        fix=Fix("batch_size", options=BATCH_SIZE),
    ),
    Case(
        "MeanSubtractionNorm",
        lambda: _Function(pyg.MeanSubtractionNorm()),
        ("x", "batch"),
        fix=Fix("dim_size", options=DIM_SIZE),
    ),
    Case("MessageNorm", lambda: pyg.MessageNorm(True), ("x", "x_0")),
    Case("DiffGroupNorm", lambda: pyg.DiffGroupNorm(C, 2), ("x",)),
]

_DATA_INSIDE = "takes and returns a `Data` object, with as many nodes as there are clusters"
_POOL_X = "`{}_x` with `batch_size` and `size`, on tensors"
_NEIGHBOURS = "`scatter(x[edge_index[0]], edge_index[1], dim_size=x.size(0), reduce='{}')`"
_ON_HOST = "find clusters or neighbours in the dataset (`pre_transform`) and pass the edges in"
_SPARSE = "needs torch-sparse, and lists triplets or pairs in numbers that depend on data"
POOLINGS = [
    *(
        Case(
            name,
            lambda name=name: _Function(getattr(pyg, name)),
            ("x", "batch"),
            fix=Fix("size", options=SIZE),
        )
        for name in ("global_add_pool", "global_mean_pool", "global_max_pool")
    ),
    Case("TopKPooling", lambda: pyg.TopKPooling(C), ("x", "edge_index", "edge_attr", "batch")),
    Case("SAGPooling", lambda: pyg.SAGPooling(C), ("x", "edge_index", "edge_attr", "batch")),
    Case("EdgePooling", lambda: pyg.EdgePooling(C), ("x", "edge_index", "batch")),
    Case("ClusterPooling", lambda: pyg.ClusterPooling(C), ("x", "edge_index", "batch")),
    Case("ASAPooling", lambda: pyg.ASAPooling(C), ("x", "edge_index")),
    Case(
        "PANPooling",
        note="works on the sparse matrix that PANConv returns",
        instead="weigh all nodes by a score",
    ),
    Case(
        "MemPooling",
        lambda: pyg.MemPooling(C, C, 2, 2),
        ("x", "batch"),
        fix=Fix(
            "batch_size, max_num_nodes",
            options={"batch_size": NUM_GRAPHS, "max_num_nodes": NUM_NODES // NUM_GRAPHS},
        ),
    ),
    *(
        Case(
            name,
            lambda name=name: _Function(
                lambda x, cluster, batch, **kw: getattr(pyg, name)(cluster, x, batch, **kw)[0]
            ),
            ("x", "cluster", "batch"),
            fix=Fix("batch_size, size", options={"batch_size": NUM_GRAPHS, "size": 2}),
        )
        for name in ("max_pool_x", "avg_pool_x")
    ),
    Case("max_pool", note=_DATA_INSIDE, instead=_POOL_X.format("max_pool")),
    Case("avg_pool", note=_DATA_INSIDE, instead=_POOL_X.format("avg_pool")),
    Case("max_pool_neighbor_x", note=_DATA_INSIDE, instead=_NEIGHBOURS.format("max")),
    Case("avg_pool_neighbor_x", note=_DATA_INSIDE, instead=_NEIGHBOURS.format("mean")),
    Case("graclus", note="needs torch-cluster, and clusters node after node", instead=_ON_HOST),
    Case(
        "voxel_grid",
        lambda: _OfPositions(lambda pos: pyg.voxel_grid(pos, 0.5).clamp(max=NUM_NODES - 1)),
        ("pos",),
    ),
    Case("fps", lambda: _OfPositions(lambda pos: pyg.fps(pos, ratio=0.5, random_start=False)), ("pos",)),
    Case("knn", lambda: _OfPositions(lambda pos, query: pyg.knn(pos, query, 3)[1]), ("pos", "query")),
    Case(
        "knn_graph", lambda: _OfPositions(lambda pos, batch: pyg.knn_graph(pos, 3, batch)), ("pos", "batch")
    ),
    Case(
        "radius",
        lambda: _OfPositions(lambda pos, query: pyg.radius(pos, query, 9.0, max_num_neighbors=4)[1]),
        ("pos", "query"),
    ),
    Case(
        "radius_graph",
        lambda: _OfPositions(lambda pos, batch: pyg.radius_graph(pos, 9.0, batch, max_num_neighbors=3)),
        ("pos", "batch"),
    ),
    Case("nearest", lambda: _OfPositions(lambda pos, query: pyg.nearest(pos, query)), ("pos", "query")),
    Case("approx_knn", note="needs pynndescent, which searches on the host", instead="`knn`"),
    Case("approx_knn_graph", note="needs pynndescent, which searches on the host", instead="`knn_graph`"),
    Case(
        "knn_interpolate",
        lambda: _Function(lambda x, pos, query: pyg.knn_interpolate(x, pos, query)),
        ("x", "pos", "query"),
    ),
]

DENSE = [
    Case("Linear", lambda: pyg.Linear(C, C), ("x",)),
    Case("HeteroLinear", lambda: pyg.HeteroLinear(C, C, 3), ("x", "node_type")),
    Case("HeteroDictLinear", lambda: pyg.HeteroDictLinear(C, C, ["paper", "author"]), ("x_dict",)),
    Case("DenseGCNConv", lambda: pyg.DenseGCNConv(C, C), ("dense_x", "dense_adj")),
    Case("DenseGINConv", lambda: pyg.DenseGINConv(_mlp()), ("dense_x", "dense_adj")),
    Case("DenseGraphConv", lambda: pyg.DenseGraphConv(C, C), ("dense_x", "dense_adj")),
    Case("DenseSAGEConv", lambda: pyg.DenseSAGEConv(C, C), ("dense_x", "dense_adj")),
    Case("DenseGATConv", lambda: pyg.DenseGATConv(C, C, 2), ("dense_x", "dense_adj")),
    Case("dense_diff_pool", lambda: _Function(pyg.dense_diff_pool), ("dense_x", "dense_adj", "assignment")),
    Case(
        "dense_mincut_pool", lambda: _Function(pyg.dense_mincut_pool), ("dense_x", "dense_adj", "assignment")
    ),
    Case("DMoNPooling", lambda: pyg.DMoNPooling(C, 2), ("dense_x", "dense_adj")),
    Case(
        "Sequential",
        lambda: pyg.Sequential("x, edge_index", [(pyg.SAGEConv(C, C), "x, edge_index -> x"), nn.ReLU()]),
    ),
    Case("PositionalEncoding", lambda: _Function(pyg.PositionalEncoding(C), 1), ("time",)),
    Case("TemporalEncoding", lambda: _Function(pyg.TemporalEncoding(C), 1), ("time",)),
    Case("PerformerAttention", lambda: pyg.attention.PerformerAttention(C, 2), ("embeddings",)),
    Case("QFormer", lambda: pyg.attention.QFormer(C, C, C, 2, 1), ("embeddings",)),
    Case("SGFormerAttention", lambda: pyg.attention.SGFormerAttention(C, 2), ("embeddings",)),
    Case("PolynormerAttention", lambda: pyg.attention.PolynormerAttention(C, 2), ("embeddings",)),
    Case("gini", lambda: _Function(pyg.functional.gini), ("x",)),
    Case(
        "bro",
        lambda: _Function(pyg.functional.bro),
        ("x", "batch"),
        instead="`to_dense_batch` with both sizes, then the penalty on the dense rows",
    ),
]

_KGE = ("head", "relation", "tail")
_MOLECULE = ("z", "pos", "batch")
_SAMPLED = "walks or memory live on the host"
_WALKS = "draw walks in the loader; an `Embedding` and the loss on the walks go on the device"
_GIVEN_NEGATIVES = "draw negative edges in the loader and compute the loss in `forward`"
_TRIPLETS = "list triplets in the dataset (`pre_transform`), and pass them in"


def _basic(name: str, **kwargs) -> Case:
    return Case(name, lambda: getattr(pyg, name)(C, C, 2, C, **kwargs))


MODELS = [
    Case("MLP", lambda: pyg.MLP([C, C, C], norm="layer_norm"), ("x",)),
    Case(
        "GCN",
        lambda: pyg.GCN(C, C, 2, C),
        fix=Fix("add_self_loops=False", lambda: pyg.GCN(C, C, 2, C, add_self_loops=False)),
    ),
    _basic("GraphSAGE"),
    _basic("GIN"),
    Case(
        "GAT",
        lambda: pyg.GAT(C, C, 2, C),
        fix=Fix("add_self_loops=False", lambda: pyg.GAT(C, C, 2, C, add_self_loops=False)),
    ),
    Case(
        "PNA",
        lambda: pyg.PNA(
            C, C, 2, C, aggregators=["mean", "max"], scalers=["identity"], deg=Sample().degree_histogram
        ),
    ),
    _basic("EdgeCNN"),
    Case("JumpingKnowledge", lambda: pyg.JumpingKnowledge("lstm", C, 2), ("x_list",)),
    Case(
        "HeteroJumpingKnowledge",
        lambda: pyg.HeteroJumpingKnowledge(["paper", "author"], "lstm", C, 2),
        ("x_list_dict",),
    ),
    Case(
        "MetaLayer", lambda: pyg.MetaLayer(_EdgeModel()), ("x", "edge_index", "edge_attr", "u", "edge_batch")
    ),
    Case("Node2Vec", note=_SAMPLED, instead=_WALKS),
    Case("MetaPath2Vec", note=_SAMPLED, instead=_WALKS),
    Case(
        "TGNMemory",
        note=_SAMPLED,
        instead="keep the memory in a buffer of all nodes, and change it in place, `memory.index_copy_`",
    ),
    Case(
        "DeepGraphInfomax",
        lambda: pyg.DeepGraphInfomax(
            C,
            pyg.SAGEConv(C, C),
            lambda z, *a, **k: z.mean(dim=0).sigmoid(),
            lambda x, edge_index: (x.flip(0), edge_index),
        ),
    ),
    Case("InnerProductDecoder", lambda: _Function(pyg.InnerProductDecoder())),
    Case("GAE", lambda: pyg.GAE(pyg.SAGEConv(C, C))),
    Case(
        "VGAE",
        note="its loss is computed outside `forward`, with negative edges drawn on the way",
        instead=_GIVEN_NEGATIVES,
    ),
    Case("ARGA", lambda: pyg.ARGA(pyg.SAGEConv(C, C), _mlp())),
    Case(
        "ARGVA",
        note="its loss is computed outside `forward`, with negative edges drawn on the way",
        instead=_GIVEN_NEGATIVES,
    ),
    Case("SignedGCN", lambda: pyg.SignedGCN(C, C, 2), ("x", "edge_index", "other_edge_index")),
    Case(
        "RENet",
        note="reads lists of past events whose lengths differ",
        instead="pad the lists in the loader, and `GRU` over the padded sequence",
    ),
    Case("GraphUNet", lambda: pyg.GraphUNet(C, C, C, 2)),
    Case("SchNet", lambda: pyg.SchNet(C, C, 2, 4, cutoff=9.0, max_num_neighbors=3), _MOLECULE),
    Case("DimeNet", note=_SPARSE, instead=_TRIPLETS),
    Case("DimeNetPlusPlus", note=_SPARSE, instead=_TRIPLETS),
    Case(
        "GPSENodeEncoder",
        lambda: pyg.GPSENodeEncoder(2 * C, C, C, C, dropout_be=0.0, dropout_ae=0.0),
        ("x", "x_0"),
    ),
    Case("DeepGCNLayer", lambda: pyg.DeepGCNLayer(pyg.SAGEConv(C, C), pyg.LayerNorm(C), nn.ReLU())),
    Case("LabelPropagation", lambda: pyg.LabelPropagation(2, 0.5)),
    Case(
        "CorrectAndSmooth",
        note="a post-processing step without weights",
        instead="run it on the host, on the predictions",
    ),
    Case("AttentiveFP", lambda: pyg.AttentiveFP(C, C, C, C, 2, 2), ("x", "edge_index", "edge_attr", "batch")),
    Case("RECT_L", lambda: pyg.RECT_L(C, C)),
    Case("LINKX", lambda: pyg.LINKX(NUM_NODES, C, C, C, 2)),
    Case("LightGCN", lambda: pyg.LightGCN(NUM_NODES, C, 2), ("edge_index", "edge_index")),
    Case("MaskLabel", lambda: pyg.MaskLabel(3, C), ("x", "labels", "mask")),
    Case(
        "GroupAddRev",
        note="frees and recomputes activations in an autograd function of its own",
        instead="`DeepGCNLayer`, and `torch.utils.checkpoint` where memory is short",
    ),
    Case("GNNFF", note=_SPARSE, instead=_TRIPLETS),
    Case("PMLP", lambda: pyg.PMLP(C, C, C, 2)),
    Case(
        "NeuralFingerprint",
        lambda: pyg.NeuralFingerprint(C, C, C, 2),
        ("x", "edge_index", "batch"),
        fix=Fix("batch_size", options=BATCH_SIZE),
    ),
    Case(
        "ViSNet",
        lambda: pyg.models.ViSNet(num_heads=2, num_layers=1, hidden_channels=C, num_rbf=4, cutoff=2.0),
        _MOLECULE,
    ),
    Case(
        "LPFormer",
        note="looks up personalised PageRank scores in a sparse matrix",
        instead="look the scores up in the loader, and pass them as edge attributes",
    ),
    Case(
        "SGFormer",
        lambda: pyg.models.SGFormer(C, C, C, trans_dropout=0.0, gnn_dropout=0.0),
        ("x", "edge_index", "batch"),
    ),
    Case(
        "Polynormer",
        lambda: pyg.models.Polynormer(C, C, C, in_dropout=0.0, dropout=0.0, global_dropout=0.0),
        ("x", "edge_index", "batch"),
    ),
    Case("ARLinkPredictor", lambda: pyg.models.ARLinkPredictor(C, C)),
    Case(
        "GPSE",
        note="draws random node features and loops over virtual nodes of each graph",
        instead="encode once in the dataset (`T.AddGPSE`), and `GPSENodeEncoder` in the model",
    ),
    Case("TransE", lambda: pyg.TransE(NUM_NODES, 3, C), _KGE),
    Case("ComplEx", lambda: pyg.ComplEx(NUM_NODES, 3, C), _KGE),
    Case("DistMult", lambda: pyg.DistMult(NUM_NODES, 3, C), _KGE),
    Case("RotatE", lambda: pyg.RotatE(NUM_NODES, 3, C), _KGE),
    Case(
        "to_hetero", lambda: pyg.to_hetero(pyg.GraphSAGE(C, C, 2, C), METADATA), ("x_dict", "edge_index_dict")
    ),
]

GROUPS = {
    "Convolutions": CONVOLUTIONS,
    "Aggregations": AGGREGATIONS,
    "Normalisations": NORMALISATIONS,
    "Pooling and point clouds": POOLINGS,
    "Dense layers and blocks": DENSE,
    "Models": MODELS,
}


class Negatives(nn.Module):
    """VGAE before: negative edges are drawn inside, and the loss is not marked."""

    def __init__(self):
        super().__init__()
        self.vgae = pyg.VGAE(MeanAndDeviation())

    def forward(self, x, edge_index, neg_edge_index=None):
        z = self.vgae.encode(x, edge_index)
        return self.vgae.recon_loss(z, edge_index) + self.vgae.kl_loss() / x.size(0)


class GivenNegatives(Negatives):
    """VGAE after: negative edges come with the batch, and the loss is marked."""

    def forward(self, x, edge_index, neg_edge_index):
        z = self.vgae.encode(x, edge_index)
        loss = self.vgae.recon_loss(z, edge_index, neg_edge_index) + self.vgae.kl_loss() / x.size(0)
        return poptorch.identity_loss(loss, reduction="none")


class MeanAndDeviation(nn.Module):
    """The two outputs that VGAE asks of its encoder."""

    def __init__(self):
        super().__init__()
        self.mean, self.logstd = pyg.SAGEConv(C, C), pyg.SAGEConv(C, C)

    def forward(self, x, edge_index):
        return self.mean(x, edge_index), self.logstd(x, edge_index)


class Potential(nn.Module):
    """SchNet before: its readout counts the graphs."""

    def __init__(self):
        super().__init__()
        self.schnet = pyg.SchNet(C, C, 2, 4, cutoff=9.0, max_num_neighbors=3)

    def forward(self, z, pos, batch):
        return self.schnet(z, pos, batch)


class Sized(pyg.SumAggregation):
    """A sum over a known number of graphs."""

    def __call__(self, x, index, **kwargs):
        return super().__call__(x, index, **{**kwargs, "dim_size": NUM_GRAPHS})


class SizedPotential(Potential):
    """SchNet after: the readout knows how many graphs there are."""

    def __init__(self):
        super().__init__()
        self.schnet.readout = Sized()


class KeepsTheBest(nn.Module):
    """TopKPooling before: how many nodes remain depends on the data."""

    def __init__(self):
        super().__init__()
        self.pool = pyg.TopKPooling(C, ratio=0.5)

    def forward(self, x, edge_index, batch):
        x, edge_index, _, batch, _, _ = self.pool(x, edge_index, batch=batch)
        return pyg.global_mean_pool(x, batch, size=NUM_GRAPHS)


class WeighsAll(nn.Module):
    """TopKPooling after: all nodes remain, weighed by the score; the worst count little."""

    def __init__(self):
        super().__init__()
        self.score = nn.Linear(C, 1)

    def forward(self, x, edge_index, batch):
        x = x * self.score(x).sigmoid()
        return pyg.global_mean_pool(x, batch, size=NUM_GRAPHS)


class SelfLoopsInside(nn.Module):
    """RECT_L, Polynormer and others before: a layer inside adds self-loops."""

    def __init__(self):
        super().__init__()
        self.rect = pyg.RECT_L(C, C)

    def forward(self, x, edge_index):
        return self.rect(x, edge_index)


class SelfLoopsInTheData(SelfLoopsInside):
    """After: the dataset has them, `pre_transform=T.AddSelfLoops()`."""

    def __init__(self):
        super().__init__()
        self.rect.conv.add_self_loops = False


class Directional(nn.Module):
    """DimeNet before: it lists edges and triplets inside, with torch-sparse."""

    def __init__(self):
        super().__init__()
        self.dimenet = pyg.DimeNetPlusPlus(C, C, 1, 4, C, C, 3, 4, cutoff=9.0)

    def forward(self, z, pos, batch, edge_index=None, triplets=None):
        return self.dimenet(z, pos, batch)


def list_triplets(edge_index):
    """For the dataset: the numbers [2, T] of all edges k→j and j→i with k ≠ i. A batch renumbers them as
    edges, `__inc__`, and padding triplets join padding edges, of a length that is not zero."""
    source, target = edge_index
    is_path = (target.unsqueeze(1) == source.unsqueeze(0)) & (source.unsqueeze(1) != target.unsqueeze(0))
    return is_path.nonzero().t()


class GivenTriplets(Directional):
    """DimeNet after: edges and triplets come with the batch, and the sum knows the number of graphs."""

    def forward(self, z, pos, batch, edge_index, triplets):
        net, (j, i), (kj, ji) = self.dimenet, edge_index, triplets
        to_i, to_j = pos[i[ji]] - pos[j[ji]], pos[i[kj]] - pos[j[kj]]
        distance = (pos[i] - pos[j]).square().sum(dim=-1).sqrt()
        across = torch.linalg.vector_norm(torch.linalg.cross(to_i, to_j), dim=-1)
        angle = torch.atan2(across, (to_i * to_j).sum(dim=-1))
        radial, spherical = net.rbf(distance), net.sbf(distance, angle, kj)
        x = net.emb(z, radial, i, j)
        out = net.output_blocks[0](x, radial, i, num_nodes=z.size(0))
        for interact, read in zip(net.interaction_blocks, net.output_blocks[1:]):
            x = interact(x, radial, spherical, kj, ji)
            out = out + read(x, radial, i, num_nodes=z.size(0))
        return pyg.global_add_pool(out, batch, size=NUM_GRAPHS)


class Fingerprint(nn.Module):
    """AttentiveFP before: its readout counts the graphs."""

    def __init__(self):
        super().__init__()
        self.net = pyg.AttentiveFP(C, C, C, C, 2, 2)

    def forward(self, x, edge_index, edge_attr, batch):
        return self.net(x, edge_index, edge_attr, batch)


class SizedFingerprint(Fingerprint):
    """AttentiveFP after: the same steps, with a readout that knows how many graphs there are."""

    def forward(self, x, edge_index, edge_attr, batch):
        net = self.net
        x = nn.functional.leaky_relu(net.lin1(x))
        x = net.gru(nn.functional.elu(net.gate_conv(x, edge_index, edge_attr)), x).relu()
        for conv, gru in zip(net.atom_convs, net.atom_grus):
            x = gru(nn.functional.elu(conv(x, edge_index)), x).relu()
        to_graph = torch.stack([torch.arange(x.size(0)), batch])
        out = pyg.global_add_pool(x, batch, size=NUM_GRAPHS).relu()
        for _ in range(net.num_timesteps):
            out = net.mol_gru(nn.functional.elu(net.mol_conv((x, out), to_graph)), out).relu()
        return net.lin2(out)


class Attending(nn.Module):
    """SGFormer before: it counts the graphs and their nodes, and its GCN layers add self-loops."""

    def __init__(self):
        super().__init__()
        self.net = pyg.SGFormer(C, C, C)

    def forward(self, x, edge_index, batch):
        return self.net(x, edge_index, batch)


class SizedAttention(SGModule):
    """Its attention in a dense batch of known size. `batch` is sorted, as every loader gives it. SGFormer
    divides by the number of rows, padding included: train and predict with the same `MOST_NODES`."""

    def forward(self, x, batch):
        x, is_node = to_dense_batch(x, batch, batch_size=NUM_GRAPHS, max_num_nodes=MOST_NODES)
        x = self.bns[0](self.fcs[0](x)).relu()
        x = nn.functional.dropout(x, self.dropout, self.training)
        for attend, norm in zip(self.attns, self.bns[1:]):
            x = norm((attend(x, is_node) + x) / 2).relu()
            x = nn.functional.dropout(x, self.dropout, self.training)
        count = degree(batch, NUM_GRAPHS, dtype=torch.long)
        place = torch.arange(len(batch)) - (count.cumsum(0) - count)[batch]
        return x.flatten(0, 1)[batch * MOST_NODES + place]


class SizedAttending(Attending):
    """SGFormer after: sizes are given, and the dataset has the self-loops."""

    def __init__(self):
        super().__init__()
        self.net.trans_conv = SizedAttention(C, C)
        for conv in self.net.graph_conv.convs:
            conv.add_self_loops = False


# `(layer, classes to show, of which the last two are before and after, attributes of Sample to call with)`
BEFORE_AND_AFTER = [
    ("VGAE", (Negatives, GivenNegatives), ("x", "edge_index", "other_edge_index")),
    ("SchNet", (Sized, Potential, SizedPotential), ("z", "pos", "batch")),
    ("TopKPooling", (KeepsTheBest, WeighsAll), ("x", "edge_index", "batch")),
    (
        "DimeNet",
        (list_triplets, Directional, GivenTriplets),
        ("z", "pos", "batch", "edge_index", "triplets"),
    ),
    ("AttentiveFP", (Fingerprint, SizedFingerprint), ("x", "edge_index", "edge_attr", "batch")),
    ("SGFormer", (SizedAttention, Attending, SizedAttending), ("x", "edge_index", "batch")),
    ("RECT_L", (SelfLoopsInside, SelfLoopsInTheData), ("x", "edge_index")),
]

# Layers whose way out is that of another, shown there.
AS_FOR = {
    "TopKPooling": "SAGPooling EdgePooling ClusterPooling ASAPooling PANPooling GraphUNet",
    "VGAE": "ARGVA",
    "DimeNet": "DimeNetPlusPlus GNNFF",
    "RECT_L": "Polynormer",
}
SHOWN_AT = {name: layer for layer, names in AS_FOR.items() for name in [layer, *names.split()]} | {
    layer: layer for layer, *_ in BEFORE_AND_AFTER
}
