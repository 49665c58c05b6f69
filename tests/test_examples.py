"""The two FashionMNIST scripts run, and porting changes nothing in what is learned."""

import importlib
import sys
from pathlib import Path

import pytest
import torch

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
BRIEFLY = ["--epochs", "1", "--images", "1280"]


@pytest.fixture
def script(monkeypatch):
    monkeypatch.syspath_prepend(EXAMPLES)
    return importlib.import_module


def test_the_ported_script_learns_what_the_plain_one_learns(script, capsys):
    plain = script("fashion_mnist_pytorch").main(BRIEFLY)
    ported = script("fashion_mnist_ipu").main(BRIEFLY)
    assert plain > 0.3, "twenty steps should beat guessing, which gets 10 %"
    assert ported == pytest.approx(plain, abs=0.02)
    assert capsys.readouterr().out.count("Eval accuracy") == 2


def test_the_model_itself_was_not_touched(script):
    models = [script(name).ClassificationModel for name in ("fashion_mnist_pytorch", "fashion_mnist_ipu")]
    torch.manual_seed(0)
    images = torch.randn(4, 1, 28, 28)
    outputs = []
    for model in models:
        torch.manual_seed(1)
        outputs.append(model()(images))
    assert torch.equal(*outputs)


@pytest.mark.parametrize("name", ["fashion_mnist_pytorch", "fashion_mnist_ipu"])
def test_the_scripts_explain_their_arguments(script, name, capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", [name, "--help"])
    with pytest.raises(SystemExit):
        script(name).main()
    assert "--batch-size" in capsys.readouterr().out
