"""Graphs laid end to end: one tensor for each attribute, and where each graph's part of it starts."""

from __future__ import annotations

from typing import Any, List, NamedTuple, Optional, Sequence, Union

import torch
from torch import Tensor
from torch_geometric.data import Data, HeteroData
from torch_geometric.data.storage import BaseStorage

from .schema import (
    GRAPH,
    NODE,
    Field,
    Group,
    Schema,
    StoreKey,
    as_tensor,
    cat_dim,
    count_of,
    end_points,
    stores_of,
)


class Picked(NamedTuple):
    """Some rows of a column, which are only copied when a batch is filled.

    Args:
        column: All rows, along dimension 0.
        rows: Which of them are meant, ``[R]``.
    """

    column: Tensor
    rows: Tensor

    def index_select(self, dim: int, rows: Tensor) -> Picked:
        """Some of these rows, given by their positions among them."""
        return self._replace(rows=self.rows[rows])

    def padded(self, length: int, value: float) -> Tensor:
        """The rows, and behind them a value up to the length."""
        filled = self.column.new_empty((length, *self.column.shape[1:]))
        num_rows = self.rows.size(0)
        torch.index_select(self.column, 0, self.rows, out=filled[:num_rows])
        filled[num_rows:] = value
        return filled


Column = Union[Tensor, Picked, List[Any]]
Shift = Optional[Tensor]


class GraphTable(NamedTuple):
    """Graphs laid end to end.

    Args:
        schema: The attributes.
        columns: For each field of the schema all graphs' values, concatenated along the field's ``dim``.
        counts: For each node type and edge type the number in each graph, ``[G]``.
        starts: For each node type and edge type where each graph begins in the columns, ``[G]``.
        places: The position of each graph in graph-level columns, ``[G]``.
        ids: What each graph is called in messages, ``[G]``.
        shifts: The fields, by position, whose values move when graphs come before them: by the graphs' nodes
            (None), or by what their class says, ``[G, 1]`` or ``[G, R]``.
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
        """The table with just the attributes of a smaller schema."""
        at = [self.schema.fields.index(field) for field in schema.fields]
        shifts = {new: self.shifts[old] for new, old in enumerate(at) if old in self.shifts}
        return self._replace(schema=schema, columns=[self.columns[old] for old in at], shifts=shifts)

    @classmethod
    def of_samples(cls, samples: Sequence[Data], schema: Schema, ids: Tensor | None = None) -> GraphTable:
        """Concatenates graphs; types that a graph lacks count as empty.

        Args:
            samples: The graphs.
            schema: Their attributes.
            ids: What to call the graphs in messages (default: their positions), ``[G]``.
        """
        ids = torch.arange(len(samples)) if ids is None else ids
        _check_types(samples, schema, ids)
        counts = {group: torch.tensor([_count(s, group) for s in samples]) for group in schema.groups}
        starts = {group: count.cumsum(0) - count for group, count in counts.items()}
        columns = [_concatenate(field, samples, counts, ids) for field in schema.fields]
        places = torch.arange(len(samples))
        return cls(schema, columns, counts, starts, places, ids, _shifts_of(schema, samples, counts))


def _check_types(samples: Sequence[Data], schema: Schema, ids: Tensor) -> None:
    known = {None, *schema.node_types, *schema.edge_types}
    for sample, name in zip(samples, ids.tolist() if schema.is_hetero else ()):
        unknown = [store._key for store in sample.stores if store._key not in known]
        if unknown:
            raise ValueError(
                f"Graph {name} has the type {unknown[0]!r}, which none of the graphs looked at before had: "
                "every batch holds the same types. Put a graph that has it to the front of the dataset."
            )


def _count(sample: Data, group: Group) -> int:
    level, key = group
    store = stores_of(sample, level).get(key)
    return 0 if store is None else count_of(store, level)


def _store(sample: Data, key: StoreKey) -> BaseStorage | None:
    for store in sample.stores:
        if store._key == key:
            return store
    return None


def _concatenate(field: Field, samples: Sequence[Data], counts: dict[Group, Tensor], ids: Tensor) -> Column:
    stores = [_store(sample, field.store) for sample in samples]
    if field.dtype is None:
        return [_value(field, int(name), store) for name, store in zip(ids, stores)]
    parts = []
    for place, (sample, store) in enumerate(zip(samples, stores)):
        if store is not None:
            expected = field.rows if field.level == GRAPH else int(counts[field.group][place])
            parts.append(_part(field, sample, store, int(ids[place]), expected))
    if len(parts) == 1:
        return parts[0]
    return torch.cat(parts, dim=field.dim) if parts else torch.empty(field.shape, dtype=field.dtype)


def _part(field: Field, sample: Data, store: BaseStorage, name: int, length: int) -> Tensor:
    """One graph's values of an attribute, checked against what the batch expects."""
    value = as_tensor(_value(field, name, store))
    if isinstance(value, Tensor) and cat_dim(sample, field.name, value, store) is None:
        value = value.unsqueeze(0)
    if not isinstance(value, Tensor) or value.dtype != field.dtype:
        got = value.dtype if isinstance(value, Tensor) else type(value).__name__
        raise ValueError(
            f"The attribute '{field.name}' should have dtype {field.dtype} in every graph (got {got} in "
            f"graph {name}). Convert it in a transform."
        )
    if tuple(value.shape) != field.padded_shape(length):
        raise ValueError(
            f"The {field.level} attribute '{field.name}' should have shape "
            f"{list(field.padded_shape(length))} "
            f"(got {list(value.shape)} in graph {name}). Give it one entry per {field.level}, or "
            f"leave it out with exclude_keys=['{field.name}']."
        )
    return value


