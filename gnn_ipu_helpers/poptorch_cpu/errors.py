"""What PopTorch raises, and how an unknown name is reported."""

from __future__ import annotations

import difflib
from typing import Any, Iterable, NoReturn


class Error(RuntimeError):
    """Raised when a model cannot be compiled, or is called in a way the compiled graph cannot serve.

    Attributes:
        findings: What `gnn_ipu_helpers.check` finds when the model is not static, else empty.
        message, type, location: As PopTorch has them.
    """

    def __init__(self, message: str = "", findings: Iterable = ()) -> None:
        super().__init__(message)
        self.findings = list(findings)
        self.message = message
        self.type = "poptorch_py_error"
        self.location = ""

    def __reduce__(self) -> tuple:
        return type(self), (self.message, self.findings)


class RecoverableError(Error):
    """What an IPU raises where a reset helps; never raised here."""

    recovery_action = ""


class UnrecoverableError(Error):
    """What an IPU raises where only a person can help; never raised here."""


class ConfigFileError(Exception):
    """Raised when a line of an options file cannot be applied."""


class InvalidSetting(ValueError, AssertionError):
    """A value that a setting does not take. PopTorch raises one or the other, depending on the setting."""


def offer_only(owner: str, name: str, known: Iterable[str]) -> NoReturn:
    """Raise `AttributeError` for a name that PopTorch does not have, with the names that come close."""
    public = sorted(item for item in known if not item.startswith("_"))
    by_lower = {item.lower(): item for item in public}
    close = difflib.get_close_matches(name.lower().replace("_", ""), by_lower, 3)
    hint = f"Did you mean {' or '.join(by_lower[match] for match in close)}?" if close else ""
    hint = hint or f"It has: {', '.join(public)}."
    raise AttributeError(f"{owner} has no name {name!r}: PopTorch does not offer it. {hint}")


def only_on_ipu(what: str, instead: str) -> Error:
    """The error for something that needs an IPU to mean anything."""
    return Error(f"{what} needs an IPU, and this is the CPU implementation of PopTorch's calls. {instead}")


def require_instance(what: str, value: Any, kind: type) -> Any:
    """`value`, which must be of this type."""
    if not isinstance(value, kind):
        raise InvalidSetting(f"{what} must be a {kind.__name__} (got {value!r}).")
    return value
