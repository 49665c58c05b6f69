"""What `check` promises about its report, and that it leaves everything as it was."""

import logging
import random
import threading

import numpy as np
import pytest
import torch
from torch import nn
from torch_geometric.data import Data, HeteroData
from torch_geometric.nn import GCN, GCNConv, HeteroConv, MFConv, SAGEConv, global_add_pool, global_mean_pool

from gnn_ipu_helpers import FixedSizeDataLoader
from gnn_ipu_helpers.porting import assert_static, check

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


def everything(model):
    """Weights, buffers, gradients, modes, hooks and plain attributes of a model, and all random states."""
    return {
        "state": {name: value.clone() for name, value in model.state_dict().items()},
        "gradients": [None if p.grad is None else p.grad.clone() for p in model.parameters()],
        "modes": [module.training for module in model.modules()],
        "hooks": [len(module._forward_hooks) for module in model.modules()],
        "versions": [p._version for p in (*model.parameters(), *model.buffers())],
        "plain": {name: value for name, value in vars(model).items() if isinstance(value, (int, list))},
        "torch": torch.get_rng_state(),
        "python": hash(random.getstate()),
        "numpy": hash(str(np.random.get_state())),  # noqa: NPY002
    }


class Fails(Trained):
    def forward(self, x, mask):
        super().forward(x, mask)
        random.random()
        np.random.rand()  # noqa: NPY002
        raise ValueError("no such thing")


class Clean(Trained):
    def forward(self, x, mask):
        x = torch.dropout(self.norm(self.lin(x)), 0.5, self.training)
        return nn.functional.mse_loss(x, torch.zeros_like(x))


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("kind", [Trained, Clean, Fails])
def test_everything_stays_as_it_was_even_where_the_check_fails(kind, training):
    model = kind().train(training)
    model.lin.register_forward_hook(lambda module, args, output: output)
    model.lin(given.x).sum().backward()
    before = everything(model)
    inputs = (given.x.clone(), given.mask.clone())

    if kind is Fails:
        with pytest.raises(ValueError, match="no such thing"):
            check(model, *inputs)
    else:
        assert check(model, *inputs).ok is (kind is Clean)

    torch.testing.assert_close(everything(model), before, rtol=0, atol=0)
    assert torch.equal(inputs[0], given.x)
    assert torch.equal(inputs[1], given.mask)


def test_a_model_that_cannot_be_copied_is_not_run_either():
    """A tensor in the middle of a graph of gradients cannot be copied deeply, nor can an open file."""

    class Uncopyable(Clean):
        def __init__(self):
            super().__init__()
            self.middle = self.lin.weight * 2
            self.file = open(__file__)  # noqa: SIM115
            self.register_buffer("seen", torch.zeros(()))

        def forward(self, x, mask):
            self.seen.add_(1)
            return super().forward(x, mask)

    model = Uncopyable()
    before = everything(model)
    try:
        report = check(model, given.x, given.mask)
    finally:
        model.file.close()

    assert report.ok is True, str(report)
    torch.testing.assert_close(everything(model), before, rtol=0, atol=0)


def test_other_compiled_functions_keep_their_graphs():
    graphs = []
    theirs = torch.compile(lambda x: x + 1, backend=lambda gm, _: graphs.append(gm) or gm)
    theirs(given.x)
    check(Clean(), given.x, given.mask)
    check(Trained(), given.x, given.mask)
    theirs(given.x)

    assert len(graphs) == 1


def test_other_threads_run_pygs_own_code_and_print_meanwhile(capsys):
    """While one thread traces, and even runs a model whose prints are held back."""
    inside, done, seen = threading.Event(), threading.Event(), []

    def elsewhere():
        inside.wait(10)
        seen.append(MFConv.forward(conv, given.x, given.edge_index))
        print("from elsewhere")
        done.set()

    class Waits(nn.Module):
        def forward(self, x):
            inside.set()
            done.wait(10)
            print("from the model", float(x.sum()))
            return x if x.sum() > 0 else -x

    conv = MFConv(given.CHANNELS, 4).eval()
    with torch.no_grad():
        expected = conv(given.x, given.edge_index)
    thread = threading.Thread(target=elsewhere)
    thread.start()
    assert check(Waits().eval(), given.x).ok is False
    thread.join()

    assert torch.equal(seen[0].detach(), expected)
    assert "static_layers" not in str(seen[0].grad_fn)
    assert capsys.readouterr().out == "from elsewhere\n"


def test_code_without_a_file_is_placed_by_its_line():
    names = {}
    exec(
        "import torch\n\nclass Model(torch.nn.Module):\n    def forward(self, x):\n        return x[x > 0]",
        names,
    )
    (finding,) = check(names["Model"]().eval(), given.x).findings

    assert (finding.file, finding.line) == ("<string>", 5)
    assert str(finding).startswith("<string>:5  boolean indexing")


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


