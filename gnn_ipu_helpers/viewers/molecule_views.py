"""Molecules: drawn on paper, and in 3D with a slider that needs neither a kernel nor a network.

The 3D view is plain HTML with a short script, so that it works in JupyterLab and in an exported page alike.
It holds a drawn picture, which the script replaces by the 3D view once 3Dmol.js is there: readers whose
viewer runs no script keep the picture. 3Dmol.js itself (half a megabyte) is not stored in the notebook. The
script looks for the copy that ``make setup`` put into ``build/vendor``, and only without one asks py3Dmol's
content delivery network.
"""

from __future__ import annotations

import html
import json
from pathlib import Path
from typing import Any, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.patches import Circle

from .pictures import INK, Page, Picture, as_array, counted, image_tag, new_figure, styled

SCRIPT_NAME = "3Dmol-min.js"

_ELEMENT_COLOURS = {
    "H": "#F2F2F2",
    "C": "#5A5A5A",
    "N": "#0072B2",
    "O": "#D55E00",
    "F": "#009E73",
    "S": "#E69F00",
    "Cl": "#56B4E9",
    "P": "#CC79A7",
}
_OTHER_ELEMENT = "#B8A1C9"
_DARK_ELEMENTS = ("C", "N", "O", "F")
_PER_ROW = 4
_MOST_DRAWN = 12
_MOST_EMBEDDED = 200
_TILTS = (0, 12, 24, 36, -12, -24, -36)
_CLEAR = 0.8
_SUBSCRIPTS = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")


def molecule(data: Any, *, title: str | None = None, alt: str | None = None) -> Picture:
    """Draw one molecule, flattened along its thinnest side; nearer atoms are larger and stronger.

    Args:
        data: ``z`` ``[num_atoms]`` (atomic numbers), ``pos`` ``[num_atoms, 3]``, ``edge_index``
            ``[2, num_edges]`` (each bond in both directions), and, if there, ``edge_attr`` ``[num_edges, 4]``
            as in QM9 (single, double, triple, aromatic).
        title: words above the drawing.
        alt: alternative text, instead of the formula and the counts.
    """
    shown = _read(data)
    with styled():
        figure = new_figure(3.4, width=4.0)
        _draw(figure.subplots(), shown, letter=9)
        words = _caption(shown).split(":")
        figure.suptitle(title or f"{_chemical(words[0])}:{words[1]}", fontsize=10.5)
    return Picture(figure, alt or f"Drawing of the molecule {_caption(shown)}.")


def molecules(
    dataset: Sequence[Any],
    count: int = 12,
    *,
    captions: Sequence[str] | None = None,
    height: int = 320,
    alt: str | None = None,
) -> Page:
    """Show molecules in 3D, one at a time, with a slider; works without a kernel and without a network.

    Args:
        dataset: molecules as for :func:`molecule`.
        count: how many of them, from the first on, at most 200: they are stored in the notebook.
        captions: a few words for each, shown after its formula, such as its HOMO-LUMO gap.
        height: of the 3D view, in pixels.
        alt: alternative text of the picture that is shown where no script runs.
    """
    count = min(count, len(dataset))
    if not 1 <= count <= _MOST_EMBEDDED:
        raise ValueError(
            f"between 1 and {_MOST_EMBEDDED} molecules can be stored in a notebook (got {count})"
        )
    if captions is not None and len(captions) < count:
        raise ValueError(f"one caption is needed for each of {count} molecules (got {len(captions)})")
    shown = [_read(dataset[index]) for index in range(count)]
    picture = _sheet(shown, alt)
    labels = [_caption(one).replace(one.formula(), one.formula().translate(_SUBSCRIPTS)) for one in shown]
    if captions is not None:
        labels = [f"{label}, {caption}" for label, caption in zip(labels, captions)]
    return Page(_viewer_html(shown, labels, picture, height), picture.alt, picture.png)


def browse(dataset: Sequence[Any]) -> Any:
    """A slider over a whole dataset, one drawn molecule at a time; an ipywidget, so a kernel has to run.

    Args:
        dataset: molecules as for :func:`molecule`; however many there are, only the one chosen is read.
    """
    import ipywidgets
    from IPython.display import display

    slider = ipywidgets.IntSlider(min=0, max=len(dataset) - 1, description="molecule")
    return ipywidgets.interactive(lambda index: display(molecule(dataset[index])), index=slider)


