"""Which attributes the graphs of a dataset carry, and whether each belongs to nodes, edges or the graph."""

from __future__ import annotations

from typing import Any, Iterable, NamedTuple, Tuple, Union

import torch
from torch import Tensor
from torch_geometric.data import Data, HeteroData
from torch_geometric.data.storage import BaseStorage

# The key of a store: None for a homogeneous graph (or for the graph-level store of a heterogeneous one),
# a node type, or an edge type.
StoreKey = Union[None, str, Tuple[str, str, str]]

NODE, EDGE, GRAPH = "node", "edge", "graph"

# Something that is counted per graph and has a budget: (NODE, node type), (EDGE, edge type).
Group = Tuple[str, StoreKey]

_NODE_NAMES = {"x", "feat", "pos", "crd", "batch", "node_type", "n_id", "z"}
_EDGE_NAMES = {"edge_index", "edge_weight", "edge_attr", "edge_type", "e_id"}


class Field(NamedTuple):
    """One attribute of the graphs.

    Args:
        store: The store that holds it.
        name: The attribute's name.
        level: ``"node"``, ``"edge"`` or ``"graph"``.
        dim: The dimension along which the graphs are put one after another.
        shape: Its shape in a graph, with 0 at ``dim``.
        dtype: Its dtype; None for an attribute that is not a tensor.
        rows: How many entries along ``dim`` every graph has (graph level only).
    """

    store: StoreKey
    name: str
    level: str
    dim: int = 0
    shape: tuple[int, ...] = (0,)
    dtype: torch.dtype | None = None
    rows: int = 1

    @property
    def group(self) -> Group:
        """What the attribute is counted with; only for node and edge level."""
        return (self.level, self.store)

    def padded_shape(self, length: int) -> tuple[int, ...]:
        """The shape with ``length`` entries along ``dim``."""
        return self.shape[: self.dim] + (length,) + self.shape[self.dim + 1 :]


class Schema(NamedTuple):
    """The attributes of a dataset's graphs, in the order in which the graphs hold them.

    Args:
        data_class: The class of the graphs.
        node_types: Keys of the stores that hold nodes.
        edge_types: Keys of the stores that hold edges.
        fields: The attributes.
        stating_num_nodes: Keys of the stores that state their number of nodes as an attribute.
    """

    data_class: type
    node_types: tuple[StoreKey, ...]
    edge_types: tuple[StoreKey, ...]
    fields: tuple[Field, ...]
    stating_num_nodes: tuple[StoreKey, ...] = ()

    @property
    def is_hetero(self) -> bool:
        """Whether the graphs are heterogeneous."""
        return issubclass(self.data_class, HeteroData)

    @property
    def groups(self) -> list[Group]:
        """All node types, then all edge types."""
        return [(NODE, key) for key in self.node_types] + [(EDGE, key) for key in self.edge_types]

    def without(self, names: Iterable[str]) -> Schema:
        """The schema without the attributes of these names."""
        names = set(names)
        return self._replace(fields=tuple(field for field in self.fields if field.name not in names))

    def with_objects(self, names: Iterable[str]) -> Schema:
        """The schema with only these of its non-tensor attributes."""
        names = set(names)
        return self._replace(fields=tuple(f for f in self.fields if f.dtype is not None or f.name in names))


def end_points(edge_type: StoreKey) -> tuple[Group, Group]:
    """The groups of nodes that the edges of a type start from and lead to."""
    if edge_type is None:
        return (NODE, None), (NODE, None)
    return (NODE, edge_type[0]), (NODE, edge_type[2])


def as_tensor(value: Any) -> Any:
    """Numbers become 0-d tensors and tensor subclasses plain tensors; anything else stays as it is."""
    if isinstance(value, (bool, int, float)):
        return torch.tensor(value)
    if isinstance(value, Tensor) and hasattr(value, "as_tensor"):
        return value.as_tensor()
    return value


