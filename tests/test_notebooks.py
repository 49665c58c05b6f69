"""What every stored notebook promises: one shape, run in order, clean outputs."""

import ast
import json
import re
from pathlib import Path

import nbformat
import pytest

ROOT = Path(__file__).resolve().parent.parent
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
LOCAL_PATH = re.compile(r"(?<![\w.])/(?:root|work|home/\w+|tmp|Users/\w+|mnt)/")
PROGRESS_DEBRIS = re.compile(r"it/s\]|\d+%\|")
LONGEST_CELL = 25


@pytest.fixture(params=NOTEBOOKS, ids=lambda path: path.stem)
def notebook(request):
    return nbformat.read(request.param, as_version=4)


def code_cells(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code" and cell.source.strip()]


def outputs(notebook):
    return [(cell, output) for cell in code_cells(notebook) for output in cell.outputs]


def text_of(output):
    data = {kind: value for kind, value in output.get("data", {}).items() if not kind.startswith("image/")}
    return json.dumps([output.get("text", ""), data])


def prose(notebook):
    return "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")


def test_the_suite_is_complete():
    assert [path.stem.split("_")[0] for path in NOTEBOOKS] == [*"123456", "appendix", "appendix"]


def test_cells_were_run_once_from_top_to_bottom(notebook):
    counts = [cell.execution_count for cell in code_cells(notebook)]
    assert counts == list(range(1, len(counts) + 1))


def test_outputs_hold_no_errors_warnings_or_debris(notebook):
    for cell, output in outputs(notebook):
        if output.output_type == "error":
            assert "raises-exception" in cell.metadata.get("tags", []), output.ename
        assert output.get("name") != "stderr", output.text
        text = text_of(output)
        assert not LOCAL_PATH.search(text), text[:300]
        assert not PROGRESS_DEBRIS.search(text), text[:300]
        assert "Warning" not in text, text[:300]


def test_metadata_is_stripped(notebook):
    assert set(notebook.metadata) <= {"kernelspec", "language_info"}
    for cell in notebook.cells:
        assert set(cell.metadata) <= {"tags", "jupyter"}


def test_cells_are_short(notebook):
    lines = [[line for line in cell.source.splitlines() if line.strip()] for cell in code_cells(notebook)]
    assert max(map(len, lines)) <= LONGEST_CELL


def test_every_picture_has_alternative_text(notebook):
    for _, output in outputs(notebook):
        if "image/png" in output.get("data", {}):
            assert re.search(r'<img [^>]*alt="[^"]+"', output.data.get("text/html", ""))
    for image in re.findall(r"!\[(.*?)\]\(", prose(notebook)):
        assert image.strip()


def test_one_shape_for_all(notebook):
    headings = [line.lstrip("# ") for line in prose(notebook).splitlines() if line.startswith("#")]
    for wanted in ("What you will learn", "Set-up", "Check yourself", "What next"):
        assert any(wanted in heading for heading in headings), f"no heading {wanted!r} among {headings}"
    solutions = [cell for cell in code_cells(notebook) if "solution" in cell.metadata.get("tags", [])]
    assert len(solutions) >= 2
    assert all(cell.metadata.jupyter["source_hidden"] for cell in solutions)


def test_exercises_are_answered_in_a_cell_and_judged_in_the_next(notebook):
    roles = ("exercise", "verdict", "solution")
    tags = [cell.metadata.get("tags", []) for cell in code_cells(notebook)]
    found = [next((role for role in roles if role in each), None) for each in tags]
    title = notebook.cells[0].source.splitlines()[0]
    # The playground is nothing but exercises; the other appendix has only questions.
    wanted = {"# Appendix · Port your model": (8,)}.get(title, (0,) if "Appendix" in title else (2, 3))
    assert found.count("exercise") in wanted
    for number, role in enumerate(found):
        if role == "exercise":
            assert found[number : number + 3] == list(roles)


def test_the_first_cell_says_what_runs_on_what(notebook):
    first = code_cells(notebook)[0]
    printed = "".join(output.get("text", "") for output in first.outputs)
    assert printed.startswith("Backend: ")
    assert len(printed.strip().splitlines()) >= 2, "the data is not named"


def test_some_outputs_are_compared_strictly(notebook):
    tagged = [cell for cell in code_cells(notebook) if "nbval-check-output" in cell.metadata.get("tags", [])]
    assert len(tagged) >= 3
    assert all(cell.outputs for cell in tagged)


def test_the_first_cells_import_the_package_not_the_sdk(notebook):
    tree = ast.parse("\n".join(re.sub(r"(?m)^[%!].*$", "", cell.source) for cell in code_cells(notebook)))
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    assert "poptorch" not in imported, (
        "import it from gnn_ipu_helpers, so that the cell runs without the SDK too"
    )
