"""The graphs of a dataset laid end to end: their attributes, the level of each, and where each graph lies.

Everything else in this package works on a `GraphTable`: one column for each attribute and, for each graph,
where its part of the columns starts. PyG's in-memory datasets already lie like that and are taken as they
are; graphs of any other dataset are read one by one and concatenated.
"""

from __future__ import annotations

from typing import Any, Iterable, List, NamedTuple, Optional, Sequence, Tuple, Union

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import IterableDataset, Subset
from torch_geometric.data import Data, Dataset, HeteroData, InMemoryDataset
from torch_geometric.data.storage import E_KEYS, N_KEYS, BaseStorage
from tqdm.auto import tqdm

# The key of a store: None for a homogeneous graph (or for the graph-level store of a heterogeneous one),
# a node type, or an edge type.
StoreKey = Union[None, str, Tuple[str, str, str]]

NODE, EDGE, GRAPH = "node", "edge", "graph"

# Something that is counted per graph and has a budget: (NODE, node type), (EDGE, edge type), or the graphs.
Group = Tuple[str, StoreKey]
GRAPHS: Group = (GRAPH, None)

_NODE_NAMES = {"x", "feat", "pos", "crd", "batch", "node_type", "n_id", "z"}
_EDGE_NAMES = {"edge_index", "edge_weight", "edge_attr", "edge_type", "e_id"}

# From this many graphs on, reading them one by one takes long enough for a progress bar.
_PROGRESS_FROM = 10_000


class Field(NamedTuple):
    """One attribute of the graphs."""

    store: StoreKey  # the store that holds it
    name: str  # of the attribute
    level: str  # "node", "edge" or "graph"
    dim: int = 0  # along which the graphs are put one after another
    shape: tuple[int, ...] = (0,)  # in a graph, with 0 at `dim`
    dtype: torch.dtype | None = None  # None for an attribute that is not a tensor
    rows: int = 1  # entries of every graph along `dim` (graph level only)

    @property
    def group(self) -> Group:
        """What the attribute's entries are counted with."""
        return GRAPHS if self.level == GRAPH else (self.level, self.store)

    def padded_shape(self, length: int) -> tuple[int, ...]:
        """The shape with `length` entries along `dim`."""
        return self.shape[: self.dim] + (length,) + self.shape[self.dim + 1 :]


class Schema(NamedTuple):
    """The attributes of a dataset's graphs, in the order in which the graphs hold them."""

    data_class: Any  # of the graphs
    node_types: tuple[StoreKey, ...]  # keys of the stores that hold nodes
    edge_types: tuple[StoreKey, ...]  # keys of the stores that hold edges
    fields: tuple[Field, ...]  # the attributes
    stating_num_nodes: tuple[StoreKey, ...] = ()  # stores with a `num_nodes` of their own

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

    def objects(self) -> list[str]:
        """The names of the attributes that are not tensors."""
        return [field.name for field in self.fields if field.dtype is None]


def end_points(edge_type: StoreKey) -> tuple[Group, Group]:
    """The groups of nodes that the edges of a type start from and lead to."""
    if edge_type is None:
        return (NODE, None), (NODE, None)
    return (NODE, edge_type[0]), (NODE, edge_type[2])


def kind_of(group: Group) -> str:
    """What a group is called in messages."""
    level, key = group
    return f"{level}s" if key is None else f"{level}s of type {key!r}"


def _as_tensor(value: Any) -> Any:
    """Numbers become 0-d tensors and tensor subclasses plain tensors; anything else stays as it is."""
    if isinstance(value, (bool, int, float)):
        return torch.tensor(value)
    if isinstance(value, Tensor) and hasattr(value, "as_tensor"):
        return value.as_tensor()
    return value


def _cat_dim(sample: Data, name: str, value: Tensor, store: BaseStorage) -> int | None:
    """The dimension to concatenate along, counted from the front; None if the value gets a new one."""
    if value.layout != torch.strided:
        raise ValueError(
            f"The attribute '{name}' is a sparse tensor (got layout {value.layout}), of no fixed size. Store "
            f"the edges as 'edge_index', or leave it out with exclude_keys=['{name}']."
        )
    dim = sample.__cat_dim__(name, value, store)
    if dim is None or value.dim() == 0:
        return None
    return dim % value.dim()