def cat_dim(sample: Data, name: str, value: Tensor, store: BaseStorage) -> int | None:
    """The dimension to concatenate along, counted from the front; None if the value gets a new one."""
    if value.layout != torch.strided:
        raise ValueError(
            f"The attribute '{name}' is a sparse tensor (got layout {value.layout}), of no fixed size. "
            f"Store the edges as 'edge_index', or leave it out with exclude_keys=['{name}']."
        )
    dim = sample.__cat_dim__(name, value, store)
    if dim is None or value.dim() == 0:
        return None
    return dim % value.dim()


def count_of(store: BaseStorage, level: str) -> int:
    """The number of nodes or edges in a store."""
    count = store.num_nodes if level == NODE else store.num_edges
    if count is None:
        raise ValueError(
            f"The number of nodes of {store._key!r} is unknown: none of its attributes {list(store.keys())} "
            "tells it. Set 'num_nodes' on the graph."
        )
    return int(count)


def stores_of(sample: Data, level: str) -> dict[StoreKey, BaseStorage]:
    """The stores that hold nodes or edges, by their key."""
    stores = sample.node_stores if level == NODE else sample.edge_stores
    if isinstance(sample, HeteroData):
        return {store._key: store for store in stores}
    return {None: stores[0]}


class SchemaBuilder:
    """Finds out which attributes graphs have and at which level, from graphs shown to it one by one.

    An attribute with as many entries as the graph has nodes (or edges), in every graph, belongs to the nodes
    (or edges). Otherwise it must have the same number of entries in every graph, and belongs to the graph.
    """

    def __init__(self, exclude_keys: Iterable[str] = ()) -> None:
        self._excluded = {"num_nodes", "ptr", *exclude_keys}
        self._data_class: type | None = None
        self._num_seen = 0
        self._types: dict[str, dict[StoreKey, None]] = {NODE: {}, EDGE: {}}
        self._seen: dict[tuple[StoreKey, str], _Seen] = {}
        self._stating: dict[StoreKey, None] = {}

    def add(self, sample: Data) -> dict[Group, int]:
        """Looks at one graph; returns its number of nodes and edges of each type."""
        self._check_kind(sample)
        self._num_seen += 1
        counts = {}
        for level in (NODE, EDGE):
            for key, store in stores_of(sample, level).items():
                counts[level, key] = count_of(store, level)
                self._types[level].setdefault(key)
                if "num_nodes" in store:
                    self._stating.setdefault(key)
        for store in sample.stores:
            for name, value in store.items():
                if name not in self._excluded:
                    self._add_attribute(sample, store, name, as_tensor(value), counts)
        return counts

    def _check_kind(self, sample: Any) -> None:
        if not isinstance(sample, (Data, HeteroData)):
            raise TypeError(
                f"A dataset of graphs should hold Data or HeteroData objects (got {type(sample).__name__} at "
                f"position {self._num_seen})."
            )
        self._data_class = self._data_class or type(sample)
        if isinstance(sample, HeteroData) != issubclass(self._data_class, HeteroData):
            raise TypeError(
                "Homogeneous and heterogeneous graphs cannot share a batch (got "
                f"{self._data_class.__name__} first and {type(sample).__name__} at position "
                f"{self._num_seen}). Make one dataset of each."
            )

    def _add_attribute(
        self, sample: Data, store: BaseStorage, name: str, value: Any, counts: dict[Group, int]
    ) -> None:
        key = store._key
        dim = cat_dim(sample, name, value, store) if isinstance(value, Tensor) else None
        seen = self._seen.setdefault((key, name), _Seen(key, name, value, dim))
        length = 1 if dim is None else value.size(dim)
        fits = {level for level in (NODE, EDGE) if dim is not None and counts.get((level, key)) == length}
        seen.note(length, length, fits)

    def add_all(
        self, data: Data, lengths: dict[tuple[StoreKey, str], Tensor], counts: dict[Group, Tensor]
    ) -> None:
        """Looks at many graphs that lie one after another.

        Args:
            data: All graphs, concatenated.
            lengths: By store and name, how many entries each graph has of an attribute, ``[G]``.
            counts: How many nodes and edges of each type each graph has, ``[G]``.
        """
        self._data_class = type(data)
        for level, key in counts:
            self._types[level].setdefault(key)
        stores = {store._key: store for store in data.stores}
        for key, name in lengths:
            self._add_column(data, stores[key], name, lengths[key, name], counts)
        self._stating.update({key: None for key, store in stores.items() if "num_nodes" in store})

    def _add_column(
        self, data: Data, store: BaseStorage, name: str, lengths: Tensor, counts: dict[Group, Tensor]
    ) -> None:
        if name in self._excluded:
            return
        key, value = store._key, as_tensor(store[name])
        dim = cat_dim(data, name, value, store) if isinstance(value, Tensor) else None
        own = {level: counts.get((level, key)) for level in (NODE, EDGE)}
        fits = {level for level, count in own.items() if dim is not None and _equal(lengths, count)}
        seen = self._seen.setdefault((key, name), _Seen(key, name, value, dim))
        seen.note(int(lengths.min()), int(lengths.max()), fits)

    def build(self) -> Schema:
        """The schema of all graphs seen so far."""
        if self._data_class is None:
            raise ValueError("The dataset is empty (got 0 graphs): at least one graph is needed.")
        order = {key: place for place, key in enumerate([None, *self._types[NODE], *self._types[EDGE]])}
        fields = sorted((seen.field() for seen in self._seen.values()), key=lambda field: order[field.store])
        node_types, edge_types = tuple(self._types[NODE]), tuple(self._types[EDGE])
        return Schema(self._data_class, node_types, edge_types, tuple(fields), tuple(self._stating))


