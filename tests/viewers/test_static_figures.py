"""The figures of static/ are what tools/figures.py draws, and their words agree with what they count."""

import re
from pathlib import Path

import matplotlib
import pytest

from tools import figures

ROOT = Path(__file__).resolve().parents[2]
PINNED = re.search(r"^matplotlib==(\S+)", (ROOT / "requirements.txt").read_text(), re.MULTILINE)


@pytest.mark.skipif(
    not PINNED or matplotlib.__version__ != PINNED.group(1),
    reason="another matplotlib than the pinned one draws other bytes",
)
def test_the_committed_figures_are_up_to_date(tmp_path):
    figures.main(tmp_path)
    # Plots of measurements are drawn by benchmarks/report.py.
    drawn = [path for path in figures.STATIC.iterdir() if not path.name.startswith("bench_")]
    committed = {path.name: path.read_bytes() for path in drawn}
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == committed


def test_every_figure_has_its_alternative_text_ready_to_copy():
    lines = re.findall(
        r"^!\[(.{40,})\]\((\w+)\.svg\)$", (figures.STATIC / "README.md").read_text(), re.MULTILINE
    )
    assert [name for _, name in lines] == list(figures.FIGURES)


def test_counts_of_the_packing_figure_agree():
    placed = sorted(graph for pack in figures.PACKED_PLAN for graph in pack)
    assert placed == list(range(len(figures.PACKED_SIZES)))
    fullest = max(sum(figures.PACKED_SIZES[graph] for graph in pack) for pack in figures.PACKED_PLAN)
    assert fullest < figures.PACKED_BUDGET  # a padding node is always left


def test_counts_of_the_padding_graph_figure_agree():
    nodes = sum(len(places) for places, _ in figures.PADDED_GRAPHS)
    edges = sum(2 * len(links) for _, links in figures.PADDED_GRAPHS)
    alt = figures.padding_graph().alt
    left = figures.PADDED_NODES - nodes, figures.PADDED_EDGES - edges
    assert left == (3, 4)
    assert "the padding graph with {} nodes and {} edges".format(*left) in alt
