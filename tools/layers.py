"""Run every layer of `torch_geometric.nn` through the check and four compiled training steps; write the table."""

from __future__ import annotations

import copy
import dataclasses
import sys
import warnings
from pathlib import Path

import torch
from torch import nn

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from gnn_ipu_helpers.porting import check, static_compile, static_replacements  # noqa: E402
from tools.layer_cases import GROUPS, Case, Sample  # noqa: E402

AS_IT_IS, WITH_ARGUMENT, REPLACED, NOT_STATIC = "as it is", "with an argument", "replaced", "not static"
STEPS, RTOL, ATOL = 4, 1e-4, 1e-5


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What became of one layer: its `status` (one of the four above) and a `remark` (argument, reason)."""

    name: str
    status: str
    remark: str = ""


class WithLoss(nn.Module):
    """A layer and a loss over everything it returns, as a device wants it: the loss comes out of `forward`."""

    def __init__(self, layer: nn.Module):
        super().__init__()
        self.layer = layer

    def forward(self, *args, **kwargs):
        tensors = [t for t in _tensors(self.layer(*args, **kwargs)) if t.is_floating_point()]
        return sum((tensor * tensor.detach().cos()).mean() for tensor in tensors)


def _tensors(value):
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        return [tensor for item in value for tensor in _tensors(item)]
    return []


def examine(case: Case) -> Outcome:
    """The outcome of one case: the first of its variants that passes the check and trains as eager PyTorch does."""
    if case.note:
        return Outcome(case.name, NOT_STATIC, case.note)
    reason = _try(case, case.build, case.options)
    if isinstance(reason, Outcome):
        return reason
    if case.fix is not None:
        fixed = _try(case, case.fix.build or case.build, {**case.options, **case.fix.options})
        if isinstance(fixed, Outcome):
            remark = case.fix.argument + (", then replaced" if fixed.status == REPLACED else "")
            return Outcome(case.name, WITH_ARGUMENT, remark)
        reason = fixed
    return Outcome(case.name, NOT_STATIC, reason)


def _try(case: Case, build, options) -> Outcome | str:
    """The outcome of one variant, or why it is not static."""
    try:
        model, inputs = _model(build), [getattr(Sample(), name) for name in case.call]
        report = check(model, *inputs, **options)
        if not report.ok:
            return report.findings[0].reason
        difference = training_difference(model, inputs, options)
    except Exception as error:
        return f"{type(error).__name__}: {error}".splitlines()[0]
    if difference is not None:
        return difference
    return Outcome(case.name, REPLACED if report.replaced else AS_IT_IS)


def _model(build) -> WithLoss:
    torch.manual_seed(0)
    with static_replacements():
        return WithLoss(build()).train()


def training_difference(model: nn.Module, inputs: list, options: dict) -> str | None:
    """Where four compiled optimiser steps part from the same steps in eager mode, or None."""
    compiled = copy.deepcopy(model)
    eager_optimizer = _optimizer(model)
    compiled_optimizer = _optimizer(compiled)
    step = static_compile(compiled, "aot_eager")
    for number in range(STEPS):
        torch.manual_seed(number)
        eager_loss = _eager(model, inputs, options)
        torch.manual_seed(number)
        compiled_loss = step(*inputs, **options)
        _update(eager_optimizer, eager_loss)
        _update(compiled_optimizer, compiled_loss)
        if not torch.allclose(eager_loss, compiled_loss, rtol=RTOL, atol=ATOL):
            return f"step {number}: loss {compiled_loss.item():.6f} instead of {eager_loss.item():.6f}"
        for (name, eager), (_, other) in zip(model.named_parameters(), compiled.named_parameters()):
            if not torch.allclose(eager, other, rtol=RTOL, atol=ATOL):
                return f"step {number}: {name} differs by {(eager - other).abs().max().item():.2e}"
    return None


def _eager(model: nn.Module, inputs: list, options: dict) -> torch.Tensor:
    try:
        return model(*inputs, **options)
    except (ImportError, AttributeError):  # PyG's own version needs pyg-lib: compare with ours, run eagerly
        with static_replacements():
            return model(*inputs, **options)


def _optimizer(model: nn.Module):
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    return torch.optim.SGD(parameters, lr=0.1) if parameters else None


def _update(optimizer, loss: torch.Tensor) -> None:
    if optimizer is not None:
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    only = sys.argv[1:]
    for title, cases in GROUPS.items():
        print("##", title)
        for case in cases:
            if not only or case.name in only:
                print(f"{case.name:32s}", *dataclasses.astuple(examine(case))[1:], flush=True)
