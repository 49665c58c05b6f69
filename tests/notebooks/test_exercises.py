"""Exercises of notebooks 1 to 6: an open or wrong answer gets a hint, and the solution passes."""

from __future__ import annotations

import ast
import dis
import re
import sys
import types
from functools import lru_cache
from pathlib import Path

import nbformat
import pytest

NOTEBOOKS = Path(__file__).resolve().parents[2] / "notebooks"

# Notebook: for each exercise what a hint must not say, and what a reader may try: the text that stands in the
# cell, what is written in its place, and words of the hint for that.
EXERCISES = {
    "1_at_a_glance": [
        (
            r"19|\+ ?1",
            [
                ("...", "(20 * most_nodes, 20 * most_edges)", "How many of the twenty"),
                ("...", "(19 * most_nodes, 19 * most_edges)", "the padding graph need"),
                ("...", "(7, 7)", "Padding by hand"),
            ],
        ),
        (
            r"torch\.where|inf",
            [
                (
                    "x[degree > 0]",
                    "torch.where((degree > 0).unsqueeze(1), x, 0.0)",
                    "the last row does not count",
                ),
                ("x[degree > 0]", "x", "the last row does not count"),
            ],
        ),
        (
            r"\.sum\(\)|\*",
            [
                (
                    "F.mse_loss(predicted, wanted)",
                    "((predicted - wanted) ** 2 * graphs_mask).mean()",
                    "mean over",
                ),
                ("predicted, wanted)", "predicted[graphs_mask], wanted[graphs_mask])", "a weight each"),
            ],
        ),
    ],
    "2_a_worked_example": [
        (
            r"&|mask\.sum",
            [("right[mask].float().mean()", "(right & mask).float().mean()", "what do you divide by?")],
        ),
        (
            r"stack|target, target",
            [
                ("...", "data.edge_index[:, source == target]", "another program"),
                ("...", "torch.zeros_like(data.edge_index)", "no message at all"),
                ("...", "data.edge_index", "from another one"),
            ],
        ),
        (
            r"max\(|\[0\]|validation",
            [
                ("...", "max(tried, key=lambda rate: tried[rate][1])", "partly luck"),
                ("...", "max(tried)", "for choosing"),
                ("...", "7", "none of the rates"),
            ],
        ),
    ],
    "3_small_graph_batching_with_padding": [
        (
            r"\*\* ?0\.5|sqrt",
            [
                ("...", "FixedSizeOptions.from_dataset(dataset, 128)", "grows with √n"),
                ("...", "FixedSizeOptions(127 * 15, 127 * 30, num_graphs=128)", "do not fit"),
            ],
        ),
        (
            r"%|len\(",
            [
                ("...", "0", "not full"),
                ("...", "len(train_set) % 127", "are molecules"),
                ("...", "128 - len(train_set) % 127", "One of them is masked"),
            ],
        ),
        (
            r"MaskedBatchNorm",
            [("torch.nn.BatchNorm1d", "torch.nn.LayerNorm", "no longer a norm over the batch")],
        ),
    ],
    "4_small_graph_batching_with_packing": [
        (
            r"\b7\b|\b22\b",
            [
                ("...", "19", "What of the padding graph"),
                ("...", "150 / 7", "partly filled"),
                ("...", "12", "one of its three terms"),
            ],
        ),
        (
            r"sort|largest|reverse",
            [
                (
                    "range(len(sizes))",
                    "sorted(range(len(sizes)), key=lambda i: sizes[i])",
                    "hard to place late",
                ),
                ("    return packs", "    return packs[:1]", "goes into one pack"),
                ("<= budget", "<= 2 * budget", "may have 10 nodes"),
            ],
        ),
        (r"more|less", [("...", '"less"', "How many times the average"), ("...", '"yes"', "one of the two")]),
    ],
    "5_large_graph_sampling": [
        (
            r"seed",
            [
                ("(predictions == batch.y)", "(predictions == batch.y)[:300]", "Whose are the others"),
                ("(predictions == batch.y)", "(predictions == batch.y)[:1]", "you count"),
            ],
        ),
        (
            r"1\.[12]\b",
            [
                (
                    "...",
                    "FixedSizeOptions(cluster_options.num_nodes // 2, cluster_options.num_edges)",
                    "nodes are",
                ),
                ("...", "FixedSizeOptions(10**6, 10**6)", "more than a quarter"),
            ],
        ),
        (
            r"\b1000\b|1,000",
            [
                ("...", "0", "if you do not say"),
                ("...", "graph.num_nodes", "Not all of them"),
                ("...", "7", "Count"),
            ],
        ),
    ],
    "6_heterogeneous_graphs": [
        (
            r"self_loops|size=|cross_entropy",
            [
                ("GCNConv(7, 16)", "GCNConv(7, 16, add_self_loops=False)", "Does the function take it"),
                ("(x, batch)", "(x, batch, size=2)", "done once, to the inputs"),
                (
                    "GCNConv(7, 16)",
                    "GCNConv(7, 16, add_self_loops=False)\n"
                    "        self.forward = lambda x, edges, batch: F.cross_entropy(\n"
                    "            self.lin(global_mean_pool(self.conv(x, edges).relu(), batch, size=2)),\n"
                    "            your_labels)",
                    "Is an edge missing?",
                ),
            ],
        ),
        (
            r"600|0\.05",
            [
                ("...", "measured.num_nodes['director']", "between 0 and 1"),
                ("...", "0.5", "divided by what"),
            ],
        ),
        (
            r"\b\d{2,}\b.*\b\d{2,}\b",
            [
                ("...", "(0, 0)", "is real"),
                ("...", "(sample['director'].num_nodes, sample['movie'].num_nodes)", "type is the source"),
                ("...", "(10**6, 10**6)", "always does"),
            ],
        ),
    ],
}
CASES = [(name, number) for name, exercises in EXERCISES.items() for number in range(len(exercises))]


