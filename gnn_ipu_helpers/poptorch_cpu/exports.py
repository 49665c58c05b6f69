"""The file that a compiled model is exported to."""

from __future__ import annotations

import os
import pickle
from typing import Any

import torch

from .errors import Error

_FORMAT = "gnn_ipu_helpers export 1"


def write_export(filename: str | os.PathLike, content: dict[str, Any]) -> None:
    """Write an export beside its place and move it there."""
    path = os.fspath(filename)
    part = f"{path}.{os.getpid()}.part"
    try:
        torch.save({"format": _FORMAT, **content}, part)
        os.replace(part, path)
    finally:
        if os.path.exists(part):
            os.unlink(part)


def read_export(filename: str | os.PathLike) -> dict[str, Any]:
    """Read an export. It holds pickled objects: read only files from a source that you trust."""
    try:
        content = torch.load(os.fspath(filename), weights_only=False)
    except FileNotFoundError:
        raise Error(f"There is no file {os.fspath(filename)!r}.") from None
    except (RuntimeError, EOFError, OSError, ValueError, pickle.UnpicklingError) as error:
        raise Error(f"{os.fspath(filename)!r} is damaged or no exported model ({error}).") from error
    if not isinstance(content, dict) or content.get("format") != _FORMAT:
        raise Error(
            f"{os.fspath(filename)!r} is not a model exported by this implementation of PopTorch. Export it "
            "here with compileAndExport(filename, *inputs)."
        )
    return content
