"""A wrapped model trains exactly as eager PyTorch does, whatever it takes and returns, and compiles once."""

import copy

import numpy
import pytest
import torch
import torch.nn.functional as F
from torch_geometric.data import Batch, Data, HeteroData
from torch_geometric.nn import GINConv, HeteroConv, HGTConv, SAGEConv, global_add_pool, to_hetero

from gnn_ipu_helpers import compile_count
from gnn_ipu_helpers import poptorch_cpu as poptorch
from gnn_ipu_helpers.poptorch_cpu import compiler

from .models import GCN, Classifier, classified
from .side_by_side import assert_same_weights, assert_trains_like_eager, loss_of

NODE_TYPES = {"movie": 10, "actor": 8}
EDGE_TYPES = [("actor", "plays", "movie"), ("movie", "has", "actor")]
METADATA = (list(NODE_TYPES), EDGE_TYPES)


def _hetero_inputs():
    x_dict = {name: torch.randn(count, 6) for name, count in NODE_TYPES.items()}
    edge_index_dict = {
        edge_type: torch.stack(
            [torch.randint(NODE_TYPES[edge_type[0]], (25,)), torch.randint(NODE_TYPES[edge_type[2]], (25,))]
        )
        for edge_type in EDGE_TYPES
    }
    return x_dict, edge_index_dict, torch.randint(3, (NODE_TYPES["movie"],))


class _HeteroWithLoss(torch.nn.Module):
    """A heterogeneous layer or model, a linear layer over movies, and the loss."""

    def __init__(self, model):
        super().__init__()
        self.model = model
        self.linear = torch.nn.Linear(6, 3)

    def forward(self, x_dict, edge_index_dict, y):
        out = self.linear(self.model(x_dict, edge_index_dict)["movie"].relu())
        return out, F.cross_entropy(out, y)


class _SAGE(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = SAGEConv(6, 6), SAGEConv(6, 6)

    def forward(self, x, edge_index):
        return self.second(self.first(x, edge_index).relu(), edge_index)


HETEROGENEOUS = {
    "to_hetero": lambda: to_hetero(_SAGE(), METADATA),
    "HeteroConv": lambda: HeteroConv({edge_type: SAGEConv(6, 6) for edge_type in EDGE_TYPES}),
    "HGTConv": lambda: HGTConv(6, 6, METADATA, heads=2),
}


@pytest.mark.parametrize("name", HETEROGENEOUS)
def test_heterogeneous_model_trains_like_eager(name):
    assert_trains_like_eager(_HeteroWithLoss(HETEROGENEOUS[name]()), *_hetero_inputs())


def test_heterogeneous_data_object_is_taken_as_it_is():
    class Model(_HeteroWithLoss):
        def forward(self, data):
            return super().forward(data.x_dict, data.edge_index_dict, data["movie"].y)

    x_dict, edge_index_dict, y = _hetero_inputs()
    data = HeteroData({"movie": {"x": x_dict["movie"], "y": y}, "actor": {"x": x_dict["actor"]}})
    for edge_type, edge_index in edge_index_dict.items():
        data[edge_type].edge_index = edge_index
    assert_trains_like_eager(Model(HETEROGENEOUS["HeteroConv"]()), data)


class _GIN(torch.nn.Module):
    """A graph-level model that takes a batch of 4 graphs as one object."""

    def __init__(self):
        super().__init__()
        self.conv = GINConv(torch.nn.Linear(5, 4))
        self.linear = torch.nn.Linear(4, 2)

    def forward(self, data):
        x = self.conv(data.x, data.edge_index).relu()
        out = self.linear(global_add_pool(x, data.batch, size=4))
        return out, F.cross_entropy(out, data.y)


def _graphs():
    return [Data(torch.randn(6, 5), torch.randint(6, (2, 9)), y=torch.tensor([i % 2])) for i in range(4)]


def test_batch_of_graphs_trains_like_eager():
    assert_trains_like_eager(_GIN(), Batch.from_data_list(_graphs()))


def test_values_beside_the_tensors_of_a_batch_may_change_where_the_model_does_not_use_them():
    trained = poptorch.trainingModel(_GIN())
    for name in ("first", "second", "third"):
        batch = Batch.from_data_list(_graphs())
        batch.name, batch.count, batch.array = name, len(name), numpy.ones(len(name))
        trained(batch)
    assert compile_count(trained) == 1


def test_value_that_became_part_of_the_graph_may_not_change():
    class Scaled(_GIN):
        def forward(self, data):
            out, loss = super().forward(data)
            return out, poptorch.identity_loss(loss * data.factor, "none")

    trained = poptorch.trainingModel(Scaled())
    batch = Batch.from_data_list(_graphs())
    batch.factor = 2
    trained(batch)
    batch.factor = 3
    with pytest.raises(poptorch.Error, match="factor"):
        trained(batch)


def test_dropout_draws_what_eager_draws(graph):
    assert_trains_like_eager(GCN(dropout=0.5), *graph)


def test_convolutions_and_batch_statistics_train_like_eager():
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = torch.nn.Sequential(
                torch.nn.Conv2d(1, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.ReLU(), torch.nn.Flatten(),
                torch.nn.Linear(4 * 36, 3),
            )  # fmt: skip

        def forward(self, images, labels):
            out = self.layers(images)
            return out, F.cross_entropy(out, labels)

    assert_trains_like_eager(Model(), torch.randn(6, 1, 8, 8), torch.randint(3, (6,)))


@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.AdamW, torch.optim.RMSprop])
def test_torch_optimisers_are_taken(optimizer):
    assert_trains_like_eager(Classifier(), *classified(8), optimizer=optimizer)


