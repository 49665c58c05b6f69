"""Compiling a function as one static graph, or saying on which lines it is none."""

from __future__ import annotations

import contextlib
import inspect
import logging
import sys
import types
import warnings
from typing import Any, Callable, Iterable, Union

import torch

from .device import on_device
from .failures import origin_of_failure
from .findings import Finding, StaticGraphError
from .hints import explain, is_consequence, is_known_in_library
from .inspection import dynamic_origins, replaced_layers
from .lazy import has_uninitialised_parameters, uninitialised
from .losses import find_loss, keep_marks_while_tracing, no_loss
from .padding import inputs_are_padded, polluted_statistics
from .recording import record
from .replacements import concerns_replacement, static_replacements

OLDEST_TORCH = (2, 6)
Backend = Union[str, Callable]
_CAN_FILTER_GUARDS = hasattr(getattr(torch, "compiler", None), "skip_guard_on_globals_unsafe")
_LOGGING = [getattr(logging.Logger, name) for name in ("debug", "info", "warning", "error")]


def torch_is_new_enough() -> bool:
    """Whether this torch can trace well enough for the check (2.6 or later)."""
    return tuple(int(part) for part in torch.__version__.split(".")[:2]) >= OLDEST_TORCH


def static_compile(function: Callable, backend: Backend = "inductor") -> StaticFunction:
    """Compile `function` (or a module) into exactly one static graph.

    The first call traces it, with PyG's dynamic-inside layers replaced, looks at the graph and raises
    `StaticGraphError` with all findings if something is not static; otherwise the graph goes to `backend`,
    a name that `torch.compile` knows or a callable `(graph_module, example_inputs) -> callable`.
    Every later call runs that graph; a call that would need another one raises `StaticGraphError`.
    """
    if not torch_is_new_enough():
        raise RuntimeError(
            f"Compiling a static graph needs torch 2.6 or later (got {torch.__version__}): install a newer "
            "torch, or run on an IPU with the Poplar SDK's PopTorch."
        )
    return StaticFunction(function, backend)


