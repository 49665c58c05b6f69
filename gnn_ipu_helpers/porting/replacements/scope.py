"""Putting the replacements in force, and taking every one of them back."""

from __future__ import annotations

import contextlib
import threading
from typing import Any, Callable, List, Tuple

_LOCK = threading.RLock()
_REPLACEMENTS: List[Tuple[Any, str, Callable]] = []


@contextlib.contextmanager
def static_replacements():
    """Within this context PyG's dynamic-inside layers run their static versions; afterwards everything is as before.

    One thread at a time; may be nested.
    """
    with _LOCK, contextlib.ExitStack() as stack:
        for owner, name, replacement in _REPLACEMENTS:
            stack.callback(setattr, owner, name, getattr(owner, name))
            setattr(owner, name, replacement)
        yield


def is_replacement(value: Any) -> bool:
    """Whether `value` is a replacement or part of one (its code object)."""
    return any(value is function or value is function.__code__ for _, _, function in _REPLACEMENTS)
