"""A truncated or foreign raw file is named, with what to do about it."""

import gzip
import pickle

import numpy as np
import pytest
import torch

from gnn_ipu_helpers import datasets
from gnn_ipu_helpers.datasets import catalogue
from gnn_ipu_helpers.datasets.real_data import read_checked, read_idx


def truncate(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def idx_bytes(array):
    header = bytes([0, 0, 8, array.ndim]) + np.array(array.shape, dtype=">u4").tobytes()
    return header + array.tobytes()


@pytest.mark.parametrize("file", catalogue.MUTAG.files)
def test_a_truncated_text_file(mutag_root, file):
    path = mutag_root / catalogue.MUTAG.folders[0] / file
    truncate(path)
    with pytest.raises(datasets.DatasetError) as raised:
        datasets.mutag(root=mutag_root)
    assert str(path) in str(raised.value)
    assert "Delete it" in str(raised.value)
    assert catalogue.MUTAG.urls[0] in str(raised.value)


def test_a_foreign_text_file(mutag_root):
    path = mutag_root / catalogue.MUTAG.folders[0] / "MUTAG_A.txt"
    path.write_text("<html>Sign in to the hotel's network</html>\n")
    with pytest.raises(datasets.DatasetError, match="MUTAG_A.txt.*cannot be read"):
        datasets.mutag(root=mutag_root)


def test_a_truncated_qm9_file(qm9_root):
    truncate(qm9_root / "QM9" / "raw" / "qm9_v3.pt")
    with pytest.raises(datasets.DatasetError, match="qm9_v3.pt"):
        datasets.qm9(root=qm9_root)


@pytest.mark.parametrize("content", [[], {"weight": torch.ones(1)}, [{"x": torch.ones(1)}]])
def test_a_foreign_qm9_file(qm9_root, content):
    torch.save(content, qm9_root / "QM9" / "raw" / "qm9_v3.pt")
    with pytest.raises(datasets.DatasetError, match="qm9_v3.pt"):
        datasets.qm9(root=qm9_root)


def test_any_number_of_molecules_is_welcome(qm9_root):
    assert datasets.describe(datasets.qm9(root=qm9_root)) == "QM9: real data, a part: 20 of 130,831 molecules"


def test_pickles_of_another_shape_or_truncated(tmp_path):
    path = tmp_path / "ind.cora.x"
    path.write_bytes(pickle.dumps(np.zeros((140, 1433))))
    read_checked(catalogue.CORA, path, (140, 1433))
    with pytest.raises(datasets.DatasetError, match=r"ind.cora.x.*shape \[140, 1433\], expected \[60, 500\]"):
        read_checked(catalogue.CORA, path, (60, 500))
    truncate(path)
    with pytest.raises(datasets.DatasetError, match="ind.cora.x.*cannot be read"):
        read_checked(catalogue.CORA, path, (140, 1433))


class Hostile:
    """Unpickling it writes a file."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (str(self.path), "w")


def test_a_hostile_pickle_is_refused_and_runs_nothing(tmp_path):
    folder = tmp_path / catalogue.CORA.folders[0]
    folder.mkdir(parents=True)
    for name in catalogue.CORA.files:
        (folder / name).write_bytes(pickle.dumps(Hostile(tmp_path / "it_ran")))
    with pytest.raises(datasets.DatasetError, match=r"ind.cora.*io.open, which no array needs"):
        datasets.cora(root=tmp_path)
    assert not (tmp_path / "it_ran").exists()


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_arrays_and_matrices_that_were_saved_again_are_read(tmp_path, protocol):
    scipy_sparse = pytest.importorskip("scipy.sparse")
    path = tmp_path / "ind.cora.x"
    for content in (np.eye(3), scipy_sparse.csr_matrix(np.eye(3))):
        path.write_bytes(pickle.dumps(content, protocol=protocol))
        assert read_checked(catalogue.CORA, path, (3, 3)).sum() == 3


def test_archives_of_arrays(tmp_path):
    path = tmp_path / "train_val_test_idx.npz"
    np.savez(path, train_idx=np.arange(3), val_idx=np.arange(4))
    read_checked(catalogue.IMDB, path, (7,))
    truncate(path)
    with pytest.raises(datasets.DatasetError, match="train_val_test_idx.npz"):
        read_checked(catalogue.IMDB, path, (7,))


def test_sparse_matrices_count_by_their_stated_shape(tmp_path):
    path = tmp_path / "adjM.npz"
    np.savez(path, shape=np.array([5, 6]), data=np.ones(2))
    read_checked(catalogue.IMDB, path, (5, 6))
    with pytest.raises(datasets.DatasetError, match="adjM.npz"):
        read_checked(catalogue.IMDB, path, (6, 6))


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_idx_files_are_read_plain_and_gzipped(tmp_path, suffix):
    array = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)
    path = tmp_path / f"images{suffix}"
    path.write_bytes(gzip.compress(idx_bytes(array)) if suffix else idx_bytes(array))
    assert np.array_equal(read_idx(path), array)


@pytest.mark.parametrize("content", [b"", b"GIF89a", idx_bytes(np.zeros((3, 4), np.uint8))[:-1]])
def test_idx_files_that_are_none_or_cut_short(tmp_path, content):
    path = tmp_path / "t10k-images-idx3-ubyte"
    path.write_bytes(content)
    with pytest.raises(datasets.DatasetError, match="t10k-images-idx3-ubyte"):
        read_checked(catalogue.FASHION_MNIST, path, (3, 4))
