"""Choose between raw files, a download and a stand-in, say so, and describe what was loaded."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Callable, NamedTuple, Union

from torch_geometric.data import Dataset, HeteroData, InMemoryDataset

from .catalogue import QM9, QM9_NUM_MOLECULES, Entry
from .download import Unavailable, download
from .real_data import (
    DatasetError,
    changed_files,
    damaged,
    find_raw_folder,
    missing_files,
    raw_file,
    read_graphs,
    remove_abandoned,
)

PathLike = Union[str, "os.PathLike[str]"]
_names_told: set[str] = set()


class Loaded(NamedTuple):
    """Name of a loaded dataset, and `"real data"`, `"changed data"` (files that differ) or `"stand-in"`."""

    name: str
    kind: str


def default_root() -> Path:
    """Folder that holds all datasets when no `root` is given, never the working directory.

    1. `$DATASETS_DIR`, where it is set;
    2. `data/` at the root of the repository, where the package runs from a checkout (a `pyproject.toml` lies
       beside it);
    3. otherwise, for an installed package, `~/.cache/gnn_ipu_helpers` (`$XDG_CACHE_HOME` is honoured).

    Example:
        >>> os.environ["DATASETS_DIR"] = "/data/graphs"
        >>> default_root()
        PosixPath('/data/graphs')
    """
    chosen = os.environ.get("DATASETS_DIR")
    if chosen:
        return Path(chosen).expanduser().resolve()
    repository = Path(__file__).resolve().parents[2]
    if (repository / "pyproject.toml").is_file():
        return repository / "data"
    cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(cache).expanduser() / "gnn_ipu_helpers"


def forced_kind() -> str | None:
    """`"real"` or `"standin"` if `$GNN_IPU_DATA` asks for one, None if the choice is ours."""
    kind = os.environ.get("GNN_IPU_DATA", "").strip().lower()
    if kind in ("", "auto"):
        return None
    if kind not in ("real", "standin"):
        raise ValueError(f"GNN_IPU_DATA should be 'real' or 'standin', or not set at all (got '{kind}')")
    return kind


def load_graphs(
    entry: Entry,
    dataset_class: type,
    make: Callable[[], InMemoryDataset],
    transform: Callable | None,
    pre_transform: Callable | None,
    root: PathLike | None,
) -> InMemoryDataset:
    """A dataset of graphs, each passed through `pre_transform` now and `transform` on each access.

    `pre_transform` runs in memory each time: PyG's cache on disk tells transforms apart by their `repr`,
    which for most of them leaves out the arguments, so it would hand out stale graphs.
    """
    dataset, loaded = obtain(entry, lambda folder: read_graphs(entry, dataset_class, folder), make, root)
    if pre_transform is not None:
        graphs = [pre_transform(dataset.get(index)) for index in range(dataset.len())]
        dataset.data, dataset.slices = dataset.collate(graphs)
        dataset.pre_transform = pre_transform
    dataset.transform = transform
    dataset.loaded = loaded
    return dataset


def obtain(
    entry: Entry, read: Callable[[Path], Any], make: Callable[[], Any], root: PathLike | None
) -> tuple[Any, Loaded]:
    """What `read` makes of the raw files, or `make` of nothing if they cannot be had, and which it was."""
    kind = forced_kind()
    place = default_root() if root is None else Path(root).expanduser().resolve()
    if kind == "standin":
        return _stand_in(entry, make, "GNN_IPU_DATA=standin asks for it", "unset GNN_IPU_DATA")
    remove_abandoned(place, "downloading-*")
    folder = find_raw_folder(entry, place)
    if folder is None:
        try:
            folder = download(entry, place)
        except Unavailable as error:
            todo = _what_to_place(entry, place)
            if kind == "real":
                raise DatasetError(
                    f"{entry.name}: GNN_IPU_DATA=real asks for the real data, but its raw files are missing "
                    f"and {error}. Either {todo}, or connect to the network and load it again "
                    f"(it comes from {entry.urls[0]}), or unset GNN_IPU_DATA to work with a stand-in."
                ) from error
            why = f"its raw files are missing and {error}"
            return _stand_in(entry, make, why, f"{todo}, or load it once with a network")
    content, changed = read(folder), changed_files(entry, folder)
    if not changed:
        return content, Loaded(entry.name, "real data")
    if kind == "real":
        why = "its content differs from what GNN_IPU_DATA=real asks for"
        raise damaged(entry, raw_file(folder, changed[0]), why)
    _tell_once(
        entry.name,
        f"Note: {entry.name} is not quite the original here: {', '.join(changed)} in {folder} differs "
        f"from what {entry.urls[0]} holds, and is used as it is. Delete it to download it again.",
    )
    return content, Loaded(entry.name, "changed data")


def _what_to_place(entry: Entry, root: Path) -> str:
    partial = [root / folder for folder in entry.folders if (root / folder).is_dir()]
    folder = partial[0] if partial else root / entry.folders[0]
    return f"put {', '.join(missing_files(entry, folder))} into {folder}"


def _stand_in(entry: Entry, make: Callable[[], Any], why: str, remedy: str) -> tuple[Any, Loaded]:
    made = make()
    _tell_once(
        entry.name,
        f"Note: {entry.name} is a stand-in here ({entry.stand_in}), because {why}. "
        f"For the real data, {remedy}.",
    )
    return made, Loaded(entry.name, "stand-in")


def _tell_once(name: str, message: str) -> None:
    """Print `message`, as plain output rather than as a warning, unless one on this dataset came before."""
    if name not in _names_told:
        _names_told.add(name)
        print(message, flush=True)


def describe(dataset: Any) -> str:
    """One line on a loaded dataset: its name, real data or stand-in, all or a part, and its sizes.

    Example:
        >>> describe(mutag())
        'MUTAG: real data, 188 graphs, 3,371 nodes, 7,442 edges, 2 classes'
    """
    loaded = getattr(dataset, "loaded", None)
    if not isinstance(loaded, Loaded):
        raise TypeError(
            "describe() needs a dataset that gnn_ipu_helpers.datasets has loaded "
            f"(got {type(dataset).__name__})"
        )
    if not isinstance(dataset, Dataset):
        facts = f"{len(dataset):,} images, {len(dataset.classes)} classes"
    elif loaded.name == QM9.name:
        facts = _count_molecules(dataset, loaded)
    else:
        facts = _count_graphs(dataset)
    return f"{loaded.name}: {loaded.kind}, {facts}"


def _count_graphs(dataset: Dataset) -> str:
    graph, total = dataset._data, dataset.len()
    if isinstance(graph, HeteroData):
        nodes = [f"{graph[kind].num_nodes:,} {kind} nodes" for kind in graph.node_types]
        return ", ".join([*nodes, f"{graph.num_edges:,} edges"])
    if len(dataset) < total:
        return f"{len(dataset):,} of its {total:,} graphs"
    graphs = "" if total == 1 else f"{total:,} graphs, "
    return f"{graphs}{graph.num_nodes:,} nodes, {graph.num_edges:,} edges, {dataset.num_classes} classes"


def _count_molecules(dataset: Dataset, loaded: Loaded) -> str:
    total = dataset.len()
    chosen = "" if len(dataset) == total else f"{len(dataset):,} of "
    if loaded.kind == "stand-in":
        return f"{chosen}{total:,} molecules with GFN2-xTB properties"
    if total == QM9_NUM_MOLECULES:
        return f"{chosen or 'all '}{total:,} molecules"
    return f"a part: {chosen}{total:,} of {QM9_NUM_MOLECULES:,} molecules"
