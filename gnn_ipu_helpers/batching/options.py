"""The fixed size of a batch: how many nodes, edges and graphs, and what padding is made of."""

from __future__ import annotations

import math
from numbers import Integral, Real
from typing import Any, Dict, Union

from torch import Tensor
from torch_geometric.data import HeteroData
from torch_geometric.typing import EdgeType, NodeType

from .budgeting import choose_budgets
from .schema import EDGE, GRAPH, NODE, Group
from .sizes import sizes_of

NodeCounts = Union[int, Dict[NodeType, int]]
EdgeCounts = Union[int, Dict[EdgeType, int]]


class FixedSizeOptions:
    """The size that every batch of a loader is padded to.

    Args:
        num_nodes: Nodes in a padded batch, or a dictionary with the nodes of each type. At least one of them
            is padding.
        num_edges: Edges in a padded batch, or a dictionary with the edges of each type. By default as many
            as a fully connected graph has: ``num_nodes * (num_nodes - 1)``.
        num_graphs: Graphs in a padded batch, including at least one padding graph.
        node_pad_value: Value of the padding in node attributes (default 0.0).
        edge_pad_value: Value of the padding in edge attributes (default 0.0).
        graph_pad_value: Value of the padding in graph attributes (default 0.0).
        pad_graph_defaults: What attributes that are not tensors get in a padding graph, by attribute name.
            Only the non-tensor attributes named here are part of a batch.
    """

    def __init__(
        self,
        num_nodes: NodeCounts,
        num_edges: EdgeCounts | None = None,
        num_graphs: int = 2,
        node_pad_value: float | None = None,
        edge_pad_value: float | None = None,
        graph_pad_value: float | None = None,
        pad_graph_defaults: dict[str, Any] | None = None,
    ) -> None:
        self.num_nodes = _counts("num_nodes", num_nodes, least=2)
        if num_edges is None:
            nodes = self.total_num_nodes
            num_edges = nodes * (nodes - 1)
        self.num_edges = _counts("num_edges", num_edges, least=0)
        self.num_graphs = _num_graphs("num_graphs", num_graphs)
        self.node_pad_value = 0.0 if node_pad_value is None else node_pad_value
        self.edge_pad_value = 0.0 if edge_pad_value is None else edge_pad_value
        self.graph_pad_value = 0.0 if graph_pad_value is None else graph_pad_value
        self.pad_graph_defaults = {} if pad_graph_defaults is None else pad_graph_defaults
        self._explanation = ""

    def is_hetero(self) -> bool:
        """Whether nodes and edges are given for each type."""
        return isinstance(self.num_nodes, dict) and isinstance(self.num_edges, dict)

    def to_hetero(self, node_types: list[NodeType], edge_types: list[EdgeType]) -> FixedSizeOptions:
        """Gives every node and edge type the number that so far was one for all; returns itself."""
        if not isinstance(self.num_nodes, dict):
            self.num_nodes = {node_type: self.num_nodes for node_type in node_types}
        if not isinstance(self.num_edges, dict):
            self.num_edges = {edge_type: self.num_edges for edge_type in edge_types}
        return self

    @property
    def total_num_nodes(self) -> int:
        """The nodes of all types together."""
        return sum(self.num_nodes.values()) if isinstance(self.num_nodes, dict) else self.num_nodes

    @property
    def total_num_edges(self) -> int:
        """The edges of all types together."""
        return sum(self.num_edges.values()) if isinstance(self.num_edges, dict) else self.num_edges

    def budget(self, group: Group) -> int:
        """The padded number of nodes or edges of one type (of all, in a homogeneous graph)."""
        level, key = group
        counts = self.num_nodes if level == NODE else self.num_edges
        if not isinstance(counts, dict):
            return counts
        kind, argument = ("node", "num_nodes") if level == NODE else ("edge", "num_edges")
        if key is None:
            raise ValueError(
                f"FixedSizeOptions gives {argument} for each {kind} type (got {list(counts)}), but the "
                "graphs are homogeneous. Give one number."
            )
        if key not in counts:
            raise ValueError(
                f"FixedSizeOptions has no {argument} for the {kind} type {key!r} (got {list(counts)}). "
                f"Add it, or give one number for all {kind} types."
            )
        return counts[key]

    def pad_value(self, level: str) -> float:
        """The padding value of node, edge or graph attributes."""
        values = {NODE: self.node_pad_value, EDGE: self.edge_pad_value, GRAPH: self.graph_pad_value}
        return values[level]

    @classmethod
    def from_dataset(
        cls,
        dataset: Any,
        batch_size: int,
        sample_limit: int | None = None,
        progress_bar: bool | None = None,
    ) -> FixedSizeOptions:
        """Options with room for ``batch_size - 1`` graphs of the dataset's largest size.

        Args:
            dataset: The graphs.
            batch_size: Graphs in a batch, including one padding graph.
            sample_limit: Look at no more than this many graphs, evenly spread (default: at all).
            progress_bar: Show progress while reading graphs one by one (default: from 10,000 on).
        """
        _num_graphs("batch_size", batch_size)
        return cls.from_sizes(sizes_of(dataset, sample_limit, progress_bar), batch_size)

    @classmethod
    def from_sizes(cls, sizes: dict[Group, Tensor], batch_size: int) -> FixedSizeOptions:
        """The same for graphs whose nodes and edges of each type, ``[G]``, are known."""
        real_graphs = _num_graphs("batch_size", batch_size) - 1
        room = {group: int(counts.max()) * real_graphs + 1 for group, counts in sizes.items()}
        return cls._from_budgets(room, num_graphs=batch_size)

    @classmethod
    def from_loader(cls, loader: Any, sample_limit: int = 1000) -> FixedSizeOptions:
        """Options with room for the largest of the batches that a loader yields, and one node and edge more.

        A loader that samples at random seldom shows its largest batch, so the result is an estimate.

        Args:
            loader: Yields ``Data``, ``HeteroData`` or batches of them.
            sample_limit: How many batches to look at; the loader is restarted when it has fewer.
        """
        room: dict[Group, int] = {}
        num_graphs = 1
        for batch in _repeat(loader, sample_limit):
            for group, count in _batch_counts(batch).items():
                room[group] = max(room.get(group, 0), count + 1)
            num_graphs = max(num_graphs, getattr(batch, "num_graphs", 1) or 1)
        return cls._from_budgets(room, num_graphs=num_graphs + 1)

    @classmethod
    def for_packing(
        cls, dataset: Any, num_nodes: int | None = None, num_graphs: int | None = None
    ) -> FixedSizeOptions:
        """Options whose budgets are filled almost completely by ``FixedSizeStrategy.Pack``.

        Give the size that you wish for, either as nodes or as graphs; the other budgets are chosen for the
        dataset so that the padded batches of an epoch are as small as possible in all. The result says in its
        ``repr`` what it expects.

        Args:
            dataset: The graphs.
            num_nodes: Nodes in a padded batch (of all types together, if heterogeneous).
            num_graphs: Graphs in a padded batch, including one padding graph.
        """
        if (num_nodes is None) == (num_graphs is None):
            raise ValueError(
                "for_packing needs the wished size of a batch either as num_nodes or as num_graphs "
                f"(got num_nodes={num_nodes!r}, num_graphs={num_graphs!r})."
            )
        return cls.for_packing_sizes(sizes_of(dataset), num_nodes, num_graphs)

    @classmethod
    def for_packing_sizes(
        cls, sizes: dict[Group, Tensor], num_nodes: int | None = None, num_graphs: int | None = None
    ) -> FixedSizeOptions:
        """The same for graphs whose nodes and edges of each type, ``[G]``, are known."""
        if num_graphs is not None:
            choice = choose_budgets(sizes, num_graphs=_num_graphs("num_graphs", num_graphs) - 1)
        else:
            choice = choose_budgets(sizes, num_nodes=_count("num_nodes", num_nodes, least=2) - 1)
        options = cls._from_budgets(
            {group: count + 1 for group, count in choice.room.items()}, choice.num_graphs + 1
        )
        options._explanation = f", chosen for packing: {choice.explanation}"
        return options

    @classmethod
    def _from_budgets(cls, room: dict[Group, int], num_graphs: int) -> FixedSizeOptions:
        if (NODE, None) in room:
            return cls(max(room[NODE, None], 2), room[EDGE, None], num_graphs)
        num_nodes = {key: max(count, 2) for (level, key), count in room.items() if level == NODE}
        num_edges = {key: count for (level, key), count in room.items() if level == EDGE}
        return cls(num_nodes, num_edges, num_graphs)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, FixedSizeOptions):
            return NotImplemented
        return self._values() == other._values()

    def __hash__(self) -> int:
        return hash((self.total_num_nodes, self.total_num_edges, self.num_graphs))

    def _values(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if not name.startswith("_")}

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}("
            f"num_nodes={self.num_nodes} (At least one node reserved for padding), "
            f"num_edges={self.num_edges} (At least one edge reserved for padding), "
            f"num_graphs={self.num_graphs} (At least one graph reserved for padding), "
            f"node_pad_value={self.node_pad_value}, edge_pad_value={self.edge_pad_value}, "
            f"graph_pad_value={self.graph_pad_value}, pad_graph_defaults={self.pad_graph_defaults}"
            f"{self._explanation})"
        )