def _stores_of(sample: Data, level: str) -> dict[StoreKey, BaseStorage]:
    """The stores that hold nodes or edges, by their key."""
    stores = sample.node_stores if level == NODE else sample.edge_stores
    if isinstance(sample, HeteroData):
        return {store._key: store for store in stores}
    return {None: stores[0]}


def counts_of(sample: Data) -> dict[Group, int]:
    """The number of nodes and edges of each type of one graph or batch."""
    counts = {}
    for level in (NODE, EDGE):
        for key, store in _stores_of(sample, level).items():
            count = store.num_nodes if level == NODE else store.num_edges
            if count is None:
                raise ValueError(
                    f"The number of nodes of {key or 'a graph'!r} is unknown: none of its attributes "
                    f"{list(store.keys())} tells it. Set 'num_nodes' on the graph."
                )
            counts[level, key] = int(count)
    return counts


class SchemaBuilder:
    """Finds out which attributes graphs have and at which level, from graphs shown to it one by one.

    An attribute with as many entries as the graph has nodes (or edges), in every graph, belongs to the nodes
    (or edges). Otherwise it must have the same number of entries in every graph, and belongs to the graph.

    Args:
        exclude_keys: Attributes to ignore.
        one_graph: The graphs are parts of one, which has no labels of its own: where one entry could belong
            to the only node or to the graph, it belongs to the node.
    """

    def __init__(self, exclude_keys: Iterable[str] = (), one_graph: bool = False) -> None:
        self._excluded = {"num_nodes", "ptr", *exclude_keys}
        self._one_graph = one_graph
        self._data_class: type | None = None
        self._num_seen = 0
        self._types: dict[str, dict[StoreKey, None]] = {NODE: {}, EDGE: {}}
        self._seen: dict[tuple[StoreKey, str], _Seen] = {}
        self._stating: dict[StoreKey, None] = {}

    def add(self, sample: Data) -> dict[Group, int]:
        """Looks at one graph; returns its number of nodes and edges of each type."""
        if not isinstance(sample, (Data, HeteroData)):
            raise TypeError(
                f"A dataset of graphs should hold Data or HeteroData objects (got {type(sample).__name__} at "
                f"position {self._num_seen})."
            )
        self._data_class = self._data_class or type(sample)
        if isinstance(sample, HeteroData) != issubclass(self._data_class, HeteroData):
            raise TypeError(
                f"Homogeneous and heterogeneous graphs cannot share a batch (got {self._data_class.__name__} "
                f"first and {type(sample).__name__} at position {self._num_seen}). Make one dataset of each."
            )
        self._num_seen += 1
        counts = counts_of(sample)
        lengths = {(store._key, name): None for store in sample.stores for name, _ in store.items()}
        self._note(sample, lengths, counts)
        return counts

    def add_all(
        self, data: Data, lengths: dict[tuple[StoreKey, str], Tensor], counts: dict[Group, Tensor]
    ) -> None:
        """Looks at many graphs that lie one after another.

        Args:
            data: All graphs, concatenated.
            lengths: By store and name, how many entries each graph has of an attribute, `[G]`.
            counts: How many nodes and edges of each type each graph has, `[G]`.
        """
        self._data_class = type(data)
        self._note(data, lengths, counts)

    def _note(self, data: Data, lengths: dict[Any, Any], counts: dict[Group, Any]) -> None:
        """Notes the types and attributes of a graph, whose own lengths are None, or of many."""
        for level, key in counts:
            self._types[level].setdefault(key)
        stores = {store._key: store for store in data.stores}
        self._stating.update({key: None for key, store in stores.items() if "num_nodes" in store})
        for (key, name), length in lengths.items():
            if name in self._excluded:
                continue
            value = _as_tensor(stores[key][name])
            dim = _cat_dim(data, name, value, stores[key]) if isinstance(value, Tensor) else None
            if (key, name) not in self._seen:
                _check_attribute(data, name, value)
                self._seen[key, name] = _Seen(key, name, value, dim)
            own = {level: counts[level, key] for level in (NODE, EDGE) if (level, key) in counts}
            if length is None:
                length = 1 if dim is None else value.size(dim)
                fits = {level for level, count in own.items() if count == length}
                bounds = {length}
            else:
                fits = {level for level, count in own.items() if torch.equal(length, count)}
                bounds = {int(length.min()), int(length.max())}
            self._seen[key, name].lengths |= bounds
            self._seen[key, name].fits &= fits if dim is not None else set()

    def build(self) -> Schema:
        """The schema of all graphs seen so far."""
        if self._data_class is None:
            raise ValueError("The dataset is empty (got 0 graphs): at least one graph is needed.")
        order = {key: place for place, key in enumerate([None, *self._types[NODE], *self._types[EDGE]])}
        fields = [seen.field(self._one_graph) for seen in self._seen.values()]
        fields.sort(key=lambda field: order[field.store])
        node_types, edge_types = tuple(self._types[NODE]), tuple(self._types[EDGE])
        return Schema(self._data_class, node_types, edge_types, tuple(fields), tuple(self._stating))


