"""In a notebook a finished progress bar leaves nothing: no red strip, no line between the results."""

import os
from pathlib import Path

import pytest
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell, new_notebook

ROOT = Path(__file__).resolve().parents[2]
WIDGET = "application/vnd.jupyter.widget-view+json"
COMPILES = """
import torch
from gnn_ipu_helpers import poptorch

print("before")
poptorch.inferenceModel(torch.nn.Linear(3, 3).eval())(torch.ones(2, 3))
print("after")
"""
READS_SIZES = """
from gnn_ipu_helpers import FixedSizeOptions, datasets

print("before")
FixedSizeOptions.from_dataset(list(datasets.mutag()), 4, progress_bar=True)
print("after")
"""


@pytest.mark.parametrize("source", [COMPILES, READS_SIZES], ids=["compilation", "reading sizes"])
def test_a_finished_bar_leaves_nothing_in_a_notebook(source, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", f"{ROOT}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    monkeypatch.setenv("GNN_IPU_COMPILER", "unfused")
    notebook = new_notebook(cells=[new_code_cell(source)])
    NotebookClient(notebook, kernel_name="python3", extra_arguments=["--log-level=ERROR"]).execute()
    outputs = notebook.cells[0].outputs
    assert [output.name for output in outputs if output.output_type == "stream"] == ["stdout", "stdout"]
    assert "".join(output.get("text", "") for output in outputs) == "before\nafter\n"
    # JupyterLab removes the widget of a finished bar; `make refresh` and `make run` drop what is left of it.
    assert all(WIDGET in output.data for output in outputs if output.output_type != "stream")
