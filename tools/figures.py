"""Draw the figures of static/, for Markdown cells and the README; the same bytes on every run.

python tools/figures.py [FOLDER]    into static/, or into FOLDER
"""

import sys
from pathlib import Path

import numpy as np
from matplotlib.patches import Circle, FancyArrowPatch, FancyBboxPatch

from gnn_ipu_helpers.viewers.pictures import (
    COLOURS,
    GRID,
    GROUND,
    LARGE,
    LINK,
    NORMAL,
    PADDING_EDGE,
    PADDING_FILL,
    PALE,
    SMALL,
    WIDTH,
    Picture,
    colour,
    dots,
    ink_on,
    new_figure,
    rectangle,
    styled,
    write,
)

STATIC = Path(__file__).resolve().parents[1] / "static"
BLUE, ORANGE, GREEN, PINK, _, RED, _ = COLOURS
ARROW = {"arrowstyle": "-|>", "mutation_scale": 12, "color": LINK, "linewidth": 1.4, "zorder": 2}


def canvas(height, width=WIDTH):
    """A figure and axes measured in inches, the origin at the bottom left."""
    figure = new_figure(height, width)
    figure.set_layout_engine("none")
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_axis_off()
    axes.set_xlim(0, width)
    axes.set_ylim(0, height)
    return figure, axes


def words(axes, x, y, text, **look):
    write(axes, x, y, text, **{"fontsize": NORMAL, "linespacing": 1.25, **look})


def box(axes, x, y, width, height, text, *, edge=LINK, fill=GROUND, **look):
    """A rounded box around (x, y) with text in it."""
    corner = (x - width / 2, y - height / 2)
    shape = {"boxstyle": "round,pad=0,rounding_size=0.08", "facecolor": fill, "edgecolor": edge}
    axes.add_patch(FancyBboxPatch(corner, width, height, linewidth=1.6, zorder=3, **shape))
    words(axes, x, y, text, zorder=4, **look)


def arrow(axes, start, end, **look):
    axes.add_patch(FancyArrowPatch(start, end, shrinkA=0, shrinkB=0, **{**ARROW, **look}))


def block(axes, x, y, width, text, shade, height=0.3):
    """A piece of a bar along the line `y`, grey where there is no shade. Returns its right end."""
    shade = shade or PADDING_FILL
    rectangle(axes, (x, y - height / 2), width, height, facecolor=shade, linewidth=1.2)
    words(axes, x + width / 2, y, text, color=ink_on(shade), fontsize=SMALL)
    return x + width


def graph_bar(axes, x, y, sizes, unit, *, numbers, total=None):
    """A bar with a block per graph as long as its nodes, padded up to `total`. Returns its right end."""
    for number, size in zip(numbers, sizes):
        x = block(axes, x, y, size * unit, str(size), colour(number))
    left = 0 if total is None else total - sum(sizes)
    return block(axes, x, y, left * unit, str(left), None) if left else x


HERO_BATCHES = ((5, 3, 6), (4, 4, 3), (6, 5, 5))
HERO_BUDGET = max(size for sizes in HERO_BATCHES for size in sizes) * 3 + 1


def hero():
    """Three batches of three graphs: three shapes and three compilations, or one of each."""
    figure, axes = canvas(3.75)
    words(axes, 0.1, 3.55, "PyG's loader: a shape and a compilation each", **HEADING)
    words(axes, 0.1, 1.68, "Fixed-size loader: one shape, compiled once", **HEADING)
    for row, sizes in enumerate(HERO_BATCHES):
        y = 3.15 - 0.43 * row
        hero_batch(axes, row, y, sizes, None)
        arrow(axes, (4.06, y), (4.42, y))
        box(axes, 4.95, y, 1.05, 0.32, "compile")
        y = 1.28 - 0.43 * row
        hero_batch(axes, row, y, sizes, HERO_BUDGET)
        arrow(axes, (4.06, y), (4.42, 0.85 + 0.1 * (1 - row)))
    box(axes, 4.95, 0.85, 1.05, 0.9, "compile\nonce", edge=BLUE, fontweight="bold")
    shapes = ", ".join(str(sum(sizes)) for sizes in HERO_BATCHES)
    return Picture(
        figure,
        f"Three batches of three small graphs. PyG's loader gives three shapes, of {shapes} nodes, each "
        f"compiled anew. The fixed-size loader pads all to {HERO_BUDGET} nodes, in grey: one "
        "compilation.",
    )