def _check_attribute(sample: Data, name: str, value: Any) -> None:
    """Raises if no batch can hold the attribute as it is meant."""
    if not isinstance(value, Tensor):
        return
    if value.device.type != "cpu":
        raise ValueError(
            f"The attribute '{name}' lies on the device '{value.device}', but batches are made on the CPU. "
            "Store it there (a tensor on 'meta' has no values to make a batch of), or leave it out with "
            f"exclude_keys=['{name}']."
        )
    if value.requires_grad:
        raise ValueError(
            f"The attribute '{name}' requires a gradient, which no batch of a loader passes on. Store "
            f"data['{name}'].detach(), or leave it out with exclude_keys=['{name}']."
        )
    if name == "edge_index" and (value.dim() != 2 or value.size(0) != 2):
        raise ValueError(
            f"'edge_index' should have the shape [2, num_edges] (got {list(value.shape)}). If each of its "
            "rows is an edge, transpose it: edge_index.t()."
        )
    if _names_nodes(isinstance(sample, HeteroData), name) and (
        value.is_floating_point() or value.is_complex() or value.dtype == torch.bool
    ):
        raise ValueError(
            f"The attribute '{name}' numbers nodes, as its name says to PyG, and so should hold whole "
            f"numbers (got {value.dtype}). Convert it with .long(), give it a name without 'index' if it "
            f"numbers no nodes, or leave it out with exclude_keys=['{name}']."
        )


def _names_nodes(is_hetero: bool, name: str) -> bool:
    """Whether PyG takes the values of an attribute of this name for numbers of nodes."""
    return "batch" not in name and ("index" in name or (name == "face" and not is_hetero))


def infer_schema(
    samples: Iterable[Data], exclude_keys: Iterable[str] = (), one_graph: bool = False
) -> Schema:
    """The attributes of these graphs; the more graphs, the fewer ambiguities (see `SchemaBuilder`)."""
    builder = SchemaBuilder(exclude_keys, one_graph)
    for sample in samples:
        builder.add(sample)
    return builder.build()


class _Seen:
    """What has been seen of one attribute over several graphs."""

    def __init__(self, store: StoreKey, name: str, value: Any, dim: int | None) -> None:
        self.store, self.name, self.dim = store, name, dim
        self.is_tensor = isinstance(value, Tensor)
        self.shape = tuple(value.shape) if self.is_tensor else ()
        self.dtype = value.dtype if self.is_tensor else None
        # How many entries graphs have of it, and whether that is their number of nodes or edges.
        self.lengths: set[int] = set()
        self.fits = {NODE, EDGE}

    def field(self, one_graph: bool) -> Field:
        if not self.is_tensor:
            return Field(self.store, self.name, GRAPH)
        level, dim = self._level(one_graph), self.dim or 0
        if level == GRAPH and len(self.lengths) > 1:
            raise ValueError(
                f"The attribute '{self.name}' belongs to neither the nodes, the edges nor the graph: it has "
                f"between {min(self.lengths)} and {max(self.lengths)} entries, and so no fixed size. Leave "
                f"it out with exclude_keys=['{self.name}']."
            )
        shape = (0, *self.shape) if self.dim is None else self.shape
        shape = (*shape[:dim], 0, *shape[dim + 1 :])
        rows = max(self.lengths) if level == GRAPH else 1
        return Field(self.store, self.name, level, dim, shape, self.dtype, rows)

    def _level(self, one_graph: bool) -> str:
        if not self.fits:
            return GRAPH
        by_name = EDGE if self.name in _EDGE_NAMES or "edge" in self.name else NODE
        level = by_name if by_name in self.fits else min(self.fits)
        named = self.name in (_NODE_NAMES | _EDGE_NAMES) or level in self.name
        if self.store is None and self.lengths == {1} and not named and not one_graph:
            # One entry in every graph: a label of the graph is likelier than of its only node or edge.
            return GRAPH
        return level


