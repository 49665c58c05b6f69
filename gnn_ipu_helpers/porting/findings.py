"""What the check found: a place in the user's code, a finding about it, the report that lists them.

Below these records: how the user's own line, and the library's line below it, are found in a stack of frames.
"""

from __future__ import annotations

import dataclasses
import functools
import html
import inspect
import linecache
import os
import re
import sys
import sysconfig
import tempfile
from typing import Callable, Iterable, Sequence

import torch
import torch_geometric

OUT_OF_MEMORY = "out of memory"


@dataclasses.dataclass(frozen=True)
class Place:
    """A line of source code: `file`, `line` (from 1), the enclosing `function` and the `source` of the
    line."""

    file: str
    line: int
    function: str = ""
    source: str = ""

    def __str__(self) -> str:
        is_cell = self.file.startswith("cell ")
        return f"{self.file}, line {self.line}" if is_cell else f"{self.file}:{self.line}"


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

    @classmethod
    def at(
        cls, place: Place | None, operation: str, reason: str, remedy: str, cause: Place | None = None
    ) -> Finding:
        """The finding about `place`, or about no line in particular, with files as a reader knows them."""
        place = place or Place("", 0)
        cause = cause and dataclasses.replace(cause, file=shown(cause.file))
        return cls(operation, shown(place.file), place.line, place.source, reason, remedy, cause)

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
        return "\n".join([*lines, f"  why:     {self.reason}", f"  instead: {self.remedy}"])


def describe(findings: Sequence[Finding]) -> str:
    """All `findings` as text, one numbered block each."""
    return "\n\n".join(f"{number}. {finding}" for number, finding in enumerate(findings, start=1))


def counted(number: int, word: str) -> str:
    """`1 place`, `2 places`."""
    return f"{number} {word}" if number == 1 else f"{number} {word}{'es' if word.endswith('ch') else 's'}"


def fits_device(findings: Sequence[Finding]) -> bool:
    """Whether something else than memory is what `findings` are about."""
    return any(finding.operation != OUT_OF_MEMORY for finding in findings)


class StaticGraphError(Exception):
    """The model cannot become one static graph; `findings` lists the places and what to write instead."""

    def __init__(self, findings: Sequence[Finding]):
        self.findings: list[Finding] = list(findings)
        what = f"is not a static graph: {counted(len(self.findings), 'place')} to change"
        what = what if fits_device(self.findings) else "does not fit the device"
        super().__init__(f"This model {what}.\n\n{describe(self.findings)}")

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
            parts.append(_html_findings(self.findings))
        if self.warnings:
            parts += ["<p>What runs, and is probably not meant:</p>", _html_findings(self.warnings)]
        return "".join(parts)


def _html_findings(findings: Sequence[Finding]) -> str:
    rows = []
    for number, finding in enumerate(findings, start=1):
        where = html.escape(str(finding.place)) if finding.file else ""
        where += f"<br><code>{html.escape(finding.source)}</code>" if finding.source else ""
        if finding.cause is not None:
            where += f"<br><small>inside {html.escape(str(finding.cause))}</small>"
        prose = [
            re.sub(r"`([^`]+)`", r"<code>\1</code>", html.escape(t)) for t in (finding.reason, finding.remedy)
        ]
        rows.append([str(number), where, html.escape(finding.operation), *prose])
    return html_table(("", "Where", "What", "Why", "Write instead"), rows, (0, 0, 0, 11, 13))


