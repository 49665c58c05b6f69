"""What a model is called with: tensors, alone or in tuples, lists, dictionaries, PyG's data and the like."""

import abc
import copy

import torch
from torch_geometric.data.data import BaseData

from .poptorch_core import Error

_parsers = {}


class ICustomArgParser(abc.ABC):
    @abc.abstractmethod
    def yieldTensors(self, struct):
        """All tensors of an object, always in the same order."""

    @abc.abstractmethod
    def reconstruct(self, original_structure, tensor_iterator):
        """Such an object with other tensors."""


def registerCustomArgParser(arg_data_type, arg_parser):
    if arg_parser is None:
        _parsers.pop(arg_data_type, None)
    elif not isinstance(arg_parser, ICustomArgParser):
        raise Error("arg_parser must inherit from ICustomArgParser")
    else:
        _parsers[arg_data_type] = arg_parser


def registerGeometricCustomArgParsers():
    return None  # PyG's data is understood below


def map_tensors(function, value):
    """`value` with every tensor replaced by what `function` makes of it."""
    if isinstance(value, torch.Tensor):
        return function(value)
    if isinstance(value, (tuple, list)):
        items = [map_tensors(function, item) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    if isinstance(value, dict):
        return {key: map_tensors(function, item) for key, item in value.items()}
    if isinstance(value, BaseData):
        return copy.copy(value).apply(function)
    for kind, parser in _parsers.items():
        if isinstance(value, kind):
            return parser.reconstruct(
                value, iter([function(tensor) for tensor in parser.yieldTensors(value)])
            )
    return value


def tensors(value):
    """All tensors of `value`, in order."""
    found = []
    map_tensors(lambda tensor: found.append(tensor) or tensor, value)
    return found


def check_same(name, compiled, given):
    """Refuses inputs that differ in kind, type or shape from those that the model was compiled for."""
    if type(compiled) is not type(given):
        raise _mismatch("Type", name, type(compiled), type(given))
    if isinstance(compiled, torch.Tensor):
        if compiled.dtype != given.dtype:
            raise _mismatch("Data type", name, compiled.dtype, given.dtype)
        if compiled.shape != given.shape:
            raise _mismatch("Shape", name, compiled.shape, given.shape)
    elif isinstance(compiled, (tuple, list)):
        if len(compiled) != len(given):
            raise _mismatch("Length", name, len(compiled), len(given))
        for position, (one, other) in enumerate(zip(compiled, given)):
            check_same(f"{name}[{position}]", one, other)
    elif isinstance(compiled, dict):
        if compiled.keys() != given.keys():
            raise _mismatch("Keys", name, sorted(map(str, compiled)), sorted(map(str, given)))
        for key in compiled:
            check_same(f"{name}[{key}]", compiled[key], given[key])
    elif tensors(compiled) or tensors(given):
        check_same(name, tuple(tensors(compiled)), tuple(tensors(given)))
    elif not isinstance(compiled, BaseData) and compiled != given:
        raise _mismatch("Value", name, compiled, given)


def _mismatch(what, name, expected, got):
    return Error(
        f"{what} mismatch for {name}: expected {expected} but got {got}.\nThe inputs at run time must match "
        "those that the model was compiled for: wrap it again, or call destroy() first."
    )
