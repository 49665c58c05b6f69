"""One line says what a dataset is, and examples what the functions give."""

import doctest
import os

import pytest
from torch_geometric.datasets import FakeDataset

from gnn_ipu_helpers import datasets
from gnn_ipu_helpers.datasets import describe

from .conftest import ENTRIES


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("cora", "Cora: stand-in, 2,708 nodes, 10,556 edges, 7 classes"),
        ("mutag", "MUTAG: stand-in, 188 graphs, 3,371 nodes, 7,442 edges, 2 classes"),
        (
            "imdb",
            "IMDB: stand-in, 4,278 movie nodes, 2,081 director nodes, 5,257 actor nodes, 34,212 edges",
        ),
    ],
)
def test_stand_ins(stand_in, name, line):
    assert describe(stand_in(name)) == line


def test_molecules_are_counted_and_their_method_named(stand_in):
    molecules = stand_in("qm9")
    assert describe(molecules) == f"QM9: stand-in, {len(molecules):,} molecules with GFN2-xTB properties"
    assert describe(molecules[:50]).startswith(f"QM9: stand-in, 50 of {len(molecules):,} molecules")


def test_a_part_of_a_dataset_says_so(stand_in):
    assert describe(stand_in("mutag")[150:]) == "MUTAG: stand-in, 38 of its 188 graphs"


def test_both_parts_of_fashion_mnist(stand_in):
    train, test = stand_in("fashion_mnist")
    assert describe(train) == "FashionMNIST: stand-in, 60,000 images, 10 classes"
    assert describe(test) == "FashionMNIST: stand-in, 10,000 images, 10 classes"


def test_other_datasets_are_refused():
    with pytest.raises(TypeError, match="got FakeDataset"):
        describe(FakeDataset(num_graphs=1))


@pytest.mark.parametrize("name", datasets.__all__)
def test_each_public_name_has_an_example_that_is_true(name, real, monkeypatch):
    real(name if name in ENTRIES else "mutag")
    monkeypatch.setenv("DATASETS_DIR", os.environ.get("DATASETS_DIR", str(datasets.default_root())))
    names = {"os": os, **vars(datasets)}
    examples = doctest.DocTestParser().get_doctest(getattr(datasets, name).__doc__, names, name, None, 0)
    assert examples.examples
    assert doctest.DocTestRunner().run(examples).failed == 0