class _Molecule:
    """Symbols, radii, places and bonds of one molecule."""

    def __init__(self, symbols: list[str], radii: np.ndarray, places: np.ndarray, bonds: np.ndarray) -> None:
        self.symbols = symbols
        self.radii = radii
        self.places = places
        self.bonds = bonds

    def formula(self) -> str:
        counts = {symbol: self.symbols.count(symbol) for symbol in sorted(set(self.symbols))}
        first = [symbol for symbol in ("C", "H") if "C" in counts and symbol in counts]
        order = first + [symbol for symbol in counts if symbol not in first]
        return "".join(f"{symbol}{counts[symbol] if counts[symbol] > 1 else ''}" for symbol in order)


def _read(data: Any) -> _Molecule:
    from periodictable import elements

    for name in ("z", "pos", "edge_index"):
        if getattr(data, name, None) is None:
            raise ValueError(f"a molecule needs z, pos and edge_index (got {data!r}, without {name})")
    atoms = [elements[int(number)] for number in as_array(data.z)]
    edge_index = as_array(data.edge_index)
    kinds = getattr(data, "edge_attr", None)
    orders = np.ones(edge_index.shape[1])
    if kinds is not None and as_array(kinds).ndim == 2 and as_array(kinds).shape[1] == 4:
        orders = as_array(kinds) @ np.array([1.0, 2.0, 3.0, 1.5])
    once = edge_index[0] < edge_index[1]
    bonds = np.concatenate([edge_index[:, once], orders[None, once]]).T
    radii = np.array([atom.covalent_radius for atom in atoms], dtype=float)
    return _Molecule([atom.symbol for atom in atoms], radii, as_array(data.pos).astype(float), bonds)


def _caption(shown: _Molecule) -> str:
    return f"{shown.formula()}: {counted(len(shown.symbols), 'atom')}, {counted(len(shown.bonds), 'bond')}"


