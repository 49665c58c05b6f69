"""Run every layer of `torch_geometric.nn` through the check and four compiled steps; write the page."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import re
import sys
import warnings
from pathlib import Path

import torch
import torch_geometric
from torch import nn

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "supported_layers.md"
sys.path.insert(0, str(ROOT))

from gnn_ipu_helpers import poptorch  # noqa: E402
from gnn_ipu_helpers.porting import check, static_compile, static_replacements  # noqa: E402
from tools.layer_cases import BEFORE_AND_AFTER, GROUPS, NORMALISATIONS, SHOWN_AT, Case, Sample  # noqa: E402

AS_IT_IS, WITH_ARGUMENT, REPLACED, NOT_STATIC = "as it is", "with an argument", "replaced", "not static"
STEPS, RTOL, ATOL = 4, 1e-4, 1e-5


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What became of one layer: its `status` (one of the four above), a `remark` (argument, reason) and what
    to write `instead`."""

    name: str
    status: str
    remark: str = ""
    instead: str = ""


class WithLoss(nn.Module):
    """A layer and a loss over everything it returns, which comes out of `forward` as a device wants it."""

    def __init__(self, layer: nn.Module):
        super().__init__()
        self.layer = layer

    def forward(self, *args, **kwargs):
        tensors = [t for t in _tensors(self.layer(*args, **kwargs)) if t.is_floating_point()]
        loss = sum(((tensor * tensor.detach().cos()).mean() for tensor in tensors), torch.zeros(()))
        return poptorch.identity_loss(loss, reduction="none")


def _tensors(value):
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        return [tensor for item in value for tensor in _tensors(item)]
    return []


def examine(case: Case) -> Outcome:
    """The outcome of one case: the first of its variants that passes the check and trains as eager does."""
    if case.note:
        return Outcome(case.name, NOT_STATIC, case.note, case.instead)
    reason = _try(case, case.build, case.options)
    if isinstance(reason, Outcome):
        return reason
    if case.fix is not None:
        fixed = _try(case, case.fix.build or case.build, {**case.options, **case.fix.options})
        if isinstance(fixed, Outcome):
            remark = case.fix.argument + (", then replaced" if fixed.status == REPLACED else "")
            return Outcome(case.name, WITH_ARGUMENT, remark)
        reason = fixed
    reason, instead = reason if isinstance(reason, tuple) else (reason, "")
    return Outcome(case.name, NOT_STATIC, reason, case.instead or instead)


def _try(case: Case, build, options) -> Outcome | str | tuple[str, str]:
    """The outcome of one variant, or why it is not static and what to write instead."""
    try:
        model, inputs = _model(build), [getattr(Sample(), name) for name in case.call]
        report = check(model, *inputs, **options)
        if not report.ok:
            return report.findings[0].reason, _as_code(report.findings[0].remedy)
        difference = training_difference(model, inputs, options)
    except Exception as error:
        return f"{type(error).__name__}: {error}".splitlines()[0]
    if difference is not None:
        return difference
    return Outcome(case.name, REPLACED if report.replaced else AS_IT_IS)


def _as_code(remedy: str) -> str:
    """A remedy for this page, where the layer stands alone: `model.layer` is the layer."""
    return remedy.replace("model.layer.", "layer.").replace("model.layer", "the layer").replace("|", "\\|")


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
    except (
        ImportError,
        AttributeError,
        TypeError,
    ):  # PyG's own version needs pyg-lib: compare with ours, run eagerly
        with static_replacements():
            return model(*inputs, **options)


def _optimizer(model: nn.Module):
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    return torch.optim.SGD(parameters, lr=0.01) if parameters else None


def _update(optimizer, loss: torch.Tensor) -> None:
    if optimizer is not None:
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


# What PopTorch Geometric 3.3 documents as running on an IPU, by PyG's names, one per line.
POPTORCH_GEOMETRIC = frozenset((ROOT / "tools" / "poptorch_geometric_layers.txt").read_text().split())

_INTRODUCTION = f"""# Which PyG layers are static

Written by `make layers` with torch {{torch}} and PyG {{pyg}}: do not edit.

Every layer below was built, passed through `check`, compiled, and trained for {STEPS} steps beside the same
layer in eager PyTorch. It counts as static only if all losses and parameters agree at each step
(rtol {RTOL:g}, atol {ATOL:g}). {{total}} layers: {{counts}}. Of the {{known}} that PopTorch Geometric
documents for the IPU, {{covered}} are static here; a star marks those that are static beyond these.
"""

_SECTIONS = (
    (AS_IT_IS, "Static as it is", "Use them as you do on a CPU or GPU."),
    (WITH_ARGUMENT, "Static with an argument", "Pass the argument named, and they are."),
    (
        REPLACED,
        "Replaced by us",
        "PyG's own code is dynamic inside (or needs pyg-lib), though the result is not. While compiling, "
        "this package puts a static version of the same mathematics in its place.",
    ),
    (
        NOT_STATIC,
        "Not static",
        "An IPU cannot run these as they are. Where it says so, the code before and after is below.",
    ),
)


