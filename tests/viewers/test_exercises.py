"""Verdicts on exercises: right, not yet with a hint, or not checked here; and the playground's eight."""

from __future__ import annotations

import re
import sys
import types
from pathlib import Path

import nbformat
import pytest
import torch

from gnn_ipu_helpers.porting import Finding, Report, check
from gnn_ipu_helpers.viewers import exercises

PLAYGROUND = Path(__file__).resolve().parent.parent.parent / "notebooks" / "appendix_port_your_model.ipynb"


class Indexing(torch.nn.Module):
    def forward(self, x, mask):
        return x[mask]


INDEXING = (Indexing().eval(), torch.ones(3), torch.tensor([True, False, True]))


# -- verdicts


def is_even(answer):
    if answer % 2:
        raise AssertionError("What remains when you divide it by two?")  # pytest adds to a plain assertion


def test_an_assertion_is_the_hint():
    assert exercises.verdict(is_even, 4).solved is True
    wrong = exercises.verdict(is_even, 3)
    assert (wrong.solved, wrong.hint) == (False, "What remains when you divide it by two?")
    assert repr(wrong) == "Not yet.\nHint: What remains when you divide it by two?"


def test_an_open_exercise_asks_for_an_answer():
    assert "three dots" in repr(exercises.verdict(is_even, ...))


def test_an_error_in_the_answer_is_told_not_raised():
    wrong = exercises.verdict(is_even, "four")
    assert wrong.solved is False
    assert wrong.hint.startswith("TypeError at `if answer % 2")


def test_a_report_counts_what_is_left_and_hides_the_remedy():
    report = check(*INDEXING)
    wrong = exercises.verdict(check, *INDEXING)
    assert wrong.solved is False
    assert "1 finding left: boolean indexing" in repr(wrong)
    assert report.findings[0].reason in wrong.hint
    assert report.findings[0].remedy not in repr(wrong)


def test_a_hint_of_the_author_comes_before_the_reason():
    wrong = exercises.verdict(check, *INDEXING, hints={"boolean indexing": "How many rows remain?"})
    assert wrong.hint == "How many rows remain?"


def test_a_clean_report_is_right():
    assert exercises.verdict(check, torch.nn.ReLU().eval(), torch.ones(3)).solved is True


def test_where_nothing_can_be_checked_it_says_so():
    open_answer = exercises.verdict(lambda: Report(None, [], "Not checked: torch is too old."))
    assert open_answer.solved is None
    assert repr(open_answer).startswith("Not checked here")


def test_a_finding_in_a_cell_is_told_by_its_line_alone():
    found = Finding("item", "cell 7", 3, "x.item()", "a value is read back", "stay with the tensor")
    wrong = exercises.verdict(lambda: Report(False, [found], "1 place to change."))
    assert repr(wrong) == "Not yet: 1 finding left: item (line 3).\nHint: item: a value is read back."


def test_a_hint_is_shown_as_text_not_as_html():
    def test(answer):
        raise AssertionError("is `x < 3` & <b>bold</b>?")

    shown = exercises.verdict(test, 1).html
    assert "<code>x &lt; 3</code>" in shown
    assert "<b>" not in shown


# -- the playground

# What a reader may try first: what stands in the cell, what is written instead, and words of the hint.
# Before any of these, each exercise is left as it is.
LOSS_DIFFERS = "the original's"
WRONG = {
    1: [("out[train_mask], y[train_mask]", "out, y", LOSS_DIFFERS)],
    2: [("GCNConv(1433, 7)", "GCNConv(1433, 7, add_self_loops=False)", LOSS_DIFFERS)],
    3: [("pyg.global_mean_pool(x, batch)", "x.mean(0, keepdim=True).expand(10, -1)", "padding")],
    4: [
        (".item()", "", "picks one"),
        (".item()\n        if largest > 0.1:\n            pooled = pooled / largest", "", LOSS_DIFFERS),
    ],
    5: [
        ("x, edge_index, _, batch, _, _ = self.pool(x, edge_index, batch=batch)", "", "pool.select.weight"),
        (
            "self.pool = pyg.TopKPooling(16, ratio=0.5)",
            "self.pool = lambda x, edge_index, batch: (x, edge_index, None, batch, None, None)",
            "what scores them",
        ),
    ],
    6: [("pyg.BatchNorm(16)", "torch.nn.LayerNorm(16)", LOSS_DIFFERS)],
    7: [("GCNConv(1433, 16)", "GCNConv(1433, 16, add_self_loops=False)", "signature of `recon_loss`")],
    8: [
        ("y[:, 4])", "y[:, 4], reduction='sum') / 8", "another object"),
        (
            "max_num_neighbors=28)",
            "max_num_neighbors=28)\n        self.schnet.readout = SumOfNine()",
            "what should the ninth contribute?",
        ),
    ],
}
GIVES_IT_AWAY = re.compile(
    r"torch\.where|-100|self_loops|AddSelfLoops|\bsize=|dim_size|sigmoid|MaskedBatchNorm|identity_loss|neg_"
)


def cells_of_the_playground():
    """The cells of each exercise by role: those before it, the answer, the verdict, the solution."""
    exercises_found, before = [], []
    for cell in nbformat.read(PLAYGROUND, as_version=4).cells:
        tags = cell.metadata.get("tags", [])
        role = next((tag for tag in ("exercise", "verdict", "solution") if tag in tags), None)
        if cell.cell_type != "code":
            continue
        if role is None:
            before.append(cell.source)
        elif role == "exercise":
            exercises_found.append({"before": before, "exercise": cell.source})
            before = []
        else:
            exercises_found[-1][role] = cell.source
    return exercises_found


PARTS = cells_of_the_playground()


@pytest.fixture(scope="module")
def played():
    """The names of the playground after running it up to an exercise: `played(3)`."""
    module, done = types.ModuleType("playground"), 0
    names, sys.modules["playground"] = vars(module), module  # the tracer looks globals up by module

    def up_to(number):
        nonlocal done
        for part in PARTS[done:number]:
            for source in part["before"]:
                exec(source, names)
            exec(part["exercise"], names)
            exec(part["solution"], names)
        done = max(done, number)
        return names

    yield up_to
    del sys.modules["playground"]


def judged(names, answer, verdict):
    """The verdict on an answer: what the cell shows."""
    exec(answer, names)
    return eval(verdict, names)


def test_the_playground_has_eight_exercises():
    assert len(PARTS) == len(WRONG) == 8
    assert all(set(part) == {"before", "exercise", "verdict", "solution"} for part in PARTS)


@pytest.mark.parametrize("number", WRONG)
def test_an_open_or_wrong_answer_gets_a_hint_that_is_not_the_solution(played, number):
    part = PARTS[number - 1]
    names = played(number)
    untouched = judged(names, part["exercise"], part["verdict"])
    assert untouched.hint[:30] in part["verdict"], "the author's hint is not the one shown"
    tries = [(part["exercise"], "")]
    for old, new, words in WRONG[number]:
        assert old in part["exercise"]
        tries.append((part["exercise"].replace(old, new), words))
    for answer, words in tries:
        verdict = judged(names, answer, part["verdict"])
        assert verdict.solved is False
        assert words in verdict.hint
        assert verdict.hint
        assert not GIVES_IT_AWAY.search(repr(verdict)), repr(verdict)


@pytest.mark.parametrize("number", WRONG)
def test_every_solution_passes_the_check(played, number):
    names = played(number)
    verdict = names["solution"]
    assert verdict.solved is True, repr(verdict)