HEADING = {"ha": "left", "fontsize": LARGE, "fontweight": "bold"}


def hero_batch(axes, row, y, sizes, total):
    words(axes, 0.1, y, f"batch {row}", ha="left")
    end = graph_bar(axes, 0.75, y, sizes, 0.135, numbers=range(3 * row, 3 * row + 3), total=total)
    words(axes, end + 0.08, y, f"{total or sum(sizes)} nodes", ha="left", fontsize=SMALL)


STACKED = (
    np.array([[0, 1, 1], [1, 0, 1], [1, 1, 0]]),
    np.array([[0, 1, 0, 0], [1, 0, 1, 1], [0, 1, 0, 0], [0, 1, 0, 0]]),
)
SIDE = 0.23


def matrix(axes, x, y, values, shade, text=None):
    """Squares with the top left at (x, y): filled where `values` is not 0, each with `text` in it."""
    rows, columns = values.shape
    for row, column in np.ndindex(rows, columns):
        corner = (x + column * SIDE, y - (row + 1) * SIDE)
        fill = shade if values[row, column] else PALE
        rectangle(axes, corner, SIDE, SIDE, facecolor=fill)
        if text:
            words(axes, corner[0] + SIDE / 2, corner[1] + SIDE / 2, text, fontsize=SMALL, color=ink_on(shade))


def stacking():
    """Two graphs become one with a block-diagonal adjacency matrix."""
    figure, axes = canvas(2.7)
    sizes, features, top = [len(one) for one in STACKED], 3, 2.3
    total = sum(sizes)
    lefts = {"one graph of both": (2.1, total), "x": (3.96, features), "batch": (5.0, 1)}
    words(axes, 0.8, 2.52, "two graphs", fontweight="bold")
    for (name, (x, columns)), size in zip(
        lefts.items(), (f"{total} × {total}", f"{total} × {features}", total)
    ):
        words(axes, x + columns * SIDE / 2, 2.52, name, fontweight="bold")
        words(axes, x + columns * SIDE / 2, top - total * SIDE - 0.18, size)
    matrix(axes, 2.1, top, np.zeros((total, total)), PALE)
    arrow(axes, (1.6, 1.3), (1.95, 1.3), linewidth=2)
    start = 0
    for number, one in enumerate(STACKED):
        y = top - start * SIDE
        words(axes, 0.12, y - 0.2 * number - len(one) * SIDE / 2, f"A$_{number}$", ha="left", fontsize=LARGE)
        matrix(axes, 0.45, y - 0.2 * number, one, colour(number))
        matrix(axes, 2.1 + start * SIDE, y, one, colour(number))
        matrix(axes, lefts["x"][0], y, np.ones((len(one), features)), colour(number))
        matrix(axes, lefts["batch"][0], y, np.ones((len(one), 1)), colour(number), str(number))
        start += len(one)
    owners = ", ".join(str(number) for number, size in enumerate(sizes) for _ in range(size))
    return Picture(
        figure,
        f"Diagonal stacking: the adjacency matrices of a graph of {sizes[0]} and one of {sizes[1]} nodes "
        f"become the blocks of one {total} by {total} matrix, empty elsewhere. Their features x are "
        f"stacked, {total} by {features}, and the batch vector says which graph each row belongs to: "
        f"{owners}.",
    )


PADDED_GRAPHS = (
    (((0.0, 0.0), (0.5, 0.75), (1.0, 0.0)), ((0, 1), (1, 2), (0, 2))),
    (((0.5, 0.4), (0.0, 0.8), (1.0, 0.8), (0.5, -0.1)), ((0, 1), (0, 2), (0, 3))),
)
PADDED_NODES, PADDED_EDGES = 10, 16


