"""An epoch of QM9 with notebook 3's model: packed and compiled, against PyG eager and with `torch.compile`.

PyG is its `DataLoader` and the same model; all see the same graphs, about as many in a batch. With
`torch.compile` the model is compiled for the first batch, and again, for sizes that may change, when the
second has another size; what that costs is in the first epoch.
"""

from __future__ import annotations

import os
from typing import Callable

import torch
from models import GapNet
from timing import Row, compared, in_turns
from torch_geometric.loader import DataLoader

from gnn_ipu_helpers import FixedSizeDataLoader, FixedSizeOptions, FixedSizeStrategy, datasets
from gnn_ipu_helpers import poptorch_cpu as poptorch

GRAPHS_PER_BATCH = 128
GAP = 4
INPUTS = ["x", "edge_index", "edge_attr", "pos", "batch"]


def packed_and_compiled(dataset) -> tuple[Callable[[], None], float]:
    """A function that runs one epoch, and the graphs in a batch on average."""
    sizes = FixedSizeOptions.for_packing(dataset, num_graphs=GRAPHS_PER_BATCH)
    loader = FixedSizeDataLoader(
        dataset,
        shuffle=True,
        fixed_size_options=sizes,
        fixed_size_strategy=FixedSizeStrategy.Pack,
        exclude_keys=["name", "smiles"],
    )
    model = GapNet(sizes.num_graphs).train()
    options = poptorch.Options().showCompilationProgressBar(False)
    training = poptorch.trainingModel(model, options, poptorch.optim.Adam(model.parameters(), lr=2e-3))

    def epoch() -> None:
        for batch in loader:
            training(*(batch[key] for key in INPUTS), batch.y[:, GAP], batch.graphs_mask)

    return epoch, len(dataset) / len(loader)


def with_pyg(dataset, batch_size: int, is_compiled: bool = False) -> Callable[[], None]:
    """The same epoch with PyG's loader, the model eager or through `torch.compile`."""
    loader = DataLoader(dataset, batch_size, shuffle=True, drop_last=True)
    model = GapNet(batch_size).train()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    mask = torch.ones(batch_size, dtype=torch.bool)
    call = torch.compile(model) if is_compiled else model

    def epoch() -> None:
        for batch in loader:
            optimizer.zero_grad()
            call(*(batch[key] for key in INPUTS), batch.y[:, GAP], mask).backward()
            optimizer.step()

    return epoch


def measured(num_graphs: int = 2000, rounds: int = 5, with_compile: bool = True) -> list[Row]:
    """A row for each way, and one for its first epoch, which compiles."""
    dataset = datasets.qm9()[:num_graphs]
    torch.manual_seed(0)
    ours, per_batch = packed_and_compiled(dataset)
    epochs = {"PyG, eager": with_pyg(dataset, round(per_batch)), "packed and compiled": ours}
    if with_compile:
        epochs["PyG with torch.compile"] = with_pyg(dataset, round(per_batch), is_compiled=True)
    section = (
        f"epoch: {num_graphs:,} molecules of QM9, notebook 3's model, {per_batch:.0f} in a batch, 1 thread"
    )
    first = []
    for name, epoch in epochs.items():
        began = _cpu_seconds()
        epoch()
        first.append(Row(section, f"{name}: first epoch", _cpu_seconds() - began, "s"))
    return [*compared(section, in_turns(epochs, rounds, seconds=0.3), "PyG, eager"), *first]


def _cpu_seconds() -> float:
    """Of this process and of the compilers it has started."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system
