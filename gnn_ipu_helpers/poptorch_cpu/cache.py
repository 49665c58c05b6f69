"""Compiled graphs kept in files: a cache, so that the next process starts warm, and exported models.

Entries hold machine code, which whoever writes into the directory has run by whoever reads it. So a cache
lives in a directory that only its owner can write.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import logging
import os
import pickle
import platform
import re
import shutil
import stat
import sys
import tarfile
import tempfile
import threading
import time
from pathlib import Path
from typing import Any, Iterator

import torch

from .errors import Error

_MAGIC = b"gnn_ipu_helpers executable 2\n"
_EXPORT_MAGIC = b"gnn_ipu_helpers export 2\n"
COMPILER_VARIABLE = "TORCHINDUCTOR_CACHE_DIR"
_WORKSPACE = "poptorch-"
_PART = ".part"
_STALE_SECONDS = 24 * 3600
_LOG = logging.getLogger("poptorch")
# The compiler finds its files through an environment variable: one compilation at a time may set it.
compile_lock = threading.RLock()


class DamagedEntry(Exception):
    """A file that is no entry of this cache, or not a whole one, or one of other versions."""


class ExecutableCache:
    """A directory with one file for each compiled model, or no directory and no cache.

    A file holds what the compiler writes while it compiles: the compiled graphs and their machine code. Its
    name is made of the model, its arguments' shapes and the versions. The compiler itself decides by the
    content of the graph whether what it finds there fits, so that a changed `forward` is compiled anew.
    """

    packed: bytes | None = None  # what is compiled here is in a file

    def __init__(self, directory: str | None, model_name: str | None = None) -> None:
        directory = directory or os.environ.get("POPLAR_EXECUTABLE_CACHE_DIR") or None
        self.directory = None if directory is None else Path(directory)
        self._model_name = model_name

    @contextlib.contextmanager
    def around_compilation(self, key: tuple) -> Iterator[None]:
        """Compile inside with what an earlier process left under `key`; leave what is new for the next."""
        with contextlib.ExitStack() as stack:
            workspace = entry = None
            try:
                if self.directory is not None:
                    self.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
                    _require_own(self.directory)
                    _sweep(self.directory, f"*{_PART}")
                    _sweep(Path(tempfile.gettempdir()), f"{_WORKSPACE}*")
                    name = re.sub(r"\W+", "_", self._model_name or str(key[0]))
                    digest = hashlib.sha256(repr((key, versions())).encode()).hexdigest()
                    entry = self.directory / f"{name}-{digest[:20]}.executable"
                    made = tempfile.TemporaryDirectory(prefix=_WORKSPACE, ignore_cleanup_errors=True)
                    workspace = stack.enter_context(made)
            except OSError as error:
                self._warn("cannot be used", error)
            if workspace is None or entry is None:
                yield
                return
            try:
                unpack(entry.read_bytes(), workspace)
            except FileNotFoundError:
                pass
            except (DamagedEntry, OSError) as error:
                text = "The executable cache entry %s cannot be used (%s): compiling anew."
                _LOG.warning(text, entry.name, error)
            found = _files_of(workspace)
            with compiler_files_in(workspace):
                yield
            if set(_files_of(workspace)) - set(found):
                try:
                    write_whole(entry, pack(workspace))
                except OSError as error:
                    self._warn("cannot be written", error)

    def _warn(self, what: str, error: OSError) -> None:
        _LOG.warning("The executable cache %s %s (%s): going on without it.", self.directory, what, error)


class PackedExecutable:
    """One compiled model in memory, to be written to a file or read from one."""

    def __init__(self, packed: bytes | None = None) -> None:
        self.packed = packed

    @contextlib.contextmanager
    def around_compilation(self, key: tuple) -> Iterator[None]:
        """Compile inside with what is packed, and pack what is new."""
        with tempfile.TemporaryDirectory(prefix=_WORKSPACE) as workspace:
            if self.packed is not None:
                try:
                    unpack(self.packed, workspace)
                except DamagedEntry as error:
                    _LOG.warning("The exported executable cannot be used (%s): compiling anew.", error)
            with compiler_files_in(workspace):
                yield
            self.packed = pack(workspace)


def _require_own(directory: Path) -> None:
    """Raise if another user could put code into the directory."""
    if not hasattr(os, "getuid"):
        return
    status = directory.stat()
    if status.st_uid != os.getuid():
        raise PermissionError("it belongs to another user, and its entries are code; name one of your own")
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise PermissionError("others can write into it, and its entries are code; chmod go-w it")


def _sweep(directory: Path, pattern: str) -> None:
    """Remove what a killed process left behind a day ago or longer."""
    for path in directory.glob(pattern):
        with contextlib.suppress(OSError):
            status = path.stat()
            is_own = not hasattr(os, "getuid") or status.st_uid == os.getuid()
            if is_own and time.time() - status.st_mtime > _STALE_SECONDS:
                shutil.rmtree(path) if path.is_dir() else path.unlink()


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
    return _MAGIC + versions().encode() + b"\n" + _with_checksum(archive.getvalue())


def unpack(entry: bytes, workspace: str) -> None:
    """Put the files of an entry into `workspace`; raises `DamagedEntry` if it does not fit."""
    if not entry.startswith(_MAGIC):
        raise DamagedEntry("it is not a cache entry of this package")
    made_with, _, rest = entry[len(_MAGIC) :].partition(b"\n")
    if made_with != versions().encode():
        raise DamagedEntry(f"it was made with {made_with.decode(errors='replace')!r}; here is {versions()!r}")
    payload = _checked(rest)
    try:
        with tarfile.open(fileobj=io.BytesIO(payload), mode="r:gz") as tar:
            safely: dict[str, Any] = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
            tar.extractall(workspace, **safely)
    except (tarfile.TarError, EOFError, ValueError, OSError) as error:
        raise DamagedEntry(f"its archive cannot be unpacked: {error}") from error


def _with_checksum(payload: bytes) -> bytes:
    return hashlib.sha256(payload).hexdigest().encode() + b"\n" + payload


def _checked(content: bytes) -> bytes:
    checksum, _, payload = content.partition(b"\n")
    if hashlib.sha256(payload).hexdigest().encode() != checksum:
        raise DamagedEntry("its checksum does not fit: it is damaged or incomplete")
    return payload


def write_whole(path: Path, content: bytes) -> None:
    """Write a file beside its place and move it there, so that nobody sees a part of it."""
    descriptor, part = tempfile.mkstemp(dir=path.parent, suffix=_PART)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        os.replace(part, path)
    except BaseException:
        os.unlink(part)
        raise


@contextlib.contextmanager
def compiler_files_in(directory: str) -> Iterator[None]:
    """Have torch's compiler read and write its files in this directory, and forget others in memory."""
    from torch._inductor import utils

    forget = getattr(utils, "clear_caches", None) or utils.clear_inductor_caches
    with compile_lock:
        before = os.environ.get(COMPILER_VARIABLE)
        os.environ[COMPILER_VARIABLE] = directory
        forget()
        try:
            yield
        finally:
            if before is None:
                del os.environ[COMPILER_VARIABLE]
            else:
                os.environ[COMPILER_VARIABLE] = before
            forget()


