"""Loaders: epochs through PyG's, with `T.Pad` and `DynamicBatchSampler`, and through ours; plans; growth.

Every loader goes through the same graphs, shuffled, about as many in a batch, so that epochs compare. The
copy limit is the time in which the bare memory of all batches of an epoch could be copied once.
"""

from __future__ import annotations

import time
from typing import Any, Callable

import torch
from timing import Row, compared, in_turns
from torch_geometric import transforms as T
from torch_geometric.data import InMemoryDataset
from torch_geometric.loader import DataLoader as PyGDataLoader
from torch_geometric.loader import DynamicBatchSampler

from gnn_ipu_helpers.batching import FixedSizeDataLoader, FixedSizeOptions, FixedSizeStrategy, efficiency

GRAPHS = 127
NOT_TENSORS = ["name", "smiles"]


class Tiled(InMemoryDataset):
    """The first graphs of an in-memory dataset, many times over."""

    def __init__(self, dataset: InMemoryDataset, num_graphs: int, times: int = 1) -> None:
        super().__init__()
        self.data, self.slices = self.collate([dataset[i] for i in range(min(num_graphs, len(dataset)))])
        if times > 1:
            for key, ends in self.slices.items():
                value, steps = self.data[key], ends.diff().repeat(times)
                self.slices[key] = torch.cat([ends[:1], steps.cumsum(0)])
                if isinstance(value, torch.Tensor):
                    dim = self.data.__cat_dim__(key, value)
                    self.data[key] = torch.cat([value] * times, dim=dim)
                else:
                    self.data[key] = value * times
            self.data.num_nodes = None if self.data.x is not None else self.data.num_nodes


def drained(loader: Any) -> Callable[[], None]:
    """A function that runs one epoch."""

    def run() -> None:
        for _ in loader:
            pass

    return run


def ours(dataset: InMemoryDataset, strategy: FixedSizeStrategy, **kwargs: Any) -> FixedSizeDataLoader:
    """Our loader with about `GRAPHS` real graphs in a batch."""
    sizes = None
    if strategy is not FixedSizeStrategy.PadToMax:
        sizes = FixedSizeOptions.for_packing(dataset, num_graphs=GRAPHS + 1)
    return FixedSizeDataLoader(
        dataset,
        GRAPHS + 1,
        shuffle=True,
        fixed_size_options=sizes,
        fixed_size_strategy=strategy,
        exclude_keys=NOT_TENSORS,
        **kwargs,
    )


def copied(loader: FixedSizeDataLoader) -> Callable[[], None]:
    """A function that copies a batch's tensors as often as an epoch has batches."""
    tensors = [value for _, value in next(iter(loader)) if isinstance(value, torch.Tensor)]
    number = len(loader)

    def run() -> None:
        for _ in range(number):
            for tensor in tensors:
                tensor.clone()

    return run


def epochs(name: str, dataset: InMemoryDataset, num_workers: int, rounds: int) -> list[Row]:
    """A row for each loader: the time for a thousand graphs."""
    kwargs = {"num_workers": num_workers, "persistent_workers": num_workers > 0}
    sizes = [(graph.num_nodes, graph.num_edges) for graph in dataset]
    largest = T.Pad(*(max(column) for column in zip(*sizes)))
    padded = dataset.copy()
    padded.transform = lambda graph: largest(graph.clone())
    budget = sum(nodes for nodes, _ in sizes) * GRAPHS // len(dataset)
    sampler = DynamicBatchSampler(dataset, budget, mode="node", shuffle=True)
    loaders = {
        "PyG's DataLoader": PyGDataLoader(dataset, GRAPHS, shuffle=True, exclude_keys=NOT_TENSORS, **kwargs),
        "PyG's with T.Pad": PyGDataLoader(padded, GRAPHS, shuffle=True, exclude_keys=NOT_TENSORS, **kwargs),
        "PyG's DynamicBatchSampler": PyGDataLoader(
            dataset, batch_sampler=sampler, exclude_keys=NOT_TENSORS, **kwargs
        ),
        **{f"ours, {strategy.name}": ours(dataset, strategy, **kwargs) for strategy in FixedSizeStrategy},
    }
    runs = {key: drained(loader) for key, loader in loaders.items()}
    if num_workers == 0:
        runs["copy limit (Pack)"] = copied(loaders["ours, Pack"])
    for run in runs.values():
        run()  # starts workers; PyG keeps the graphs that it has read
    # Workers' CPU time is not this process's: what counts is how long it waits for them.
    timer = time.perf_counter if num_workers else time.process_time
    times = in_turns(runs, rounds, seconds=0.02, timer=timer)
    clock = "wall" if num_workers else "CPU"
    section = f"loaders: {name}, {num_workers} workers, {clock} time for 1,000 graphs"
    return compared(section, times, "PyG's DataLoader", scale=1e6 / len(dataset))


def packing(name: str, dataset: InMemoryDataset) -> list[Row]:
    """How full batches are, how many packs are more than the bound, and how long planning takes."""
    section, rows = f"packing: {name}, {len(dataset):,} graphs", []
    for strategy in FixedSizeStrategy:
        loader = ours(dataset, strategy)
        began = time.process_time()
        number = len(loader)
        seconds = time.process_time() - began
        report = efficiency(loader)
        rows.append(Row(section, f"{strategy.name}: real nodes", 100 * report.nodes, "%"))
        rows.append(Row(section, f"{strategy.name}: real edges", 100 * report.edges, "%"))
        if strategy is FixedSizeStrategy.Pack:
            rows.append(Row(section, "Pack: packs", number, ""))
            rows.append(Row(section, "Pack: packs over the bound", report.batches - report.fewest, ""))
            rows.append(Row(section, "Pack: planning", 1e3 * seconds, "ms"))
    return rows


def growth(dataset: InMemoryDataset, rounds: int, factors: tuple[int, ...] = (1, 10, 100)) -> list[Row]:
    """The time for a batch, over whole epochs, while the dataset grows a hundredfold."""
    rows, first = [], None
    for factor in factors:
        tiled = Tiled(dataset, 1000, factor)
        loader = ours(tiled, FixedSizeStrategy.PadToMax)
        times = in_turns({f"{len(tiled):,} graphs": drained(loader)}, rounds, seconds=0.02)
        (row,) = compared(
            "growth: QM9 tiled, PadToMax, CPU time of a batch",
            times,
            "",
            scale=1e3 / len(loader),
            without_ratio=tuple(times),
        )
        first = first or row.value
        row.times = row.times_low = row.times_high = first / row.value
        row.baseline = "the smallest"
        rows.append(row)
    return rows
