"""What to write instead: from the place where a value turns dynamic to words that help."""

from __future__ import annotations

from .findings import Finding, Place
from .inspection import Origin
from .places import from_summary, locate, shown


def explain(origin: Origin) -> Finding:
    """The finding for a node of the graph that is not static."""
    return _finding(origin.operation, origin.frames, "its size or value depends on data", "TODO")


def explain_failure(error: Exception) -> Finding:
    """The finding for a trace that could not go on."""
    frames = from_summary(getattr(error, "real_stack", None))
    return _finding("failure", frames, str(error).splitlines()[0], "TODO")


def _finding(operation: str, frames: list[Place], reason: str, remedy: str) -> Finding:
    user, cause = locate(frames)
    user = user or Place("", 0)
    return Finding(operation, shown(user.file), user.line, user.source, reason, remedy, _shown_place(cause))


def _shown_place(place: Place | None) -> Place | None:
    return place and Place(shown(place.file), place.line, place.function, place.source)
