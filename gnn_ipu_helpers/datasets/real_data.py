"""Raw files: found, looked into before anything is made of them, and turned into PyG's datasets."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import io
import os
import pickle
import shutil
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any, Iterator

import numpy as np
import torch
import torch_geometric
import torch_geometric.datasets as pyg
from torch_geometric.data import Data, InMemoryDataset

from .catalogue import SHA256, Entry

_IDX_UINT8 = 8
_ABANDONED_SECONDS = 3600
_MOLECULE_KEYS = {"x", "z", "pos", "edge_index", "edge_attr", "y", "name", "idx"}
# All that the pickles of Cora and PubMed name, as Python 2 wrote it and as today's NumPy and SciPy would.
_PICKLED_NAMES = {
    "__builtin__.list",
    "_codecs.encode",
    "builtins.list",
    "collections.defaultdict",
    "numpy.dtype",
    "numpy.ndarray",
    "numpy.core.multiarray._reconstruct",
    "numpy.core.numeric._frombuffer",
    "numpy._core.multiarray._reconstruct",
    "numpy._core.numeric._frombuffer",
    "scipy.sparse.csr.csr_matrix",
    "scipy.sparse._csr.csr_matrix",
}


class DatasetError(RuntimeError):
    """A dataset cannot be had as asked for: a file is missing, damaged or not the one it should be.

    Example:
        >>> try:
        ...     graphs = mutag()
        ... except DatasetError as error:
        ...     print(error)  # which file, what is wrong with it and what to do
    """


def find_file(folder: Path, name: str) -> Path | None:
    """Path of a raw file, plain or gzipped, None if `folder` has neither."""
    for path in (folder / name, folder / f"{name}.gz"):
        if path.is_file():
            return path
    return None


def raw_file(folder: Path, name: str) -> Path:
    """The same in a folder that is known to hold it."""
    path = find_file(folder, name)
    assert path is not None, f"{name} has gone from {folder}"
    return path


def missing_files(entry: Entry, folder: Path) -> list[str]:
    """Names of the raw files that `folder` lacks."""
    return [name for name in entry.files if find_file(folder, name) is None]


def find_raw_folder(entry: Entry, root: Path) -> Path | None:
    """The first of the dataset's known folders under `root` that holds every raw file."""
    for folder in entry.folders:
        if not missing_files(entry, root / folder):
            return root / folder
    return None


def changed_files(entry: Entry, folder: Path) -> list[str]:
    """Names of the raw files that are not the originals, as far as those are known (`catalogue.SHA256`)."""
    known = [name for name in entry.files if name in SHA256]
    return [name for name in known if content_digest(raw_file(folder, name)) != SHA256[name]]


def content_digest(path: Path) -> str:
    """SHA-256 of a raw file, unpacked if gzipped; of a text file, of its numbers however they are spaced."""
    try:
        content = _read_bytes(path)
    except (OSError, EOFError) as error:  # a broken gzip file is none of the originals
        return type(error).__name__
    if path.suffix in (".txt", ".index"):
        content = b" ".join(content.replace(b",", b" ").split())
    return hashlib.sha256(content).hexdigest()


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
        "Delete it and load the dataset again with a network, or replace it by the file from "
        f"{entry.urls[0]}."
    )


def _read(path: Path) -> Any:
    """Content of any raw file, with a `shape`."""
    if path.name.startswith("ind.") and path.suffix != ".index":
        with open(path, "rb") as file:
            content = _ArrayUnpickler(file, encoding="latin1").load()
        return np.array(list(content)) if isinstance(content, dict) else content
    if path.suffix in (".txt", ".index"):
        return np.loadtxt(path, delimiter=",")
    if path.suffix == ".npy":
        return np.load(path)
    return _read_npz(path) if path.suffix == ".npz" else read_idx(path)


class _ArrayUnpickler(pickle.Unpickler):
    """Reads arrays, sparse matrices and plain containers, and calls nothing else that a pickle may name.

    PyG unpickles the same files with no such limit, so they must have come through here first.
    """

    def find_class(self, module: str, name: str) -> Any:
        if f"{module}.{name}" not in _PICKLED_NAMES:
            raise pickle.UnpicklingError(f"it wants to call {module}.{name}, which no array needs")
        return super().find_class(module, name)


def _read_npz(path: Path) -> np.ndarray:
    with open(path, "rb") as file, np.load(file) as arrays:
        content = {name: arrays[name] for name in arrays.files}
    if "shape" in content:  # a SciPy sparse matrix, of which only the shape is of interest
        return np.broadcast_to(0, tuple(content["shape"].tolist()))
    return np.concatenate(list(content.values()))


def read_idx(path: Path) -> np.ndarray:
    """Content of an idx file of bytes, plain or gzipped, as a uint8 array of the shape in its header."""
    content = _read_bytes(path)
    if len(content) < 4 or content[:2] != b"\0\0" or content[2] != _IDX_UINT8:
        raise ValueError("not an idx file of bytes")
    start = 4 + 4 * content[3]
    shape = np.frombuffer(content[4:start], dtype=">u4").astype(np.int64)
    values = np.frombuffer(content, dtype=np.uint8, offset=start)
    if values.size != shape.prod():
        raise ValueError(f"{values.size} bytes where the header promises {shape.prod()}")
    return values.reshape(shape)


