"""Static versions of PyG code that is dynamic inside though its result is not, in force while compiling."""

from . import aggregations, convolutions, data, dense, models, norms, points, recurrent, relations, splines
from .host import print_while_tracing
from .scope import Original, concerns_replacement, replaced_by, static_replacements

__all__ = [
    "Original",
    "aggregations",
    "concerns_replacement",
    "convolutions",
    "data",
    "dense",
    "models",
    "norms",
    "points",
    "print_while_tracing",
    "recurrent",
    "relations",
    "replaced_by",
    "splines",
    "static_replacements",
]
