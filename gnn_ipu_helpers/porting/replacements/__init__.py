"""Static versions of PyG code that is dynamic inside though its result is not, in force only while compiling."""

from .scope import is_replacement, static_replacements

__all__ = ["is_replacement", "static_replacements"]
