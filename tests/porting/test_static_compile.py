"""One graph, traced once, with the same results as eager; anything else is an error that says what."""

import copy

import pytest
import torch
import torch_geometric.nn as pyg
from torch import nn

from gnn_ipu_helpers.porting import StaticGraphError, static_compile, static_replacements

from . import corpus_inputs as given


class Counting:
    """A backend that counts the graphs it is given."""

    def __init__(self):
        self.graphs = 0

    def __call__(self, graph_module, example_inputs):
        self.graphs += 1
        return graph_module


class PointNet(nn.Module):
    """Replaced functions, called through a module and by name, and a replaced layer."""

    def __init__(self):
        super().__init__()
        self.radius = 0.5
        self.lin = pyg.HeteroLinear(3, 4, 3)
        self.conv = pyg.SAGEConv(4, 4)

    def forward(self, pos, kind, batch):
        edge_index = pyg.knn_graph(pos * self.radius, 3, batch)
        return self.conv(self.lin(pos, kind), edge_index).mean()


points = (given.pos, torch.arange(given.NUM_NODES) % 3, given.batch)


def test_later_calls_reuse_the_graph_though_the_replacements_are_gone():
    backend, model = Counting(), PointNet()
    compiled = static_compile(model, backend)
    with static_replacements():
        expected = model(*points)

    for _ in range(3):
        torch.testing.assert_close(compiled(*points), expected)
    assert backend.graphs == 1
    assert compiled.replaced == ("knn_graph", "HeteroLinear")


def test_gradients_are_those_of_eager_training():
    model = pyg.SAGEConv(given.CHANNELS, 4)
    twin = copy.deepcopy(model)
    compiled = static_compile(twin, "aot_eager")
    for factor in (1.0, -2.0):
        model.zero_grad()
        twin.zero_grad()
        model(given.x * factor, given.edge_index).square().sum().backward()
        compiled(given.x * factor, given.edge_index).square().sum().backward()
        for one, other in zip(model.parameters(), twin.parameters()):
            torch.testing.assert_close(other.grad, one.grad)


def test_many_models_of_one_class_each_have_their_own_graph():
    backend = Counting()
    compiled = [static_compile(nn.Linear(width, 1), backend) for width in range(1, 20)]
    for width, function in enumerate(compiled, start=1):
        function(torch.ones(2, width))
        function(torch.ones(2, width))
    assert backend.graphs == len(compiled)


def test_another_shape_raises_and_names_the_difference():
    compiled = static_compile(nn.Linear(4, 2), Counting())
    compiled(torch.ones(3, 4))

    with pytest.raises(StaticGraphError, match="expected 3, actual 5"):
        compiled(torch.ones(5, 4))


def test_an_attribute_changed_after_compilation_raises():
    model = PointNet()
    compiled = static_compile(model, Counting())
    compiled(*points)
    model.radius = 0.7

    with pytest.raises(StaticGraphError, match="radius"):
        compiled(*points)


def test_what_is_not_static_raises_with_the_line_and_is_not_given_to_the_backend():
    backend = Counting()

    def select(x, mask):
        return x[mask]

    with pytest.raises(StaticGraphError, match="boolean indexing") as caught:
        static_compile(select, backend)(given.x, given.mask)
    (finding,) = caught.value.findings
    assert finding.source == "return x[mask]"
    assert backend.graphs == 0


def test_a_size_that_a_later_line_pins_down_is_still_dynamic():
    def pinned(x, mask):
        return x[mask] + torch.ones(6, given.CHANNELS)

    with pytest.raises(StaticGraphError, match="boolean indexing"):
        static_compile(pinned, Counting())(given.x, given.mask)


def test_padding_in_the_first_call_refuses_batch_statistics():
    class Normalised(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = nn.BatchNorm1d(given.CHANNELS)

        def forward(self, data):
            return self.norm(data.x)

    with pytest.raises(StaticGraphError, match="MaskedBatchNorm"):
        static_compile(Normalised(), Counting())(given.padded_batch())


def test_an_error_of_the_backend_comes_through():
    def broken(graph_module, example_inputs):
        raise ZeroDivisionError("no compiler")

    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed, match="no compiler"):
        static_compile(nn.Linear(4, 2), broken)(torch.ones(3, 4))


def test_an_error_of_the_compiled_graph_comes_through():
    def failing(graph_module, example_inputs):
        def run(*inputs):
            raise ZeroDivisionError("out of memory")

        return run

    with pytest.raises(ZeroDivisionError, match="out of memory"):
        static_compile(nn.Linear(4, 2), failing)(torch.ones(3, 4))


def test_an_old_torch_is_refused_with_the_version_needed(monkeypatch):
    monkeypatch.setattr(torch, "__version__", "2.5.1")
    with pytest.raises(RuntimeError, match=r"2\.6 or later \(got 2\.5\.1\)"):
        static_compile(nn.Linear(4, 2), "eager")


def test_other_compiled_functions_keep_their_graphs():
    backend = Counting()
    theirs = torch.compile(lambda x: x + 1, backend=backend, fullgraph=True)
    theirs(given.x)
    static_compile(nn.Linear(given.CHANNELS, 2), "eager")(given.x)
    theirs(given.x)
    assert backend.graphs == 1