def role(cell):
    tags = cell.metadata.get("tags", [])
    return next((tag for tag in ("exercise", "verdict", "solution") if tag in tags), None)


def loads(code):
    """The names that a cell looks up among its globals, in its functions and classes too."""
    here = {each.argval for each in dis.get_instructions(code) if each.opname in ("LOAD_NAME", "LOAD_GLOBAL")}
    inside = [loads(each) for each in code.co_consts if isinstance(each, types.CodeType)]
    return here.union(*inside)


def changes(source):
    """The names that a cell assigns, and those of which it assigns an item or an attribute."""
    stores = {
        each.argval
        for each in dis.get_instructions(compile(source, "cell", "exec"))
        if each.opname == "STORE_NAME"
    }
    parts = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.Subscript, ast.Attribute)) and isinstance(node.ctx, ast.Store):
            while isinstance(node, (ast.Subscript, ast.Attribute)):
                node = node.value
            parts |= {node.id} if isinstance(node, ast.Name) else set()
    return stores, parts


def played_cells(path):
    """The exercises' cells of a notebook and those that they need: no training, so seconds, not minutes."""
    cells = [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]
    kept, needed = [], set()
    for cell in reversed(cells):
        stores, parts = changes(cell.source)
        # A second solution cell goes on to train with the answer.
        further = role(cell) == "solution" and "exercises.verdict(" not in cell.source
        if not further and (role(cell) or (stores | parts) & needed):
            kept.append(cell)
            needed = (needed - stores) | loads(compile(cell.source, "cell", "exec")) | parts
    return kept[::-1]


def shown(source, names):
    """Run a cell and return what its last line shows."""
    *lines, last = ast.parse(source).body
    exec(compile(ast.Module(lines, []), "cell", "exec"), names)
    return eval(compile(ast.Expression(last.value), "cell", "eval"), names)


@lru_cache(maxsize=None)
def played(name):
    """For each exercise its verdicts: on the cell as it is, on wrong answers, and on the solution."""
    module, results = types.ModuleType("played_notebook"), []
    names, sys.modules[module.__name__] = vars(module), module  # the tracer looks globals up by module
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(NOTEBOOKS)
        patch.setattr(sys, "path", list(sys.path))
        for cell in played_cells(NOTEBOOKS / f"{name}.ipynb"):
            if role(cell) == "exercise":
                answer = cell.source
            if role(cell) == "verdict":
                untouched, wrong = shown(cell.source, names), []
                for old, new, words in EXERCISES[name][len(results)][1]:
                    assert old in answer, f"{old!r} is not in exercise {len(results) + 1}"
                    exec(answer.replace(old, new), names)
                    wrong.append((shown(cell.source, names), words))
                exec(answer, names)
                results.append({"untouched": untouched, "wrong": wrong})
            else:
                exec(cell.source, names)
            if role(cell) == "solution":
                results[-1]["solution"] = names["solution"]
    del sys.modules[module.__name__]
    return results


@pytest.mark.parametrize("name", EXERCISES)
def test_each_notebook_has_two_or_three_exercises(name):
    roles = [role(cell) for cell in played_cells(NOTEBOOKS / f"{name}.ipynb") if role(cell)]
    assert roles == ["exercise", "verdict", "solution"] * len(EXERCISES[name])
    assert len(EXERCISES[name]) in (2, 3)


@pytest.mark.parametrize(("name", "number"), CASES)
def test_the_cell_as_it_is_gets_not_yet_and_a_hint(name, number):
    untouched = played(name)[number]["untouched"]
    assert untouched.solved is False
    assert repr(untouched).startswith("Not yet")
    assert untouched.hint
    assert "Error" not in untouched.hint, untouched.hint


@pytest.mark.parametrize(("name", "number"), CASES)
def test_a_wrong_answer_gets_a_hint_that_is_not_the_solution(name, number):
    result, solution = played(name)[number], re.compile(EXERCISES[name][number][0])
    assert result["wrong"]
    for verdict, words in result["wrong"]:
        assert verdict.solved is False
        assert words in verdict.hint, repr(verdict)
    for verdict in [result["untouched"], *(verdict for verdict, _ in result["wrong"])]:
        assert not solution.search(verdict.hint), verdict.hint


@pytest.mark.parametrize(("name", "number"), CASES)
def test_the_solution_is_right(name, number):
    solution = played(name)[number]["solution"]
    assert solution.solved is True, repr(solution)
