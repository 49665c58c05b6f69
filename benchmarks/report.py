"""What `make bench` leaves: one table, the results as JSON, and plots of them."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

from timing import Row


def table(rows: list[Row]) -> str:
    """The rows as text, a heading for each section."""
    lines, last = [], None
    for row in rows:
        if row.section != last:
            lines += ["", row.section]
            last = row.section
        spread = "" if row.low is None else f"{_short(row.low)} to {_short(row.high)}"
        ratio = ""
        if row.times is not None:
            ratio = f"{row.times:7.2f} times {row.baseline} ({row.times_low:.2f} to {row.times_high:.2f})"
        lines.append(f"  {row.name:34}{_short(row.value):>9} {row.unit:14}{spread:20}{ratio}".rstrip())
    return "\n".join(lines)


def _short(value: float) -> str:
    """Three significant digits, and whole numbers as they are."""
    return f"{value:,.0f}" if value >= 1000 or value == int(value) else f"{value:.3g}"


def write(folder: Path, header: dict[str, str], rows: list[Row]) -> list[Path]:
    """Write `results.json` and the plots; returns what was written."""
    folder.mkdir(parents=True, exist_ok=True)
    results = folder / "results.json"
    content = {"header": header, "rows": [dataclasses.asdict(row) for row in rows]}
    results.write_text(json.dumps(content, indent=1) + "\n")
    return [results, *_plots(folder, rows)]


def read(results: Path) -> tuple[dict[str, str], list[Row]]:
    """What `write` wrote."""
    content = json.loads(results.read_text())
    return content["header"], [Row(**row) for row in content["rows"]]


COLOURS = {"eager": "#b0b0b0", "compiled": "#2a6fbb", "products": "#e0a030"}


def _plots(folder: Path, rows: list[Row]) -> list[Path]:
    """Steps as bars beside eager, other ratios as bars; a plot without rows is left out."""
    import matplotlib

    matplotlib.use("agg")
    matplotlib.rcParams["svg.hashsalt"] = "bench"  # the same picture for the same results
    written = []
    for threads in (1, 2):
        suffix = f", {threads} thread{'s' * (threads > 1)}"
        steps: dict[str, dict[str, Row]] = {}
        for row in rows:
            if row.section.startswith("step: ") and row.section.endswith(suffix) and row.name in COLOURS:
                name = row.section[len("step: ") : -len(suffix)]
                steps.setdefault(name, {})[row.name] = row
        if steps:
            written.append(_plot_steps(folder / f"step_{threads}.svg", steps, suffix[2:]))
    ratios = [row for row in rows if row.times is not None and not row.section.startswith("step: ")]
    if ratios:
        written.append(_plot_ratios(folder / "ratios.svg", ratios))
    return written


def _plot_steps(path: Path, steps: dict[str, dict[str, Row]], title: str) -> Path:
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(8, 0.45 * len(steps) + 1.4))
    names = list(steps)[::-1]
    for shift, (kind, colour) in enumerate(COLOURS.items()):
        share = [steps[name][kind].value / steps[name]["eager"].value for name in names]
        places = [place + 0.27 * (1 - shift) for place in range(len(names))]
        axes.barh(places, share, 0.25, color=colour, label=kind)
    axes.set_yticks(range(len(names)), names)
    axes.set_xlabel("CPU time of a training step, eager = 1")
    axes.set_title(title)
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.12 - 0.3 / len(names)), ncols=3, frameon=False)
    return _save(figure, path)


def _plot_ratios(path: Path, rows: list[Row]) -> Path:
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(8, 0.3 * len(rows) + 1.2))
    rows = rows[::-1]
    axes.barh(range(len(rows)), [row.times for row in rows], color=COLOURS["compiled"])
    axes.set_yticks(range(len(rows)), [f"{row.section}: {row.name}" for row in rows])
    axes.axvline(1, color="black", linewidth=0.8)
    axes.set_xscale("log")
    axes.set_xlabel("times as fast as the section's baseline")
    return _save(figure, path)


def _save(figure: object, path: Path) -> Path:
    from matplotlib import pyplot

    figure.savefig(path, bbox_inches="tight", metadata={"Date": None})
    pyplot.close(figure)
    return path
