"""Packing to play with: sliders for the budgets, the three strategies, packs drawn as they fill.

Plain HTML with a script that needs neither a kernel nor a network. It holds a drawn picture of the first
setting, which the script replaces: readers whose viewer runs no script keep the picture.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Sequence

from .molecules import scripted
from .pictures import COLOURS, PADDING_FILL, Page, Picture, new_figure, percent, rectangle, styled

STRATEGIES = ("PadToMax", "StreamPack", "Pack")
_MOST_DRAWN = 60


class Filling(NamedTuple):
    """Packs, as positions of their graphs, under the budgets that they were filled with."""

    packs: list[list[int]]
    num_nodes: int
    num_edges: int
    left_out: int


def packing_explorer(
    datasets: dict[str, Sequence[Any]], num_nodes: int, num_edges: int, num_graphs: int
) -> Page:
    """Sliders for node, edge and graph budgets, and what each strategy makes of them.

    `Pack` is shown as one rule: the largest graph first, into the fullest pack that has room. The loader
    itself plans with more care, and seldom needs more packs.

    Args:
        datasets: Graphs by the name to show, such as `{"MUTAG": mutag, "PROTEINS": proteins}`.
        num_nodes: Where the slider of the node budget begins; padding needs one of them.
        num_edges: The same for edges.
        num_graphs: The same for graphs, including one padding graph.
    """
    sizes = {
        name: [(int(g.num_nodes), int(g.num_edges)) for g in graphs] for name, graphs in datasets.items()
    }
    if not sizes or not all(sizes.values()):
        raise ValueError("packing_explorer needs at least one dataset, and a graph in each (got none)")
    name = next(iter(sizes))
    filling = fill(sizes[name], "StreamPack", num_nodes, num_edges, num_graphs)
    payload = {
        "sizes": sizes,
        "start": {"nodes": num_nodes, "edges": num_edges, "graphs": num_graphs},
        "strategies": STRATEGIES,
        "colours": COLOURS[:3],
        "drawn": _MOST_DRAWN,
    }
    return scripted("packing", payload, _drawn(name, sizes[name], filling))


def fill(
    sizes: Sequence[tuple[int, int]], strategy: str, num_nodes: int, num_edges: int, num_graphs: int
) -> Filling:
    """Put graphs into packs. The script beside this file does the same in the browser.

    Args:
        sizes: Nodes and edges of each graph.
        strategy: One of `STRATEGIES`. `PadToMax` takes the budgets for nodes and edges from the largest
            graph.
        num_nodes, num_edges, num_graphs: The budgets; one node and one graph are kept for padding, and by
            `StreamPack` a node and an edge for every padding graph.
    """
    if strategy == "PadToMax":
        num_nodes = max(nodes for nodes, _ in sizes) * (num_graphs - 1) + 1
        num_edges = max(edges for _, edges in sizes) * (num_graphs - 1) + 1
    room = [num_nodes - 1, num_edges - (strategy == "StreamPack"), num_graphs - 1]
    order = [at for at, size in enumerate(sizes) if size[0] <= room[0] and size[1] <= room[1]]
    if strategy == "StreamPack":
        room += [num_nodes - num_graphs, num_edges - num_graphs]
    if strategy == "Pack":
        order.sort(key=lambda at: -sizes[at][0])
    packs: list[list[int]] = []
    free: list[list[int]] = []
    for at in order:
        nodes, edges = sizes[at]
        need = (nodes, edges, 1, nodes - 1, edges - 1)
        candidates = range(len(packs)) if strategy == "Pack" else range(len(packs))[-1:]
        fitting = [n for n in candidates if all(f >= k for f, k in zip(free[n], need))]
        chosen = min(fitting, key=lambda n: free[n][0]) if fitting else len(packs)
        if not fitting:
            packs.append([])
            free.append(list(room))
        packs[chosen].append(at)
        free[chosen] = [f - k for f, k in zip(free[chosen], need)]
    return Filling(packs, num_nodes, num_edges, len(sizes) - len(order))


def _drawn(name: str, sizes: Sequence[tuple[int, int]], filling: Filling) -> Picture:
    shown = filling.packs[:_MOST_DRAWN]
    with styled():
        figure = new_figure(2.4)
        axes = figure.subplots()
        for place, pack in enumerate(shown):
            rectangle(axes, (place, 0), 0.86, filling.num_nodes, facecolor=PADDING_FILL, linewidth=0)
            bottom = 0
            for number, graph in enumerate(pack):
                rectangle(
                    axes, (place, bottom), 0.86, sizes[graph][0], facecolor=COLOURS[number % 3], linewidth=0.5
                )
                bottom += sizes[graph][0]
        axes.set(xlim=(0, max(len(shown), 1)), ylim=(0, filling.num_nodes), xticks=[], ylabel="nodes")
        axes.set_xlabel("packs; grey is padding")
        axes.spines[["left", "bottom"]].set_visible(False)
        axes.set_title(f"{name}, StreamPack: {len(filling.packs)} packs")
    real = sum(sizes[graph][0] for pack in filling.packs for graph in pack)
    share = 1 - real / (filling.num_nodes * max(len(filling.packs), 1))
    words = (
        f"{name} packed in order under {filling.num_nodes} nodes: {len(filling.packs)} packs, "
        f"{percent(share)} of their nodes are padding."
    )
    return Picture(figure, words)
