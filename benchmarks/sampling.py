"""Batches of neighbourhoods and of clusters on PubMed: 512 seeds at [10, 10], and 100 clusters of METIS.

The copy limit is what a loader would take if it only had to copy the features of the sampled nodes.
"""

from __future__ import annotations

from itertools import cycle
from typing import Callable, Iterator

import torch
from timing import Row, compared, in_turns
from torch_geometric.loader import ClusterLoader

from gnn_ipu_helpers import datasets, partition
from gnn_ipu_helpers.batching import (
    FixedSizeClusterLoader,
    FixedSizeNeighborLoader,
    FixedSizeOptions,
    neighbor_loader,
)

FAN_OUTS, NUM_SEEDS = [10, 10], 512
NUM_CLUSTERS, CLUSTERS = 100, 4


def one_batch(loader) -> Callable[[], object]:
    """A function that draws the next batch, epoch after epoch."""

    def endless() -> Iterator:
        while True:
            yield from loader

    batches = endless()
    return lambda: next(batches)


def measured(rounds: int) -> list[Row]:
    """Rows for neighbourhoods and for clusters."""
    torch.manual_seed(0)
    data = datasets.pubmed()[0]
    how = {"batch_size": NUM_SEEDS, "shuffle": True, "drop_last": True}
    plain = neighbor_loader(data, FAN_OUTS, **how)
    sizes = FixedSizeOptions.from_loader(plain, sample_limit=30)
    node_ids = [batch.n_id for _, batch in zip(range(10), plain)]
    ids = cycle(node_ids)
    neighbours = {
        "PyG's NeighborLoader, our sampler": one_batch(plain),
        "FixedSizeNeighborLoader": one_batch(
            FixedSizeNeighborLoader(data, FAN_OUTS, fixed_size_options=sizes, **how)
        ),
        "copy limit": lambda: data.x[next(ids)],
    }
    parts = partition(data, NUM_CLUSTERS)
    theirs = ClusterLoader(parts, batch_size=CLUSTERS, shuffle=True)
    fixed = FixedSizeClusterLoader(
        parts, FixedSizeOptions.from_loader(theirs), batch_size=CLUSTERS, shuffle=True
    )
    clusters = {"PyG's ClusterLoader": one_batch(theirs), "FixedSizeClusterLoader": one_batch(fixed)}
    rows = []
    for what, functions in (("neighbours", neighbours), ("clusters", clusters)):
        for function in functions.values():
            function()
        times = in_turns(functions, rounds, seconds=0.05)
        found = compared(f"sampling: {what} of PubMed, CPU time of a batch", times, next(iter(functions)))
        for row in found:
            row.name = f"{row.name} ({1e3 / row.value:,.0f}/s)"
        rows += found
    return rows
