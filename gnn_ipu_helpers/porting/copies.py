"""Copies to experiment on, so that the user's objects stay as they are."""

from __future__ import annotations

import copy
from typing import Any


def copied(value: Any) -> Any:
    """A deep copy of `value`, or `value` itself where it cannot be copied."""
    try:
        return copy.deepcopy(value)
    except (RuntimeError, TypeError):  # a tensor in the middle of a graph of gradients, an open file …
        return value
