"""One graph for both passes, sums in sorted order: equal to PyTorch's, and found again by the cache."""

import json
import logging
import os
import subprocess
import sys

import pytest
import torch
import torch.nn.functional as F
from torch._inductor.decomposition import select_decomp_table
from torch.fx.experimental.proxy_tensor import make_fx
from torch_geometric.utils import scatter, softmax

from gnn_ipu_helpers import poptorch_cpu as poptorch
from gnn_ipu_helpers.poptorch_cpu import compiler, passes

from .models import GCN
from .side_by_side import assert_same_weights, assert_trains_like_eager

aten = torch.ops.aten


# Sums over neighbours


def _weighted_sum(x, weight, source, target):
    return scatter(x[source] * weight.view(-1, *[1] * (x.dim() - 1)), target, dim_size=len(x), reduce="sum")


def _plain_sum(x, weight, source, target):
    return scatter(x[source], target, dim_size=len(x), reduce="sum")


def _by_index_add(x, weight, source, target):
    return torch.zeros_like(x).index_add(0, target, x.index_select(0, source).sin())


def _mean(x, weight, source, target):
    return scatter(x[source], target, dim_size=len(x), reduce="mean")


def _maximum(x, weight, source, target):
    return scatter(x[source].relu(), target, dim_size=len(x), reduce="max")


def _minimum_and_ties(x, weight, source, target):
    return scatter(x[source].round(), target, dim_size=len(x), reduce="min")


def _attention(x, weight, source, target):
    alpha = softmax(x[source] * x[target], target, num_nodes=len(x))
    return scatter(alpha * x[source], target, dim_size=len(x), reduce="sum")


def _normalised(x, weight, source, target):
    degree = scatter(torch.ones_like(weight), target, dim_size=len(x), reduce="sum")
    norm = degree.pow(-0.5).masked_fill(degree == 0, 0)
    return _weighted_sum(x, norm[source] * norm[target], source, target)


SUMS = [
    *(_weighted_sum, _plain_sum, _by_index_add, _mean, _maximum, _minimum_and_ties, _attention),
    _normalised,
]


def _edges(kind, nodes):
    """Sources and targets `[E]`."""
    if kind == "random":
        return torch.randint(nodes, (2, 40))
    if kind == "empty rows":
        return torch.stack([torch.randint(nodes, (40,)), torch.randint(2, (40,)) * 3 + 1])
    if kind == "repeated":
        return torch.randint(nodes, (2, 4)).repeat(1, 5)
    if kind == "one edge":
        return torch.tensor([[1], [3]])
    return torch.empty(2, 0, dtype=torch.long)


def _both_passes(function):
    """A function of the same arguments that returns the result and the gradients of `x` and `weight`."""

    def run(x, weight, source, target):
        x, weight = x.detach().requires_grad_(), weight.detach().requires_grad_()
        result = function(x, weight, source, target)
        ramp = torch.linspace(-1, 1, result.numel()).view_as(result)
        gradients = torch.autograd.grad(result, (x, weight), ramp, allow_unused=True)
        return [result.detach(), *(gradient for gradient in gradients if gradient is not None)]

    return run


def _rewritten(function, *arguments):
    with_gradients = make_fx(function, tracing_mode="fake")(*arguments)
    functional = torch.func.functionalize(with_gradients)
    traced = make_fx(functional, select_decomp_table(), tracing_mode="fake")(*arguments)
    passes.rewrite(traced.graph)
    traced.graph.lint()
    traced.recompile()
    return traced


def _targets(module):
    return [node.target for node in module.graph.nodes if node.op == "call_function"]


