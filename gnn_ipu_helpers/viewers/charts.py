"""Charts: loss curves, padding waste, packs, predictions against truth, and plain comparisons."""

from __future__ import annotations

from typing import Any, Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Patch, Rectangle
from matplotlib.ticker import MaxNLocator, PercentFormatter

from .pictures import (
    COLOURS,
    DARK_COLOURS,
    HATCHES,
    INK,
    LINES,
    PADDING,
    PADDING_FILL,
    Picture,
    as_array,
    colour,
    counted,
    listed,
    marker,
    new_figure,
    padding_patch,
    styled,
)

# So many letters of names, with their markers, fit into one row of a legend.
_LEGEND_LETTERS = 64


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
    """Draw loss curves, and accuracy curves below them.

    Args:
        curves: values per epoch by name, each ``[num_epochs]``; the first value is drawn at 1.
        accuracies: fractions between 0 and 1 per epoch by name, for a second panel.
        log: a logarithmic axis for the losses.
        xlabel, ylabel: words at the axes.
        title: words above the drawing.
        alt: alternative text, instead of first and last values in words.
    """
    curves = {name: _curve(name, values) for name, values in curves.items()}
    accuracies = {name: _curve(name, values) for name, values in (accuracies or {}).items()}
    with styled():
        figure = new_figure(4.9 if accuracies else 3.1)
        panels = figure.subplots(2 if accuracies else 1, 1, sharex=True, squeeze=False)[:, 0]
        _draw_curves(panels[0], curves, ylabel)
        if log:
            panels[0].set_yscale("log")
        if accuracies:
            _draw_curves(panels[1], accuracies, "accuracy")
            panels[1].yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
        panels[-1].set_xlabel(xlabel)
        panels[0].set_title(title or "")
    words = [_curve_words(name, values, xlabel) for name, values in curves.items()]
    words += [
        _curve_words(f"{name} accuracy in %", 100 * values, xlabel) for name, values in accuracies.items()
    ]
    return Picture(figure, alt or f"{title or 'Line chart'}: {'; '.join(words)}.")