def infer_schema(samples: Iterable[Data], exclude_keys: Iterable[str] = ()) -> Schema:
    """The attributes of these graphs; the more graphs, the fewer ambiguities (see :class:`SchemaBuilder`)."""
    builder = SchemaBuilder(exclude_keys)
    for sample in samples:
        builder.add(sample)
    return builder.build()


def _equal(lengths: Tensor, counts: Tensor | None) -> bool:
    return counts is not None and torch.equal(lengths, counts)


class _Seen:
    """What has been seen of one attribute over several graphs."""

    def __init__(self, store: StoreKey, name: str, value: Any, dim: int | None) -> None:
        self.store, self.name, self.dim = store, name, dim
        self.is_tensor = isinstance(value, Tensor)
        self.shape = tuple(value.shape) if self.is_tensor else ()
        self.dtype = value.dtype if self.is_tensor else None
        self.lengths: set[int] = set()
        self.fits = {NODE, EDGE}

    def note(self, shortest: int, longest: int, fits: set[str]) -> None:
        """Notes how many entries graphs have of it, and whether that is their number of nodes or edges."""
        self.lengths |= {shortest, longest}
        self.fits &= fits

    def field(self) -> Field:
        if not self.is_tensor:
            return Field(self.store, self.name, GRAPH)
        level, dim = self._level(), self.dim or 0
        if level == GRAPH and len(self.lengths) > 1:
            raise ValueError(
                f"The attribute '{self.name}' belongs to neither the nodes, the edges nor the graph: it has "
                f"between {min(self.lengths)} and {max(self.lengths)} entries, and so no fixed size. "
                f"Leave it out with exclude_keys=['{self.name}']."
            )
        shape = (0, *self.shape) if self.dim is None else self.shape
        shape = (*shape[:dim], 0, *shape[dim + 1 :])
        rows = max(self.lengths) if level == GRAPH else 1
        return Field(self.store, self.name, level, dim, shape, self.dtype, rows)

    def _level(self) -> str:
        if not self.fits:
            return GRAPH
        by_name = EDGE if self.name in _EDGE_NAMES or "edge" in self.name else NODE
        level = by_name if by_name in self.fits else min(self.fits)
        named = self.name in (_NODE_NAMES | _EDGE_NAMES) or level in self.name
        if self.store is None and self.lengths == {1} and not named:
            # One entry in every graph: a label of the graph is likelier than of its only node or edge.
            return GRAPH
        return level
