"""Molecules: drawn on paper, and in 3D with a slider that needs neither a kernel nor a network.

The 3D view is plain HTML with a short script, so that it works in JupyterLab and in an exported page alike.
It holds a drawn picture, which the script replaces by the 3D view once 3Dmol.js is there: readers whose
viewer runs no script keep the picture. 3Dmol.js itself (half a megabyte) is not stored in the notebook. The
script looks for the copy that `make setup` put into `build/vendor`, and only without one asks py3Dmol's
content delivery network.
"""

from __future__ import annotations

import html
import json
from pathlib import Path
from typing import Any, NamedTuple, Sequence

import numpy as np
from matplotlib.colors import to_hex, to_rgb
from matplotlib.patches import Circle

from . import pictures as style
from .pictures import Page, Picture

SCRIPT_NAME = "3Dmol-min.js"

_ELEMENT_COLOURS = {
    "H": "#EDEDED",
    "C": "#6B6B6B",
    "N": "#0072B2",
    "O": "#D55E00",
    "F": "#009E73",
    "S": "#E69F00",
    "Cl": "#56B4E9",
    "P": "#CC79A7",
}
_OTHER_ELEMENT = "#B8A1C9"
_PER_ROW = 4
_MOST_DRAWN = 12
_MOST_EMBEDDED = 200
_TILTS = (0, 12, 24, 36, -12, -24, -36)
_CLEAR = 0.8
_BOND_LINES = {1.0: (0.0,), 2.0: (-0.09, 0.09), 3.0: (-0.15, 0.0, 0.15)}
_SUBSCRIPTS = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")


