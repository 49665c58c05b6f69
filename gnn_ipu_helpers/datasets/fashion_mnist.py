"""FashionMNIST without torchvision: a torch dataset over its idx files, and drawn garments to stand in."""

from __future__ import annotations

from pathlib import Path
from typing import Callable

import numpy as np
import torch
from torch import Tensor

from .catalogue import FASHION_MNIST
from .loading import Loaded
from .random_integers import RandomIntegers, shuffled_labels
from .real_data import raw_file, read_checked

_CLASSES = "T-shirt/top,Trouser,Pullover,Dress,Coat,Sandal,Shirt,Sneaker,Bag,Ankle boot"


class FashionMNIST(torch.utils.data.Dataset):
    """Pairs of an image, float32 `[1, 28, 28]` between 0 and 1, and its label, an int.

    Attributes:
        data: all images as stored, uint8 `[num_images, 28, 28]`.
        targets: all labels, int64 `[num_images]`.
        classes: names of the ten labels.
    """

    classes = tuple(_CLASSES.split(","))

    def __init__(
        self,
        images: np.ndarray,
        labels: np.ndarray,
        loaded: Loaded,
        transform: Callable[[Tensor], Tensor] | None = None,
        pre_transform: Callable[[Tensor], Tensor] | None = None,
    ):
        self.data = torch.from_numpy(np.array(images))
        self.targets = torch.from_numpy(labels.astype(np.int64))
        self.loaded = loaded
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


def _to_float(images: Tensor) -> Tensor:
    return images.unsqueeze(-3).to(torch.float32).div_(255)


def read_idx_folder(folder: Path) -> tuple[np.ndarray, ...]:
    """Training images and labels, test images and labels: uint8 `[n, 28, 28]` and `[n]` each."""
    shapes = {name: shape for name, shape in FASHION_MNIST.files.items() if shape is not None}
    return tuple(read_checked(FASHION_MNIST, raw_file(folder, name), shapes[name]) for name in shapes)


# From here on the stand-in: ten kinds of garments drawn from simple shapes, some hard to tell apart.
_SEED = 6
_SIZE, _MARGIN, _NUM_CLASSES, _NUM_VARIANTS = 28, 2, 10, 150
_NUM_TRAIN, _NUM_TEST = 60000, 10000
# Row numbers, and columns as distances from the middle in half pixels.
_row = np.arange(_SIZE)[:, None]
_side = 2 * np.arange(_SIZE)[None, :] - (_SIZE - 1)
_away = abs(_side)
_LEATHER, _CLOTH, _DARK = 255, 210, 90

Pick = Callable[[int, int], int]


