"""Every public name has an example in the reference, and every example is true."""

import contextlib
import doctest
import functools
import importlib
import importlib.util
import inspect
import io
import sys
import types
from pathlib import Path

import pytest
import torch
import torch_geometric.nn
from torch_geometric.nn import GCNConv, global_add_pool

import gnn_ipu_helpers
from gnn_ipu_helpers import datasets, porting
from gnn_ipu_helpers.datasets import loading

TOOLS = Path(__file__).resolve().parent.parent / "tools"
MODULES = [
    "gnn_ipu_helpers",
    "gnn_ipu_helpers.batching",
    "gnn_ipu_helpers.datasets",
    "gnn_ipu_helpers.porting",
    "gnn_ipu_helpers.porting.point_clouds",
    "gnn_ipu_helpers.poptorch_cpu",
    "gnn_ipu_helpers.viewers",
]
OPTIMISERS = [
    f"gnn_ipu_helpers.poptorch_cpu.optim.{name}" for name in ("SGD", "Adam", "AdamW", "RMSprop", "LAMB")
]
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


class Classifier(torch.nn.Module):
    """The `model` of examples that have none of their own."""

    def __init__(self):
        super().__init__()
        self.conv = GCNConv(7, 2, add_self_loops=False)

    def forward(self, x, edge_index, batch):
        return global_add_pool(self.conv(x, edge_index), batch, size=10)


def load_examples():
    spec = importlib.util.spec_from_file_location("reference_examples", TOOLS / "reference_examples.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.read()


def resolve(name):
    module, _, attribute = name.rpartition(".")
    return getattr(importlib.import_module(module), attribute)


def public_names():
    """The names that the modules offer, each object once, without modules."""
    found = {}
    for name in MODULES:
        module = importlib.import_module(name)
        offered = getattr(module, "__all__", None) or [
            each
            for each, value in vars(module).items()
            if getattr(value, "__module__", "") == name and each[0] != "_"
        ]
        for each in offered:
            value = getattr(module, each)
            if not inspect.ismodule(value):
                found.setdefault(id(value), f"{name}.{each}")
    return [*found.values(), *OPTIMISERS]


WRITTEN = load_examples()
PUBLIC = public_names()
IN_DOCSTRINGS = [name for name in PUBLIC if ">>>" in (resolve(name).__doc__ or "")]


@pytest.fixture(autouse=True)
def surroundings(monkeypatch):
    """No notice of stand-ins between the lines, and nothing that an example sets stays set."""
    monkeypatch.setattr(loading, "_tell_once", lambda *_: None)
    monkeypatch.setenv("DATASETS_DIR", str(datasets.default_root()))
    torch.manual_seed(0)


@pytest.fixture
def run(monkeypatch):
    """Runs the doctest `source` with `names` at hand."""
    return functools.partial(run_doctest, monkeypatch)


def run_doctest(monkeypatch, source, names, title):
    module = types.ModuleType("example")
    vars(module).update(names)
    monkeypatch.setitem(sys.modules, "example", module)  # the tracer looks globals up by module
    test = doctest.DocTestParser().get_doctest(source, {}, title, None, None)
    test.globs = vars(module)
    runner, told = doctest.DocTestRunner(optionflags=FLAGS, verbose=False), []
    with contextlib.redirect_stderr(io.StringIO()):
        runner.run(test, out=told.append)
    assert test.examples
    assert runner.failures == 0, "".join(told)


def test_every_public_name_has_an_example():
    documented = {id(resolve(name)) for name in [*WRITTEN, *IN_DOCSTRINGS]}
    assert [name for name in PUBLIC if id(resolve(name)) not in documented] == []


def test_no_example_is_written_twice_or_for_nothing_public():
    public = {id(resolve(name)) for name in PUBLIC}
    assert [name for name in WRITTEN if id(resolve(name)) not in public or name in IN_DOCSTRINGS] == []


@pytest.mark.parametrize(
    "text", sorted({text for _, text in WRITTEN.values()}), ids=lambda text: text[4:50].split("\n")[0]
)
def test_written_examples_are_true(run, text):
    name, before = next((name, before) for name, (before, each) in WRITTEN.items() if each == text)
    run(before + text, {}, name)


@pytest.mark.parametrize("name", IN_DOCSTRINGS)
def test_examples_in_docstrings_are_true(run, name):
    value = resolve(name)
    names = {
        **vars(gnn_ipu_helpers),
        **vars(porting),
        **vars(datasets),
        **vars(sys.modules[value.__module__]),
    }
    names.update(torch=torch, torch_geometric=torch_geometric, datasets=datasets)
    names.update(x=torch.rand(4, 7), mlp=torch.nn.Linear(6, 2), __name__="example")
    names.update(edge_index=torch.tensor([[0, 1, 2], [1, 2, 3]]))
    source = value.__doc__
    names["model"] = Classifier() if "Loader" in source else GCNConv(7, 2, add_self_loops=False)
    if "real data" in source and "real data" not in datasets.describe(datasets.mutag()):
        pytest.skip("the example is on the real data")
    run(source, names, name)
