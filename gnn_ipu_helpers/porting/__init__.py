"""The static-graph check, its hints, and what lets PyG's layers compile into one static graph."""

from .checking import check
from .findings import Finding, Place, Report, StaticGraphError
from .replacements import static_replacements
from .tracing import static_compile

__all__ = ["Finding", "Place", "Report", "StaticGraphError", "check", "static_compile", "static_replacements"]
