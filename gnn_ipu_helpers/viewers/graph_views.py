"""Drawings of one large graph: a sampled neighbourhood, and the types of a heterogeneous graph."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

from . import layouts
from .pictures import (
    COLOURS,
    INK,
    PADDING_EDGE,
    Picture,
    as_array,
    colour,
    counted,
    listed,
    marker,
    new_figure,
    styled,
)

_BOX = (0.25, 0.36)
_LABEL_GAP = 0.13
_HOP_NAMES = ("seed", "1 hop", "2 hops", "3 hops", "4 hops", "5 hops")


def subgraph(batch: Any, *, title: str | None = None, alt: str | None = None) -> Picture:
    """Draw a sampled neighbourhood: the seeds in the middle, what was sampled for them in rings by hop.

    Args:
        batch: of ``NeighborLoader`` or ``FixedSizeNeighborLoader``: ``edge_index`` ``[2, num_edges]``,
            from a sampled node to the node that it was sampled for; ``batch_size``, how many seeds
            come first; ``nodes_mask``, ``edges_mask`` if it is padded. Padding is counted, not drawn.
        title: words above the drawing.
        alt: alternative text, instead of the counts in words.
    """
    if hasattr(batch, "node_types"):
        raise ValueError(
            "one node type can be drawn as a sample (got a heterogeneous one); use schema() instead"
        )
    seeds = getattr(batch, "batch_size", None)
    if seeds is None:
        raise ValueError(
            "a neighbour batch is needed, which has `batch_size` (got one without); use NeighborLoader"
        )
    edges = as_array(batch.edge_index)
    real_nodes = _real(batch, "nodes_mask", int(batch.num_nodes))
    real_edges = _real(batch, "edges_mask", edges.shape[1])
    num_nodes = int(real_nodes.sum())
    # Real nodes come first, so that numbers of real edges stay valid.
    edges = edges[:, real_edges]
    seeds = np.arange(min(int(seeds), num_nodes))
    hops = layouts.hops_from(seeds, num_nodes, edges)
    padding = (int((~real_nodes).sum()), int((~real_edges).sum()))
    by_hop = [int((hops == hop).sum()) for hop in range(hops.max() + 1)]
    with styled():
        figure = new_figure(5.4)
        axes = figure.subplots()
        _draw_rings(axes, layouts.in_rings(hops, edges), hops, edges)
        axes.set_title(title or _subgraph_words(num_nodes, edges.shape[1], padding))
        figure.legend(loc="outside lower center", ncol=min(4, len(by_hop) + 1))
    rings = [
        f"{count:,} at {_hop_name(hop)}" if hop else counted(count, "seed")
        for hop, count in enumerate(by_hop)
    ]
    lost = int((hops < 0).sum())
    words = f"{_subgraph_words(num_nodes, edges.shape[1], padding)}. In rings: {listed(rings)}"
    words += f"; {lost:,} not connected to a seed." if lost else "."
    return Picture(figure, alt or f"{title + '. ' if title else 'Sampled neighbourhood: '}{words}")


def schema(data: Any, *, title: str | None = None, alt: str | None = None) -> Picture:
    """Draw the node types and edge types of a heterogeneous graph, with their counts.

    Args:
        data: a ``HeteroData``: ``node_types``, ``edge_types``, per type ``num_nodes``, ``x``, ``edge_index``.
        title: words above the drawing.
        alt: alternative text, instead of the counts in words.
    """
    nodes = {kind: int(data[kind].num_nodes) for kind in data.node_types}
    edges = {kind: int(as_array(data[kind].edge_index).shape[1]) for kind in data.edge_types}
    places = _schema_places(list(nodes), list(edges))
    with styled():
        tall = len(nodes) > 3
        figure = new_figure(5.0 if tall else 2.0)
        axes = figure.subplots()
        axes.set_axis_off()
        axes.set_xlim(-0.17, 1.17)
        axes.set_ylim((-0.3, 1.3) if tall else (0.15, 0.85))
        boxes = {
            kind: _draw_type(axes, places[kind], kind, count, _num_features(data[kind]), colour(number))
            for number, (kind, count) in enumerate(nodes.items())
        }
        for number, (kind, count) in enumerate(edges.items()):
            _draw_relation(axes, kind, count, places, boxes, list(edges)[:number])
        axes.set_title(title or "")
    words = listed([counted(count, f"{kind} node") for kind, count in nodes.items()])
    relations = listed(
        [f"{source} to {target} ({name}, {count:,})" for (source, name, target), count in edges.items()]
    )
    lead = title or "Types of a heterogeneous graph"
    return Picture(figure, alt or f"{lead}: {words}. Edges: {relations}.")


def _real(batch: Any, name: str, length: int) -> np.ndarray:
    mask = getattr(batch, name, None)
    return np.ones(length, dtype=bool) if mask is None else as_array(mask).astype(bool)


def _hop_name(hop: int) -> str:
    return _HOP_NAMES[hop] if hop < len(_HOP_NAMES) else f"{hop} hops"


def _subgraph_words(num_nodes: int, num_edges: int, padding: tuple[int, int]) -> str:
    words = f"{counted(num_nodes, 'node')}, {counted(num_edges, 'edge')}"
    if any(padding):
        words += f" (padding, not drawn: {counted(padding[0], 'node')}, {counted(padding[1], 'edge')})"
    return words


def _draw_rings(axes: Axes, places: np.ndarray, hops: np.ndarray, edges: np.ndarray) -> None:
    axes.set_axis_off()
    axes.set_aspect("equal")
    source, target = edges
    ink = "#888888" if edges.shape[1] < 150 else "#C4C4C4"
    for start, end in zip(source.tolist(), target.tolist()):
        axes.plot(*places[[start, end]].T, color=ink, linewidth=0.8, zorder=1)
    size = 60 if len(hops) < 60 else 26 if len(hops) < 250 else 10
    for hop in range(hops.max() + 1):
        mine = places[hops == hop]
        look = {"color": colour(hop), "marker": marker(hop), "edgecolor": INK, "linewidth": 0.5}
        label = f"{_hop_name(hop)}{'s' if hop == 0 and len(mine) != 1 else ''} ({len(mine):,})"
        axes.scatter(
            *mine.T, s=size * (2.0 if hop == 0 else 1.0), zorder=5 - min(hop, 3), label=label, **look
        )
    lost = places[hops < 0]
    if len(lost):
        label = f"not connected to a seed ({len(lost):,})"
        axes.scatter(*lost.T, s=size, marker="x", color=PADDING_EDGE, linewidth=1, zorder=2, label=label)


def _num_features(store: Any) -> int | None:
    features = getattr(store, "x", None)
    return None if features is None or features.ndim != 2 else int(features.shape[1])


def _schema_places(kinds: list[str], relations: list[tuple[str, str, str]]) -> dict[str, np.ndarray]:
    """The type with most relations in the middle, the others around it."""
    degree = {kind: sum(kind in (source, target) for source, _, target in relations) for kind in kinds}
    hub = max(kinds, key=lambda kind: degree[kind])
    others = [kind for kind in kinds if kind != hub]
    if len(kinds) <= 3:
        ends = [np.array([0.0, 0.5]), np.array([1.0, 0.5])]
        return {hub: np.array([0.5 if len(others) != 1 else 1.0, 0.5]), **dict(zip(others, ends))}
    angles = 2 * np.pi * np.arange(len(others)) / len(others) + np.pi / 4
    around = [np.array([0.5 + 0.7 * np.cos(angle), 0.5 + 0.7 * np.sin(angle)]) for angle in angles]
    return {hub: np.array([0.5, 0.5]), **dict(zip(others, around))}


def _draw_type(
    axes: Axes, place: np.ndarray, kind: str, count: int, features: int | None, shade: str
) -> FancyBboxPatch:
    width, height = _BOX
    box = FancyBboxPatch(
        (place[0] - width / 2, place[1] - height / 2),
        width,
        height,
        boxstyle="round,pad=0.01,rounding_size=0.03",
        facecolor="white",
        edgecolor=shade,
        linewidth=2.4,
        zorder=5,
    )
    axes.add_patch(box)
    words = f"{count:,} nodes" + (f"\n{features:,} features" if features else "\nno features")
    axes.text(
        *place + [0, height * 0.28], kind, ha="center", va="center", fontweight="bold", fontsize=10, zorder=6
    )
    axes.text(*place - [0, height * 0.16], words, ha="center", va="center", fontsize=8.5, zorder=6)
    return box


def _draw_relation(
    axes: Axes,
    relation: tuple[str, str, str],
    count: int,
    places: dict[str, np.ndarray],
    boxes: dict[str, FancyBboxPatch],
    earlier: list[tuple[str, str, str]],
) -> None:
    """An arrow on its own side of the line between two types, so that both directions can be told apart."""
    source, name, target = relation
    start, end = places[source], places[target]
    if source == target:
        bottom = start - [0, _BOX[1] / 2]
        axes.add_patch(
            FancyArrowPatch(
                bottom - [0.05, 0], bottom + [0.05, 0], connectionstyle="arc3,rad=1.4", arrowstyle="-|>",
                mutation_scale=12, color=INK, linewidth=1.4,
            )
        )  # fmt: skip
        axes.text(*bottom - [0, 0.16], f"{name}\n{count:,} edges", ha="center", va="top", fontsize=8.5)
        return
    again = sum((other[0], other[2]) == (source, target) for other in earlier)
    along = (end - start) / np.linalg.norm(end - start)
    across = np.array([along[1], -along[0]]) * (0.055 + 0.12 * again)
    rightwards = (start[0], start[1]) < (end[0], end[1])
    axes.add_patch(
        FancyArrowPatch(
            start + across, end + across, arrowstyle="-|>", mutation_scale=14, shrinkA=0, shrinkB=0,
            patchA=boxes[source], patchB=boxes[target], color=COLOURS[0] if rightwards else COLOURS[5],
            linestyle="-" if rightwards else "--", linewidth=1.5,
        )
    )  # fmt: skip
    place = (start + end) / 2 + across * (1 + _LABEL_GAP / np.linalg.norm(across))
    axes.text(*place, f"{name}\n{count:,} edges", ha="center", va="center", fontsize=8.5, linespacing=1.15)