def _files_of(workspace: str) -> list[str]:
    """The files under `workspace` worth keeping: no locks, nor headers that only speed up compiling."""
    found = []
    for folder, _, files in os.walk(workspace):
        for file in files:
            name = os.path.relpath(os.path.join(folder, file), workspace)
            if "precompiled_headers" not in name and not name.endswith((".lock", ".tmp", ".pyc")):
                found.append(name)
    return sorted(found)


# Exported models


def write_export(filename: str | os.PathLike, content: dict[str, Any]) -> None:
    """Write an export, making its folder where there is none."""
    path = Path(filename)
    if path.is_dir():
        path = path / "model.poptorch"
        _LOG.warning("save(): %s is a directory, saving the model to %s.", filename, path)
    path.parent.mkdir(parents=True, exist_ok=True)
    buffer = io.BytesIO()
    torch.save(content, buffer)
    write_whole(path, _EXPORT_MAGIC + _with_checksum(buffer.getvalue()))


_UNREADABLE = (RuntimeError, EOFError, OSError, ValueError, LookupError, TypeError)


def read_export(filename: str | os.PathLike) -> dict[str, Any]:
    """Read an export. It holds pickled objects: read only files from a source that you trust."""
    name = os.fspath(filename)
    try:
        raw = Path(filename).read_bytes()
    except FileNotFoundError:
        raise Error(f"There is no file {name!r}.") from None
    except OSError as error:
        raise Error(f"{name!r} cannot be read: {error}.") from error
    if not raw.startswith(_EXPORT_MAGIC):
        raise Error(
            f"{name!r} is not a model exported by this implementation of PopTorch. Export it here with "
            "compileAndExport(filename, *inputs)."
        )
    try:
        return torch.load(io.BytesIO(_checked(raw[len(_EXPORT_MAGIC) :])), weights_only=False)
    except DamagedEntry as error:
        raise Error(f"{name!r} cannot be loaded: {error}.") from None
    except (AttributeError, ImportError) as error:
        raise Error(
            f"{name!r} holds an object whose class is not here ({error}): import or define it first, under "
            "the same module name, best in a module of its own rather than in the script that is run."
        ) from error
    except (*_UNREADABLE, pickle.UnpicklingError) as error:
        raise Error(f"{name!r} cannot be loaded: {error}.") from error
