"""Where a loaded dataset came from, and one line that says so."""

from __future__ import annotations

from typing import Any, NamedTuple

from torch_geometric.data import Dataset, HeteroData

from .catalogue import QM9, QM9_NUM_MOLECULES


class Origin(NamedTuple):
    """Name of a dataset and whether its content is the original's."""

    name: str
    is_real: bool


def describe(dataset: Any) -> str:
    """One line on a loaded dataset: its name, real data or stand-in, all or a part, and its sizes."""
    origin = getattr(dataset, "origin", None)
    if not isinstance(origin, Origin):
        raise TypeError(
            "describe() needs a dataset that gnn_ipu_helpers.datasets has loaded "
            f"(got {type(dataset).__name__})"
        )
    kind = "real data" if origin.is_real else "stand-in"
    return f"{origin.name}: {kind}, " + ", ".join(_facts(dataset, origin))


def _facts(dataset: Any, origin: Origin) -> list[str]:
    if not isinstance(dataset, Dataset):
        return [f"{len(dataset):,} images, {len(dataset.classes)} classes"]
    if origin.name == QM9.name:
        return [_count_molecules(dataset, origin)]
    graph = dataset._data
    if isinstance(graph, HeteroData):
        nodes = [f"{graph[kind].num_nodes:,} {kind} nodes" for kind in graph.node_types]
        return [*nodes, f"{graph.num_edges:,} edges"]
    facts = [f"{graph.num_nodes:,} nodes", f"{graph.num_edges:,} edges", f"{dataset.num_classes} classes"]
    total = dataset.len()
    if total == 1:
        return facts
    if len(dataset) < total:
        return [f"{len(dataset):,} of its {total:,} graphs"]
    return [f"{total:,} graphs", *facts]


def _count_molecules(dataset: Dataset, origin: Origin) -> str:
    total = dataset.len()
    chosen = "" if len(dataset) == total else f"{len(dataset):,} of "
    if not origin.is_real:
        return f"{chosen}{total:,} molecules with GFN2-xTB properties"
    if total == QM9_NUM_MOLECULES:
        return f"{chosen or 'all '}{total:,} molecules"
    return f"a part: {chosen}{total:,} of {QM9_NUM_MOLECULES:,} molecules"
