"""Drawings of a mini-batch: its graphs, its padding, its masks, and its block-diagonal adjacency matrix."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Circle, Patch, Rectangle

from . import layouts
from .pictures import (
    DARK_COLOURS,
    INK,
    PADDING,
    PADDING_EDGE,
    PADDING_FILL,
    PADDING_HATCH,
    WIDTH,
    Picture,
    as_array,
    colour,
    counted,
    new_figure,
    padding_patch,
    styled,
)

_GRAPHS_PER_ROW = 5
_CELL_HEIGHT = 1.35
_STRIPS_HEIGHT = 1.25
_MOST_DOTS = 60


@dataclass
class Contents:
    """What a batch holds, read from its tensors only.

    Attributes:
        graph_of_node: ``[num_nodes]``.
        edge_index: ``[2, num_edges]``.
        real_nodes, real_edges, real_graphs: masks, True where real; all True for a batch without masks.
    """

    graph_of_node: np.ndarray
    edge_index: np.ndarray
    real_nodes: np.ndarray
    real_edges: np.ndarray
    real_graphs: np.ndarray

    @classmethod
    def of(cls, batch: Any) -> Contents:
        """Read a PyG batch or a fixed-size batch; a single ``Data`` counts as a batch of one."""
        if hasattr(batch, "node_types"):
            raise ValueError(
                "one node type can be drawn as a batch (got a heterogeneous one); use schema() instead"
            )
        edge_index = as_array(batch.edge_index)
        if edge_index.shape[0] != 2:
            raise ValueError(
                "one mini-batch can be drawn, with an edge_index of [2, num_edges] "
                f"(got {list(edge_index.shape)}: a combined batch of several device iterations); "
                "draw a batch of a loader without `options`"
            )
        graph_of_node = getattr(batch, "batch", None)
        if graph_of_node is None:
            graph_of_node = np.zeros(int(batch.num_nodes), dtype=np.int64)
        graph_of_node = as_array(graph_of_node)
        pointers = getattr(batch, "ptr", None)
        num_graphs = int(graph_of_node.max()) + 1 if pointers is None else len(pointers) - 1
        return cls(
            graph_of_node,
            edge_index,
            _mask(batch, "nodes_mask", len(graph_of_node)),
            _mask(batch, "edges_mask", edge_index.shape[1]),
            _mask(batch, "graphs_mask", num_graphs),
        )

    @property
    def num_graphs(self) -> int:
        """Graphs, padding graphs included."""
        return len(self.real_graphs)

    def nodes_of(self, graph: int) -> np.ndarray:
        """The numbers of the nodes of one graph."""
        return np.flatnonzero(self.graph_of_node == graph)

    def edges_of(self, graph: int) -> np.ndarray:
        """The edges of one graph with its own node numbers, ``[2, num_edges of it]``."""
        nodes = self.nodes_of(graph)
        inside = self.graph_of_node[self.edge_index[0]] == graph
        return self.edge_index[:, inside] - (nodes[0] if len(nodes) else 0)

    def sizes(self) -> list[tuple[str, np.ndarray]]:
        """The three masks by name."""
        return [("nodes", self.real_nodes), ("edges", self.real_edges), ("graphs", self.real_graphs)]

    def in_words(self) -> str:
        """The counts as a sentence."""
        parts = []
        for name, mask in self.sizes():
            padding = int((~mask).sum())
            of_them = f" ({int(mask.sum()):,} real, {padding:,} padding)" if padding else ""
            parts.append(counted(len(mask), name[:-1]) + of_them)
        return ", ".join(parts)


def batch(batch: Any, *, max_graphs: int = 12, title: str | None = None, alt: str | None = None) -> Picture:
    """Draw a mini-batch: each graph, padding graphs in hatched grey, and below how much of it is real.

    Args:
        batch: a PyG batch, with or without the masks of a fixed-size loader: ``batch`` ``[num_nodes]``,
            ``edge_index`` ``[2, num_edges]``, ``ptr`` ``[num_graphs + 1]``, ``nodes_mask`` ``[num_nodes]``,
            ``edges_mask`` ``[num_edges]``, ``graphs_mask`` ``[num_graphs]``, True where real.
        max_graphs: how many real graphs to draw; all are counted.
        title: words above the drawing.
        alt: alternative text, instead of the counts in words.
    """
    contents = Contents.of(batch)
    shown = _graphs_to_show(contents, max_graphs)
    rows = _num_rows(len(shown))
    with styled():
        figure = new_figure(rows * _CELL_HEIGHT + _STRIPS_HEIGHT + (0.3 if title else 0.0))
        if title:
            figure.suptitle(title, fontsize=10.5)
        _fill(figure, contents, shown, rows, _lengths(contents))
    return Picture(figure, alt or _batch_alt(title or "Drawing of a mini-batch", contents, len(shown)))


def batches(
    left: Any,
    right: Any,
    *,
    titles: Sequence[str] = ("PyG batch", "Fixed-size batch"),
    max_graphs: int = 4,
    alt: str | None = None,
) -> Picture:
    """Draw two mini-batches one above the other, such as PyG's batch and the fixed-size one.

    Args:
        left, right: batches as for :func:`batch`.
        titles: one title for each.
        max_graphs: how many real graphs of each to draw; all are counted.
        alt: alternative text, instead of the counts in words.
    """
    both = [Contents.of(left), Contents.of(right)]
    shown = [_graphs_to_show(contents, max_graphs) for contents in both]
    rows = [_num_rows(len(graphs)) for graphs in shown]
    heights = [count * _CELL_HEIGHT + _STRIPS_HEIGHT + 0.3 for count in rows]
    longest = [max(lengths) for lengths in zip(*(map(_lengths, both)))]
    with styled():
        figure = new_figure(sum(heights) + 0.15)
        parts = figure.subfigures(2, 1, height_ratios=heights, hspace=0.04)
        for part, contents, graphs, count, title in zip(parts, both, shown, rows, titles):
            part.suptitle(title, fontsize=10.5)
            _fill(part, contents, graphs, count, longest, columns=_GRAPHS_PER_ROW)
    words = [_batch_alt(title, contents, len(graphs)) for title, contents, graphs in zip(titles, both, shown)]
    return Picture(figure, alt or " ".join(words))


def adjacency(batch: Any, *, title: str | None = None, alt: str | None = None) -> Picture:
    """Draw the adjacency matrix of a mini-batch, a block per graph, with the ``batch`` vector beside it.

    Args:
        batch: as for :func:`batch`.
        title: words above the drawing.
        alt: alternative text, instead of the counts in words.
    """
    contents = Contents.of(batch)
    with styled():
        figure = new_figure(WIDTH * 0.88)
        matrix, strip = figure.subplots(1, 2, width_ratios=(12, 1), sharey=True)
        _draw_blocks(matrix, contents)
        _draw_batch_vector(strip, contents)
        matrix.set_title(
            title or f"Adjacency matrix, {len(contents.real_nodes)} × {len(contents.real_nodes)}"
        )
        handles = [Patch(facecolor="white", edgecolor=INK, label="a graph's block; a square is an edge")]
        if not contents.real_graphs.all():
            handles.append(padding_patch())
        matrix.legend(handles=handles, loc="upper center", bbox_to_anchor=(0.5, -0.09), ncol=2)
    words = (
        f"{title or 'Adjacency matrix of a mini-batch'}: {counted(contents.num_graphs, 'block')} on the "
        f"diagonal, nothing elsewhere; {contents.in_words()}. Beside it the batch vector: each node's graph."
    )
    return Picture(figure, alt or words)


def _mask(batch: Any, name: str, length: int) -> np.ndarray:
    mask = getattr(batch, name, None)
    if mask is None:
        return np.ones(length, dtype=bool)
    mask = as_array(mask).astype(bool).reshape(-1)
    if len(mask) != length:
        raise ValueError(f"{name} should have one value for each of {length} (got {len(mask)})")
    return mask


def _graphs_to_show(contents: Contents, max_graphs: int) -> list[int]:
    real = np.flatnonzero(contents.real_graphs)[:max_graphs]
    padding = np.flatnonzero(~contents.real_graphs)[: max(1, max_graphs // 4)]
    return [*real.tolist(), *padding.tolist()]


def _num_rows(num_shown: int) -> int:
    return max(1, -(-num_shown // _GRAPHS_PER_ROW))


def _lengths(contents: Contents) -> list[int]:
    return [len(mask) for _, mask in contents.sizes()]


def _fill(
    figure: Any,
    contents: Contents,
    shown: list[int],
    rows: int,
    longest: list[int],
    columns: int | None = None,
) -> None:
    """Draw the graphs `shown` and the strips; `longest` is the number of nodes, edges and graphs that a strip
    of full length stands for, so that two batches can share a scale."""
    grid = figure.add_gridspec(2, 1, height_ratios=(rows * _CELL_HEIGHT, _STRIPS_HEIGHT))
    columns = columns or min(_GRAPHS_PER_ROW, max(len(shown), 3))
    cells = grid[0].subgridspec(rows, columns)
    for place, graph in enumerate(shown):
        axes = figure.add_subplot(cells[place // columns, place % columns])
        _draw_graph(axes, contents, graph)
    _draw_strips(figure.add_subplot(grid[1]), contents, len(shown), longest)


def _draw_graph(axes: Axes, contents: Contents, graph: int) -> None:
    axes.set_axis_off()
    axes.set_xlim(-0.12, 1.12)
    axes.set_ylim(-0.12, 1.12)
    axes.set_aspect("equal")
    num_nodes, edges = len(contents.nodes_of(graph)), contents.edges_of(graph)
    real = bool(contents.real_graphs[graph])
    name = f"graph {graph}" if real else f"padding {graph}"
    if real:
        _draw_links(axes, num_nodes, edges, colour(graph))
    else:
        _draw_padding_graph(axes, num_nodes, edges)
    edge = "edge" if real or (edges[0] != edges[1]).any() else "self-loop"
    words = f"{counted(num_nodes, 'node')}\n{counted(edges.shape[1], edge)}"
    axes.set_title(name, fontsize=9, pad=1)
    axes.text(0.5, -0.1, words, ha="center", va="top", fontsize=8.5, linespacing=1.1)


def _draw_links(axes: Axes, num_nodes: int, edges: np.ndarray, fill: str) -> None:
    if num_nodes == 0:
        return
    places = layouts.by_distance(num_nodes, edges)
    loops = edges[0] == edges[1]
    for start, end in {tuple(sorted(pair)) for pair in edges[:, ~loops].T.tolist()}:
        axes.plot(*places[[start, end]].T, color="#666666", linewidth=1.0, zorder=1)
    size = 42 if num_nodes <= 12 else 20 if num_nodes <= 30 else 8
    axes.scatter(*places.T, s=size, color=fill, edgecolor=INK, linewidth=0.5, zorder=2)
    for node in np.unique(edges[0, loops]):
        axes.add_patch(_loop(places[node], 0.05))


def _draw_padding_graph(axes: Axes, num_nodes: int, edges: np.ndarray) -> None:
    axes.add_patch(
        Rectangle(
            (-0.1, 0.0),
            1.2,
            1.1,
            facecolor="white",
            edgecolor=PADDING_EDGE,
            hatch=PADDING_HATCH,
            linewidth=0.8,
        )
    )
    side = max(2, int(np.ceil(np.sqrt(min(num_nodes, _MOST_DOTS)))))
    spots = np.arange(min(num_nodes, _MOST_DOTS))
    places = np.stack([(spots % side + 0.5) / side, 0.92 - 0.74 * (spots // side + 0.5) / side], axis=1)
    size = 42 if num_nodes <= 12 else 14
    loops = np.unique(edges[0, edges[0] == edges[1]])
    for node in loops[loops < len(places)]:
        axes.add_patch(_loop(places[node], 0.09))
    axes.scatter(*places.T, s=size, color="white", edgecolor=PADDING_EDGE, linewidth=0.9, zorder=3)
    if num_nodes > _MOST_DOTS:
        axes.text(
            0.5, 0.03, f"{_MOST_DOTS} of {num_nodes} drawn", ha="center", va="bottom", fontsize=7, zorder=4,
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.8},
        )  # fmt: skip


def _loop(place: np.ndarray, radius: float) -> Circle:
    return Circle((place[0], place[1] + radius), radius, fill=False, edgecolor=INK, linewidth=1.0, zorder=2.5)


def _draw_strips(axes: Axes, contents: Contents, num_shown: int, longest: list[int]) -> None:
    axes.set_xlim(0, 1)
    axes.set_ylim(-0.3, 3)
    axes.set_axis_off()
    owners = {
        "nodes": contents.graph_of_node,
        "edges": contents.graph_of_node[contents.edge_index[0]],
        "graphs": np.arange(contents.num_graphs),
    }
    left = 0.11
    for row, (name, mask) in enumerate(contents.sizes()):
        bottom = 2.2 - row
        real, total = int(mask.sum()), len(mask)
        right = left + 0.53 * total / max(longest[row], 1)
        _draw_strip(axes, mask, owners[name], (left, right), bottom)
        words = (
            f"{real:,} real + {total - real:,} pad = {total:,}" if real < total else f"{total:,}, all real"
        )
        axes.text(left - 0.01, bottom + 0.3, name, ha="right", va="center", fontsize=9)
        axes.text(right + 0.015, bottom + 0.3, words, ha="left", va="center", fontsize=8.5)
    if num_shown < contents.num_graphs:
        note = f"{num_shown} of {contents.num_graphs} graphs drawn above"
        axes.text(left, 0.05, note, ha="left", va="top", fontsize=8, style="italic")


def _draw_strip(
    axes: Axes, mask: np.ndarray, owner: np.ndarray, span: tuple[float, float], bottom: float
) -> None:
    """A bar as long as ``span``, cut where the owning graph or the mask changes."""
    scale = (span[1] - span[0]) / max(len(mask), 1)
    cuts = np.flatnonzero((np.diff(owner) != 0) | (np.diff(mask.astype(int)) != 0)) + 1
    starts = [0, *cuts.tolist()]
    ends = [*cuts.tolist(), len(mask)]
    for start, end in zip(starts, ends):
        if start == end:
            continue
        look = {"facecolor": colour(int(owner[start])), "edgecolor": "white", "linewidth": 0.6}
        if not mask[start]:
            look = PADDING
        place = (span[0] + start * scale, bottom)
        width = (end - start) * scale
        axes.add_patch(Rectangle(place, width, 0.6, **look))
        if width > 0.022:
            _write_owner(axes, int(owner[start]), place[0] + width / 2, bottom + 0.29, bool(mask[start]))


def _write_owner(axes: Axes, owner: int, x: float, y: float, real: bool) -> None:
    ink = "white" if real and colour(owner) in DARK_COLOURS else INK
    ground = None if real else {"facecolor": PADDING_FILL, "edgecolor": "none", "pad": 0.6}
    axes.text(x, y, str(owner), ha="center", va="center", fontsize=7.5, color=ink, bbox=ground)


def _draw_blocks(axes: Axes, contents: Contents) -> None:
    total = len(contents.real_nodes)
    axes.set_xlim(0, total)
    axes.set_ylim(total, 0)
    axes.set_aspect("equal")
    axes.set_xlabel("node")
    axes.set_ylabel("node")
    for graph in range(contents.num_graphs):
        nodes = contents.nodes_of(graph)
        if not len(nodes):
            continue
        padding = not contents.real_graphs[graph]
        shade = PADDING_FILL if padding else colour(graph)
        corner = (nodes[0], nodes[0])
        axes.add_patch(Rectangle(corner, len(nodes), len(nodes), facecolor=shade, alpha=0.22, linewidth=0))
        axes.add_patch(
            Rectangle(
                corner,
                len(nodes),
                len(nodes),
                fill=False,
                edgecolor=PADDING_EDGE if padding else INK,
                hatch=PADDING_HATCH if padding else None,
                linewidth=1.0,
            )
        )
    for row, column in np.unique(contents.edge_index.T, axis=0).tolist():
        graph = int(contents.graph_of_node[row])
        shade = colour(graph) if contents.real_graphs[graph] else "#555555"
        axes.add_patch(
            Rectangle((column, row), 1, 1, facecolor=shade, edgecolor="white", linewidth=0.3, zorder=3)
        )


def _draw_batch_vector(axes: Axes, contents: Contents) -> None:
    axes.set_xlim(0, 1)
    axes.set_xticks([])
    axes.tick_params(labelleft=False, left=False)
    for spine in axes.spines.values():
        spine.set_visible(False)
    axes.set_title("batch", fontsize=9.5)
    total = len(contents.real_nodes)
    for graph in range(contents.num_graphs):
        nodes = contents.nodes_of(graph)
        if not len(nodes):
            continue
        look = {"facecolor": colour(graph), "alpha": 0.35, "edgecolor": INK, "linewidth": 0.8}
        if not contents.real_graphs[graph]:
            look = PADDING
        axes.add_patch(Rectangle((0, nodes[0]), 1, len(nodes), **look))
        lines = range(nodes[0], nodes[-1] + 1) if total <= 30 else [nodes[0] + len(nodes) / 2 - 0.5]
        for line in lines:
            axes.text(0.5, line + 0.5, str(graph), ha="center", va="center", fontsize=8)


def _batch_alt(title: str, contents: Contents, num_shown: int) -> str:
    drawn = "" if num_shown == contents.num_graphs else f" {num_shown} of the graphs are drawn."
    padding = int((~contents.real_graphs).sum())
    its = "its" if padding == 1 else "their"
    grey = (
        f" {counted(padding, 'padding graph')} in hatched grey, {its} edges self-loops on {its} first node."
    )
    return f"{title}: {contents.in_words()}.{drawn}{grey if padding else ''}"
