"""Where a model stops being static: read off its traced graph, and seen in an eager run of a copy.

A trace ends at the first operation that it cannot take; an eager run sees those behind it, too.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import random
import re
import sys
import traceback
import warnings
from typing import Any, Callable, Iterator

import torch
from torch.overrides import TorchFunctionMode
from torch_geometric.data.data import BaseData
from torch_geometric.data.storage import BaseStorage

from .checking import with_tensors
from .findings import Place, from_summary, is_library, is_own, parse_stack
from .internals import example_value, is_host_check, modules_around, mutations, symbols
from .losses import is_loss_function
from .static_layers import printing_nothing, static_versions


@dataclasses.dataclass(frozen=True)
class Layer:
    """A module around an operation: its class and, where it belongs to the model that is checked, the module
    itself and its `path`, such as `model.encoder.conv1`."""

    kind: type
    path: str = ""
    module: torch.nn.Module | None = None


def layers_of(function: Callable) -> dict[int, Layer]:
    """`{id: Layer}` of all modules of a model; empty for a plain function."""
    if not isinstance(function, torch.nn.Module):
        return {}
    return {id(module): Layer(type(module), _path(n), module) for n, module in function.named_modules()}


def _path(name: str) -> str:
    """The Python expression for a module's name, with the whole called `model`."""
    path = "model"
    for part in name.split(".") if name else ():
        if part.isidentifier():
            path += f".{part}"
        elif part.isdigit():
            path += f"[{part}]"
        else:  # PyG writes an edge type as <source___relation___target>
            key = tuple(part.strip("<>").split("___"))
            path += f"[{', '.join(map(repr, key))}]"
    return path


@dataclasses.dataclass(frozen=True)
class Origin:
    """A place where a size or value enters the graph that only the data decide.

    `operation` is the name of the call, `frames` its stack and `layers` the modules around it, both outermost
    first, `detail` what is known beyond the operation.
    """

    operation: str
    frames: list[Place]
    layers: list[Layer] = dataclasses.field(default_factory=list)
    detail: str = ""


def origin(node: torch.fx.Node, layers: dict[int, Layer] | None = None) -> Origin:
    """The `Origin` record of any node; `layers` are those of the model that was traced."""
    around = [(layers or {}).get(number, Layer(kind)) for number, kind in modules_around(node)]
    return Origin(_operation(node), parse_stack(node.meta.get("stack_trace")), around)


# In the graph that a trace gives.


_UNIQUE = re.compile(r"_?unique\w*|_return_(inverse|counts|output)")
_OWN_MAX = re.compile(r"(?<![\w.])(max|min)\(")
_TORCH_MAX = re.compile(r"maximum|minimum|clamp|clip")


def all_nodes(graph: torch.fx.Graph) -> Iterator[torch.fx.Node]:
    """The nodes of a graph and of the graphs inside it, such as that of `checkpoint`, in order."""
    for node in graph.nodes:
        inner = getattr(graph.owning_module, node.target, None) if node.op == "get_attr" else None
        if isinstance(inner, torch.fx.GraphModule):
            yield from all_nodes(inner.graph)
        yield node


def dynamic_origins(graph: torch.fx.Graph, layers: dict[int, Layer]) -> Iterator[Origin]:
    """Every node that is not static, in the order of the code: it brings in a size or value that only the
    data decide, or hands values to the host."""
    known: set[Any] = set()
    for node in all_nodes(graph):
        new = symbols(node) - known
        operation = _host_operation(node)
        if operation is not None:
            yield dataclasses.replace(origin(node, layers), operation=operation)
        elif new and "sym_size" not in str(node.target):  # a query of the tracer's own, after its subject
            yield origin(node, layers)
        known |= new


def _host_operation(node: torch.fx.Node) -> str | None:
    """What a node does that needs values on the host, though the tracer found a way round it."""
    if is_host_check(node):
        functions = [frame.function for frame in parse_stack(node.meta.get("stack_trace"))]
        return "print" if "print_while_tracing" in functions else "assert"
    if node.target in (torch.maximum, torch.minimum, torch.clamp):
        # Python's own max and min compare, and choose a branch.
        frames = parse_stack(node.meta.get("stack_trace"))
        is_own = frames and _OWN_MAX.search(frames[-1].source) and not _TORCH_MAX.search(frames[-1].source)
        return "branch" if is_own else None
    is_call = node.op == "call_function" and "numpy" in type(node.target).__name__.lower()
    if is_call and ".random." in origin(node).frames[-1].source:
        return "random"
    is_conversion = node.target == "view_as" and ".numpy(" in origin(node).frames[-1].source
    return "numpy" if is_conversion or (is_call and _depends_on_inputs(node)) else None