def padding_waste(
    efficiencies: Mapping[str, Any],
    *,
    of: Sequence[str] = ("nodes", "edges", "graphs"),
    title: str | None = None,
    alt: str | None = None,
) -> Picture:
    """Draw how much of each batch is real and how much is padding, by strategy or budget.

    Args:
        efficiencies: by name, what ``efficiency(loader)`` returned: real divided by total, between 0 and 1,
            for ``nodes``, ``edges`` and ``graphs``, as a mapping or as attributes.
        of: which of these to draw.
        title: words above the drawing.
        alt: alternative text, instead of the percentages in words.
    """
    if not efficiencies:
        raise ValueError("padding_waste needs at least one named efficiency (got none)")
    rows = [(name, kind, _share(name, values, kind)) for name, values in efficiencies.items() for kind in of]
    with styled():
        figure = new_figure(0.9 + 0.27 * len(rows) + 0.3 * len(efficiencies))
        axes = figure.subplots()
        place, ticks = 0.0, []
        for number, (name, kind, share) in enumerate(rows):
            if number % len(of) == 0:
                place -= 0.95 if number else 0.0
                axes.text(0, place + 0.75, name, fontsize=9.5, fontweight="bold", va="center")
            _draw_share(axes, place, share, colour(list(of).index(kind)))
            ticks.append((place, kind))
            place -= 1.0
        axes.set_yticks([at for at, _ in ticks], labels=[kind for _, kind in ticks])
        axes.tick_params(axis="y", length=0)
        axes.set_xlim(0, 1)
        axes.set_ylim(place + 0.45, 1.1)
        axes.xaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
        axes.spines["left"].set_visible(False)
        _legend_below(axes, [Patch(facecolor=COLOURS[0], edgecolor=INK, label="real"), padding_patch()])
        axes.set_title(title or "Share of each batch that is real")
    words = [
        f"{name}: "
        + listed([f"{100 * share:.2f} % of {kind}" for other, kind, share in rows if other == name])
        for name in efficiencies
    ]
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
        sizes: nodes (or edges) of each graph, ``[num_graphs]``.
        packs: for each pack, the numbers of its graphs, such as ``[[0, 2], [1]]``.
        budget: how much one pack holds, at least one unit of padding included.
        unit: what ``sizes`` counts.
        title: words above the drawing.
        alt: alternative text, instead of the contents in words.
    """
    sizes = [int(size) for size in sizes]
    packs = [[int(graph) for graph in pack] for pack in packs]
    _check_packs(sizes, packs, budget, unit)
    real, total = sum(sizes[graph] for pack in packs for graph in pack), budget * len(packs)
    summary = (
        f"{counted(sum(map(len, packs)), 'graph')} in {counted(len(packs), 'pack')}: "
        f"{real} of {total} {unit} are real ({100 * real / total:.1f} %)"
    )
    with styled():
        figure = new_figure(0.95 + 0.42 * len(packs))
        axes = figure.subplots()
        for row, pack in enumerate(packs):
            _draw_pack(axes, -row, [(graph, sizes[graph]) for graph in pack], budget)
        axes.set_xlim(0, budget)
        axes.set_ylim(-len(packs) + 0.5, 0.5)
        axes.set_yticks(
            [-row for row in range(len(packs))], labels=[f"pack {row}" for row in range(len(packs))]
        )
        axes.tick_params(axis="y", length=0)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set_xlabel(f"{unit} (budget {budget})")
        axes.spines["left"].set_visible(False)
        axes.set_title(f"{title}\n{summary}" if title else summary)
    words = "; ".join(_pack_words(row, pack, sizes, budget, unit) for row, pack in enumerate(packs))
    return Picture(figure, alt or f"{title or 'Packing'}. {summary}. {words}.")


def parity(
    predicted: Any, true: Any, *, unit: str = "", title: str | None = None, alt: str | None = None
) -> Picture:
    """Draw predictions against true values, with the mean absolute error (MAE) and the line of no error.

    Args:
        predicted, true: values, ``[num_samples]``.
        unit: of both, such as ``eV``.
        title: words above the drawing.
        alt: alternative text, instead of the error in words.
    """
    predicted, true = as_array(predicted).reshape(-1), as_array(true).reshape(-1)
    if len(predicted) != len(true):
        raise ValueError(
            f"as many predictions as true values are needed (got {len(predicted)} and {len(true)})"
        )
    error, of_mean = np.abs(predicted - true).mean(), np.abs(true - true.mean()).mean()
    suffix = f" {unit}" if unit else ""
    words = f"MAE {error:.3g}{suffix}; predicting the mean: {of_mean:.3g}{suffix}"
    low, high = min(predicted.min(), true.min()), max(predicted.max(), true.max())
    margin = 0.04 * (high - low) or 1.0
    with styled():
        figure = new_figure(4.2, width=4.4)
        axes = figure.subplots()
        size = 14 if len(true) <= 500 else 5
        axes.scatter(true, predicted, s=size, color=COLOURS[0], alpha=0.45, linewidth=0)
        ends = [low - margin, high + margin]
        axes.plot(ends, ends, color=INK, linewidth=1.2, linestyle="--", label="no error")
        axes.set(xlim=ends, ylim=ends, aspect="equal")
        brackets = f" ({unit})" if unit else ""
        axes.set(xlabel=f"true{brackets}", ylabel=f"predicted{brackets}")
        axes.set_title(f"{title}\n{words}" if title else words)
        axes.legend(loc="upper left")
    return Picture(figure, alt or f"{title or 'Parity plot'} of {counted(len(true), 'sample')}. {words}.")


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
        true, predicted: class numbers, ``[num_samples]``.
        names: of the classes; their numbers if left out.
        title: words above the drawing.
        alt: alternative text, instead of the accuracy in words.
    """
    true, predicted = as_array(true).reshape(-1), as_array(predicted).reshape(-1)
    if len(predicted) != len(true):
        raise ValueError(
            f"as many predictions as true labels are needed (got {len(predicted)} and {len(true)})"
        )
    num_classes = max(len(names or []), int(max(true.max(), predicted.max())) + 1)
    names = list(names) if names else [str(number) for number in range(num_classes)]
    if len(names) < num_classes:
        raise ValueError(f"{num_classes} classes need as many names (got {len(names)})")
    counts = np.zeros((num_classes, num_classes), dtype=int)
    np.add.at(counts, (true, predicted), 1)
    accuracy = (
        f"accuracy {100 * np.trace(counts) / counts.sum():.1f} % of {counted(int(counts.sum()), 'sample')}"
    )
    with styled():
        figure = new_figure(1.3 + 0.45 * num_classes, width=min(5.6, 2.0 + 0.55 * num_classes))
        axes = figure.subplots()
        shares = counts / np.maximum(counts.sum(1, keepdims=True), 1)
        axes.imshow(shares, cmap="Blues", vmin=0, vmax=1)
        for row, column in np.ndindex(*counts.shape):
            ink = "white" if shares[row, column] > 0.55 else INK
            axes.text(column, row, str(counts[row, column]), ha="center", va="center", color=ink, fontsize=9)
        turn = {"rotation": 35, "ha": "right", "rotation_mode": "anchor"} if max(map(len, names)) > 3 else {}
        axes.set_xticks(range(num_classes), labels=names, **turn)
        axes.set_yticks(range(num_classes), labels=names)
        axes.set(xlabel="predicted", ylabel="true")
        axes.set_title(f"{title}\n{accuracy}" if title else accuracy)
    recalls = listed([f"{name} {100 * shares[i, i]:.0f} %" for i, name in enumerate(names)])
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
    """Draw points in the plane, a colour and a marker for each class.

    Args:
        points: ``[num_points, 2]``; or ``[num_points, F]``, projected on their two principal components.
        labels: class numbers, ``[num_points]``.
        names: of the classes; their numbers if left out.
        title: words above the drawing.
        alt: alternative text, instead of the counts in words.
    """
    points, labels = as_array(points).astype(float), as_array(labels).reshape(-1)
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
    with styled():
        figure = new_figure(4.4)
        axes = figure.subplots()
        size = 16 if len(points) <= 1000 else 7
        for number in classes:
            mine = points[labels == number]
            axes.scatter(
                *mine.T,
                s=size,
                color=colour(number),
                marker=marker(number),
                edgecolor="white",
                linewidth=0.3,
                label=called[number],
            )
        axes.set_xticks([])
        axes.set_yticks([])
        if projected:
            axes.set(xlabel="first component", ylabel="second component")
        fitting = max(1, _LEGEND_LETTERS // (4 + max(len(name) for name in called.values())))
        _legend_below(axes, axes.get_legend_handles_labels()[0], columns=min(4, fitting, len(classes)))
        axes.set_title(title or "")
    words = listed([f"{called[number]} ({int((labels == number).sum()):,})" for number in classes])
    how = "projected on two principal components" if projected else "in the plane"
    return Picture(
        figure, alt or f"{title or 'Embedding'}: {counted(len(points), 'point')} {how}, by class: {words}."
    )


def bars(
    panels: Mapping[str, Mapping[str, float]],
    *,
    digits: int = 3,
    title: str | None = None,
    alt: str | None = None,
) -> Picture:
    """Draw measurements side by side: a panel per measure with its own scale, a bar per thing measured.

    Args:
        panels: by measure (with its unit), the values by name:
            ``{"Seconds per epoch": {"full batch": 1.2, "clusters": 0.4}}``.
        digits: significant digits of the values printed.
        title: words above the drawing.
        alt: alternative text, instead of the values in words.
    """
    names = list(dict.fromkeys(name for values in panels.values() for name in values))
    with styled():
        figure = new_figure(
            sum(0.55 + 0.3 * len(values) for values in panels.values()) + (0.3 if title else 0)
        )
        heights = [0.55 + 0.3 * len(values) for values in panels.values()]
        rows = figure.subplots(len(panels), 1, squeeze=False, height_ratios=heights)[:, 0]
        for axes, (measure, values) in zip(rows, panels.items()):
            _draw_bars(axes, measure, values, names, digits)
        if title:
            figure.suptitle(title, fontsize=10.5)
    words = [
        f"{measure}: " + listed([f"{name} {_rounded(value, digits)}" for name, value in values.items()])
        for measure, values in panels.items()
    ]
    return Picture(figure, alt or f"{title or 'Bar chart'}. {'; '.join(words)}.")


def _curve(name: str, values: Sequence[float]) -> np.ndarray:
    curve = np.array([float(value) for value in values])
    if not len(curve):
        raise ValueError(f"a curve needs at least one value (got none for {name!r})")
    return curve


def _draw_curves(axes: Axes, curves: Mapping[str, np.ndarray], ylabel: str) -> None:
    for number, (name, values) in enumerate(curves.items()):
        axes.plot(
            np.arange(1, len(values) + 1),
            values,
            color=colour(number),
            linestyle=LINES[number % len(LINES)],
            marker=marker(number),
            markevery=max(1, len(values) // 10),
            label=name,
        )
    axes.set_ylabel(ylabel)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.grid(axis="y", color="#DDDDDD", linewidth=0.7)
    axes.set_axisbelow(True)
    axes.legend()


def _curve_words(name: str, values: np.ndarray, xlabel: str) -> str:
    if len(values) == 1:
        return f"{name} {values[0]:.3g}"
    return f"{name} goes from {values[0]:.3g} to {values[-1]:.3g} in {counted(len(values), xlabel)}"


def _share(name: str, values: Any, kind: str) -> float:
    share = values.get(kind) if isinstance(values, Mapping) else getattr(values, kind, None)
    if share is None or not 0 <= float(share) <= 1:
        raise ValueError(f"the efficiency of {name!r} for {kind} should be between 0 and 1 (got {share!r})")
    return float(share)


def _draw_share(axes: Axes, place: float, share: float, fill: str) -> None:
    axes.barh(place, share, height=0.8, color=fill, edgecolor=INK, linewidth=0.6)
    axes.barh(
        place,
        1 - share,
        left=share,
        height=0.8,
        **PADDING,
    )
    words, inside = f"{100 * share:.2f} %", share > 0.15
    ground = None if inside else {"facecolor": "white", "edgecolor": "none", "pad": 0.8}
    axes.text(
        share - 0.012 if inside else share + 0.012,
        place,
        words,
        ha="right" if inside else "left",
        va="center",
        fontsize=8.5,
        color="white" if inside and fill in DARK_COLOURS else INK,
        bbox=ground,
    )


def _check_packs(sizes: list[int], packs: list[list[int]], budget: int, unit: str) -> None:
    placed = [graph for pack in packs for graph in pack]
    if not packs or len(set(placed)) < len(placed) or not set(placed) <= set(range(len(sizes))):
        raise ValueError(f"each of graphs 0 to {len(sizes) - 1} can be in one pack at most (got {packs})")
    for row, pack in enumerate(packs):
        filled = sum(sizes[graph] for graph in pack)
        if filled > budget:
            raise ValueError(f"pack {row} holds {filled} {unit}, more than the budget of {budget}")


def _draw_pack(axes: Axes, place: float, graphs: list[tuple[int, int]], budget: int) -> None:
    start = 0
    for graph, size in graphs:
        fill = colour(graph)
        axes.add_patch(
            Rectangle(
                (start, place - 0.36),
                size,
                0.72,
                facecolor=fill,
                edgecolor="white",
                hatch=HATCHES[(graph // len(COLOURS)) % len(HATCHES)],
                linewidth=1.2,
            )
        )
        ink = "white" if fill in DARK_COLOURS else INK
        words = f"g{graph}: {size}" if size / budget > 0.09 else str(size)
        axes.text(start + size / 2, place, words, ha="center", va="center", fontsize=8.5, color=ink)
        start += size
    left = budget - start
    if left:
        axes.add_patch(Rectangle((start, place - 0.36), left, 0.72, **PADDING))
        words = f"pad: {left}" if left / budget > 0.11 else str(left)
        ground = {"facecolor": PADDING_FILL, "edgecolor": "none", "pad": 0.8}
        axes.text(start + left / 2, place, words, ha="center", va="center", fontsize=8.5, bbox=ground)


def _pack_words(row: int, pack: list[int], sizes: list[int], budget: int, unit: str) -> str:
    filled = sum(sizes[graph] for graph in pack)
    graphs = listed([f"graph {graph} ({sizes[graph]})" for graph in pack]) if pack else "nothing"
    return f"pack {row} holds {graphs}, and {budget - filled} {unit} of padding"


def _draw_bars(
    axes: Axes, measure: str, values: Mapping[str, float], names: Sequence[str], digits: int
) -> None:
    for row, (name, value) in enumerate(values.items()):
        number = names.index(name)
        axes.barh(
            -row,
            value,
            height=0.75,
            color=colour(number),
            hatch=HATCHES[number % len(HATCHES)],
            edgecolor="white" if HATCHES[number % len(HATCHES)] else INK,
            linewidth=0.6,
        )
        axes.annotate(
            _rounded(value, digits),
            (value, -row),
            xytext=(4, 0),
            textcoords="offset points",
            va="center",
            fontsize=9,
        )
    axes.set_yticks([-row for row in range(len(values))], labels=list(values))
    axes.set_xlim(0, 1.17 * max(max(values.values()), 1e-12))
    axes.tick_params(axis="y", length=0)
    axes.set_title(measure, loc="left", fontsize=9.5)
    axes.xaxis.set_major_locator(MaxNLocator(5))


def _rounded(value: float, digits: int) -> str:
    """``value`` with that many significant digits, without an exponent: 0.00123, 1.23, 12,828."""
    if value == 0:
        return "0"
    decimals = max(0, digits - 1 - int(np.floor(np.log10(abs(value)))))
    text = f"{value:,.{decimals}f}"
    return text.rstrip("0").rstrip(".") if "." in text and float(value).is_integer() else text


def _legend_below(axes: Axes, handles: Sequence[Any], columns: int = 2) -> None:
    axes.figure.legend(handles=list(handles), loc="outside lower center", ncol=columns)
