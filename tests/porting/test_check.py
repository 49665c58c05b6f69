"""What `check` promises about its report, and that it leaves everything as it was."""

import copy
import random

import pytest
import torch
from torch import nn
from torch_geometric.data import HeteroData
from torch_geometric.nn import GCN, GCNConv, HeteroConv, MFConv, SAGEConv, global_mean_pool

from gnn_ipu_helpers.porting import check

from . import corpus_inputs as given


class Branching(nn.Module):
    def forward(self, x):
        return x if x.sum() > 0 else -x


class Trained(nn.Module):
    """A model with weights, dropout, batch statistics and a boolean index."""

    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(given.CHANNELS, given.CHANNELS)
        self.norm = nn.BatchNorm1d(given.CHANNELS)
        self.calls = 0

    def forward(self, x, mask):
        self.calls += 1
        x = torch.dropout(self.norm(self.lin(x)), 0.5, self.training)
        x.add_(1)
        return x[mask].sum() if x.mean() > 100 else x.sum()


def test_a_clean_model_gives_an_empty_report_that_says_so():
    report = check(SAGEConv(given.CHANNELS, 4).eval(), given.x, given.edge_index)

    assert report.ok is True
    assert report.findings == []
    assert str(report) == "SAGEConv: one static graph, nothing to change."


def test_the_report_names_what_runs_in_another_version():
    report = check(MFConv(given.CHANNELS, 4).eval(), given.x, given.edge_index)

    assert report.ok is True
    assert report.replaced == ("MFConv",)
    assert "static version of ours: MFConv" in str(report)


def test_a_function_can_be_checked():
    def double(x):
        return 2 * x

    assert check(double, given.x).ok is True
    assert "double" in str(check(double, given.x))


@pytest.mark.parametrize("training", [True, False])
def test_model_inputs_gradients_and_random_state_stay_as_they_are(training):
    model = Trained().train(training)
    model(given.x, given.mask).backward()
    before = copy.deepcopy(model)
    gradients = [parameter.grad.clone() for parameter in model.parameters()]
    inputs = (given.x.clone(), given.mask.clone())
    states = torch.get_rng_state(), random.getstate()

    report = check(model, *inputs)

    assert report.ok is False
    assert model.training is training
    assert model.calls == before.calls
    torch.testing.assert_close(model.state_dict(), before.state_dict(), rtol=0, atol=0)
    for parameter, gradient in zip(model.parameters(), gradients):
        assert torch.equal(parameter.grad, gradient)
    assert torch.equal(inputs[0], given.x)
    assert torch.equal(torch.get_rng_state(), states[0])
    assert random.getstate() == states[1]


def test_a_lazy_model_stays_lazy():
    conv = HeteroConv({edge_type: SAGEConv((-1, -1), 4) for edge_type in given.edge_index_dict}).eval()
    kinds = [type(parameter) for parameter in conv.parameters()]
    report = check(conv, given.x_dict, given.edge_index_dict)

    assert [finding.operation for finding in report.findings] == ["uninitialised parameters"]
    assert nn.parameter.UninitializedParameter in kinds
    assert [type(parameter) for parameter in conv.parameters()] == kinds


def test_an_error_of_the_model_itself_comes_through():
    with pytest.raises(RuntimeError, match="cannot be multiplied"):
        check(nn.Linear(3, 4).eval(), given.x)
    with pytest.raises(TypeError, match="missing 1 required positional argument"):
        check(SAGEConv(given.CHANNELS, 4).eval(), given.x)


def test_a_finding_inside_pyg_names_the_users_line_and_the_cause():
    class Classifier(nn.Module):
        def forward(self, x, batch):
            return global_mean_pool(x, batch)

    (finding,) = check(Classifier().eval(), given.x, given.batch).findings

    assert finding.operation == "global_mean_pool"
    assert finding.file.endswith("test_check.py")
    assert finding.source == "return global_mean_pool(x, batch)"
    assert finding.cause.file.endswith("torch_geometric/utils/_scatter.py")
    assert "index.max()" in finding.cause.source


def test_a_finding_in_the_users_own_line_has_no_other_cause():
    (finding,) = check(Branching().eval(), given.x).findings

    assert finding.cause is None
    assert finding.operation == "branch"


def test_a_model_that_is_all_pygs_is_placed_in_pyg():
    findings = check(GCN(given.CHANNELS, 8, 2, 4).eval(), given.x, given.edge_index).findings

    assert {finding.file.rsplit("/", 1)[-1] for finding in findings} == {"basic_gnn.py"}
    assert all("GCN" in finding.remedy for finding in findings)


def test_heterogeneous_data_with_padding_is_seen():
    data = HeteroData()
    data["movie"].x, data["movie"].nodes_mask = given.x, torch.arange(given.NUM_NODES) < 9

    class Normalised(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = nn.BatchNorm1d(given.CHANNELS)

        def forward(self, data):
            return self.norm(data["movie"].x).square().mean()

    assert "MaskedBatchNorm" in check(Normalised(), data).findings[0].remedy
    data["movie"].nodes_mask = torch.ones(given.NUM_NODES, dtype=torch.bool)
    assert check(Normalised(), data).ok is True


@pytest.mark.parametrize("name", ["nodes_mask", "train_mask"])
def test_only_masks_that_are_named_as_padding_count_as_such(name):
    norm = nn.BatchNorm1d(given.CHANNELS)

    def padded(x, nodes_mask):
        return norm(x).square().mean()

    def split(x, train_mask):
        return norm(x).square().mean()

    model = padded if name == "nodes_mask" else split
    assert check(model, given.x, torch.arange(given.NUM_NODES) < 5).ok is (name == "train_mask")


def test_a_training_model_may_return_its_loss_beside_its_output():
    class WithLoss(nn.Module):
        def forward(self, x):
            return {"out": x, "losses": [x.square().mean()]}

    assert check(WithLoss(), given.x).ok is True


def test_missing_loss_is_found_even_where_the_trace_fails():
    findings = check(Branching(), given.x).findings

    assert [finding.operation for finding in findings] == ["branch", "no loss"]
    assert findings[1].line == findings[0].line


def test_several_checks_of_one_class_do_not_wear_out():
    for width in range(1, 20):
        assert check(nn.Linear(width, 1).eval(), torch.ones(2, width)).ok


def test_an_old_torch_is_told_and_nothing_is_looked_at(monkeypatch):
    monkeypatch.setattr(torch, "__version__", "2.0.1")
    report = check(GCNConv(given.CHANNELS, 4), given.x, given.edge_index)

    assert report.ok is None
    assert report.findings == []
    assert "2.6" in str(report)
    assert "2.0.1" in str(report)


def test_what_the_tracer_cannot_follow_is_told_in_its_own_words():
    class Opens(nn.Module):
        def forward(self, x):
            with open(__file__) as file:
                return x * len(file.read())

    (finding,) = check(Opens().eval(), given.x).findings

    assert finding.operation == "untraceable"
    assert finding.source == "with open(__file__) as file:"
    assert "open" in finding.reason
