"""The house style of all figures, and the objects that bring them into a notebook with alternative text.

A figure is vector graphics in an `<img>`: it survives the sanitising of untrusted notebooks, which removes
inline SVG, and keeps its alternative text. It paints its own ground and holds the colours for dark pages, so
that it can be read wherever it is shown. Names stand beside what they name; no hatching, no black marks.
"""

from __future__ import annotations

import base64
import html
import io
import re
from pathlib import Path
from typing import Any, Sequence

import matplotlib
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

# Okabe and Ito's palette without its yellow, too pale for lines on white, and with purple for its black,
# which dark pages swallow; neighbours differ in lightness too, so that the order also works in grey.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#8060B4")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
LINES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (1, 1)))

# Not quite grey: dark pages change these by value, and no mark that only happens to be grey.
INK, GROUND, PALE, GRID, LINK = "#222221", "#FFFFFF", "#F2F2F1", "#DDDDDC", "#777776"
PADDING_FILL, PADDING_EDGE = "#E2E2E1", "#8A8A8A"
# Writing on a coloured mark, which keeps its colour on a dark page: so does the writing.
_ON_DARK, _ON_LIGHT = "#FEFEFE", "#1A1A1A"
# What a dark page has for each; black is what figures drawn by others are written in.
_NIGHT = {
    COLOURS[0]: "#2B8CD0",
    INK: "#E8E8E8",
    GROUND: "#121212",
    PALE: "#262626",
    GRID: "#3A3A3A",
    LINK: "#9A9A9A",
    PADDING_FILL: "#404040",
    "#000000": "#E8E8E8",
}

# 5.6 inches shown at 560 pixels: on a screen of 400 pixels, the smallest text is still eight pixels high.
WIDTH = 5.6
SMALL, NORMAL, LARGE = 9.0, 10.0, 11.0
_SCREEN_PIXELS_PER_INCH = 100
_DPI = 128
_PNG_COLOURS = 64
_MOST_VECTOR_DOTS = 300

STYLE: dict[Any, Any] = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": NORMAL,
    "axes.titlesize": LARGE,
    "axes.titlelocation": "left",
    "axes.labelsize": NORMAL,
    "xtick.labelsize": SMALL,
    "ytick.labelsize": SMALL,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    **{name: LINK for name in ("axes.edgecolor", "xtick.color", "ytick.color")},
    **{name: INK for name in ("text.color", "axes.labelcolor", "xtick.labelcolor", "ytick.labelcolor")},
    "grid.color": GRID,
    "grid.linewidth": 0.7,
    "legend.frameon": False,
    "legend.fontsize": SMALL,
    "figure.constrained_layout.h_pad": 0.07,
    "lines.linewidth": 1.8,
    "lines.markersize": 5,
    "figure.facecolor": GROUND,
    "axes.facecolor": "none",
    "savefig.facecolor": GROUND,
    "svg.fonttype": "path",
    "svg.hashsalt": "gnn_ipu_helpers",
}


class Page:
    """Something shown as HTML in a notebook, and as a picture or as text where HTML cannot be shown.

    Attributes:
        html: What a notebook shows.
        alt: The same in words.
        png: A picture for readers whose viewer shows no HTML, or None.
    """

    def __init__(self, html: str, alt: str, png: bytes | None = None) -> None:
        self._html, self.alt, self._png = html, alt, png

    @property
    def html(self) -> str:
        return self._html

    @property
    def png(self) -> bytes | None:
        return self._png

    def __repr__(self) -> str:
        return self.alt

    def _repr_mimebundle_(
        self, include: Any = None, exclude: Any = None
    ) -> tuple[dict[str, str], dict[str, dict[str, Any]]]:
        data = {"text/html": self.html, "text/plain": self.alt}
        if self.png is None:
            return data, {}
        data["image/png"] = base64.b64encode(self.png).decode("ascii")
        return data, {"image/png": {"alt": self.alt}}


