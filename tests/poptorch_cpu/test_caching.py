"""Executables are kept for the next process; a damaged or foreign one is compiled anew."""

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from gnn_ipu_helpers import poptorch_cpu as poptorch
from gnn_ipu_helpers.poptorch_cpu import cache as caching

from .models import Classifier, classified

ROOT = Path(__file__).parents[2]


def _start(tmp_path, *arguments, **environment):
    """A process that compiles with inductor, without what other processes left in torch's own cache."""
    own = {
        "GNN_IPU_COMPILER": "inductor",
        "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / f"own-{len(list(tmp_path.iterdir()))}"),
        "PYTHONPATH": str(ROOT),
    }
    Path(own["TORCHINDUCTOR_CACHE_DIR"]).mkdir()
    command = [sys.executable, "-W", "ignore", "-m", "tests.poptorch_cpu.cached_run", *map(str, arguments)]
    return subprocess.Popen(
        command,
        cwd=ROOT,
        env={**os.environ, **own, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _report(process):
    output, errors = process.communicate()
    assert process.returncode == 0, errors
    return {**json.loads(output.splitlines()[-1]), "errors": errors}


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    """A cache that two processes filled at once, and their reports."""
    tmp_path = tmp_path_factory.mktemp("cache")
    cache = tmp_path / "shared" / "cache"
    processes = [_start(tmp_path, cache) for _ in range(2)]
    return cache, [_report(process) for process in processes]


def test_two_processes_share_a_directory(filled):
    cache, reports = filled
    assert reports[0]["losses"] == reports[1]["losses"]
    assert [file.suffix for file in cache.iterdir()] == [".executable"]


def test_next_process_starts_warm(filled, tmp_path):
    cache, reports = filled
    entry = next(cache.iterdir()).read_bytes()
    warm = _report(_start(tmp_path, POPTORCH_CACHE_DIR=str(cache)))
    assert (warm["hits"], warm["misses"]) == (1, 0)
    assert warm["losses"] == reports[0]["losses"]
    assert next(cache.iterdir()).read_bytes() == entry


def _broken_entries(entry):
    magic, versions, checksum, payload = entry.split(b"\n", 3)
    return {
        "cut short": entry[: len(entry) // 2],
        "empty": b"",
        "changed": entry[:-1] + bytes([entry[-1] ^ 1]),
        "of another version": b"\n".join([magic, b"torch 1.0", checksum, payload]),
        "of another program": b"not an executable",
    }


@pytest.mark.parametrize("kind", _broken_entries(b"\n\n\n "))
def test_entry_that_cannot_be_used_is_not_unpacked(filled, tmp_path, kind):
    entry = next(filled[0].iterdir()).read_bytes()
    with pytest.raises(caching.DamagedEntry):
        caching.unpack(_broken_entries(entry)[kind], str(tmp_path))
    assert not list(tmp_path.iterdir())


def test_damaged_entry_is_a_warning_and_is_replaced(filled, tmp_path):
    cache, reports = filled
    file = next(cache.iterdir())
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2])
    again = _report(_start(tmp_path, POPLAR_EXECUTABLE_CACHE_DIR=str(cache)))
    assert (
        "cannot be used (its checksum does not fit: it is damaged or incomplete): compiling anew"
        in again["errors"]
    )
    assert again["losses"] == reports[0]["losses"]
    caching.unpack(file.read_bytes(), str(tmp_path / "unpacked"))


def test_directory_that_cannot_be_written_is_a_warning(tmp_path, caplog, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(caching, "compiler_files_in", _leave_a_file_in)
    options = poptorch.Options().enableExecutableCaching(tmp_path / "file" / "cache")
    out, _ = poptorch.trainingModel(Classifier(), options)(*classified(4))
    assert out.shape == (4, 3)
    assert "going on without it" in caplog.text


class _leave_a_file_in:
    """In place of the compiler: one file in the workspace."""

    def __init__(self, directory):
        (Path(directory) / "code").write_text("compiled")

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        pass


def test_entry_is_named_after_the_model(tmp_path, monkeypatch):
    monkeypatch.setattr(caching, "compiler_files_in", _leave_a_file_in)
    for options in (poptorch.Options(), poptorch.Options().modelName("my model")):
        poptorch.trainingModel(Classifier(), options.enableExecutableCaching(tmp_path))(*classified(4))
    names = sorted(file.name.partition("-")[0] for file in tmp_path.iterdir())
    assert names == ["Classifier", "my_model"]


def test_other_shapes_and_modes_have_entries_of_their_own(tmp_path, monkeypatch):
    monkeypatch.setattr(caching, "compiler_files_in", _leave_a_file_in)
    for wrap in (poptorch.trainingModel, poptorch.inferenceModel):
        for batch in (4, 5, 5):
            wrap(Classifier(), poptorch.Options().enableExecutableCaching(tmp_path))(*classified(batch))
    assert len(list(tmp_path.iterdir())) == 4


def test_without_a_cache_nothing_is_kept(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    poptorch.trainingModel(Classifier())(*classified(4))
    assert not list(tmp_path.iterdir())


def test_options_come_before_the_environment(monkeypatch):
    def directory(options):
        return str(poptorch.inferenceModel(Classifier(), options)._cache.directory)

    monkeypatch.setenv("POPLAR_EXECUTABLE_CACHE_DIR", "from Poplar")
    directories = [directory(poptorch.Options())]
    monkeypatch.setenv("POPTORCH_CACHE_DIR", "from PopTorch")
    directories.append(directory(poptorch.Options()))
    directories.append(directory(poptorch.Options().enableExecutableCaching("option")))
    assert directories == ["from Poplar", "from PopTorch", "option"]


def test_threads_keep_an_entry_each_and_leave_the_compilers_folder_as_it_was(tmp_path, monkeypatch):
    monkeypatch.setenv("GNN_IPU_COMPILER", "inductor")
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "own"))
    cache = tmp_path / "cache"

    def train(batch):
        options = poptorch.Options().enableExecutableCaching(cache).showCompilationProgressBar(False)
        poptorch.trainingModel(Classifier(), options)(*classified(batch))

    threads = [threading.Thread(target=train, args=(batch,)) for batch in (3, 4, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(list(cache.glob("*.executable"))) == 3
    assert os.environ["TORCHINDUCTOR_CACHE_DIR"] == str(tmp_path / "own")


def test_broken_archive_with_the_right_checksum_is_damaged(tmp_path):
    header = caching._MAGIC + caching.versions().encode() + b"\n"
    with pytest.raises(caching.DamagedEntry, match="cannot be unpacked"):
        caching.unpack(header + caching._with_checksum(b"no archive"), str(tmp_path))


def test_directory_that_others_can_write_is_not_used(tmp_path, caplog, monkeypatch):
    monkeypatch.setattr(caching, "compiler_files_in", _leave_a_file_in)
    tmp_path.chmod(0o777)
    poptorch.trainingModel(Classifier(), poptorch.Options().enableExecutableCaching(tmp_path))(*classified(4))
    assert "others can write into it, and its entries are code" in caplog.text
    assert not list(tmp_path.iterdir())


def test_workspace_that_cannot_be_made_is_a_warning(tmp_path, caplog, monkeypatch):
    def full(*args, **kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(caching.tempfile, "TemporaryDirectory", full)
    poptorch.trainingModel(Classifier(), poptorch.Options().enableExecutableCaching(tmp_path))(*classified(4))
    assert "No space left on device" in caplog.text


def test_what_a_killed_process_left_is_swept_a_day_later(tmp_path, monkeypatch):
    monkeypatch.setattr(caching, "compiler_files_in", _leave_a_file_in)
    old, new = tmp_path / "old.part", tmp_path / "new.part"
    for file in (old, new):
        file.write_bytes(b"")
    os.utime(old, (0, 0))
    poptorch.trainingModel(Classifier(), poptorch.Options().enableExecutableCaching(tmp_path))(*classified(4))
    assert not old.exists()
    assert new.exists()