# -- the table -----------------------------------------------------------------------------------------------


class Picked(NamedTuple):
    """Some rows of a column, which are only copied when a batch is filled."""

    column: Tensor  # all rows, along dimension 0
    rows: Tensor  # which of them are meant, [R]

    def index_select(self, dim: int, rows: Tensor) -> Picked:
        """Some of these rows, given by their positions among them."""
        return self._replace(rows=self.rows[rows])


Column = Union[Tensor, Picked, List[Any]]
Shift = Optional[Tensor]


class GraphTable(NamedTuple):
    """Graphs laid end to end.

    Args:
        schema: The attributes.
        columns: For each field of the schema all graphs' values, concatenated along the field's `dim`.
        counts: For each node type and edge type the number in each graph, `[G]`.
        starts: For each node type and edge type where each graph begins in the columns, `[G]`.
        places: The position of each graph in graph-level columns, `[G]`.
        ids: What each graph is called in messages, `[G]`.
        shifts: The fields, by position, whose values move when graphs come before them: by the graphs' nodes
            (None), or by what their class says, `[G, 1]` or `[G, R]`.
    """

    schema: Schema
    columns: list[Column]
    counts: dict[Group, Tensor]
    starts: dict[Group, Tensor]
    places: Tensor
    ids: Tensor
    shifts: dict[int, Shift]

    @property
    def num_graphs(self) -> int:
        """How many graphs there are."""
        return len(self.places)

    def only(self, schema: Schema) -> GraphTable:
        """The table with just the attributes of a smaller schema, each column contiguous in memory."""
        at = [self.schema.fields.index(field) for field in schema.fields]
        shifts = {new: self.shifts[old] for new, old in enumerate(at) if old in self.shifts}
        columns = [self.columns[old] for old in at]
        columns = [column.contiguous() if isinstance(column, Tensor) else column for column in columns]
        return self._replace(schema=schema, columns=columns, shifts=shifts)

    def take(self, graphs: Tensor) -> GraphTable:
        """Copies some of the graphs, given by their positions `[G']`, into a table of their own."""
        counts = {group: count[graphs] for group, count in self.counts.items()}
        rows = {group: spans(self.starts[group][graphs], count) for group, count in counts.items()}
        columns: list[Column] = []
        for field, column in zip(self.schema.fields, self.columns):
            at = graph_rows(field, self.places[graphs]) if field.level == GRAPH else rows[field.group]
            if field.dtype is None:
                columns.append([column[row] for row in at.tolist()])
            else:
                columns.append(column.index_select(field.dim, at))
        starts = {group: count.cumsum(0) - count for group, count in counts.items()}
        shifts = {key: None if shift is None else shift[graphs] for key, shift in self.shifts.items()}
        places = torch.arange(len(graphs))
        return GraphTable(self.schema, columns, counts, starts, places, self.ids[graphs], shifts)

    def check_edges(self) -> None:
        """Raises if an edge of a graph leads to a node that the graph does not have."""
        for field, column in zip(self.schema.fields, self.columns):
            if field.name != "edge_index" or column.numel() == 0:
                continue
            counts = self.counts[field.group]
            rows = spans(self.starts[field.group], counts)
            for side, group in enumerate(end_points(field.store)):
                ends = column[side].index_select(0, rows)
                wrong = (ends < 0) | (ends >= repeated(self.counts[group], counts))
                if wrong.any():
                    edge = int(wrong.nonzero()[0])
                    graph = int(torch.searchsorted(counts.cumsum(0), edge, right=True))
                    raise ValueError(
                        f"An edge of graph {int(self.ids[graph])} leads to node {int(ends[edge])}, but the "
                        f"graph has only {int(self.counts[group][graph])} {kind_of(group)}, numbered from 0. "
                        "Correct its edge_index or its num_nodes."
                    )

    @classmethod
    def of_samples(cls, samples: Sequence[Data], schema: Schema, ids: Tensor | None = None) -> GraphTable:
        """Concatenates graphs; types that a graph lacks count as empty.

        Args:
            samples: The graphs.
            schema: Their attributes.
            ids: What to call the graphs in messages (default: their positions), `[G]`.
        """
        ids = torch.arange(len(samples)) if ids is None else ids
        known = {None, *schema.node_types, *schema.edge_types}
        for sample, name in zip(samples, ids.tolist() if schema.is_hetero else ()):
            for store in sample.stores:
                if store._key not in known:
                    raise ValueError(
                        f"Graph {name} has the type {store._key!r}, which none of the graphs looked at "
                        "before had: every batch holds the same types. Put a graph that has it to the front "
                        "of the dataset."
                    )
        sizes = [counts_of(sample) for sample in samples]
        counts = {group: torch.tensor([size.get(group, 0) for size in sizes]) for group in schema.groups}
        starts = {group: count.cumsum(0) - count for group, count in counts.items()}
        columns = [_concatenate(field, samples, counts, ids) for field in schema.fields]
        places = torch.arange(len(samples))
        return cls(schema, columns, counts, starts, places, ids, _shifts_of(schema, samples, counts))


