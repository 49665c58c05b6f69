"""Scripts written for the Poplar SDK run where it is not installed, as `python script.py` would run them."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = ROOT / "examples"
STANDIN = ROOT / "tests" / "sdk_standin"


def run(*command, cwd, paths=()):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, [*paths, ROOT]))}
    command = [sys.executable, "-W", "ignore", *map(str, command)]
    return subprocess.run(command, env=environment, cwd=cwd, capture_output=True, text=True)


def run_for_sdk(code, folder, *arguments, **options):
    """The result of `code` as a script, run by `python -m gnn_ipu_helpers`."""
    (folder / "script.py").write_text(code)
    return run("-m", "gnn_ipu_helpers", "script.py", *arguments, cwd=folder, **options)


def output_of(code, folder, **options):
    result = run_for_sdk(code, folder, **options)
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.mark.parametrize("name", ["sdk_style_clusters", "sdk_style_packed_graphs"])
def test_script_written_for_the_sdk_runs(name, tmp_path):
    result = run("-m", "gnn_ipu_helpers", EXAMPLES / f"{name}.py", "--epochs", "8", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    right = re.search(r"accuracy ([\d.]+)%|(\d+) of 96 graphs are right", result.stdout)
    assert float(right[1] or right[2]) > 60, result.stdout


SCRIPTS = {
    "surroundings": """
import os, sys, __main__
print(__name__, __file__, sys.argv, sys.path[0], __main__.__file__, __doc__, __package__, __spec__)
print(__main__ is sys.modules["__main__"], vars(__main__) is globals(), sorted(globals()))
import helper_beside_it, pickle
class Own: pass
print(type(pickle.loads(pickle.dumps(Own()))) is Own)
import atexit
atexit.register(lambda: print("at exit", Own))
""",
    "exit code": "import sys\nprint('before')\nsys.exit(3)",
    "exit message": "raise SystemExit('that is all')",
    "error": """
def outer():
    try:
        1 / 0
    except ZeroDivisionError as error:
        raise ValueError("in the script") from error
outer()
""",
    "syntax error": "print('one'\nprint('two')\n",
    "interrupt": "raise KeyboardInterrupt",
    "own hook": """
import sys, traceback
sys.excepthook = lambda kind, error, tb: print(kind, len(traceback.extract_tb(tb)))
raise ValueError
""",
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_script_runs_as_by_python_itself(name, tmp_path):
    (tmp_path / "helper_beside_it.py").write_text("")
    ours = run_for_sdk(SCRIPTS[name], tmp_path, "one", "--two")
    python = run("script.py", "one", "--two", cwd=tmp_path)
    assert (ours.returncode, ours.stdout) == (python.returncode, python.stdout)
    told, *rest = ours.stderr.splitlines()
    assert rest == python.stderr.splitlines()
    assert told.startswith("poptorch and poptorch_geometric: gnn_ipu_helpers stands for them")


def test_missing_script_and_no_script(tmp_path):
    missing = run("-m", "gnn_ipu_helpers", "nowhere.py", cwd=tmp_path)
    python = run("nowhere.py", cwd=tmp_path)
    assert (missing.returncode, missing.stderr) == (2, python.stderr)
    nothing = run("-m", "gnn_ipu_helpers", cwd=tmp_path)
    assert nothing.returncode == 2
    assert "usage: python -m gnn_ipu_helpers script.py" in nothing.stderr


EVERY_MODULE = """
import poptorch, poptorch_geometric
from poptorch import enums, ops, optim, options, poptorch_core, profiling
from poptorch.enums import DataLoaderMode, OutputMode, ReductionType
from poptorch.ops import identity_loss, nop
from poptorch.optim import LAMB, SGD, Adam, AdamW, RMSprop
from poptorch.options import Options, PipelinedExecution
from poptorch.poptorch_core import Error
from poptorch_geometric import FixedSizeDataLoader, FixedSizeOptions, FixedSizeStrategy, OverSizeStrategy
from poptorch_geometric.cluster_loader import FixedSizeClusterLoader
from poptorch_geometric.collate import make_exclude_keys
from poptorch_geometric.common import DataBatch, HeteroDataBatch, call_once
from poptorch_geometric.dataloader import DataLoader, FixedSizeDataLoader as again
from poptorch_geometric.fixed_size_options import FixedSizeOptions as options_again
from poptorch_geometric.neighbor_loader import FixedSizeNeighborLoader
from poptorch_geometric.ops import HeteroLinear, knn_graph
from poptorch_geometric.pyg_cluster_loader import FixedSizeClusterLoader as cluster_again
from poptorch_geometric.pyg_dataloader import FixedSizeStrategy as strategy_again
from poptorch_geometric.types import registerCustomArgParsers
from poptorch_geometric.utils import set_aggregation_dim_size
import poptorch.optim as imported, poptorch_geometric.dataloader

import gnn_ipu_helpers
assert poptorch.Options is Options is gnn_ipu_helpers.poptorch.Options
assert poptorch.optim is imported and imported.Adam is gnn_ipu_helpers.poptorch.optim.Adam
assert poptorch.Error is Error and poptorch.OutputMode is OutputMode
assert FixedSizeDataLoader is again is gnn_ipu_helpers.FixedSizeDataLoader
assert poptorch_geometric.dataloader.DataLoader is gnn_ipu_helpers.DataLoader
for name in ("poptorch.nowhere", "poptorch_geometric.nowhere"):
    try:
        __import__(name)
    except ModuleNotFoundError as error:
        print(error)
