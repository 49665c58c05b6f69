"""The one style of all figures, and the objects that bring them into a notebook with alternative text."""

from __future__ import annotations

import base64
import html
import io
from pathlib import Path
from typing import Any, Sequence

import matplotlib
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Patch

# Okabe and Ito's palette without its yellow, which is too pale for lines on white; neighbours differ in
# lightness too, so that the order also works in grey.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#000000")
DARK_COLOURS = ("#0072B2", "#009E73", "#D55E00", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
HATCHES = ("", "//", "..", "\\\\", "xx", "--", "++")
LINES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (1, 1)))

INK = "#222222"
PADDING_FILL = "#E4E4E4"
PADDING_EDGE = "#8A8A8A"
PADDING_HATCH = "////"
PADDING = {"facecolor": PADDING_FILL, "edgecolor": PADDING_EDGE, "hatch": PADDING_HATCH, "linewidth": 0.6}

# 5.6 inches shown at 560 pixels: squeezed to a 400 pixel screen, 9.5 point text is still nine pixels high.
WIDTH = 5.6
_SCREEN_PIXELS_PER_INCH = 100
_DPI = 128
_PALETTE_SIZE = 48

STYLE: dict[str, Any] = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 9.5,
    "axes.titlesize": 10.5,
    "axes.labelsize": 9.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "legend.frameon": False,
    "legend.fontsize": 9,
    "hatch.linewidth": 0.6,
    "lines.linewidth": 1.8,
    "lines.markersize": 5,
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
    "svg.fonttype": "path",
    "svg.hashsalt": "gnn_ipu_helpers",
}


class Page:
    """Something shown as HTML in a notebook, and as a picture or as text where HTML cannot be shown.

    Attributes:
        html: what a notebook shows.
        alt: the same in words.
        png: a picture for readers whose viewer shows no HTML, or None.
    """

    def __init__(self, html: str, alt: str, png: bytes | None = None) -> None:
        self.html = html
        self.alt = alt
        self.png = png

    def __repr__(self) -> str:
        return self.alt

    def _repr_mimebundle_(
        self, include: Any = None, exclude: Any = None
    ) -> tuple[dict[str, str], dict[str, dict[str, Any]]]:
        data = {"text/html": self.html, "text/plain": self.alt}
        metadata: dict[str, dict[str, Any]] = {}
        if self.png is not None:
            data["image/png"] = base64.b64encode(self.png).decode("ascii")
            metadata["image/png"] = {"alt": self.alt}
        return data, metadata


class Picture(Page):
    """A drawn figure with alternative text.

    Notebook outputs hold an ``<img>`` with its ``alt``: the page that nbconvert makes of a bare PNG has none.

    Attributes:
        figure: the matplotlib figure, to change before it is shown; pyplot does not know it: no closing.
    """

    def __init__(self, figure: Figure, alt: str) -> None:
        # Laid out once: laying out again with every rendering would shift things by a pixel.
        with styled():
            if figure.get_layout_engine() is not None:
                figure.get_layout_engine().execute(figure)
        figure.set_layout_engine("none")
        self.figure = figure
        self.alt = alt

    @property
    def png(self) -> bytes:  # type: ignore[override]
        """The picture as PNG; the same bytes on every call."""
        return _render_png(self.figure)

    @property
    def html(self) -> str:  # type: ignore[override]
        """The picture as an ``<img>`` with its alternative text."""
        width = round(self.figure.get_figwidth() * _SCREEN_PIXELS_PER_INCH)
        return image_tag(self.png, self.alt, width)

    def save(self, path: Any) -> None:
        """Write the picture to ``path``; its suffix, .png or .svg, says as what."""
        path = Path(path)
        if path.suffix == ".png":
            path.write_bytes(self.png)
        elif path.suffix == ".svg":
            path.write_text(_render_svg(self.figure, self.alt), encoding="utf-8")
        else:
            raise ValueError(f"a picture is saved as .png or .svg (got {path.name!r})")


def new_figure(height: float, width: float = WIDTH) -> Figure:
    """An empty figure, in inches, that pyplot knows nothing of; draw on it inside ``styled()``."""
    figure = Figure(figsize=(width, height), dpi=_DPI, layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def styled() -> Any:
    """A context in which matplotlib draws in the package's style."""
    return matplotlib.rc_context(STYLE)


def image_tag(png: bytes, alt: str, width: int) -> str:
    """An HTML image of ``png``, at most ``width`` pixels wide and never wider than the screen."""
    source = base64.b64encode(png).decode("ascii")
    return (
        f'<img src="data:image/png;base64,{source}" alt="{html.escape(alt, quote=True)}" '
        f'width="{width}" style="max-width:100%;height:auto;background:#fff">'
    )


def colour(index: int) -> str:
    """The colour of series, class or graph number ``index``; repeats after seven."""
    return COLOURS[index % len(COLOURS)]


def marker(index: int) -> str:
    """The marker of series or class number ``index``."""
    return MARKERS[index % len(MARKERS)]


def padding_patch() -> Patch:
    """The entry of a legend that says what hatched grey means."""
    return Patch(label="padding", **PADDING)


def as_array(values: Any) -> np.ndarray:
    """A tensor, list or array as a NumPy array."""
    if hasattr(values, "detach"):
        values = values.detach().cpu().numpy()
    return np.asarray(values)


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """``1 node``, ``2 nodes``, ``12,828 edges``."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def listed(items: Sequence[str]) -> str:
    """``none``, ``a``, ``a and b``, ``a, b and c``."""
    *others, last = items or ["none"]
    return f"{', '.join(others)} and {last}" if others else last


def _render_png(figure: Figure) -> bytes:
    from PIL import Image

    drawn = io.BytesIO()
    with styled():
        figure.savefig(drawn, format="png", dpi=_DPI, metadata={"Software": None})
    drawn.seek(0)
    image = Image.open(drawn).convert("RGB")
    image = image.quantize(palette=_palette(image), dither=Image.Dither.NONE)
    packed = io.BytesIO()
    image.save(packed, format="PNG", optimize=True)
    return packed.getvalue()


def _palette(image: Any) -> Any:
    """Few colours, for a third of the size of true colour; ours are among them, however rarely drawn."""
    from PIL import Image

    exact = np.array([to_rgb(shade) for shade in (*COLOURS, "white")]) * 255
    frequent = image.quantize(_PALETTE_SIZE - len(exact), method=Image.Quantize.FASTOCTREE).getpalette()
    frequent = np.array(frequent[: 3 * (_PALETTE_SIZE - len(exact))]).reshape(-1, 3)
    # An almost white entry would be taken for white: the match is not exact.
    gaps = np.abs(frequent[:, None] - exact[None]).max(-1)
    frequent = np.where((gaps.min(1) < 12)[:, None], exact[gaps.argmin(1)], frequent)
    palette = Image.new("P", (1, 1))
    palette.putpalette(np.concatenate([frequent, exact]).round().astype(int).reshape(-1).tolist())
    return palette


def _render_svg(figure: Figure, alt: str) -> str:
    drawn = io.StringIO()
    with styled():
        figure.savefig(drawn, format="svg", metadata={"Date": None, "Creator": None, "Title": alt})
    lines = (line.rstrip() for line in drawn.getvalue().splitlines())
    return "\n".join(lines) + "\n"
