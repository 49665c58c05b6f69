"""Look into raw files before they are used, so that a damaged or foreign one is named."""

from __future__ import annotations

import gzip
import pickle
import warnings
from pathlib import Path

import numpy as np

from .catalogue import Entry
from .errors import DatasetError
from .locate import find_file

_IDX_UINT8 = 8


def check_raw_files(entry: Entry, folder: Path) -> None:
    """Raise a `DatasetError` that names the first file whose content is not what the dataset should have."""
    for name, expected in entry.files.items():
        if expected is not None:
            check_shape(entry, find_file(folder, name), expected)


def check_shape(entry: Entry, path: Path, expected: tuple[int, ...]) -> None:
    """Raise a `DatasetError` unless the file can be read and its content has the expected shape."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # old pickles name modules that SciPy and NumPy have moved
            found = _shape(path)
    except Exception as error:
        raise damaged(entry, path, f"it cannot be read ({type(error).__name__}: {error})") from error
    if found != expected:
        raise damaged(entry, path, f"its content has shape {list(found)}, expected {list(expected)}")


def damaged(entry: Entry, path: Path, why: str) -> DatasetError:
    """The error for a raw file that is truncated, damaged or belongs to something else."""
    return DatasetError(
        f"{entry.name}: the raw file {path} is truncated or not the original one: {why}. "
        f"Delete it and load the dataset again with a network, or replace it by the file from {entry.url}."
    )


def read_idx(path: Path) -> np.ndarray:
    """Content of an idx file of bytes, plain or gzipped, as a uint8 array of the shape in its header."""
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rb") as file:
        content = file.read()
    if len(content) < 4 or content[:2] != b"\0\0" or content[2] != _IDX_UINT8:
        raise ValueError("not an idx file of bytes")
    start = 4 + 4 * content[3]
    shape = np.frombuffer(content[4:start], dtype=">u4").astype(np.int64)
    values = np.frombuffer(content, dtype=np.uint8, offset=start)
    if values.size != shape.prod():
        raise ValueError(f"{values.size} bytes where the header promises {shape.prod()}")
    return values.reshape(shape)


def _shape(path: Path) -> tuple[int, ...]:
    if path.name.startswith("ind.") and path.suffix != ".index":
        with open(path, "rb") as file:
            content = pickle.load(file, encoding="latin1")
        return (len(content),) if isinstance(content, dict) else tuple(content.shape)
    if path.suffix in (".txt", ".index"):
        return np.loadtxt(path, delimiter=",").shape
    if path.suffix == ".npy":
        return np.load(path).shape
    if path.suffix == ".npz":
        return _npz_shape(path)
    return read_idx(path).shape


def _npz_shape(path: Path) -> tuple[int, ...]:
    with open(path, "rb") as file, np.load(file) as arrays:
        content = {name: arrays[name] for name in arrays.files}
    if "shape" in content:  # a SciPy sparse matrix
        return tuple(int(size) for size in content["shape"])
    return (sum(len(array) for array in content.values()),)
