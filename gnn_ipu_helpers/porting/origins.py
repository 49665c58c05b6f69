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
from typing import Any, Callable, Iterator, Sequence

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
    return {
        id(module): Layer(type(module), _path(name), module)
        for name, module in function.named_modules(remove_duplicate=True)
    }


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
    if node.op == "call_method":
        return _ALIASES.get(str(node.target), str(node.target))
    name = getattr(node.target, "__name__", str(node.target))
    if name == "getitem":
        return "boolean indexing" if _has_boolean_index(node) else "size"
    return _ALIASES.get(name, name)


def _has_boolean_index(node: torch.fx.Node) -> bool:
    found = []

    def look(argument: torch.fx.Node) -> torch.fx.Node:
        value = example_value(argument)
        found.append(isinstance(value, torch.Tensor) and value.dtype in (torch.bool, torch.uint8))
        return argument

    torch.fx.map_arg(node.args[1:], look)
    return any(found)


def changed_attributes(function: Callable) -> Iterator[Origin]:
    """What `forward` changes and the device would not: attributes, lists and dicts of the model, global
    variables, and buffers that are assigned anew. To be asked while the trace is being compiled."""
    buffers = {name.split(".")[-1] for name, _ in function.named_buffers()} if _is_module(function) else set()
    for path, kind, attribute, stack in mutations():
        frames = [frame for frame in from_summary(stack) if not _sets_attribute(frame)]
        if issubclass(kind, (torch.Tensor, BaseData, BaseStorage)) or not frames or "._mapping" in path:
            continue  # in-place changes of tensors are part of the graph, data objects belong to the caller
        if path.startswith(("L['args']", "L['kwargs']")):
            continue  # so do lists and dicts that are passed in, such as x_dict["movie"] = ...
        is_buffer = re.search(r"_buffers('\])?$", path)
        if is_library(frames[-1].file) and not is_buffer:
            continue  # what a library's layer keeps for itself, such as a cache
        if is_buffer:
            source = frames[-1].source
            name = next((name for name in buffers if re.search(rf"\b{re.escape(name)}\b", source)), "buffer")
            if not re.search(rf"{re.escape(name)}\s*[-+*/@%&|^]=", source):  # which works in place
                yield Origin("assigned buffer", frames, detail=name)
        elif not re.search(r"(_parameters|_modules|__dict__)('\])?$", path):
            name = attribute or path.rsplit(".", 1)[-1].strip("[]'\"")
            yield Origin("changed attribute", frames, detail=name)


def _is_module(function: Callable) -> bool:
    return isinstance(function, torch.nn.Module)


def _sets_attribute(frame: Place) -> bool:
    return frame.function in ("__setattr__", "register_buffer") and is_library(frame.file)


def replaced_layers(graph: torch.fx.Graph) -> tuple[str, ...]:
    """Names of the PyG layers and functions in the graph that run in this package's static version, in
    order."""
    names: dict[str, None] = {}
    for node in all_nodes(graph):
        found = origin(node)
        for frame, inner in zip(found.frames, [*found.frames[1:], None]):
            entry = static_versions().get((frame.file, frame.function)) if is_own(frame.file) else None
            if entry is not None:
                if not _hands_on(entry, inner):
                    names.setdefault(_label(entry, found.layers))
                break
    return tuple(names)


def _hands_on(entry: Any, inner: Place | None) -> bool:
    """Whether a static version calls the original after all, for a case that is static as it is."""
    original = getattr(entry.owner, entry.name) if entry.name else entry.owner
    code = getattr(original, "__code__", None)
    if inner is None or code is None:
        return False
    return inner.function in (entry.name, entry.label) and not is_own(inner.file)


def _label(entry: Any, layers: Sequence[Layer]) -> str:
    if not isinstance(entry.owner, type):
        return entry.label
    return next(
        (layer.kind.__name__ for layer in reversed(layers) if issubclass(layer.kind, entry.owner)),
        entry.label,
    )


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


_READS = {
    "__bool__": "branch",
    "__int__": "item",
    "__float__": "item",
    "__index__": "item",
    "item": "item",
    "tolist": "tolist",
    "numpy": "numpy",
    "__array__": "numpy",
    "__repr__": "print",
    "__format__": "print",
    "nonzero": "nonzero",
    "argwhere": "nonzero",
    "unique": "unique",
    "unique_consecutive": "unique",
    "masked_select": "masked_select",
    "bincount": "bincount",
    "grad": "gradient",
    "backward": "gradient",
    "cuda": "device",
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
    return _READS.get(name)


def _indexing(index: tuple) -> str | None:
    tensors = [part for part in index if isinstance(part, torch.Tensor)]
    if any(part.dtype == torch.bool for part in tensors):
        return "boolean indexing"
    if any(part.dim() == 0 for part in tensors):
        return "scalar index"
    bounds = [
        bound for part in index if isinstance(part, slice) for bound in (part.start, part.stop, part.step)
    ]
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