def _read_bytes(path: Path) -> bytes:
    with (gzip.open if path.suffix == ".gz" else open)(path, "rb") as file:
        return file.read()


class _Anywhere:
    """Lets one of PyG's dataset classes read raw files wherever they lie, or hold graphs made in memory."""

    has_download = False
    has_process = True

    def __init__(self, raw_dir: Path, processed_dir: Path, *arguments: str):
        self._raw_dir, self._processed_dir = str(raw_dir), str(processed_dir)
        # That of PyG's class, which stands behind this one.
        super().__init__(str(raw_dir.parent), *arguments)  # type: ignore[call-arg]

    @classmethod
    def made(cls, data, slices=None, **attributes):
        """A dataset of collated graphs that has nothing on disk, with the attributes PyG's class sets."""
        dataset = cls.__new__(cls)
        dataset.__dict__.update(attributes, has_process=False, _raw_dir=None, _processed_dir=None)
        InMemoryDataset.__init__(dataset)
        dataset.data, dataset.slices = data, slices
        return dataset

    @property
    def raw_dir(self) -> str:
        return self._raw_dir

    @property
    def processed_dir(self) -> str:
        return self._processed_dir


class Planetoid(_Anywhere, pyg.Planetoid):
    """PyG's Planetoid."""


class TUDataset(_Anywhere, pyg.TUDataset):
    """PyG's TUDataset."""


class IMDB(_Anywhere, pyg.IMDB):
    """PyG's IMDB."""


class QM9(_Anywhere, pyg.QM9):
    """PyG's QM9 over `qm9_v3.pt`, whether or not RDKit is installed."""

    def __init__(self, raw_dir: Path, processed_dir: Path):
        super().__init__(raw_dir, processed_dir)
        if isinstance(self._data, dict):  # PyG 2.4 does not turn back what its `save` writes
            self.data = Data.from_dict(self._data)

    @property
    def raw_file_names(self):
        return ["qm9_v3.pt"]

    def process(self) -> None:
        molecules = torch.load(self.raw_paths[0], weights_only=True)
        missing = _MOLECULE_KEYS - set(molecules[0])
        if missing:
            raise ValueError(f"its molecules lack {', '.join(sorted(missing))}")
        self.save([Data(**molecule) for molecule in molecules], self.processed_paths[0])


def read_graphs(entry: Entry, dataset_class: type, raw_dir: Path) -> InMemoryDataset:
    """The PyG dataset over the raw files, whose content is checked the first time.

    What PyG writes is kept beside the raw files, in a folder named after them and the versions that wrote it,
    so that replaced files or another PyG never meet stale data. Where the root cannot be written to, the
    processed files go to a scratch folder and are not kept.
    """
    remove_abandoned(raw_dir.parent, "processing-*")
    kept = raw_dir.parent / f"processed-{_fingerprint(entry, raw_dir)}"
    if kept.is_dir():
        with _silenced(), contextlib.suppress(Exception):
            return dataset_class(raw_dir, kept, *entry.arguments)
        shutil.rmtree(kept, ignore_errors=True)  # unreadable, so made again
    for name, shape in entry.files.items():
        if shape is not None:
            read_checked(entry, raw_file(raw_dir, name), shape)
    place = raw_dir.parent if os.access(raw_dir.parent, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="processing-", dir=place) as scratch:
        fresh = Path(scratch) / "processed"
        try:
            with _silenced():
                dataset = dataset_class(raw_dir, fresh, *entry.arguments)
        except Exception as error:
            path = raw_file(raw_dir, next(iter(entry.files)))
            raise damaged(entry, path, f"{type(error).__name__}: {error}") from error
        dataset._processed_dir = str(kept)
        with contextlib.suppress(OSError):  # another process was faster, or the root is read-only
            os.rename(fresh, kept)
    return dataset


def remove_abandoned(folder: Path, pattern: str) -> None:
    """Delete scratch folders that a killed process left; one that was written to lately may be in use."""
    for scratch in folder.glob(pattern):
        with contextlib.suppress(OSError):
            newest = max(path.stat().st_mtime for path in (scratch, *scratch.rglob("*")))
            if time.time() - newest > _ABANDONED_SECONDS:
                shutil.rmtree(scratch, ignore_errors=True)


def _fingerprint(entry: Entry, raw_dir: Path) -> str:
    facts = [torch.__version__, torch_geometric.__version__]
    for name in entry.files:
        status = raw_file(raw_dir, name).stat()
        facts.append(f"{name}:{status.st_size}:{status.st_mtime_ns}")
    return hashlib.sha256("|".join(facts).encode()).hexdigest()[:12]


@contextlib.contextmanager
def _silenced() -> Iterator[None]:
    """Keep PyG's progress lines, and deprecations behind its old raw formats, out of notebooks."""
    with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
        warnings.simplefilter("ignore")
        yield
