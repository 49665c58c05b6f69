"""Every private name of torch that this room uses.

After an upgrade of torch this is the one module to look through: each name was seen in torch 2.13.0 unless
said otherwise, and a line `Private:` says what happens where it is missing.
"""

from __future__ import annotations

import contextlib
import inspect
import logging
import re
import sys
import traceback
import types
import warnings
from typing import Any, Callable, ContextManager, Iterator, NamedTuple

import torch

# Private: without it importing this module fails, and with it every check.
BackendFailed = torch._dynamo.exc.BackendCompilerFailed
CAN_FILTER_GUARDS = hasattr(torch.compiler, "skip_guard_on_globals_unsafe")  # since torch 2.7
_LOGGING = [getattr(logging.Logger, name) for name in ("debug", "info", "warning", "error")]
_RECOMPILED = "error_on_recompile"


@contextlib.contextmanager
def tracing_settings() -> Iterator[None]:
    """Trace so that more of a model reaches the graph; for this thread only (since torch 2.12).

    Private: `torch._dynamo.config`. A setting that is missing is left out: a model that needs it is refused.
    """
    # With the first two, an operation whose size or value depends on data becomes a node of the graph, with
    # the stack of the user's line, instead of ending the trace at the first one. Recurrent layers are static,
    # and warnings and log entries happen on the host, while tracing.
    settings = {
        "capture_scalar_outputs": True,
        "capture_dynamic_output_shape_ops": True,
        "allow_rnn": True,
        "ignore_logging_functions": {warnings.warn, *_LOGGING},
    }
    known = {name: value for name, value in settings.items() if hasattr(torch._dynamo.config, name)}
    with torch._dynamo.config.patch(known), warnings.catch_warnings():
        warnings.filterwarnings("ignore", module=r"torch\._dynamo")
        yield


def refusing_recompilation() -> ContextManager[None]:
    """Have a call that needs another graph raise; in this thread only, unlike torch.compiler.set_stance.

    Private: `error_on_recompile`; without it the call raises AttributeError.
    """
    return torch._dynamo.config.patch({_RECOMPILED: True})


def what_changed(error: Exception) -> str | None:
    """What made another graph necessary, if that is what `error` says.

    Private: `RecompileError`, and the lines of its message, of which the last serves for others.
    """
    if not isinstance(error, torch._dynamo.exc.RecompileError):
        return None
    reasons = [line.strip(" -") for line in str(error).splitlines() if re.match(r"\s*- ?\d+/\d+", line)]
    reason = reasons[0] if reasons else str(error).splitlines()[-1].strip(" -")
    return re.sub(r"^\d+/\d+: ", "", reason)


# Private: without it importing this module fails. Leaves a node in the graph that does nothing.
host_check = torch._assert_async


def is_host_check(node: torch.fx.Node) -> bool:
    """Whether a node stands for something that looks at values while the graph runs: an `assert`, a mark."""
    return "_assert_async" in str(node.target)


def compiler_of(backend: str | Callable) -> Callable:
    """The function `(graph_module, example_inputs) -> callable` that `torch.compile` knows by that name.

    Private: `lookup_backend`; without it only callables can be backends.
    """
    return torch._dynamo.lookup_backend(backend) if isinstance(backend, str) else backend


def stack_of_failure(error: BaseException) -> list[traceback.FrameSummary]:
    """The user's frames at which a trace ended, outermost first.

    Private: `real_stack` of the error; without it the finding names no line.
    """
    return list(getattr(error, "real_stack", None) or ())


def example_value(node: torch.fx.Node) -> Any:
    """What the tracer knows of a node's result: a tensor without data, with shape and dtype.

    Private: the key `example_value`; without it nothing dynamic is seen.
    """
    return node.meta.get("example_value")


def symbols(node: torch.fx.Node) -> set[Any]:
    """The sizes and values in a node's result that only the data decide.

    Private: the key `unbacked_bindings`; without it values that end in no shape are not seen.
    """
    return _free_symbols(example_value(node)) | set(node.meta.get("unbacked_bindings") or ())


