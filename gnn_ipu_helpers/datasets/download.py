"""Fetch raw files, deciding within seconds whether there is a network at all."""

from __future__ import annotations

import os
import tempfile
import threading
import time
import urllib.error
import urllib.request
from functools import lru_cache
from pathlib import Path
from typing import Callable

from .catalogue import Entry
from .locate import missing_files
from .quiet import quiet

PROBE_SECONDS = 3.0
STALL_SECONDS = 30.0
_METHOD_NOT_ALLOWED = 405


class Unavailable(Exception):
    """A dataset could not be downloaded; the message says why."""


def download(entry: Entry, root: Path, fetch: Callable[[Path], None]) -> Path:
    """Let `fetch(folder)` download the raw files and return the folder under `root` that now holds them.

    Files arrive in a scratch folder and move only when all are there; a broken download leaves nothing.
    Raises `Unavailable` within a few seconds when the dataset's server cannot be reached.
    """
    if not reachable(entry.url):
        raise Unavailable("there is no network")
    target = root / entry.home
    print(f"Downloading {entry.name} ...", flush=True)
    try:
        root.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="downloading-", dir=root) as scratch:
            with quiet():
                _run_until_stalled(lambda: fetch(Path(scratch)), Path(scratch))
            missing = missing_files(entry, Path(scratch))
            if missing:
                raise Unavailable(f"the download lacks {', '.join(missing)}")
            target.mkdir(parents=True, exist_ok=True)
            for path in Path(scratch).iterdir():
                os.replace(path, target / path.name)
    except OSError as error:
        raise Unavailable(f"the download failed ({type(error).__name__}: {error})") from error
    return target


@lru_cache(maxsize=None)
def reachable(url: str) -> bool:
    """Whether a server answers for `url`, decided in about three seconds and remembered for the process."""
    answers: list[bool] = []
    # A thread, because no time-out covers a name look-up that hangs.
    thread = threading.Thread(target=lambda: answers.append(_answers(url)), daemon=True)
    thread.start()
    thread.join(PROBE_SECONDS + 0.5)
    return bool(answers and answers[0])


def fetch_url(url: str, path: Path) -> None:
    """Write what `url` holds to `path`."""
    with urllib.request.urlopen(url, timeout=STALL_SECONDS) as response, open(path, "wb") as file:
        while True:
            chunk = response.read(1 << 20)
            if not chunk:
                return
            file.write(chunk)


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(urllib.request.Request(url, method="HEAD"), timeout=PROBE_SECONDS):
            return True
    except urllib.error.HTTPError as error:
        return error.code == _METHOD_NOT_ALLOWED
    except (OSError, ValueError):
        return False


def _run_until_stalled(work: Callable[[], None], folder: Path) -> None:
    """Run `work`, giving up when it fails or when `folder` has not grown for a while."""
    failures: list[Exception] = []

    def guarded() -> None:
        try:
            work()
        except Exception as error:
            failures.append(error)

    thread = threading.Thread(target=guarded, daemon=True)
    thread.start()
    size, since = -1, time.monotonic()
    while thread.is_alive():
        thread.join(0.2)
        now = _bytes_in(folder)
        if now != size:
            size, since = now, time.monotonic()
        elif time.monotonic() - since > STALL_SECONDS:
            raise Unavailable(f"the download stood still for {STALL_SECONDS:.0f} seconds")
    if failures:
        raise Unavailable(f"the download failed ({type(failures[0]).__name__}: {failures[0]})") from failures[
            0
        ]


def _bytes_in(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
