"""What `make bench` writes: a table, results and plots, made here from fixed results."""

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
import report
from timing import Row, compared, in_turns

TIMES = {"eager": [0.004, 0.008, 0.006], "compiled": [0.002, 0.002, 0.004], "products": [0.001] * 3}


@pytest.fixture
def rows():
    steps = compared("step: GCN, 1 thread", TIMES, "eager", without_ratio=("products",))
    loaders = compared("loaders: QM9", {"PyG's": [2.0, 2.0], "ours": [0.1, 0.1]}, "PyG's", "s", 1)
    return [*steps, *loaders, Row("packing: QM9", "Pack: packs over the bound", 2, "")]


def test_a_ratio_is_the_median_of_the_ratios_of_each_turn(rows):
    eager, compiled, products = rows[:3]
    assert (eager.value, compiled.value) == (6.0, 2.0)
    assert compiled.times == 2.0  # of 2, 4 and 1.5; the ratio of the medians would be 3
    assert (compiled.times_low, compiled.times_high) == (1.75, 3.0)
    assert eager.times is None
    assert products.times is None


def test_the_table_shows_every_row_with_spread_and_ratio(rows):
    lines = report.table(rows).splitlines()
    compiled = next(line for line in lines if line.startswith("  compiled"))
    assert "2 to 3" in compiled
    assert "2.00 times eager (1.75 to 3.00)" in compiled
    assert [line for line in lines if line and not line.startswith(" ")] == [
        "step: GCN, 1 thread",
        "loaders: QM9",
        "packing: QM9",
    ]
    assert sum(line.startswith("  ") for line in lines) == len(rows)


def test_results_and_plots_are_written(rows, tmp_path):
    header = {"processor": "one", "torch": "2"}
    written = report.write(tmp_path / "bench", header, rows)
    assert [path.name for path in written] == ["results.json", "step_1.svg", "loaders.svg"]
    assert all(path.stat().st_size > 100 for path in written)
    assert report.read(written[0]) == (header, rows)
    assert json.loads(written[0].read_text())["rows"][0]["section"] == "step: GCN, 1 thread"
    assert "GCN" in written[1].read_text()


def test_plots_without_rows_are_left_out(tmp_path):
    written = report.write(tmp_path, {}, [Row("packing: QM9", "packs", 2, "")])
    assert [path.name for path in written] == ["results.json"]


def test_functions_are_timed_in_turns():
    order = []
    functions = {name: lambda name=name: order.append(name) for name in ("a", "b")}
    ticks = iter(range(1000))
    times = in_turns(functions, 3, seconds=1, timer=lambda: next(ticks))
    assert {name: len(values) for name, values in times.items()} == {"a": 3, "b": 3}
    turns = [name for name, before in zip(order, [None, *order]) if name != before]
    assert turns == ["a", "b"] * 4  # once for finding out how often each fits into its time


def test_the_page_is_filled_from_the_results(rows, tmp_path, monkeypatch):
    page = tmp_path / "page.md"
    tables = report._tables({}, rows)
    page.write_text(
        "Text.\n" + "".join(f"<!-- table: {n} -->\nold\n<!-- end -->\n" for n in tables) + "More.\n"
    )
    monkeypatch.setattr(report, "PAGE", page)
    monkeypatch.setattr(report, "FIGURES", tmp_path)
    results = report.write(tmp_path / "bench", {"torch": "2"}, rows)[0]
    for _ in range(2):  # twice: the places are kept
        report.page(results)
    text = page.read_text()
    assert text.startswith("Text.\n<!-- table: machine -->\n- torch: 2\n<!-- end -->")
    assert text.endswith("More.\n")
    assert "old" not in text
    assert "| GCN | 1 | 6 | 2 | 1 | 2.00 | 1.75 to 3.00 |" in text
    assert "| QM9 | ours | 0.1 s | 20.00 (20.00 to 20.00) |" in text
    assert "GCN 2.00" in (tmp_path / "bench_step_1.svg").read_text()


def test_a_page_without_a_place_for_a_table_is_refused(rows, tmp_path, monkeypatch):
    monkeypatch.setattr(report, "PAGE", tmp_path / "page.md")
    report.PAGE.write_text("nothing")
    results = report.write(tmp_path, {}, rows)[0]
    with pytest.raises(SystemExit, match="no place for the table 'machine'"):
        report.page(results)