def padding_graph():
    """Two real graphs and the padding graph that fills the batch up."""
    figure, axes = canvas(2.85)
    words(
        axes, WIDTH / 2, 2.68, f"a batch of {PADDED_NODES} nodes and {PADDED_EDGES} edges", fontweight="bold"
    )
    sizes = [(len(places), 2 * len(links)) for places, links in PADDED_GRAPHS]
    real, real_edges = (sum(column) for column in zip(*sizes))
    for number, (places, links) in enumerate(PADDED_GRAPHS):
        spots = [(0.45 + 1.75 * number + x, 1.45 + y) for x, y in places]
        for start, end in links:
            axes.plot(*zip(spots[start], spots[end]), color=LINK, linewidth=1.6, zorder=1)
        for spot in spots:
            axes.add_patch(Circle(spot, 0.1, facecolor=colour(number), edgecolor=GROUND, zorder=2))
        text = f"graph {number}\n{sizes[number][0]} nodes\n{sizes[number][1]} edges"
        words(axes, 0.95 + 1.75 * number, 0.87, text)
    padding(axes, 4.0, PADDED_NODES - real, PADDED_EDGES - real_edges)
    words(axes, 1.25, 0.28, "nodes_mask", ha="right", fontsize=SMALL)
    x = 1.35
    for node in range(PADDED_NODES):
        x = block(axes, x, 0.28, 0.3, "", colour(node >= sizes[0][0]) if node < real else None, height=0.28)
    words(axes, x + 0.1, 0.28, f"{real} real", ha="left", fontsize=SMALL)
    return Picture(
        figure,
        f"A batch of {PADDED_NODES} nodes and {PADDED_EDGES} edges: graph 0 with {sizes[0][0]} nodes and "
        f"{sizes[0][1]} edges, graph 1 with {sizes[1][0]} nodes and {sizes[1][1]} edges (each line counts "
        f"in both directions), and the padding graph with {PADDED_NODES - real} nodes and "
        f"{PADDED_EDGES - real_edges} edges, self-loops on its first node. nodes_mask is true for the {real} "
        "real nodes.",
    )


def padding(axes, x, num_nodes, num_edges):
    """The padding graph in its grey box."""
    rectangle(axes, (x, 1.3), 1.35, 1.15, facecolor=PADDING_FILL)
    for number in range(num_edges):
        radius = 0.1 + 0.04 * number
        axes.add_patch(Circle((x + 0.3, 1.53 + radius), radius, fill=False, edgecolor=PADDING_EDGE, zorder=2))
    for node in range(num_nodes):
        spot = (x + 0.3 + 0.38 * node, 1.53)
        axes.add_patch(Circle(spot, 0.1, facecolor=PADDING_EDGE, edgecolor=GROUND, zorder=3))
    words(
        axes,
        x + 0.675,
        0.87,
        f"padding graph\n{num_nodes} nodes\n{num_edges} edges: self-loops\non its first node",
    )


PACKED_SIZES = (5, 2, 6, 3, 4, 2, 6, 3)
PACKED_PLAN = ((0, 2), (4, 6), (1, 3, 5, 7))
PACKED_BUDGET = 12


def packing():
    """The same eight graphs padded to the largest and packed under a budget."""
    figure, axes = canvas(3.72)
    budget = 2 * max(PACKED_SIZES) + 1
    pairs = [(first, first + 1) for first in range(0, len(PACKED_SIZES), 2)]
    words(axes, 0.1, 3.55, "Padding: two graphs a batch, room for the largest twice", **HEADING)
    padded = packed_bars(axes, 3.23, "batch", pairs, budget)
    words(axes, 0.1, 1.52, f"Packing: as many graphs as fit into {PACKED_BUDGET} nodes", **HEADING)
    packed = packed_bars(axes, 1.2, "pack", PACKED_PLAN, PACKED_BUDGET)
    return Picture(
        figure,
        f"Eight graphs of {', '.join(map(str, PACKED_SIZES))} nodes. Padded, two to a batch of {budget} "
        f"nodes, they fill {len(pairs)} batches: {padded}. Packed into {PACKED_BUDGET} nodes, they fill "
        f"{len(PACKED_PLAN)} packs: {packed}.",
    )


def packed_bars(axes, y, name, plan, budget):
    """A bar per batch of the plan, and below them how much is real, which is also returned."""
    for row, graphs in enumerate(plan):
        words(axes, 0.1, y, f"{name} {row}", ha="left")
        sizes = [PACKED_SIZES[graph] for graph in graphs]
        graph_bar(axes, 0.85, y, sizes, 0.255, numbers=graphs, total=budget)
        y -= 0.36
    real, total = sum(PACKED_SIZES), budget * len(plan)
    share = f"{real} of {total} nodes are real, {100 * real / total:.0f} %"
    words(axes, 0.85, y + 0.04, share, ha="left", style="italic")
    return share


