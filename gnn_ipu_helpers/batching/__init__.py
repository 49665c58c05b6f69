"""Batches of one fixed size: options, strategies and loaders."""

from .collating import collate_fixed_size
from .options import FixedSizeOptions
from .strategies import FixedSizeStrategy, OverSizeStrategy

__all__ = [
    "FixedSizeOptions",
    "FixedSizeStrategy",
    "OverSizeStrategy",
    "collate_fixed_size",
]
