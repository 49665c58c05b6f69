"""Running a model eagerly while noting every operation that a static graph cannot hold.

A trace ends at the first operation that it cannot take; this sees those behind it, too.
"""

from __future__ import annotations

import contextlib
import io
import traceback
import warnings
from typing import Any, Callable

import torch
from torch.overrides import TorchFunctionMode

from .copies import copied
from .inspection import Origin
from .losses import is_loss_function
from .places import from_summary

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
}


class _Recorder(TorchFunctionMode):
    def __init__(self) -> None:
        super().__init__()
        self.origins: list[Origin] = []
        self.made_loss = False

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        self.made_loss |= is_loss_function(function)
        operation = _operation(getattr(function, "__name__", ""), args, kwargs)
        if operation is not None:
            self.origins.append(Origin(operation, _stack(), []))
        return function(*args, **kwargs)


def _operation(name: str, args: tuple, kwargs: dict) -> str | None:
    """The kind of reading from data that a call of this name with these arguments does, or None."""
    if name == "__getitem__":
        return _indexing(args[1] if isinstance(args[1], tuple) else (args[1],))
    if name == "where":
        return "where" if len(args) + len(kwargs) == 1 else None
    if name == "one_hot":
        return "one_hot" if len(args) + len(kwargs) == 1 else None
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


def _stack() -> list:
    """The frames from the model's call on, outermost first."""
    frames = from_summary(traceback.extract_stack()[:-2])
    start = max((number for number, frame in enumerate(frames) if frame.function == _run.__name__), default=0)
    return frames[start + 1 :]


def record(function: Callable, args: tuple, kwargs: dict) -> tuple[bool, list[Origin]]:
    """Whether `function(*args, **kwargs)` makes a loss, and the operations in it that read from data.

    Works on a copy of a module, and leaves the random state as it was. An exception that the model itself
    raises comes through.
    """
    function = copied(function) if isinstance(function, torch.nn.Module) else function
    args, kwargs = copied((args, kwargs))
    recorder = _Recorder()
    random_state = torch.get_rng_state()
    try:
        _run(recorder, function, args, kwargs)
    finally:
        torch.set_rng_state(random_state)
    return recorder.made_loss, recorder.origins


def _run(recorder: _Recorder, function: Callable, args: tuple, kwargs: dict) -> Any:
    with torch.enable_grad(), contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings(), recorder:
        warnings.simplefilter("ignore")
        return function(*args, **kwargs)
