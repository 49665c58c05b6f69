"""Static versions of PyG code that is dynamic inside though its result is not, in force while compiling."""

from . import aggregations, convolutions, models, norms, points, recurrent, relations, splines
from .scope import concerns_replacement, replaced_by, static_replacements

__all__ = [
    "aggregations",
    "concerns_replacement",
    "convolutions",
    "models",
    "norms",
    "points",
    "recurrent",
    "relations",
    "replaced_by",
    "splines",
    "static_replacements",
]
