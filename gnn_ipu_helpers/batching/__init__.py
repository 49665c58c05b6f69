"""Batches of one fixed size: options, strategies and loaders."""

from .collating import collate_fixed_size
from .efficiency import Efficiency, efficiency
from .loaders import DataLoader, FixedSizeDataLoader
from .options import FixedSizeOptions, FixedSizeStrategy, OverSizeStrategy
from .partitioning import partition
from .planning import PackSampler
from .subgraph_loaders import FixedSizeClusterLoader, FixedSizeNeighborLoader, neighbor_loader
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
    "PackSampler",
    "Trimmed",
    "collate_fixed_size",
    "efficiency",
    "neighbor_loader",
    "partition",
    "trim",
]
