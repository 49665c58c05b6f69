"""The models whose speed is measured train compiled as they do in eager PyTorch."""

import copy
import sys
from pathlib import Path

import pytest
import torch

from gnn_ipu_helpers import poptorch_cpu as poptorch
from gnn_ipu_helpers.poptorch_cpu import optim

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


def _pair(make):
    """Two equal lists of parameters, and an optimiser of each."""
    ours = [torch.nn.Parameter(torch.randn(shape)) for shape in ((5, 3), (70,), ())]
    theirs = copy.deepcopy(ours)
    return ours, make(ours), theirs, make(theirs)


@pytest.mark.parametrize(
    "make",
    [
        lambda p: torch.optim.Adam(p, lr=0.1, fused=True),
        lambda p: torch.optim.Adam(p, weight_decay=0.1, betas=(0.8, 0.9), eps=1e-3, fused=True),
        lambda p: torch.optim.AdamW(p, weight_decay=0.1, fused=True),
        lambda p: poptorch.optim.AdamW(p, lr=0.1),
        lambda p: poptorch.optim.Adam([{"params": p[:1], "lr": 0.5}, {"params": p[1:]}], lr=0.1),
    ],
)
def test_the_kernel_alone_steps_as_torch_does(make):
    ours, quick, theirs, plain = _pair(make)
    for step in range(4):
        for one, other in zip(ours, theirs):
            one.grad = torch.randn_like(one) if step != 2 or one.dim() else None  # one without, for a step
            other.grad = None if one.grad is None else one.grad.clone()
        if step == 0:
            assert not optim._step_fused(quick)  # torch's own step makes the state
            quick.step()
        else:
            assert optim._step_fused(quick)
        plain.step()
        assert all(torch.equal(one, other) for one, other in zip(ours, theirs))
    quick.load_state_dict(quick.state_dict())
    assert optim._step_fused(quick)
    plain.step()
    assert all(torch.equal(one, other) for one, other in zip(ours, theirs))


@pytest.mark.parametrize(
    "make",
    [
        lambda p: torch.optim.SGD(p, lr=0.1),
        lambda p: torch.optim.Adam(p, lr=0.1, foreach=True),
        lambda p: torch.optim.Adam(p, lr=torch.tensor(0.1), fused=True),
        lambda p: poptorch.optim.AdamW(p, lr=0.1, bias_correction=False),
    ],
)
def test_other_optimisers_step_by_themselves(make):
    ours, optimizer, _, _ = _pair(make)
    for parameter in ours:
        parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    before = [parameter.detach().clone() for parameter in ours]
    assert not optim._step_fused(optimizer)
    assert all(torch.equal(one, other) for one, other in zip(ours, before))


def test_an_optimiser_with_hooks_steps_by_itself():
    ours, optimizer, _, _ = _pair(lambda p: torch.optim.Adam(p, lr=0.1, fused=True))
    for parameter in ours:
        parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    assert optim._step_fused(optimizer)
    optimizer.register_step_post_hook(lambda *_: None)
    assert not optim._step_fused(optimizer)