class Picture(Page):
    """A drawn figure with alternative text: SVG in a notebook and on its pages, PNG elsewhere.

    Attributes:
        figure: The matplotlib figure, to change before it is shown; pyplot does not know it: no closing.
    """

    def __init__(self, figure: Figure, alt: str) -> None:
        # Laid out once: laying out again with every rendering would shift things by a pixel.
        engine = figure.get_layout_engine()
        if engine is not None:
            with styled():
                engine.execute(figure)
        figure.set_layout_engine("none")
        self.figure, self.alt = figure, alt

    @property
    def html(self) -> str:
        """The picture as an `<img>` of SVG, never wider than the screen."""
        source = base64.b64encode(self.svg.encode()).decode("ascii")
        width = round(self.figure.get_figwidth() * _SCREEN_PIXELS_PER_INCH)
        return (
            f'<img src="data:image/svg+xml;base64,{source}" alt="{html.escape(self.alt, quote=True)}" '
            f'width="{width}" style="max-width:100%;height:auto">'
        )

    @property
    def svg(self) -> str:
        """The picture as SVG with the colours of dark pages; the same text on every call."""
        drawn = io.StringIO()
        with styled():
            self.figure.savefig(
                drawn, format="svg", metadata={"Date": None, "Creator": None, "Title": self.alt}
            )
        text = re.sub(r"<!--.*?-->\n?", "", drawn.getvalue(), flags=re.DOTALL)
        # Hundredths of a point are finer than any screen, and half the size of matplotlib's six digits.
        text = re.sub(r'(?<= )(d|x|y)="[^"]*"', lambda found: re.sub(r"(\.\d\d)\d+", r"\1", found[0]), text)
        text = text.replace("</style>", f"{_night_rules()}</style>", 1)
        return "\n".join(line.strip() for line in text.splitlines()) + "\n"

    @property
    def png(self) -> bytes:
        """The picture as PNG in a palette of few colours, small; the same bytes on every call."""
        from PIL import Image

        drawn, packed = io.BytesIO(), io.BytesIO()
        with styled():
            self.figure.savefig(drawn, format="png", dpi=_DPI, metadata={"Software": None})
        image = Image.open(drawn).convert("RGB")
        image = image.quantize(_PNG_COLOURS, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
        image.save(packed, format="PNG", optimize=True)
        return packed.getvalue()

    def save(self, path: Any) -> None:
        """Write the picture to `path`; its suffix, .png or .svg, says as what."""
        path = Path(path)
        if path.suffix not in (".png", ".svg"):
            raise ValueError(f"a picture is saved as .png or .svg (got {path.name!r})")
        path.write_bytes(self.png if path.suffix == ".png" else self.svg.encode())


def _night_rules() -> str:
    rules = [
        f'[style*="{part}: {day.lower()}"]{{{part}:{night} !important}}'
        for day, night in _NIGHT.items()
        for part in ("fill", "stroke")
    ]
    # matplotlib leaves out the colour of what is black.
    return f"@media (prefers-color-scheme: dark){{svg{{fill:{_NIGHT[INK]}}}{''.join(rules)}}}"


def styled() -> Any:
    """A context in which matplotlib draws in the house style."""
    return matplotlib.rc_context(STYLE)


def new_figure(height: float, width: float = WIDTH) -> Figure:
    """An empty figure, in inches, that pyplot knows nothing of; draw on it inside `styled()`."""
    figure = Figure(figsize=(width, height), dpi=_DPI, layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def colour(index: int) -> str:
    """The colour of series, class or graph number `index`; repeats after seven."""
    return COLOURS[index % len(COLOURS)]


def marker(index: int) -> str:
    """The marker of series or class number `index`."""
    return MARKERS[index % len(MARKERS)]


def ink_on(fill: str) -> str:
    """The colour of writing on `fill` that contrasts more; on padding it follows the page."""
    if fill == PADDING_FILL:
        return INK
    red, green, blue = (part**2.2 for part in to_rgb(fill))
    return _ON_DARK if 0.2126 * red + 0.7152 * green + 0.0722 * blue < 0.18 else _ON_LIGHT


def write(axes: Any, x: float, y: float, words: str, **look: Any) -> Any:
    """Words centred on (x, y) unless `look` says otherwise."""
    return axes.text(x, y, words, **{"ha": "center", "va": "center", "fontsize": SMALL, **look})


def rectangle(axes: Any, corner: Sequence[float], width: float, height: float, **look: Any) -> None:
    """A rectangle from its lower left corner; separated from its neighbours by the ground."""
    place = (float(corner[0]), float(corner[1]))
    axes.add_patch(Rectangle(place, width, height, **{"edgecolor": GROUND, "linewidth": 1.0, **look}))


def dots(axes: Any, places: np.ndarray, size: float, fill: str, *, of: int = 0, **look: Any) -> None:
    """A dot on each of `places`, `[num_dots, 2]`, outlined by the ground, to tell touching ones apart.

    A cloud of many dots (`of` so many, if these are but a part of it) is one image among the vector graphics:
    there, each dot would take a hundred bytes.
    """
    if max(of, len(places)) > _MOST_VECTOR_DOTS:
        axes.set_rasterization_zorder(0)
        look["zorder"] = -1
    look = {"edgecolor": GROUND, "linewidth": 0.5, **look}
    axes.scatter(places[:, 0], places[:, 1], s=size, color=fill, **look)


def links(axes: Any, places: np.ndarray, pairs: np.ndarray, **look: Any) -> None:
    """Lines between `places`, `[num_places, 2]`, by pairs of their numbers, `[2, num_pairs]`, as one path."""
    ends = np.full((pairs.shape[1], 3, 2), np.nan)
    ends[:, :2] = places[pairs.T]
    axes.plot(*ends.reshape(-1, 2).T, **{"color": LINK, "linewidth": 1.0, "zorder": 1, **look})


def as_array(values: Any) -> np.ndarray:
    """A tensor, list or array as a NumPy array."""
    return np.asarray(values.detach().cpu() if hasattr(values, "detach") else values)


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """`1 node`, `2 nodes`, `12,828 edges`."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def listed(items: Sequence[str]) -> str:
    """`none`, `a`, `a and b`, `a, b and c`."""
    *others, last = items or ["none"]
    return f"{', '.join(others)} and {last}" if others else last


def percent(share: float) -> str:
    """Whole percents; all and nothing are only said of all and nothing."""
    whole = min(max(round(100 * share), 1), 99) if 0 < share < 1 else round(100 * share)
    return f"{whole} %"
