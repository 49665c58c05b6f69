"""Charts: loss curves, padding waste, packs, predictions against truth, confusion and embeddings."""

from __future__ import annotations

import textwrap
from typing import Any, Mapping, Sequence

import numpy as np
from matplotlib.colors import to_rgb
from matplotlib.ticker import MaxNLocator, PercentFormatter

from . import pictures as style
from .pictures import Picture

_LETTERS_BESIDE = 15  # of a name beside a curve; longer ones are wrapped
_LINE_HEIGHT = 0.16  # of small text, in inches
_LETTER_WIDTH = 0.082


def losses(
    curves: Mapping[str, Sequence[float]],
    *,
    accuracies: Mapping[str, Sequence[float]] | None = None,
    log: bool = False,
    xlabel: str = "epoch",
    ylabel: str = "loss",
    title: str | None = None,
    alt: str | None = None,
) -> Picture:
    """Draw loss curves, and accuracy curves below them, each named where it ends.

    Args:
        curves: Values per epoch by name, each `[num_epochs]`; the first value is drawn at 1.
        accuracies: Fractions between 0 and 1 per epoch by name, for a second panel.
        log: A logarithmic axis for the losses.
        xlabel, ylabel: Words at the axes.
        title: Words above the drawing.
        alt: Alternative text, instead of first and last values in words.

    Example:
        >>> losses({"training": [2.0, 1.0, 0.5]})
        Line chart: training goes from 2 to 0.5 in 3 epochs.
    """
    panels = [(ylabel, "", 1, curves)] + (
        [("accuracy", " accuracy in %", 100, accuracies)] if accuracies else []
    )
    height = 2.6 if accuracies else 3.1
    words = []
    with style.styled():
        figure = style.new_figure(height * len(panels))
        rows = figure.subplots(len(panels), 1, sharex=True, squeeze=False)[:, 0]
        for axes, (label, suffix, scale, named) in zip(rows, panels):
            drawn = {name: np.array([float(value) for value in values]) for name, values in named.items()}
            for number, (name, values) in enumerate(drawn.items()):
                if not len(values):
                    raise ValueError(f"a curve needs at least one value (got none for {name!r})")
                look = {"color": style.colour(number), "linestyle": style.LINES[number % len(style.LINES)]}
                epochs = np.arange(1, len(values) + 1)
                axes.plot(epochs, values, marker="o", markevery=[len(values) - 1], **look)
                first, last = (f"{scale * value:.3g}" for value in values[[0, -1]])
                goes = f"goes from {first} to {last} in {style.counted(len(values), xlabel)}"
                words.append(f"{name}{suffix} {goes if len(values) > 1 else last}")
            axes.set_ylabel(label)
            axes.grid(axis="y")
            axes.xaxis.set_major_locator(MaxNLocator(integer=True))
            if log and not suffix:
                axes.set_yscale("log")
            if suffix:
                axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
            _name_ends(axes, drawn, height - 0.7)
        figure.align_ylabels(rows)
        rows[-1].set_xlabel(xlabel)
        rows[0].set_title(title or "")
    return Picture(figure, alt or f"{title or 'Line chart'}: {'; '.join(words)}.")


def _name_ends(axes: Any, curves: Mapping[str, np.ndarray], height: float) -> None:
    """Names right of the curves, moved apart where the curves end close to each other."""
    to_share = axes.transScale + axes.transLimits
    axes.autoscale_view()
    ends = [(len(values), values[-1]) for values in curves.values()]
    wrapped = [textwrap.wrap(name, _LETTERS_BESIDE) or [""] for name in curves]
    wanted = [float(to_share.transform(end)[1]) for end in ends]
    half = [_LINE_HEIGHT * (len(lines) + 0.15) / 2 / height for lines in wrapped]
    order = sorted(range(len(ends)), key=lambda number: wanted[number])
    for below, above in zip(order, order[1:]):
        wanted[above] = max(wanted[above], wanted[below] + half[below] + half[above])
    wanted[order[-1]] = min(wanted[order[-1]], 1.0)
    for above, below in zip(order[::-1], order[-2::-1]):
        wanted[below] = min(wanted[below], wanted[above] - half[below] - half[above])
    for number, (end, lines) in enumerate(zip(ends, wrapped)):
        axes.annotate(
            "\n".join(lines),
            end,
            (1.03, wanted[number]),
            textcoords="axes fraction",
            va="center",
            fontsize=style.SMALL,
            linespacing=1.1,
            arrowprops={"arrowstyle": "-", "color": style.colour(number), "linewidth": 0.8, "shrinkB": 2},
        )


