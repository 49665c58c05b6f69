"""How much of the batches of a loader is real, and how few batches there could be."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch

from .collating import MASKS
from .graphs import EDGE, GRAPHS, Group, kind_of
from .options import FixedSizeStrategy
from .packing import fewest_packs


class Efficiency(NamedTuple):
    """The real share of nodes, edges and graphs, between 0 and 1, and how good the plan is.

    Args:
        nodes: Real nodes / all nodes.
        edges: Real edges / all edges.
        graphs: Real graphs / all graphs.
        batches: How many mini-batches the epoch has.
        fewest: The least that any plan for the same graphs and budgets could have.
        fewest_by_budget: The same for each budget by itself: `"nodes"`, `"edges"`, `"graphs"` (in a
            heterogeneous batch nodes and edges of each type).
    """

    nodes: float
    edges: float
    graphs: float
    batches: int = 0
    fewest: int = 0
    fewest_by_budget: dict[str, int] = {}

    def __str__(self) -> str:
        plan = f"; {self.batches} batches; none can need fewer than {self.fewest}" if self.batches else ""
        return (
            f"{self.nodes:.2%} of nodes, {self.edges:.2%} of edges and {self.graphs:.2%} of graphs are "
            f"real{plan}"
        )


def efficiency(loader: Any) -> Efficiency:
    """Goes through one epoch of a fixed-size loader: how much of it is real, and how good is its plan?

    Args:
        loader: A loader whose batches carry the padding masks (`add_pad_masks=True`).

    Example:
        >>> import torch
        >>> from torch_geometric.data import Data
        >>> from gnn_ipu_helpers import FixedSizeDataLoader
        >>> graphs = [Data(x=torch.ones(n, 1), edge_index=torch.tensor([[0], [1]])) for n in (2, 3, 4)]
        >>> print(efficiency(FixedSizeDataLoader(graphs, batch_size=3)))
        50.00% of nodes, 50.00% of edges and 50.00% of graphs are real; 2 batches; none can need fewer than 2
    """
    options = getattr(loader, "fixed_size_options", None)
    real: dict[Group, int] = {}
    total: dict[Group, int] = {}
    budgets: dict[Group, int] = {}
    if not hasattr(loader, "__iter__"):
        raise TypeError(
            f"'efficiency' goes through a loader of fixed-size batches (got {type(loader).__name__})."
        )
    with torch.random.fork_rng(devices=[]):  # a look at an epoch does not change those that follow
        for batch in loader:
            for store in getattr(batch, "stores", ()):
                for level, name in MASKS.items():
                    if name in store:
                        group, mask = (level, store._key), store[name]
                        real[group] = real.get(group, 0) + int(mask.sum())
                        total[group] = total.get(group, 0) + mask.numel()
                        budgets[group] = mask.numel() if options is None else options.budget(group)
    if {level for level, _ in total} != set(MASKS):
        raise ValueError(
            "The batches carry no padding masks, without which real and padding cannot be told apart. Make "
            "the loader with add_pad_masks=True."
        )
    shares = {}
    for level in MASKS:
        number, of = (sum(n for group, n in counts.items() if group[0] == level) for counts in (real, total))
        shares[f"{level}s"] = number / of if of else 1.0
    packs = getattr(loader, "fixed_size_strategy", FixedSizeStrategy.PadToMax) != FixedSizeStrategy.PadToMax
    # If every graph of the loader's came whole, their own sizes say more than the sum of them.
    known = getattr(loader.dataset, "counts", None) if hasattr(loader, "dataset") else None
    fewest = {}
    for group, budget in budgets.items():
        room = budget - (group[0] != EDGE) if options is None else options.room(group, keep_edge=packs)
        sizes = np.ones(real[group], dtype=np.int64)
        if known is not None and group in known and int(known[group].sum()) == real[group]:
            sizes = known[group].numpy()
        fewest[kind_of(group)] = fewest_packs(sizes[:, None], np.array([room]))
    return Efficiency(
        **shares,
        batches=total[GRAPHS] // budgets[GRAPHS],
        fewest=max(fewest.values()),
        fewest_by_budget=fewest,
    )