SAMPLE_BUDGET = 12
SAMPLE_CHILDREN = ((3, 2, 4), (1, 2, 2))
SAMPLE_LEGEND = (
    ("seed", "o", BLUE),
    ("1 hop", "s", ORANGE),
    ("2 hops", "^", GREEN),
    ("trimmed", "X", RED),
)


def sampling():
    """Two neighbour samples brought to one size: one trimmed and padded, the other padded."""
    figure, axes = canvas(3.75)
    words(axes, WIDTH / 2, 3.58, f"two samples, both made {SAMPLE_BUDGET} nodes", fontweight="bold")
    told = [sample(axes, 0.15 + number * WIDTH / 2, kids) for number, kids in enumerate(SAMPLE_CHILDREN)]
    for place, (name, shape, shade) in enumerate(SAMPLE_LEGEND):
        x = 0.55 + 1.25 * place
        dots(axes, np.array([[x, 0.22]]), 70, shade, marker=shape)
        words(axes, x + 0.16, 0.22, name, ha="left")
    return Picture(
        figure,
        f"Neighbour sampling: a seed, its neighbours and theirs. Both samples become {SAMPLE_BUDGET} nodes. "
        f"First sample: {told[0]}. Second sample: {told[1]}. The seed is never trimmed.",
    )


def sample(axes, left, children):
    """One sample drawn, and below it the bar of its fixed-size batch; returns the counts in words."""
    sampled = 1 + len(children) + sum(children)
    trimmed = max(0, sampled - (SAMPLE_BUDGET - 1))
    left_over = SAMPLE_BUDGET - (sampled - trimmed)
    fan(axes, (left + 1.25, 2.3), children, sum(children) - trimmed)
    x, unit = left, 0.195
    for count, shade in (
        (1, BLUE),
        (len(children), ORANGE),
        (sum(children) - trimmed, GREEN),
        (left_over, None),
    ):
        x = block(axes, x, 0.95, count * unit, str(count), shade)
    told = f"{sampled} sampled, {trimmed or 'none'} trimmed, {left_over} padding"
    words(axes, left + SAMPLE_BUDGET * unit / 2, 0.62, told)
    return told


def fan(axes, centre, children, num_kept):
    """A seed with its neighbours and theirs, of which only `num_kept` are kept and the last crossed out."""
    drawn = 0
    for first, count in enumerate(children):
        angle = 2 * np.pi * first / len(children) + np.pi / 2
        middle = around(centre, 0.45, angle)
        axes.plot(*zip(centre, middle), color=LINK, linewidth=1.2, zorder=1)
        dots(axes, np.array([middle]), 75, ORANGE, marker="s", zorder=3)
        for place in range(count):
            leaf = around(centre, 0.95, angle + 0.42 * (place - (count - 1) / 2))
            kept = drawn < num_kept
            line = {"color": LINK, "linestyle": "-"} if kept else {"color": RED, "linestyle": ":"}
            axes.plot(*zip(middle, leaf), linewidth=1.0, zorder=1, **line)
            shape, shade = ("^", GREEN) if kept else ("X", RED)
            dots(axes, np.array([leaf]), 70, shade, marker=shape, zorder=3)
            drawn += 1
    dots(axes, np.array([centre]), 160, BLUE, zorder=4)


def around(centre, radius, angle):
    return (centre[0] + radius * np.cos(angle), centre[1] + radius * np.sin(angle))


QUESTIONS = {
    1.45: ("one graph", "Does it fit in\nthe device's memory?"),
    4.15: ("many small graphs", "Are they of\nsimilar size?"),
}
ANSWERS = {
    0.72: (1.45, "yes", "Full batch\nnotebook 2", "nothing to\npad"),
    2.12: (1.45, "no", "Sampling\nnotebook 5", "few labels: neighbours\nelse: clusters"),
    3.48: (4.15, "yes", "Padding\nnotebook 3", "the simplest\nloader"),
    4.88: (4.15, "no", "Packing\nnotebook 4", "less padding,\nfewer steps"),
}


