"""Batches of one fixed size: options, strategies and loaders."""

from .cluster_loader import FixedSizeClusterLoader
from .collating import collate_fixed_size
from .data_loader import DataLoader
from .efficiency import Efficiency, efficiency
from .fixed_size_loader import FixedSizeDataLoader
from .neighbor_loader import FixedSizeNeighborLoader, neighbor_loader
from .options import FixedSizeOptions
from .partitioning import partition
from .strategies import FixedSizeStrategy, OverSizeStrategy
from .trimming import Trimmed, trim

__all__ = [
    "DataLoader",
    "Efficiency",
    "FixedSizeClusterLoader",
    "FixedSizeDataLoader",
    "FixedSizeNeighborLoader",
    "FixedSizeOptions",
    "FixedSizeStrategy",
    "OverSizeStrategy",
    "Trimmed",
    "collate_fixed_size",
    "efficiency",
    "neighbor_loader",
    "partition",
    "trim",
]