def _counts(name: str, value: Any, least: int) -> Any:
    if isinstance(value, dict):
        return {key: _count(f"{name}[{key!r}]", count, least) for key, count in value.items()}
    return _count(name, value, least)


def _count(name: str, value: Any, least: int) -> int:
    whole = isinstance(value, Integral) or (
        isinstance(value, Real) and math.isfinite(value) and value == int(value)
    )
    if isinstance(value, bool) or not whole or value < least:
        hint = " (one real and one padding node)" if least == 2 else ""
        raise ValueError(f"{name} should be a whole number of at least {least}{hint} (got {value!r}).")
    return int(value)


def _num_graphs(name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, Integral) or value < 2:
        raise ValueError(
            f"{name} should be at least 2, one real graph and one padding graph that fills the batch up to "
            f"its fixed size (got {value!r})."
        )
    return int(value)


def _repeat(loader: Any, limit: int) -> Any:
    seen = 0
    while seen < limit:
        before = seen
        for batch in loader:
            if seen >= limit:
                return
            seen += 1
            yield batch
        if seen == before:
            raise ValueError(
                "The loader is empty (got 0 batches): at least one is needed to find a fixed size."
            )


def _batch_counts(batch: Any) -> dict[Group, int]:
    if isinstance(batch, HeteroData):
        nodes = {(NODE, key): batch[key].num_nodes for key in batch.node_types}
        return {**nodes, **{(EDGE, key): batch[key].num_edges for key in batch.edge_types}}
    return {(NODE, None): batch.num_nodes, (EDGE, None): batch.num_edges}
