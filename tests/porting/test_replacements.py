"""PyG's layers and their static versions compute the same, and nothing of the latter stays behind."""

import builtins
import copy
import threading

import pytest
import torch
import torch_geometric.nn as pyg
import torch_geometric.typing
from torch import nn
from torch_geometric.utils import to_dense_adj

from gnn_ipu_helpers.porting import check, static_replacements
from gnn_ipu_helpers.porting.static_layers import REPLACEMENTS, digest, static_versions

from . import corpus_inputs as given

C = given.CHANNELS
unsorted_type = torch.randint(0, 3, (given.NUM_NODES,), generator=torch.Generator().manual_seed(3))
edge_type = torch.randint(0, 3, (given.edge_index.size(1),), generator=torch.Generator().manual_seed(4))
# Two nodes have a self-loop of their own, one node has no edge at all.
loops = torch.tensor([[1, 5], [1, 5]])
no_edge_at_last = given.edge_index[:, (given.edge_index != given.NUM_NODES - 1).all(dim=0)]
edges_with_loops = torch.cat([no_edge_at_last, loops], dim=1)
weights = torch.rand(edges_with_loops.size(1), generator=torch.Generator().manual_seed(5))
graph = (given.x, given.edge_index)
relational = (*graph, edge_type)
grouped = (given.x, given.batch)
three = {"dim_size": given.NUM_GRAPHS}
four_each = {**three, "max_num_elements": 4}
attributes = {"edge_attr": given.edge_attr}
within = {"attention_mechanism": "within-relation", "heads": 2}
multiplied = {"attention_mode": "multiplicative-self-attention", "dim": 2}


def scaled(**kwargs):
    """RGATConv that modulates by degree; PyG leaves one of its weights uninitialised."""
    layer = pyg.RGATConv(C, 5, 3, mod="scaled", **kwargs)
    nn.init.uniform_(layer.l2)
    return layer


LAYERS = {
    "HeteroLinear": (lambda: pyg.HeteroLinear(C, 5, 3), (given.x, unsorted_type), {}),
    "HeteroLinear without bias": (
        lambda: pyg.HeteroLinear(C, 5, 3, bias=False),
        (given.x, unsorted_type),
        {},
    ),
    "HeteroDictLinear": (lambda: pyg.HeteroDictLinear(C, 5, list(given.x_dict)), (given.x_dict,), {}),
    "HGTConv": (
        lambda: pyg.HGTConv(C, C, given.metadata, heads=2),
        (given.x_dict, given.edge_index_dict),
        {},
    ),
    "HEATConv": (
        lambda: pyg.HEATConv(C, C, 3, 3, 4, C, 4, heads=2),
        (*graph, unsorted_type, edge_type, given.edge_attr),
        {},
    ),
    "ClusterGCNConv": (lambda: pyg.ClusterGCNConv(C, 5, diag_lambda=0.7), (given.x, edges_with_loops), {}),
    "ChebConv": (lambda: pyg.ChebConv(C, 5, 3), (given.x, edges_with_loops, weights), {}),
    "ChebConv rw": (
        lambda: pyg.ChebConv(C, 5, 3, normalization="rw"),
        (given.x, given.edge_index, given.edge_weight),
        {"lambda_max": torch.tensor(1.5)},
    ),
    "ChebConv none": (lambda: pyg.ChebConv(C, 5, 3, normalization=None), (given.x, edges_with_loops), {}),
    "MFConv": (lambda: pyg.MFConv(C, 5, max_degree=2), (given.x, edges_with_loops), {}),
    "RGCNConv": (lambda: pyg.RGCNConv(C, 5, 3), relational, {}),
    "RGCNConv bases": (lambda: pyg.RGCNConv(C, 5, 3, num_bases=2), relational, {}),
    "RGCNConv blocks": (lambda: pyg.RGCNConv(C, 4, 3, num_blocks=2), relational, {}),
    "RGCNConv max": (lambda: pyg.RGCNConv(C, 5, 3, aggr="max"), relational, {}),
    "RGCNConv embeddings": (
        lambda: pyg.RGCNConv(given.NUM_NODES, 5, 3),
        (None, given.edge_index, edge_type),
        {},
    ),
    "FiLMConv": (lambda: pyg.FiLMConv(C, 5, 3), relational, {}),
    "FiLMConv one relation": (lambda: pyg.FiLMConv(C, 5), graph, {}),
    "RGATConv": (lambda: pyg.RGATConv(C, 5, 3, heads=2), relational, {}),
    "RGATConv within": (lambda: pyg.RGATConv(C, 5, 3, **within), relational, {}),
    "RGATConv within, edges": (
        lambda: pyg.RGATConv(C, 4, 3, num_blocks=2, edge_dim=C, **within),
        relational,
        attributes,
    ),
    "RGATConv within, bases": (
        lambda: scaled(num_bases=2, **within),
        relational,
        {},
    ),
    "RGATConv within, additive": (lambda: pyg.RGATConv(C, 5, 3, mod="additive", **within), relational, {}),
    "RGATConv within, f-scaled": (lambda: pyg.RGATConv(C, 5, 3, mod="f-scaled", **within), relational, {}),
    "RGATConv within, multiplied": (
        lambda: pyg.RGATConv(C, 5, 3, mod="f-additive", **multiplied, **within),
        relational,
        {},
    ),
    "RGATConv within, multiplied and scaled": (
        lambda: scaled(**multiplied, **within),
        relational,
        {},
    ),
    "GPSConv": (lambda: pyg.GPSConv(C, pyg.SAGEConv(C, C), heads=2), (*graph, given.batch), {}),
    "QuantileAggregation": (lambda: pyg.QuantileAggregation([0.2, 0.9]), grouped, {"dim_size": 5}),
    "QuantileAggregation nearest": (
        lambda: pyg.QuantileAggregation(0.4, interpolation="nearest"),
        (given.x.flip(0), given.batch[torch.arange(12) * 5 % 12]),
        three,
    ),
    "QuantileAggregation midpoint": (lambda: pyg.QuantileAggregation(0.4, "midpoint"), grouped, three),
    "MedianAggregation": (lambda: pyg.MedianAggregation(), grouped, three),
    "GRUAggregation": (lambda: pyg.GRUAggregation(C, 5), grouped, four_each),
    "LSTMAggregation": (lambda: pyg.LSTMAggregation(C, 5), grouped, four_each),
    "MLPAggregation": (lambda: pyg.MLPAggregation(C, 5, 4, num_layers=1), grouped, three),
    "SortAggregation": (lambda: pyg.SortAggregation(3), grouped, four_each),
    "SetTransformerAggregation": (lambda: pyg.SetTransformerAggregation(C), grouped, four_each),
    "InstanceNorm": (
        lambda: pyg.InstanceNorm(C, affine=True, track_running_stats=True),
        grouped,
        {"batch_size": given.NUM_GRAPHS},
    ),
    "HeteroBatchNorm": (lambda: pyg.HeteroBatchNorm(C, 4), (given.x, unsorted_type), {}),
    "HeteroBatchNorm averaged": (
        lambda: pyg.HeteroBatchNorm(C, 3, momentum=None),
        (given.x, unsorted_type),
        {},
    ),
    "MaskLabel": (lambda: pyg.MaskLabel(given.CLASSES, C), (given.x, given.y, given.mask), {}),
    "MaskLabel beside": (
        lambda: pyg.MaskLabel(given.CLASSES, 3, method="concat"),
        (given.x, given.y, given.mask),
        {},
    ),
    "LSTM": (lambda: nn.LSTM(C, 5, 2, bidirectional=True, batch_first=True), (given.x.view(3, 4, C),), {}),
    "LSTM without batch": (lambda: nn.LSTM(C, 5, bias=False), (given.x,), {}),
    "LSTM with state": (
        lambda: nn.LSTM(C, 5),
        (given.x.view(4, 3, C), (torch.ones(1, 3, 5), torch.full((1, 3, 5), 0.5))),
        {},
    ),
}


