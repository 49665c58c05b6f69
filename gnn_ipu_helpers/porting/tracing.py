"""Compiling a function as one static graph, or saying on which lines it is none."""

from __future__ import annotations

import contextlib
import dataclasses
import linecache
import re
from typing import Any, Callable, Union

import torch

from .checking import named_leaves, torch_is_new_enough
from .experiments import graph_warnings, memory_findings, padding_warnings, value_findings
from .findings import Finding, Place, StaticGraphError, forward_place, is_library, locate
from .internals import (
    CAN_FILTER_GUARDS,
    BackendFailed,
    compiler_of,
    keep_globals_in_reach,
    refusing_recompilation,
    tracing_settings,
    what_changed,
    with_own_code,
)
from .losses import Loss, find_loss, keep_marks_while_tracing, no_loss, on_device
from .origins import all_nodes, changed_attributes, dynamic_origins, layers_of, record, replaced_layers
from .remedies import distinct, explain, is_known_in_library, origin_of_failure, own_failure
from .static_layers import concerns_replacement, static_replacements

Backend = Union[str, Callable]


def static_compile(function: Callable, backend: Backend = "inductor") -> StaticFunction:
    """Compile `function` (or a module) into exactly one static graph.

    The first call traces it, with PyG's dynamic-inside layers replaced, looks at the graph and raises
    `StaticGraphError` with all findings if something is not static; otherwise the graph goes to `backend`.
    Every later call runs that graph; a call that would need another one raises `StaticGraphError`.

    Args:
        function: What to compile.
        backend: A name that `torch.compile` knows or a callable `(graph_module, example_inputs) -> callable`.

    Example:
        >>> layer = static_compile(torch.nn.Linear(4, 2), "eager")
        >>> layer(torch.ones(3, 4)).shape
        torch.Size([3, 2])
    """
    if not torch_is_new_enough():
        raise RuntimeError(
            f"Compiling a static graph needs torch 2.6 or later (got {torch.__version__}): install a newer "
            "torch, or run on an IPU with the Poplar SDK's PopTorch."
        )
    return StaticFunction(function, backend)