@pytest.mark.parametrize("function", SUMS)
@pytest.mark.parametrize("kind", ["random", "empty rows", "repeated", "one edge", "no edge"])
@pytest.mark.parametrize("width", [(1,), (3,), (64,), (65,), (2, 5), ()])
def test_sums_in_sorted_order_equal_pytorch(function, kind, width):
    nodes = 7
    source, target = _edges(kind, nodes)
    arguments = (torch.randn(nodes, *width), torch.rand(len(source)), source, target)
    rewritten = _rewritten(_both_passes(function), *arguments)
    for got, wanted in zip(rewritten(*arguments), _both_passes(function)(*arguments), strict=True):
        torch.testing.assert_close(got, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("function", SUMS)
@pytest.mark.parametrize("width", [(4,), (1, 4)])
def test_nothing_is_reduced_out_of_order(function, width):
    source, target = _edges("random", 7)
    rewritten = _rewritten(_both_passes(function), torch.randn(7, *width), torch.rand(40), source, target)
    names = [str(target) for target in _targets(rewritten)]
    assert [name for name in names if "scatter" in name or "index_put" in name] == []


@pytest.mark.parametrize("how", ["amax", "amin"])
def test_largest_and_smallest_messages_keep_nan(how):
    def reduced(messages, index):
        rows = index.view(-1, 1).expand_as(messages)
        return torch.zeros(5, 3).scatter_reduce(0, rows, messages, how, include_self=False)

    messages, index = torch.randn(30, 3), torch.arange(30) % 4
    messages[9, 1] = float("nan")
    rewritten = _rewritten(reduced, messages, index)
    assert torch.ops.gnn_ipu_helpers.reduce.default in _targets(rewritten)
    torch.testing.assert_close(rewritten(messages, index), reduced(messages, index), equal_nan=True)


@pytest.mark.parametrize("size", [1, 300, 1 << 16, (1 << 16) + 1, 1 << 20])
def test_the_order_is_stable_for_any_number_of_rows(size):
    index = torch.randint(size, (5000,)) if size > 1 else torch.zeros(5000, dtype=torch.long)
    order, start = torch.ops.gnn_ipu_helpers.order(index, size, False)
    in_order, wanted = index.sort(stable=True)
    assert torch.equal(order, wanted)
    assert torch.equal(start, torch.searchsorted(in_order, torch.arange(size + 1)))


def test_negative_entries_of_an_order_count_from_the_end():
    index = torch.tensor([3, -1, 0, -5])
    order, start = torch.ops.gnn_ipu_helpers.order(index, 5, True)
    assert order.tolist() == [2, 3, 0, 1]
    assert start.tolist() == [0, 2, 2, 2, 3, 4]
    for wraps, wrong in ((True, -6), (True, 5), (False, -1)):
        with pytest.raises(IndexError, match="out of range"):
            torch.ops.gnn_ipu_helpers.order(torch.tensor([0, wrong]), 5, wraps)


def test_a_negative_index_of_a_gather_counts_from_the_end():
    def picked(x, weight, source, target):
        return scatter(x[source] * x[target - 7], target, dim_size=len(x), reduce="sum")

    source, target = _edges("random", 7)
    arguments = torch.randn(7, 4), torch.rand(40), source - 7 * (source > 3), target
    rewritten = _rewritten(_both_passes(picked), *arguments)
    for got, wanted in zip(rewritten(*arguments), _both_passes(picked)(*arguments), strict=True):
        torch.testing.assert_close(got, wanted, rtol=1e-5, atol=1e-5)


def test_edges_are_sorted_once_for_all_layers_and_both_passes():
    def three_layers(x, weight, source, target):
        for _ in range(3):
            x = _normalised(x, weight, source, target).relu()
        return x

    source, target = _edges("random", 7)
    rewritten = _rewritten(_both_passes(three_layers), torch.randn(7, 4), torch.rand(40), source, target)
    # By target, and by source for the way back.
    assert _targets(rewritten).count(torch.ops.gnn_ipu_helpers.order.default) == 2


def test_gathered_messages_are_not_stored():
    source, target = _edges("random", 7)
    rewritten = _rewritten(_plain_sum, torch.randn(7, 4), torch.rand(40), source, target)
    bag = next(
        node for node in rewritten.graph.nodes if node.target is aten._embedding_bag_forward_only.default
    )
    assert tuple(bag.args[0].meta["val"].shape) == (7, 4)


def test_an_index_that_differs_between_columns_is_left_alone():
    def by_column(values, index):
        return torch.zeros(5, 3).scatter_add(0, index, values)

    arguments = torch.randn(6, 3), torch.randint(5, (6, 3))
    rewritten = _rewritten(by_column, *arguments)
    assert aten.scatter_add.default in _targets(rewritten)
    torch.testing.assert_close(rewritten(*arguments), by_column(*arguments))


def test_an_index_broadcast_over_rows_is_left_alone():
    def over_rows(values, index):
        return torch.zeros(6, 6).scatter_add(0, index.view(1, -1).expand(6, 6), values)

    arguments = torch.randn(6, 6), torch.randint(6, (6,))
    torch.testing.assert_close(_rewritten(over_rows, *arguments)(*arguments), over_rows(*arguments))


def test_a_sum_onto_other_values_than_zeros_is_left_alone():
    def onto(start, values, index):
        return start.index_add(0, index, values)

    arguments = torch.randn(5, 3), torch.randn(6, 3), torch.randint(5, (6,))
    torch.testing.assert_close(_rewritten(onto, *arguments)(*arguments), onto(*arguments))


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.int64])
def test_other_types_than_float32_are_left_alone(dtype):
    def summed(values, index):
        return torch.zeros(5, 3, dtype=dtype).index_add(0, index, values)

    arguments = torch.randint(9, (6, 3)).to(dtype), torch.randint(5, (6,))
    rewritten = _rewritten(summed, *arguments)
    assert torch.ops.gnn_ipu_helpers.order.default not in _targets(rewritten)
    torch.testing.assert_close(rewritten(*arguments), summed(*arguments))


