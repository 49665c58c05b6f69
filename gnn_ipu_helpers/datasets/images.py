"""FashionMNIST without torchvision: a torch dataset over its idx files."""

from __future__ import annotations

from pathlib import Path
from typing import Callable

import numpy as np
import torch
from torch import Tensor

from .catalogue import FASHION_MNIST
from .download import fetch_url
from .locate import find_file
from .origin import Origin
from .raw_files import read_checked

CLASSES = (
    "T-shirt/top",
    "Trouser",
    "Pullover",
    "Dress",
    "Coat",
    "Sandal",
    "Shirt",
    "Sneaker",
    "Bag",
    "Ankle boot",
)
_MIRROR = FASHION_MNIST.url.rpartition("/")[0]


class FashionMNIST(torch.utils.data.Dataset):
    """Pairs of an image, float32 `[1, 28, 28]` between 0 and 1, and its label, an int.

    Attributes:
        data: all images as stored, uint8 `[num_images, 28, 28]`.
        targets: all labels, int64 `[num_images]`.
        classes: names of the ten labels.
    """

    classes = CLASSES

    def __init__(
        self,
        images: np.ndarray,
        labels: np.ndarray,
        origin: Origin,
        transform: Callable[[Tensor], Tensor] | None = None,
        pre_transform: Callable[[Tensor], Tensor] | None = None,
    ):
        self.data = torch.from_numpy(np.array(images))
        self.targets = torch.from_numpy(labels.astype(np.int64))
        self.origin = origin
        self.transform = transform
        self.pre_transform = pre_transform
        self._prepared = None if pre_transform is None else pre_transform(_to_float(self.data))

    def __len__(self) -> int:
        return len(self.targets)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        image = _to_float(self.data[index]) if self._prepared is None else self._prepared[index]
        return image if self.transform is None else self.transform(image), int(self.targets[index])

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self)})"


def fetch_idx_files(folder: Path) -> None:
    """Download the four gzipped idx files into `folder`."""
    for name in FASHION_MNIST.files:
        fetch_url(f"{_MIRROR}/{name}.gz", folder / f"{name}.gz")


def read_idx_folder(folder: Path) -> tuple[np.ndarray, ...]:
    """Training images and labels, test images and labels: uint8 `[n, 28, 28]` and `[n]` each."""
    files = FASHION_MNIST.files.items()
    return tuple(read_checked(FASHION_MNIST, find_file(folder, name), shape) for name, shape in files)


def _to_float(images: Tensor) -> Tensor:
    return images.unsqueeze(-3).to(torch.float32).div_(255)
