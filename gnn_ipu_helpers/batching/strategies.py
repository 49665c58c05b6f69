"""How a loader fills a fixed-size batch, and what it does with graphs that do not fit."""

from __future__ import annotations

from enum import Enum


class FixedSizeStrategy(Enum):
    """How graphs are put together into batches of one fixed size.

    Attributes:
        PadToMax: ``batch_size - 1`` graphs in each batch, the rest is padding.
        StreamPack: take graphs in the sampler's order until the next one no longer fits.
        Pack: plan the whole epoch from the sizes of all graphs, so that hardly any padding is left.
    """

    PadToMax = 0
    StreamPack = 1
    Pack = 2


class OverSizeStrategy(Enum):
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