def _free_symbols(value: Any) -> set[Any]:
    if isinstance(value, torch.Tensor):
        return _free_symbols(tuple(value.shape)) if value.layout == torch.strided else set()
    if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
        # The expression as it was made: a later comparison with a constant hides that the data decided it.
        # Private: `_expr`; without it an AttributeError.
        return set(value.node._expr.free_symbols)
    if isinstance(value, (tuple, list)):
        return set().union(*map(_free_symbols, value))
    return set()


def modules_around(node: torch.fx.Node) -> list[tuple[int, type]]:
    """`(id, class)` of the modules whose `forward` the node is computed in, outermost first.

    Private: the key `nn_module_stack`; without it remedies name classes, not paths.
    """
    stack = (node.meta.get("nn_module_stack") or {}).items()
    return [(int(key.split("@")[0]), kind) for key, (_, kind) in stack if key.split("@")[0].isdigit()]


class Mutation(NamedTuple):
    """Something outside the graph that a trace changes: `path` in Python (`L['model'].n`), the `kind` of the
    object that holds it, its `attribute`, and the `stack` of the line that changes it, outermost first."""

    path: str
    kind: type
    attribute: str
    stack: list[traceback.FrameSummary]


def mutations() -> list[Mutation]:
    """What the trace now being compiled changes outside the graph.

    Private: `side_effects`, `mutation_user_stacks`; without them nothing is seen to change.
    """
    try:
        from torch._dynamo.symbolic_convert import InstructionTranslator

        effects = InstructionTranslator.current_tx().output.side_effects
        variables = [item for item in effects.id_to_variable.values() if item.source is not None]
        stacks = effects.mutation_user_stacks
    except (ImportError, AttributeError):
        return []
    found = []
    for variable in variables:
        if not effects.is_modified(variable) or "Existing" not in type(variable.mutation_type).__name__:
            continue
        path = variable.source.name if isinstance(variable.source.name, str) else variable.source.name()
        places = stacks.get(variable, [])
        attributes = list(effects.store_attr_mutations.get(variable, {})) or [""]
        for attribute in attributes:
            stack = next((s for s in places if _assigns(s, attribute)), places[-1] if places else [])
            found.append(Mutation(path, _type(variable), attribute, list(stack)))
    return found


def _type(variable: Any) -> type:
    try:
        return variable.python_type()
    except NotImplementedError:  # a global variable
        return object


def _assigns(stack: list[traceback.FrameSummary], attribute: str) -> bool:
    return any(re.search(rf"\.{re.escape(attribute)}\b", frame.line or "") for frame in stack)


def keep_globals_in_reach(function: Callable) -> None:
    """Makes torch find the globals of a model's code.

    It looks for them in the module of that name, which may be another one by now: IPython, which widgets
    start in a plain script, puts a `__main__` of its own in the place of the script's.

    Private: `_import_module`, 2.6 to 2.13, and the name `__import_…` of what it finds; without it, globals
    of such a script are those of another module.
    """
    parts = function.modules() if isinstance(function, torch.nn.Module) else [function]
    codes = {inspect.unwrap(getattr(type(part), "forward", part)) for part in parts}
    lookup = getattr(torch._dynamo.symbolic_convert, "_import_module", None)
    scopes = {id(code.__globals__): code.__globals__ for code in codes if hasattr(code, "__globals__")}
    for names in scopes.values():
        name = names.get("__name__", "")
        if lookup is None or name not in sys.modules or vars(lookup(name)) is names:
            continue
        # Where torch has put a module of that name among the globals of `with_own_code`, it insists on it.
        if f"__import_{name.replace('.', '_dot_')}" not in globals():
            _COPIES[name] = types.ModuleType(name)
            found, sys.modules[name] = sys.modules[name], _COPIES[name]
            lookup.cache_clear()
            lookup(name)
            sys.modules[name] = found
        if lookup(name) is _COPIES.get(name):
            vars(_COPIES[name]).update(names)


_COPIES: dict[str, types.ModuleType] = {}


def with_own_code(function: Callable) -> Callable:
    """`function` behind a code object of its own: `torch.compile` keeps its graphs with the code object,
    and counts them, so that models of one class would otherwise share both."""

    def call(*args, **kwargs):
        return function(*args, **kwargs)

    return types.FunctionType(call.__code__.replace(), call.__globals__, "call", None, call.__closure__)