def tensors(value):
    """All floating-point tensors in nested dicts, lists and tuples."""
    if isinstance(value, torch.Tensor):
        return [value] if value.is_floating_point() else []
    items = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
    return [tensor for item in items for tensor in tensors(item)]


def run(layer, inputs, options):
    """Outputs, then gradients of all parameters and inputs, then buffers."""
    inputs = copy.deepcopy(inputs)
    leaves = [leaf.requires_grad_() for leaf in tensors(inputs)]
    outputs = tensors(layer(*inputs, **options))
    sum(
        (output * torch.linspace(-1, 1, output.numel()).view_as(output)).sum() for output in outputs
    ).backward()
    gradients = [leaf.grad for leaf in [*layer.parameters(), *leaves] if leaf.grad is not None]
    return [output.detach() for output in outputs], gradients, list(layer.buffers())


@pytest.mark.parametrize("name", LAYERS)
def test_static_version_gives_the_same_results_gradients_and_buffers(name):
    build, inputs, options = LAYERS[name]
    torch.manual_seed(0)
    layer = build()
    twin = copy.deepcopy(layer)

    expected = run(layer, inputs, options)
    with static_replacements():
        got = run(twin, inputs, options)

    for theirs, ours in zip(expected, got):
        assert len(theirs) == len(ours)
        for one, other in zip(theirs, ours):
            torch.testing.assert_close(other, one, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "name", [name for name in LAYERS if not name.startswith(("RGATConv", "FiLM", "RGCN"))]
)
def test_replaced_layer_passes_the_check(name):
    build, inputs, options = LAYERS[name]

    report = check(build().eval(), *inputs, **options)

    assert report.ok, str(report)


def test_an_unsorted_index_is_sorted_and_not_taken_for_sorted():
    layer = pyg.GRUAggregation(C, 5)
    order = torch.arange(given.NUM_NODES) * 5 % given.NUM_NODES
    back = torch.argsort(given.batch[order], stable=True)

    with static_replacements():
        shuffled = layer(given.x[order], given.batch[order], **four_each)
    expected = layer(given.x[order][back], given.batch[order][back], **four_each)

    torch.testing.assert_close(shuffled, expected)


