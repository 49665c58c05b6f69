"""The difference between two scripts, as a reader of a porting guide wants it: what goes, what comes."""

from __future__ import annotations

import difflib
import html
from pathlib import Path
from typing import Any, Sequence

from .pictures import Page, counted

# Blue and orange, told apart by colour-blind readers; the signs say the same without any colour.
_LOOKS = {
    "+": "background:#D6EAF8;color:#10324A",
    "-": "background:#FCE5CD;color:#5B2C00",
    "@": "background:#EEEEEE;color:#555555",
    " ": "background:#FFFFFF;color:#222222",
}
_BOX = (
    "font-family:monospace;font-size:12px;line-height:1.45;border:1px solid #BBBBBB;"
    "max-width:100%;overflow-x:auto"
)
_LINE = "display:block;white-space:pre-wrap;overflow-wrap:anywhere;padding:0 6px 0 22px;text-indent:-16px"


def diff(
    before: Any,
    after: Any,
    *,
    context: int = 2,
    hunks: Sequence[int] | None = None,
    title: str | None = None,
) -> Page:
    """Show the unified difference of two scripts, lines that go with ``-`` and lines that come with ``+``.

    Args:
        before, after: paths of two text files, or two texts of more than one line.
        context: unchanged lines around each change.
        hunks: which blocks of changes to show, counted from 0; all if left out.
        title: words above; the two file names if left out.
    """
    old, new = _lines(before), _lines(after)
    parts = _hunks(old, new, context)
    chosen = _chosen(parts, hunks)
    gone = sum(line[0] == "-" for part in chosen for line in part)
    come = sum(line[0] == "+" for part in chosen for line in part)
    head = title or f"{_name(before, 'before')} → {_name(after, 'after')}"
    counts = f"{counted(gone, 'line')} out, {counted(come, 'line')} in"
    rows = [_row("@", f"{head}: {counts}")]
    for number, part in enumerate(chosen):
        rows += [_row("@", "⋯")] if number else []
        rows += [_row(line[0], line[1:]) for line in part]
    text = "\n".join(["".join(line) for part in chosen for line in part])
    return Page(f'<div style="{_BOX}">{"".join(rows)}</div>', f"{head}: {counts}\n{text}")


def _lines(source: Any) -> list[str]:
    if isinstance(source, str) and "\n" in source:
        return source.splitlines()
    path = Path(source)
    if not path.is_file():
        raise ValueError(
            f"two paths of files, or two texts of several lines, are needed (got {str(source)!r})"
        )
    return path.read_text(encoding="utf-8").splitlines()


def _name(source: Any, otherwise: str) -> str:
    return otherwise if isinstance(source, str) and "\n" in source else Path(source).name


def _hunks(old: list[str], new: list[str], context: int) -> list[list[str]]:
    parts: list[list[str]] = []
    for line in list(difflib.unified_diff(old, new, n=context, lineterm=""))[2:]:
        if line.startswith("@@"):
            parts.append([])
        else:
            parts[-1].append(line)
    return parts


def _chosen(parts: list[list[str]], hunks: Sequence[int] | None) -> list[list[str]]:
    if hunks is None:
        return parts
    wrong = [number for number in hunks if not 0 <= number < len(parts)]
    if wrong:
        raise ValueError(f"there are {len(parts)} blocks of changes, numbered from 0 (got {wrong})")
    return [parts[number] for number in hunks]


def _row(sign: str, words: str) -> str:
    tag = {"+": "ins", "-": "del"}.get(sign, "span")
    mark = "" if sign == "@" else sign + " "
    text = html.escape(mark + words)
    return f'<{tag} style="{_LINE};{_LOOKS[sign]};text-decoration:none">{text}</{tag}>'
