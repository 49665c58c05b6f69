"""The fixed size of a batch, how graphs are put together to fill it, and what becomes of those too large."""

from __future__ import annotations

import difflib
import math
from enum import Enum
from numbers import Integral, Number, Real
from typing import Any, Dict, Iterable, Sequence, Union

import torch
from torch import Tensor
from torch_geometric.data import Data, HeteroData
from torch_geometric.typing import EdgeType, NodeType

from .graphs import EDGE, GRAPH, GRAPHS, NODE, Field, Group, counts_of, read_graphs
from .packing import choose_budgets

# Why a number has to be at least 2 or 3.
_ONE_OF_EACH = ", one real graph and one padding graph that fills the batch up to its fixed size"
_REASONS = {
    2: " (one real and one padding node)",
    3: " (one real and, with pad_positions, two padding nodes)",
}

NodeCounts = Union[int, Dict[NodeType, int]]
EdgeCounts = Union[int, Dict[EdgeType, int]]

# A loader is gone through again for more batches until so many epochs in a row have shown no other sizes.
_EPOCHS_WITHOUT_NEWS = 2


def nearest(name: str, names: Iterable[str]) -> str:
    """ " Did you mean 'PadToMax'?", if one of the names is like the one given, else nothing."""
    by_lower = {known.lower().replace("_", ""): known for known in names}
    close = difflib.get_close_matches(str(name).lower().replace("_", ""), by_lower, n=1, cutoff=0.6)
    return f" Did you mean '{by_lower[close[0]]}'?" if close else ""


class _Choice(Enum):
    """An enumeration that also takes the name of a member, and answers to a wrong one with those it has."""

    @classmethod
    def _missing_(cls, value: object) -> _Choice:
        names, name = list(cls.__members__), str(value).split(".")[-1]
        if name in names:
            return cls[name]
        raise ValueError(
            f"{value!r} is not a valid {cls.__name__}.{nearest(name, names)} Give one "
            f"of {', '.join(f'{cls.__name__}.{name}' for name in names)}."
        )


class FixedSizeStrategy(_Choice):
    """How graphs are put together into batches of one fixed size.

    Attributes:
        PadToMax: `batch_size - 1` graphs in each batch, the rest is padding.
        StreamPack: take graphs in the sampler's order until the next one no longer fits.
        Pack: plan the whole epoch from the sizes of all graphs, so that hardly any padding is left.
    """

    PadToMax = 0
    StreamPack = 1
    Pack = 2


class OverSizeStrategy(_Choice):
    """What to do with graphs that are too large for the fixed size.

    Attributes:
        Error: raise, naming the graph, its size and the budget.
        Skip: leave the graph out and count it.
        TrimNodes: drop nodes (and their edges) until the nodes fit.
        TrimEdges: drop edges until the edges fit.
        TrimNodesAndEdges: drop nodes first, then edges.
    """

    Error = 0
    Skip = 1
    TrimNodes = 2
    TrimEdges = 3
    TrimNodesAndEdges = 4

    @property
    def trims(self) -> bool:
        """Whether anything may be dropped from a graph."""
        return self.trims_nodes or self.trims_edges

    @property
    def trims_nodes(self) -> bool:
        """Whether nodes may be dropped."""
        return self in (OverSizeStrategy.TrimNodes, OverSizeStrategy.TrimNodesAndEdges)

    @property
    def trims_edges(self) -> bool:
        """Whether edges may be dropped."""
        return self in (OverSizeStrategy.TrimEdges, OverSizeStrategy.TrimNodesAndEdges)


