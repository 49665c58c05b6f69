"""From the place where a graph stops being static to the finding that helps."""

from __future__ import annotations

import dataclasses
import re
from typing import Sequence

import torch_geometric.nn

from .findings import Finding, Place
from .inspection import Origin
from .places import is_library, is_pyg, locate, relevant, shown
from .remedies import (
    BY_FILE,
    BY_FUNCTION,
    BY_OPERATION,
    ELSEWHERE_IN_PYG,
    MAX_ELEMENTS,
    SELF_LOOPS,
    SIZE,
    Hint,
)


def explain(origin: Origin) -> Finding:
    """The finding for one place where the graph is not static."""
    user, cause = locate(origin.frames)
    if cause is None and user is not None:
        origin = dataclasses.replace(origin, operation=_statement(user.source, origin.operation))
    hint, name = _library_hint(origin) or _operation_hint(origin)
    return finding_at(origin, hint, origin.operation if cause is None else name, name)


def finding_at(origin: Origin, hint: Hint, operation: str, name: str | None = None) -> Finding:
    """The finding that says `hint` about `operation` at the place of `origin`; `name` fills the hint's
    `{name}`."""
    user, cause = locate(origin.frames)
    user = user or Place("", 0)
    return Finding(
        operation=operation,
        file=shown(user.file),
        line=user.line,
        source=user.source,
        reason=hint.reason.format(name=name or operation) + (f": {origin.detail}" if origin.detail else ""),
        remedy=hint.remedy.format(name=name or operation),
        cause=cause and dataclasses.replace(cause, file=shown(cause.file)),
    )


def is_consequence(finding: Finding) -> bool:
    """Whether a finding says no more than that some size depends on data, as after any other on its line."""
    return finding.remedy == BY_OPERATION["size"].remedy


def is_known_in_library(origin: Origin) -> bool:
    """Whether the place lies in the user's own line, or in a call into PyG that is known to be dynamic."""
    return locate(origin.frames)[1] is None or _library_hint(origin) is not None


def _statement(source: str, operation: str) -> str:
    """A value read for a condition or a loop is better explained by the statement that reads it."""
    if "one_hot(" in source:
        return "one_hot"
    if operation == "untraceable" and re.search(r"autograd\.grad\(|\.backward\(|\.requires_grad_\(", source):
        return "gradient"
    if operation in ("item", "size", "branch"):
        if re.match(r"(if|elif|while)\b", source) or re.search(r"\bif\b.+\belse\b", source):
            return "branch"
        if re.match(r"assert\b", source):
            return "assert"
        if re.match(r"for\b", source) or "range(" in source:
            return "loop"
    return operation


def _library_hint(origin: Origin) -> tuple[Hint, str] | None:
    """The hint for the outermost call into PyG that is known to be dynamic, and what to call it."""
    frames = _library_frames(origin)
    for number, frame in enumerate(frames):
        hint = _hint_of_frame(frame)
        if hint is not None:
            return _refined(hint, frames), _name(origin, frames[: number + 1])
    return None


def _library_frames(origin: Origin) -> list[Place]:
    """The frames of libraries that the user's own innermost line leads to."""
    frames = relevant(origin.frames)
    own = [number for number, frame in enumerate(frames) if not is_library(frame.file)]
    return frames[own[-1] + 1 if own else 0 :]


def _hint_of_frame(frame: Place) -> Hint | None:
    if not is_pyg(frame.file):
        return None
    for fragment, hint in BY_FILE.items():
        if fragment in frame.file.replace("\\", "/"):
            return hint
    return BY_FUNCTION.get(frame.function)


def _refined(hint: Hint, frames: Sequence[Place]) -> Hint:
    files = [frame.file.replace("\\", "/") for frame in frames]
    if any("nn/conv/" in file for file in files) and files[-1].endswith("utils/loop.py"):
        return SELF_LOOPS
    is_aggregation = any("nn/aggr/" in file for file in files)
    return MAX_ELEMENTS if is_aggregation and "max_num_nodes" in frames[-1].source else hint


def _name(origin: Origin, frames: Sequence[Place]) -> str:
    """The layer or function that the user knows: the module around the call, or the function called."""
    called = frames[-1]
    if called.function in BY_FUNCTION and len(frames) == 1:
        return called.function
    layers = [kind.__name__ for kind in origin.modules if kind.__module__.startswith("torch_geometric.nn")]
    if layers:
        return layers[0]
    class_name = re.search(r"/(\w+)\.py$", frames[0].file.replace("\\", "/"))
    is_method = frames[0].function in ("forward", "__call__")
    return _class_in(class_name.group(1)) if is_method and class_name else frames[0].function


def _class_in(stem: str) -> str:
    """The class of PyG that a file is named after, such as GATConv for gat_conv."""
    names = {name.lower(): name for name in dir(torch_geometric.nn) if name[:1].isupper()}
    wanted = stem.replace("_", "")
    return names.get(wanted) or next((names[name] for name in names if name.startswith(wanted)), stem)


def _operation_hint(origin: Origin) -> tuple[Hint, str]:
    """The hint for an operation in the user's own line, or in a library that is not known better."""
    frames = _library_frames(origin)
    hint = BY_OPERATION.get(origin.operation, BY_OPERATION["size"])
    if not frames:
        return hint, origin.operation
    name = _name(origin, frames)
    missing = re.match(r"(\w+) = int\(", frames[-1].source)
    if missing:
        return Hint(SIZE, f"pass {missing.group(1)}=<a constant> to {{name}}, if it takes it"), name
    file = next((frame.file for frame in frames if is_pyg(frame.file)), "").replace("\\", "/")
    remedy = next(remedy for fragment, remedy in ELSEWHERE_IN_PYG.items() if fragment in file)
    return Hint(hint.reason + ", inside {name}", remedy), name
