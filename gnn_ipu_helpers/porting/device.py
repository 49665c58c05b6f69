"""Whether a model's code is being traced for the device at this moment, and for what."""

from __future__ import annotations

import contextlib
from typing import Iterator

_traced_for: str | None = None


def isRunningOnIpu() -> bool:
    """Whether this code is part of a model that is being compiled for the device: then it is True, also where
    the device is the CPU implementation; on the host it is False.

    Example:
        >>> isRunningOnIpu()
        False
    """
    return _traced_for is not None


def is_training_on_device() -> bool:
    """Whether a model is being compiled for training."""
    return _traced_for == "training"


@contextlib.contextmanager
def on_device(training: bool) -> Iterator[None]:
    """Around the tracing of a model."""
    global _traced_for
    before, _traced_for = _traced_for, "training" if training else "inference"
    try:
        yield
    finally:
        _traced_for = before
