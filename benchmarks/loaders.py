"""Loaders side by side with PyG's, on QM9: one run, one thread, ratios.

Times are CPU times of this process, the least of several rounds, so that a busy machine disturbs them little.
"of limit" is the share of the time in which the bare memory of a batch could be copied once.
"""

from __future__ import annotations

import itertools
import time
from typing import Any, Iterable

import torch
from torch_geometric.data import InMemoryDataset
from torch_geometric.loader import DataLoader as PyGDataLoader

from gnn_ipu_helpers import datasets
from gnn_ipu_helpers.batching import FixedSizeDataLoader, FixedSizeOptions, FixedSizeStrategy, efficiency

GRAPHS, FEW_GRAPHS = 127, 28
NOT_TENSORS = ["name", "smiles"]
BATCHES = 20
ROUNDS = 7


class Tiled(InMemoryDataset):
    """The first graphs of an in-memory dataset, many times over."""

    def __init__(self, dataset: InMemoryDataset, num_graphs: int, times: int) -> None:
        super().__init__()
        graphs = [dataset[index] for index in range(num_graphs)]
        self.data, self.slices = self.collate(graphs * times)


def per_batch(loader: Iterable[Any]) -> float:
    """Milliseconds of CPU time for each batch, plan included."""
    start, number = time.process_time(), 0
    for _ in loader:
        number += 1
    return 1e3 * (time.process_time() - start) / number


def side_by_side(ours: Iterable[Any], theirs: Iterable[Any]) -> tuple[float, float]:
    """The least time per batch of two loaders, taken alternately: whole epochs of ours, a part of theirs.

    PyG keeps the graphs that it has read once; one epoch before the first round lets it read them all.
    """
    per_batch(theirs)
    times = [(per_batch(ours), per_batch(itertools.islice(theirs, BATCHES))) for _ in range(ROUNDS)]
    return tuple(min(column) for column in zip(*times))


def copying(batch: Any) -> float:
    """Milliseconds for copying all tensors of a batch once."""
    tensors = [value for _, value in batch if isinstance(value, torch.Tensor)]
    start = time.process_time()
    for _ in range(200):
        for tensor in tensors:
            tensor.clone()
    return 1e3 * (time.process_time() - start) / 200


def graphs_per_batch(loader: FixedSizeDataLoader) -> float:
    """Real graphs in a batch, on average."""
    return len(loader.dataset) / len(loader)


def strategies(dataset: InMemoryDataset, graphs: int) -> dict[str, FixedSizeDataLoader]:
    """A loader for each strategy with about so many real graphs in a batch."""
    packed = FixedSizeOptions.for_packing(dataset, num_graphs=graphs + 1)
    return {
        "PadToMax": FixedSizeDataLoader(dataset, graphs + 1, shuffle=True, exclude_keys=NOT_TENSORS),
        "Pack": FixedSizeDataLoader(
            dataset,
            shuffle=True,
            fixed_size_options=packed,
            fixed_size_strategy=FixedSizeStrategy.Pack,
            exclude_keys=NOT_TENSORS,
        ),
    }


def report_speed(dataset: InMemoryDataset) -> None:
    """Time per batch against PyG's loader with as many graphs in a batch."""
    heads = ("graphs", "ours ms", "PyG ms", "times", "copy ms", "of limit", "nodes")
    print(" " * 10 + "".join(f"{head:>10}" for head in heads))
    for graphs in (GRAPHS, FEW_GRAPHS):
        for name, loader in strategies(dataset, graphs).items():
            pyg = PyGDataLoader(dataset, round(graphs_per_batch(loader)), shuffle=True)
            ours, theirs = side_by_side(loader, pyg)
            copied = min(copying(next(iter(loader))) for _ in range(ROUNDS))
            print(
                f"{name:10}{graphs_per_batch(loader):10.1f}{ours:10.3f}{theirs:10.2f}{theirs / ours:9.1f}x"
                f"{copied:10.3f}{copied / ours:10.0%}{efficiency(loader).nodes:10.1%}"
            )


def report_growth(dataset: InMemoryDataset) -> None:
    """Time per batch over whole epochs, while the dataset grows a hundredfold."""
    base = min(1000, len(dataset))
    print(f"\n{'graphs':>10}{'ms per batch':>14}{'relative':>10}")
    first = None
    for times in (1, 10, 100):
        tiled = Tiled(dataset, base, times)
        loader = FixedSizeDataLoader(tiled, GRAPHS + 1, shuffle=True, exclude_keys=NOT_TENSORS)
        # As many batches at each size, whole epochs of them.
        rounds = [per_batch(itertools.chain.from_iterable([loader] * (100 // times))) for _ in range(3)]
        first = first or min(rounds)
        print(f"{base * times:10,}{min(rounds):14.3f}{min(rounds) / first:10.2f}")


def report_plan(dataset: InMemoryDataset) -> None:
    """How long it takes to plan packs for 130,000 graphs, and how full they get."""
    large = Tiled(dataset, 1000, 130)
    for num_nodes, shuffle in itertools.product((512, 256), (True, False)):
        options = FixedSizeOptions.for_packing(large, num_nodes=num_nodes)
        loader = FixedSizeDataLoader(
            large,
            shuffle=shuffle,
            fixed_size_options=options,
            fixed_size_strategy=FixedSizeStrategy.Pack,
            exclude_keys=NOT_TENSORS,
        )
        start = time.process_time()
        len(loader)
        took = time.process_time() - start
        order = "shuffled" if shuffle else "in order"
        print(f"\n{len(large):,} graphs, {order}, in packs of {num_nodes} nodes, planned in {took:.2f} s")
        print(f"  {efficiency(loader)}")


def main() -> None:
    """Prints all three reports."""
    torch.set_num_threads(1)
    dataset = datasets.qm9()
    print(f"QM9: {len(dataset):,} graphs\n")
    report_speed(dataset)
    report_growth(dataset)
    report_plan(dataset)


if __name__ == "__main__":
    main()
