"""Running a copy of a model eagerly while noting every operation that a static graph cannot hold.

A trace ends at the first operation that it cannot take; this sees those behind it, too.
"""

from __future__ import annotations

import contextlib
import copy
import random
import sys
import traceback
import warnings
from typing import Any, Callable, Iterator

import torch
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

from .graphs import Origin, layers_of
from .losses import is_loss_function
from .places import from_summary
from .replacing import printing_nothing

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


def copied(value: Any) -> Any:
    """A copy of `value` to experiment on, with tensors of its own whatever else cannot be copied."""
    try:
        return copy.deepcopy(value)
    except Exception:  # a tensor in the middle of a graph of gradients, an open file, a lock …
        if isinstance(value, torch.nn.Module):
            return _copied_module(value, {})
        return pytree.tree_map_only(torch.Tensor, _copied_tensor, value)


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


class _Recorder(TorchFunctionMode):
    def __init__(self, function: Callable) -> None:
        super().__init__()
        self.origins: list[Origin] = []
        self.made_loss = False
        self._layers = layers_of(function)

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        self.made_loss = self.made_loss or is_loss_function(function)
        operation = _operation(getattr(function, "__name__", ""), args, kwargs)
        if operation is not None:
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


def _operation(name: str, args: tuple, kwargs: dict) -> str | None:
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
