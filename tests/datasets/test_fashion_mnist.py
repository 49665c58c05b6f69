"""FashionMNIST as torch datasets, without torchvision."""

import gzip

import pytest
import torch

from gnn_ipu_helpers import datasets
from gnn_ipu_helpers.datasets import catalogue

from .test_real_data import idx_bytes


@pytest.fixture(scope="module")
def pair(stand_in):
    return stand_in("fashion_mnist")


@pytest.fixture
def idx_root(tmp_path, pair, take_for_originals):
    folder = tmp_path / catalogue.FASHION_MNIST.folders[0]
    folder.mkdir(parents=True)
    arrays = [array.numpy() for part in pair for array in (part.data, part.targets.to(torch.uint8))]
    for name, array in zip(catalogue.FASHION_MNIST.files, arrays):
        (folder / f"{name}.gz").write_bytes(gzip.compress(idx_bytes(array), compresslevel=0))
    take_for_originals(folder)
    return tmp_path


def test_an_item_is_an_image_between_0_and_1_and_its_label(pair):
    train, test = pair
    image, label = train[0]
    assert (len(train), len(test)) == (60000, 10000)
    assert (image.shape, image.dtype) == ((1, 28, 28), torch.float32)
    assert isinstance(label, int)
    assert image.min() >= 0
    assert 0.3 < image.max() <= 1
    assert len(train.classes) == 10


def test_classes_are_balanced_as_in_the_original(pair):
    assert [part.targets.bincount().tolist() for part in pair] == [[6000] * 10, [1000] * 10]
    assert (pair[0].data.dtype, pair[0].data.shape) == (torch.uint8, (60000, 28, 28))


def test_idx_files_are_read_as_they_were_written(idx_root, pair):
    train, test = datasets.fashion_mnist(root=idx_root)
    assert datasets.describe(train) == "FashionMNIST: real data, 60,000 images, 10 classes"
    assert torch.equal(train.data, pair[0].data)
    assert torch.equal(test.targets, pair[1].targets)


def test_a_truncated_idx_file_is_named(idx_root):
    path = idx_root / catalogue.FASHION_MNIST.folders[0] / "t10k-labels-idx1-ubyte.gz"
    path.write_bytes(path.read_bytes()[:500])
    with pytest.raises(datasets.DatasetError, match="t10k-labels-idx1-ubyte.gz"):
        datasets.fashion_mnist(root=idx_root)


def test_transform_sees_one_image_and_pre_transform_all(monkeypatch):
    monkeypatch.setenv("GNN_IPU_DATA", "standin")
    seen = []

    def early(images):
        seen.append(tuple(images.shape))
        return images[:, :, ::2, ::2]

    _, test = datasets.fashion_mnist(transform=lambda image: image + 1, pre_transform=early)
    assert seen == [(60000, 1, 28, 28), (10000, 1, 28, 28)]
    assert test[0][0].shape == (1, 14, 14)
    assert test[0][0].min() >= 1


def test_it_works_with_torchs_loader(pair):
    images, labels = next(iter(torch.utils.data.DataLoader(pair[1], batch_size=4)))
    assert (images.shape, labels.dtype) == ((4, 1, 28, 28), torch.int64)
