"""Figures for the tutorials: molecules, batches, losses, padding waste. One style, alternative text on each.

Every function returns an object that shows itself in a notebook; nothing has to be plotted, shown or closed.
"""

try:
    import matplotlib  # noqa: F401
except ImportError as error:
    raise ModuleNotFoundError(
        "gnn_ipu_helpers.viewers draws with matplotlib, which is not installed: "
        'pip install "gnn_ipu_helpers[viewers]"',
        name="matplotlib",
    ) from error

from .charts import confusion, embedding, losses, packs, padding_waste, parity
from .exercises import diff
from .graphs import adjacency, batch, batches, schema, subgraph
from .molecules import browse, molecule, molecules
from .packing_explorer import packing_explorer
from .pictures import Page, Picture

__all__ = [
    "Page",
    "Picture",
    "adjacency",
    "batch",
    "batches",
    "browse",
    "confusion",
    "diff",
    "embedding",
    "losses",
    "molecule",
    "molecules",
    "packing_explorer",
    "packs",
    "padding_waste",
    "parity",
    "schema",
    "subgraph",
]