def spans(starts: Tensor, counts: Tensor) -> Tensor:
    """The rows `start, start + 1, …` of each graph, one after another."""
    rows = repeated(starts - counts.cumsum(0) + counts, counts)
    return rows.add_(torch.arange(len(rows)))


def repeated(values: Tensor, counts: Tensor) -> Tensor:
    """Each value as many times as its count says; NumPy takes a third of torch's time for it."""
    return torch.from_numpy(np.repeat(values.numpy(), counts.numpy()))


def graph_rows(field: Field, places: Tensor) -> Tensor:
    """The rows of a graph-level column that belong to the graphs at these positions."""
    if field.rows == 1:
        return places
    return (places.unsqueeze(1) * field.rows + torch.arange(field.rows)).reshape(-1)


# -- graphs read one by one ----------------------------------------------------------------------------------


def _store(sample: Data, key: StoreKey) -> BaseStorage | None:
    return next((store for store in sample.stores if store._key == key), None)


def _concatenate(field: Field, samples: Sequence[Data], counts: dict[Group, Tensor], ids: Tensor) -> Column:
    stores = [_store(sample, field.store) for sample in samples]
    if field.dtype is None:
        return [_value(field, int(name), store) for name, store in zip(ids, stores)]
    parts = []
    for place, (sample, store) in enumerate(zip(samples, stores)):
        if store is not None:
            expected = field.rows if field.level == GRAPH else int(counts[field.group][place])
            parts.append(_part(field, sample, store, int(ids[place]), expected))
    if not parts:
        return torch.empty(field.shape, dtype=field.dtype)
    return parts[0].contiguous() if len(parts) == 1 else torch.cat(parts, dim=field.dim)


def _part(field: Field, sample: Data, store: BaseStorage, name: int, length: int) -> Tensor:
    """One graph's values of an attribute, checked against what the batch expects."""
    value = _as_tensor(_value(field, name, store))
    if isinstance(value, Tensor) and _cat_dim(sample, field.name, value, store) is None:
        value = value.unsqueeze(0)
    if not isinstance(value, Tensor) or value.dtype != field.dtype:
        got = value.dtype if isinstance(value, Tensor) else type(value).__name__
        raise ValueError(
            f"The attribute '{field.name}' should have dtype {field.dtype} in every graph (got {got} in "
            f"graph {name}). Convert it in a transform."
        )
    if value.requires_grad or value.device.type != "cpu":
        _check_attribute(sample, field.name, value)
    if tuple(value.shape) != field.padded_shape(length):
        raise ValueError(
            f"The {field.level} attribute '{field.name}' should have shape "
            f"{list(field.padded_shape(length))} (got {list(value.shape)} in graph {name}). Give it one "
            f"entry per {field.level}, or leave it out with exclude_keys=['{field.name}']."
        )
    return value