def padding_waste(
    efficiencies: Mapping[str, Any],
    *,
    of: Sequence[str] = ("nodes", "edges", "graphs"),
    title: str | None = None,
    alt: str | None = None,
) -> Picture:
    """Draw how much of each batch is real and how much is padding, by strategy or budget.

    Args:
        efficiencies: By name, what `efficiency(loader)` returned: real divided by total, between 0 and 1,
            for `nodes`, `edges` and `graphs`, as a mapping or as attributes.
        of: Which of these to draw.
        title: Words above the drawing.
        alt: Alternative text, instead of the percentages in words.

    Example:
        >>> padding_waste({"Pack": {"nodes": 0.97, "edges": 0.95}}, of=["nodes", "edges"])
        Bar chart of the share that is real. Pack: 97 % of nodes and 95 % of edges.
    """
    if not efficiencies:
        raise ValueError("padding_waste needs at least one named efficiency (got none)")
    words, place = [], 0.0
    with style.styled():
        figure = style.new_figure(0.4 + (0.25 * len(of) + 0.36) * len(efficiencies))
        axes = figure.subplots()
        for name, values in efficiencies.items():
            style.write(axes, 0, place, name, ha="left", va="bottom", fontweight="bold")
            told = []
            for kind in of:
                share = values.get(kind) if isinstance(values, Mapping) else getattr(values, kind, None)
                if share is None or not 0 <= float(share) <= 1:
                    raise ValueError(
                        f"the efficiency of {name!r} for {kind} should be between 0 and 1 (got {share!r})"
                    )
                place -= 1.0
                style.rectangle(axes, (0, place), share, 0.8, facecolor=style.COLOURS[0], linewidth=0)
                style.rectangle(
                    axes, (share, place), 1 - share, 0.8, facecolor=style.PADDING_FILL, linewidth=0
                )
                style.write(axes, -0.015, place + 0.4, kind, ha="right")
                style.write(axes, 1.015, place + 0.4, style.percent(share), ha="left")
                told.append(f"{style.percent(share)} of {kind}")
            words.append(f"{name}: {style.listed(told)}")
            place -= 1.4
        axes.set(xlim=(0, 1), ylim=(place + 1.35, 1.0))
        axes.set_axis_off()
        axes.set_title(title or "Share of each batch that is real; grey is padding")
    return Picture(figure, alt or f"{title or 'Bar chart of the share that is real'}. {'; '.join(words)}.")


def packs(
    sizes: Sequence[int],
    packs: Sequence[Sequence[int]],
    budget: int,
    *,
    unit: str = "nodes",
    title: str | None = None,
    alt: str | None = None,
) -> Picture:
    """Draw which graphs share a pack, and what is left over for padding.

    Args:
        sizes: Nodes (or edges) of each graph, `[num_graphs]`.
        packs: For each pack, the numbers of its graphs, such as `[[0, 2], [1]]`.
        budget: How much one pack holds, at least one unit of padding included.
        unit: What `sizes` counts.
        title: Words above the drawing.
        alt: Alternative text, instead of the contents in words.

    Example:
        >>> packs([5, 3], [[0, 1]], 10).alt.split(". ")[1]
        '2 graphs in 1 pack: 8 of 10 nodes are real (80 %)'
    """
    placed = [int(graph) for pack in packs for graph in pack]
    if not len(packs) or len(set(placed)) < len(placed) or not set(placed) <= set(range(len(sizes))):
        raise ValueError(f"each of graphs 0 to {len(sizes) - 1} can be in one pack at most (got {packs})")
    real, total = sum(int(sizes[graph]) for graph in placed), budget * len(packs)
    summary = (
        f"{style.counted(len(placed), 'graph')} in {style.counted(len(packs), 'pack')}: "
        f"{real} of {total} {unit} are real ({style.percent(real / total)})"
    )
    words = []
    with style.styled():
        figure = style.new_figure((1.15 if title else 0.95) + 0.38 * len(packs))
        axes = figure.subplots()
        for row, pack in enumerate(packs):
            start = 0
            for graph in map(int, pack):
                size = int(sizes[graph])
                _draw_block(axes, row, start, size, budget, f"g{graph}: ", style.colour(graph))
                start += size
            if start > budget:
                raise ValueError(f"pack {row} holds {start} {unit}, more than the budget of {budget}")
            _draw_block(axes, row, start, budget - start, budget, "pad: ", style.PADDING_FILL)
            graphs = (
                style.listed([f"graph {graph} ({sizes[graph]})" for graph in pack])
                if len(pack)
                else "nothing"
            )
            words.append(f"pack {row} holds {graphs}, and {budget - start} {unit} of padding")
        rows = range(len(packs))
        axes.set(xlim=(0, budget), ylim=(len(packs) - 0.5, -0.5), xlabel=f"{unit} (budget {budget})")
        axes.set_yticks(rows, labels=[f"pack {row}" for row in rows])
        axes.tick_params(axis="y", length=0)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.spines["left"].set_visible(False)
        axes.set_title(f"{title}\n{summary}" if title else summary)
    return Picture(figure, alt or f"{title or 'Packing'}. {summary}. {'; '.join(words)}.")


