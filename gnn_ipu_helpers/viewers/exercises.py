"""Words on code: the verdict on a reader's answer, with a hint, and the difference between two scripts."""

from __future__ import annotations

import difflib
import html
import traceback
from pathlib import Path
from typing import Any, Callable, Mapping, Sequence

from .pictures import Page, counted, listed

# Blue and orange, told apart by colour-blind readers; words and signs say the same without any colour.
_BLUE, _ORANGE = "background:#D6EAF8;color:#10324A", "background:#FCE5CD;color:#5B2C00"
_GREY = "background:#EEEEEE;color:#444444"

# -- exercises

_VERDICTS = {
    True: f"{_BLUE};border-color:#0072B2",
    False: f"{_ORANGE};border-color:#D55E00",
    None: f"{_GREY};border-color:#8A8A8A",
}
_VERDICT_BOX = "border-left:4px solid;padding:6px 10px;max-width:60em;line-height:1.5"


class Verdict(Page):
    """What `verdict` says; shows itself in a notebook.

    Attributes:
        solved: True, False, or None where nothing could be checked.
        hint: What to think about next; empty once it is solved.
    """

    def __init__(self, solved: bool | None, words: str, hint: str = "") -> None:
        self.solved, self.hint = solved, hint
        below = f"<br>Hint: {_prose(hint)}" if hint else ""
        text = f"{words}\nHint: {hint}" if hint else words
        super().__init__(
            f'<div style="{_VERDICT_BOX};{_VERDICTS[solved]}">{_prose(words)}{below}</div>', text
        )


def verdict(
    test: Callable[..., Any], *arguments: Any, hints: Mapping[Any, str] | None = None, **keywords: Any
) -> Verdict:
    """Test an answer and say how far it is; never raises, so that a notebook runs on with its exercises open.

    `test(*arguments, **keywords)` either asserts, each assertion with a hint as its message, or returns
    a report of `check`, of which every finding and every warning has to go.

    Args:
        test: What an answer has to pass.
        arguments: The answer, and whatever else the test takes. `...` is taken for "no answer yet".
        hints: What to think about. For reports, by the operation of a finding: one without a hint is
            explained by its reason; its remedy, which is the solution, is never shown. Under the key `...`,
            what to say while there is no answer.
        keywords: Further arguments of the test.

    Example:
        >>> def is_even(answer):
        ...     assert answer % 2 == 0, "What remains when you divide it by two?"
        >>> verdict(is_even, 3)
        Not yet.
        Hint: What remains when you divide it by two?
        >>> verdict(is_even, 4)
        Right.
    """
    if any(argument is ... for argument in arguments):
        hint = (hints or {}).get(..., "")
        return Verdict(False, "Not yet: put your answer in place of the three dots.", hint)
    try:
        report = test(*arguments, **keywords)
    except AssertionError as error:
        return Verdict(False, "Not yet.", str(error) or "An assertion of the test fails.")
    except Exception as error:  # a reader's unfinished code may raise anything
        line = traceback.extract_tb(error.__traceback__)[-1].line
        source = f" at `{line}`" if line else ""
        message = (str(error).splitlines() or [""])[0]
        return Verdict(False, "Not yet: it raises an error.", f"{type(error).__name__}{source}: {message}")
    if not hasattr(report, "findings"):
        return Verdict(True, "Right.")
    if report.ok is None:
        return Verdict(None, "Not checked here: this torch is too old to look at the graph.")
    left = [*report.findings, *report.warnings]
    if not left:
        return Verdict(True, f"Right. {report.summary}")
    names = [f"{each.operation} ({_place(each)})" if each.file else each.operation for each in left]
    first = left[0]
    words = f"Not yet: {counted(len(left), 'finding')} left: {listed(names)}."
    return Verdict(False, words, (hints or {}).get(first.operation, f"{first.operation}: {first.reason}."))


def _place(finding: Any) -> str:
    """Where a finding is. The answer's cell is the one above, and its number changes with every run."""
    return f"line {finding.line}" if finding.file.startswith("cell ") else str(finding.place)


def _prose(text: str) -> str:
    """Text as HTML, with what stands in backticks as code."""
    parts = html.escape(text).split("`")
    return "".join(f"<code>{part}</code>" if number % 2 else part for number, part in enumerate(parts))


# -- differences between two scripts

_DIFF_BOX = "font:12px/1.45 monospace;border:1px solid #BBBBBB;max-width:100%;overflow-x:auto"
_LINE = "display:block;white-space:pre-wrap;overflow-wrap:anywhere;padding:0 6px 0 22px;text-indent:-16px"
# The element and the look of a line by its sign; unchanged lines look like the page, light or dark.
_ROWS = {"+": ("ins", _BLUE), "-": ("del", _ORANGE), "@": ("span", _GREY), " ": ("span", "color:inherit")}


def diff(
    before: Any,
    after: Any,
    *,
    context: int = 2,
    hunks: Sequence[int] | None = None,
    title: str | None = None,
) -> Page:
    """Show the unified difference of two scripts, lines that go with `-` and lines that come with `+`.

    Args:
        before, after: Paths of two text files, or two texts of more than one line.
        context: Unchanged lines around each change.
        hunks: Which blocks of changes to show, counted from 0; all if left out.
        title: Words above; the two file names if left out.

    Example:
        >>> diff("x = 1\\ny = 2\\n", "x = 1\\ny = 3\\n", context=0)
        before → after: 1 line out, 1 line in
        -y = 2
        +y = 3
    """
    (old_name, old), (new_name, new) = _lines(before, "before"), _lines(after, "after")
    parts: list[list[str]] = []
    for line in list(difflib.unified_diff(old, new, n=context, lineterm=""))[2:]:
        if line.startswith("@@"):
            parts.append([])
        else:
            parts[-1].append(line)
    wrong = [number for number in hunks or [] if not 0 <= number < len(parts)]
    if wrong:
        raise ValueError(f"there are {len(parts)} blocks of changes, numbered from 0 (got {wrong})")
    shown = parts if hunks is None else [parts[number] for number in hunks]
    signs = [line[0] for part in shown for line in part]
    counts = f"{counted(signs.count('-'), 'line')} out, {counted(signs.count('+'), 'line')} in"
    head = f"{title or f'{old_name} → {new_name}'}: {counts}"
    rows = [_row("@", head)]
    for number, part in enumerate(shown):
        rows += [_row("@", "⋯")] if number else []
        rows += [_row(line[0], f"{line[0]} {line[1:]}") for line in part]
    text = "\n".join([head, *(line for part in shown for line in part)])
    return Page(f'<div style="{_DIFF_BOX}">{"".join(rows)}</div>', text)


def _lines(source: Any, otherwise: str) -> tuple[str, list[str]]:
    """The name and the lines of a file, or of a text, which is called `otherwise`."""
    if isinstance(source, str) and "\n" in source:
        return otherwise, source.splitlines()
    path = Path(source)
    if not path.is_file():
        raise ValueError(
            f"two paths of files, or two texts of several lines, are needed (got {str(source)!r})"
        )
    return path.name, path.read_text(encoding="utf-8").splitlines()


def _row(sign: str, words: str) -> str:
    tag, look = _ROWS[sign]
    return f'<{tag} style="{_LINE};{look};text-decoration:none">{html.escape(words)}</{tag}>'
