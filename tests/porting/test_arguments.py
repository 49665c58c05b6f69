"""Which arguments a device takes: the same sentence from `check` and from the executor."""

import numpy as np
import pytest
import torch
from torch import nn
from torch_geometric.data import Data, HeteroData

from gnn_ipu_helpers import poptorch
from gnn_ipu_helpers.porting import check
from gnn_ipu_helpers.porting.checking import argument_findings, cast_down, named_leaves

from . import corpus_inputs as given


class Pair(nn.Module):
    def forward(self, x, other):
        return x


@pytest.mark.parametrize(
    ("value", "reason", "remedy"),
    [
        (np.ones(3), "other is a numpy ndarray", "torch.as_tensor(other)"),
        (np.float32(3), "other is a numpy float32", "torch.as_tensor(other)"),
        (torch.eye(3).to_sparse(), "other is sparse", "edge_index and edge_weight"),
        (torch.ones(3, device="meta"), "other is on the device 'meta'", "other.cpu()"),
        (torch.ones(0, 3), "Zero-sized tensors are unsupported (Got shape [0, 3]): other", "leave it out"),
        (torch.tensor([0, 2**31]), "other holds 2147483648", "from 0 on"),
    ],
)
def test_what_the_device_does_not_take_is_a_finding_and_the_executors_error(value, reason, remedy):
    report = check(Pair().eval(), given.x, value)

    assert report.ok is False
    (finding,) = report.findings
    assert reason in finding.reason
    assert remedy in finding.remedy
    assert str(finding).startswith("argument other\n")
    with pytest.raises(poptorch.Error) as raised:
        poptorch.inferenceModel(Pair().eval())(given.x, value)
    assert finding.reason in str(raised.value)


def test_an_input_with_a_gradient_is_detached_and_told_by_both(caplog):
    value = torch.ones(3, requires_grad=True)
    report = check(Pair().eval(), given.x, value)

    assert report.ok is True
    (warning,) = report.warnings
    assert "it is input 1, other" in warning.reason
    assert "other.detach()" in warning.remedy
    poptorch.inferenceModel(Pair().eval())(given.x, value)
    assert warning.reason in caplog.text


def test_float64_is_cast_and_told():
    report = check(nn.Linear(given.CHANNELS, 3).eval(), given.x.double())

    assert report.ok is True
    (warning,) = report.warnings
    assert "input is float64" in warning.reason
    assert "input.float()" in warning.remedy


def test_a_model_of_float64_weights_is_not_fed_float32():
    assert check(nn.Linear(given.CHANNELS, 3).double().eval(), given.x.double()).ok is True


def test_a_parameter_may_be_passed():
    findings, _ = argument_findings(["weight"], [nn.Parameter(torch.ones(3))])
    assert findings == []


def test_leaves_are_named_as_in_python():
    hetero = HeteroData()
    hetero["movie"].x = given.x
    hetero["movie", "to", "actor"].edge_index = given.edge_index

    def call(data, table, pair, *rest, scale=1):
        return data

    data = Data(x=given.x)
    leaves = named_leaves(call, (data, {"a": given.x, ("b", "c"): 2}, [given.x, hetero], 7), {"scale": 3})
    assert [leaf.name for leaf in leaves] == [
        "data.x",
        "table['a']",
        "table['b', 'c']",
        "pair[0]",
        "pair[1]['movie'].x",
        "pair[1]['movie', 'to', 'actor'].edge_index",
        "rest[0]",
        "scale",
    ]


def test_casting_reaches_everything_and_changes_nothing_of_the_callers():
    data = Data(x=given.x.double())
    cast = cast_down(({"a": [given.x.double()]}, (data, 3), given.y))

    assert cast[0]["a"][0].dtype == cast[1][0].x.dtype == torch.float32
    assert cast[1][1] == 3
    assert cast[2].dtype == torch.long
    assert data.x.dtype == torch.float64
