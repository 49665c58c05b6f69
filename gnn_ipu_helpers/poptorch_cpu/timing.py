"""How long the mini-batches of the last call took."""

from __future__ import annotations

import time

from .errors import Error


class CallTimes:
    """Start and end of each mini-batch of one call."""

    def __init__(self) -> None:
        self._starts: list[float] = []
        self._ends: list[float] = []

    def clear(self) -> None:
        """Begin another call."""
        self._starts, self._ends = [], []

    def start(self) -> None:
        """A mini-batch begins."""
        self._starts.append(time.perf_counter())

    def end(self) -> None:
        """The mini-batch is done."""
        self._ends.append(time.perf_counter())

    def counters(self) -> tuple[list[float], ...]:
        """When input began and ended, and output began and ended; both take no time here."""
        return self._starts, self._starts, self._ends, self._ends

    def latency(self) -> tuple[float, float, float]:
        """Minimum, maximum and mean in seconds."""
        if not self._ends:
            raise Error("getLatency needs a call of the model before.")
        seconds = [end - start for start, end in zip(self._starts, self._ends)]
        return (min(seconds), max(seconds), sum(seconds) / len(seconds))
