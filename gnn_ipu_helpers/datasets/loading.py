"""Choose between real files, a download and a stand-in, and say so."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Callable, NamedTuple

from torch_geometric.data import InMemoryDataset

from .catalogue import Entry
from .download import Unavailable, download
from .errors import DatasetError
from .locate import PathLike, find_raw_folder, forced_kind, resolve_root, what_to_place
from .notice import notify_once
from .origin import Origin


class Recipe(NamedTuple):
    """How to get one dataset: from raw files in a folder, by download into a folder, or made up."""

    entry: Entry
    read: Callable[[Path], Any]
    fetch: Callable[[Path], None]
    make: Callable[[], Any]


def obtain(recipe: Recipe, root: PathLike | None) -> tuple[Any, Origin]:
    """What the recipe gives, real if possible or demanded, and where it came from."""
    entry, kind, place = recipe.entry, forced_kind(), resolve_root(root)
    if kind == "standin":
        return _stand_in(recipe, place, "GNN_IPU_DATA=standin asks for it")
    folder = find_raw_folder(entry, place)
    if folder is None:
        try:
            folder = download(entry, place, recipe.fetch)
        except Unavailable as error:
            if kind == "real":
                raise DatasetError(
                    f"{entry.name}: GNN_IPU_DATA=real asks for the real data, but its raw files are missing "
                    f"and {error}. "
                    f"Either {what_to_place(entry, place)}, or connect to the network and load it again "
                    f"(it comes from {entry.url}), or unset GNN_IPU_DATA to work with a stand-in."
                ) from error
            return _stand_in(recipe, place, f"its raw files are missing and {error}")
    return recipe.read(folder), Origin(entry.name, is_real=True)


def load_graphs(
    recipe: Recipe,
    transform: Callable | None,
    pre_transform: Callable | None,
    root: PathLike | None,
) -> InMemoryDataset:
    """The recipe's dataset, every graph passed through `pre_transform` now and `transform` on each access.

    `pre_transform` runs in memory each time: PyG's cache on disk tells transforms apart by their `repr`,
    which for most of them leaves out the arguments, so it would hand out stale graphs.
    """
    dataset, origin = obtain(recipe, root)
    if pre_transform is not None:
        graphs = [pre_transform(dataset.get(index)) for index in range(dataset.len())]
        dataset.data, dataset.slices = dataset.collate(graphs)
        dataset.pre_transform = pre_transform
    dataset.transform = transform
    dataset.origin = origin
    return dataset


def _stand_in(recipe: Recipe, root: Path, why: str) -> tuple[Any, Origin]:
    entry = recipe.entry
    made = recipe.make()
    if forced_kind() == "standin":
        how = "unset GNN_IPU_DATA"
    else:
        how = f"{what_to_place(entry, root)}, or load it once with a network"
    notify_once(
        entry.name,
        f"Note: {entry.name} is a stand-in here ({entry.stand_in}), because {why}. For the real data, {how}.",
    )
    return made, Origin(entry.name, is_real=False)
