"""A model may ask the data object it is given for sizes, assign to it and build others, as on an IPU."""

import copy

import pytest
import torch
from torch_geometric.data import Batch, Data, HeteroData
from torch_geometric.nn import GraphConv, global_add_pool

from gnn_ipu_helpers import check, compile_count
from gnn_ipu_helpers import poptorch_cpu as poptorch

EDGES = ("user", "rates", "item")


class _Assigns(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = GraphConv(4, 4)

    def forward(self, data):
        data.x = self.conv(data.x, data.edge_index).relu()
        data.edge_index = data.edge_index.flip(0)
        data.weight = data.x.sum(dim=1)
        data["x"] = self.conv(data.x, data.edge_index) * data.weight.unsqueeze(1)
        data.pos = None
        return global_add_pool(data.x, data.batch, size=2)


class _Builds(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = GraphConv(4, 4)

    def forward(self, data):
        inner = Data(x=data.x * 2, edge_index=data.edge_index)
        inner.x = self.conv(inner.x, inner.edge_index)
        return inner.x + data.x


class _Asks(torch.nn.Module):
    def forward(self, data):
        return data.x / data.num_nodes + torch.arange(data.num_nodes).unsqueeze(1) * data.num_edges


class _AssignsToTypes(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = GraphConv(4, 4)

    def forward(self, data):
        data["user"].x = data["user"].x.relu()
        data[EDGES].edge_index = data[EDGES].edge_index.flip(1)
        return self.conv((data["user"].x, data["item"].x), data[EDGES].edge_index)


def _batch(seed):
    generator = torch.Generator().manual_seed(seed)
    graphs = [
        Data(
            x=torch.randn(3, 4, generator=generator),
            edge_index=torch.randint(3, (2, 5), generator=generator),
            pos=torch.randn(3, 2, generator=generator),
        )
        for _ in range(2)
    ]
    return Batch.from_data_list(graphs)


def _sized(seed):
    data = _batch(seed)
    data.num_nodes = 6
    return data


def _typed(seed):
    generator = torch.Generator().manual_seed(seed)
    data = HeteroData()
    data["user"].x = torch.randn(3, 4, generator=generator)
    data["item"].x = torch.randn(2, 4, generator=generator)
    data[EDGES].edge_index = torch.tensor([[0, 1, 2, 2], [0, 1, 1, 0]])
    return data


def _same(first, second):
    pairs = zip(first.stores, second.stores)
    return all(
        list(one) == list(other)
        and all(torch.equal(one[key], other[key]) for key in one if torch.is_tensor(one[key]))
        for one, other in pairs
    )


CASES = [(_Assigns, _batch), (_Builds, _batch), (_Asks, _batch), (_Asks, _sized), (_AssignsToTypes, _typed)]


@pytest.mark.parametrize(("model", "make"), CASES)
def test_results_are_eagers_and_the_callers_data_stays_as_it_was(model, make):
    torch.manual_seed(0)
    model = model().eval()
    inferred = poptorch.inferenceModel(model)
    for seed in range(3):
        data = make(seed)
        expected = model(copy.copy(data))
        assert torch.allclose(inferred(data), expected, atol=1e-6)
        assert _same(data, make(seed))
    assert compile_count(inferred) == 1


@pytest.mark.parametrize(("model", "make"), CASES)
def test_the_check_is_content_and_leaves_the_data_alone(model, make):
    data = make(0)
    assert check(model().eval(), data).ok is True
    assert _same(data, make(0))


def test_a_check_with_a_finding_leaves_the_data_alone_too():
    class Sized(torch.nn.Module):
        def forward(self, data):
            data.x = data.x * 2
            return data.x[: int(data.batch.max())].tolist()

    data = _batch(0)
    assert check(Sized(), data).ok is False
    assert _same(data, _batch(0))


def test_a_number_that_the_graph_took_from_the_data_may_not_change():
    inferred = poptorch.inferenceModel(_Asks())
    inferred(_sized(0))
    changed = _sized(0)
    changed.num_nodes = 5
    with pytest.raises(poptorch.Error, match="num_nodes"):
        inferred(changed)


class _Doubling(Data):
    @property
    def x(self):
        return self["x"]

    @x.setter
    def x(self, value):
        self["x"] = value * 2


def test_a_setter_of_the_users_own_is_not_passed_over():
    class Model(torch.nn.Module):
        def forward(self, data):
            data.x = data.x + 1
            return data.x

    data = _Doubling(edge_index=torch.zeros(2, 1, dtype=torch.long))
    data["x"] = torch.ones(3, 1)
    report = check(Model(), data)
    assert report.ok is False
    assert "x = data.x" in report.findings[0].remedy