def ancestors(
    node: torch.fx.Node, follows: Callable[[torch.fx.Node], bool] = lambda node: True
) -> set[torch.fx.Node]:
    """Everything that `node` is computed from, and `node` itself, as far as `follows` says."""
    seen: set[torch.fx.Node] = set()
    waiting = [node]
    while waiting:
        current = waiting.pop()
        if current not in seen and follows(current):
            seen.add(current)
            waiting.extend(current.all_input_nodes)
    return seen


def _depends_on_inputs(node: torch.fx.Node) -> bool:
    """Whether a node computes from an input or parameter; NumPy on constants alone is done while tracing."""
    return any(current.op in ("placeholder", "get_attr") for current in ancestors(node))


def _operation(node: torch.fx.Node) -> str:
    name = (
        str(node.target) if node.op == "call_method" else getattr(node.target, "__name__", str(node.target))
    )
    if name == "getitem" and node.op != "call_method":
        kinds: list[torch.dtype | None] = []
        torch.fx.map_arg(node.args[1:], lambda n: kinds.append(getattr(example_value(n), "dtype", None)))
        return "boolean indexing" if {torch.bool, torch.uint8}.intersection(kinds) else "size"
    return "unique" if _UNIQUE.fullmatch(name) else {"argwhere": "nonzero"}.get(name, name)


def changed_attributes(function: Callable) -> Iterator[Origin]:
    """What `forward` changes and the device would not: attributes, lists and dicts of the model, global
    variables, and buffers that are assigned anew. To be asked while the trace is being compiled."""
    buffers = function.named_buffers() if isinstance(function, torch.nn.Module) else ()
    names = {name.split(".")[-1] for name, _ in buffers}
    for path, kind, attribute, stack in mutations():
        setters = ("__setattr__", "register_buffer")
        frames = [f for f in from_summary(stack) if f.function not in setters or not is_library(f.file)]
        if issubclass(kind, (torch.Tensor, BaseData, BaseStorage)) or not frames or "._mapping" in path:
            continue  # in-place changes of tensors are part of the graph, data objects belong to the caller
        if path.startswith(("L['args']", "L['kwargs']")):
            continue  # so do lists and dicts that are passed in, such as x_dict["movie"] = ...
        is_buffer = re.search(r"_buffers('\])?$", path)
        if is_library(frames[-1].file) and not is_buffer:
            continue  # what a library's layer keeps for itself, such as a cache
        if is_buffer:
            source = frames[-1].source
            name = next((name for name in names if re.search(rf"\b{re.escape(name)}\b", source)), "buffer")
            if not re.search(rf"{re.escape(name)}\s*[-+*/@%&|^]=", source):  # which works in place
                yield Origin("assigned buffer", frames, detail=name)
        elif not re.search(r"(_parameters|_modules|__dict__)('\])?$", path):
            name = attribute or path.rsplit(".", 1)[-1].strip("[]'\"")
            yield Origin("changed attribute", frames, detail=name)


def replaced_layers(graph: torch.fx.Graph) -> tuple[str, ...]:
    """Names of the PyG layers and functions in the graph that run in this package's static version, in
    order."""
    names: dict[str, None] = {}
    versions = static_versions()
    files = {file for file, _ in versions}
    for node in all_nodes(graph):
        if not any(file in (node.meta.get("stack_trace") or "") for file in files):
            continue
        found = origin(node)
        for frame, inner in zip(found.frames, [*found.frames[1:], None]):
            entry = versions.get((frame.file, frame.function))
            if entry is None:
                continue
            original = getattr(entry.owner, entry.name) if entry.name else entry.owner
            # A static version may call the original after all, for a case that is static as it is.
            is_called = inner is not None and inner.function in (entry.name, entry.label)
            if not is_called or is_own(inner.file) or not hasattr(original, "__code__"):
                is_kind = isinstance(entry.owner, type)
                kinds = [layer.kind for layer in reversed(found.layers) if is_kind]
                kinds = [kind for kind in kinds if issubclass(kind, entry.owner)]
                names.setdefault(kinds[0].__name__ if kinds else entry.label)
            break
    return tuple(names)


# Copies to experiment on, and nothing of it left behind.


def copied(value: Any) -> Any:
    """A copy of `value` to experiment on, with tensors of its own whatever else cannot be copied."""
    try:
        return copy.deepcopy(value)
    except Exception:  # a tensor in the middle of a graph of gradients, an open file, a lock …
        if isinstance(value, torch.nn.Module):
            return _copied_module(value, {})
        return with_tensors(_copied_tensor, value)