def test_nested_outputs_come_back_in_their_structure():
    class Model(Classifier):
        def forward(self, x, y):
            out, loss = super().forward(x, y)
            return {"logits": out, "rest": [loss, (x, None, "text")]}

    x, y = classified(4)
    outputs = poptorch.trainingModel(Model())(x, y)
    assert list(outputs) == ["logits", "rest"]
    assert outputs["logits"].shape == (4, 3)
    assert torch.equal(outputs["rest"][1][0], x)
    assert outputs["rest"][1][1:] == (None, "text")


def test_outputs_carry_no_gradient():
    outputs = poptorch.trainingModel(Classifier())(*classified(4))
    assert not any(output.requires_grad for output in outputs)


def test_one_compilation_serves_a_whole_run(graph):
    model = GCN()
    trained = poptorch.trainingModel(model)
    inferred = poptorch.inferenceModel(model)
    x, edge_index, y = graph
    for _ in range(5):
        trained(x + torch.randn_like(x), edge_index[:, torch.randperm(60)], y)
        inferred(x, edge_index)
    assert (compile_count(trained), compile_count(inferred)) == (1, 1)


def test_python_code_of_the_model_runs_once():
    class Model(Classifier):
        pass

    trained = poptorch.trainingModel(Model())
    trained(*classified(4))

    def broken(self, *arguments):
        raise RuntimeError("the Python code ran again")

    Model.forward = broken
    for _ in range(2):
        assert trained(*classified(4))[1].isfinite()


def test_training_and_inference_share_the_weights(graph):
    model = GCN()
    eager = copy.deepcopy(model)
    trained = assert_trains_like_eager(model, *graph)
    x, edge_index, _ = graph
    before = poptorch.inferenceModel(eager)(x, edge_index)
    inferred = poptorch.inferenceModel(model)
    assert not torch.allclose(inferred(x, edge_index), before)
    assert torch.allclose(inferred(x, edge_index), model.eval()(x, edge_index), atol=1e-6)
    assert_same_weights(trained, model)


def test_training_uses_dropout_and_inference_does_not(graph):
    model = GCN(dropout=0.9)
    x, edge_index, y = graph
    trained = poptorch.trainingModel(model, optimizer=poptorch.optim.SGD(model.parameters(), lr=0.0))
    trained.compile(x, edge_index, y)
    inferred = poptorch.inferenceModel(model.eval())
    assert not torch.equal(trained(x, edge_index, y)[0], trained(x, edge_index, y)[0])
    assert torch.equal(inferred(x, edge_index), inferred(x, edge_index))
    assert not torch.equal(trained(x, edge_index, y)[0], trained(x, edge_index, y)[0])


def test_inputs_in_another_memory_layout_give_the_same_result(graph):
    x, edge_index, y = graph
    inferred = poptorch.inferenceModel(GCN())
    expected = inferred(x, edge_index)
    assert torch.equal(inferred(x.t().contiguous().t(), edge_index.t().contiguous().t()), expected)


def test_the_same_tensor_twice_is_two_arguments():
    class Model(torch.nn.Module):
        def forward(self, a, b):
            return a + 2 * b

    inferred = poptorch.inferenceModel(Model())
    x, y = torch.ones(3), torch.zeros(3)
    assert torch.equal(inferred(x, x), 3 * x)
    assert torch.equal(inferred(x, y), x)


def test_frozen_parameters_stay(graph):
    model = GCN()
    model.first.requires_grad_(False)
    frozen = copy.deepcopy(model.first.state_dict())
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.1)
    trained = poptorch.trainingModel(model, optimizer=optimizer)
    losses = [loss_of(trained(*graph)).item() for _ in range(3)]
    assert losses[-1] < losses[0]
    assert all(torch.equal(frozen[name], value) for name, value in model.first.state_dict().items())


def test_inductor_trains_like_eager(graph, monkeypatch):
    monkeypatch.setenv("GNN_IPU_COMPILER", "inductor")
    assert_trains_like_eager(GCN(dropout=0.5), *graph)


def test_inductor_takes_inputs_in_any_memory_layout(monkeypatch):
    monkeypatch.setenv("GNN_IPU_COMPILER", "inductor")
    model = Classifier().eval()
    inferred = poptorch.inferenceModel(model)
    x, y = classified(6)
    torch.testing.assert_close(inferred(x, y), model(x, y))
    transposed = torch.randn(5, 6).t()
    torch.testing.assert_close(inferred(transposed, y), model(transposed, y))


def test_compiler_that_does_not_exist_is_refused(monkeypatch):
    monkeypatch.setenv("GNN_IPU_COMPILER", "gcc")
    with pytest.raises(poptorch.Error, match="'inductor' or 'unfused' .got 'gcc'"):
        poptorch.trainingModel(Classifier())(*classified(4))


def test_without_a_cpp_compiler_the_graph_runs_unfused_and_says_so_once(monkeypatch, caplog):
    monkeypatch.delenv("GNN_IPU_COMPILER")
    monkeypatch.setattr(compiler.shutil, "which", lambda name: None)
    compiler.has_cpp_compiler.cache_clear()
    try:
        for _ in range(2):
            poptorch.trainingModel(Classifier())(*classified(4))
    finally:
        compiler.has_cpp_compiler.cache_clear()
    assert caplog.text.count("No C++ compiler found") == 1
