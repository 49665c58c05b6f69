"""Fixed-size batching and static-graph execution for PyTorch Geometric, with or without an IPU.

`datasets` and `viewers`, the tutorials' data and figures, are imported when they are first asked for, so that
the loaders can be used without what those need.
"""

from __future__ import annotations

import importlib
from typing import Any

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


def __getattr__(name: str) -> Any:
    if name in ("datasets", "viewers"):
        return importlib.import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), "datasets", "viewers"])
