"""Device iterations, gradient accumulation and replication give the weights of the equivalent eager loop."""

import copy

import pytest
import torch
from torch_geometric.data import Batch, Data

from gnn_ipu_helpers import compile_count
from gnn_ipu_helpers import poptorch_cpu as poptorch

from .models import GCN, Classifier, classified
from .side_by_side import assert_same_weights, eager_step

BATCH = 4
LOOPS = [(4, 1, 1), (1, 4, 1), (1, 1, 2), (2, 3, 1), (4, 4, 2)]


def _options(iterations=1, accumulation=1, replicas=1):
    options = poptorch.Options().deviceIterations(iterations).replicationFactor(replicas)
    options.Training.gradientAccumulation(accumulation)
    return options


def _parts(arguments, count):
    return list(zip(*(argument.chunk(count) for argument in arguments)))


@pytest.mark.parametrize(("iterations", "accumulation", "replicas"), LOOPS)
def test_weights_are_those_of_the_eager_loop(iterations, accumulation, replicas):
    model = Classifier()
    eager = copy.deepcopy(model)
    optimizer, eager_optimizer = (torch.optim.Adam(m.parameters(), lr=0.05) for m in (model, eager))
    trained = poptorch.trainingModel(model, _options(iterations, accumulation, replicas), optimizer)
    per_step = accumulation * replicas
    for _ in range(3):
        arguments = classified(BATCH * iterations * per_step)
        trained(*arguments)
        mini_batches = _parts(arguments, iterations * per_step)
        for start in range(0, len(mini_batches), per_step):
            eager_step(eager, eager_optimizer, *mini_batches[start : start + per_step])
        assert_same_weights(model, eager)
    assert compile_count(trained) == 1


def test_sum_reduction_adds_the_gradients_up():
    model = Classifier()
    eager = copy.deepcopy(model)
    options = _options(accumulation=2, replicas=2)
    options.Training.accumulationAndReplicationReductionType(poptorch.ReductionType.Sum)
    trained = poptorch.trainingModel(model, options, torch.optim.SGD(model.parameters(), lr=0.1))
    arguments = classified(BATCH * 4)
    trained(*arguments)
    sum_of_gradients = torch.optim.SGD(eager.parameters(), lr=0.4)
    eager_step(eager, sum_of_gradients, *_parts(arguments, 4))
    assert_same_weights(model, eager)


def test_graphs_are_cut_on_dimension_0():
    model = GCN()
    eager = copy.deepcopy(model)
    graphs = [Data(torch.randn(7, 8), torch.randint(7, (2, 11)), y=torch.randint(4, (7,))) for _ in range(3)]
    combined = [torch.cat([graph[key] for graph in graphs]) for key in ("x", "edge_index", "y")]
    assert combined[1].shape == (6, 11)
    trained = poptorch.trainingModel(model, _options(3), torch.optim.SGD(model.parameters(), lr=0.1))
    trained(*combined)
    optimizer = torch.optim.SGD(eager.parameters(), lr=0.1)
    for graph in graphs:
        eager_step(eager, optimizer, (graph.x, graph.edge_index, graph.y))
    assert_same_weights(model, eager)


def test_data_objects_are_cut_on_dimension_0():
    class Model(GCN):
        def forward(self, data):
            return super().forward(data.x, data.edge_index)

    model = Model().eval()
    graphs = [Data(torch.randn(7, 8), torch.randint(7, (2, 11))) for _ in range(2)]
    combined = Batch(x=torch.cat([g.x for g in graphs]), edge_index=torch.cat([g.edge_index for g in graphs]))
    outputs = poptorch.inferenceModel(model, poptorch.Options().deviceIterations(2))(combined)
    expected = torch.cat([model(graph) for graph in graphs])
    torch.testing.assert_close(outputs, expected)


def test_batch_that_cannot_be_cut_is_refused():
    trained = poptorch.trainingModel(Classifier(), _options(iterations=4))
    with pytest.raises(poptorch.Error, match=r"x of shape \[10, 5\] cannot be cut on dimension 0 into 4"):
        trained(*classified(10))


# Outputs. The model returns its input, so that the outputs tell which mini-batches they come from.


class _Numbers(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(()))

    def forward(self, x):
        return x.clone(), x[0] * 1.0, poptorch.identity_loss(self.weight * x.sum(), "none")


def _outputs(mode, *period, loops=(2, 2, 2), mini_batch=1):
    options = _options(*loops).outputMode(mode, *period)
    total = loops[0] * loops[1] * loops[2] * mini_batch
    out, scalar, _ = poptorch.trainingModel(_Numbers(), options)(torch.arange(float(total)))
    return out.tolist(), scalar.tolist()


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        (poptorch.OutputMode.All, [0, 1, 2, 3, 4, 5, 6, 7]),
        (poptorch.OutputMode.Final, [6, 7]),
        (poptorch.OutputMode.Default, [6, 7]),
        (poptorch.OutputMode.Sum, [0 + 2 + 4 + 6, 1 + 3 + 5 + 7]),
    ],
)
def test_outputs_of_two_iterations_two_accumulations_two_replicas(mode, expected):
    assert _outputs(mode) == (expected, expected)


def test_every_second_iteration_is_returned_with_all_its_accumulation_steps():
    assert _outputs(poptorch.OutputMode.EveryN, 2, loops=(4, 2, 1))[0] == [2, 3, 6, 7]


def test_mini_batches_are_joined_on_dimension_0():
    out, scalar = _outputs(poptorch.OutputMode.All, loops=(2, 1, 1), mini_batch=3)
    assert out == [0, 1, 2, 3, 4, 5]
    assert scalar == [0, 3]


def test_period_must_divide_the_iterations():
    with pytest.raises(poptorch.Error, match="outputMode.EveryN, 3."):
        poptorch.trainingModel(_Numbers(), _options(4).outputMode(poptorch.OutputMode.EveryN, 3))


def test_training_returns_one_scalar_loss_by_default():
    loss = poptorch.trainingModel(Classifier(), _options(3))(*classified(6))[1]
    assert loss.shape == ()


def test_inference_returns_all_outputs_by_default():
    out, loss = poptorch.inferenceModel(Classifier(), poptorch.Options().deviceIterations(3))(*classified(6))
    assert (out.shape, loss.shape) == ((6, 3), (3,))


def test_inference_refuses_gradient_accumulation():
    with pytest.raises(poptorch.Error, match=r"gradientAccumulation to 1 .*Got 2"):
        poptorch.inferenceModel(Classifier(), _options(accumulation=2))
