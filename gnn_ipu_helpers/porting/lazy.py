"""Parameters whose shapes a first eager call decides."""

from __future__ import annotations

from typing import Any, Callable

import torch

from .findings import Finding
from .places import forward_place, shown

_REASON = "layers made with in_channels=-1 have no weights yet, and the graph needs their shapes"
_REMEDY = (
    "run the model once before wrapping it, on the same inputs: `with torch.no_grad(): model(...)`, or give "
    "the number of input channels"
)


def has_uninitialised_parameters(function: Callable) -> bool:
    """Whether `function` is a module with parameters that wait for a first call."""
    if not isinstance(function, torch.nn.Module):
        return False
    return any(isinstance(p, torch.nn.parameter.UninitializedParameter) for p in function.parameters())


def uninitialised(model: torch.nn.Module) -> Finding:
    """The finding for a model with uninitialised parameters, at its `forward`."""
    place = forward_place(model)
    return Finding("uninitialised parameters", shown(place.file), place.line, place.source, _REASON, _REMEDY)


def initialise(model: torch.nn.Module, args: tuple, kwargs: dict[str, Any]) -> None:
    """Give a model its parameters by one eager call."""
    with torch.no_grad():
        model(*args, **kwargs)
