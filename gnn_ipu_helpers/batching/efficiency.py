"""How much of the batches of a loader is real."""

from __future__ import annotations

from typing import Any, NamedTuple


class Efficiency(NamedTuple):
    """The real share of nodes, edges and graphs, between 0 and 1."""

    nodes: float
    edges: float
    graphs: float

    def __str__(self) -> str:
        return (
            f"{self.nodes:.2%} of nodes, {self.edges:.2%} of edges and {self.graphs:.2%} of graphs are real"
        )


def efficiency(loader: Any) -> Efficiency:
    """Goes through one epoch of a fixed-size loader and reports real/total for nodes, edges and graphs.

    Args:
        loader: A loader whose batches carry the padding masks (``add_pad_masks=True``).
    """
    real = {"nodes_mask": 0, "edges_mask": 0, "graphs_mask": 0}
    total = dict.fromkeys(real, 0)
    for batch in loader:
        for store in batch.stores:
            for name in real:
                if name in store:
                    real[name] += int(store[name].sum())
                    total[name] += store[name].numel()
    if 0 in total.values():
        raise ValueError(
            "The batches carry no padding masks, without which real and padding cannot be told apart. Make "
            "the loader with add_pad_masks=True."
        )
    return Efficiency(*(real[name] / total[name] for name in real))
