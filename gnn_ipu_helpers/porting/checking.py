"""The porting check: is this model one static graph, and if not, what has to change?

The tracer is imported by the first check: this module is light, and works on a torch too old to trace.
"""

from __future__ import annotations

from typing import Any, Callable

import torch

from .findings import Finding, Report, StaticGraphError

OLDEST_TORCH = (2, 6)


def torch_is_new_enough() -> bool:
    """Whether this torch can trace well enough for the check (2.6 or later)."""
    return tuple(int(part) for part in torch.__version__.split(".")[:2]) >= OLDEST_TORCH


class _Traced(Exception):
    """Ends the trace once the graph has been looked at, so that nothing is compiled."""


def check(model: Callable, *inputs: Any, **kwargs: Any) -> Report:
    """Look for everything in `model(*inputs, **kwargs)` that a static graph cannot hold.

    The model runs on copies only: its weights, buffers, gradients and hooks stay as they are, and so does the
    random state of torch, Python and NumPy. A module in training mode must also make its loss, because that
    is what the device differentiates. What `check` refuses, wrapping and calling the model refuses too.

    Args:
        model: A module or function.
        inputs: What it will be called with: tensors, nested lists, tuples or dicts of tensors, `Data` or
            `HeteroData`. With a batch of a fixed-size loader, `check` also tries whether padding reaches
            what is computed for real graphs.
        kwargs: The same by name.

    Example:
        >>> check(torch.nn.Linear(4, 2).eval(), torch.ones(3, 4))
        Linear: one static graph, nothing to change.
    """
    if not torch_is_new_enough():
        return Report(
            None, [], f"Not checked: looking at the graph needs torch 2.6 or later (got {torch.__version__})."
        )
    findings, warnings, replaced = _trace(model, inputs, kwargs)
    is_module = isinstance(model, torch.nn.Module)
    name = type(model).__name__ if is_module else getattr(model, "__name__", repr(model))
    if findings:
        places = "1 place" if len(findings) == 1 else f"{len(findings)} places"
        return Report(False, findings, f"{name}: not a static graph yet, {places} to change.", (), warnings)
    verdict = ("nothing to change", "with a warning", "with warnings")[min(len(warnings), 2)]
    swapped = f" Run in a static version of ours: {', '.join(replaced)}." if replaced else ""
    return Report(True, [], f"{name}: one static graph, {verdict}.{swapped}", replaced, warnings)


def _trace(
    model: Callable, inputs: tuple, kwargs: dict
) -> tuple[list[Finding], list[Finding], tuple[str, ...]]:
    """Findings, warnings and replaced layers of a copy of the model, called with copies of the inputs."""
    from .arguments import argument_findings, cast_down, named_leaves
    from .eager import copied, random_state_kept
    from .internals import BackendFailed
    from .tracing import StaticFunction, has_uninitialised_parameters, no_graph, uninitialised

    def stop(graph_module, example_inputs):
        raise _Traced

    leaves = named_leaves(model, inputs, kwargs)
    findings, warnings = argument_findings([leaf.name for leaf in leaves], [leaf.value for leaf in leaves])
    if findings:
        return findings, warnings, ()
    is_module = isinstance(model, torch.nn.Module)
    with random_state_kept():
        model = copied(model) if is_module else model
        inputs, kwargs = copied((inputs, kwargs))
        if not any(p.dtype == torch.float64 for p in (model.parameters() if is_module else ())):
            inputs, kwargs = cast_down(inputs), cast_down(kwargs)
        if has_uninitialised_parameters(model):
            findings.append(uninitialised(model))
            with torch.no_grad():
                model(*inputs, **kwargs)
        function = StaticFunction(model, stop, is_module and model.training, tries_padding=True)
        try:
            function(*inputs, **kwargs)
            findings.append(no_graph(model))
        except StaticGraphError as error:
            return findings + error.findings, warnings, ()
        except BackendFailed as error:
            if not isinstance(error.inner_exception, _Traced):
                raise
    return findings, warnings + function.warnings, function.replaced


def assert_static(model: Callable, *inputs: Any, **kwargs: Any) -> Report:
    """Raise an `AssertionError` that reads like the report unless `model(*inputs, **kwargs)` is static.

    For your own tests. Takes what `check` takes, and returns its report.

    Example:
        >>> def test_my_model_can_be_ported():
        ...     assert_static(MyModel(), *inputs)
    """
    report = check(model, *inputs, **kwargs)
    if report.ok is False:
        raise AssertionError(str(report))
    return report