def molecule(data: Any, *, title: str | None = None, alt: str | None = None) -> Picture:
    """Draw one molecule, flattened along its thinnest side; nearer atoms are larger and stronger.

    Args:
        data: `z` `[num_atoms]` (atomic numbers), `pos` `[num_atoms, 3]`, `edge_index` `[2, num_edges]`
            (each bond in both directions), and, if there, `edge_attr` `[num_edges, 4]` as in QM9 (single,
            double, triple, aromatic).
        title: Words above the drawing.
        alt: Alternative text, instead of the formula and the counts.

    Example:
        >>> import torch
        >>> from torch_geometric.data import Data
        >>> bond = torch.tensor([[0, 1], [1, 0]])
        >>> molecule(Data(z=torch.tensor([1, 1]), pos=0.74 * torch.eye(3)[:2], edge_index=bond))
        Drawing of the molecule H2: 2 atoms, 1 bond.
    """
    shown = _read(data)
    with style.styled():
        figure = style.new_figure(3.4, width=4.0)
        _draw(figure.subplots(), shown, style.NORMAL)
        figure.suptitle(title or f"{_chemical(shown.formula)}: {shown.counts}", fontsize=style.LARGE)
    return Picture(figure, alt or f"Drawing of the molecule {shown.formula}: {shown.counts}.")


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
        dataset: Molecules as for `molecule`.
        count: How many of them, from the first on, at most 200: they are stored in the notebook.
        captions: A few words for each, shown after its formula, such as its HOMO-LUMO gap.
        height: Of the 3D view, in pixels.
        alt: Alternative text of the picture that is shown where no script runs.
    """
    count = min(count, len(dataset))
    if not 1 <= count <= _MOST_EMBEDDED:
        raise ValueError(
            f"between 1 and {_MOST_EMBEDDED} molecules can be stored in a notebook (got {count})"
        )
    if captions is not None and len(captions) < count:
        raise ValueError(f"one caption is needed for each of {count} molecules (got {len(captions)})")
    import py3Dmol

    shown = [_read(dataset[index]) for index in range(count)]
    picture = _sheet(shown, alt)
    labels = [f"{one.formula.translate(_SUBSCRIPTS)}: {one.counts}" for one in shown]
    if captions is not None:
        labels = [f"{label}, {caption}" for label, caption in zip(labels, captions)]
    payload = {
        "molecules": [
            {
                "label": label,
                "atoms": [[name, *place] for name, place in zip(one.symbols, one.flat.round(2).tolist())],
                "bonds": [[int(start), int(end), float(order)] for start, end, order in one.bonds],
            }
            for one, label in zip(shown, labels)
        ],
        "colours": {symbol: shade.replace("#", "0x") for symbol, shade in _ELEMENT_COLOURS.items()},
        "ink": {symbol: style.ink_on(shade) for symbol, shade in _ELEMENT_COLOURS.items()},
        "network": f"https://cdn.jsdelivr.net/npm/3dmol@{py3Dmol.__version__}/build/{SCRIPT_NAME}",
        "height": height,
    }
    return scripted("molecules", payload, picture)


def browse(dataset: Sequence[Any]) -> Any:
    """A slider over a whole dataset, one drawn molecule at a time; an ipywidget, so a kernel has to run.

    Args:
        dataset: Molecules as for `molecule`; however many there are, only the one chosen is read.
    """
    import ipywidgets
    from IPython.display import display

    slider = ipywidgets.IntSlider(min=0, max=len(dataset) - 1, description="molecule")
    return ipywidgets.interactive(lambda index: display(molecule(dataset[index])), index=slider)


def scripted(name: str, payload: dict[str, Any], picture: Picture) -> Page:
    """A page with `picture`, which the script `name`.js beside this file replaces, given `payload`."""
    data = html.escape(json.dumps(payload, separators=(",", ":"), sort_keys=True), quote=True)
    script = (Path(__file__).parent / f"{name}.js").read_text(encoding="utf-8")
    shown = f'<div class="gnn-{name}" data-{name}="{data}">{picture.html}<script>{script}</script></div>'
    return Page(shown, picture.alt, picture.png)


class _Molecule(NamedTuple):
    """Radii are `[num_atoms]`; flat is x, y, nearness, `[num_atoms, 3]`; bonds are start, end, order."""

    symbols: list[str]
    radii: np.ndarray
    flat: np.ndarray
    bonds: np.ndarray

    @property
    def formula(self) -> str:
        counts = {symbol: self.symbols.count(symbol) for symbol in sorted(set(self.symbols))}
        first = [symbol for symbol in ("C", "H") if "C" in counts and symbol in counts]
        order = first + [symbol for symbol in counts if symbol not in first]
        return "".join(f"{symbol}{counts[symbol] if counts[symbol] > 1 else ''}" for symbol in order)

    @property
    def counts(self) -> str:
        return f"{style.counted(len(self.symbols), 'atom')}, {style.counted(len(self.bonds), 'bond')}"


def _read(data: Any) -> _Molecule:
    from periodictable import elements

    for name in ("z", "pos", "edge_index"):
        if getattr(data, name, None) is None:
            raise ValueError(f"a molecule needs z, pos and edge_index (got {data!r}, without {name})")
    atoms = [elements[int(number)] for number in style.as_array(data.z)]
    edge_index = style.as_array(data.edge_index)
    kinds = getattr(data, "edge_attr", None)
    orders = np.ones(edge_index.shape[1])
    if kinds is not None and style.as_array(kinds).ndim == 2 and style.as_array(kinds).shape[1] == 4:
        orders = style.as_array(kinds) @ np.array([1.0, 2.0, 3.0, 1.5])
    once = edge_index[0] < edge_index[1]
    bonds = np.concatenate([edge_index[:, once], orders[None, once]]).T
    radii = np.array([atom.covalent_radius for atom in atoms], dtype=float)
    return _Molecule(
        [atom.symbol for atom in atoms], radii, _flatten(style.as_array(data.pos).astype(float)), bonds
    )


def _flatten(places: np.ndarray) -> np.ndarray:
    """Turned to lie flat, then tilted until no atom hides another; x, y and nearness, `[num_atoms, 3]`."""
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
    return min(float(gaps[np.triu_indices(len(places), 1)].min(initial=_CLEAR)), _CLEAR)


def _sheet(shown: list[_Molecule], alt: str | None) -> Picture:
    """The first molecules side by side."""
    drawn = shown[:_MOST_DRAWN]
    rows = -(-len(drawn) // _PER_ROW)
    with style.styled():
        figure = style.new_figure(1.6 * rows)
        for place, one in enumerate(drawn):
            axes = figure.add_subplot(rows, _PER_ROW, place + 1)
            _draw(axes, one)
            axes.set_title(_chemical(one.formula), fontsize=style.NORMAL, pad=1, loc="center")
    of_them = f"{len(drawn)} of " if len(drawn) < len(shown) else ""
    words = "; ".join(f"{one.formula}: {one.counts}" for one in drawn)
    return Picture(figure, alt or f"Drawing of {of_them}{style.counted(len(shown), 'molecule')}. {words}.")


def _chemical(formula: str) -> str:
    return "".join(f"$_{{{sign}}}$" if sign.isdigit() else sign for sign in formula)


def _draw(axes: Any, shown: _Molecule, letters: float | None = None) -> None:
    """Atoms and bonds; symbols only where there is room to read them."""
    axes.set_axis_off()
    axes.set_aspect("equal")
    places, depth = shown.flat[:, :2], shown.flat[:, 2]
    near = (depth - depth.min()) / max(np.ptp(depth), 1e-9) if len(depth) > 1 else np.ones(1)
    lines: dict[str, list[np.ndarray]] = {"-": [], ":": []}
    for start, end, order in shown.bonds:
        ends = places[[int(start), int(end)]]
        along = ends[1] - ends[0]
        across = np.array([-along[1], along[0]]) / max(np.linalg.norm(along), 1e-9)
        for number, offset in enumerate(_BOND_LINES.get(order, (-0.07, 0.07))):
            lines[":" if order == 1.5 and number == 1 else "-"].append(ends + offset * across)
    for dashes, spots in lines.items():
        pairs = np.arange(2 * len(spots)).reshape(-1, 2).T
        style.links(axes, np.reshape(spots, (-1, 2)), pairs, linestyle=dashes, linewidth=1.4, zorder=5)
    for atom in np.argsort(depth):
        shade = _ELEMENT_COLOURS.get(shown.symbols[atom], _OTHER_ELEMENT)
        strength = 0.72 + 0.28 * near[atom]
        red, green, blue = (1 - strength * (1 - part) for part in to_rgb(shade))
        fill = to_hex((red, green, blue))
        radius = (0.2 + 0.2 * shown.radii[atom]) * (0.9 + 0.2 * near[atom])
        x, y = map(float, places[atom])
        layer = 10 + near[atom]
        look: dict[str, Any] = {"edgecolor": style.LINK, "linewidth": 0.7, "zorder": layer}
        axes.add_patch(Circle((x, y), radius, facecolor=fill, clip_on=False, **look))
        if letters:
            look = {"color": style.ink_on(fill), "fontsize": letters, "zorder": layer}
            style.write(axes, x, y, shown.symbols[atom], **look)
    low, high = places.min(0) - 0.7, places.max(0) + 0.7
    half, middle = max(*(high - low), 4.0) / 2, (low + high) / 2
    axes.set(xlim=(middle[0] - half, middle[0] + half), ylim=(middle[1] - half, middle[1] + half))
