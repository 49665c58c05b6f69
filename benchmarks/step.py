"""Seconds of a training step, compiled against eager: every model of `models.py`, on one thread and on two.

Run with `python benchmarks/step.py [--threads 1 2] [--models GCN,GAT]`. Compiled and eager train in a process
each, so that neither warms caches or memory for the other, and take turns, so that a busy machine slows both
alike. Times are CPU times of the process. Eager uses `torch.optim.Adam` as it comes.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import statistics
import sys
import time
import warnings
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Callable

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
warnings.simplefilter("ignore")  # PyG's own deprecations at import

ROUNDS = 9
SECONDS_PER_TURN = 0.15


def eager_step(name: str) -> Callable[[], None]:
    """A training step as PyG's users write it."""
    import torch
    from models import MODELS

    model = MODELS[name]().train()
    arguments = model.arguments()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    def step() -> None:
        optimizer.zero_grad()
        result = model(*arguments)
        (result[-1] if isinstance(result, tuple) else result).backward()
        optimizer.step()

    return step


def compiled_step(name: str) -> Callable[[], None]:
    """The same step through `poptorch.trainingModel`."""
    from models import MODELS

    from gnn_ipu_helpers import poptorch_cpu as poptorch

    model = MODELS[name]().train()
    arguments = model.arguments()
    options = poptorch.Options().showCompilationProgressBar(False)
    training = poptorch.trainingModel(model, options, poptorch.optim.Adam(model.parameters(), lr=1e-3))
    training.compile(*arguments)
    return lambda: training(*arguments)


def products_alone(name: str) -> Callable[[], None]:
    """The matrix products of an eager step and nothing else: no compiler of these graphs gets below them."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    products = []

    class Recorder(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            if function.overloadpacket in (torch.ops.aten.mm, torch.ops.aten.addmm, torch.ops.aten.bmm):
                products.append((function, [value.detach() for value in args]))
            return function(*args, **(kwargs or {}))

    step = eager_step(name)
    with Recorder():
        step()

    @torch.no_grad()
    def run() -> None:
        for function, args in products:
            function(*args)

    return run


KINDS = {"compiled": compiled_step, "eager": eager_step, "products": products_alone}


def work(kind: str, name: str, threads: int, pipe: Connection) -> None:
    """Make ready, then take turns: receive a number of steps, send the CPU milliseconds of one."""
    import torch

    warnings.simplefilter("ignore")
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    start = time.perf_counter()
    step = KINDS[kind](name)
    if kind != "products":
        step()
    ready = time.perf_counter() - start
    for _ in range(4):
        step()
    start = time.perf_counter()
    step()
    pipe.send((ready, max(1, round(SECONDS_PER_TURN / (time.perf_counter() - start)))))
    while number := pipe.recv():
        start = time.process_time()
        for _ in range(number):
            step()
        pipe.send(1e3 * (time.process_time() - start) / number)


def measure(name: str, threads: int, rounds: int = ROUNDS) -> dict[str, float]:
    """Milliseconds of each kind, the ratio of eager to compiled with its quartiles, seconds to compile."""
    context = multiprocessing.get_context("spawn")
    pipes, processes = {}, []
    for kind in KINDS:
        pipes[kind], theirs = context.Pipe()
        processes.append(context.Process(target=work, args=(kind, name, threads, theirs)))
        processes[-1].start()
        theirs.close()
    # One after another, so that compiling is not slowed down by the others getting ready.
    ready = {kind: pipe.recv() for kind, pipe in pipes.items()}
    times: dict[str, list[float]] = {kind: [] for kind in KINDS}
    for _ in range(rounds):
        for kind, pipe in pipes.items():
            pipe.send(ready[kind][1])
            times[kind].append(pipe.recv())
    for pipe, process in zip(pipes.values(), processes):
        pipe.send(0)
        process.join()
    ratios = sorted(eager / ours for eager, ours in zip(times["eager"], times["compiled"]))
    return {
        **{f"{kind}_ms": min(values) for kind, values in times.items()},
        "times_eager": min(times["eager"]) / min(times["compiled"]),
        "times_eager_low": ratios[len(ratios) // 4],
        "times_eager_high": ratios[-1 - len(ratios) // 4],
        "ready_seconds": ready["compiled"][0],
    }


def geometric_mean(values: list[float]) -> float:
    """The geometric mean."""
    return math.exp(statistics.fmean(map(math.log, values)))


def rows(threads: list[int], names: list[str], rounds: int = ROUNDS) -> list[dict]:
    """Measure, and print a table as it grows."""
    measured = []
    heads = ("compiled ms", "eager ms", "products ms", "times eager", "quartiles", "ready s")
    for number in threads:
        print(f"\ntraining step, {number} thread{'s' * (number > 1)}")
        print(" " * 32 + "".join(f"{head:>13}" for head in heads))
        for name in names:
            row = measure(name, number, rounds)
            measured.append({"model": name, "threads": number, **row})
            spread = f"{row['times_eager_low']:.2f}-{row['times_eager_high']:.2f}"
            print(
                f"{name:32}{row['compiled_ms']:13.2f}{row['eager_ms']:13.2f}{row['products_ms']:13.2f}"
                f"{row['times_eager']:12.2f}x{spread:>13}{row['ready_seconds']:13.1f}",
                flush=True,
            )
        mean = geometric_mean([row["times_eager"] for row in measured if row["threads"] == number])
        print(f"{'geometric mean':71}{mean:12.2f}x")
    return measured


def main() -> None:
    """Prints the table."""
    from models import MODELS

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--models", default=",".join(MODELS))
    arguments = parser.parse_args()
    rows(arguments.threads, arguments.models.split(","))


if __name__ == "__main__":
    main()
