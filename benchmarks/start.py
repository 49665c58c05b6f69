"""What a process pays before its first step: compiling cold and warm, and the memory that it takes at most.

Each figure needs a process of its own: `python benchmarks/start.py eager|compiled MODEL [CACHE]` is one.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
NAMES = ["notebook 3: GapNet on QM9", "notebook 2: GCN on Cora"]


def measured(names: list[str]) -> list:
    """Seconds to the first step, and megabytes at most, for each model."""
    from timing import Row

    rows = []
    for name in names:
        section = f"start: {name}"
        with tempfile.TemporaryDirectory() as folder:
            # An empty folder for inductor too: cold means that this machine has compiled nothing before.
            environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": f"{folder}/inductor"}
            runs = {
                "eager": _in_a_process(["eager", name], environment),
                "compiled, cold": _in_a_process(["compiled", name, f"{folder}/cache"], environment),
            }
            environment["TORCHINDUCTOR_CACHE_DIR"] = f"{folder}/another"
            runs["compiled, warm"] = _in_a_process(["compiled", name, f"{folder}/cache"], environment)
        for kind, run in runs.items():
            rows.append(Row(section, f"{kind}: to the first step", run["seconds"], "s"))
        share = runs["compiled, warm"]["seconds"] / runs["compiled, cold"]["seconds"]
        rows.append(Row(section, "warm / cold", share, ""))
        rows += [Row(section, f"{kind}: peak memory", runs[kind]["megabytes"], "MB") for kind in runs]
    return rows


def _in_a_process(arguments: list[str], environment: dict[str, str]) -> dict[str, float]:
    command = [sys.executable, "-W", "ignore", str(HERE / "start.py"), *arguments]
    result = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(result.stdout.splitlines()[-1])


def main() -> None:
    """Make one step, and print what it took: CPU seconds without imports, and memory."""
    sys.path.insert(0, str(HERE.parent))
    import step
    import torch

    torch.set_num_threads(1)
    kind, *rest = sys.argv[1:]
    began = os.times()
    run = {"eager": step.eager_step, "compiled": step.compiled_step}[kind](*rest)
    run()
    ended = os.times()
    for _ in range(3):
        run()
    print(json.dumps({"seconds": sum(ended[:4]) - sum(began[:4]), "megabytes": _peak_megabytes()}))


def _peak_megabytes() -> float:
    """The most memory that this process has held; `getrusage` would count its parent's before it began."""
    status = Path("/proc/self/status")
    if not status.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1024


if __name__ == "__main__":
    main()
