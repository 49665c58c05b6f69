"""Drawings of graphs: a mini-batch with its padding, its adjacency matrix, a sample, the types of a graph."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Sequence

import numpy as np
from matplotlib.patches import Circle, FancyArrowPatch, FancyBboxPatch

from . import pictures as style
from .pictures import Picture

# -- a mini-batch

_GRAPHS_PER_ROW = 5
_CELL_HEIGHT, _STRIPS_HEIGHT, _TITLE_HEIGHT = 1.5, 1.25, 0.3
_MOST_DOTS = 60
_STRIP_LEFT, _STRIP_LENGTH = 0.12, 0.5


@dataclass
class Contents:
    """What a batch holds, read from its tensors only.

    Attributes:
        graph_of_node: `[num_nodes]`.
        edge_index: `[2, num_edges]`.
        real: Masks by `nodes`, `edges` and `graphs`, True where real; all True for a batch without masks.
    """

    graph_of_node: np.ndarray
    edge_index: np.ndarray
    real: dict[str, np.ndarray]

    @classmethod
    def of(cls, batch: Any) -> Contents:
        """Read a PyG batch or a fixed-size batch; a single `Data` counts as a batch of one."""
        _refuse_types(batch, "batch")
        edge_index = style.as_array(batch.edge_index)
        if edge_index.shape[0] != 2:
            raise ValueError(
                "one mini-batch can be drawn, with an edge_index of [2, num_edges] "
                f"(got {list(edge_index.shape)}: a combined batch of several device iterations); "
                "draw a batch of a loader without `options`"
            )
        owners = getattr(batch, "batch", None)
        owners = np.zeros(int(batch.num_nodes), dtype=np.int64) if owners is None else style.as_array(owners)
        pointers = getattr(batch, "ptr", None)
        num_graphs = int(owners.max()) + 1 if pointers is None else len(pointers) - 1
        lengths = {"nodes": len(owners), "edges": edge_index.shape[1], "graphs": num_graphs}
        return cls(owners, edge_index, {kind: _mask(batch, kind, length) for kind, length in lengths.items()})

    @property
    def num_graphs(self) -> int:
        return len(self.real["graphs"])

    def nodes_of(self, graph: int) -> np.ndarray:
        return np.flatnonzero(self.graph_of_node == graph)

    def edges_of(self, graph: int) -> np.ndarray:
        """The edges of one graph with its own node numbers, `[2, num_edges of it]`."""
        nodes = self.nodes_of(graph)
        inside = self.graph_of_node[self.edge_index[0]] == graph
        return self.edge_index[:, inside] - (nodes[0] if len(nodes) else 0)

    def fill_of(self, graph: int) -> str:
        """The colour of one graph; grey for a padding graph."""
        return style.colour(graph) if self.real["graphs"][graph] else style.PADDING_FILL

    def in_words(self) -> str:
        """The counts as a sentence."""
        parts = []
        for kind, mask in self.real.items():
            padding = int((~mask).sum())
            of_them = f" ({int(mask.sum()):,} real, {padding:,} padding)" if padding else ""
            parts.append(style.counted(len(mask), kind[:-1]) + of_them)
        return ", ".join(parts)

    def to_show(self, max_graphs: int) -> list[int]:
        """The real graphs to draw, and a few of the padding graphs."""
        real = np.flatnonzero(self.real["graphs"])[:max_graphs]
        padding = np.flatnonzero(~self.real["graphs"])[: max(1, max_graphs // 4)]
        return [*real.tolist(), *padding.tolist()]


def _refuse_types(batch: Any, what: str) -> None:
    if hasattr(batch, "node_types"):
        raise ValueError(
            f"one node type can be drawn as a {what} (got a heterogeneous one); use schema() instead"
        )


def _mask(batch: Any, kind: str, length: int) -> np.ndarray:
    mask = getattr(batch, f"{kind}_mask", None)
    mask = np.ones(length, dtype=bool) if mask is None else style.as_array(mask).astype(bool).reshape(-1)
    if len(mask) != length:
        raise ValueError(f"{kind}_mask should have one value for each of {length} (got {len(mask)})")
    return mask


def batch(batch: Any, *, max_graphs: int = 12, title: str | None = None, alt: str | None = None) -> Picture:
    """Draw a mini-batch: each graph, padding graphs in grey, and below how much of it is real.

    Args:
        batch: A PyG batch, with or without the masks of a fixed-size loader: `batch` `[num_nodes]`,
            `edge_index` `[2, num_edges]`, `ptr` `[num_graphs + 1]`, `nodes_mask` `[num_nodes]`,
            `edges_mask` `[num_edges]`, `graphs_mask` `[num_graphs]`, True where real.
        max_graphs: How many real graphs to draw; all are counted.
        title: Words above the drawing.
        alt: Alternative text, instead of the counts in words.

    Example:
        >>> import torch
        >>> from torch_geometric.data import Data
        >>> batch(Data(edge_index=torch.tensor([[0, 1], [1, 0]]), num_nodes=2))
        Drawing of a mini-batch: 2 nodes, 2 edges, 1 graph.
    """
    return _drawn([batch], [title], max_graphs, alt, "Drawing of a mini-batch")


def batches(
    left: Any,
    right: Any,
    *,
    titles: Sequence[str] = ("PyG batch", "Fixed-size batch"),
    max_graphs: int = 4,
    alt: str | None = None,
) -> Picture:
    """Draw two mini-batches one above the other and on one scale, such as PyG's and the fixed-size one.

    Args:
        left, right: Batches as for `batch`.
        titles: One title for each.
        max_graphs: How many real graphs of each to draw; all are counted.
        alt: Alternative text, instead of the counts in words.
    """
    return _drawn([left, right], titles, max_graphs, alt, "")


def _drawn(
    batches: Sequence[Any], titles: Sequence[str | None], max_graphs: int, alt: str | None, lead: str
) -> Picture:
    read = [Contents.of(batch) for batch in batches]
    shown = [contents.to_show(max_graphs) for contents in read]
    columns = min(_GRAPHS_PER_ROW, max(3, *(len(graphs) for graphs in shown)))
    rows = [max(1, -(-len(graphs) // columns)) for graphs in shown]
    heights = [
        count * _CELL_HEIGHT + _STRIPS_HEIGHT + (_TITLE_HEIGHT if title else 0.0)
        for count, title in zip(rows, titles)
    ]
    # A strip of full length stands for the most nodes, edges or graphs in any of the batches.
    longest = {kind: max(len(contents.real[kind]) for contents in read) for kind in read[0].real}
    words = []
    with style.styled():
        figure = style.new_figure(sum(heights))
        parts: Any = figure.subfigures(len(read), 1, height_ratios=heights, hspace=0.02, squeeze=False)
        for part, contents, graphs, count, title in zip(parts[:, 0], read, shown, rows, titles):
            if title:
                part.suptitle(title, fontsize=style.LARGE, x=0.02, ha="left")
            grid = part.add_gridspec(2, 1, height_ratios=(count * _CELL_HEIGHT, _STRIPS_HEIGHT))
            cells = grid[0].subgridspec(count, columns)
            for place, graph in enumerate(graphs):
                _draw_graph(part.add_subplot(cells[place // columns, place % columns]), contents, graph)
            _draw_strips(part.add_subplot(grid[1]), contents, len(graphs), longest)
            drawn = "" if len(graphs) == contents.num_graphs else f" {len(graphs)} of the graphs are drawn."
            words.append(f"{title or lead}: {contents.in_words()}.{drawn}{_padding_words(contents)}")
    return Picture(figure, alt or " ".join(words))


def _padding_words(contents: Contents) -> str:
    padding = int((~contents.real["graphs"]).sum())
    its = "its" if padding == 1 else "their"
    told = f" {style.counted(padding, 'padding graph')} in grey, {its} edges self-loops on {its} first node."
    return told if padding else ""


def _draw_graph(axes: Any, contents: Contents, graph: int) -> None:
    axes.set_axis_off()
    axes.set(xlim=(-0.12, 1.12), ylim=(-0.12, 1.12), aspect="equal")
    num_nodes, edges = len(contents.nodes_of(graph)), contents.edges_of(graph)
    loops = edges[0] == edges[1]
    real = bool(contents.real["graphs"][graph])
    size = 44 if num_nodes <= 12 else 20 if num_nodes <= 30 else 10
    radius = 0.05
    if real:
        places = _by_distance(num_nodes, edges) if num_nodes else np.zeros((0, 2))
        style.links(axes, places, np.unique(np.sort(edges[:, ~loops], axis=0), axis=1))
        style.dots(axes, places, size, style.colour(graph), zorder=3)
    else:
        drawn = min(num_nodes, _MOST_DOTS)
        side = max(2, int(np.ceil(np.sqrt(drawn))))
        spots = np.arange(drawn)
        places = np.stack([(spots % side + 0.5) / side, 1.0 - 0.78 * (spots // side + 0.5) / side], axis=1)
        style.rectangle(axes, (-0.1, 0.0), 1.2, 1.1, facecolor=style.PADDING_FILL)
        style.dots(axes, places, size, style.PADDING_EDGE, zorder=3)
        radius = 0.09
        if num_nodes > drawn:
            style.write(axes, 0.5, 0.1, f"{drawn} drawn")
    for node in np.unique(edges[0, loops]):
        if node < len(places):
            spot = (float(places[node, 0]), float(places[node, 1]) + radius)
            axes.add_patch(Circle(spot, radius, fill=False, edgecolor=style.LINK, linewidth=1.0, zorder=2))
    edge = "self-loop" if not real and loops.all() else "edge"
    words = f"{style.counted(num_nodes, 'node')}\n{style.counted(edges.shape[1], edge)}"
    name = f"graph {graph}" if real else f"padding {graph}"
    axes.set_title(name, fontsize=style.SMALL, pad=1, loc="center")
    style.write(axes, 0.5, -0.1, words, va="top", linespacing=1.1)


def _draw_strips(axes: Any, contents: Contents, num_shown: int, longest: dict[str, int]) -> None:
    """A bar each for nodes, edges and graphs, cut where the owning graph or the mask changes."""
    axes.set(xlim=(0, 1), ylim=(-0.3, 3))
    axes.set_axis_off()
    owners = {
        "nodes": contents.graph_of_node,
        "edges": contents.graph_of_node[contents.edge_index[0]],
        "graphs": np.arange(contents.num_graphs),
    }
    for row, (kind, mask) in enumerate(contents.real.items()):
        bottom, total, real = 2.2 - row, len(mask), int(mask.sum())
        owner, unit = owners[kind], _STRIP_LENGTH / max(longest[kind], 1)
        changes = np.flatnonzero((np.diff(owner) != 0) | (np.diff(mask.astype(int)) != 0)) + 1
        cuts = [0, *changes.tolist(), total] if total else []
        for start, end in zip(cuts, cuts[1:]):
            fill = style.colour(int(owner[start])) if mask[start] else style.PADDING_FILL
            left, width = _STRIP_LEFT + start * unit, (end - start) * unit
            style.rectangle(axes, (left, bottom), width, 0.6, facecolor=fill, linewidth=0.6)
            number, ink = str(owner[start]), style.ink_on(fill)
            if width > 0.02 * len(number):
                style.write(axes, left + width / 2, bottom + 0.29, number, color=ink)
        padded = f"{real:,} real + {total - real:,} pad = {total:,}"
        words = padded if real < total else f"{total:,}, all real"
        style.write(axes, _STRIP_LEFT - 0.01, bottom + 0.3, kind, ha="right")
        style.write(axes, _STRIP_LEFT + total * unit + 0.015, bottom + 0.3, words, ha="left")
    if num_shown < contents.num_graphs:
        note = f"{num_shown} of {contents.num_graphs} graphs drawn above"
        style.write(axes, _STRIP_LEFT, 0.1, note, ha="left", va="top", style="italic")


def adjacency(batch: Any, *, title: str | None = None, alt: str | None = None) -> Picture:
    """Draw the adjacency matrix of a mini-batch, a block per graph, with the `batch` vector beside it.

    Args:
        batch: As for `batch`.
        title: Words above the drawing.
        alt: Alternative text, instead of the counts in words.

    Example:
        >>> import torch
        >>> from torch_geometric.data import Data
        >>> adjacency(Data(edge_index=torch.tensor([[0, 1], [1, 0]]), num_nodes=2)).alt.split(";")[0]
        'Adjacency matrix of a mini-batch: 1 block on the diagonal, nothing elsewhere'
    """
    contents = Contents.of(batch)
    total = len(contents.graph_of_node)
    with style.styled():
        figure = style.new_figure(style.WIDTH * 0.9)
        matrix, strip = figure.subplots(1, 2, width_ratios=(12, 1), sharey=True)
        matrix.set(xlim=(0, total), ylim=(total, 0), aspect="equal", xlabel="node", ylabel="node")
        strip.set(xlim=(0, 1), xticks=[])
        strip.tick_params(labelleft=False, left=False)
        strip.spines[:].set_visible(False)
        for graph in np.unique(contents.graph_of_node).tolist():
            nodes = contents.nodes_of(graph)
            fill, size, first = contents.fill_of(graph), len(nodes), int(nodes[0])
            is_real = contents.real["graphs"][graph]
            look = {"facecolor": fill, "alpha": 0.2 if is_real else 1.0, "linewidth": 0}
            style.rectangle(matrix, (first, first), size, size, **look)
            if not is_real:
                style.write(matrix, first + size / 2, first + size / 2, "padding", zorder=4)
            style.rectangle(strip, (0, first), 1, size, facecolor=fill)
            # A number per node where it can be read, else one per graph.
            lines = range(first, first + size) if total <= 30 else [first + size / 2 - 0.5]
            for line in lines:
                style.write(strip, 0.5, line + 0.5, str(graph), color=style.ink_on(fill))
        for row, column in np.unique(contents.edge_index.T, axis=0).tolist():
            graph = int(contents.graph_of_node[row])
            shade = style.colour(graph) if contents.real["graphs"][graph] else style.PADDING_EDGE
            style.rectangle(matrix, (column, row), 1, 1, facecolor=shade, linewidth=0.3, zorder=3)
        matrix.set_title(title or f"Adjacency matrix, {total} × {total}: a square is an edge")
        strip.set_title("batch", loc="center", fontsize=style.SMALL)
    blocks_told = f"{style.counted(contents.num_graphs, 'block')} on the diagonal, nothing elsewhere"
    words = (
        f"{title or 'Adjacency matrix of a mini-batch'}: {blocks_told}; {contents.in_words()}. "
        "Beside it the batch vector: each node's graph."
    )
    return Picture(figure, alt or words)


# -- a sample of a large graph


def subgraph(batch: Any, *, title: str | None = None, alt: str | None = None) -> Picture:
    """Draw a sampled neighbourhood: the seeds in the middle, what was sampled for them in rings by hop.

    Args:
        batch: Of `NeighborLoader` or `FixedSizeNeighborLoader`: `edge_index` `[2, num_edges]`, from a
            sampled node to the node that it was sampled for; `batch_size`, how many seeds come first;
            `nodes_mask`, `edges_mask` if it is padded. Padding is counted, not drawn.
        title: Words above the drawing.
        alt: Alternative text, instead of the counts in words.

    Example:
        >>> import torch
        >>> from torch_geometric.data import Data
        >>> subgraph(Data(edge_index=torch.tensor([[1], [0]]), num_nodes=2, batch_size=1))
        Sampled neighbourhood: 2 nodes, 1 edge. In rings: 1 seed and 1 at 1 hop.
    """
    _refuse_types(batch, "sample")
    if getattr(batch, "batch_size", None) is None:
        raise ValueError(
            "a neighbour batch is needed, which has `batch_size` (got one without); use NeighborLoader"
        )
    edges = style.as_array(batch.edge_index)
    real_nodes = _mask(batch, "nodes", int(batch.num_nodes))
    real_edges = _mask(batch, "edges", edges.shape[1])
    num_nodes, padding_nodes = int(real_nodes.sum()), int((~real_nodes).sum())
    # Real nodes come first, so that numbers of real edges stay valid.
    edges, padding_edges = edges[:, real_edges], int((~real_edges).sum())
    hops = _hops_from(np.arange(min(int(batch.batch_size), num_nodes)), num_nodes, edges)
    size = f"{style.counted(num_nodes, 'node')}, {style.counted(edges.shape[1], 'edge')}"
    if padding_nodes or padding_edges:
        padding = f"{style.counted(padding_nodes, 'node')}, {style.counted(padding_edges, 'edge')}"
        size += f" (padding, not drawn: {padding})"
    rings = []
    with style.styled():
        figure = style.new_figure(5.4)
        axes = figure.subplots()
        axes.set_axis_off()
        axes.set_aspect("equal")
        places = _in_rings(hops, edges)
        style.links(axes, places, edges, alpha=1.0 if edges.shape[1] < 150 else 0.4, linewidth=0.8)
        area = 60 if num_nodes < 60 else 26 if num_nodes < 250 else 10
        for hop in range(hops.max() + 1):
            mine = places[hops == hop]
            name = style.counted(hop, "hop")
            rings.append(f"{len(mine):,} at {name}" if hop else style.counted(len(mine), "seed"))
            label = f"{name if hop else 'seed' if len(mine) == 1 else 'seeds'} ({len(mine):,})"
            look: dict[str, Any] = {"marker": style.marker(hop), "zorder": 5 - min(hop, 3), "label": label}
            style.dots(axes, mine, area * (1.0 if hop else 2.0), style.colour(hop), **look)
        lost = places[hops < 0]
        if len(lost):
            look = {"marker": "X", "label": f"not connected to a seed ({len(lost):,})"}
            style.dots(axes, lost, area, style.PADDING_EDGE, zorder=2, **look)
        axes.set_title(title or size)
        # Rings cross everywhere: there is no room for a name beside each.
        figure.legend(loc="outside lower center", ncol=min(4, hops.max() + 2))
    words = f"{size}. In rings: {style.listed(rings)}"
    words += f"; {len(lost):,} not connected to a seed." if len(lost) else "."
    return Picture(figure, alt or f"{title + '. ' if title else 'Sampled neighbourhood: '}{words}")


# -- the types of a heterogeneous graph

_BOX = (0.25, 0.36)
_LABEL_GAP = 0.13


def schema(data: Any, *, title: str | None = None, alt: str | None = None) -> Picture:
    """Draw the node types and edge types of a heterogeneous graph, with their counts.

    Args:
        data: A `HeteroData`: `node_types`, `edge_types`, per type `num_nodes`, `x`, `edge_index`.
        title: Words above the drawing.
        alt: Alternative text, instead of the counts in words.

    Example:
        >>> from torch_geometric.data import HeteroData
        >>> schema(HeteroData({"movie": {"num_nodes": 3}}))
        Types of a heterogeneous graph: 3 movie nodes. Edges: none.
    """
    nodes = {kind: int(data[kind].num_nodes) for kind in data.node_types}
    edges = {kind: int(style.as_array(data[kind].edge_index).shape[1]) for kind in data.edge_types}
    places = _schema_places(list(nodes), list(edges))
    with style.styled():
        tall = len(nodes) > 3
        figure = style.new_figure(5.0 if tall else 2.1)
        axes = figure.subplots()
        axes.set_axis_off()
        axes.set(xlim=(-0.17, 1.17), ylim=(-0.3, 1.3) if tall else (0.15, 0.85))
        boxes = {}
        for number, (kind, count) in enumerate(nodes.items()):
            x = getattr(data[kind], "x", None)
            features = f"{x.shape[1]:,} features" if x is not None and x.ndim == 2 else "no features"
            boxes[kind] = _draw_type(
                axes, places[kind], kind, f"{count:,} nodes\n{features}", style.colour(number)
            )
        for number, (kind, count) in enumerate(edges.items()):
            again = sum((other[0], other[2]) == (kind[0], kind[2]) for other in list(edges)[:number])
            _draw_relation(axes, kind, count, places, boxes, again)
        axes.set_title(title or "")
    words = style.listed([style.counted(count, f"{kind} node") for kind, count in nodes.items()])
    relations = style.listed(
        [f"{source} to {target} ({name}, {count:,})" for (source, name, target), count in edges.items()]
    )
    lead = title or "Types of a heterogeneous graph"
    return Picture(figure, alt or f"{lead}: {words}. Edges: {relations}.")


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


def _draw_type(axes: Any, place: np.ndarray, kind: str, words: str, shade: str) -> FancyBboxPatch:
    x, y = place
    width, height = _BOX
    look: dict[str, Any] = {"facecolor": style.GROUND, "edgecolor": shade, "linewidth": 2.4, "zorder": 5}
    shape = "round,pad=0.01,rounding_size=0.03"
    box = FancyBboxPatch((x - width / 2, y - height / 2), width, height, boxstyle=shape, **look)
    axes.add_patch(box)
    style.write(axes, x, y + height * 0.28, kind, fontweight="bold", fontsize=style.NORMAL, zorder=6)
    style.write(axes, x, y - height * 0.16, words, zorder=6)
    return box


def _draw_relation(
    axes: Any,
    relation: tuple[str, str, str],
    count: int,
    places: dict[str, np.ndarray],
    boxes: dict[str, FancyBboxPatch],
    again: int,
) -> None:
    """An arrow on its own side of the line between two types, so that both directions can be told apart."""
    source, name, target = relation
    start, end = places[source], places[target]
    words = f"{name}\n{count:,} edges"
    look: dict[str, Any] = {"arrowstyle": "-|>", "mutation_scale": 14, "linewidth": 1.5}
    if source == target:
        x, y = float(start[0]), float(start[1]) - _BOX[1] / 2
        ends = ((x - 0.05, y), (x + 0.05, y))
        axes.add_patch(FancyArrowPatch(*ends, connectionstyle="arc3,rad=1.4", color=style.LINK, **look))
        style.write(axes, x, y - 0.16, words, va="top")
        return
    along = (end - start) / np.linalg.norm(end - start)
    across = np.array([along[1], -along[0]]) * (0.055 + 0.12 * again)
    rightwards = (start[0], start[1]) < (end[0], end[1])
    look.update(shrinkA=0, shrinkB=0, patchA=boxes[source], patchB=boxes[target])
    look["color"], look["linestyle"] = (style.COLOURS[0], "-") if rightwards else (style.COLOURS[5], "--")
    tips = [(float(x), float(y)) for x, y in (start + across, end + across)]
    axes.add_patch(FancyArrowPatch(tips[0], tips[1], **look))
    x, y = (start + end) / 2 + across * (1 + _LABEL_GAP / np.linalg.norm(across))
    style.write(axes, x, y, words, linespacing=1.15)


# -- where to put nodes on paper


def _by_distance(num_nodes: int, edge_index: np.ndarray, iterations: int = 60) -> np.ndarray:
    """Positions in the unit square whose distances match the hops between nodes, `[num_nodes, 2]`.

    By stress majorisation, from classical scaling: the same for the same graph. Directions and self-loops do
    not matter.
    """
    if num_nodes == 1:
        return np.full((1, 2), 0.5)
    hops = _hop_distances(num_nodes, edge_index)
    positions = _classical_scaling(hops)
    weights = (hops + np.eye(num_nodes)) ** -2.0
    np.fill_diagonal(weights, 0.0)
    inverse = np.linalg.pinv(np.diag(weights.sum(1)) - weights)
    for _ in range(iterations):
        gaps = np.linalg.norm(positions[:, None] - positions[None], axis=-1)
        pull = -weights * hops / np.maximum(gaps, 1e-6)
        np.fill_diagonal(pull, 0.0)
        np.fill_diagonal(pull, -pull.sum(1))
        positions = inverse @ (pull @ positions)
    return _into_unit_square(positions)


def _hop_distances(num_nodes: int, edge_index: np.ndarray) -> np.ndarray:
    """Hops between every two nodes, `[num_nodes, num_nodes]`; without a way, the most plus two."""
    hops = np.full((num_nodes, num_nodes), np.inf)
    np.fill_diagonal(hops, 0.0)
    adjacent = np.zeros((num_nodes, num_nodes), dtype=np.float32)
    adjacent[edge_index[0], edge_index[1]] = adjacent[edge_index[1], edge_index[0]] = 1.0
    reached = np.eye(num_nodes, dtype=bool)
    for hop in range(1, num_nodes):
        fresh = (reached.astype(np.float32) @ adjacent > 0) & ~reached
        if not fresh.any():
            break
        hops[fresh] = hop
        reached |= fresh
    hops[np.isinf(hops)] = hops[np.isfinite(hops)].max() + 2.0
    return hops


def _classical_scaling(hops: np.ndarray) -> np.ndarray:
    centre = np.eye(len(hops)) - 1.0 / len(hops)
    values, vectors = np.linalg.eigh(-0.5 * centre @ hops**2 @ centre)
    top = vectors[:, -2:] * np.sqrt(np.maximum(values[-2:], 1e-9))
    # The sign of an eigenvector is arbitrary: fix it, so that a graph is drawn the same way everywhere.
    flips = np.sign(top[np.abs(top).argmax(0), [0, 1]])
    # A hair of asymmetry keeps nodes of a symmetric graph from starting on one spot.
    numbers = np.arange(len(hops))
    return top * np.where(flips == 0, 1, flips) + 1e-3 * np.stack([np.cos(numbers), np.sin(numbers)], axis=1)


def _hops_from(seeds: np.ndarray, num_nodes: int, edge_index: np.ndarray) -> np.ndarray:
    """Hops of every node along the edges to its nearest seed, `[num_nodes]`; -1 where there is no way."""
    hops = np.full(num_nodes, -1)
    hops[seeds] = hop = 0
    source, target = edge_index
    while len(front := source[(hops[target] == hop) & (hops[source] < 0)]):
        hop += 1
        hops[front] = hop
    return hops


def _in_rings(hops: np.ndarray, edge_index: np.ndarray) -> np.ndarray:
    """Positions in the unit square, on rings by hop, each node near the one that it was sampled for.

    Seeds have hop 0; nodes of negative hops, which no seed is connected to, get the outermost ring.
    """
    rings = np.where(hops < 0, hops.max() + 1, hops)
    angles = np.zeros(len(hops))
    for ring in range(rings.max() + 1):
        members = np.flatnonzero(rings == ring)
        wanted = np.full(len(members), 2 * np.pi)
        for place, node in enumerate(members):
            targets = edge_index[1][edge_index[0] == node]
            parents = targets[rings[targets] == ring - 1]
            if len(parents):
                wanted[place] = angles[parents[0]]
        members = members[np.argsort(wanted, kind="stable")]
        angles[members] = 2 * np.pi * (np.arange(len(members)) + 0.5) / max(len(members), 1)
    radius = rings + (0.0 if (rings == 0).sum() == 1 else 0.55)
    return _into_unit_square(np.stack([radius * np.cos(angles), radius * np.sin(angles)], axis=1))


def _into_unit_square(positions: np.ndarray) -> np.ndarray:
    """The same picture, centred in the unit square, its longer side horizontal and filling it."""
    extent = np.ptp(positions, axis=0)
    if extent[1] > extent[0]:
        positions = positions[:, ::-1]
    middle = (positions.max(0) + positions.min(0)) / 2
    return (positions - middle) / max(extent.max(), 1e-9) + 0.5
