"""One verdict: what `check` says of a model, wrapping and calling it says too."""

import logging

import pytest
import torch
from torch import nn

from gnn_ipu_helpers import poptorch
from gnn_ipu_helpers.porting import check

from . import corpus_inputs as given
from .test_corpus import ACCEPTED, REFUSED, WARNED, cases


@pytest.fixture(autouse=True)
def _quickly(monkeypatch):
    monkeypatch.setenv("GNN_IPU_COMPILER", "unfused")


def of_modules(corpus):
    return [case for case in corpus if isinstance(case[0], type)]


def wrapped(model, training):
    options = poptorch.Options()
    options.showCompilationProgressBar(False)
    if not training:
        return poptorch.inferenceModel(model, options)
    return poptorch.trainingModel(model, options, poptorch.optim.SGD(model.parameters(), lr=0.0))


@cases(of_modules(REFUSED)[::3])
def test_what_check_refuses_the_executor_refuses_with_the_same_findings(model, inputs, kwargs, training):
    built = model().train(training)
    findings = check(built, *inputs, **kwargs).findings
    has_weights = any(True for _ in built.parameters())

    with pytest.raises(poptorch.Error) as caught:
        wrapped(built, training and has_weights)(*inputs, **kwargs)
    for finding in findings:
        assert str(finding) in str(caught.value)


@pytest.mark.filterwarnings("ignore")
@cases([*of_modules(ACCEPTED)[::4], *WARNED[::5]])
def test_what_check_accepts_the_executor_runs(model, inputs, kwargs, training):
    built = model().train(training)
    if not any(True for _ in built.parameters()):
        training = False
    assert check(built, *inputs, **kwargs).ok
    wrapped(built, training)(*inputs, **kwargs)


class Halved(nn.Module):
    """An accuracy beside a loss that is changed after it was made, and another shape than a scalar."""

    def __init__(self, last):
        super().__init__()
        self.lin, self.last = nn.Linear(given.CHANNELS, given.CLASSES), last

    def forward(self, x, y):
        out = self.lin(x)
        return self.last(nn.functional.cross_entropy(out, y), out, y)


LAST = {
    "loss": lambda loss, out, y: loss,
    "reshaped": lambda loss, out, y: loss.view(1),
    "detached": lambda loss, out, y: loss.detach(),
    "beside an accuracy": lambda loss, out, y: (loss, (out.argmax(-1) == y).float().mean()),
    "beside another number": lambda loss, out, y: (loss, out.mean()),
    "beside another loss": lambda loss, out, y: (loss, nn.functional.mse_loss(out, out.detach() * 2)),
    "and a penalty": lambda loss, out, y: loss + out.square().mean(),
    "halved": lambda loss, out, y: loss / 2,
}


@pytest.mark.parametrize("last", LAST)
def test_check_and_executor_agree_on_the_loss(last, caplog):
    inputs = (given.x, given.y)
    verdict = check(Halved(LAST[last]), *inputs)
    try:
        with caplog.at_level(logging.WARNING):
            wrapped(Halved(LAST[last]), training=True)(*inputs)
    except poptorch.Error:
        assert verdict.ok is False
    else:
        assert verdict.ok is True


def test_check_and_executor_agree_on_double_precision():
    model = nn.Linear(given.CHANNELS, 2).eval()
    assert check(model, given.x.double()).ok
    out = wrapped(model, training=False)(given.x.double())
    assert out.dtype == torch.float32
