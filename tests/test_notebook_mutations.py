"""A fix deleted from a notebook makes the notebook fail: the check or an assertion says what is missing."""

import sys
import types
from pathlib import Path

import nbformat
import pytest

from gnn_ipu_helpers import poptorch

NOTEBOOKS = Path(__file__).resolve().parent.parent / "notebooks"
GLANCE = "1_at_a_glance"
WORKED = "2_a_worked_example"
PADDING = "3_small_graph_batching_with_padding"
PACKING = "4_small_graph_batching_with_packing"
SAMPLING = "5_large_graph_sampling"

# Notebook, beginning of the cell, the fix in it, what stands there instead, and what a later cell says;
# in the order of the cells, so that no cell before them runs twice.
MUTATIONS = {
    "self-loops added by the layer": (
        GLANCE,
        "class PortedGCN",
        ", add_self_loops=False",
        "",
        "a finding is left",
    ),
    "boolean indexing": (
        GLANCE,
        "class PortedGCN",
        "F.cross_entropy(logits, labels)",
        "F.cross_entropy(logits[train_mask], y[train_mask])",
        "a finding is left",
    ),
    "the loss outside forward": (
        GLANCE,
        "class PortedGCN",
        "return logits, F.cross_entropy(logits, labels)",
        "return logits",
        "a finding is left",
    ),
    "self-loops added by nobody": (
        GLANCE,
        "looped = ",
        ", T.AddSelfLoops()",
        "",
        "self-loops are missing",
    ),
    "pooling without size": (
        GLANCE,
        "class MoleculeGCN",
        ", size=self.num_graphs",
        "",
        "a finding is left",
    ),
    "self-loops added by the second layer": (
        WORKED,
        "class GCN",
        "out_channels, add_self_loops=False",
        "out_channels",
        "a finding is left",
    ),
    "labels of all nodes": (
        WORKED,
        "class GCN",
        "torch.where(train_mask, y, -100)",
        "y",
        "a label outside the mask reached the loss",
    ),
    "pooling molecules without size": (
        PADDING,
        "class GapNet(",
        ", size=self.num_graphs",
        "",
        "a finding is left",
    ),
    "statistics over padding": (
        PADDING,
        "class GapNet(",
        "torch.nn.LayerNorm(hidden)",
        "torch.nn.BatchNorm1d(hidden)",
        "padding reached the loss",
    ),
    "the padding graph in the loss": (
        PADDING,
        "class GapNetWithLoss",
        "graphs_mask / graphs_mask.sum()",
        "torch.ones_like(predicted) / len(predicted)",
        "padding reached the loss",
    ),
    "pooling packs without size": (
        PACKING,
        "class GinForPacking(",
        ", size=self.num_graphs",
        "",
        "a finding is left",
    ),
    "batch normalisation over padding": (
        PACKING,
        "class GinForPacking(",
        "norm(conv(x, edge_index), nodes_mask)",
        "norm(conv(x, edge_index))",
        "padding reached the loss",
    ),
    "labels of padding graphs counted": (
        PACKING,
        "class GinForPacking(",
        "torch.where(graphs_mask, y, -100)",
        "y",
        "padding reached the loss",
    ),
    "labels outside the mask": (
        SAMPLING,
        "class NodeClassifier(",
        "torch.where(loss_mask, y, -100)",
        "y",
        "a label outside the mask reached the loss",
    ),
    "a mean over no training node": (
        SAMPLING,
        "class NodeClassifier(",
        ".clamp(min=1)",
        "",
        "a batch without training nodes spoils the loss",
    ),
    "self-loops added by the GCN": (
        SAMPLING,
        "def make_gcn",
        ", add_self_loops=False",
        "",
        "a finding is left",
    ),
}


class Kernel:
    """Runs the cells of a notebook in a module of its own; a copy goes on from where it is."""

    def __init__(self, name, names=()):
        notebook = nbformat.read(NOTEBOOKS / f"{name}.ipynb", as_version=4)
        self.cells = [cell.source for cell in notebook.cells if cell.cell_type == "code"]
        self.module = types.ModuleType("mutated_notebook")
        self.module.__dict__.update(names)
        self.next = 0

    def copy(self, name):
        copied = Kernel(name, self.module.__dict__)
        copied.next = self.next
        return copied

    def find(self, beginning):
        (position,) = [number for number, cell in enumerate(self.cells) if cell.startswith(beginning)]
        return position

    def run(self, end=None):
        sys.modules[self.module.__name__] = self.module
        for cell in self.cells[self.next : end]:
            exec(cell, self.module.__dict__)
        self.next = end


@pytest.fixture(scope="module")
def kernels():
    """One kernel for each notebook, which has run the cells before the mutation."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GNN_IPU_DATA", "standin")
        patch.setattr(sys, "path", list(sys.path))
        patch.chdir(NOTEBOOKS)
        yield {name: Kernel(name) for name in (GLANCE, WORKED, PADDING, PACKING, SAMPLING)}
        sys.modules.pop("mutated_notebook", None)


@pytest.mark.parametrize("mutation", MUTATIONS)
def test_a_deleted_fix_makes_the_notebook_fail(mutation, kernels):
    name, beginning, fix, replacement, message = MUTATIONS[mutation]
    kernel = kernels[name]
    position = kernel.find(beginning)
    assert fix in kernel.cells[position]
    kernel.run(position)
    mutated = kernel.copy(name)
    mutated.cells[position] = mutated.cells[position].replace(fix, replacement)
    with pytest.raises((AssertionError, poptorch.Error), match=message):
        mutated.run()
