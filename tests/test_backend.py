"""Which PopTorch the package uses, and what it says about it."""

import os
import subprocess
import sys
from pathlib import Path

import torch
import torch_geometric

import gnn_ipu_helpers
from gnn_ipu_helpers import poptorch_cpu

ROOT = Path(__file__).parents[1]
STANDIN = ROOT / "tests" / "sdk_standin"


def _run(code, *paths):
    """The output of a Python process with ``paths`` first on its path."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, [*paths, ROOT]))}
    command = [sys.executable, "-W", "ignore", "-c", code]
    result = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()


def test_without_the_sdk_it_is_our_implementation():
    assert gnn_ipu_helpers.poptorch is poptorch_cpu
    versions = f"torch {torch.__version__}, torch_geometric {torch_geometric.__version__}"
    assert gnn_ipu_helpers.backend() == f"Backend: CPU implementation of PopTorch's calls ({versions})"


def test_the_sdks_module_is_used_where_it_imports():
    code = "import gnn_ipu_helpers as g; print(g.poptorch.__file__); print(g.backend())"
    file, backend = _run(code, STANDIN).splitlines()
    assert Path(file) == STANDIN / "poptorch" / "__init__.py"
    assert backend.startswith("Backend: PopTorch 3.3.0 (torch ")
    assert "made for torch 2.0.1 and torch_geometric 2.4.0" in backend


def test_stand_in_imported_first_has_the_listed_names_and_no_other():
    code = (
        "import poptorch\n"
        "print(all(hasattr(poptorch, name) for name in dir(poptorch)))\n"
        "print(hasattr(poptorch, 'isCompiled'), hasattr(poptorch, 'compile_count'))\n"
        "import gnn_ipu_helpers as g\n"
        "print(g.poptorch is poptorch)"
    )
    assert _run(code, STANDIN).splitlines() == ["True", "False False", "True"]


def test_loaders_and_questions_work_on_the_sdks_module():
    code = """
import torch
from torch_geometric.data import Data
import gnn_ipu_helpers as g, poptorch
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(2, 2)
    def forward(self, x, y):
        return torch.nn.functional.cross_entropy(self.linear(x), y)
options = poptorch.Options().useIpuModel(True).showCompilationProgressBar(False)
graphs = [Data(torch.randn(3, 2), torch.zeros(2, 1, dtype=torch.long), y=torch.ones(3, dtype=torch.long))] * 6
loader = g.FixedSizeDataLoader(graphs, batch_size=3, options=options, num_workers=0)
print(isinstance(loader, poptorch.DataLoader))
model = poptorch.trainingModel(Model(), options)
for batch in loader:
    model(batch.x, batch.y)
print(g.compile_count(model), g.settings_without_effect(options))
"""
    assert _run(code, STANDIN).splitlines() == ["True", "1 {}"]


def test_sdk_that_does_not_import_is_named_in_a_warning(tmp_path):
    (tmp_path / "poptorch.py").write_text("raise ImportError('libpoptorch.so: cannot open')")
    code = (
        "import warnings\n"
        "with warnings.catch_warnings(record=True) as caught:\n"
        "    warnings.simplefilter('always')\n"
        "    import gnn_ipu_helpers as g\n"
        "print(g.backend().split(' (')[0])\n"
        "print(*[w.message for w in caught if 'PopTorch' in str(w.message)])"
    )
    backend, warning = _run(code, tmp_path).splitlines()
    assert backend == "Backend: CPU implementation of PopTorch's calls"
    assert "does not import (libpoptorch.so: cannot open)" in warning
    assert "wants torch 2.0.1 and torch_geometric 2.4.0" in warning


def test_importing_a_loader_imports_neither_our_tracer_nor_our_compiler():
    code = "import sys, gnn_ipu_helpers.batching; print(*[m for m in sys.modules if m.startswith('gnn_ipu')])"
    command = [sys.executable, "-W", "ignore", "-c", code]
    imported = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert "gnn_ipu_helpers.batching.loaders" in imported
    heavy = {"poptorch_cpu.compiler", "poptorch_cpu.passes", "porting.tracing", "porting.static_layers"}
    assert not {f"gnn_ipu_helpers.{name}" for name in heavy} & set(imported)