def decision():
    """Which technique when."""
    figure, axes = canvas(5.9)
    box(
        axes,
        2.8,
        5.6,
        4.6,
        0.42,
        "Start with check(model, batch)  ·  notebook 1",
        edge=BLUE,
        fontweight="bold",
    )
    arrow(axes, (2.8, 5.39), (2.8, 5.17))
    box(axes, 2.8, 4.94, 2.6, 0.42, "What is your data?", fill=PALE)
    for x, (kind, question) in QUESTIONS.items():
        arrow(axes, (2.8, 4.73), (x, 4.42))
        box(axes, x, 4.2, 1.9, 0.4, kind, fill=PALE)
        arrow(axes, (x, 4.0), (x, 3.75))
        box(axes, x, 3.45, 2.2, 0.56, question, fill=PALE)
    for x, (parent, answer, technique, why) in ANSWERS.items():
        side = np.sign(x - parent)
        arrow(axes, (parent + 0.45 * side, 3.17), (x, 2.72))
        words(axes, (x + parent) / 2 + 0.38 * side, 2.98, answer, fontsize=SMALL, style="italic")
        box(axes, x, 2.43, 1.2, 0.56, technique, edge=GREEN)
        words(axes, x, 1.94, why, fontsize=SMALL)
    axes.plot([0.15, WIDTH - 0.15], [1.6, 1.6], color=GRID, linewidth=1)
    types = "Several node or edge types?\nthe same, per type: notebook 6"
    box(axes, 1.45, 1.15, 2.5, 0.6, types, edge=PINK, fontsize=SMALL)
    box(axes, 4.15, 1.15, 2.5, 0.6, "No graph at all?\nappendix", edge=PINK, fontsize=SMALL)
    box(axes, 2.8, 0.38, 4.9, 0.5, "Then: loss inside forward, one wrapped model, one compilation", edge=BLUE)
    return Picture(
        figure,
        "Which technique when. Start with check, notebook 1. One graph that fits in the device's memory: "
        "full batch, notebook 2. One graph that does not: sampling, notebook 5, by neighbours where few "
        "nodes are labelled, else by clusters. Many small graphs of similar size: padding, notebook 3; of "
        "differing sizes: packing, notebook 4. Several node or edge types: the same per type, notebook 6. "
        "No graph at all: the appendix. Then: loss inside forward, one wrapped model, one compilation.",
    )


CELL = "from gnn_ipu_helpers import poptorch\nmodel = poptorch.trainingModel(model)"
SDK_STEPS = ("the SDK's poptorch,\nuntouched", "the IPU compiler\nchecks the graph", "runs on the IPU")
CPU_STEPS = (
    "poptorch_cpu,\nthe same calls",
    "our checker\nnames line and remedy",
    "runs on the CPU\n(torch.compile)",
)


def two_backends():
    """One cell, two machines."""
    figure, axes = canvas(3.9)
    box(axes, 2.8, 3.52, 4.3, 0.58, CELL, family="monospace", fontsize=SMALL, fill=PALE)
    lanes = ((1.45, "Poplar SDK installed", SDK_STEPS, BLUE), (4.15, "any other machine", CPU_STEPS, GREEN))
    for x, where, steps, shade in lanes:
        arrow(axes, (2.8, 3.23), (x, 2.94))
        words(axes, x, 2.8, where, fontweight="bold")
        for number, step in enumerate(steps):
            y = 2.36 - 0.78 * number
            box(axes, x, y, 2.3, 0.52, step, edge=shade)
            if number < 2:
                arrow(axes, (x, y - 0.26), (x, y - 0.52))
    arrow(axes, (3.0, 0.8), (2.6, 0.8))
    words(axes, 2.8, 0.28, "check and train on the right, carry the code over, compile on the left")
    return Picture(
        figure,
        "One notebook cell on two machines. With the Poplar SDK, poptorch is the SDK's own, the IPU "
        "compiler checks the graph, and it runs on the IPU. On any other machine, poptorch_cpu has the "
        "same calls, our checker names line and remedy, and the graph runs on the CPU through "
        "torch.compile. Check and train there, carry the code over, compile on the IPU.",
    )


FIGURES = {
    "hero": hero,
    "stacking": stacking,
    "padding_graph": padding_graph,
    "packing": packing,
    "sampling": sampling,
    "decision": decision,
    "two_backends": two_backends,
}
HEAD = (
    "# Figures\n\nDrawn by `make figures`. The lines to copy into a Markdown cell, with alternative texts:\n"
)


def main(folder=STATIC):
    """Draw all figures into `folder`, with their alternative texts beside them."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    lines = [HEAD]
    for name, draw in FIGURES.items():
        with styled():
            picture = draw()
        picture.save(folder / f"{name}.svg")
        lines.append(f"![{picture.alt}]({name}.svg)\n")
    (folder / "README.md").write_text("\n".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
