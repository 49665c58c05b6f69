"""The training script that people copy: it survives being stopped and killed, and tells what it did."""

import csv
import importlib
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
SCRIPT = EXAMPLES / "train_qm9.py"
BRIEFLY = [
    "--molecules",
    "400",
    "--epochs",
    "3",
    "--pack-size",
    "16",
    "--hidden",
    "8",
    "--checkpoint-every",
    "5",
]
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "GNN_IPU_COMPILER": "unfused"}


@pytest.fixture
def script(monkeypatch):
    monkeypatch.syspath_prepend(EXAMPLES)
    return importlib.import_module("train_qm9")


def start(folder, *arguments, launcher=()):
    return subprocess.Popen(
        [sys.executable, *launcher, str(SCRIPT), *BRIEFLY, "--output", str(folder), *arguments],
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def finish(process):
    output, _ = process.communicate(timeout=120)
    return output


def last_checkpoint(folder):
    return torch.load(max(folder.glob("step-*.pt")), weights_only=True)


@pytest.mark.parametrize(
    "launcher", [(), ("-m", "torch.distributed.run", "--nproc-per-node", "2")], ids=["1", "2"]
)
def test_a_stopped_run_resumes_to_the_weights_of_an_uninterrupted_one(tmp_path, launcher):
    whole = start(tmp_path / "whole", launcher=launcher)
    stopped = start(tmp_path / "stopped", launcher=launcher)
    while not list((tmp_path / "stopped").glob("*.pt")) and stopped.poll() is None:
        time.sleep(0.005)
    stopped.send_signal(signal.SIGTERM)
    output = finish(stopped)
    assert stopped.returncode != 0, output
    finish(whole)
    before = last_checkpoint(tmp_path / "stopped")["step"]
    expected = last_checkpoint(tmp_path / "whole")
    assert 0 < before < expected["step"]
    output = finish(start(tmp_path / "stopped", "--resume", launcher=launcher))
    assert f"resumed after {before} steps" in output
    resumed = last_checkpoint(tmp_path / "stopped")
    assert resumed["step"] == expected["step"]
    for name, value in expected["model"].items():
        assert torch.equal(resumed["model"][name], value), name


def test_metrics_are_written_as_table_and_picture(tmp_path):
    output = finish(start(tmp_path, "--compare"))
    with open(tmp_path / "metrics.csv") as file:
        rows = list(csv.DictReader(file))
    assert [row["epoch"] for row in rows] == ["1", "2", "3"]
    assert float(rows[-1]["valid_error_eV"]) > 0
    assert "<svg" in (tmp_path / "metrics.svg").read_text()
    assert "plain PyG: test error" in output
    assert "graphs/s in 1 process(es)" in output


def test_kills_at_random_moments_lose_no_checkpoint(tmp_path, script):
    """A child writes one checkpoint after another; whatever it had finished when it was killed is found."""
    chance = random.Random(0)
    for trial in range(20):
        folder = tmp_path / str(trial)
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            for step in range(10**6):
                script.write_checkpoint(
                    folder, step, {"step": step, "weights": torch.full((20_000,), float(step))}
                )
                os.write(writing, step.to_bytes(4, "big"))
        os.close(writing)
        os.read(reading, 4)
        time.sleep(chance.random() / 20)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        with os.fdopen(reading, "rb") as pipe:
            finished = pipe.read()
        last = int.from_bytes(finished[-4:], "big")
        state = script.newest_checkpoint(folder)
        assert state["step"] >= last
        assert (state["weights"] == state["step"]).all()


def test_a_damaged_checkpoint_gives_way_to_the_one_before(tmp_path, script, capsys):
    for step in (1, 2):
        path = script.write_checkpoint(tmp_path, step, {"step": step})
    path.write_bytes(path.read_bytes()[:100])
    assert script.newest_checkpoint(tmp_path) == {"step": 1}
    assert "step-00000002.pt cannot be read" in capsys.readouterr().err


def test_without_a_checkpoint_there_is_none(tmp_path, script):
    assert script.newest_checkpoint(tmp_path / "nowhere") is None


def test_the_script_explains_its_arguments(script, capsys):
    with pytest.raises(SystemExit):
        script.main(["--help"])
    assert "torchrun --nproc-per-node 2" in capsys.readouterr().out
