"""Reading the exceptions with which a trace ends where it cannot go on."""

from __future__ import annotations

import re

from .inspection import Origin
from .places import from_summary

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
    (r"exception handler|try/except|graph break in.*try", "try"),
)


def origin_of_failure(error: BaseException) -> Origin:
    """Where and by what kind of operation the trace was ended."""
    frames = from_summary(getattr(error, "real_stack", None))
    return Origin(_operation(str(error)), frames, [])


def _operation(message: str) -> str:
    message = message.split("from user code:")[0]
    return next((kind for pattern, kind in _KINDS if re.search(pattern, message)), "host")