class NormalisedMovies(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(given.CHANNELS)

    def forward(self, data):
        x = torch.where(data["movie"].nodes_mask.unsqueeze(-1), self.norm(data["movie"].x), 0.0)
        return nn.functional.mse_loss(x, torch.zeros_like(x))


def test_heterogeneous_data_with_padding_is_seen():
    data = HeteroData()
    data["movie"].x, data["movie"].nodes_mask = given.x, torch.arange(given.NUM_NODES) < 9
    report = check(NormalisedMovies(), data)

    assert report.ok is True
    assert "MaskedBatchNorm" in report.warnings[0].remedy
    data["movie"].nodes_mask = torch.ones(given.NUM_NODES, dtype=torch.bool)
    assert check(NormalisedMovies(), data).warnings == []


@pytest.mark.parametrize("name", ["mask", "node_mask", "train_mask"])
def test_padding_is_known_from_what_is_passed_and_not_from_its_name(name):
    """A mask that no edge crosses tells of padding; a split into training and test nodes does not."""
    norm = nn.BatchNorm1d(given.CHANNELS)
    names = {}
    exec(f"def model(x, edge_index, {name}): return norm(x) + edge_index.sum()", {"norm": norm}, names)
    padded = given.padded_batch()

    told = check(names["model"], padded.x, padded.edge_index, padded.nodes_mask).warnings
    assert [warning.operation for warning in told] == ["BatchNorm1d"]
    assert check(names["model"], given.x, given.edge_index, torch.arange(given.NUM_NODES) < 6).warnings == []


def test_a_batch_of_the_loaders_is_seen_as_padded_whole_and_in_parts():
    graphs = [Data(x=torch.randn(n, 3), edge_index=torch.tensor([[0, 1], [1, 0]])) for n in (3, 4, 2, 5, 3)]
    (batch, *_) = FixedSizeDataLoader(graphs, batch_size=4)

    def centred(x, edge_index, mask):
        return x - x.mean(0) + edge_index.sum() + mask.sum()

    def whole(data):
        return data.x - data.x.mean(0)

    assert len(check(centred, batch.x, batch.edge_index, batch.nodes_mask).warnings) == 1
    assert len(check(whole, batch).warnings) == 1


def test_a_mask_that_leaves_out_all_padding_is_not_taken_for_a_value_that_may_change():
    """The loaders pad `train_mask` with False: only what it selects counts."""
    graphs = [
        Data(
            x=torch.randn(n, 3),
            edge_index=torch.tensor([[0, 1], [1, 0]]),
            y=torch.zeros(n, dtype=torch.long),
            train_mask=torch.arange(n) < 2,
        )
        for n in (3, 4, 2, 5, 3)
    ]
    (batch, *_) = FixedSizeDataLoader(graphs, batch_size=4)

    def loss(data):
        return nn.functional.cross_entropy(data.x, torch.where(data.train_mask, data.y, -100))

    assert check(loss, batch).warnings == []


def test_warnings_stand_below_the_findings_in_text_and_table():
    report = check(nn.Linear(given.CHANNELS, 2).eval(), given.x.double())

    assert str(report).splitlines()[0] == "Linear: one static graph, with a warning."
    assert "What runs, and is probably not meant:" in str(report)
    assert "<table" in report._repr_html_()


def test_a_training_model_may_return_its_loss_beside_its_output():
    class WithLoss(nn.Module):
        def __init__(self):
            super().__init__()
            self.lin = nn.Linear(given.CHANNELS, 3)

        def forward(self, x):
            out = self.lin(x)
            return {"out": out, "losses": [nn.functional.mse_loss(out, torch.zeros_like(out))]}

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


def test_a_model_that_computes_nothing_has_no_graph():
    class Constant(nn.Module):
        def forward(self, x):
            return 3

    (finding,) = check(Constant().eval(), given.x).findings

    assert finding.operation == "no graph"
    assert finding.source == "def forward(self, x):"


def test_a_file_read_in_forward_is_told_as_such():
    class Opens(nn.Module):
        def forward(self, x):
            with open(__file__) as file:
                return x * len(file.read())

    (finding,) = check(Opens().eval(), given.x).findings

    assert finding.operation == "file"
    assert finding.source == "with open(__file__) as file:"
    assert "read it before" in finding.remedy


def test_what_the_tracer_cannot_follow_is_told_in_words_of_the_user():
    class Threads(nn.Module):
        def forward(self, x):
            threading.Thread(target=print).start()
            return x * 2

    (finding,) = check(Threads().eval(), given.x).findings

    assert finding.operation == "untraceable"
    assert "skipped" not in finding.reason
    assert "Dynamo" not in finding.reason


def test_a_static_model_passes_the_assertion_and_another_reads_like_the_report():
    assert assert_static(SAGEConv(given.CHANNELS, 4).eval(), given.x, given.edge_index).ok
    with pytest.raises(AssertionError, match=r"Branching: not a static graph yet, 1 place to change"):
        assert_static(Branching().eval(), given.x)


def test_logging_that_reads_values_is_not_done_by_the_check(caplog):
    class Warning(nn.Module):
        def forward(self, x):
            logging.getLogger("model").warning("mean %.3f", x.mean())
            return x * 2

    with caplog.at_level("DEBUG"):
        (finding,) = check(Warning().eval(), torch.ones(3, 2)).findings

    assert finding.source.startswith("logging.getLogger")
    assert "model" not in {record.name for record in caplog.records}


def test_a_padding_experiment_that_fails_is_a_warning_with_its_line():
    """Padding rows may hold anything, and these matrices have a root for some values only."""

    class Rooted(nn.Module):
        def __init__(self):
            super().__init__()
            self.lin = nn.Linear(4, 2)

        def forward(self, data):
            root = torch.linalg.cholesky(data.x.view(-1, 2, 2))
            return self.lin(global_add_pool(root.flatten(1), data.batch, size=3))

    data = given.padded_batch()
    data.x = torch.eye(2).flatten().repeat(data.num_nodes, 1)
    report = check(Rooted().eval(), data)
    (warning,) = report.warnings

    assert report.ok
    assert warning.operation == "padding not tried"
    assert warning.source.startswith("root = torch.linalg.cholesky")
    assert "padding rows of nodes" in warning.reason
    assert "positive-definite" in warning.reason
    assert "compare_padded(model, batch)" in warning.remedy
