"""The arguments of a model: their names, and which of them a device takes as they are.

`check` and the executor both ask `argument_findings`, so that they agree.
"""

from __future__ import annotations

import copy
import inspect
from typing import Any, Callable, Iterator, NamedTuple, Sequence

import torch

from .findings import Finding


class Leaf(NamedTuple):
    """A value in nested arguments: its `name` in Python, and the store of the data object it lies in."""

    name: str
    value: Any
    store: Any = None
    key: str = ""


def named_leaves(function: Callable, args: tuple, kwargs: dict) -> list[Leaf]:
    """All values in the arguments of a call, with names such as `data.x` or `x_dict['movie']`."""
    target = function.forward if isinstance(function, torch.nn.Module) else function
    try:
        arguments = inspect.signature(target).bind(*args, **kwargs).arguments
    except (TypeError, ValueError):
        arguments = {**{f"argument {number}": value for number, value in enumerate(args, 1)}, **kwargs}
    return [leaf for name, value in arguments.items() for leaf in _leaves(name, value)]


def _leaves(name: str, value: Any) -> Iterator[Leaf]:
    if hasattr(value, "stores"):  # PyG's Data, HeteroData and Batch
        for store in value.stores:
            inner = name if store._key is None else f"{name}[{_key(store._key)}]"
            for key, item in store.items():
                yield Leaf(f"{inner}.{key}", item, store, key)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _leaves(f"{name}[{_key(key)}]", item)
    elif isinstance(value, (list, tuple)):
        for number, item in enumerate(value):
            yield from _leaves(f"{name}[{number}]", item)
    else:
        yield Leaf(name, value)


def _key(key: Any) -> str:
    return ", ".join(map(repr, key)) if isinstance(key, tuple) else repr(key)


def argument_findings(names: Sequence[str], values: Sequence[Any]) -> tuple[list[Finding], list[Finding]]:
    """What of these arguments a device does not take, and what it takes otherwise than it is given.

    Args:
        names: What to call each value, `x` or `data.edge_attr`.
        values: The tensors, numbers and other objects in the arguments.

    Returns:
        Findings, which stop, and warnings, which do not.
    """
    findings, warnings = [], []
    for number, (name, value) in enumerate(zip(names, values)):
        problem = _problem(number, name, value)
        if problem is not None:
            findings.append(Finding(f"argument {name}", "", 0, "", *problem))
        elif isinstance(value, torch.Tensor) and value.dtype == torch.float64:
            reason = (
                f"{name} is float64, and the device has 32 bits: it is cast to float32, and so is the result"
            )
            remedy = f"cast it yourself, in the dataset: {name}.float()"
            warnings.append(Finding(f"float64 in {name}", "", 0, "", reason, remedy))
    return findings, warnings


def _problem(number: int, name: str, value: Any) -> tuple[str, str] | None:
    """Reason and remedy where the device takes no such value."""
    if type(value).__module__ == "numpy":
        kind = type(value).__name__
        return f"{name} is a numpy {kind}, and the device takes tensors", f"pass torch.as_tensor({name})"
    if type(value).__name__ == "SparseTensor":
        return f"{name} is a SparseTensor, which is no tensor", "pass edge_index and edge_weight"
    if not isinstance(value, torch.Tensor):
        return None
    if value.layout != torch.strided:
        reason = f"{name} is sparse ({value.layout}), and the number of its entries is not part of its shape"
        return reason, "pass edge_index and edge_weight"
    if value.device.type != "cpu":
        return f"{name} is on {value.device}; the device copies from the host", f"pass {name}.cpu()"
    if value.requires_grad and not isinstance(value, torch.nn.Parameter):
        reason = f"input {number}, {name}, has requires_grad=True, and no gradient leaves the device"
        return reason, f"pass {name}.detach(), or make it a torch.nn.Parameter of the model"
    return None


def cast_down(value: Any) -> Any:
    """`value`, nested as it may be, with every float64 tensor as float32, as the device holds it."""
    if isinstance(value, torch.Tensor):
        return value.float() if value.dtype == torch.float64 else value
    if hasattr(value, "stores"):
        return copy.copy(value).apply(cast_down)
    if isinstance(value, dict):
        return {key: cast_down(item) for key, item in value.items()}
    if isinstance(value, list):
        return [cast_down(item) for item in value]
    if isinstance(value, tuple):
        items = [cast_down(item) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
    return value
