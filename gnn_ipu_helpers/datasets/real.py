"""PyG's dataset classes over raw files wherever they lie, processed once per set of files."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import tempfile
from pathlib import Path
from typing import Callable, Iterator

import torch
import torch_geometric
import torch_geometric.datasets as pyg
from torch_geometric.data import Data, InMemoryDataset, download_url, extract_zip

from .catalogue import Entry
from .locate import find_file
from .quiet import quiet
from .raw_files import check_raw_files, damaged

_MOLECULE_KEYS = {"x", "z", "pos", "edge_index", "edge_attr", "y", "name", "idx"}
Build = Callable[[Path, Path], InMemoryDataset]


class _Placed:
    """Lets a PyG dataset class take its raw and its processed folder one by one."""

    def __init__(self, raw_dir: Path, processed_dir: Path, *args, **kwargs):
        self._raw_dir = str(raw_dir)
        self._processed_dir = str(processed_dir)
        super().__init__(str(raw_dir.parent), *args, **kwargs)

    @classmethod
    def fetch(cls, raw_dir: Path, **attributes) -> None:
        """Run PyG's download alone, into `raw_dir`; `attributes` are those that `download` reads."""
        bare = cls.__new__(cls)
        bare.__dict__.update(attributes, _raw_dir=str(raw_dir))
        bare.download()

    def place_processed(self, folder: Path) -> None:
        """Note that the processed files have moved to `folder`."""
        self._processed_dir = str(folder)

    @property
    def raw_dir(self) -> str:
        return self._raw_dir

    @property
    def processed_dir(self) -> str:
        return self._processed_dir


class Planetoid(_Placed, pyg.Planetoid):
    """PyG's Planetoid over a folder of raw files."""


class TUDataset(_Placed, pyg.TUDataset):
    """PyG's TUDataset over a folder of raw files."""


class IMDB(_Placed, pyg.IMDB):
    """PyG's IMDB over a folder of raw files."""


class QM9(_Placed, pyg.QM9):
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

    def download(self) -> None:
        archive = download_url(self.processed_url, self.raw_dir)
        extract_zip(archive, self.raw_dir)
        os.unlink(archive)


def load_real(entry: Entry, build: Build, raw_dir: Path) -> InMemoryDataset:
    """The dataset `build(raw_dir, processed_dir)` makes of the raw files.

    What PyG writes is kept beside the raw files, in a folder named after them and the versions that wrote it,
    so that replaced files or another PyG never meet stale data. Where the root cannot be written to, the
    processed files go to a scratch folder and are not kept.
    """
    kept = raw_dir.parent / f"processed-{_fingerprint(entry, raw_dir)}"
    if kept.is_dir():
        with quiet(), contextlib.suppress(Exception):
            return build(raw_dir, kept)
        shutil.rmtree(kept, ignore_errors=True)  # unreadable, so made again
    check_raw_files(entry, raw_dir)
    with _scratch_folder(raw_dir.parent) as scratch:
        fresh = scratch / "processed"
        try:
            with quiet():
                dataset = build(raw_dir, fresh)
        except Exception as error:
            path = find_file(raw_dir, next(iter(entry.files)))
            raise damaged(entry, path, f"{type(error).__name__}: {error}") from error
        dataset.place_processed(kept)
        with contextlib.suppress(OSError):  # another process was faster, or the root is read-only
            os.rename(fresh, kept)
    return dataset


def _fingerprint(entry: Entry, raw_dir: Path) -> str:
    facts = [torch.__version__, torch_geometric.__version__]
    for name in entry.files:
        status = find_file(raw_dir, name).stat()
        facts.append(f"{name}:{status.st_size}:{status.st_mtime_ns}")
    return hashlib.sha256("|".join(facts).encode()).hexdigest()[:12]


@contextlib.contextmanager
def _scratch_folder(beside: Path) -> Iterator[Path]:
    place = beside if os.access(beside, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="processing-", dir=place) as folder:
        yield Path(folder)
