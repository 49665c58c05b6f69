"""Everything that `make bench` measures, in one run: tables here, results and plots in build/bench.

`QUICK=1` measures a few models on one thread. `PYTHON_WITH_JAX` names an interpreter that has JAX, if this
one has not.
"""

from __future__ import annotations

import datetime
import importlib.util
import json
import os
import platform
import subprocess
import sys
import warnings
from pathlib import Path

HERE = Path(__file__).resolve().parent
OUTPUT = HERE.parent / "build" / "bench"
sys.path[:0] = [str(HERE.parent), str(HERE)]
warnings.simplefilter("ignore")  # PyG's own deprecations at import

import epoch  # noqa: E402
import step  # noqa: E402
import torch  # noqa: E402
import torch_geometric  # noqa: E402
from models import MODELS  # noqa: E402

QUICK_MODELS = ["GCN", "notebook 3: GapNet on QM9"]


def header() -> dict[str, str]:
    """The machine and the versions."""
    names = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line]
    return {
        "date": datetime.date.today().isoformat(),
        "processor": names[0].split(":")[1].strip() if names else platform.processor(),
        "cores": str(os.cpu_count()),
        "load": f"{os.getloadavg()[0]:.1f}",
        "capability": torch.backends.cpu.get_cpu_capability(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "torch_geometric": torch_geometric.__version__,
    }


def jax_milliseconds(threads: int) -> float | None:
    """The GCN in JAX, where there is one."""
    python = os.environ.get("PYTHON_WITH_JAX") or (
        sys.executable if importlib.util.find_spec("jax") else None
    )
    if python is None:
        return None
    command = [python, str(HERE / "jax_gcn.py"), str(threads)]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def plot(steps: list[dict]) -> None:
    """Bars of eager, compiled and the products alone, for each model."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    for threads in sorted({row["threads"] for row in steps}):
        rows = [row for row in steps if row["threads"] == threads][::-1]
        figure, axes = pyplot.subplots(figsize=(8, 0.45 * len(rows) + 1.2))
        kinds = {"eager": "#b0b0b0", "compiled": "#2a6fbb", "products": "#e0a030"}
        for shift, (kind, colour) in enumerate(kinds.items()):
            share = [row[f"{kind}_ms"] / row["eager_ms"] for row in rows]
            places = [place + 0.27 * (1 - shift) for place in range(len(rows))]
            axes.barh(places, share, 0.25, color=colour, label=kind)
        axes.set_yticks(range(len(rows)), [row["model"] for row in rows])
        axes.set_xlabel("CPU time of a training step, eager = 1")
        axes.set_title(f"{threads} thread{'s' * (threads > 1)}")
        axes.legend(loc="lower right")
        figure.tight_layout()
        figure.savefig(OUTPUT / f"step_{threads}.svg")
        pyplot.close(figure)


def main() -> None:
    """Runs everything."""
    quick = os.environ.get("QUICK", "") not in ("", "0")
    threads = [1] if quick else [1, 2]
    OUTPUT.mkdir(parents=True, exist_ok=True)
    results = {"header": header()}
    print(*(f"{key}: {value}" for key, value in results["header"].items()), sep="\n")
    results["step"] = step.rows(threads, QUICK_MODELS if quick else list(MODELS), rounds=5 if quick else 9)
    results["jax_gcn_ms"] = {number: jax_milliseconds(number) for number in threads}
    for number, value in results["jax_gcn_ms"].items():
        if value is not None:
            print(f"the GCN in JAX, {number} thread{'s' * (number > 1)}: {value:.2f} ms")
    results["epoch"] = epoch.rows(threads, 3 if quick else 5, 1000 if quick else epoch.NUM_GRAPHS)
    (OUTPUT / "results.json").write_text(json.dumps(results, indent=1) + "\n")
    plot(results["step"])
    if not quick:
        for script in ("loaders.py", "sampling.py", "check.py"):
            print(f"\n== {script}", flush=True)
            subprocess.run([sys.executable, str(HERE / script)], check=True)
    print(f"\nresults and plots: {OUTPUT.relative_to(HERE.parent)}")


if __name__ == "__main__":
    main()