def test_random_numbers_are_not_shared():
    def two_masks(x):
        return F.dropout(x, 0.5) - F.dropout(x, 0.5)

    assert _rewritten(two_masks, torch.ones(100))(torch.ones(100)).abs().sum() > 0


# Matrix products


@pytest.mark.parametrize(
    "shape",
    [
        (600, 700, 16),
        (600, 16, 300),
        (600, 16, 5),
        (600, 120, 64),
        (600, 11, 64),
        (600, 64, 64),
        (20, 8, 4),
        (600, 8, 1),
    ],
)
def test_products_of_any_shape_equal_pytorch(shape):
    rows, features, out = shape

    def linear(x, weight, bias):
        x, weight, bias = (tensor.detach().requires_grad_() for tensor in (x, weight, bias))
        result = F.linear(x, weight, bias).relu() + F.linear(x, weight)
        return [result.detach(), *torch.autograd.grad(result.square().sum(), (x, weight, bias))]

    weight = torch.randn(out, features) / features**0.5
    arguments = torch.randn(rows, features), weight, torch.randn(out)
    for got, wanted in zip(_rewritten(linear, *arguments)(*arguments), linear(*arguments), strict=True):
        torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-3)


def test_a_bias_is_added_by_what_comes_next():
    def two_layers(x, weight, bias):
        return F.linear(F.linear(x, weight, bias).relu(), weight, bias)

    arguments = torch.randn(600, 64), torch.randn(64, 64), torch.randn(64)
    rewritten = _rewritten(two_layers, *arguments)
    assert _targets(rewritten).count(aten.addmm.default) == 1  # nothing comes after the second
    torch.testing.assert_close(rewritten(*arguments), two_layers(*arguments))


def test_long_and_narrow_products_use_the_faster_kernel():
    def linear(x, weight, bias):
        weight = weight.detach().requires_grad_()
        return torch.autograd.grad(F.linear(x, weight, bias).square().sum(), weight)[0]

    long = _rewritten(linear, torch.randn(600, 120), torch.randn(64, 120), torch.randn(64))
    assert torch.ops.gnn_ipu_helpers.linear.default in _targets(long)
    wide = _rewritten(linear, torch.randn(600, 700), torch.randn(16, 700), torch.randn(16))
    assert _targets(wide).count(torch.ops.gnn_ipu_helpers.linear.default) == 2  # forward, and the gradient
    narrow = _rewritten(linear, torch.randn(600, 11), torch.randn(64, 11), torch.randn(64))
    _, product = [node for node in narrow.graph.nodes if node.target is aten.mm.default]
    assert tuple(product.meta["val"].shape) == (11, 64)


# Compiled models


@pytest.fixture
def inductor(monkeypatch):
    """Compile with inductor; other tests run the graph as it is."""
    monkeypatch.setenv("GNN_IPU_COMPILER", "inductor")


class _Summing(torch.nn.Module):
    """The sum over neighbours after a linear layer, and the loss."""

    def __init__(self, width):
        super().__init__()
        self.linear = torch.nn.Linear(width, width)

    def forward(self, x, source, target):
        out = scatter(self.linear(x)[source], target, dim_size=x.size(0), reduce="sum")
        return out, poptorch.identity_loss(out.square(), reduction="mean")


@pytest.mark.parametrize(("place", "wrong"), [(0, -8), (0, 7), (1, -1), (1, 7)])
def test_an_index_out_of_range_raises(inductor, place, wrong):
    model = _Summing(4)
    training = poptorch.trainingModel(model, None, poptorch.optim.SGD(model.parameters(), lr=0.1))
    edges = _edges("random", 7)
    training(torch.randn(7, 4), *edges)
    edges[place, 5] = wrong
    with pytest.raises((RuntimeError, IndexError)):
        training(torch.randn(7, 4), *edges)


def test_a_negative_source_counts_from_the_end_as_in_eager(inductor):
    source, target = _edges("random", 7)
    assert_trains_like_eager(_Summing(4), torch.randn(7, 4), source - 7 * (source > 3), target)


