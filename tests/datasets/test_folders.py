"""Which folder and which kind of data the environment asks for."""

from pathlib import Path

import pytest

from gnn_ipu_helpers import datasets
from gnn_ipu_helpers.datasets import catalogue, loading, real_data

from .conftest import ENTRIES

REPOSITORY = Path(__file__).resolve().parents[2]


def test_the_root_is_datasets_dir_where_it_is_set(monkeypatch, tmp_path):
    monkeypatch.setenv("DATASETS_DIR", str(tmp_path))
    assert datasets.default_root() == tmp_path


def test_otherwise_the_root_is_data_at_the_repository_whatever_the_working_directory(monkeypatch, tmp_path):
    monkeypatch.delenv("DATASETS_DIR", raising=False)
    monkeypatch.chdir(tmp_path)
    assert datasets.default_root() == REPOSITORY / "data"


def test_a_package_installed_outside_a_repository_uses_the_users_cache(monkeypatch, tmp_path):
    monkeypatch.delenv("DATASETS_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    installed = tmp_path / "site-packages" / "gnn_ipu_helpers" / "datasets" / "loading.py"
    monkeypatch.setattr(loading, "__file__", str(installed))
    assert datasets.default_root() == tmp_path / "cache" / "gnn_ipu_helpers"


def test_without_a_cache_variable_it_is_dot_cache_in_the_home_folder(monkeypatch, tmp_path):
    monkeypatch.delenv("DATASETS_DIR", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(
        loading, "__file__", str(tmp_path / "lib" / "gnn_ipu_helpers" / "datasets" / "loading.py")
    )
    assert datasets.default_root() == tmp_path / ".cache" / "gnn_ipu_helpers"


def test_a_given_root_wins_over_the_environment(monkeypatch, mutag_root):
    monkeypatch.setenv("DATASETS_DIR", str(mutag_root / "elsewhere"))
    assert datasets.describe(datasets.mutag(root=mutag_root)).startswith("MUTAG: real data")


@pytest.mark.parametrize(
    ("value", "kind"), [("real", "real"), ("standin", "standin"), ("Real ", "real"), ("", None)]
)
def test_gnn_ipu_data_forces_a_kind(monkeypatch, value, kind):
    monkeypatch.setenv("GNN_IPU_DATA", value)
    assert loading.forced_kind() == kind


def test_a_misspelt_kind_is_refused_with_the_value_and_the_choices(monkeypatch):
    monkeypatch.setenv("GNN_IPU_DATA", "reel")
    with pytest.raises(ValueError, match="'real' or 'standin'.*got 'reel'"):
        datasets.cora()


@pytest.mark.parametrize("name", ENTRIES)
def test_raw_files_are_found_in_every_known_folder(tmp_path, name):
    entry = ENTRIES[name]
    for number, folder in enumerate(entry.folders):
        root = tmp_path / str(number)
        (root / folder).mkdir(parents=True)
        for file in entry.files:
            (root / folder / file).touch()
        assert real_data.find_raw_folder(entry, root) == root / folder


def test_a_folder_that_lacks_one_file_does_not_count(mutag_root):
    folder = mutag_root / catalogue.MUTAG.folders[0]
    (folder / "MUTAG_node_labels.txt").unlink()
    assert real_data.find_raw_folder(catalogue.MUTAG, mutag_root) is None
    assert real_data.missing_files(catalogue.MUTAG, folder) == ["MUTAG_node_labels.txt"]


def test_gzipped_files_count_too(tmp_path):
    (tmp_path / "train-labels-idx1-ubyte.gz").touch()
    found = real_data.find_file(tmp_path, "train-labels-idx1-ubyte")
    assert found == tmp_path / "train-labels-idx1-ubyte.gz"