class FixedSizeOptions:
    """The size that every batch of a loader is padded to.

    Args:
        num_nodes: Nodes in a padded batch, or a dictionary with the nodes of each type. At least one of them
            is padding.
        num_edges: Edges in a padded batch, or a dictionary with the edges of each type. By default as many
            as a fully connected graph has: `num_nodes * (num_nodes - 1)`.
        num_graphs: Graphs in a padded batch, including at least one padding graph.
        node_pad_value: Value of the padding in node attributes (default 0.0).
        edge_pad_value: Value of the padding in edge attributes (default 0.0).
        graph_pad_value: Value of the padding in graph attributes (default 0.0).
        pad_graph_defaults: What attributes that are not tensors get in a padding graph, by attribute name.
            Only the non-tensor attributes named here are part of a batch.
        pad_positions: A distance, for models that measure distances between nodes. By default every padding
            edge is a loop and every padding node lies at the same point, and at a distance of zero a square
            root has an infinite gradient and `1 / distance` no value. With it, the padding nodes lie that far
            apart on a line in the attribute `pos`, and a padding edge joins two of them; at least two nodes
            of each type are then padding. Choose more than the model's cutoff radius.

    Example:
        >>> options = FixedSizeOptions(num_nodes=100, num_edges=200, num_graphs=10)
        >>> options.num_nodes, options.is_hetero()
        (100, False)
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
        pad_positions: float | None = None,
    ) -> None:
        if pad_positions is not None and not (_is_finite(pad_positions) and pad_positions > 0):
            raise ValueError(
                f"pad_positions should be a distance larger than 0, or None (got {pad_positions!r})."
            )
        if not isinstance(pad_graph_defaults, (dict, type(None))):
            raise TypeError(
                "pad_graph_defaults should be a dictionary with a value for each attribute (got "
                f"{pad_graph_defaults!r})."
            )
        self.pad_positions = pad_positions
        self.num_nodes: Any = _counts("num_nodes", num_nodes, least=1 + self.num_reserved_nodes)
        if num_edges is None:
            num_edges = self.total_num_nodes * (self.total_num_nodes - 1)
        self.num_edges: Any = _counts("num_edges", num_edges, least=0)
        self.num_graphs = whole_number("num_graphs", num_graphs, 2, _ONE_OF_EACH)
        self.node_pad_value, self.edge_pad_value, self.graph_pad_value = (
            0.0 if value is None else value for value in (node_pad_value, edge_pad_value, graph_pad_value)
        )
        self.pad_graph_defaults = {} if pad_graph_defaults is None else pad_graph_defaults
        self._explanation = ""

    def is_hetero(self) -> bool:
        """Whether nodes and edges are given for each type."""
        return isinstance(self.num_nodes, dict) and isinstance(self.num_edges, dict)

    def to_hetero(self, node_types: Sequence[Any], edge_types: Sequence[Any]) -> FixedSizeOptions:
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

    @property
    def num_reserved_nodes(self) -> int:
        """How many nodes of each type are padding at the least."""
        return 1 if self.pad_positions is None else 2

    def budget(self, group: Group) -> int:
        """The padded number of graphs, or of nodes or edges of one type (of all, in a homogeneous graph)."""
        level, key = group
        if level == GRAPH:
            return self.num_graphs
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
                f"FixedSizeOptions has no {argument} for the {kind} type {key!r} (got {list(counts)}). Add "
                f"it, or give one number for all {kind} types."
            )
        return counts[key]

    def room(self, group: Group, keep_edge: bool = False) -> int:
        """How many real graphs, nodes or edges a batch can hold beside the padding.

        Args:
            group: What is counted.
            keep_edge: Whether one edge is padding too. Padding nodes need none, but PopTorch Geometric keeps
                one when it packs.
        """
        reserved = {NODE: self.num_reserved_nodes, EDGE: int(keep_edge), GRAPH: 1}
        return max(self.budget(group) - reserved[group[0]], 0)

    def lack_of_room(self, group: Group, needed: int) -> str:
        """What a message says where there is no room for so many: how much there is, and what to raise."""
        name, budget, room = f"num_{group[0]}s", self.budget(group), self.room(group)
        return f"{name}={budget} leaves room for {room}. Raise {name} to at least {needed + budget - room}"

    def pad_value(self, field: Field) -> float:
        """The padding value of an attribute; raises if its dtype cannot hold that."""
        level, dtype = field.level, field.dtype
        value = {NODE: self.node_pad_value, EDGE: self.edge_pad_value, GRAPH: self.graph_pad_value}[level]
        if not isinstance(value, Number):
            raise TypeError(f"{level}_pad_value should be a number (got {value!r}).")
        if dtype is None or dtype == torch.bool:
            return value
        if dtype.is_floating_point or dtype.is_complex:
            fits = not _is_finite(value) or abs(value) <= torch.finfo(dtype).max
        else:
            limits = torch.iinfo(dtype)
            fits = _is_finite(value) and value == int(value) and limits.min <= value <= limits.max
        if not fits:
            raise ValueError(
                f"{level}_pad_value={value!r} does not fit the attribute '{field.name}', which holds "
                f"{dtype}. Choose another value, convert the attribute in a transform, or leave it out with "
                f"exclude_keys=['{field.name}']."
            )
        return value

    @classmethod
    def from_dataset(
        cls,
        dataset: Any,
        batch_size: int,
        sample_limit: int | None = None,
        progress_bar: bool | None = None,
        **padding: Any,
    ) -> FixedSizeOptions:
        """Options with room for `batch_size - 1` graphs of the dataset's largest size.

        Args:
            dataset: The graphs.
            batch_size: Graphs in a batch, including one padding graph.
            sample_limit: Look at no more than this many graphs, evenly spread (default: at all).
            progress_bar: Show progress while reading graphs one by one (default: from 10,000 on).
            padding: What the padding is made of: `node_pad_value`, `pad_positions` …
        """
        whole_number("batch_size", batch_size, 2, _ONE_OF_EACH)
        sizes = read_graphs(dataset, (), sample_limit, progress_bar).counts
        return cls.from_sizes(sizes, batch_size, **padding)

    @classmethod
    def from_sizes(cls, sizes: dict[Group, Tensor], batch_size: int, **padding: Any) -> FixedSizeOptions:
        """The same for graphs whose nodes and edges of each type, `[G]`, are known."""
        real_graphs = whole_number("batch_size", batch_size, 2, _ONE_OF_EACH) - 1
        room = {group: int(counts.max()) * real_graphs for group, counts in sizes.items()}
        return cls._with_room(room, real_graphs, **padding)

    @classmethod
    def from_loader(cls, loader: Any, sample_limit: int = 1000, **padding: Any) -> FixedSizeOptions:
        """Options with room for the largest of the batches that a loader yields, and one node and edge more.

        A loader that samples at random seldom shows its largest batch, so the result is an estimate.

        Args:
            loader: Yields `Data`, `HeteroData` or batches of them.
            sample_limit: How many batches to look at. A loader that has fewer is gone through again, as long
                as that shows batches of other sizes.
            padding: What the padding is made of: `node_pad_value`, `pad_positions` …
        """
        if sample_limit < 1:
            raise ValueError(f"sample_limit should be at least 1 (got {sample_limit}).")
        room: dict[Group, int] = {}
        seen: set[Any] = set()
        num_looked_at = epochs_without_news = 0
        while num_looked_at < sample_limit and epochs_without_news < _EPOCHS_WITHOUT_NEWS:
            num_known = len(seen)
            for batch in loader:
                if not isinstance(batch, (Data, HeteroData)):
                    raise TypeError(
                        "A loader of graphs should yield Data or HeteroData objects, or batches of them (got "
                        f"{type(batch).__name__})."
                    )
                counts = {**counts_of(batch), GRAPHS: getattr(batch, "num_graphs", 1) or 1}
                seen.add(tuple(counts.items()))
                for group, count in counts.items():
                    room[group] = max(room.get(group, 0), count)
                num_looked_at += 1
                if num_looked_at == sample_limit:
                    break
            epochs_without_news = epochs_without_news + 1 if len(seen) == num_known else 0
        if not room:
            raise ValueError(
                "The loader is empty (got 0 batches): at least one is needed to find a fixed size."
            )
        return cls._with_room(room, room.pop(GRAPHS), **padding)

    @classmethod
    def for_packing(
        cls, dataset: Any, num_nodes: int | None = None, num_graphs: int | None = None, **padding: Any
    ) -> FixedSizeOptions:
        """Options whose budgets are filled almost completely by `FixedSizeStrategy.Pack`.

        Give the size that you wish for, either as nodes or as graphs; the other budgets are chosen for the
        dataset so that the padded batches of an epoch are as small as possible in all. The result says in its
        `repr` what it expects.

        Args:
            dataset: The graphs.
            num_nodes: Nodes in a padded batch (of all types together, if heterogeneous).
            num_graphs: Graphs in a padded batch, including one padding graph.
            padding: What the padding is made of: `node_pad_value`, `pad_positions` …
        """
        if (num_nodes is None) == (num_graphs is None):
            raise ValueError(
                "for_packing needs the wished size of a batch either as num_nodes or as num_graphs (got "
                f"num_nodes={num_nodes!r}, num_graphs={num_graphs!r})."
            )
        return cls.for_packing_sizes(read_graphs(dataset).counts, num_nodes, num_graphs, **padding)

    @classmethod
    def for_packing_sizes(
        cls,
        sizes: dict[Group, Tensor],
        num_nodes: int | None = None,
        num_graphs: int | None = None,
        **padding: Any,
    ) -> FixedSizeOptions:
        """The same for graphs whose nodes and edges of each type, `[G]`, are known."""
        reserved = 1 if padding.get("pad_positions") is None else 2
        if num_graphs is not None:
            wished = whole_number("num_graphs", num_graphs, 2, _ONE_OF_EACH)
            choice = choose_budgets(sizes, num_graphs=wished - 1)
        else:
            wished = _counts("num_nodes", num_nodes, least=1 + reserved)
            choice = choose_budgets(sizes, num_nodes=wished - reserved)
        options = cls._with_room(choice.room, choice.num_graphs, **padding)
        options._explanation = f", chosen for packing: {choice.explanation}"
        return options

    @classmethod
    def _with_room(cls, room: dict[Group, int], num_graphs: int, **padding: Any) -> FixedSizeOptions:
        """Options with room for so many real nodes and edges of each type, and graphs."""
        nodes = 1 if padding.get("pad_positions") is None else 2
        reserved = {NODE: nodes, EDGE: 1}
        least = {NODE: 1 + nodes, EDGE: 0}
        budgets = {group: max(count + reserved[group[0]], least[group[0]]) for group, count in room.items()}
        if (NODE, None) in budgets:
            return cls(budgets[NODE, None], budgets[EDGE, None], num_graphs + 1, **padding)
        num_nodes, num_edges = (
            {key: count for (at, key), count in budgets.items() if at == level} for level in (NODE, EDGE)
        )
        return cls(num_nodes, num_edges, num_graphs + 1, **padding)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, FixedSizeOptions):
            return NotImplemented
        return self._values() == other._values()

    def __hash__(self) -> int:
        return hash((self.total_num_nodes, self.total_num_edges, self.num_graphs))

    def _values(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if not name.startswith("_")}

    def __repr__(self) -> str:
        positions = "" if self.pad_positions is None else f", pad_positions={self.pad_positions}"
        return (
            f"{type(self).__name__}(num_nodes={self.num_nodes} (At least one node reserved for padding), "
            f"num_edges={self.num_edges} (At least one edge reserved for padding), "
            f"num_graphs={self.num_graphs} (At least one graph reserved for padding), "
            f"node_pad_value={self.node_pad_value}, edge_pad_value={self.edge_pad_value}, "
            f"graph_pad_value={self.graph_pad_value}, "
            f"pad_graph_defaults={self.pad_graph_defaults}{positions}{self._explanation})"
        )


def _is_finite(value: Any) -> bool:
    return isinstance(value, Real) and math.isfinite(value)


def check_options(options: Any) -> None:
    """Raises unless these are a `FixedSizeOptions`."""
    if not isinstance(options, FixedSizeOptions):
        raise TypeError(
            f"'fixed_size_options' needs to be a FixedSizeOptions (got {type(options).__name__})."
        )


def _counts(name: str, value: Any, least: int) -> Any:
    """A number of nodes or edges, or one for each type, checked; 28.0 counts as whole."""
    if isinstance(value, dict):
        return {key: _counts(f"{name}[{key!r}]", count, least) for key, count in value.items()}
    if _is_finite(value) and not isinstance(value, bool) and value == int(value):
        value = int(value)
    return whole_number(name, value, least, _REASONS.get(least, ""))


def whole_number(name: str, value: Any, least: int | None = None, why: str = "") -> int:
    """The value of an argument as an `int`; raises unless it is a whole number and large enough."""
    is_whole = isinstance(value, Integral) and not isinstance(value, bool)
    if not is_whole or (least is not None and value < least):
        kind = "" if is_whole else "a whole number" if least is None else "a whole number of "
        limit = "" if least is None else f"at least {least}"
        raise ValueError(f"{name} should be {kind}{limit}{why} (got {value!r}).")
    return int(value)


def list_of_names(argument: str, names: Any) -> list[str]:
    """The names of attributes that an argument gives, none if it is None."""
    if isinstance(names, str):
        raise TypeError(
            f"{argument} should be a list of names (got {names!r}). Write {argument}=[{names!r}]."
        )
    return list(names or ())
