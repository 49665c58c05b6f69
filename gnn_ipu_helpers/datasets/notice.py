"""Messages that a reader sees once, as plain output rather than as a warning."""

from __future__ import annotations

_shown: set[str] = set()


def notify_once(topic: str, message: str) -> None:
    """Print `message` unless something was already said about `topic` in this process."""
    if topic not in _shown:
        _shown.add(topic)
        print(message, flush=True)


def forget_notices() -> None:
    """Say everything again, as a new process would."""
    _shown.clear()
