"""The device itself: which one is there, and how much it says."""

from __future__ import annotations

import logging

_LEVELS = {
    "TRACE": logging.DEBUG,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "ERR": logging.ERROR,
    "OFF": logging.CRITICAL + 1,
}
_BY_NUMBER = dict(enumerate(_LEVELS))


def ipuHardwareIsAvailable(num_ipus: int = 1) -> bool:
    """Whether there are this many IPUs: not where this module is in use."""
    return False


def ipuHardwareVersion() -> int:
    """The version of the IPU, 0 where there is none."""
    return 0


def isRunningOnIpu() -> bool:
    """Whether this code is being compiled for an IPU: never here."""
    return False


def setLogLevel(level: str | int) -> None:
    """Print messages of this level and above: TRACE, DEBUG, INFO, WARN, ERR or OFF (or 0 to 5)."""
    name = _BY_NUMBER.get(level, level)
    if name not in _LEVELS:
        raise ValueError(f"The level must be one of {', '.join(_LEVELS)} (got {level!r}).")
    logging.getLogger("poptorch").setLevel(_LEVELS[name])
