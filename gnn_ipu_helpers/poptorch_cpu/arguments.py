"""A model's arguments: taken apart into tensors, put together again, and compared with those compiled for.

Tuples, lists, dicts, PyG data objects and types with a parser of the user's own are taken apart; the tensors
in them are what a compiled graph takes, everything else is part of the graph.
"""

from __future__ import annotations

import copy
import inspect
import logging
from typing import Any, Iterator

import torch
from torch_geometric.data import HeteroData
from torch_geometric.data.data import BaseData

from ..porting.checking import argument_findings
from .errors import Error

_LOG = logging.getLogger("poptorch")


class ICustomArgParser:
    """How the tensors of an argument of some other type are taken out and put back."""

    def yieldTensors(self, struct: Any) -> Iterator[torch.Tensor]:
        """Yield the tensors of `struct`, always in the same order."""
        raise NotImplementedError

    def reconstruct(self, original_structure: Any, tensor_iterator: Iterator[torch.Tensor]) -> Any:
        """An object like `original_structure` that holds the next tensors of `tensor_iterator`."""
        raise NotImplementedError


_parsers: dict[type, ICustomArgParser] = {}


def registerCustomArgParser(arg_data_type: type, arg_parser: ICustomArgParser) -> None:
    """Let wrapped models take arguments of this type."""
    if not isinstance(arg_parser, ICustomArgParser):
        raise Error(f"The parser must be a poptorch.ICustomArgParser (got {type(arg_parser).__name__}).")
    _parsers[arg_data_type] = arg_parser


def registerGeometricCustomArgParsers() -> None:
    """Let wrapped models take PyG's data objects; here they always do."""


def _parser_of(value: Any) -> ICustomArgParser | None:
    exact = _parsers.get(type(value))
    return exact or next((p for kind, p in _parsers.items() if isinstance(value, kind)), None)


def _items(mapping: dict) -> list[tuple[Any, Any]]:
    """The items of a dict in an order of our own: two calls may fill the same keys in another order."""
    return sorted(mapping.items(), key=lambda item: str(item[0]))


def _stores(data: BaseData) -> Iterator[tuple[Any, Any]]:
    """The stores of a data object, each with its node or edge type (`None` for what belongs to none)."""
    types = [*data.node_types, *data.edge_types] if isinstance(data, HeteroData) else []
    return zip([None, *types], data.stores)


def _holds_tensors(value: Any) -> bool:
    if isinstance(value, dict):
        return any(_holds_tensors(item) for item in value.values())
    if isinstance(value, (tuple, list)):
        return any(_holds_tensors(item) for item in value)
    return isinstance(value, torch.Tensor)


