"""Where datasets lie and which kind is wanted: the root folder, the forced mode, the raw files found."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Union

from .catalogue import Entry

PathLike = Union[str, "os.PathLike[str]"]


def default_root() -> Path:
    """Folder that holds all datasets when no `root` is given.

    `$DATASETS_DIR` where it is set, otherwise `data/` at the root of the repository this package lies in. A
    package installed elsewhere (no `pyproject.toml` beside it) uses `gnn_ipu_helpers/` in the user's cache
    folder (`$XDG_CACHE_HOME`, else `~/.cache`). Never the working directory.
    """
    chosen = os.environ.get("DATASETS_DIR")
    if chosen:
        return Path(chosen).expanduser().resolve()
    repository = Path(__file__).resolve().parents[2]
    if (repository / "pyproject.toml").is_file():
        return repository / "data"
    cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(cache).expanduser() / "gnn_ipu_helpers"


def resolve_root(root: PathLike | None) -> Path:
    """`root` as an absolute path, or the default."""
    return default_root() if root is None else Path(root).expanduser().resolve()


def forced_kind() -> str | None:
    """`"real"` or `"standin"` if `$GNN_IPU_DATA` asks for one, None if the choice is ours."""
    kind = os.environ.get("GNN_IPU_DATA", "").strip().lower()
    if kind in ("", "auto"):
        return None
    if kind not in ("real", "standin"):
        raise ValueError(f"GNN_IPU_DATA should be 'real' or 'standin', or not set at all (got '{kind}')")
    return kind


def find_file(folder: Path, name: str) -> Path | None:
    """Path of a raw file, plain or gzipped, None if `folder` has neither."""
    for path in (folder / name, folder / f"{name}.gz"):
        if path.is_file():
            return path
    return None


def missing_files(entry: Entry, folder: Path) -> list[str]:
    """Names of the raw files that `folder` lacks."""
    return [name for name in entry.files if find_file(folder, name) is None]


def find_raw_folder(entry: Entry, root: Path) -> Path | None:
    """The first of the dataset's known folders under `root` that holds every raw file."""
    for folder in entry.folders:
        if not missing_files(entry, root / folder):
            return root / folder
    return None


def what_to_place(entry: Entry, root: Path) -> str:
    """One sentence on which raw files to put where."""
    partial = [root / folder for folder in entry.folders if (root / folder).is_dir()]
    folder = partial[0] if partial else root / entry.home
    return f"put {', '.join(missing_files(entry, folder))} into {folder}"
