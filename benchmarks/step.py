"""A training step, compiled against eager: the models of `models.py`.

Run with `python benchmarks/step.py [--threads 1 2] [--models GCN,GAT]` for these rows alone. Eager uses
`torch.optim.Adam` as it comes. The products are the matrix products of the eager step and nothing else: no
compiler that keeps PyTorch's arithmetic gets far below them.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from pathlib import Path
from typing import Callable

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import torch
from models import MODELS
from timing import Row, compared, in_turns
from torch.utils._python_dispatch import TorchDispatchMode

from gnn_ipu_helpers import poptorch_cpu as poptorch


def eager_step(name: str) -> Callable[[], None]:
    """A training step as PyG's users write it."""
    model = MODELS[name]().train()
    arguments = model.arguments()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    def step() -> None:
        optimizer.zero_grad()
        result = model(*arguments)
        (result[-1] if isinstance(result, tuple) else result).backward()
        optimizer.step()

    return step


def compiled_step(name: str, cache: str | None = None) -> Callable[[], None]:
    """The same step through `poptorch.trainingModel`, compiled, with an executable cache if one is named."""
    model = MODELS[name]().train()
    arguments = model.arguments()
    options = poptorch.Options().showCompilationProgressBar(False)
    if cache is not None:
        options.enableExecutableCaching(cache)
    training = poptorch.trainingModel(model, options, poptorch.optim.Adam(model.parameters(), lr=1e-3))
    training.compile(*arguments)
    return lambda: training(*arguments)


def products_alone(step: Callable[[], None]) -> Callable[[], None]:
    """The matrix products of an eager step, on the same numbers."""
    products = []

    class Recorder(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            if function.overloadpacket in (torch.ops.aten.mm, torch.ops.aten.addmm, torch.ops.aten.bmm):
                products.append((function, [value.detach() for value in args]))
            return function(*args, **(kwargs or {}))

    with Recorder():
        step()

    @torch.no_grad()
    def run() -> None:
        for function, args in products:
            function(*args)

    return run


def measured(name: str, threads: int = 1, rounds: int = 7) -> list[Row]:
    """Rows for eager, compiled and the products of a model."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    try:
        eager = eager_step(name)
        steps = {"eager": eager, "compiled": compiled_step(name), "products": products_alone(eager)}
        times = in_turns(steps, rounds, threads=threads)
    finally:
        torch.set_num_threads(before)
        torch._dynamo.reset()
    return compared(section(name, threads), times, "eager", without_ratio=("products",))


def geometric_means(rows: list[Row]) -> list[Row]:
    """A row for each number of threads: the mean of the ratios, and what free products alone would give."""
    means = []
    for threads in (1, 2):
        steps = [row for row in rows if row.section.startswith("step: ") and _threads(threads) in row.section]
        values = {kind: [row.value for row in steps if row.name == kind] for kind in ("eager", "products")}
        if steps:
            ratios = [row.times for row in steps if row.name == "compiled"]
            bounds = [eager / products for eager, products in zip(values["eager"], values["products"])]
            where = section(f"{len(ratios)} models", threads)
            means += [
                Row(where, "compiled, geometric mean", statistics.geometric_mean(ratios), "times eager"),
                Row(where, "least of them", min(ratios), "times eager"),
                Row(where, "if only products took time", statistics.geometric_mean(bounds), "times eager"),
            ]
    return means


def section(name: str, threads: int) -> str:
    """What the rows of a model are filed under."""
    return f"step: {name}, {_threads(threads)}"


def _threads(number: int) -> str:
    return f"{number} thread{'s' * (number > 1)}"


if __name__ == "__main__":
    from report import table

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, nargs="+", default=[1])
    parser.add_argument("--models", default=",".join(MODELS))
    arguments = parser.parse_args()
    rows = []
    for number in arguments.threads:
        for model in arguments.models.split(","):
            rows += measured(model, number)
            print(table(rows[-3:]), flush=True)
    print(table(geometric_means(rows)))
