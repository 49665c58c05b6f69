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
            read_checked(entry, find_file(folder, name), expected)


def read_checked(entry: Entry, path: Path, expected: tuple[int, ...]) -> np.ndarray:
    """The file's content; a `DatasetError` if it cannot be read or its shape is not the expected one."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # old pickles name modules that SciPy and NumPy have moved
            content = _read(path)
    except Exception as error:
        raise damaged(entry, path, f"it cannot be read ({type(error).__name__}: {error})") from error
    if tuple(content.shape) != expected:
        raise damaged(entry, path, f"its content has shape {list(content.shape)}, expected {list(expected)}")
    return content


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


def _read(path: Path):
    """Content of any raw file, with a `shape`."""
    if path.name.startswith("ind.") and path.suffix != ".index":
        with open(path, "rb") as file:
            content = pickle.load(file, encoding="latin1")
        return np.array(list(content)) if isinstance(content, dict) else content
    if path.suffix in (".txt", ".index"):
        return np.loadtxt(path, delimiter=",")
    if path.suffix == ".npy":
        return np.load(path)
    return _read_npz(path) if path.suffix == ".npz" else read_idx(path)


def _read_npz(path: Path) -> np.ndarray:
    with open(path, "rb") as file, np.load(file) as arrays:
        content = {name: arrays[name] for name in arrays.files}
    if "shape" in content:  # a SciPy sparse matrix, of which only the shape is of interest
        return np.broadcast_to(0, tuple(content["shape"].tolist()))
    return np.concatenate(list(content.values()))
