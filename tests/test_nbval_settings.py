"""nbval compares stored outputs where the data is the one they came from, and only executes elsewhere."""

import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook, new_output

ROOT = Path(__file__).resolve().parent.parent


def stored(number, source, text):
    cell = new_code_cell(source, execution_count=number, metadata={"tags": ["nbval-check-output"]})
    cell.outputs = [new_output("stream", name="stdout", text=text)]
    return cell


def run_nbval(folder, data_now, result_now):
    cells = [
        new_code_cell(f"print('Backend: here'); print({data_now!r})", execution_count=1),
        stored(2, f"print({result_now!r})", "39.91 %\n"),
    ]
    cells[0].outputs = [new_output("stream", name="stdout", text="Backend: there\nreal data\n")]
    nbformat.write(new_notebook(cells=cells), folder / "small.ipynb")
    (folder / "conftest.py").write_text((ROOT / "conftest.py").read_text())
    settings = [
        "--nbval-lax",
        "--nbval-current-env",
        f"--nbval-sanitize-with={ROOT / 'tests/nbval_sanitize.cfg'}",
    ]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *settings, "small.ipynb"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize(
    ("data", "result", "passes"),
    [("real data", "39.91 %", True), ("real data", "41.00 %", False), ("stand-in", "41.00 %", True)],
)
def test_outputs_are_compared_on_the_stored_data_only(tmp_path, data, result, passes):
    run = run_nbval(tmp_path, data, result)
    assert (run.returncode == 0) == passes, run.stdout


def test_a_failing_cell_fails_on_any_data(tmp_path):
    run = run_nbval(tmp_path, "stand-in", "x")
    assert run.returncode == 0
    notebook = nbformat.read(tmp_path / "small.ipynb", as_version=4)
    notebook.cells[1].source = "raise ValueError"
    nbformat.write(notebook, tmp_path / "small.ipynb")
    command = [sys.executable, "-m", "pytest", "-q", "--nbval-lax", "--nbval-current-env", "small.ipynb"]
    assert subprocess.run(command, cwd=tmp_path, capture_output=True, timeout=120).returncode != 0