def _copied_module(module: torch.nn.Module, known: dict[int, Any]) -> torch.nn.Module:
    """A module of its own parameters, buffers and submodules; other attributes are shared if they must."""
    if id(module) in known:
        return known[id(module)]
    twin = known[id(module)] = module.__class__.__new__(module.__class__)
    for name, value in vars(module).items():
        if name == "_modules":
            value = {key: child and _copied_module(child, known) for key, child in value.items()}
        elif isinstance(value, torch.Tensor):
            value = _copied_tensor(value)
        elif name in ("_parameters", "_buffers"):
            for tensor in value.values():
                known.setdefault(id(tensor), None if tensor is None else _copied_tensor(tensor))
            value = {key: known[id(tensor)] for key, tensor in value.items()}
        else:
            with contextlib.suppress(Exception):
                value = copy.deepcopy(value)
        twin.__dict__[name] = value
    return twin


def _copied_tensor(tensor: torch.Tensor) -> torch.Tensor:
    twin = tensor.detach().clone()
    return torch.nn.Parameter(twin, tensor.requires_grad) if isinstance(tensor, torch.nn.Parameter) else twin


@contextlib.contextmanager
def random_state_kept() -> Iterator[None]:
    """Leave the random state of torch, Python and NumPy as it was."""
    numpy = sys.modules.get("numpy")
    states = torch.get_rng_state(), random.getstate(), numpy and numpy.random.get_state()
    try:
        yield
    finally:
        torch.set_rng_state(states[0])
        random.setstate(states[1])
        if numpy:
            numpy.random.set_state(states[2])


# In an eager run.


# `operation: functions of torch that read from data for it`
_READS = {
    "branch": "__bool__",
    "item": "__int__ __float__ __index__ item",
    "tolist": "tolist",
    "numpy": "numpy __array__",
    "print": "__repr__ __format__",
    "nonzero": "nonzero argwhere",
    "unique": "unique unique_consecutive",
    "masked_select": "masked_select",
    "bincount": "bincount",
    "gradient": "grad backward",
    "device": "cuda",
}


class _Recorder(TorchFunctionMode):
    def __init__(self, function: Callable) -> None:
        super().__init__()
        self.origins: list[Origin] = []
        self.made_loss = False
        self._layers = layers_of(function)

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        self.made_loss = self.made_loss or is_loss_function(function)
        operation = _reading(getattr(function, "__name__", ""), args, kwargs)
        # A packed sequence is told of where it is made; layers that take it read its sizes.
        if operation is not None and not sys._getframe(1).f_code.co_filename.endswith("nn/modules/rnn.py"):
            self.origins.append(Origin(operation, *self._stack()))
        return function(*args, **kwargs)

    def _stack(self) -> tuple[list, list]:
        """The frames from the model's call on and the modules of the model among them, outermost first."""
        frames, layers = [], []
        for frame, line in list(traceback.walk_stack(sys._getframe(2))):
            if frame.f_code is _run.__code__:
                break
            frames.append((frame, line))
            layer = self._layers.get(id(frame.f_locals.get("self")))
            if layer is not None and layer not in layers:
                layers.append(layer)
        return from_summary(traceback.StackSummary.extract(reversed(frames))), layers[::-1]


def _reading(name: str, args: tuple, kwargs: dict) -> str | None:
    """The kind of reading from data that a call of this name with these arguments does, or None."""
    if name == "__getitem__":
        return _indexing(args[1] if isinstance(args[1], tuple) else (args[1],))
    if name in ("where", "one_hot"):
        return name if len(args) + len(kwargs) == 1 else None
    if name == "repeat_interleave":
        repeats = kwargs.get("repeats", args[-1])
        is_data = isinstance(repeats, torch.Tensor) and kwargs.get("output_size") is None
        return "repeat_interleave" if is_data else None
    return next((operation for operation, names in _READS.items() if name in names.split()), None)


def _indexing(index: tuple) -> str | None:
    tensors = [part for part in index if isinstance(part, torch.Tensor)]
    if any(part.dtype == torch.bool for part in tensors):
        return "boolean indexing"
    if any(part.dim() == 0 for part in tensors):
        return "scalar index"
    slices = [part for part in index if isinstance(part, slice)]
    bounds = [bound for part in slices for bound in (part.start, part.stop, part.step)]
    return "item" if any(isinstance(bound, torch.Tensor) for bound in bounds) else None


def record(function: Callable, args: tuple, kwargs: dict) -> tuple[bool, list[Origin], Exception | None]:
    """Whether `function(*args, **kwargs)` makes a loss, the operations in it that read from data, and the
    exception that it raised itself, if any.

    Works on copies, and leaves the random state as it was.
    """
    function = copied(function) if isinstance(function, torch.nn.Module) else function
    args, kwargs = copied((args, kwargs))
    recorder = _Recorder(function)
    failure = None
    with random_state_kept():
        try:
            _run(recorder, function, args, kwargs)
        except Exception as error:
            failure = error
    return recorder.made_loss, recorder.origins, failure


def _run(recorder: _Recorder, function: Callable, args: tuple, kwargs: dict) -> Any:
    with torch.enable_grad(), printing_nothing(), warnings.catch_warnings(), recorder:
        warnings.simplefilter("ignore")
        return function(*args, **kwargs)