def _value(field: Field, name: int, store: BaseStorage | None) -> Any:
    if store is None or field.name not in store:
        raise ValueError(
            f"Graph {name} has no attribute '{field.name}', which others of the dataset have. Add "
            f"it in a transform, or leave it out with exclude_keys=['{field.name}']."
        )
    return store[field.name]


def numbers_nodes(schema: Schema, field: Field) -> bool:
    """Whether PyG moves the values by the nodes of the graphs before, because they are numbers of nodes."""
    if "batch" in field.name or field.dtype is None:
        return False
    if schema.is_hetero:
        return isinstance(field.store, tuple) and "index" in field.name
    return "index" in field.name or field.name == "face"


def _shifts_of(schema: Schema, samples: Sequence[Data], counts: dict[Group, Tensor]) -> dict[int, Shift]:
    overridden = schema.data_class.__inc__ not in (Data.__inc__, HeteroData.__inc__)
    shifts: dict[int, Shift] = {}
    for position, field in enumerate(schema.fields):
        if field.dtype is None:
            continue
        if not overridden and "batch" not in field.name:
            if numbers_nodes(schema, field):
                shifts[position] = None
            continue
        steps = _steps(field, samples)
        if torch.equal(steps, _node_steps(schema, field, counts)):
            shifts[position] = None
        elif steps.any():
            shifts[position] = steps
    return shifts


def _node_steps(schema: Schema, field: Field, counts: dict[Group, Tensor]) -> Tensor:
    if isinstance(field.store, tuple):
        return torch.stack([counts[group] for group in end_points(field.store)], dim=1)
    return counts.get((NODE, field.store), torch.empty(0)).unsqueeze(1)


def _steps(field: Field, samples: Sequence[Data]) -> Tensor:
    """What each graph adds to the values of later graphs, as its class says: ``[G, 1]`` or ``[G, R]``."""
    steps = []
    for sample in samples:
        store = _store(sample, field.store)
        step = 0 if store is None else sample.__inc__(field.name, as_tensor(store[field.name]), store)
        steps.append(torch.as_tensor(step).reshape(-1))
    width = max(step.numel() for step in steps)
    return torch.stack([step.expand(width) for step in steps])


def check_edges(table: GraphTable) -> None:
    """Raises if an edge of a graph leads to a node that the graph does not have."""
    for field, column in zip(table.schema.fields, table.columns):
        if field.name != "edge_index" or column.numel() == 0:
            continue
        counts = table.counts[field.group]
        rows = spans(table.starts[field.group], counts)
        for side, group in enumerate(end_points(field.store)):
            ends = column[side].index_select(0, rows)
            wrong = (ends < 0) | (ends >= torch.repeat_interleave(table.counts[group], counts))
            if wrong.any():
                _raise_out_of_range(table, field, group, ends, wrong)


def _raise_out_of_range(table: GraphTable, field: Field, group: Group, ends: Tensor, wrong: Tensor) -> None:
    edge = int(wrong.nonzero()[0])
    graph = int(torch.searchsorted(table.counts[field.group].cumsum(0), edge, right=True))
    of_type = "" if group[1] is None else f" of type {group[1]!r}"
    raise ValueError(
        f"An edge of graph {int(table.ids[graph])} leads to node {int(ends[edge])}, but the graph has only "
        f"{int(table.counts[group][graph])} nodes{of_type}, numbered from 0. Correct its edge_index or its "
        "num_nodes."
    )


def within(counts: Tensor) -> Tensor:
    """0, 1, 2 … within each graph, one after another."""
    return spans(torch.zeros_like(counts), counts)


def spans(starts: Tensor, counts: Tensor) -> Tensor:
    """The rows ``start, start + 1, …`` of each graph, one after another."""
    return torch.repeat_interleave(starts - counts.cumsum(0) + counts, counts) + torch.arange(
        int(counts.sum())
    )


def take(table: GraphTable, graphs: Tensor) -> GraphTable:
    """Copies some of the graphs, given by their positions ``[G']``, into a table of their own."""
    counts = {group: count[graphs] for group, count in table.counts.items()}
    rows = {
        g: torch.repeat_interleave(table.starts[g][graphs], counts[g]) + within(counts[g]) for g in counts
    }
    columns: list[Column] = []
    for field, column in zip(table.schema.fields, table.columns):
        at = graph_rows(field, table.places[graphs]) if field.level == GRAPH else rows[field.group]
        if field.dtype is None:
            columns.append([column[row] for row in at.tolist()])
        else:
            columns.append(column.index_select(field.dim, at))
    starts = {group: count.cumsum(0) - count for group, count in counts.items()}
    shifts = {key: None if shift is None else shift[graphs] for key, shift in table.shifts.items()}
    places = torch.arange(len(graphs))
    return GraphTable(table.schema, columns, counts, starts, places, table.ids[graphs], shifts)


def graph_rows(field: Field, places: Tensor) -> Tensor:
    """The rows of a graph-level column that belong to the graphs at these positions."""
    if field.rows == 1:
        return places
    return (places.unsqueeze(1) * field.rows + torch.arange(field.rows)).reshape(-1)
