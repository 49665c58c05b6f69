"""What a model does with the data object it is given: `data.x = ...`, `data.num_nodes`.

To assign, PyG asks the class for a setter first, which the tracer cannot follow. The setters of PyG's own
attributes only put the value into the store, so that it can go there at once. Nor can the tracer follow a
property to that of a base class.
"""

from __future__ import annotations

from typing import Any

from torch_geometric.data import Data
from torch_geometric.data.storage import BaseStorage, EdgeStorage, NodeStorage

from .scope import replaces_method


def _setters(*classes: type) -> frozenset[str]:
    members = [item for owner in classes for item in vars(owner).items()]
    return frozenset(name for name, value in members if getattr(value, "fset", None) is not None)


_OF_DATA = _setters(Data)
_OF_STORES = _setters(NodeStorage, EdgeStorage)
_set_data = Data.__setattr__
_set_store = BaseStorage.__setattr__


def _overrides(kind: type, key: str) -> bool:
    """Whether a subclass of `Data` has a setter of its own for this attribute."""
    return getattr(kind, key) is not getattr(Data, key)


@replaces_method(Data, "__setattr__")
def data_set_attribute(self: Data, key: str, value: Any) -> None:
    if key in _OF_DATA and not _overrides(type(self), key):
        self._store[key] = value
    else:
        _set_data(self, key, value)


@replaces_method(Data, "num_nodes")
def data_num_nodes(self: Data) -> int | None:
    return self._store.num_nodes


@replaces_method(BaseStorage, "__setattr__")
def store_set_attribute(self: BaseStorage, key: str, value: Any) -> None:
    if key in _OF_STORES:
        self[key] = value
    else:
        _set_store(self, key, value)
