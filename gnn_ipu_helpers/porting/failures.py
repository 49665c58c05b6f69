"""Reading the exceptions with which a trace ends where it cannot go on."""

from __future__ import annotations

import re

from .inspection import Origin
from .places import from_summary

_UNKNOWN = "untraceable"
_KINDS = (
    (r"Data-dependent branching|__bool__", "branch"),
    (r"[Dd]ata-dependent assert", "assert"),
    (r"builtin operator `print`|builtin `print`", "print"),
    (r"[Tt]ensor\.(tolist|to_list)|tolist\(\)", "tolist"),
    (r"[Tt]ensor\.item|\.item\(\)", "item"),
    (r"numpy|NumPy", "numpy"),
    (
        r"data-dependent expression|data dependent expression|[Dd]ynamic (shape|slicing)|SymInt",
        "size",
    ),
    (r"[Ss]parse", "sparse"),
    (r"nonzero", "nonzero"),
    (r"unique", "unique"),
    (r"masked_select", "masked_select"),
)


def origin_of_failure(error: BaseException) -> Origin:
    """Where and by what kind of operation the trace was ended."""
    frames = from_summary(getattr(error, "real_stack", None))
    message = str(error).split("from user code:")[0]
    operation = next((kind for pattern, kind in _KINDS if re.search(pattern, message)), _UNKNOWN)
    return Origin(operation, frames, [], detail=_summary(error, message) if operation == _UNKNOWN else "")


def _summary(error: BaseException, message: str) -> str:
    """The tracer's own words: its headline and explanation, or the first line of any other error."""
    explained = re.match(r"(?P<headline>.+)\n\s*Explanation: (?P<explanation>.+)", message)
    if explained:
        return f"{explained['headline'].strip()}. {explained['explanation'].strip()}"
    return f"{type(error).__name__}: {message.strip().splitlines()[0] if message.strip() else ''}"
