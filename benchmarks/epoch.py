"""An epoch of QM9 with the model of notebook 3: packed and compiled against plain PyG.

Run with `python benchmarks/epoch.py`. Plain PyG is its `DataLoader` and the eager model; both see the same
graphs, about as many in a batch, and are timed in turn in one process, by CPU time.
"""

from __future__ import annotations

import statistics
import sys
import time
import warnings
from pathlib import Path
from typing import Callable

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
warnings.simplefilter("ignore")  # PyG's own deprecations at import

import torch  # noqa: E402
from models import GapNet  # noqa: E402
from torch_geometric.loader import DataLoader  # noqa: E402

from gnn_ipu_helpers import FixedSizeDataLoader, FixedSizeOptions, FixedSizeStrategy, datasets  # noqa: E402
from gnn_ipu_helpers import poptorch_cpu as poptorch  # noqa: E402

NUM_GRAPHS, GRAPHS_PER_BATCH = 4000, 128
GAP = 4


def packed_and_compiled(dataset) -> tuple[Callable[[], None], float]:
    """A function that runs one epoch, and the graphs in a batch on average."""
    sizes = FixedSizeOptions.for_packing(dataset, num_graphs=GRAPHS_PER_BATCH)
    loader = FixedSizeDataLoader(
        dataset, shuffle=True, fixed_size_options=sizes, fixed_size_strategy=FixedSizeStrategy.Pack
    )
    model = GapNet(sizes.num_graphs).train()
    options = poptorch.Options().showCompilationProgressBar(False)
    training = poptorch.trainingModel(model, options, poptorch.optim.Adam(model.parameters(), lr=2e-3))

    def epoch() -> None:
        for batch in loader:
            edges = (batch.edge_index, batch.edge_attr)
            training(batch.x, *edges, batch.pos, batch.batch, batch.y[:, GAP], batch.graphs_mask)

    return epoch, len(dataset) / len(loader)


def plain_pyg(dataset, batch_size: int) -> Callable[[], None]:
    """The same epoch with PyG's loader and the eager model."""
    loader = DataLoader(dataset, batch_size, shuffle=True)
    model = GapNet().train()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)

    def epoch() -> None:
        for batch in loader:
            model.graphs = batch.num_graphs
            mask = torch.ones(batch.num_graphs, dtype=torch.bool)
            edges = (batch.edge_index, batch.edge_attr)
            optimizer.zero_grad()
            model(batch.x, *edges, batch.pos, batch.batch, batch.y[:, GAP], mask).backward()
            optimizer.step()

    return epoch


def seconds(epoch: Callable[[], None]) -> float:
    """CPU seconds of one epoch."""
    start = time.process_time()
    epoch()
    return time.process_time() - start


def rows(threads: list[int], rounds: int = 5, num_graphs: int = NUM_GRAPHS) -> list[dict]:
    """Measure, and print a line for each number of threads."""
    dataset = datasets.qm9()[:num_graphs]
    measured = []
    for number in threads:
        torch.set_num_threads(number)
        torch.manual_seed(0)
        ours, per_batch = packed_and_compiled(dataset)
        theirs = plain_pyg(dataset, round(per_batch))
        seconds(ours), seconds(theirs)  # compiles; PyG keeps the graphs it has read
        turns = [(seconds(ours), seconds(theirs)) for _ in range(rounds)]
        row = {
            "threads": number,
            "graphs": len(dataset),
            "packed_compiled_s": min(turn[0] for turn in turns),
            "plain_pyg_s": min(turn[1] for turn in turns),
            "times_pyg": statistics.median(theirs / ours for ours, theirs in turns),
        }
        measured.append(row)
        print(
            f"\nepoch of {len(dataset):,} molecules, {per_batch:.0f} in a batch, {number} thread"
            f"{'s' * (number > 1)}: packed and compiled {row['packed_compiled_s']:.2f} s, plain PyG "
            f"{row['plain_pyg_s']:.2f} s, {row['times_pyg']:.1f} times",
            flush=True,
        )
    return measured


if __name__ == "__main__":
    rows([1, 2])
