"""What the check found: one record per place in the user's code, and the report that lists them."""

from __future__ import annotations

import dataclasses
import html
import re
from typing import Sequence


@dataclasses.dataclass(frozen=True)
class Place:
    """A line of source code: `file`, `line` (from 1), the enclosing `function` and the `source` of the
    line."""

    file: str
    line: int
    function: str = ""
    source: str = ""

    def __str__(self) -> str:
        return (
            f"{self.file}, line {self.line}" if self.file.startswith("cell ") else f"{self.file}:{self.line}"
        )


@dataclasses.dataclass(frozen=True)
class Finding:
    """One operation that a device with a static graph cannot run as written.

    `operation` names what is done, `file`, `line` and `source` say where in your code, `reason` why it is not
    static and `remedy` what to write instead. Where the cause lies inside a library that your line calls,
    `cause` holds that place (a `Place`), otherwise None.
    """

    operation: str
    file: str
    line: int
    source: str
    reason: str
    remedy: str
    cause: Place | None = None

    @property
    def place(self) -> Place:
        """`file`, `line` and `source` as a `Place`."""
        return Place(self.file, self.line, source=self.source)

    def __str__(self) -> str:
        lines = [f"{self.place}  {self.operation}" if self.file else self.operation]
        if self.source:
            lines.append(f"    {self.source}")
        if self.cause is not None:
            lines.append(f"  cause:   {self.cause}  {self.cause.source}")
        lines.append(f"  why:     {self.reason}")
        lines.append(f"  instead: {self.remedy}")
        return "\n".join(lines)


def describe(findings: Sequence[Finding]) -> str:
    """All `findings` as text, one numbered block each."""
    return "\n\n".join(f"{number}. {finding}" for number, finding in enumerate(findings, start=1))


class StaticGraphError(Exception):
    """The model cannot become one static graph; `findings` lists the places and what to write instead."""

    def __init__(self, findings: Sequence[Finding]):
        self.findings: list[Finding] = list(findings)
        count = len(self.findings)
        places = "1 place" if count == 1 else f"{count} places"
        super().__init__(
            f"This model is not a static graph: {places} to change.\n\n{describe(self.findings)}"
        )

    def __reduce__(self):
        return type(self), (self.findings,)


@dataclasses.dataclass(frozen=True)
class Report:
    """The answer of `check`; prints as text and shows as a table in a notebook.

    Attributes:
        ok: True, False, or None where this torch cannot tell.
        findings: What a static graph cannot hold. They stop the compilation.
        summary: One sentence on what was looked at.
        replaced: Names of the PyG layers that run in a static version of ours.
        warnings: What runs and is probably not meant, such as padding in the loss. They stop nothing.
    """

    ok: bool | None
    findings: list[Finding]
    summary: str
    replaced: tuple[str, ...] = ()
    warnings: list[Finding] = dataclasses.field(default_factory=list)

    def __str__(self) -> str:
        parts = [self.summary]
        if self.findings:
            parts.append(describe(self.findings))
        if self.warnings:
            parts.append(f"What runs, and is probably not meant:\n\n{describe(self.warnings)}")
        return "\n\n".join(parts)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        parts = [f"<p>{html.escape(self.summary)}</p>"]
        if self.findings:
            parts.append(_html_table(self.findings))
        if self.warnings:
            parts += ["<p>What runs, and is probably not meant:</p>", _html_table(self.warnings)]
        return "".join(parts)


def _html_table(findings: Sequence[Finding]) -> str:
    titles = "".join(f"<th>{title}</th>" for title in ("", "Where", "What", "Why", "Write instead"))
    rows = "".join(_html_row(number, finding) for number, finding in enumerate(findings, start=1))
    return f"<table><thead><tr>{titles}</tr></thead><tbody>{rows}</tbody></table>"


def _html_row(number: int, finding: Finding) -> str:
    where = html.escape(str(finding.place)) if finding.file else ""
    where += f"<br><code>{html.escape(finding.source)}</code>" if finding.source else ""
    if finding.cause is not None:
        where += f"<br><small>inside {html.escape(str(finding.cause))}</small>"
    cells = [
        _html_cell(str(number)),
        _html_cell(where),
        _html_cell(html.escape(finding.operation)),
        _html_cell(_html_prose(finding.reason), "; min-width: 11em"),
        _html_cell(_html_prose(finding.remedy), "; min-width: 13em"),
    ]
    return f"<tr>{''.join(cells)}</tr>"


def _html_cell(content: str, style: str = "") -> str:
    return f'<td style="text-align: left; vertical-align: top{style}">{content}</td>'


def _html_prose(text: str) -> str:
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", html.escape(text))
