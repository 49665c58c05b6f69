"""Compiling a function as one static graph, or saying on which lines it is none."""

from __future__ import annotations

import contextlib
import logging
import types
import warnings
from typing import Any, Callable, Union

import torch

from .findings import Finding, StaticGraphError
from .hints import explain, explain_failure
from .inspection import data_dependent_origins, numpy_origins, replaced_layers
from .replacements import concerns_replacement, static_replacements

OLDEST_TORCH = (2, 6)
Backend = Union[str, Callable]
_LOGGING = [getattr(logging.Logger, name) for name in ("debug", "info", "warning", "error")]


def torch_is_new_enough() -> bool:
    """Whether this torch can trace well enough for the check (2.6 or later)."""
    return tuple(int(part) for part in torch.__version__.split(".")[:2]) >= OLDEST_TORCH


def static_compile(function: Callable, backend: Backend = "inductor") -> Callable:
    """Compile `function` (or a module) into exactly one static graph.

    The first call traces it, with PyG's dynamic-inside layers replaced, looks at the graph and raises
    `StaticGraphError` with all findings if something is not static; otherwise the graph goes to `backend`,
    a name that `torch.compile` knows or a callable `(graph_module, example_inputs) -> callable`.
    Every later call runs that graph; a call that would need another one raises `StaticGraphError`.
    """
    if not torch_is_new_enough():
        raise RuntimeError(
            f"Compiling a static graph needs torch 2.6 or later (got {torch.__version__}): install a newer torch, "
            "or run on an IPU with the Poplar SDK's PopTorch."
        )
    return _StaticFunction(function, backend)


class _StaticFunction:
    """The callable behind `static_compile`."""

    def __init__(self, function: Callable, backend: Backend):
        self._backend = backend
        self._is_traced = False
        self.replaced: tuple[str, ...] = ()
        self._compiled = torch.compile(
            _with_own_code(function),
            fullgraph=True,
            dynamic=False,
            backend=self._inspect_and_compile,
            **_guard_filter(),
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._is_traced:
            return self._run(*args, **kwargs)
        with _tracing():
            result = _translated(self._compiled, args, kwargs)
        self._is_traced = True
        return result

    def _run(self, *args: Any, **kwargs: Any) -> Any:
        with torch.compiler.set_stance("fail_on_recompile"):
            try:
                return self._compiled(*args, **kwargs)
            except RuntimeError as error:
                if "fail_on_recompile" not in str(error):
                    raise
                raise StaticGraphError([_second_graph(error)]) from None

    def _inspect_and_compile(self, graph_module: torch.fx.GraphModule, example_inputs: list[torch.Tensor]):
        findings = graph_findings(graph_module)
        self.replaced = replaced_layers(graph_module)
        if findings:
            raise StaticGraphError(findings)
        compiler = self._backend
        if isinstance(compiler, str):
            compiler = torch._dynamo.lookup_backend(compiler)
        return compiler(graph_module, example_inputs)


def graph_findings(graph_module: torch.fx.GraphModule) -> list[Finding]:
    """What in a traced graph is not static, one finding per line of the user and kind, in the order of the code."""
    findings: dict[tuple, Finding] = {}
    for origins in (data_dependent_origins, numpy_origins):
        for found in origins(graph_module):
            finding = explain(found)
            findings.setdefault((finding.file, finding.line, finding.remedy), finding)
    return list(findings.values())


@contextlib.contextmanager
def _tracing():
    # With the first two settings an operation whose size or value depends on data becomes a node of the graph,
    # with the stack of the user's line, instead of ending the trace at the first one. Recurrent layers are static,
    # and warnings and log entries happen on the host, while tracing.
    settings = {
        "capture_scalar_outputs": True,
        "capture_dynamic_output_shape_ops": True,
        "allow_rnn": True,
        "ignore_logging_functions": {warnings.warn, *_LOGGING},
    }
    known = {name: value for name, value in settings.items() if hasattr(torch._dynamo.config, name)}
    with static_replacements(), torch._dynamo.config.patch(known):
        yield


def _translated(compiled: Callable, args: tuple, kwargs: dict) -> Any:
    try:
        return compiled(*args, **kwargs)
    except torch._dynamo.exc.BackendCompilerFailed as error:
        if isinstance(error.inner_exception, StaticGraphError):
            raise error.inner_exception from None
        raise
    except (
        torch._dynamo.exc.TorchDynamoException,
        torch.fx.experimental.symbolic_shapes.GuardOnDataDependentSymNode,
    ) as error:
        raise StaticGraphError([explain_failure(error)]) from None


def _with_own_code(function: Callable) -> Callable:
    """`function` behind a code object of its own: `torch.compile` keeps its graphs with the code object, and counts
    them, so that models of one class would otherwise share both."""

    def call(*args, **kwargs):
        return function(*args, **kwargs)

    return types.FunctionType(call.__code__.replace(), call.__globals__, "call", None, call.__closure__)


def _guard_filter() -> dict[str, Any]:
    """Settings that keep the graph valid once the replacements it was traced with are gone."""

    def keep(guards):
        return [not concerns_replacement(guard.name, guard.value) for guard in guards]

    return {"options": {"guard_filter_fn": keep}}


def _second_graph(error: RuntimeError) -> Finding:
    change = str(error).splitlines()[-1].strip(" -")
    return Finding(
        operation="second compilation",
        file="",
        line=0,
        source="",
        reason=f"the model or an input changed after compilation: {change}",
        remedy="keep shapes, dtypes and the model's attributes as they were at the first call, or compile a new one",
    )