for code in (
    "from poptorch_geometric import FixedSizeNeighborLoader",
    "poptorch_geometric.FixedSizeNeighborLoader",
    "poptorch.traningModel",
    "from poptorch_geometric.collate import FixedSizeCollater",
    "import poptorch_geometric.masker",
    "from poptorch_geometric.stream_packing_sampler import StreamPackingSampler",
    "poptorch_geometric.TrainingStepper",
):
    try:
        exec(code)
    except (AttributeError, ImportError) as error:
        print(f"{code}: {type(error).__name__}: {error}")
"""


def test_every_module_is_there_and_what_is_not_says_so(tmp_path):
    lines = output_of(EVERY_MODULE, tmp_path).splitlines()
    assert lines[:2] == ["No module named 'poptorch.nowhere'", "No module named 'poptorch_geometric.nowhere'"]
    assert lines[2].startswith("from poptorch_geometric import FixedSizeNeighborLoader: ImportError: cannot")
    assert lines[3].endswith("it is in 'poptorch_geometric.neighbor_loader'")
    assert "AttributeError: module 'poptorch' of the Poplar SDK has no attribute" in lines[4]
    without = lines[5:]
    assert len(without) == 4
    for line, use in zip(without, ["collate_fixed_size", "nodes_mask", "StreamPack)", "assert_close"]):
        assert "of the Poplar SDK has no counterpart in gnn_ipu_helpers. Use instead: " in line
        assert use in line


PYG = """
import torch
from torch_geometric.data import Data
from torch_geometric.loader import ClusterData, NeighborLoader
from torch_geometric.utils import k_hop_subgraph, to_undirected
torch.manual_seed(0)
edge_index = to_undirected(torch.randint(0, 60, (2, 150)))
graph = Data(torch.arange(60.0).view(-1, 1), edge_index)
seen = []
for batch in NeighborLoader(graph, [-1, -1], batch_size=7):
    seeds = batch.n_id[: batch.batch_size]
    nodes, *_ = k_hop_subgraph(seeds, 2, edge_index, flow="source_to_target")
    assert set(nodes.tolist()) == set(batch.n_id.tolist())
    seen += seeds.tolist()
assert seen == list(range(60))
repeated = next(iter(NeighborLoader(graph, [50], None, None, True, batch_size=2)))
assert (torch.bincount(repeated.edge_index[1])[:2] == 50).all(), "replace is the fifth argument"
clusters = ClusterData(graph, num_parts=4, log=False)
sizes = [cluster.num_nodes for cluster in clusters]
assert sorted(torch.cat([cluster.x for cluster in clusters]).flatten().tolist()) == list(range(60))
inside = sum(cluster.num_edges for cluster in clusters) / graph.num_edges
print(sizes, inside)
"""


def test_loaders_of_pyg_get_a_sampler_and_metis(tmp_path):
    sizes, inside = output_of(PYG, tmp_path).rsplit(" ", 1)
    assert all(12 <= size <= 18 for size in eval(sizes))
    assert float(inside) > 0.3, "a random partition keeps a quarter of the edges"


REPLACED_MAIN = """
import sys, types, poptorch, torch
from torch.nn.functional import mse_loss as loss_function

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(3))

    def forward(self, x):
        return loss_function(self.weight * x, added(x))

sys.modules["__main__"] = types.ModuleType("__main__")
for added in (lambda x: x + 1, lambda x: x + 2):
    model = Model()
    print(poptorch.trainingModel(model)(torch.ones(2, 3)).item())
"""


def test_model_of_a_script_whose_main_module_was_replaced(tmp_path):
    assert output_of(REPLACED_MAIN, tmp_path).split() == ["1.0", "4.0"]


def test_installed_sdk_is_left_alone(tmp_path):
    code = "import poptorch\nfrom torch_geometric.loader import NeighborLoader as loader\n"
    code += "print(poptorch.__file__, loader.__init__.__code__.co_filename)"
    result = run_for_sdk(code, tmp_path, paths=[STANDIN])
    file, home = result.stdout.split()
    assert Path(file) == STANDIN / "poptorch" / "__init__.py"
    assert home.endswith(os.path.join("torch_geometric", "loader", "neighbor_loader.py"))
    assert result.stderr.startswith(f"poptorch is installed ({file}): gnn_ipu_helpers changed nothing")


def test_module_beside_the_script_is_not_hidden(tmp_path):
    (tmp_path / "poptorch_geometric.py").write_text("mine = True")
    result = run_for_sdk("import poptorch_geometric\nprint(poptorch_geometric.mine)", tmp_path)
    assert result.stdout == "True\n"
    assert "poptorch_geometric is installed" in result.stderr


NOTEBOOK = """
import sys, torch_geometric.loader as loader

def state():
    return [*sys.meta_path], loader.NeighborLoader.__init__, loader.ClusterData._metis

before = state()
import gnn_ipu_helpers, gnn_ipu_helpers.batching, gnn_ipu_helpers.datasets, gnn_ipu_helpers.porting
import gnn_ipu_helpers.poptorch_cpu, gnn_ipu_helpers.viewers
from gnn_ipu_helpers import sdk_scripts
assert state() == before
assert not [name for name in sys.modules if name.startswith("poptorch")]
sdk_scripts.enable()
sdk_scripts.enable()
import poptorch
assert state() != before
"""


def test_only_the_call_changes_anything_and_says_what(tmp_path):
    (tmp_path / "notebook.py").write_text(NOTEBOOK)
    result = run("notebook.py", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    first, second = result.stdout.splitlines()
    assert first == (
        "poptorch and poptorch_geometric: gnn_ipu_helpers stands for them; PyG's NeighborLoader samples with "
        "its sampler; PyG's ClusterData partitions with pymetis; no IPU is used."
    )
    assert "already" in second
