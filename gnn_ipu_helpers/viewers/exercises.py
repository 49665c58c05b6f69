"""Exercises in a notebook: is an answer right, and if not, how far is it and what is worth a thought?"""

from __future__ import annotations

import html
import traceback
from typing import Any, Callable, Mapping

from .pictures import Page, counted, listed

# The same pairs of colours as in a diff; the words in front say the same without any.
_LOOKS = {
    "right": "background:#D6EAF8;color:#10324A;border-color:#0072B2",
    "not yet": "background:#FCE5CD;color:#5B2C00;border-color:#D55E00",
    "not checked": "background:#EEEEEE;color:#333333;border-color:#8A8A8A",
}
_BOX = "border-left:4px solid;padding:6px 10px;max-width:60em;line-height:1.5"


class Verdict(Page):
    """What `verdict` says; shows itself in a notebook.

    Attributes:
        solved: True, False, or None where nothing could be checked.
        hint: What to think about next; empty once it is solved.
    """

    def __init__(self, solved: bool | None, words: str, hint: str = "") -> None:
        self.solved, self.hint = solved, hint
        key = {True: "right", False: "not yet", None: "not checked"}[solved]
        below = f"<br>Hint: {_prose(hint)}" if hint else ""
        text = f"{words}\nHint: {hint}" if hint else words
        super().__init__(f'<div style="{_BOX};{_LOOKS[key]}">{_prose(words)}{below}</div>', text)


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
