"""The static-graph check, its hints, and what lets PyG's layers compile into one static graph.

What needs the tracer is imported when it is first used, so that importing a loader imports no compiler.
"""

from __future__ import annotations

import importlib
from typing import Any

from .checking import assert_static, check, compare_padded, compilations
from .findings import Finding, Place, Report, StaticGraphError
from .norms import MaskedBatchNorm

_LATER = {
    "device_memory": "experiments",
    "point_clouds": "point_clouds",
    "static_compile": "tracing",
    "static_replacements": "static_layers",
}

__all__ = [
    "Finding",
    "MaskedBatchNorm",
    "Place",
    "Report",
    "StaticGraphError",
    "assert_static",
    "check",
    "compare_padded",
    "compilations",
    "device_memory",
    "point_clouds",
    "static_compile",
    "static_replacements",
]


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = importlib.import_module(f".{_LATER[name]}", __name__)
    return module if name == _LATER[name] else getattr(module, name)


def __dir__() -> list[str]:
    return __all__
