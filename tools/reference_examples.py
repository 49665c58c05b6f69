"""The examples of public names whose docstring has none, from docs/reference/examples.

A file is named after a module; `[name, other]` heads the example of names below that module. What stands
under `[before each]` is run first and not shown.
"""

from __future__ import annotations

import re
from pathlib import Path

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "reference" / "examples"


def read() -> dict[str, tuple[str, str]]:
    """By full name: what to run before, and the example."""
    examples = {}
    for path in sorted(FOLDER.glob("*.txt")):
        _, *parts = re.split(r"(?m)^\[([A-Za-z][\w., ]*)\]\n", path.read_text(encoding="utf-8"))
        sections = dict(zip(parts[::2], (text.strip() + "\n" for text in parts[1::2])))
        before = sections.pop("before each")
        for names, text in sections.items():
            examples.update({f"{path.stem}.{name}": (before, text) for name in names.split(", ")})
    return examples
