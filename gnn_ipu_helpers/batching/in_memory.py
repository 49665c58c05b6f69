"""The layout of PyG's in-memory datasets, which already hold all graphs end to end."""

from __future__ import annotations

from typing import Any, Iterable

import torch
from torch import Tensor
from torch.utils.data import Subset
from torch_geometric.data import Data, Dataset, HeteroData, InMemoryDataset
from torch_geometric.data.storage import E_KEYS, N_KEYS

from .schema import EDGE, GRAPH, NODE, Group, Schema, SchemaBuilder, StoreKey, stores_of
from .table import GraphTable, numbers_nodes


def table_of_dataset(dataset: Any, exclude_keys: Iterable[str] = ()) -> GraphTable | None:
    """The graphs of an in-memory dataset as they lie there, or None if they have to be read one by one.

    Nothing is copied. Selections of graphs (``dataset[:100]``, ``Subset``) work as well. None is returned for
    datasets of another kind, with a transform, or with a layout that does not tell the size of every graph.

    Args:
        dataset: Any dataset.
        exclude_keys: Attributes to ignore.
    """
    found = _unwrap(dataset)
    if found is None or len(found[1]) == 0:
        return None
    source, places = found
    data, slices = source._data, source.slices
    if type(data).__inc__ not in (Data.__inc__, HeteroData.__inc__):
        return None
    counts = _counts(data, slices)
    if counts is None:
        return None
    starts = {group: (count.cumsum(0) - count)[places] for group, count in counts.items()}
    counts = {group: count[places] for group, count in counts.items()}
    builder = SchemaBuilder(exclude_keys)
    builder.add_all(data, _lengths(data, slices, places), counts)
    schema = builder.build()
    if not _regular(schema, slices, places, starts):
        return None
    stores = {store._key: store for store in data.stores}
    columns = [stores[field.store][field.name] for field in schema.fields]
    shifts = {i: None for i, field in enumerate(schema.fields) if numbers_nodes(schema, field)}
    ids = torch.arange(len(places))
    return GraphTable(schema, columns, counts, starts, places, ids, shifts)


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


def _counts(data: Data, slices: dict[Any, Any]) -> dict[Group, Tensor] | None:
    """Nodes and edges of every graph, found as PyG finds them, or None if the slices do not tell."""
    counts = {}
    for level, known in ((NODE, N_KEYS), (EDGE, E_KEYS)):
        for key, store in stores_of(data, level).items():
            own = slices if key is None else slices.get(key, {})
            if level == NODE and "_num_nodes" in vars(store):
                counts[level, key] = torch.as_tensor(vars(store)["_num_nodes"])
                continue
            telling = [name for name in own if name in known and isinstance(store.get(name), Tensor)]
            if not telling:
                return None
            counts[level, key] = own[telling[0]].diff()
    return counts


def _lengths(data: Data, slices: dict[Any, Any], places: Tensor) -> dict[tuple[StoreKey, str], Tensor]:
    """How many entries the graphs have of every attribute, in the order in which PyG gives them out."""
    lengths = {}
    for store in data.stores:
        own = slices if store._key is None else slices.get(store._key, {})
        for name in own:
            if name in store:
                bounds = own[name]
                is_plain = isinstance(bounds, Tensor) and bounds.dim() == 1
                lengths[store._key, name] = bounds.diff()[places] if is_plain else torch.ones_like(places)
    return lengths


def _regular(schema: Schema, slices: dict[Any, Any], places: Tensor, starts: dict[Group, Tensor]) -> bool:
    """Whether every attribute of a graph starts where the graph's nodes, edges or number say."""
    for field in schema.fields:
        bounds = slices[field.name] if field.store is None else slices[field.store][field.name]
        expected = places * field.rows if field.level == GRAPH else starts[field.group]
        if not isinstance(bounds, Tensor) or not torch.equal(bounds[places], expected):
            return False
    return True
