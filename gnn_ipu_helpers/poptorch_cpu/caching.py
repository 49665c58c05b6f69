"""Compiled graphs kept in a directory, so that the next process starts warm."""

from __future__ import annotations

import contextlib
from typing import Any, Iterator


class ExecutableCache:
    def __init__(self, path):
        self._path = path

    @classmethod
    def from_settings(cls, values):
        return cls(values["cache_path"])

    @contextlib.contextmanager
    def around_compilation(self, key: Any) -> Iterator[None]:
        yield
