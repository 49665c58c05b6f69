"""The static-graph check, its hints, and what lets PyG's layers compile into one static graph."""

from . import point_clouds
from .checking import check
from .findings import Finding, Place, Report, StaticGraphError
from .norms import MaskedBatchNorm
from .replacements import static_replacements
from .tracing import static_compile

__all__ = [
    "Finding",
    "MaskedBatchNorm",
    "Place",
    "Report",
    "StaticGraphError",
    "check",
    "point_clouds",
    "static_compile",
    "static_replacements",
]
