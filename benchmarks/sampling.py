"""Batches per second of neighbour sampling on PubMed, 512 seeds at [10, 10], on one core.

Run with ``python benchmarks/sampling.py``. The last column is the share of the copy limit: what a loader
would reach if it only had to copy the features of the sampled nodes.
"""

from __future__ import annotations

import time
from itertools import cycle, islice

import torch
from torch_geometric.sampler import NodeSamplerInput

from gnn_ipu_helpers import datasets
from gnn_ipu_helpers.batching import FixedSizeNeighborLoader, FixedSizeOptions, neighbor_loader
from gnn_ipu_helpers.batching.sampling import VectorisedNeighborSampler

FAN_OUTS = [10, 10]
NUM_SEEDS = 512
NUM_BATCHES = 100
REPEATS = 5


def best_seconds_per_batch(make_batches) -> float:
    """Processor time for one of ``NUM_BATCHES`` batches, in the best of several runs.

    Other work on the machine lengthens that less than the time on the clock.
    """
    best = float("inf")
    for _ in range(REPEATS):
        start = time.process_time()
        for _ in islice(make_batches(), NUM_BATCHES):
            pass
        best = min(best, time.process_time() - start)
    return best / NUM_BATCHES


def endless(loader):
    """The loader's batches, epoch after epoch."""
    while True:
        yield from loader


def sampler_alone(data):
    """Samples of random seeds, without features."""
    sampler = VectorisedNeighborSampler(data, FAN_OUTS)
    while True:
        seeds = torch.randperm(data.num_nodes)[:NUM_SEEDS]
        yield sampler.sample_from_nodes(NodeSamplerInput(seeds, seeds))


def main() -> None:
    """Measures and prints the table."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    data = datasets.pubmed()[0]
    plain = neighbor_loader(data, FAN_OUTS, batch_size=NUM_SEEDS, shuffle=True, drop_last=True)
    fixed = FixedSizeNeighborLoader(
        data,
        FAN_OUTS,
        batch_size=NUM_SEEDS,
        shuffle=True,
        drop_last=True,
        fixed_size_options=FixedSizeOptions.from_loader(plain, sample_limit=50),
    )
    node_ids = [batch.n_id for batch in islice(endless(plain), 20)]
    rows = {
        "copy limit: features of the sampled nodes": lambda: (data.x[n_id] for n_id in cycle(node_ids)),
        "sampler alone": lambda: sampler_alone(data),
        "NeighborLoader with our sampler": lambda: endless(plain),
        "FixedSizeNeighborLoader": lambda: endless(fixed),
    }
    seconds = {name: best_seconds_per_batch(make_batches) for name, make_batches in rows.items()}
    limit = next(iter(seconds.values()))
    mean_nodes = sum(n_id.numel() for n_id in node_ids) / len(node_ids)
    size = f"{mean_nodes:.0f} nodes in a sample, {data.num_features} features each"
    print(f"PubMed, {NUM_SEEDS} seeds at {FAN_OUTS}: {size}")
    print(f"{'':45}{'ms/batch':>10}{'batches/s':>11}{'of limit':>10}")
    for name, value in seconds.items():
        share = "" if name == "sampler alone" else f"{limit / value:.0%}"
        print(f"{name:45}{value * 1e3:10.2f}{1 / value:11.0f}{share:>10}")


if __name__ == "__main__":
    main()
