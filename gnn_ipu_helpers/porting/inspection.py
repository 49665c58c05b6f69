"""Looking for sizes and values that depend on data in a traced graph."""

from __future__ import annotations

import dataclasses
from typing import Any, Iterator

import torch

from .findings import Place
from .places import is_own, parse_stack
from .replacements import Original, print_while_tracing, replaced_by

_ALIASES = {
    "unique_consecutive": "unique",
    "_unique2": "unique",
    "unique_dim": "unique",
    "argwhere": "nonzero",
    "_unique_impl": "unique",
    "_return_inverse": "unique",
    "_return_counts": "unique",
    "_return_output": "unique",
}


@dataclasses.dataclass(frozen=True)
class Origin:
    """A place where a size or value enters the graph that only the data decide.

    `operation` is the name of the call, `frames` its stack (outermost first), `modules` the classes of the
    modules around it (outermost first), `detail` what the tracer says about it where nobody knows better.
    """

    operation: str
    frames: list[Place]
    modules: list[type]
    detail: str = ""


def dynamic_origins(graph_module: torch.fx.GraphModule) -> Iterator[Origin]:
    """Every node of the graph that is not static, in the order of the code: it brings in a size or value that
    only the data decide, or hands values to the host."""
    known: set[Any] = set()
    for node in graph_module.graph.nodes:
        symbols = _symbols(node.meta.get("example_value")) | set(node.meta.get("unbacked_bindings") or ())
        operation = _host_operation(node)
        if operation is not None:
            yield dataclasses.replace(origin(node), operation=operation)
        elif symbols - known and not _is_bookkeeping(node):
            yield origin(node)
        known |= symbols


def _host_operation(node: torch.fx.Node) -> str | None:
    """`assert` on data, `print` of a tensor, or `numpy` on its values, which the tracer would emulate."""
    if "_assert_async" in str(node.target):
        functions = [frame.function for frame in parse_stack(node.meta.get("stack_trace"))]
        return "print" if print_while_tracing.__name__ in functions else "assert"
    is_call = node.op == "call_function" and "numpy" in type(node.target).__name__.lower()
    is_conversion = node.target == "view_as" and ".numpy(" in origin(node).frames[-1].source
    return "numpy" if is_conversion or (is_call and _depends_on_inputs(node)) else None


def _depends_on_inputs(node: torch.fx.Node) -> bool:
    """Whether a node computes from an input or parameter; NumPy on constants alone is done while tracing."""
    seen, waiting = set(), [node]
    while waiting:
        current = waiting.pop()
        if current.op in ("placeholder", "get_attr"):
            return True
        if current not in seen:
            seen.add(current)
            waiting.extend(current.all_input_nodes)
    return False


def replaced_layers(graph_module: torch.fx.GraphModule) -> tuple[str, ...]:
    """Names of the PyG layers and functions in the graph that run in this package's static version, in
    order."""
    names: dict[str, None] = {}
    for node in graph_module.graph.nodes:
        found = origin(node)
        for frame, inner in zip(found.frames, [*found.frames[1:], None]):
            original = replaced_by(frame.function) if is_own(frame.file) else None
            if original is not None:
                if not _hands_on(original, inner):
                    names.setdefault(_layer_name(original, found.modules))
                break
    return tuple(names)


def _hands_on(original: Original, inner: Place | None) -> bool:
    """Whether the replacement calls the original after all, for a case that is static as it is."""
    return inner is not None and (inner.function, inner.file) == (original.function, original.file)


def _layer_name(original: Original, modules: list[type]) -> str:
    owner = original.owner
    if owner is None:
        return original.function
    return next((kind.__name__ for kind in reversed(modules) if issubclass(kind, owner)), owner.__name__)


def origin(node: torch.fx.Node) -> Origin:
    """The `Origin` record of any node."""
    return Origin(_operation(node), parse_stack(node.meta.get("stack_trace")), _modules(node))


def _symbols(value: Any) -> set[Any]:
    if isinstance(value, torch.Tensor):
        return _symbols(tuple(value.shape)) if value.layout == torch.strided else set()
    if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
        # The expression as it was made: a later comparison with a constant hides that the data decided it.
        return set(value.node._expr.free_symbols)
    if isinstance(value, (tuple, list)):
        return set().union(*(_symbols(item) for item in value))
    return set()


def _is_bookkeeping(node: torch.fx.Node) -> bool:
    # Size queries that the tracer adds itself, right after the node whose size they ask for.
    return "sym_size" in str(node.target)


def _operation(node: torch.fx.Node) -> str:
    if node.op == "call_method":
        return _ALIASES.get(str(node.target), str(node.target))
    name = getattr(node.target, "__name__", str(node.target))
    if name == "getitem":
        return "boolean indexing" if _has_boolean_index(node) else "size"
    return _ALIASES.get(name, name)


def _has_boolean_index(node: torch.fx.Node) -> bool:
    found = []

    def look(argument: torch.fx.Node) -> torch.fx.Node:
        value = argument.meta.get("example_value")
        found.append(isinstance(value, torch.Tensor) and value.dtype in (torch.bool, torch.uint8))
        return argument

    torch.fx.map_arg(node.args[1:], look)
    return any(found)


def _modules(node: torch.fx.Node) -> list[type]:
    stack: tuple = tuple((node.meta.get("nn_module_stack") or {}).values())
    return [kind for _, kind in stack if isinstance(kind, type)]