def write_page(outcomes: dict[str, list[Outcome]]) -> str:
    """The page that lists the outcomes of every group, as Markdown."""
    everything = [outcome for group in outcomes.values() for outcome in group]
    static = {outcome.name for outcome in everything if outcome.status != NOT_STATIC}
    counts = [f"{sum(o.status == status for o in everything)} {status}" for status, _, _ in _SECTIONS]
    page = [
        _INTRODUCTION.format(
            torch=torch.__version__.split("+")[0],
            pyg=torch_geometric.__version__,
            total=len(everything),
            counts=", ".join(counts),
            known=len(POPTORCH_GEOMETRIC),
            covered=len(POPTORCH_GEOMETRIC & static),
        )
    ]
    for status, title, words in _SECTIONS:
        page.append(f"## {title}\n\n{words}\n")
        for group, found in outcomes.items():
            chosen = [outcome for outcome in found if outcome.status == status]
            if chosen:
                page.append(f"### {group} — {title.lower()}\n\n{_table(chosen)}\n")
    return "\n".join(page)


_PADDED = """## On padded batches

All of these are static, and `check` still warns: they take in all rows of a batch, padding too.

"""


def _shown_at(name: str) -> str:
    """Which code before and after shows what to write."""
    return f"; before and after as for `{SHOWN_AT[name]}` below" if name in SHOWN_AT else ""


def _table(outcomes: list[Outcome]) -> str:
    def name(outcome: Outcome) -> str:
        is_ours = outcome.status != NOT_STATIC and outcome.name.split()[0] not in POPTORCH_GEOMETRIC
        return f"`{outcome.name}`" + ("\\*" if is_ours else "")

    if not any(outcome.remark for outcome in outcomes):
        return ", ".join(map(name, outcomes))
    if outcomes[0].status == NOT_STATIC:
        rows = [f"| {name(o)} | {o.remark} | {o.instead}{_shown_at(o.name)} |" for o in outcomes]
        return "\n".join(["| Layer | Why | Write instead |", "|---|---|---|", *rows])
    rows = [f"| {name(outcome)} | {outcome.remark} |" for outcome in outcomes]
    return "\n".join(["| Layer | Argument |", "|---|---|", *rows])


def padded_norms() -> str:
    """What the check says of each normalisation on a padded batch, as a table."""
    sample = Sample()
    sample.nodes_mask = torch.arange(len(sample.x)) < len(sample.x) * 2 // 3
    rows = []
    for case in NORMALISATIONS:
        inputs = [getattr(sample, name) for name in case.call if name != "batch"]
        model = _OnPadded(_model(case.build).layer).train()
        warnings_of = check(model, sample.edge_index, sample.nodes_mask, *inputs).warnings
        told = [w for w in warnings_of if w.operation not in ("idle parameters",)]
        with_batch = " without `batch`" if "batch" in case.call else ""
        if told:
            rows.append(f"| `{case.name}`{with_batch} | {told[0].reason} | {_as_code(told[0].remedy)} |")
    return "\n".join(["| Layer | Why | Write instead |", "|---|---|---|", *rows])


class _OnPadded(nn.Module):
    """A layer over all nodes, padding too, and a loss over the real ones."""

    def __init__(self, layer: nn.Module):
        super().__init__()
        self.layer = layer

    def forward(self, edge_index, mask, *args):
        error = torch.where(mask.unsqueeze(-1), self.layer(*args), 0.0).square()
        return poptorch.identity_loss(error.sum() / mask.sum(), reduction="none")


def before_and_after() -> str:
    """Models that are not static and what to write instead, as code."""
    parts = []
    for name, shown, _ in BEFORE_AND_AFTER:
        code = "\n\n\n".join(inspect.getsource(part).rstrip() for part in shown)
        parts.append(f"### {name} — before and after\n\n```python\n{code}\n```\n")
    return "\n".join(parts)


def read_page(text: str) -> dict[str, str]:
    """`{layer: status}` of a page that `write_page` wrote."""
    found, status = {}, None
    titles = {title: status for status, title, _ in _SECTIONS}
    for line in text.splitlines():
        if line.startswith("## "):
            status = titles.get(line[3:])
        elif status is not None and line.startswith(("`", "| `")):
            names = re.findall(r"`([^`]+)`", line.split("|")[1] if line.startswith("|") else line)
            found.update(dict.fromkeys(names, status))
    return found


def main(names: list[str]) -> None:
    """Examine the layers of these names and print what became of them, or all and write the page."""
    outcomes = {}
    for group, cases in GROUPS.items():
        outcomes[group] = []
        for case in cases:
            if not names or case.name in names:
                outcomes[group].append(examine(case))
                print(*dataclasses.astuple(outcomes[group][-1]), sep="\t", flush=True)
    if not names:
        extra = f"{_PADDED}{padded_norms()}\n\n## Before and after\n\n{before_and_after()}"
        PAGE.write_text(f"{write_page(outcomes)}\n{extra}")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    main(sys.argv[1:])
