"""What PopTorch raises, and how an unknown name is reported."""

from __future__ import annotations

import difflib
from typing import Iterable


class Error(RuntimeError):
    """Raised when a model cannot be compiled, or is called in a way the compiled graph cannot serve.

    ``findings`` holds what :func:`gnn_ipu_helpers.check` finds when the model is not static, else nothing.
    """

    def __init__(self, message: str = "", findings: Iterable = ()) -> None:
        super().__init__(message)
        self.findings = list(findings)


class ConfigFileError(Exception):
    """Raised when a line of an options file cannot be applied."""


def unknown_name(owner: str, name: str, known: Iterable[str]) -> str:
    """The message for a name that PopTorch does not have, with the names that come close."""
    public = sorted(item for item in known if not item.startswith("_"))
    by_lower = {item.lower(): item for item in public}
    close = [
        by_lower[match] for match in difflib.get_close_matches(name.lower().replace("_", ""), by_lower, 3)
    ]
    hint = f" Did you mean {' or '.join(close)}?" if close else f" It has: {', '.join(public)}."
    return f"{owner} has no name {name!r}: PopTorch does not offer it.{hint}"


def only_on_ipu(what: str, instead: str) -> Error:
    """The error for something that needs an IPU to mean anything."""
    return Error(f"{what} needs an IPU, and this is the CPU implementation of PopTorch's calls. {instead}")