def test_dense_adjacency_leaves_out_edges_beyond_the_largest_size():
    size = {"batch_size": given.NUM_GRAPHS, "max_num_nodes": 3}
    expected = to_dense_adj(given.edge_index, given.batch, given.edge_attr, **size)

    with static_replacements():
        got = to_dense_adj(given.edge_index, given.batch, given.edge_attr, **size)

    torch.testing.assert_close(got, expected)


def snapshot():
    """Everything that the replacements touch, as it is now."""
    return [
        *(getattr(pyg, name).forward for name in ("HeteroLinear", "RGCNConv", "MFConv", "ChebConv", "XConv")),
        pyg.ChebConv.__norm__,
        pyg.aggr.Aggregation.to_dense_batch,
        "to_dense_batch" in vars(pyg.GRUAggregation),
        pyg.knn_graph,
        pyg.pool.knn_graph,
        to_dense_adj,
        torch_geometric.typing.WITH_KNN,
        builtins.print,
        nn.LSTM.forward,
    ]


def test_nothing_outlives_the_scope():
    before = snapshot()
    with static_replacements():
        assert snapshot() != before
        with static_replacements():
            pass
        assert snapshot() != before
    assert snapshot() == before


def test_nothing_outlives_an_error():
    before = snapshot()
    with pytest.raises(KeyError), static_replacements():
        raise KeyError
    assert snapshot() == before

    class Fails(nn.Module):
        def forward(self, x):
            raise ValueError("no such thing")

    with pytest.raises(ValueError, match="no such thing"):
        check(Fails(), given.x)
    assert snapshot() == before


def test_two_threads_take_turns():
    before = snapshot()
    inside, order = threading.Event(), []

    def other():
        inside.wait()
        with static_replacements():
            order.append("second")

    thread = threading.Thread(target=other)
    thread.start()
    with static_replacements():
        inside.set()
        thread.join(timeout=0.2)
        order.append("first")
    thread.join()

    assert order == ["first", "second"]
    assert snapshot() == before


def test_print_prints_as_ever_outside_a_trace(capsys):
    with static_replacements():
        print("hello", torch.ones(1), sep="|")
    assert capsys.readouterr().out == "hello|tensor([1.])\n"


@pytest.mark.skipif(torch_geometric.typing.WITH_KNN, reason="pyg-lib is installed")
@pytest.mark.parametrize("name", ["DynamicEdgeConv", "GravNetConv", "XConv", "SplineConv"])
def test_layers_that_need_pyg_lib_can_be_built_in_the_scope_only(name):
    arguments = {
        "DynamicEdgeConv": (nn.Linear(2 * C, C), 3),
        "GravNetConv": (C, C, 3, 4, 3),
        "XConv": (C, C, 3, 3),
        "SplineConv": (C, C, 2, 3),
    }
    with static_replacements():
        assert getattr(pyg, name)(*arguments[name])
    with pytest.raises(ImportError):
        getattr(pyg, name)(*arguments[name])


HASHED = [entry for entry in REPLACEMENTS if entry.source]


@pytest.mark.parametrize("entry", HASHED, ids=[f"{entry.label}.{entry.name}" for entry in HASHED])
def test_the_code_that_a_static_version_stands_for_is_the_code_it_was_written_for(entry):
    assert digest(entry.original) == entry.source, (
        f"PyG or torch changed {entry.label} {entry.name}: see whether {entry.static.__name__} in "
        f"static_layers.py still computes the same, then set its source to {digest(entry.original)!r}."
    )


def test_every_static_version_of_code_says_what_it_was_written_for():
    without = [entry.label for entry in REPLACEMENTS if callable(entry.static) and not entry.source]
    assert sorted(without) == ["Logger", "print", "spline_basis", "spline_weighting"]


def test_an_import_under_another_name_is_replaced_too():
    from torch_geometric.utils import to_dense_adj as dense

    held = {"dense": dense}
    report = check(
        lambda e, b: held["dense"](e, b, batch_size=3, max_num_nodes=4), given.edge_index, given.batch
    )

    assert report.ok
    assert report.replaced == ("to_dense_adj",)


def test_a_function_of_ours_by_the_name_of_a_replaced_one_is_not_taken_for_it():
    from gnn_ipu_helpers import poptorch

    assert check(lambda x: poptorch.nop(x) + 1, given.x).replaced == ()
    assert static_versions().get((poptorch.nop.__code__.co_filename, "nearest")) is None


def test_other_threads_run_pygs_own_code_meanwhile():
    layer = pyg.MFConv(C, 4)
    seen = []

    def elsewhere():
        seen.append(layer(given.x, given.edge_index))
        seen.append(to_dense_adj(given.edge_index, given.batch))  # asks the data for its sizes

    expected = layer(given.x, given.edge_index)
    with static_replacements():
        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
    torch.testing.assert_close(seen[0], expected)
    assert seen[1].shape == (3, 4, 4)