def _sheet(shown: list[_Molecule], alt: str | None) -> Picture:
    drawn = shown[:_MOST_DRAWN]
    rows = -(-len(drawn) // _PER_ROW)
    with styled():
        figure = new_figure(1.6 * rows)
        for place, one in enumerate(drawn):
            axes = figure.add_subplot(rows, _PER_ROW, place + 1)
            _draw(axes, one)
            axes.set_title(_chemical(one.formula()), fontsize=9.5, pad=1)
    words = "; ".join(_caption(one) for one in drawn)
    which = (
        f"{len(drawn)} of {len(shown)} molecules"
        if len(drawn) < len(shown)
        else counted(len(shown), "molecule")
    )
    return Picture(figure, alt or f"Drawing of {which}. {words}.")


def _chemical(formula: str) -> str:
    return "".join(f"$_{{{sign}}}$" if sign.isdigit() else sign for sign in formula)


def _draw(axes: Axes, shown: _Molecule, letter: float = 6.5) -> None:
    axes.set_axis_off()
    axes.set_aspect("equal")
    flat = _flatten(shown.places)
    depth = flat[:, 2]
    near = (depth - depth.min()) / max(np.ptp(depth), 1e-9) if len(depth) > 1 else np.ones(1)
    for start, end, order in shown.bonds:
        _draw_bond(axes, flat[int(start)], flat[int(end)], order)
    for atom in np.argsort(depth):
        symbol = shown.symbols[atom]
        fill = _faded(_ELEMENT_COLOURS.get(symbol, _OTHER_ELEMENT), near[atom])
        radius = (0.2 + 0.2 * shown.radii[atom]) * (0.9 + 0.2 * near[atom])
        layer = 10 + near[atom]
        axes.add_patch(
            Circle(flat[atom, :2], radius, facecolor=fill, edgecolor=INK, linewidth=0.7, zorder=layer)
        )
        ink = "white" if symbol in _DARK_ELEMENTS else INK
        axes.annotate(
            symbol, flat[atom, :2], ha="center", va="center", color=ink, fontsize=letter, zorder=layer
        )
    low, high = flat[:, :2].min(0) - 0.7, flat[:, :2].max(0) + 0.7
    half = max(*(high - low), 4.0) / 2
    middle = (low + high) / 2
    axes.set_xlim(middle[0] - half, middle[0] + half)
    axes.set_ylim(middle[1] - half, middle[1] + half)


def _draw_bond(axes: Axes, start: np.ndarray, end: np.ndarray, order: float) -> None:
    along = end[:2] - start[:2]
    across = np.array([-along[1], along[0]]) / max(np.linalg.norm(along), 1e-9)
    offsets = {1.0: (0.0,), 2.0: (-0.09, 0.09), 3.0: (-0.15, 0.0, 0.15)}.get(order, (-0.07, 0.07))
    for number, offset in enumerate(offsets):
        dashed = order == 1.5 and number == 1
        line = np.stack([start[:2], end[:2]]) + offset * across
        axes.plot(*line.T, color="#444444", linewidth=1.4, linestyle=":" if dashed else "-", zorder=5)


def _flatten(places: np.ndarray) -> np.ndarray:
    """Turned to lie flat, then tilted until no atom hides another; x, y and nearness, ``[num_atoms, 3]``."""
    centred = places - places.mean(0)
    _, _, axes = np.linalg.svd(centred, full_matrices=True)
    # The sign of an axis is arbitrary: fix it, so that a molecule is drawn the same way everywhere.
    axes = axes * np.where(axes[np.arange(3), np.abs(axes).argmax(1)] < 0, -1, 1)[:, None]
    # A mirror image would be another molecule: keep the handedness.
    axes[2] *= np.sign(np.linalg.det(axes))
    flat = centred @ axes.T
    views = [flat @ _turn(1, 2, pitch) @ _turn(0, 2, yaw) for pitch in _TILTS for yaw in _TILTS]
    return max(views, key=lambda view: round(_closest(view[:, :2]), 3))


def _turn(first: int, second: int, degrees: float) -> np.ndarray:
    angle = np.deg2rad(degrees)
    matrix = np.eye(3)
    matrix[[first, second], [first, second]] = np.cos(angle)
    matrix[first, second], matrix[second, first] = -np.sin(angle), np.sin(angle)
    return matrix


def _closest(places: np.ndarray) -> float:
    """The smallest distance between two points, up to that at which two atoms stand clear of each other."""
    gaps = np.linalg.norm(places[:, None] - places[None], axis=-1)
    return min(gaps[np.triu_indices(len(places), 1)].min(initial=_CLEAR), _CLEAR)


def _faded(shade: str, near: float) -> tuple[float, ...]:
    strength = 0.72 + 0.28 * near
    return tuple(1 - strength * (1 - part) for part in to_rgb(shade))


def _viewer_html(shown: list[_Molecule], labels: Sequence[str], picture: Picture, height: int) -> str:
    payload = {
        "molecules": [_payload(one, label) for one, label in zip(shown, labels)],
        "colours": {symbol: shade.replace("#", "0x") for symbol, shade in _ELEMENT_COLOURS.items()},
        "light": [symbol for symbol in _ELEMENT_COLOURS if symbol not in _DARK_ELEMENTS],
        "network": _network_address(),
        "height": height,
    }
    data = html.escape(json.dumps(payload, separators=(",", ":"), sort_keys=True), quote=True)
    image = image_tag(picture.png, picture.alt, 560)
    script = (Path(__file__).parent / "molecules.js").read_text(encoding="utf-8")
    return f'<div class="gnn-molecules" data-molecules="{data}">{image}<script>{script}</script></div>'


def _payload(one: _Molecule, label: str) -> dict[str, Any]:
    return {
        "label": label,
        "atoms": [
            [symbol, *place] for symbol, place in zip(one.symbols, _flatten(one.places).round(2).tolist())
        ],
        "bonds": [[int(start), int(end), float(order)] for start, end, order in one.bonds],
    }


def _network_address() -> str:
    import py3Dmol

    return f"https://cdn.jsdelivr.net/npm/3dmol@{py3Dmol.__version__}/build/{SCRIPT_NAME}"
