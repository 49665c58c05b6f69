"""The models whose speed is measured train compiled as they do in eager PyTorch."""

import copy
import sys
from pathlib import Path

import pytest
import torch

from gnn_ipu_helpers import poptorch_cpu as poptorch

from .side_by_side import assert_same_weights, loss_of

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from models import MODELS

STEPS = 20


@pytest.mark.parametrize("name", MODELS)
def test_twenty_steps_equal_eager(name, monkeypatch):
    monkeypatch.setenv("GNN_IPU_COMPILER", "inductor")
    model = MODELS[name]().train()
    arguments = model.arguments()
    eager = copy.deepcopy(model)
    # Plain SGD: Adam would turn the rounding of a gradient that is zero into a step.
    optimizer = torch.optim.SGD(eager.parameters(), lr=0.01)
    training = poptorch.trainingModel(model, None, poptorch.optim.SGD(model.parameters(), lr=0.01))
    for step in range(STEPS):
        torch.manual_seed(step)
        loss = loss_of(training(*arguments))
        torch.manual_seed(step)
        optimizer.zero_grad()
        expected = loss_of(eager(*arguments))
        expected.backward()
        optimizer.step()
        torch.testing.assert_close(loss, expected.detach(), rtol=1e-4, atol=1e-5)
        if step in (0, STEPS - 1):  # after the first step the weights differ by the gradients alone
            assert_same_weights(model, eager)