class StaticFunction:
    """The callable that `static_compile` returns. With `needs_loss` it also requires that a loss is returned;
    `replaced` names the PyG layers that run in a static version of ours, once traced."""

    def __init__(self, function: Callable, backend: Backend, needs_loss: bool = False):
        keep_marks_while_tracing()
        self._function = function
        self._backend = backend
        self._needs_loss = needs_loss
        self._is_padded = False
        self._is_traced = False
        self.replaced: tuple[str, ...] = ()
        self.warnings: list[Finding] = []
        self._compiled = torch.compile(
            _with_own_code(function),
            fullgraph=True,
            dynamic=False,
            backend=self._inspect_and_compile,
            **_guard_filter(),
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        with on_device(self._needs_loss):
            return self._run(*args, **kwargs) if self._is_traced else self._trace(args, kwargs)

    def _trace(self, args: tuple, kwargs: dict) -> Any:
        if has_uninitialised_parameters(self._function):
            raise StaticGraphError([uninitialised(self._function)])
        self._is_padded = inputs_are_padded(self._function, args, kwargs)
        _keep_globals_in_reach(self._function)
        with _tracing():
            try:
                return self._compiled(*args, **kwargs)
            except Exception as error:
                if self._is_traced:  # met while running, not while tracing
                    raise
                raise self._translated(error, args, kwargs) from None

    def _translated(self, error: Exception, args: tuple, kwargs: dict) -> Exception:
        """The error to raise for one met while tracing: the model's own, or what is not static."""
        if isinstance(error, torch._dynamo.exc.BackendCompilerFailed):
            return error.inner_exception if isinstance(error.inner_exception, StaticGraphError) else error
        try:
            made_loss, origins = record(self._function, args, kwargs)
        except Exception as own_error:
            return own_error
        findings = distinct(map(explain, filter(is_known_in_library, origins)))
        failure = explain(origin_of_failure(error))
        if (failure.file, failure.line) not in {(finding.file, finding.line) for finding in findings}:
            findings += [failure] if failure.file or not findings else []
        if self._needs_loss and not made_loss:
            findings.append(no_loss(self._function))
        return StaticGraphError(findings)

    def _run(self, *args: Any, **kwargs: Any) -> Any:
        # Without a filter for them, conditions on the replacements hold only while these are in force.
        scope = contextlib.nullcontext() if _CAN_FILTER_GUARDS else static_replacements()
        with torch.compiler.set_stance("fail_on_recompile"), scope:
            try:
                return self._compiled(*args, **kwargs)
            except RuntimeError as error:
                if "fail_on_recompile" not in str(error):
                    raise
                raise StaticGraphError([_second_graph(error)]) from None

    def _inspect_and_compile(self, graph_module: torch.fx.GraphModule, example_inputs: list[torch.Tensor]):
        findings = graph_findings(graph_module)
        if self._is_padded:
            findings += distinct(polluted_statistics(graph_module))
        if self._needs_loss:
            loss = find_loss(graph_module.graph, self._function)
            findings += loss.findings
            self.warnings += loss.warnings
        if findings:
            raise StaticGraphError(findings)
        self.replaced = replaced_layers(graph_module)
        compiler = self._backend
        if isinstance(compiler, str):
            compiler = torch._dynamo.lookup_backend(compiler)
        compiled = compiler(graph_module, example_inputs)
        self._is_traced = True
        return compiled


def graph_findings(graph_module: torch.fx.GraphModule) -> list[Finding]:
    """What in a traced graph is not static, in the order of the code."""
    return distinct(map(explain, dynamic_origins(graph_module)))


def distinct(findings: Iterable[Finding]) -> list[Finding]:
    """`findings` without repetitions: one per line of the user and remedy, the first of each."""
    unique = list({(f.file, f.line, f.remedy): f for f in reversed(list(findings))}.values())[::-1]
    explained = {(f.file, f.line) for f in unique if not is_consequence(f)}
    return [f for f in unique if not is_consequence(f) or (f.file, f.line) not in explained]


@contextlib.contextmanager
def _tracing():
    # With the first two settings an operation whose size or value depends on data becomes a node of the
    # graph, with the stack of the user's line, instead of ending the trace at the first one. Recurrent
    # layers are static, and warnings and log entries happen on the host, while tracing.
    settings = {
        "capture_scalar_outputs": True,
        "capture_dynamic_output_shape_ops": True,
        "allow_rnn": True,
        "ignore_logging_functions": {warnings.warn, *_LOGGING},
    }
    known = {name: value for name, value in settings.items() if hasattr(torch._dynamo.config, name)}
    with static_replacements(), torch._dynamo.config.patch(known), warnings.catch_warnings():
        warnings.filterwarnings("ignore", module=r"torch\._dynamo")
        yield


def _keep_globals_in_reach(function: Callable) -> None:
    """Makes torch find the globals of a model's code.

    It looks for them in the module of that name, which may be another one by now: IPython, which widgets
    start in a plain script, puts a `__main__` of its own in the place of the script's.
    """
    parts = function.modules() if isinstance(function, torch.nn.Module) else [function]
    codes = {inspect.unwrap(getattr(type(part), "forward", part)) for part in parts}
    lookup = getattr(torch._dynamo.symbolic_convert, "_import_module", None)  # as in torch 2.6 to 2.13
    scopes = {id(code.__globals__): code.__globals__ for code in codes if hasattr(code, "__globals__")}
    for names in scopes.values():
        name = names.get("__name__", "")
        if lookup is None or name not in sys.modules or vars(lookup(name)) is names:
            continue
        # Where torch has put a module of that name among these globals, it insists on that one.
        if f"__import_{name.replace('.', '_dot_')}" not in globals():
            _COPIES[name] = types.ModuleType(name)
            found, sys.modules[name] = sys.modules[name], _COPIES[name]
            lookup.cache_clear()
            lookup(name)
            sys.modules[name] = found
        if lookup(name) is _COPIES.get(name):
            vars(_COPIES[name]).update(names)


_COPIES: dict[str, types.ModuleType] = {}


def _with_own_code(function: Callable) -> Callable:
    """`function` behind a code object of its own: `torch.compile` keeps its graphs with the code object,
    and counts them, so that models of one class would otherwise share both."""

    def call(*args, **kwargs):
        return function(*args, **kwargs)

    return types.FunctionType(call.__code__.replace(), call.__globals__, "call", None, call.__closure__)


def _guard_filter() -> dict[str, Any]:
    """Settings that keep the graph valid once the replacements it was traced with are gone."""

    def keep(guards):
        return [not concerns_replacement(guard.name, guard.value) for guard in guards]

    return {"options": {"guard_filter_fn": keep}} if _CAN_FILTER_GUARDS else {}


def _second_graph(error: RuntimeError) -> Finding:
    change = str(error).splitlines()[-1].strip(" -")
    return Finding(
        operation="second compilation",
        file="",
        line=0,
        source="",
        reason=f"the model or an input changed after compilation: {change}",
        remedy="keep shapes, dtypes and the model's attributes as at the first call, or compile a new one",
    )