def _value(field: Field, name: int, store: BaseStorage | None) -> Any:
    if store is None or field.name not in store:
        raise ValueError(
            f"Graph {name} has no attribute '{field.name}', which others of the dataset have. Add it in a "
            f"transform, or leave it out with exclude_keys=['{field.name}']."
        )
    return store[field.name]


def moves_with_nodes(schema: Schema, field: Field) -> bool:
    """Whether PyG's own classes move the values by the nodes of the graphs before."""
    of_edges = isinstance(field.store, tuple) or not schema.is_hetero
    return field.dtype is not None and of_edges and _names_nodes(schema.is_hetero, field.name)


def _has_pygs_steps(data_class: Any) -> bool:
    return data_class.__inc__ in (Data.__inc__, HeteroData.__inc__)


def _shifts_of(schema: Schema, samples: Sequence[Data], counts: dict[Group, Tensor]) -> dict[int, Shift]:
    shifts: dict[int, Shift] = {}
    for position, field in enumerate(schema.fields):
        if field.dtype is None:
            continue
        if _has_pygs_steps(schema.data_class) and "batch" not in field.name:
            if moves_with_nodes(schema, field):
                shifts[position] = None
            continue
        # What each graph adds to the values of later graphs, as its class says: [G, 1] or [G, R].
        each = []
        for sample in samples:
            store = _store(sample, field.store)
            step = 0 if store is None else sample.__inc__(field.name, _as_tensor(store[field.name]), store)
            each.append(torch.as_tensor(step).reshape(-1))
        width = max(step.numel() for step in each)
        steps = torch.stack([step.expand(width) for step in each])
        if isinstance(field.store, tuple):
            by_nodes = torch.stack([counts[group] for group in end_points(field.store)], dim=1)
        else:
            by_nodes = counts.get((NODE, field.store), torch.empty(0)).unsqueeze(1)
        if torch.equal(steps, by_nodes):
            shifts[position] = None
        elif steps.any():
            shifts[position] = steps
    return shifts


# -- graphs that already lie end to end ----------------------------------------------------------------------


def table_of_dataset(dataset: Any, exclude_keys: Iterable[str] = ()) -> GraphTable | None:
    """The graphs of an in-memory dataset as they lie there, or None if they have to be read one by one.

    Nothing is copied. Selections of graphs (`dataset[:100]`, `Subset`) work as well. None is returned for
    datasets of another kind, with a transform, or with a layout that does not tell the size of every graph.

    Args:
        dataset: Any dataset.
        exclude_keys: Attributes to ignore.
    """
    found = _unwrap(dataset)
    if found is None or len(found[1]) == 0:
        return None
    source, places = found
    each = torch.ones_like(places)
    data, slices = source._data, source.slices
    if not _has_pygs_steps(type(data)):
        return None
    counts = _counts_in_memory(data, slices)
    if counts is None:
        return None
    starts = {group: (count.cumsum(0) - count)[places] for group, count in counts.items()}
    counts = {group: count[places] for group, count in counts.items()}
    stores = {store._key: store for store in data.stores}
    # How many entries the graphs have of every attribute, in the order in which PyG gives them out.
    bounds = {
        (key, name): own
        for key, store in stores.items()
        for name, own in (slices if key is None else slices.get(key, {})).items()
        if name in store
    }
    is_plain = {at: isinstance(own, Tensor) and own.dim() == 1 for at, own in bounds.items()}
    lengths = {at: own.diff()[places] if is_plain[at] else each for at, own in bounds.items()}
    builder = SchemaBuilder(exclude_keys)
    builder.add_all(data, lengths, counts)
    schema = builder.build()
    for field in schema.fields:
        # Every attribute of a graph has to start where the graph's nodes, edges or number say.
        own = bounds[field.store, field.name]
        expected = places * field.rows if field.level == GRAPH else starts[field.group]
        if not isinstance(own, Tensor) or not torch.equal(own[places], expected):
            return None
    columns = [stores[field.store][field.name] for field in schema.fields]
    shifts: dict[int, Shift] = {
        i: None for i, field in enumerate(schema.fields) if moves_with_nodes(schema, field)
    }
    return GraphTable(schema, columns, counts, starts, places, torch.arange(len(places)), shifts)