class StaticFunction:
    """The callable that `static_compile` returns.

    Args:
        function: What to compile.
        backend: As for `static_compile`.
        needs_loss: Require that a loss is made, as for training.
        tries_padding: Change the values in padding rows and see whether results move, once, before compiling.

    Attributes:
        replaced: Names of the PyG layers that run in a static version of ours, once traced.
        warnings: What runs and is probably not meant, once traced.
    """

    def __init__(
        self, function: Callable, backend: Backend, needs_loss: bool = False, tries_padding: bool = False
    ):
        keep_marks_while_tracing()
        # Keeps the graph valid once the replacements it was traced with are gone.
        options: Any = {"guard_filter_fn": _guards_to_keep} if CAN_FILTER_GUARDS else None
        self._function = function
        self._backend = backend
        self._needs_loss = needs_loss
        self._tries_padding = tries_padding
        self._leaves: list = []
        self._call: tuple[tuple, dict] = ((), {})
        self._is_traced = False
        self.replaced: tuple[str, ...] = ()
        self.warnings: list[Finding] = []
        self._compiled = torch.compile(
            with_own_code(function),
            fullgraph=True,
            dynamic=False,
            backend=self._inspect_and_compile,
            options=options,
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        with on_device(self._needs_loss), self._casting(args, kwargs):
            return self._run(*args, **kwargs) if self._is_traced else self._trace(args, kwargs)

    def _casting(self, args: tuple, kwargs: dict) -> contextlib.AbstractContextManager:
        """Cast weights as the device does, where arguments and weights are of several widths, or arguments of
        8 bits, which the model casts itself."""
        tensors = [leaf.value for leaf in named_leaves(self._function, args, kwargs)]
        if isinstance(self._function, torch.nn.Module):
            tensors += self._function.parameters()
        dtypes = {tensor.dtype for tensor in tensors if isinstance(tensor, torch.Tensor)}
        is_mixed = len([dtype for dtype in dtypes if dtype.is_floating_point]) > 1
        is_mixed = is_mixed or not dtypes.isdisjoint((torch.uint8, torch.int8))
        return _WeightsLikeInputs() if is_mixed else contextlib.nullcontext()

    def _trace(self, args: tuple, kwargs: dict) -> Any:
        waiting = uninitialised(self._function)
        if waiting is not None:
            raise StaticGraphError([waiting])
        self._leaves, self._call = named_leaves(self._function, args, kwargs), (args, kwargs)
        keep_globals_in_reach(self._function)
        with static_replacements(), tracing_settings():
            try:
                return self._compiled(*args, **kwargs)
            except Exception as error:
                if self._is_traced:  # met while running, not while tracing
                    raise
                raise self._translated(error, args, kwargs) from None
            finally:
                self._leaves, self._call = [], ((), {})

    def _translated(self, error: Exception, args: tuple, kwargs: dict) -> Exception:
        """The error to raise for one met while tracing: the model's own, or what is not static."""
        found = getattr(error, "inner_exception", None)
        if isinstance(found, StaticGraphError) and all(finding.file for finding in found.findings):
            return found
        if isinstance(error, BackendFailed) and not isinstance(found, StaticGraphError):
            return error
        made_loss, origins, failure = record(self._function, args, kwargs)
        findings = distinct(map(explain, filter(is_known_in_library, origins)))
        if isinstance(found, StaticGraphError):
            # The graph knows no line of code from `exec` or `python -c`, which an eager run sees.
            known = [finding for finding in found.findings if finding.file]
            operations = {finding.operation for finding in found.findings if not finding.file}
            placed = [finding for finding in findings if finding.operation in operations]
            return StaticGraphError(distinct([*known, *placed])) if placed else found
        if failure is not None:
            own = own_failure(failure)
            return failure if own is None else StaticGraphError(distinct([*findings, own]))
        last = explain(origin_of_failure(error))
        if (last.file, last.line) not in {(finding.file, finding.line) for finding in findings}:
            findings += [last] if last.file or not findings else []
        if self._needs_loss and not made_loss:
            findings.append(no_loss(self._function))
        return StaticGraphError(findings)

    def _logged_values(self, graph: torch.fx.Graph) -> list[Finding]:
        """Values that a log entry or a warning reads: the tracer leaves such calls out, an eager run does
        not. One is made only where the model's own files hold such calls."""
        stacks = {node.meta.get("stack_trace") or "" for node in all_nodes(graph)}
        files = {file for stack in stacks for file in re.findall(r'File "([^"]+)"', stack)}
        own = [file for file in files if not is_library(file)]
        if not any(_LOGGING.search("".join(linecache.getlines(file))) for file in own):
            return []
        _, origins, _ = record(self._function, *self._call)
        logged = [found for found in origins if _is_logging(locate(found.frames)[0])]
        findings = [explain(dataclasses.replace(found, operation="print")) for found in logged]
        return distinct(dataclasses.replace(finding, cause=None) for finding in findings)

    def _run(self, *args: Any, **kwargs: Any) -> Any:
        # Without a filter for them, conditions on the replacements hold only while these are in force.
        scope = contextlib.nullcontext() if CAN_FILTER_GUARDS else static_replacements()
        with refusing_recompilation(), scope:
            try:
                return self._compiled(*args, **kwargs)
            except Exception as error:
                change = what_changed(error)
                if change is None:
                    raise
                raise StaticGraphError([_second_graph(change)]) from None

    def _inspect_and_compile(self, graph_module: torch.fx.GraphModule, example_inputs: list) -> Callable:
        if self._is_traced:  # on a torch that does not refuse it before
            raise StaticGraphError([_second_graph("another graph would be needed")])
        graph, layers = graph_module.graph, layers_of(self._function)
        origins = [*dynamic_origins(graph, layers), *changed_attributes(self._function)]
        findings = distinct(map(explain, origins))
        loss = find_loss(graph, self._function) if self._needs_loss else Loss(None)
        findings += loss.findings
        findings = findings or self._logged_values(graph)
        if not findings:
            findings = memory_findings(self._function, graph_module, example_inputs, loss.node)
        if not findings:
            findings = value_findings(graph_module, example_inputs, layers, self._leaves)
        if findings:
            raise StaticGraphError(findings)
        self.replaced = replaced_layers(graph)
        self.warnings = [*loss.warnings, *graph_warnings(graph, example_inputs, self._function, loss.node)]
        if self._tries_padding:
            self.warnings += padding_warnings(graph_module, example_inputs, layers, self._leaves, loss.node)
        compiled = compiler_of(self._backend)(graph_module, example_inputs)
        self._is_traced = True
        return compiled


class _WeightsLikeInputs(torch.overrides.TorchFunctionMode):
    """Has linear layers and convolutions compute in the type of their input, whatever that of their weights:
    half-precision activations with weights in float32 are how PopTorch trains in mixed precision."""

    def __torch_function__(self, function: Any, types: Any, args: tuple = (), kwargs: Any = None) -> Any:
        if function in (torch.nn.functional.linear, torch.conv1d, torch.conv2d, torch.conv3d):
            dtype = args[0].dtype
            args = (args[0], *[a.to(dtype) if isinstance(a, torch.Tensor) else a for a in args[1:]])
        return function(*args, **(kwargs or {}))


_LOGGING = re.compile(r"\blog\w*\.(debug|info|warn|warning|error|exception|critical|log)\(|\bwarn\(")


def _is_logging(place: Place | None) -> bool:
    """Whether a line is, or belongs to, a call that makes a log entry or a warning."""
    if place is None or _LOGGING.search(place.source):
        return place is not None
    above = "".join(linecache.getlines(place.file)[max(place.line - 7, 0) : place.line - 1])
    calls = list(_LOGGING.finditer(above))
    rest = above[calls[-1].end() :] if calls else ")"
    return rest.count("(") >= rest.count(")")  # still open


def uninitialised(function: Callable) -> Finding | None:
    """The finding for a module with parameters that wait for a first call, at its `forward`."""
    parameters = function.parameters() if isinstance(function, torch.nn.Module) else ()
    if not any(isinstance(p, torch.nn.parameter.UninitializedParameter) for p in parameters):
        return None
    return Finding.at(
        forward_place(function),
        "uninitialised parameters",
        "layers made with in_channels=-1 have no weights yet, and the graph needs their shapes",
        "run the model once before wrapping it, on the same inputs: `with torch.no_grad(): model(...)`, or "
        "give the number of input channels",
    )


def no_graph(function: Callable) -> Finding:
    """The finding for a model that the tracer finds no operation in."""
    return Finding.at(
        forward_place(function),
        "no graph",
        "the model computes nothing from its inputs and parameters: there is no graph to compile",
        "return a result that is computed from them",
    )


def _guards_to_keep(guards: Any) -> list[bool]:
    return [not concerns_replacement(guard.name, guard.value) for guard in guards]


def _second_graph(change: str) -> Finding:
    return Finding.at(
        None,
        "second compilation",
        f"the model or an input changed after compilation: {change}",
        "keep shapes, dtypes and the model's attributes as at the first call, or compile a new one",
    )
