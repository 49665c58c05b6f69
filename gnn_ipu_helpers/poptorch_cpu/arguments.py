"""A model's arguments as a flat list of tensors, and back: tuples, lists, dicts, PyG data, other types."""

from __future__ import annotations

import copy
from typing import Any, Iterator

import torch
from torch_geometric.data import HeteroData
from torch_geometric.data.data import BaseData

from .errors import Error


class ICustomArgParser:
    """How the tensors of an argument of some other type are taken out and put back."""

    def yieldTensors(self, struct: Any) -> Iterator[torch.Tensor]:
        """Yield the tensors of ``struct``, always in the same order."""
        raise NotImplementedError

    def reconstruct(self, original_structure: Any, tensor_iterator: Iterator[torch.Tensor]) -> Any:
        """An object like ``original_structure`` that holds the next tensors of ``tensor_iterator``."""
        raise NotImplementedError


_parsers: dict[type, ICustomArgParser] = {}


def registerCustomArgParser(arg_data_type: type, arg_parser: ICustomArgParser) -> None:
    """Let wrapped models take arguments of this type."""
    if not isinstance(arg_parser, ICustomArgParser):
        raise Error(f"The parser must be a poptorch.ICustomArgParser (got {type(arg_parser).__name__}).")
    _parsers[arg_data_type] = arg_parser


def registerGeometricCustomArgParsers() -> None:
    """Let wrapped models take PyG's data objects; here they always do."""


class Flat:
    """Arguments taken apart.

    ``tensors`` are the tensors in order, ``structure`` what has to be the same in every call, and ``asides``
    the values other than tensors that ride along in PyG data objects.
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
            return (type(value), tuple([(key, self._take(item)) for key, item in value.items()]))
        if isinstance(value, (tuple, list)):
            return (type(value), tuple([self._take(item) for item in value]))
        if isinstance(value, BaseData):
            return (type(value), tuple([(key, self._take_store(store)) for key, store in _stores(value)]))
        if type(value) in _parsers:
            tensors = list(_parsers[type(value)].yieldTensors(value))
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


def _stores(data: BaseData) -> Iterator[tuple[Any, Any]]:
    """The stores of a data object, each with its node or edge type (``None`` for what belongs to none)."""
    types = [*data.node_types, *data.edge_types] if isinstance(data, HeteroData) else []
    return zip([None, *types], data.stores)


def _holds_tensors(value: Any) -> bool:
    if isinstance(value, dict):
        return any(_holds_tensors(item) for item in value.values())
    if isinstance(value, (tuple, list)):
        return any(_holds_tensors(item) for item in value)
    return isinstance(value, torch.Tensor)


def rebuild(value: Any, tensors: Iterator[torch.Tensor]) -> Any:
    """A value like ``value`` with the next tensors in place of its own, in the order of :class:`Flat`."""
    if isinstance(value, torch.Tensor):
        return next(tensors)
    if isinstance(value, dict):
        items = [(key, rebuild(item, tensors)) for key, item in value.items()]
        return type(value)(items)
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
    if type(value) in _parsers:
        return _parsers[type(value)].reconstruct(value, tensors)
    return value


def names(value: Any, name: str) -> Iterator[str]:
    """A name for each tensor of ``value``, in order: ``x_dict['movie']``, ``data.edge_index``."""
    if isinstance(value, torch.Tensor):
        yield name
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from names(item, f"{name}[{key!r}]")
    elif isinstance(value, (tuple, list)):
        for position, item in enumerate(value):
            yield from names(item, f"{name}[{position}]")
    elif isinstance(value, BaseData):
        for store_key, store in _stores(value):
            owner = name if store_key is None else f"{name}[{store_key!r}]"
            for key in sorted(store.keys()):
                if _holds_tensors(store[key]):
                    yield from names(store[key], f"{owner}.{key}")
    elif type(value) in _parsers:
        count = len(list(_parsers[type(value)].yieldTensors(value)))
        yield from (f"{name}<{position}>" for position in range(count))
