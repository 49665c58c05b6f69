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


def _plots(folder: Path, rows: list[Row]) -> list[Path]:
    """A plot of steps for each number of threads, one of loaders, one of epochs; none without rows."""
    plots: dict[str, dict[str, dict[str, Row]]] = {}
    headings = {
        "loaders": "Times as fast as PyG's DataLoader",
        "epoch": "An epoch: times as fast as eager PyG",
    }
    for threads in ("1 thread", "2 threads"):
        steps = {_model(row): row for row in rows if row.name == "compiled" and row.section.endswith(threads)}
        plots[f"step_{threads[0]}"] = {"": steps}
        headings[f"step_{threads[0]}"] = f"A training step, {threads}: times as fast as eager"
    for kind in ("loaders", "epoch"):
        panels: dict[str, dict[str, Row]] = {}
        for row in rows:
            if row.section.startswith(f"{kind}: ") and row.times and not row.name.startswith("copy limit"):
                title = ", ".join(row.section[len(kind) + 2 :].split(", ")[:2]) if kind == "loaders" else ""
                panels.setdefault(title, {})[row.name] = row
        plots[kind] = panels
    written = []
    for name, panels in plots.items():
        panels = {title: values for title, values in panels.items() if values}
        if panels:
            written.append(folder / f"{name}.svg")
            _plot_ratios(written[-1], headings[name], panels)
    return written


def _model(row: Row) -> str:
    """The name of the model in the section of a step."""
    return row.section[len("step: ") :].rsplit(", ", 1)[0]


def _plot_ratios(path: Path, heading: str, panels: dict[str, dict[str, Row]]) -> None:
    """Bars with their quartiles, a panel for each title, and a line where both take the same time."""
    from gnn_ipu_helpers.viewers.pictures import COLOURS, Picture, new_figure, styled

    with styled():
        heights = [0.6 + 0.24 * len(rows) for rows in panels.values()]
        figure = new_figure(sum(heights) + 0.3)
        figure.suptitle(heading, x=0.01, ha="left")
        all_axes = figure.subplots(len(panels), 1, squeeze=False, height_ratios=heights)[:, 0]
        words = []
        for axes, (title, rows) in zip(all_axes, panels.items()):
            for place, row in enumerate(rows.values()):
                axes.barh(-place, row.times, 0.7, color=COLOURS[0])
                axes.annotate(
                    f"{row.times:.1f}", (row.times, -place), (4, 0), textcoords="offset points", va="center"
                )
            axes.axvline(1, color=COLOURS[1], linewidth=1.2)
            axes.set_yticks([-place for place in range(len(rows))], labels=list(rows))
            axes.tick_params(axis="y", length=0)
            axes.set_xlim(0, 1.12 * max(row.times for row in rows.values()))
            axes.set_title(title, loc="left")
            words.append(f"{title} " + ", ".join(f"{name} {row.times:.2f}" for name, row in rows.items()))
        Picture(figure, f"{heading}: " + "; ".join(word.strip() for word in words) + ".").save(path)


# The page: tables between `<!-- table: NAME -->` and `<!-- end -->`, and copies of the plots.

PAGE = Path(__file__).resolve().parent.parent / "docs" / "does_it_pay.md"
FIGURES = Path(__file__).resolve().parent.parent / "static"


def page(results: Path) -> None:
    """Write the results into the tables of docs/does_it_pay.md, and its plots into static/."""
    header, rows = read(results)
    text = PAGE.read_text(encoding="utf-8")
    for name, lines in _tables(header, rows).items():
        before, _, rest = text.partition(f"<!-- table: {name} -->\n")
        _, _, after = rest.partition("<!-- end -->")
        if not rest:
            raise SystemExit(f"{PAGE.name} has no place for the table {name!r}: write <!-- table: {name} -->")
        text = before + "\n".join([f"<!-- table: {name} -->", *lines, "<!-- end -->"]) + after
    PAGE.write_text(text, encoding="utf-8")
    for plot in _plots(results.parent, rows):
        (FIGURES / f"bench_{plot.name}").write_bytes(plot.read_bytes())


def _tables(header: dict[str, str], rows: list[Row]) -> dict[str, list[str]]:
    """The lines of each table in Markdown."""
    tables = {"machine": [*(f"- {key}: {value}" for key, value in header.items())]}
    steps: dict[str, dict[str, Row]] = {}
    for row in rows:
        if row.section.startswith("step: ") and row.name in ("eager", "compiled", "products"):
            steps.setdefault(row.section, {})[row.name] = row
    lines = ["| model | threads | eager ms | compiled ms | products ms | times eager | quartiles |"]
    lines += ["|---|---|---|---|---|---|---|"]
    for section, kinds in steps.items():
        eager, compiled, products = (kinds[kind] for kind in ("eager", "compiled", "products"))
        times = [eager.value, compiled.value, products.value]
        ratio = f"{compiled.times:.2f} | {compiled.times_low:.2f} to {compiled.times_high:.2f}"
        threads = section.rsplit(", ", 1)[1].split()[0]
        numbers = " | ".join(_short(value) for value in times)
        lines.append(f"| {_model(compiled)} | {threads} | {numbers} | {ratio} |")
    tables["step"] = lines
    for kind in ("loaders", "packing", "growth", "sampling", "beside JAX", "start", "epoch"):
        found = [row for row in rows if row.section.startswith(f"{kind}: ")]
        lines = ["| | | | times |", "|---|---|---|---|"]
        for row in found:
            ratio = (
                "" if row.times is None else f"{row.times:.2f} ({row.times_low:.2f} to {row.times_high:.2f})"
            )
            value = f"{_short(row.value)} {row.unit}".strip()
            lines.append(f"| {row.section[len(kind) + 2 :]} | {row.name} | {value} | {ratio} |")
        tables[kind] = lines
    means = [row for row in rows if " models, " in row.section]
    tables["means"] = [f"- {row.section[6:]}, {row.name}: {row.value:.2f} {row.unit}" for row in means]
    return tables


if __name__ == "__main__":
    import sys

    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
    page(Path(__file__).resolve().parent.parent / "build" / "bench" / "results.json")
