"""The cheat sheet is true: `check` finds what it calls a symptom, and each rewrite is static and equal."""

import re
import sys
import types
from pathlib import Path

import pytest
import torch

import gnn_ipu_helpers
from gnn_ipu_helpers import check, porting

SHEET = Path(__file__).resolve().parent.parent / "docs" / "cheat_sheet.md"
TEXT = SHEET.read_text(encoding="utf-8")
ROWS = re.findall(r"(?m)^\| ([\w ]+) \| `([^`]+)` \| [^|]+ \| `([^`]+)` \|$", TEXT)
IMPORTS = """
import torch
import torch.nn.functional as F
from torch_geometric.nn import global_mean_pool
from torch_geometric.utils import degree, scatter, to_dense_batch
"""
ARGUMENTS = "x, out, y, mask, batch, graphs_mask, edge_index, counts"


def inputs():
    """Eight nodes of three graphs with two features, in the order of ARGUMENTS."""
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(8, 2, generator=generator) - 0.2
    batch = torch.tensor([0, 0, 0, 1, 1, 2, 2, 2])
    y = torch.tensor([0, 1, 2, 3, 0, 1, 2, 3])
    edge_index = torch.stack([torch.arange(8), torch.arange(8).roll(1)])
    mask = y < 2
    return (
        *(x, torch.rand(8, 4, generator=generator), y, mask),
        *(batch, torch.tensor([True, True, True]), edge_index, torch.full((8,), 2)),
    )


@pytest.fixture
def function(monkeypatch):
    """Makes a function of an expression of the sheet."""
    module = types.ModuleType("cheat_sheet")
    monkeypatch.setitem(sys.modules, "cheat_sheet", module)  # the tracer looks globals up by module
    exec(IMPORTS, vars(module))

    def of(expression):
        exec(f"def forward({ARGUMENTS}):\n    return {expression}", vars(module))
        return module.forward

    return of


def test_the_rows_are_found():
    assert len(ROWS) == 11


@pytest.mark.parametrize(("symptom", "before", "after"), ROWS, ids=[row[0] for row in ROWS])
def test_a_symptom_is_found_and_its_rewrite_is_static_and_equal(function, symptom, before, after):
    report = check(function(before), *inputs())
    assert [finding.operation for finding in report.findings][:1] == [symptom]
    report = check(function(after), *inputs())
    assert report.ok, report
    torch.testing.assert_close(function(after)(*inputs()), function(before)(*inputs()))


def test_names_of_the_package_exist():
    named = set(re.findall(r"\b((?:FixedSize|Masked)\w+)", TEXT)) - {"FixedSizeStrategy.Pack"}
    assert named
    assert [name for name in named if not hasattr(gnn_ipu_helpers, name) and not hasattr(porting, name)] == []


def test_layers_stand_where_the_list_of_layers_has_them():
    listed = (SHEET.parent / "supported_layers.md").read_text(encoding="utf-8")
    parts = dict(re.findall(r"(?ms)^## ([^\n]+)\n(.*?)(?=^## |\Z)", listed))
    wanted = {
        "Static as they are": "Static as it is",
        "With `add_self_loops=False`": "Static with an argument",
        "Replaced for you": "Replaced by us",
        "Not static": "Not static",
    }
    for beginning, heading in wanted.items():
        line = next(line for line in TEXT.splitlines() if line.startswith(f"- {beginning}:"))
        names = re.findall(r"`(\w+)`", line[len(beginning) :])
        assert len(names) >= 4
        assert [name for name in names if f"`{name}`" not in parts[heading]] == []
