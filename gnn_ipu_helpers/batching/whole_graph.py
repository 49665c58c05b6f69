"""Subgraphs that copy nothing: their structure, and which rows of the whole graph's attributes they take."""

from __future__ import annotations

import torch
from torch_geometric.data import Data, HeteroData

from .schema import EDGE, GRAPH, NODE, Schema, StoreKey
from .table import Column, GraphTable, Picked

_IDS = {NODE: "n_id", EDGE: "e_id"}
_STRUCTURE = ("edge_index", *_IDS.values())


class WholeGraph:
    """A graph of which subgraphs are taken by the numbers of their nodes, ``n_id``, and edges, ``e_id``.

    Args:
        data: The graph.
        schema: The attributes of the subgraphs.
    """

    def __init__(self, data: Data | HeteroData, schema: Schema) -> None:
        self.skeleton = _skeleton(data)
        features = [field for field in schema.fields if field.name not in _STRUCTURE]
        columns = GraphTable.of_samples([data], schema._replace(fields=tuple(features))).columns
        self._columns: dict[tuple[StoreKey, str], Column] = {
            (field.store, field.name): column for field, column in zip(features, columns)
        }

    @staticmethod
    def can_take(data: Data | HeteroData, schema: Schema) -> bool:
        """Whether every attribute of the subgraphs is a selection of rows of the graph's own."""
        ids = {field.group for field in schema.fields if field.name == _IDS.get(field.level)}
        stores = {store._key: store for store in data.stores}
        for field in schema.fields:
            of_graph = field.name in stores.get(field.store, ())
            if field.name == "edge_index":
                continue
            if field.name in _STRUCTURE:
                if of_graph:
                    return False
            elif not of_graph or "index" in field.name or "batch" in field.name or field.name == "face":
                # The values may number nodes, and would have to be numbered anew.
                return False
            elif field.level != GRAPH and (field.group not in ids or field.dim != 0):
                return False
        return True

    def table(self, sample: Data | HeteroData, schema: Schema, number: int) -> GraphTable:
        """The table of a subgraph.

        Args:
            sample: A subgraph of the skeleton, with ``edge_index``, ``n_id`` and ``e_id``.
            schema: The attributes wanted.
            number: What to call the subgraph in messages.
        """
        own = [field for field in schema.fields if field.name in _STRUCTURE]
        structure = GraphTable.of_samples(
            [sample], schema._replace(fields=tuple(own)), torch.tensor([number])
        )
        found = {(field.store, field.name): column for field, column in zip(own, structure.columns)}
        columns: list[Column] = []
        for field in schema.fields:
            key = (field.store, field.name)
            if key in found:
                columns.append(found[key])
            elif field.level == GRAPH:
                columns.append(self._columns[key])
            else:
                columns.append(Picked(self._columns[key], found[field.store, _IDS[field.level]]))
        shifts = {i: None for i, field in enumerate(schema.fields) if field.name == "edge_index"}
        return structure._replace(schema=schema, columns=columns, shifts=shifts)


def _skeleton(data: Data | HeteroData) -> Data | HeteroData:
    """The nodes and edges of a graph without any attribute."""
    if isinstance(data, Data):
        return Data(edge_index=data.edge_index, num_nodes=data.num_nodes)
    skeleton = HeteroData()
    for node_type in data.node_types:
        skeleton[node_type].num_nodes = data[node_type].num_nodes
    for edge_type in data.edge_types:
        skeleton[edge_type].edge_index = data[edge_type].edge_index
    return skeleton