def test_dropout_and_batch_norm_train_like_eager(inductor, graph):
    class Normed(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.gcn, self.norm = GCN(classes=5), torch.nn.BatchNorm1d(5)
            self.head = torch.nn.Linear(5, 4)

        def forward(self, x, edge_index, y):
            hidden = F.leaky_relu(self.norm(self.gcn(x, edge_index)))
            return F.cross_entropy(self.head(F.dropout(hidden, 0.3)).clamp(-2, 2), y)

    # Adam would turn the rounding of gradients that are zero, of a bias before a norm, into steps.
    assert_trains_like_eager(Normed(), *graph, steps=20, optimizer=torch.optim.SGD)


def test_a_parameter_that_takes_no_part_has_no_gradient(inductor, graph):
    model = GCN()
    model.unused = torch.nn.Linear(2, 2)
    before = model.unused.weight.detach().clone()
    training = poptorch.trainingModel(model, None, poptorch.optim.AdamW(model.parameters(), lr=0.1))
    training(*graph)
    assert torch.equal(model.unused.weight, before)


def test_frozen_parameters_stay(inductor, graph):
    model = GCN()
    model.first.requires_grad_(False)
    before = model.first.lin.weight.detach().clone()
    assert_trains_like_eager(model, *graph)
    assert torch.equal(model.first.lin.weight, before)


def test_a_loss_with_several_values_trains_on_their_sum(inductor):
    class Several(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(3, 1)

        def forward(self, x):
            return poptorch.identity_loss(self.linear(x).square(), reduction="none")

    compiled, x = Several(), torch.randn(5, 3)
    eager = Several()
    eager.load_state_dict(compiled.state_dict())
    training = poptorch.trainingModel(compiled, None, poptorch.optim.SGD(compiled.parameters(), lr=0.1))
    optimizer = torch.optim.SGD(eager.parameters(), lr=0.1)
    for _ in range(3):
        training(x)
        optimizer.zero_grad()
        eager.linear(x).square().sum().backward()
        optimizer.step()
    assert_same_weights(compiled, eager)


def _missing(*_):
    raise ImportError("cannot import name 'make_fx'")


def test_without_a_private_name_of_torch_the_plain_path_runs_and_says_so_once(
    inductor, graph, monkeypatch, caplog
):
    monkeypatch.setattr(compiler, "_forward_and_backward", _missing)
    compiler._say_slower.cache_clear()
    with caplog.at_level(logging.WARNING, logger="poptorch"):
        for hidden in (6, 7):
            assert_trains_like_eager(GCN(hidden=hidden), *graph)
    messages = [record.message for record in caplog.records if "without the changes" in record.message]
    assert len(messages) == 1
    assert "make_fx" in messages[0]


def test_a_compilation_of_the_users_own_is_not_changed(inductor, graph):
    model = GCN()
    training = poptorch.trainingModel(model, None, poptorch.optim.SGD(model.parameters(), lr=0.1))
    training(*graph)
    from torch._inductor import config

    assert config.joint_custom_pre_pass is None
    assert not config.fallback_random
    assert config.size_asserts


SECOND_PROCESS = """
import json, sys, torch, torch._dynamo.utils
from gnn_ipu_helpers import poptorch_cpu as poptorch
from tests.poptorch_cpu.models import GCN
torch.manual_seed(0)
model = GCN()
options = poptorch.Options().showCompilationProgressBar(False).enableExecutableCaching(sys.argv[1])
training = poptorch.trainingModel(model, options, poptorch.optim.Adam(model.parameters(), lr=0.1))
inputs = torch.randn(20, 8), torch.randint(20, (2, 60)), torch.randint(4, (20,))
losses = [training(*inputs)[1].item() for _ in range(3)]
counters = torch._dynamo.utils.counters
aot, inductor = counters["aot_autograd"], counters["inductor"]
print(json.dumps({
    "losses": losses,
    **{
        kind: aot[f"autograd_cache_{kind}"] + inductor[f"fxgraph_cache_{kind}"]
        for kind in ("hit", "miss", "bypass")
    },
}))
"""


def _in_a_process(directory):
    environment = {**os.environ, "PYTHONPATH": os.getcwd(), "GNN_IPU_COMPILER": "inductor"}
    result = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", SECOND_PROCESS, str(directory)],
        capture_output=True,
        text=True,
        env=environment,
        check=True,
    )
    return json.loads(result.stdout.splitlines()[-1])


def test_the_second_process_finds_the_rewritten_graph(tmp_path):
    first, second = _in_a_process(tmp_path), _in_a_process(tmp_path)
    assert (first["hit"], first["bypass"]) == (0, 0)
    assert (second["miss"], second["bypass"]) == (0, 0)
    assert second["hit"] > 0
    assert second["losses"] == first["losses"]