def _draw_block(axes: Any, row: int, start: int, size: int, budget: int, name: str, fill: str) -> None:
    if not size:
        return
    style.rectangle(axes, (start, row - 0.38), size, 0.76, facecolor=fill)
    words = f"{name}{size}" if size / budget > 0.025 * len(f"{name}{size}") else str(size)
    style.write(axes, start + size / 2, row, words, color=style.ink_on(fill))


def parity(
    predicted: Any, true: Any, *, unit: str = "", title: str | None = None, alt: str | None = None
) -> Picture:
    """Draw predictions against true values, with the mean absolute error (MAE) and the line of no error.

    Args:
        predicted, true: Values, `[num_samples]`.
        unit: Of both, such as `eV`.
        title: Words above the drawing.
        alt: Alternative text, instead of the error in words.

    Example:
        >>> parity([1.0, 2.5, 3.0], [1.0, 2.0, 3.0])
        Parity plot of 3 samples. MAE 0.167; predicting the mean: 0.667.
    """
    predicted, true = style.as_array(predicted).reshape(-1), style.as_array(true).reshape(-1)
    _check_lengths(predicted, true, "values")
    error, of_mean = np.abs(predicted - true).mean(), np.abs(true - true.mean()).mean()
    suffix = f" {unit}" if unit else ""
    words = f"MAE {error:.3g}{suffix}; predicting the mean: {of_mean:.3g}{suffix}"
    low, high = min(predicted.min(), true.min()), max(predicted.max(), true.max())
    margin = 0.04 * (high - low) or 1.0
    ends = [low - margin, high + margin]
    with style.styled():
        figure = style.new_figure(4.3, width=4.4)
        axes = figure.subplots()
        size = 14 if len(true) <= 500 else 6
        style.dots(axes, np.stack([true, predicted], axis=1), size, style.COLOURS[0], alpha=0.6, linewidth=0)
        axes.plot(ends, ends, color=style.INK, linewidth=1.2, linestyle="--")
        turned: dict[str, Any] = {"rotation": 45, "rotation_mode": "anchor", "ha": "right", "va": "bottom"}
        style.write(axes, 0.98, 0.985, "no error", transform=axes.transAxes, **turned)
        brackets = f" ({unit})" if unit else ""
        axes.set(xlim=ends, ylim=ends, aspect="equal")
        axes.set(xlabel=f"true{brackets}", ylabel=f"predicted{brackets}")
        axes.set_title(f"{title}\n{words}" if title else words, fontsize=9.5)
    return Picture(
        figure, alt or f"{title or 'Parity plot'} of {style.counted(len(true), 'sample')}. {words}."
    )


def _check_lengths(predicted: np.ndarray, true: np.ndarray, what: str) -> None:
    if len(predicted) != len(true):
        raise ValueError(
            f"as many predictions as true {what} are needed (got {len(predicted)} and {len(true)})"
        )


def confusion(
    true: Any,
    predicted: Any,
    *,
    names: Sequence[str] | None = None,
    title: str | None = None,
    alt: str | None = None,
) -> Picture:
    """Draw a confusion matrix: a row per true class, a column per predicted class, counts in the cells.

    Args:
        true, predicted: Class numbers, `[num_samples]`.
        names: Of the classes; their numbers if left out.
        title: Words above the drawing.
        alt: Alternative text, instead of the accuracy in words.

    Example:
        >>> confusion([0, 0, 1], [0, 1, 1], names=["cat", "dog"])
        Confusion matrix, accuracy 67 % of 3 samples. Right by true class: cat 50 % and dog 100 %.
    """
    true, predicted = style.as_array(true).reshape(-1), style.as_array(predicted).reshape(-1)
    _check_lengths(predicted, true, "labels")
    num_classes = max(len(names or []), int(max(true.max(), predicted.max())) + 1)
    names = list(names) if names else [str(number) for number in range(num_classes)]
    if len(names) < num_classes:
        raise ValueError(f"{num_classes} classes need as many names (got {len(names)})")
    counts = np.zeros((num_classes, num_classes), dtype=int)
    np.add.at(counts, (true, predicted), 1)
    shares = counts / np.maximum(counts.sum(1, keepdims=True), 1)
    right = style.percent(np.trace(counts) / counts.sum())
    accuracy = f"accuracy {right} of {style.counted(int(counts.sum()), 'sample')}"
    with style.styled():
        figure = style.new_figure(1.3 + 0.42 * num_classes, width=min(5.6, 2.4 + 0.55 * num_classes))
        axes = figure.subplots()
        for row, column in np.ndindex(*counts.shape):
            share = shares[row, column]
            # The ground shines through: few are pale on a light page and dark on a dark one.
            style.rectangle(
                axes, (column - 0.5, row - 0.5), 1, 1, facecolor=(*to_rgb(style.COLOURS[0]), share)
            )
            look = {"color": style.ink_on(style.COLOURS[0])} if share > 0.5 else {}
            style.write(axes, column, row, str(counts[row, column]), **look)
        turned: dict[str, Any] = {"rotation": 35, "ha": "right", "rotation_mode": "anchor"}
        axes.set_xticks(range(num_classes), labels=names, **(turned if max(map(len, names)) > 3 else {}))
        axes.set_yticks(range(num_classes), labels=names)
        axes.tick_params(length=0)
        limits = (-0.5, num_classes - 0.5)
        axes.set(xlim=limits, ylim=limits[::-1], xlabel="predicted", ylabel="true")
        axes.spines[:].set_visible(False)
        axes.set_title(f"{title}\n{accuracy}" if title else accuracy)
    recalls = style.listed([f"{name} {style.percent(shares[i, i])}" for i, name in enumerate(names)])
    return Picture(
        figure, alt or f"{title or 'Confusion matrix'}, {accuracy}. Right by true class: {recalls}."
    )


