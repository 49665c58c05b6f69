"""One graph, traced once, with the same results as eager; anything else is an error that says what."""

import copy
import threading

import pytest
import torch
import torch_geometric.nn as pyg
from torch import nn

from gnn_ipu_helpers.porting import StaticGraphError, static_compile, static_replacements
from gnn_ipu_helpers.porting.experiments import value_findings
from gnn_ipu_helpers.porting.internals import refusing_recompilation
from gnn_ipu_helpers.porting.tracing import StaticFunction

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


class Normalised(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(given.CHANNELS)

    def forward(self, data):
        return self.norm(data.x)


def test_padding_in_batch_statistics_is_told_where_asked_for_and_stops_nothing():
    plain = StaticFunction(Normalised(), Counting())
    plain(given.padded_batch())
    asked = StaticFunction(Normalised(), Counting(), tries_padding=True)
    asked(given.padded_batch())

    assert plain.warnings == []
    assert "MaskedBatchNorm" in asked.warnings[0].remedy


def test_the_experiment_leaves_inputs_buffers_and_random_state_to_the_first_call():
    model, twin = Normalised(), Normalised()
    batch = given.padded_batch()
    state = torch.get_rng_state()
    got = StaticFunction(model, "eager", tries_padding=True)(batch)

    torch.testing.assert_close(got, twin(given.padded_batch()))
    torch.testing.assert_close(model.state_dict(), twin.state_dict())
    assert torch.equal(batch.x, given.padded_batch().x)
    assert torch.equal(torch.get_rng_state(), state)


def test_an_index_that_does_not_fit_later_is_told_in_the_same_sentence():
    graphs = []

    def keep(graph_module, example_inputs):
        graphs.append(graph_module)
        return graph_module

    static_compile(lambda x, index: x[index] * 2, keep)(given.x, torch.tensor([0, 11]))
    (finding,) = value_findings(graphs[0], [given.x, torch.tensor([0, 12])])

    assert finding.reason == "an index is 12, and what it indexes has 12 places, 0 to 11"
    assert finding.source.startswith("static_compile(lambda x, index: x[index] * 2")


def test_a_call_in_another_thread_may_compile_while_this_one_refuses_to():
    """Refusing another graph is a matter of the calling thread only."""
    compiled = static_compile(nn.Linear(4, 2), "eager")
    compiled(torch.ones(3, 4))
    theirs = torch.compile(lambda x: x + 1, backend="eager", dynamic=False)
    theirs(torch.ones(2))
    results = []

    def recompile():
        results.append(theirs(torch.ones(5)).sum().item())

    def run_in_between(x):
        thread = threading.Thread(target=recompile)
        thread.start()
        thread.join()
        return x

    with refusing_recompilation():
        run_in_between(compiled(torch.ones(3, 4)))
    assert results == [10.0]


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