def make_garments() -> tuple[np.ndarray, ...]:
    """Training images and labels, test images and labels: uint8 `[n, 28, 28]` and `[n]` each."""
    draws = RandomIntegers(_SEED)
    bank = _draw_bank(draws)
    parts = []
    for count in (_NUM_TRAIN, _NUM_TEST):
        labels = shuffled_labels(draws, [count // _NUM_CLASSES] * _NUM_CLASSES)
        parts += [_photograph(draws, bank, labels), labels.astype(np.uint8)]
    return tuple(parts)


def _draw_bank(draws: RandomIntegers) -> np.ndarray:
    """Variants of every garment with a margin around: uint8 `[10, num_variants, 32, 32]`."""

    def pick(low: int, high: int) -> int:
        return low + int(draws.below(high - low + 1, 1)[0])

    bank = np.zeros((_NUM_CLASSES, _NUM_VARIANTS, _SIZE + 2 * _MARGIN, _SIZE + 2 * _MARGIN), dtype=np.uint8)
    for label, draw in enumerate(_GARMENTS):
        for variant in range(_NUM_VARIANTS):
            bank[label, variant, _MARGIN:-_MARGIN, _MARGIN:-_MARGIN] = draw(pick)
    return bank


def _photograph(draws: RandomIntegers, bank: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """One picture per label: a variant moved by up to two pixels, lighter or darker, with grain."""
    images = np.empty((len(labels), _SIZE, _SIZE), dtype=np.uint8)
    variant = draws.below(_NUM_VARIANTS, len(labels))
    light = 90 + draws.below(166, len(labels))
    shift = draws.below((2 * _MARGIN + 1) ** 2, len(labels))
    for number in range((2 * _MARGIN + 1) ** 2):
        chosen = np.flatnonzero(shift == number)
        down, right = divmod(number, 2 * _MARGIN + 1)
        view = bank[:, :, down : down + _SIZE, right : right + _SIZE]
        garment = view[labels[chosen], variant[chosen]].astype(np.int16)
        grain = draws.bytes(garment.size).reshape(garment.shape).astype(np.int16) // 2 - 64
        lit = (garment.astype(np.int32) * light[chosen, None, None] >> 8).astype(np.int16)
        images[chosen] = np.clip(lit + grain, 0, 255) * (garment > 0)
    return images


def _top(pick: Pick, sleeve: tuple[int, int], opening: int) -> np.ndarray:
    """A garment for the upper body: bounds of the sleeves' length in rows, percent that open in front."""
    start, stop, width = pick(1, 4), pick(23, 27), pick(9, 14)
    rows = (_row >= start) & (_row < stop)
    body = rows & (_away <= width)
    reach, thickness = pick(*sleeve), pick(5, 8)
    inner = width + (_row - start) * pick(0, 2) // 4
    arms = (_row >= start + 1) & (_row < start + reach) & (_away > width - 2) & (_away <= inner + thickness)
    neck = (_row < start + pick(1, 3)) & (_away <= pick(3, 6))
    picture = np.where((body | arms) & ~neck, _CLOTH, 0)
    if pick(1, 100) <= opening:
        picture[(picture > 0) & (_away <= 1)] = _DARK
    return picture


def _trouser(pick: Pick) -> np.ndarray:
    start, stop, width, hip = pick(0, 3), pick(25, 28), pick(7, 11), pick(6, 10)
    gap = np.where(_row > hip, 1 + (_row - hip) // pick(5, 9), 0)
    inside = (_row >= start) & (_row < stop) & (_away <= width) & (_away >= gap)
    return np.where(inside, _CLOTH, 0)


def _dress(pick: Pick) -> np.ndarray:
    start, stop, waist, flare = pick(0, 3), pick(25, 28), pick(5, 8), pick(1, 4)
    inside = (_row >= start) & (_row < stop) & (_away <= waist + (_row - start) * flare // 10)
    sleeves = (_row >= start + 1) & (_row < start + pick(0, 12)) & (_away <= waist + pick(3, 6))
    neck = (_row < start + 2) & (_away <= 3)
    return np.where((inside | sleeves) & ~neck, _CLOTH, 0)


def _shoe(pick: Pick, shaft: int, holes: int) -> np.ndarray:
    """A shoe seen from the side, toe on the left: `shaft` rows above the sole, `holes` open bands."""
    sole, heel = pick(20, 23), pick(20, 26)
    toe = -pick(20, 26)
    slope = sole - 4 - (_side - toe) * pick(3, 5) // 16
    foot = (_row <= sole) & (_row >= np.maximum(slope, sole - shaft)) & (_side >= toe) & (_side <= heel)
    picture = np.where(foot, _LEATHER, 0)
    for _ in range(holes):
        start = pick(-16, 14)
        picture[(_row < sole - 2) & (_side >= start) & (_side <= start + pick(3, 8))] = 0
    picture[(_row > sole) & (_row <= sole + 1) & (_side >= toe) & (_side <= heel)] = _DARK
    return picture


def _boot(pick: Pick) -> np.ndarray:
    picture = _shoe(pick, shaft=pick(9, 12), holes=0)
    top, back = pick(2, 9), pick(18, 25)
    picture[(_row >= top) & (_row < 16) & (_side <= back) & (_side >= back - pick(18, 26))] = _LEATHER
    return picture


def _bag(pick: Pick) -> np.ndarray:
    start, stop, width = pick(9, 14), pick(23, 27), pick(17, 26)
    picture = np.where((_row >= start) & (_row < stop) & (_away <= width), _LEATHER, 0)
    reach, lift = pick(6, 14), pick(3, 8)
    handle = (_row >= start - lift) & (_row < start) & (_away <= reach)
    hollow = (_row >= start - lift + 2) & (_away <= reach - 3)
    picture[handle & ~hollow] = _DARK
    return picture


# In the order of the classes.
_GARMENTS = (
    lambda pick: _top(pick, sleeve=(6, 12), opening=2),
    _trouser,
    lambda pick: _top(pick, sleeve=(17, 24), opening=6),
    _dress,
    lambda pick: _top(pick, sleeve=(18, 25), opening=88),
    lambda pick: _shoe(pick, shaft=pick(5, 11), holes=pick(2, 4)),
    lambda pick: _top(pick, sleeve=(9, 20), opening=55),
    lambda pick: _shoe(pick, shaft=pick(7, 11), holes=int(pick(1, 100) <= 8)),
    _bag,
    _boot,
)