def html_table(titles: Sequence[str], rows: Sequence[Sequence[str]], widths: Sequence[int] = ()) -> str:
    """A table of cells that hold HTML; `widths` are the least widths of columns, in em."""
    styles = [f"; min-width: {width}em" if width else "" for width in widths] or [""] * len(titles)
    cell = '<td style="text-align: left; vertical-align: top{}">{}</td>'
    head = "".join(f"<th>{title}</th>" for title in titles)
    body = "".join(f"<tr>{''.join(map(cell.format, styles, row))}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


# Whose code a file is.


_FRAME = re.compile(r'File "([^"]+)", line (\d+), in (.+)')
_TEMPLATE = re.compile(r"_(propagate|edge_updater)_\w+\.py$|_Sequential_\w+\.py$")
_INSTALLED = re.compile(r"[/\\](?:site|dist)-packages[/\\]")
_NOTEBOOK_CELL = re.compile(r"ipykernel_\d+[/\\]\d+\.py$|^<ipython-input-(?P<cell>\d+)-")


def _directory(path: str) -> str:
    return os.path.join(os.path.realpath(path), "")


_OWN = _directory(os.path.dirname(os.path.dirname(__file__)))
_TORCH = _directory(os.path.dirname(torch.__file__))
_PYG = _directory(os.path.dirname(torch_geometric.__file__))
_LIBRARIES = (
    _OWN,
    _TORCH,
    _PYG,
    *{_directory(path) for name, path in sysconfig.get_paths().items() if "lib" in name},
)


@functools.lru_cache(maxsize=None)
def _real(file: str) -> str:
    return os.path.realpath(file)


def is_library(file: str) -> bool:
    """Whether `file` belongs to an installed package, to this one, or was generated by PyG or `torch.fx`."""
    if file.startswith(("<eval_with_key>", "<frozen", "<__array_function__")):
        return True
    path = _real(file)
    return path.startswith(_LIBRARIES) or _is_generated_by_pyg(path)


def _is_generated_by_pyg(path: str) -> bool:
    # PyG writes `propagate`, `edge_updater` and `Sequential.forward` of each layer, the user's own layers
    # included, from a template into a temporary file named after the class.
    return path.startswith(_directory(tempfile.gettempdir())) and bool(_TEMPLATE.search(path))


def is_own(file: str) -> bool:
    """Whether `file` is part of this package."""
    return _real(file).startswith(_OWN)


def is_pyg(file: str) -> bool:
    """Whether `file` is part of PyG, its generated code included."""
    path = _real(file)
    return path.startswith(_PYG) or _is_generated_by_pyg(path)


def parse_stack(text: str | None) -> list[Place]:
    """The frames of a formatted stack trace, outermost first."""
    return [_place(*match) for match in _FRAME.findall(text or "")]


def from_summary(frames: Iterable | None) -> list[Place]:
    """The places of `traceback.FrameSummary` objects, in their order."""
    return [_place(frame.filename, frame.lineno, frame.name) for frame in frames or ()]


def _place(file: str, line: str | int, function: str) -> Place:
    return Place(file, int(line), function.strip(), linecache.getline(file, int(line)).strip())


def relevant(frames: Sequence[Place]) -> list[Place]:
    """`frames` without those of torch and of this package."""
    return [f for f in frames if not is_own(f.file) and not _real(f.file).startswith(_TORCH)]


def locate(frames: Sequence[Place]) -> tuple[Place | None, Place | None]:
    """`(user, cause)` of a stack, outermost frame first: the innermost line of the user's own, and the
    innermost line of the library it calls, or None where the user's line is itself the cause.

    Where no line is the user's (a library's model checked as it is), the outermost line stands for it.
    """
    frames = relevant(frames)
    if not frames:
        return None, None
    own = [number for number, frame in enumerate(frames) if not is_library(frame.file)]
    number = own[-1] if own else 0
    inner = frames[number + 1 :]
    return frames[number], (inner[-1] if inner else None)


def forward_place(function: Callable) -> Place | None:
    """The line where a module's `forward` begins; None where there is no source, or no module."""
    if not isinstance(function, torch.nn.Module):
        return None
    forward = type(function).forward
    try:
        lines, first = inspect.getsourcelines(forward)
        file = inspect.getsourcefile(forward) or ""
    except (OSError, TypeError):
        return None
    number = next((n for n, line in enumerate(lines) if line.lstrip().startswith("def ")), 0)
    return Place(file, first + number, "forward", lines[number].strip())


def shown(file: str) -> str:
    """`file` as a reader knows it: `cell 5` for a notebook's cell, from the package on for an installed
    package, relative to the working directory where it lies below it."""
    cell = _NOTEBOOK_CELL.search(file)
    if cell:
        number = cell.group("cell") or _notebook_cells().get(file)
        return f"cell {number}" if number else "notebook cell"
    if _is_generated_by_pyg(_real(file)):
        return re.sub(r"_[^_]+\.py$", " (generated by PyG)", os.path.basename(file))
    if _INSTALLED.search(file):
        return _INSTALLED.split(file)[-1]
    relative = os.path.relpath(file) if os.path.isabs(file) else file
    return file if relative.startswith(os.pardir) else relative


def _notebook_cells() -> dict[str, int]:
    """The execution count of each temporary file that the running notebook's cells were compiled from."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return getattr(getattr(shell, "compile", None), "_filename_map", {})
