"""Fixed-size batching and static-graph execution for PyTorch Geometric, with or without an IPU.

`from gnn_ipu_helpers import datasets, viewers` gives the tutorials' data and figures; they are not imported
here, so that the loaders can be used without what those need.
"""

from ._backend import backend, compile_count, poptorch, settings_without_effect
from .batching import (
    DataLoader,
    FixedSizeClusterLoader,
    FixedSizeDataLoader,
    FixedSizeNeighborLoader,
    FixedSizeOptions,
    FixedSizeStrategy,
    OverSizeStrategy,
    PackSampler,
    efficiency,
    neighbor_loader,
    partition,
)
from .porting import check

__version__ = "0.2.0"

__all__ = [
    "DataLoader",
    "FixedSizeClusterLoader",
    "FixedSizeDataLoader",
    "FixedSizeNeighborLoader",
    "FixedSizeOptions",
    "FixedSizeStrategy",
    "OverSizeStrategy",
    "PackSampler",
    "backend",
    "check",
    "compile_count",
    "efficiency",
    "neighbor_loader",
    "partition",
    "poptorch",
    "settings_without_effect",
]