def embedding(
    points: Any,
    labels: Any,
    *,
    names: Sequence[str] | None = None,
    title: str | None = None,
    alt: str | None = None,
) -> Picture:
    """Draw points in the plane, a colour and a marker for each class, its name in the middle of its points.

    Args:
        points: `[num_points, 2]`; or `[num_points, F]`, projected on their two principal components.
        labels: Class numbers, `[num_points]`.
        names: Of the classes; their numbers if left out.
        title: Words above the drawing.
        alt: Alternative text, instead of the counts in words.

    Example:
        >>> embedding([[0, 1], [1, 0]], [0, 1], names=["cat", "dog"])
        Embedding: 2 points in the plane, by class: cat (1) and dog (1).
    """
    points, labels = style.as_array(points).astype(float), style.as_array(labels).reshape(-1)
    if points.ndim != 2 or points.shape[1] < 2 or len(points) != len(labels):
        raise ValueError(
            f"points of [num_points, 2 or more] and as many labels are needed (got {list(points.shape)} and "
            f"{len(labels)} labels)"
        )
    projected = points.shape[1] > 2
    if projected:
        centred = points - points.mean(0)
        points = centred @ np.linalg.svd(centred, full_matrices=False)[2][:2].T
    classes = np.unique(labels).tolist()
    called = {number: names[number] if names else f"class {number}" for number in classes}
    with style.styled():
        figure = style.new_figure(4.4)
        axes = figure.subplots()
        size = 18 if len(points) <= 1000 else 8
        for number in classes:
            look = {"marker": style.marker(number), "linewidth": 0.3, "label": called[number]}
            style.dots(axes, points[labels == number], size, style.colour(number), of=len(points), **look)
        axes.set(xticks=[], yticks=[])
        if projected:
            axes.set(xlabel="first component", ylabel="second component")
        else:
            axes.spines[["left", "bottom"]].set_visible(False)
        axes.margins(0.08)
        _name_clouds(
            axes, {called[number]: np.median(points[labels == number], axis=0) for number in classes}
        )
        axes.set_title(title or "")
    words = style.listed([f"{called[number]} ({int((labels == number).sum()):,})" for number in classes])
    how = "projected on two principal components" if projected else "in the plane"
    return Picture(
        figure,
        alt or f"{title or 'Embedding'}: {style.counted(len(points), 'point')} {how}, by class: {words}.",
    )


def _name_clouds(axes: Any, places: Mapping[str, np.ndarray]) -> None:
    """Names above the middles of their points, from the bottom up, each moved up until clear of others."""
    axes.autoscale_view()
    width, height = axes.figure.get_size_inches() - 0.3
    # What `pad` adds is measured in points.
    ground = {"facecolor": (*to_rgb(style.GROUND), 0.8), "edgecolor": "none", "pad": 1.2}
    taken: list[tuple[float, float, float]] = []
    for name, place in sorted(places.items(), key=lambda item: item[1][1]):
        x, y = axes.transLimits.transform(place) * [width, height] + [0, _LINE_HEIGHT]
        half = _LETTER_WIDTH * len(name) / 2 + 0.04
        x = min(max(x, half), width - half)
        while any(abs(x - a) < half + b and abs(y - c) < _LINE_HEIGHT + 0.07 for a, b, c in taken):
            y += 0.02
        taken.append((x, half, y))
        look = {"transform": axes.transAxes, "bbox": ground, "fontweight": "bold"}
        style.write(axes, x / width, y / height, name, **look)
