"""Figures for the tutorials: molecules, batches, losses, padding waste. One style, each with alternative text.

Every function returns an object that shows itself in a notebook; nothing has to be plotted, shown or closed.
"""

from .batch_views import adjacency, batch, batches
from .molecule_views import browse, molecule, molecules
from .pictures import Page, Picture

__all__ = ["Page", "Picture", "adjacency", "batch", "batches", "browse", "molecule", "molecules"]