class Flat:
    """Arguments taken apart.

    Attributes:
        tensors: The tensors, in order.
        structure: What has to be the same in every call. A list and a tuple are, as in PopTorch.
        asides: The values other than tensors that ride along in PyG data objects.
    """

    __slots__ = ("asides", "structure", "tensors")

    def __init__(self, value: Any) -> None:
        self.tensors: list[torch.Tensor] = []
        self.asides: list = []
        self.structure = self._take(value)

    def _take(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            self.tensors.append(value)
            return torch.Tensor
        if isinstance(value, dict):
            return (dict, tuple([(key, self._take(item)) for key, item in _items(value)]))
        if isinstance(value, (tuple, list)):
            return (tuple, tuple([self._take(item) for item in value]))
        if isinstance(value, BaseData):
            return (type(value), tuple([(key, self._take_store(store)) for key, store in _stores(value)]))
        parser = _parser_of(value) if _parsers else None
        if parser is not None:
            tensors = list(parser.yieldTensors(value))
            self.tensors.extend(tensors)
            return (type(value), len(tensors))
        return value

    def _take_store(self, store: Any) -> Any:
        keys = []
        for key in sorted(store.keys()):
            value = store[key]
            if _holds_tensors(value):
                keys.append((key, self._take(value)))
            else:
                self.asides.append((key, value))
        return tuple(keys)

    def has_same_asides(self, asides: list) -> bool:
        """Whether the values that ride along are these."""
        try:
            return bool(self.asides == asides)
        except (ValueError, RuntimeError):  # arrays do not compare to one truth value
            return False


def rebuild(value: Any, tensors: Iterator[torch.Tensor]) -> Any:
    """A value like `value` with the next tensors in place of its own, in the order of `Flat`."""
    if isinstance(value, torch.Tensor):
        return next(tensors)
    if isinstance(value, dict):
        new = {key: rebuild(item, tensors) for key, item in _items(value)}
        return type(value)({key: new[key] for key in value})
    if isinstance(value, (tuple, list)):
        items = [rebuild(item, tensors) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    if isinstance(value, BaseData):
        duplicate = copy.copy(value)
        for store in duplicate.stores:
            for key in sorted(store.keys()):
                if _holds_tensors(store[key]):
                    store[key] = rebuild(store[key], tensors)
        return duplicate
    parser = _parser_of(value)
    return value if parser is None else parser.reconstruct(value, tensors)


def _parts(structure: tuple, name: str) -> dict[Any, tuple[str, Any]]:
    """The parts of a structure, as in `Flat`, by key, position or attribute: each with its full name, such as
    `x_dict['movie']` or `data.edge_index`."""
    kind, parts = structure
    if kind is dict:
        return {key: (f"{name}[{key!r}]" if name else str(key), part) for key, part in parts}
    if kind is tuple:
        return {place: (f"{name}[{place}]", part) for place, part in enumerate(parts)}
    if isinstance(parts, int):  # tensors that a parser of the user's own takes out
        return {place: (f"{name}<{place}>", torch.Tensor) for place in range(parts)}
    owners = [(name if store is None else f"{name}[{store!r}]", items) for store, items in parts]
    named = [(f"{owner}.{key}", part) for owner, items in owners for key, part in items]
    return {full[len(name) :].lstrip("."): (full, part) for full, part in named}


def leaves_of(structure: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """What a structure ends in, by name: `torch.Tensor` for a tensor, and any other value itself."""
    if not isinstance(structure, tuple):
        yield name, structure
        return
    for label, part in _parts(structure, name).values():
        yield from leaves_of(part, label)


class Call:
    """One call of a wrapped model: its arguments, bound to `forward`'s parameters and taken apart."""

    def __init__(self, forward: inspect.Signature, owner: str, args: tuple, kwargs: dict) -> None:
        try:
            self._bound = forward.bind(*args, **kwargs)
        except TypeError as error:
            problem = str(error)
            if problem.startswith("missing a required argument: "):
                problem = f"Mandatory parameter {problem.split()[-1][1:-1]} missing"
            raise Error(f"{owner}.forward{forward} was called with other arguments: {problem}.") from None
        self._bound.apply_defaults()
        self.args, self.kwargs = self._bound.args, self._bound.kwargs
        self.flat = Flat((self.args, self.kwargs))

    @property
    def tensors(self) -> list[torch.Tensor]:
        """The tensors of the arguments, in order."""
        return self.flat.tensors

    def arguments(self) -> dict[str, Any]:
        """The arguments by name, in the order in which `flat` takes them apart."""
        by_name = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.VAR_KEYWORD)
        kinds = {name: parameter.kind for name, parameter in self._bound.signature.parameters.items()}
        given = self._bound.arguments.items()
        positional = {name: value for name, value in given if kinds[name] not in by_name}
        return {**positional, **dict(_items(self.kwargs))}

    def structures(self) -> dict[str, Any]:
        """The structure of each argument, by name."""
        return {name: Flat(value).structure for name, value in self.arguments().items()}


_COMPILED_FOR_OTHERS = (
    "The graph was compiled for other arguments: pass the same in every call, or call destroy() first."
)


class Signature:
    """Shapes, types and structure of the call that a graph was compiled for, of `parts` mini-batches."""

    def __init__(self, call: Call, parts: int) -> None:
        self._structure = call.flat.structure
        self._num_args = len(call.args)
        self._tensors = [_describe(tensor) for tensor in call.tensors]
        self._structures = call.structures()
        self._parts = parts
        named = [leaf for name, part in self._structures.items() for leaf in leaves_of(part, name)]
        self.names = [name for name, leaf in named if leaf is torch.Tensor]
        leaves = [(self.names[n], tensor) for n, tensor in enumerate(call.tensors)]
        leaves += [(name, value) for name, value in call.arguments().items() if hasattr(value, "__array__")]
        findings, warnings = argument_findings(*zip(*leaves)) if leaves else ([], [])
        if findings:
            raise Error(" ".join(f"{finding.reason}: {finding.remedy}." for finding in findings), findings)
        for warning in warnings:
            _LOG.warning("%s: %s.", warning.reason, warning.remedy)
        for name, tensor in zip(self.names, call.tensors):
            _require_mini_batches(name, tensor, parts)

    def key(self) -> str:
        """A text that is the same for the same shapes, types and structure."""
        return repr((self._tensors, self.names, self._parts))

    def check(self, call: Call) -> None:
        """Raise unless `call` fits the compiled graph."""
        if call.flat.structure != self._structure:
            if len(call.args) != self._num_args:
                raise Error(
                    f"Number of positional arguments mismatch: expected {self._num_args} arguments but got "
                    f"{len(call.args)}. {_COMPILED_FOR_OTHERS}"
                )
            arguments = [(dict, tuple(of.items())) for of in (self._structures, call.structures())]
            raise Error(_difference("", *arguments))
        for place, tensor in enumerate(call.tensors):
            if _describe(tensor) != self._tensors[place]:
                raise Error(self._other_tensor(place, tensor))

    def _other_tensor(self, place: int, tensor: torch.Tensor) -> str:
        shape, dtype, device, _ = self._tensors[place]
        name = self.names[place]
        if tensor.device.type != device:
            values = " with real values" if tensor.device.type == "meta" else ""
            return (
                f"{name} is on the device {tensor.device.type!r}: PopTorch takes tensors on the CPU and "
                f"moves them itself. Pass {name}.cpu(){values}."
            )
        if tensor.dtype != dtype:
            return (
                f"Data type mismatch for {name}: expected {dtype} but got {tensor.dtype}. Pass "
                f"{name}.to({dtype})."
            )
        if tensor.shape == shape:
            return f"{name} has the layout {tensor.layout}; pass a dense tensor."
        if any("edge_index" in known or "adj" in known for known in self.names):
            hint = (
                "Load batches of one size with gnn_ipu_helpers.FixedSizeDataLoader (many small graphs), "
                "FixedSizeNeighborLoader or FixedSizeClusterLoader (parts of a large graph)."
            )
        else:
            hint = (
                "poptorch.DataLoader(options, dataset, batch_size=..., drop_last=True) gives batches of one "
                f"size, {self._parts} mini-batch{'es' if self._parts > 1 else ''} in each."
            )
        return (
            f"Shape mismatch for {name}: expected {shape} but got {tensor.shape}. A compiled graph serves "
            f"one shape only. {hint}"
        )

    def out_of_range(self, tensors: list[torch.Tensor], error: str) -> str:
        """What to say about an index that lies outside of what it indexes."""
        integers = [
            f"{name} holds {int(tensor.min())} to {int(tensor.max())}"
            for name, tensor in zip(self.names, tensors)
            if not tensor.is_floating_point() and tensor.dtype != torch.bool and tensor.numel()
        ]
        detail = error.strip().splitlines()[-1] if error.strip() else "index out of range"
        return (
            f"An index lies outside of what it indexes ({detail}). Of the arguments that can be indices, "
            f"{'; '.join(integers) or 'there is none: it is computed in forward'}. Compare them with the "
            "number of rows they choose from, such as `size=` of a pooling layer."
        )


def _difference(name: str, was: Any, now: Any) -> str:
    """Where two structures, as in `Flat`, differ first, and what to do about it; the call itself is ""."""
    kinds = [value[0] if isinstance(value, tuple) else value for value in (was, now)]
    if not isinstance(was, tuple) and not isinstance(now, tuple) and torch.Tensor not in kinds:
        return (
            f"Value mismatch for {name}: expected {was!r} but got {now!r}. It is not a tensor, so its value "
            "is part of the compiled graph: pass a tensor for what changes from call to call, or wrap the "
            "model once for each value."
        )
    if kinds[0] is not kinds[1] or not isinstance(was, tuple):
        expected, got = (kind.__name__ if isinstance(kind, type) else repr(kind) for kind in kinds)
        return f"Type mismatch for {name}: expected {expected} but got {got}. {_COMPILED_FOR_OTHERS}"
    before, after = _parts(was, name), _parts(now, name)
    if kinds[0] is tuple and len(before) != len(after):
        sizes = f"expected {len(before)} elements but got {len(after)}"
        return f"Length mismatch for {name}: {sizes}. {_COMPILED_FOR_OTHERS}"
    missing, unexpected = before.keys() - after.keys(), after.keys() - before.keys()
    if missing or unexpected:
        listed = ", ".join(sorted(map(str, missing or unexpected)))
        what = "Missing" if missing else "Unexpected"
        return f"{what} arguments: {listed}. In {name or 'the call'}: {_COMPILED_FOR_OTHERS}"
    key = next(key for key in before if before[key] != after[key])
    return _difference(before[key][0], before[key][1], after[key][1])


def plain(tensor: torch.Tensor, keep_double: bool) -> torch.Tensor:
    """`tensor` as the device takes it: without a gradient, contiguous, and a double as a float."""
    if tensor.requires_grad:
        tensor = tensor.detach()
    if tensor.dtype == torch.float64 and not keep_double:
        tensor = tensor.float()
    return tensor if tensor.is_contiguous() else tensor.contiguous()


def as_returned(tensor: torch.Tensor) -> torch.Tensor:
    """`tensor` as the device returns it: 32 bits at the most, and nothing to call backward on."""
    if tensor.dtype == torch.int64:
        tensor = tensor.int()
    elif tensor.dtype == torch.float64:
        tensor = tensor.float()
    tensor.backward = _refuse_backward  # type: ignore[method-assign]
    return tensor


def _refuse_backward(*args: Any, **kwargs: Any) -> None:
    raise Error(
        "backward() cannot be called explicitly on outputs of a PopTorch model. If you're using a "
        "trainingModel, the backwards pass is performed automatically when invoking the model. If you're "
        "using an inferenceModel, you should use a trainingModel instead. Leave out loss.backward(), "
        "optimizer.step() and zero_grad()."
    )


def _describe(tensor: torch.Tensor) -> tuple:
    return (tensor.shape, tensor.dtype, tensor.device.type, tensor.layout)


def _require_mini_batches(name: str, tensor: torch.Tensor, parts: int) -> None:
    """Raise unless a tensor of the first call can be cut into `parts` mini-batches."""
    if parts > 1 and (tensor.dim() == 0 or tensor.shape[0] % parts):
        raise Error(
            f"{name} of shape {list(tensor.shape)} cannot be cut on dimension 0 into {parts} mini-batches "
            "(device iterations × gradient accumulation × replicas). Load combined batches with "
            "poptorch.DataLoader or gnn_ipu_helpers.FixedSizeDataLoader, giving them the same options as "
            "the model."
        )
    if name.endswith("edge_index") and tensor.dim() == 2 and tensor.shape[0] // parts != 2:
        held, odd = divmod(tensor.shape[0], 2)
        if held > 1 and not odd:
            raise Error(
                f"{name} of shape {list(tensor.shape)} holds {held} mini-batches, and the model's options "
                f"ask for {parts} (device iterations × gradient accumulation × replicas). Give the model the "
                "options that the loader was made with."
            )