def _unwrap(dataset: Any) -> tuple[InMemoryDataset, Tensor] | None:
    """The in-memory dataset below subsets and index selections, and which of its graphs are meant."""
    if type(dataset) is Subset:
        below = _unwrap(dataset.dataset)
        return None if below is None else (below[0], below[1][torch.as_tensor(dataset.indices).long()])
    if not isinstance(dataset, InMemoryDataset) or dataset.transform is not None or dataset.slices is None:
        return None
    cls = type(dataset)
    if cls.get is not InMemoryDataset.get or cls.__getitem__ is not Dataset.__getitem__:
        return None
    return dataset, torch.as_tensor(list(dataset.indices()), dtype=torch.long)


def _counts_in_memory(data: Data, slices: dict[Any, Any]) -> dict[Group, Tensor] | None:
    """Nodes and edges of every graph, found as PyG finds them, or None if the slices do not tell."""
    counts = {}
    for level, known in ((NODE, N_KEYS), (EDGE, E_KEYS)):
        for key, store in _stores_of(data, level).items():
            own = slices if key is None else slices.get(key, {})
            if level == NODE and "_num_nodes" in vars(store):
                counts[level, key] = torch.as_tensor(vars(store)["_num_nodes"])
                continue
            telling = [name for name in own if name in known and isinstance(store.get(name), Tensor)]
            if not telling:
                return None
            counts[level, key] = own[telling[0]].diff()
    return counts


# -- reading a dataset ---------------------------------------------------------------------------------------


class Graphs(NamedTuple):
    """What is known of a dataset's graphs before any batch is made."""

    schema: Schema  # their attributes
    counts: dict[Group, Tensor]  # of each type in each graph that was looked at, [G]
    table: GraphTable | None  # None if they have to be read one by one


def read_graphs(
    dataset: Sequence[Data],
    exclude_keys: Iterable[str] = (),
    sample_limit: int | None = None,
    progress_bar: bool | None = None,
) -> Graphs:
    """Finds the sizes and attributes of a dataset's graphs, from its layout where that tells them.

    Args:
        dataset: Graphs, all homogeneous or all heterogeneous.
        exclude_keys: Attributes to ignore.
        sample_limit: Look at no more than this many graphs, evenly spread (default: at all).
        progress_bar: Show progress while reading graphs one by one (default: from 10,000 on).
    """
    check_dataset(dataset)
    if sample_limit is not None and sample_limit < 1:
        raise ValueError(f"sample_limit should be at least 1, or None for all graphs (got {sample_limit}).")
    looked_at = list(range(len(dataset)))
    if sample_limit is not None and sample_limit < len(dataset):
        looked_at = torch.linspace(0, len(dataset) - 1, sample_limit).long().tolist()
    table = table_of_dataset(dataset, exclude_keys)
    if table is not None:
        return Graphs(table.schema, {group: count[looked_at] for group, count in table.counts.items()}, table)
    if progress_bar is None:
        progress_bar = len(looked_at) >= _PROGRESS_FROM
    builder = SchemaBuilder(exclude_keys)
    rows = [
        builder.add(dataset[at])
        for at in tqdm(looked_at, desc="Reading sizes", leave=False, disable=not progress_bar)
    ]
    schema = builder.build()
    counts = {group: torch.tensor([row.get(group, 0) for row in rows]) for group in schema.groups}
    return Graphs(schema, counts, None)


def check_dataset(dataset: Any) -> None:
    """Raises unless graphs can be asked for by number and counted, and there are any."""
    is_sequence = hasattr(dataset, "__len__") and hasattr(dataset, "__getitem__")
    if not is_sequence or isinstance(dataset, (dict, IterableDataset)):
        raise TypeError(
            "A dataset should be a sequence of graphs, with a length and numbered from 0 (got "
            f"{type(dataset).__name__}). Make a list of its graphs."
        )
    if isinstance(dataset, (Data, HeteroData)):
        raise TypeError(
            f"A dataset should be a sequence of graphs (got one {type(dataset).__name__}). Put it into a "
            "list; for parts of one large graph, use FixedSizeNeighborLoader or FixedSizeClusterLoader."
        )
    if len(dataset) == 0:
        raise ValueError("The dataset is empty (got 0 graphs): at least one graph is needed.")
