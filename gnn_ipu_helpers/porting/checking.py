"""The porting check: is this model one static graph, and if not, what has to change?"""

from __future__ import annotations

from typing import Any, Callable

import torch

from .copies import copied
from .findings import Finding, Report, StaticGraphError
from .lazy import has_uninitialised_parameters, initialise, uninitialised
from .tracing import StaticFunction, torch_is_new_enough


class _Traced(Exception):
    """Ends the trace once the graph has been looked at, so that nothing runs."""


def check(model: Callable, *inputs: Any, **kwargs: Any) -> Report:
    """Look for everything in `model(*inputs, **kwargs)` that a static graph cannot hold, without running it.

    `model` is a module or function, `inputs` what it will be called with: tensors, nested lists, tuples or
    dicts of tensors, `Data` or `HeteroData`. The model, its weights, buffers, gradients and the random
    state stay as they are. A module in training mode must also return its loss, because that is what the
    device differentiates.
    """
    if not torch_is_new_enough():
        return Report(
            None, [], f"Not checked: looking at the graph needs torch 2.6 or later (got {torch.__version__})."
        )
    findings, replaced = _trace(model, inputs, kwargs)
    is_module = isinstance(model, torch.nn.Module)
    name = type(model).__name__ if is_module else getattr(model, "__name__", repr(model))
    if findings:
        places = "1 place" if len(findings) == 1 else f"{len(findings)} places"
        return Report(False, findings, f"{name}: not a static graph yet, {places} to change.")
    swapped = f" Run in a static version of ours: {', '.join(replaced)}." if replaced else ""
    return Report(True, [], f"{name}: one static graph, nothing to change.{swapped}", replaced)


def _trace(model: Callable, inputs: tuple, kwargs: dict) -> tuple[list[Finding], tuple[str, ...]]:
    def stop(graph_module, example_inputs):
        raise _Traced

    model = copied(model) if isinstance(model, torch.nn.Module) else model
    random_state = torch.get_rng_state()
    findings = []
    if has_uninitialised_parameters(model):
        findings.append(uninitialised(model))
        initialise(model, inputs, kwargs)
    needs_loss = isinstance(model, torch.nn.Module) and model.training
    function = StaticFunction(model, stop, needs_loss)
    try:
        function(*inputs, **kwargs)
    except StaticGraphError as error:
        return findings + error.findings, ()
    except torch._dynamo.exc.BackendCompilerFailed as error:
        if not isinstance(error.inner_exception, _Traced):
            raise
    finally:
        torch.set_rng_state(random_state)
    return findings, function.replaced
