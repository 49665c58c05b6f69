"""Everything that `make bench` measures, in one run: a table here, `results.json` and plots in build/bench.

`QUICK=1` measures a little of it. `PYTHON_WITH_JAX` names an interpreter that has JAX, if this one has not.
"""

from __future__ import annotations

import datetime
import importlib.util
import os
import platform
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Callable, Iterator

HERE = Path(__file__).resolve().parent
OUTPUT = HERE.parent / "build" / "bench"
sys.path[:0] = [str(HERE.parent), str(HERE)]
warnings.simplefilter("ignore")  # PyG's own deprecations at import

import epoch  # noqa: E402
import loaders  # noqa: E402
import report  # noqa: E402
import sampling  # noqa: E402
import start  # noqa: E402
import step  # noqa: E402
import torch  # noqa: E402
import torch_geometric  # noqa: E402
from models import MODELS  # noqa: E402
from timing import Row, compared, in_turns  # noqa: E402

from gnn_ipu_helpers import datasets  # noqa: E402

QUICK_MODELS = ["GCN"]
BUSY = 1.5  # the load, this process included, from which two threads are not measured
MODELS_ON_TWO_THREADS = ["GCN", "GAT", "notebook 3: GapNet on QM9"]


def header() -> dict[str, str]:
    """The machine and the versions."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    names = [line.split(":")[1].strip() for line in lines if line.startswith("model name")]
    return {
        "date": datetime.date.today().isoformat(),
        "processor": names[0] if names else platform.processor(),
        "cores": str(os.cpu_count()),
        "load at the start": f"{os.getloadavg()[0]:.1f}",
        "vector instructions": torch.backends.cpu.get_cpu_capability(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "torch_geometric": torch_geometric.__version__,
        "clock": "CPU time of the process unless wall time is named; medians and quartiles of runs in turns",
    }


def beside_jax(rounds: int) -> list[Row]:
    """Our GCN's step beside the same one in JAX, in turns, one thread each; nothing where there is no JAX."""
    python = os.environ.get("PYTHON_WITH_JAX") or (
        sys.executable if importlib.util.find_spec("jax") else None
    )
    if python is None:
        return []
    ours = step.compiled_step("GCN")
    command = [python, str(HERE / "jax_gcn.py"), "1"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:

        def jax_seconds() -> float:
            print(file=process.stdin, flush=True)
            return float(process.stdout.readline())

        jax_seconds()
        turns = [(jax_seconds(), in_turns({"": ours}, 1)[""][0]) for _ in range(rounds)]
        process.stdin.close()
    times = {"JAX": [turn[0] for turn in turns], "ours": [turn[1] for turn in turns]}
    return compared("beside JAX: the GCN's step, 1 thread", times, "JAX")


def parts(is_quick: bool) -> Iterator[Callable[[], list[Row]]]:
    """What is measured, in order; what compiles most comes last."""
    rounds = 3 if is_quick else 7
    molecules = datasets.qm9()
    few = loaders.Tiled(molecules, 500 if is_quick else 2000)
    proteins = datasets.proteins()
    for workers in (0,) if is_quick else (0, 2):
        yield lambda workers=workers: loaders.epochs("QM9", few, workers, min(rounds, 5))
        if not is_quick:
            yield lambda workers=workers: loaders.epochs("PROTEINS", proteins, workers, 3)
    yield lambda: loaders.packing("QM9", few if is_quick else loaders.Tiled(molecules, 1000, 100))
    yield lambda: loaders.packing("PROTEINS", proteins)
    yield lambda: loaders.growth(molecules, 3, (1, 10) if is_quick else (1, 10, 100))
    yield lambda: sampling.measured(rounds)
    for name in QUICK_MODELS if is_quick else MODELS:
        yield lambda name=name: step.measured(name, 1, rounds)
    yield lambda: beside_jax(rounds)
    if not is_quick:
        # Two threads that share their cores with other work wait for each other: no figure is worth printing.
        is_idle = os.cpu_count() >= 2 and os.getloadavg()[0] < BUSY
        for name in MODELS_ON_TWO_THREADS if is_idle else ():
            yield lambda name=name: step.measured(name, 2, rounds)
        yield lambda: start.measured(start.NAMES)
    yield lambda: epoch.measured(500 if is_quick else 2000, min(rounds, 5), with_compile=not is_quick)


def main() -> None:
    """Measure all parts, printing each when it is ready; a part that fails says so and the others go on."""
    is_quick = os.environ.get("QUICK", "") not in ("", "0")
    torch.set_num_threads(1)
    torch.manual_seed(0)
    began, rows, failed = time.perf_counter(), [], []
    about = header()
    print(*(f"{key}: {value}" for key, value in about.items()), sep="\n")
    for part in parts(is_quick):
        try:
            found = part()
        except Exception as error:
            failed.append(f"{type(error).__name__}: {error}")
            print(f"\nnot measured: {failed[-1]}", flush=True)
            continue
        rows += found
        print(report.table(found), flush=True)
        report.write(OUTPUT, about, rows)
    means = step.geometric_means(rows)
    rows += means
    print(report.table(means))
    about["minutes"] = f"{(time.perf_counter() - began) / 60:.1f}"
    written = report.write(OUTPUT, about, rows)
    names = ", ".join(path.name for path in written)
    print(f"\n{names} in {OUTPUT.relative_to(HERE.parent)}, after {about['minutes']} minutes")
    if failed:
        sys.exit(f"{len(failed)} part(s) were not measured")


if __name__ == "__main__":
    main()
