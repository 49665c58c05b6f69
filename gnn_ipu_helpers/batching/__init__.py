"""Batches of one fixed size: options, strategies and loaders."""

from .collating import collate_fixed_size
from .data_loader import DataLoader
from .efficiency import Efficiency, efficiency
from .fixed_size_loader import FixedSizeDataLoader
from .options import FixedSizeOptions
from .strategies import FixedSizeStrategy, OverSizeStrategy
from .trimming import Trimmed, trim

__all__ = [
    "DataLoader",
    "Efficiency",
    "FixedSizeDataLoader",
    "FixedSizeOptions",
    "FixedSizeStrategy",
    "OverSizeStrategy",
    "Trimmed",
    "collate_fixed_size",
    "efficiency",
    "trim",
]
