"""The scripts of graph networks: each learns, compiles once, passes `check` and explains itself."""

import ast
import contextlib
import functools
import importlib
import io
import sys
from pathlib import Path

import pytest
import torch

from gnn_ipu_helpers import check, compile_count, poptorch
from gnn_ipu_helpers.porting import static_replacements

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
# Arguments for a short run, and whether the score is an error, which is better when small.
SCRIPTS = {
    "gcn_cora": (["--epochs", "30"], False),
    "gin_mutag": (["--epochs", "15"], False),
    "link_prediction": (["--epochs", "20"], False),
    "schnet_qm9": (["--epochs", "2", "--molecules", "160", "--hidden", "32", "--lr", "0.005"], True),
    "neighbours": (["--epochs", "4", "--seeds", "512", "--batch-size", "64"], False),
}


class Recorded:
    """A wrapped model that remembers what it was first called with."""

    def __init__(self, wrapped):
        self.wrapped, self.arguments = wrapped, None

    def __call__(self, *arguments):
        self.arguments = self.arguments or arguments
        return self.wrapped(*arguments)

    def __getattr__(self, name):
        return getattr(self.wrapped, name)


@pytest.fixture(scope="module")
def run():
    """Runs a script briefly, once: `score, baseline, printed, recorded = run(name)`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(EXAMPLES)
        recorded = {}

        def recording(kind, wrap):
            def wrap_and_record(model, *args, **kwargs):
                recorded[kind] = model, Recorded(wrap(model, *args, **kwargs))
                return recorded[kind][1]

            return wrap_and_record

        for kind in ("trainingModel", "inferenceModel"):
            patch.setattr(poptorch, kind, recording(kind, getattr(poptorch, kind)))

        @functools.lru_cache(None)
        def run(name):
            script = importlib.import_module(name)
            patch.setattr(script, "compile_count", lambda model: compile_count(model.wrapped))
            with contextlib.redirect_stdout(io.StringIO()) as printed:
                score, baseline = script.main(SCRIPTS[name][0])
            lines = [line for line in printed.getvalue().splitlines() if not line.startswith("Note: ")]
            return score, baseline, "\n".join(lines), dict(recorded)  # without the note on stand-in data

        yield run


@pytest.mark.parametrize("name", SCRIPTS)
def test_it_beats_the_baseline_in_one_compilation_of_a_static_graph(run, name):
    score, baseline, printed, recorded = run(name)
    is_error = SCRIPTS[name][1]
    better_by = baseline - score if is_error else score - baseline
    assert better_by > 0.05, f"{score} against {baseline}"
    assert len(printed.splitlines()) == 2
    assert "compilations of the training model: 1" in printed
    for kind, (model, wrapped) in recorded.items():
        assert compile_count(wrapped.wrapped) == 1
        report = check(model.train(kind == "trainingModel"), *wrapped.arguments)
        assert report.ok, report
        assert not report.warnings, report


@pytest.mark.parametrize("name", SCRIPTS)
def test_it_is_short_and_says_what_it_was_ported_from_and_how(name, monkeypatch, capsys):
    text = (EXAMPLES / f"{name}.py").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 125
    docstring = ast.get_docstring(ast.parse(text))
    assert "PyG's examples/" in docstring
    lines = docstring.splitlines()
    assert [line for line in lines if line.startswith("    - ")]
    assert [line for line in lines if line.startswith("    + ")]
    monkeypatch.syspath_prepend(EXAMPLES)
    monkeypatch.setattr(sys, "argv", [name, "--help"])
    with pytest.raises(SystemExit):
        importlib.import_module(name).main()
    assert "--epochs" in capsys.readouterr().out


# -- what is particular to one of them


def test_negative_edges_are_always_as_many_and_never_real(monkeypatch):
    monkeypatch.syspath_prepend(EXAMPLES)
    draw = importlib.import_module("link_prediction").draw_negatives
    known = torch.stack([torch.arange(30), torch.arange(30).roll(1)])
    torch.manual_seed(0)
    for _ in range(5):
        drawn = draw(known, 30, 200)
        assert drawn.shape == (2, 200)
        assert not (set(map(tuple, drawn.t().tolist())) & set(map(tuple, known.t().tolist())))
    everything = torch.cartesian_prod(torch.arange(30), torch.arange(30)).t()
    with pytest.raises(AssertionError, match="too dense to find 200 pairs"):
        draw(everything, 30, 200)


def test_padding_atoms_have_no_neighbours_and_all_gradients_are_finite(run):
    model, wrapped = run("schnet_qm9")[-1]["trainingModel"]
    z, positions, batch, graphs_mask, y = wrapped.arguments
    is_padding = z == 0
    assert is_padding.any()
    assert torch.pdist(positions[is_padding]).min() > model.schnet.cutoff
    positions = positions.clone().requires_grad_()
    with static_replacements():
        _, loss = model.train()(z, positions, batch, graphs_mask, y)
        gradients = torch.autograd.grad(loss, [positions, *model.parameters()])
    assert all(gradient.isfinite().all() for gradient in gradients)
    assert gradients[0][~is_padding].any()
    assert not gradients[0][is_padding].any()
