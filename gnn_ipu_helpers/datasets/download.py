"""Download raw files, deciding within seconds whether there is a network, and keep only the originals."""

from __future__ import annotations

import http.client
import os
import shutil
import socket
import tempfile
import threading
import urllib.error
import urllib.request
import zipfile
from pathlib import Path, PurePosixPath

from .catalogue import Entry
from .real_data import changed_files, missing_files, raw_file

PROBE_SECONDS = 3.0
STALL_SECONDS = 30.0
_METHOD_NOT_ALLOWED = 405
# Some servers refuse the name that urllib gives itself.
_HEADERS = {"User-Agent": "gnn_ipu_helpers"}


class Unavailable(Exception):
    """A dataset could not be downloaded; the message says why."""


def download(entry: Entry, root: Path) -> Path:
    """Download the raw files and return the folder under `root` that now holds them.

    Files arrive in a scratch folder and move only when all are there and are the originals: a broken
    download, or a log-in page instead of data, leaves nothing. Raises `Unavailable`, within a few seconds
    when the server cannot be reached. Unlike PyG's own download this one checks the server's certificate.
    """
    # Asked anew each time, so that a network that has come up is found.
    if not reachable(entry.urls[0]):
        raise Unavailable("there is no network")
    print(f"Downloading {entry.name} ...", flush=True)
    target = root / entry.folders[0]
    try:
        root.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="downloading-", dir=root) as scratch:
            for url in entry.urls:
                _fetch(url, Path(scratch), entry)
            _require_originals(entry, Path(scratch))
            target.mkdir(parents=True, exist_ok=True)
            for name in entry.files:
                path = raw_file(Path(scratch), name)
                os.replace(path, target / path.name)
    except socket.timeout as error:
        raise Unavailable(f"the download stood still for {STALL_SECONDS:.0f} seconds") from error
    except (OSError, EOFError, http.client.HTTPException, zipfile.BadZipFile) as error:
        raise Unavailable(f"the download failed ({type(error).__name__}: {error})") from error
    return target


def reachable(url: str) -> bool:
    """Whether a server answers for `url`, decided in about three seconds."""
    answers: list[bool] = []
    # A thread, because no time-out covers a name look-up that hangs.
    thread = threading.Thread(target=lambda: answers.append(_answers(url)), daemon=True)
    thread.start()
    thread.join(PROBE_SECONDS + 0.5)
    return bool(answers and answers[0])


def _answers(url: str) -> bool:
    request = urllib.request.Request(url, method="HEAD", headers=_HEADERS)
    try:
        with urllib.request.urlopen(request, timeout=PROBE_SECONDS):
            return True
    except urllib.error.HTTPError as error:
        return error.code == _METHOD_NOT_ALLOWED
    except (OSError, ValueError, http.client.HTTPException):
        return False


def _fetch(url: str, folder: Path, entry: Entry) -> None:
    """Write what `url` holds into `folder`; of a zip archive the dataset's files alone."""
    path = folder / PurePosixPath(url.partition("?")[0]).name
    request = urllib.request.Request(url, headers=_HEADERS)
    with urllib.request.urlopen(request, timeout=STALL_SECONDS) as response, open(path, "wb") as file:
        shutil.copyfileobj(response, file, 1 << 20)
    if path.suffix != ".zip":
        return
    if not zipfile.is_zipfile(path):
        raise Unavailable(f"{url} gave no zip archive but {_first_words(path)}")
    with zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            # A member's own path is never used: it may lead out of the folder.
            name = PurePosixPath(member.filename).name
            if name in entry.files:
                with archive.open(member) as source, open(folder / name, "wb") as file:
                    shutil.copyfileobj(source, file, 1 << 20)  # checks the member's checksum on the way


def _require_originals(entry: Entry, folder: Path) -> None:
    missing = missing_files(entry, folder)
    if missing:
        raise Unavailable(f"the download lacks {', '.join(missing)}")
    changed = changed_files(entry, folder)
    if changed:
        first = raw_file(folder, changed[0])
        raise Unavailable(f"what was downloaded is not the original {changed[0]} but {_first_words(first)}")


def _first_words(path: Path) -> str:
    with open(path, "rb") as file:
        start = file.read(60)
    return f"{path.stat().st_size:,} bytes that start with {start!r}"
