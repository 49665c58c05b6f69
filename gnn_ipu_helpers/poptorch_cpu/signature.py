"""The call a graph was compiled for, and what to say about a call that differs."""

from __future__ import annotations

import inspect
from typing import Any

import torch

from .arguments import Flat, names
from .errors import Error


class Call:
    """One call of a wrapped model: its arguments, bound to ``forward``'s parameters and taken apart."""

    def __init__(self, forward: inspect.Signature, owner: str, args: tuple, kwargs: dict) -> None:
        try:
            self._bound = forward.bind(*args, **kwargs)
        except TypeError as error:
            raise Error(f"{owner}.forward{forward} was called with other arguments: {error}.") from None
        self.args, self.kwargs = self._bound.args, self._bound.kwargs
        self.flat = Flat((self.args, self.kwargs))

    @property
    def tensors(self) -> list[torch.Tensor]:
        """The tensors of the arguments, in order."""
        return self.flat.tensors

    def names(self) -> list[str]:
        """The name of each tensor, after the parameters of ``forward``."""
        parameters = self._bound.arguments
        return [name for argument, value in parameters.items() for name in names(value, argument)]

    def constants(self) -> dict[str, Any]:
        """The arguments without tensors, by parameter."""
        return {name: value for name, value in self._bound.arguments.items() if not Flat(value).tensors}


class Signature:
    """Shapes, types and structure of the call that a graph was compiled for, of ``parts`` mini-batches."""

    def __init__(self, call: Call, parts: int) -> None:
        self._structure = call.flat.structure
        self._tensors = [_describe(tensor) for tensor in call.tensors]
        self._names = call.names()
        self._constants = call.constants()
        self._parts = parts
        for name, value in self._constants.items():
            if hasattr(value, "__array__"):
                raise Error(f"{name} is a {type(value).__name__}: pass a tensor, torch.as_tensor({name}).")
        for name, tensor in zip(self._names, call.tensors):
            _require_splittable(name, tensor, parts)

    def key(self) -> str:
        """A text that is the same for the same shapes, types and structure."""
        return repr((self._tensors, self._names, self._parts))

    def check(self, call: Call) -> None:
        """Raise unless ``call`` fits the compiled graph."""
        if call.flat.structure != self._structure:
            raise Error(self._other_structure(call))
        for place, tensor in enumerate(call.tensors):
            if _describe(tensor) != self._tensors[place]:
                raise Error(self._other_tensor(place, tensor))

    def _other_tensor(self, place: int, tensor: torch.Tensor) -> str:
        shape, dtype, device, _ = self._tensors[place]
        name = self._names[place]
        if tensor.device.type != device:
            return _wrong_device(name, tensor)
        if tensor.dtype != dtype:
            return (
                f"{name} is {tensor.dtype}, and the graph was compiled for {dtype}: pass {name}.to({dtype})."
            )
        if tensor.shape == shape:
            return f"{name} has the layout {tensor.layout}; pass a dense tensor."
        return (
            f"{name} has the shape {list(tensor.shape)}, and the graph was compiled for {list(shape)}. A "
            f"compiled graph serves one shape only. {self._loader_hint()}"
        )

    def _loader_hint(self) -> str:
        is_graph = any("edge_index" in name or "adj" in name for name in self._names)
        if is_graph:
            return (
                "Load batches of one size with gnn_ipu_helpers.FixedSizeDataLoader (many small graphs), "
                "FixedSizeNeighborLoader or FixedSizeClusterLoader (parts of a large graph)."
            )
        return (
            "poptorch.DataLoader(options, dataset, batch_size=..., drop_last=True) gives batches of one "
            f"size, {self._parts} mini-batch{'es' if self._parts > 1 else ''} in each."
        )

    def _other_structure(self, call: Call) -> str:
        got = call.names()
        extra = [name for name in got if name not in self._names]
        missing = [name for name in self._names if name not in got]
        constants = call.constants()
        for name in sorted(set(constants) | set(self._constants)):
            before, now = self._constants.get(name, "nothing"), constants.get(name, "nothing")
            if name not in [*extra, *missing] and before is not now and before != now:
                return (
                    f"{name} is not a tensor, so its value {before!r} is part of the compiled graph (got "
                    f"{now!r}). Pass a tensor for what changes from call to call, or wrap the model once "
                    "for each value."
                )
        detail = [f"without {', '.join(missing)}"] if missing else []
        detail += [f"with {', '.join(extra)}"] if extra else []
        return (
            "The arguments are built differently from those the graph was compiled for: called "
            f"{' and '.join(detail) or 'with other types or in another order'}. Pass the same ones in every "
            "call."
        )


def _describe(tensor: torch.Tensor) -> tuple:
    return (tensor.shape, tensor.dtype, tensor.device.type, tensor.layout)


def _wrong_device(name: str, tensor: torch.Tensor) -> str:
    return (
        f"{name} is on the device {tensor.device.type!r}: PopTorch takes tensors on the CPU and moves them "
        f"itself. Pass {name}.cpu(){' with real values' if tensor.device.type == 'meta' else ''}."
    )


def _require_splittable(name: str, tensor: torch.Tensor, parts: int) -> None:
    """Raise unless a tensor of the first call can be used, and cut into ``parts`` mini-batches."""
    if tensor.device.type != "cpu":
        raise Error(_wrong_device(name, tensor))
    if tensor.layout != torch.strided:
        raise Error(
            f"{name} has the layout {tensor.layout}: pass a dense tensor (of a graph, its edge_index)."
        )
    if parts > 1 and (tensor.dim() == 0 or tensor.shape[0] % parts):
        raise Error(
            f"{name} of shape {list(tensor.shape)} cannot be cut on dimension 0 into {parts} mini-batches "
            "(device iterations × gradient accumulation × replicas). Load combined batches with "
            "poptorch.DataLoader or gnn_ipu_helpers.FixedSizeDataLoader, giving them the same options as "
            "the model."
        )
