"""Compiled graphs kept in a directory, so that the next process starts warm."""

from __future__ import annotations

import contextlib
import hashlib
import io
import logging
import os
import platform
import re
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any, Iterator

import torch

_MAGIC = b"gnn_ipu_helpers executable 1\n"
_DIRECTORY_VARIABLES = ("POPTORCH_CACHE_DIR", "POPLAR_EXECUTABLE_CACHE_DIR")
_COMPILER_VARIABLE = "TORCHINDUCTOR_CACHE_DIR"
_SUFFIX = ".executable"


class DamagedEntry(Exception):
    """A file that is no entry of this cache, or not a whole one, or one of other versions."""


class ExecutableCache:
    """A directory with one file for each compiled model.

    A file holds what the compiler writes while it compiles: the compiled graphs and their machine code. Its
    name is made of the model, its arguments' shapes and the versions. The compiler itself decides by the
    content of the graph whether what it finds there fits, so that a changed ``forward`` is compiled anew.
    """

    packed = None

    def __init__(self, directory: str | None, model_name: str | None = None) -> None:
        self.directory = None if directory is None else Path(directory)
        self._model_name = model_name

    @classmethod
    def from_settings(cls, values: dict[str, Any]) -> ExecutableCache:
        """The cache of these option values, or of the environment where they name none."""
        from_environment = next(filter(None, map(os.environ.get, _DIRECTORY_VARIABLES)), None)
        return cls(values["cache_path"] or from_environment, values["model_name"])

    @contextlib.contextmanager
    def around_compilation(self, key: tuple) -> Iterator[None]:
        """Compile inside with what an earlier process left under ``key``; leave what is new for the next."""
        if self.directory is None:
            yield
            return
        entry = self.directory / self._file_name(key)
        with tempfile.TemporaryDirectory(prefix="poptorch-") as workspace:
            found = self._restore(entry, workspace)
            with compiler_files_in(workspace):
                yield
            if set(_files_of(workspace)) - found:
                self._keep(entry, workspace)

    def _file_name(self, key: tuple) -> str:
        name = re.sub(r"\W+", "_", self._model_name or str(key[0]))
        digest = hashlib.sha256(repr((key, versions())).encode()).hexdigest()
        return f"{name}-{digest[:20]}{_SUFFIX}"

    def _restore(self, entry: Path, workspace: str) -> set[str]:
        """Unpack an entry; returns the files it held."""
        try:
            unpack(entry.read_bytes(), workspace)
        except FileNotFoundError:
            pass
        except (DamagedEntry, OSError) as error:
            _warn(f"The executable cache entry {entry.name} cannot be used ({error}): compiling anew.")
        return set(_files_of(workspace))

    def _keep(self, entry: Path, workspace: str) -> None:
        """Write an entry beside its place and move it there, so that no other process sees a part of it."""
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=self.directory, suffix=".part", delete=False) as file:
                try:
                    file.write(pack(workspace))
                    file.close()
                    os.chmod(file.name, 0o644)
                    os.replace(file.name, entry)
                except BaseException:
                    os.unlink(file.name)
                    raise
        except OSError as error:
            _warn(f"The executable cache {self.directory} cannot be written ({error}): going on without it.")


class PackedExecutable:
    """One compiled model in memory, to be written to a file or read from one."""

    def __init__(self, packed: bytes | None = None) -> None:
        self.packed = packed

    @contextlib.contextmanager
    def around_compilation(self, key: tuple) -> Iterator[None]:
        """Compile inside with what is packed, and pack what is new."""
        with tempfile.TemporaryDirectory(prefix="poptorch-") as workspace:
            if self.packed is not None:
                try:
                    unpack(self.packed, workspace)
                except DamagedEntry as error:
                    _warn(f"The exported executable cannot be used ({error}): compiling anew.")
            with compiler_files_in(workspace):
                yield
            self.packed = pack(workspace)


def versions() -> str:
    """Everything that compiled code depends on besides the model."""
    python = sys.version.split()[0]
    return f"torch {torch.__version__}, Python {python}, {platform.system()} {platform.machine()}"


def pack(workspace: str) -> bytes:
    """The compiler's files as one entry: a header with versions and checksum, and an archive."""
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w:gz", compresslevel=1) as tar:
        for name in _files_of(workspace):
            tar.add(os.path.join(workspace, name), arcname=name)
    payload = archive.getvalue()
    return (
        _MAGIC + versions().encode() + b"\n" + hashlib.sha256(payload).hexdigest().encode() + b"\n" + payload
    )


def unpack(entry: bytes, workspace: str) -> None:
    """Put the files of an entry into ``workspace``; raises :class:`DamagedEntry` if it does not fit."""
    if not entry.startswith(_MAGIC):
        raise DamagedEntry("it is not a cache entry of this package")
    made_with, _, rest = entry[len(_MAGIC) :].partition(b"\n")
    checksum, _, payload = rest.partition(b"\n")
    if made_with != versions().encode():
        raise DamagedEntry(f"it was made with {made_with.decode(errors='replace')!r}; here is {versions()!r}")
    if hashlib.sha256(payload).hexdigest().encode() != checksum:
        raise DamagedEntry("its checksum does not fit: it is damaged or incomplete")
    with tarfile.open(fileobj=io.BytesIO(payload), mode="r:gz") as tar:
        tar.extractall(workspace, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))


@contextlib.contextmanager
def compiler_files_in(directory: str) -> Iterator[None]:
    """Have torch's compiler read and write its files in this directory, and forget others in memory."""
    from torch._inductor import utils

    forget = getattr(utils, "clear_caches", None) or utils.clear_inductor_caches
    before = os.environ.get(_COMPILER_VARIABLE)
    os.environ[_COMPILER_VARIABLE] = directory
    forget()
    try:
        yield
    finally:
        if before is None:
            del os.environ[_COMPILER_VARIABLE]
        else:
            os.environ[_COMPILER_VARIABLE] = before
        forget()


def _files_of(workspace: str) -> list[str]:
    """The files under ``workspace`` worth keeping: no locks, nor headers that only speed up compiling."""
    found = []
    for folder, _, files in os.walk(workspace):
        for file in files:
            name = os.path.relpath(os.path.join(folder, file), workspace)
            if "precompiled_headers" not in name and not name.endswith((".lock", ".tmp", ".pyc")):
                found.append(name)
    return sorted(found)


def _warn(message: str) -> None:
    logging.getLogger("poptorch").warning(message)
