"""Training in several processes gives what replicas give in one; PyTorch's own launcher starts them."""

import json
import os
import socket
import subprocess
import sys

import pytest
import torch

from gnn_ipu_helpers import poptorch

from . import training

SCRIPT = training.__file__


def launch(count, script, *arguments, **environment):
    """Run a script under torchrun to its end."""
    return subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(count), script, *arguments],
        env={**os.environ, "OMP_NUM_THREADS": "1", "GNN_IPU_COMPILER": "unfused", **environment},
        capture_output=True,
        text=True,
        timeout=170,
    )


@pytest.fixture(scope="module", params=[(2, 1), (4, 1), (2, 2)], ids=["2", "4", "2, two iterations"])
def trained(request, tmp_path_factory):
    """The results of each process, and of one process with as many replicas."""
    count, iterations = request.param
    folder = tmp_path_factory.mktemp("results")
    run = launch(count, SCRIPT, str(folder), str(iterations))
    assert run.returncode == 0, run.stderr[-3000:]
    processes = [json.loads((folder / f"{rank}.json").read_text()) for rank in range(count)]
    together = {
        kind: training.train(kind, training.made_options(count, iterations)) for kind in training.KINDS
    }
    return processes, together


@pytest.mark.parametrize("kind", training.KINDS)
def test_processes_train_as_replicas_do(trained, kind):
    processes, together = trained
    for name, expected in together[kind]["weights"].items():
        for process in processes:
            torch.testing.assert_close(
                torch.tensor(process[kind]["weights"][name]), torch.tensor(expected), atol=1e-6, rtol=0
            )


@pytest.mark.parametrize("kind", training.KINDS)
def test_every_graph_is_seen_once_over_all_processes(trained, kind):
    processes, together = trained
    seen = sorted(number for process in processes for number in process[kind]["seen"])
    assert seen == sorted(together[kind]["seen"])
    assert len(set(seen)) == len(seen)
    assert len({process[kind]["per_epoch"] for process in processes}) == 1


@pytest.fixture(scope="module")
def oddities(tmp_path_factory):
    """What two processes saw, and what they printed, with the real compiler."""
    folder, cache = tmp_path_factory.mktemp("results"), tmp_path_factory.mktemp("cache")
    cache.chmod(0o700)
    script = os.path.join(os.path.dirname(SCRIPT), "oddities.py")
    run = launch(2, script, str(folder), GNN_IPU_COMPILER="inductor", POPTORCH_CACHE_DIR=str(cache))
    assert run.returncode == 0, run.stderr[-3000:]
    return [json.loads((folder / f"{rank}.json").read_text()) for rank in range(2)], run.stderr, cache


def test_other_weights_give_way_to_those_of_the_first_process_and_it_is_said(oddities):
    (first, second), _, _ = oddities
    assert first["weights"] == second["weights"]
    assert not first["said"]
    assert "torch.manual_seed" in second["said"][0]


def test_a_model_that_is_not_static_is_refused_in_every_process(oddities):
    for process in oddities[0]:
        assert "x[x[:, 0] > 0]" in process["not static"]


def test_buffers_written_in_forward_need_broadcast_buffers_off(oddities):
    for process in oddities[0]:
        assert "broadcastBuffers(False)" in process["buffers"]
        assert process["own buffers"] is None


def test_processes_draw_different_random_numbers(oddities):
    (first, second), _, _ = oddities
    assert first["dropped"] != second["dropped"]


def test_only_the_first_process_compiles_and_shows_it(oddities):
    (first, second), stderr, cache = oddities
    assert first["compiled"] > 0
    assert (second["compiled"], second["taken over"]) == (0, first["compiled"] + first["taken over"])
    assert stderr.count("Graph compilation: 100%") == 4, "one bar for each model"
    assert any(cache.iterdir())


def start_alone(count, number, port, script, *arguments):
    """One process of several, without a launcher that would end the others."""
    names = {"RANK": number, "WORLD_SIZE": count, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    environment = {**os.environ, **{name: str(value) for name, value in names.items()}}
    environment.update(OMP_NUM_THREADS="1", GNN_IPU_COMPILER="unfused")
    return subprocess.Popen(
        [sys.executable, script, *arguments],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def test_when_one_process_is_killed_the_other_ends_and_says_why(tmp_path):
    script = tmp_path / "endless.py"
    script.write_text(
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "import torch\n"
        "from oddities import Net, wrapped\n"
        "model = wrapped(Net())\n"
        "while True:\n"
        "    model(torch.ones(2, 3))\n"
        "    print('step', flush=True)\n"
    )
    port = free_port()
    folder = os.path.dirname(SCRIPT)
    processes = [start_alone(2, number, port, str(script), folder) for number in range(2)]
    try:
        for process in processes:
            assert process.stdout.readline() == "step\n", process.stderr.read()
        processes[1].kill()
        _, stderr = processes[0].communicate(timeout=60)
    finally:
        for process in processes:
            process.kill()
            process.communicate()
    assert processes[0].returncode != 0
    assert "Another of the 2 processes ended, so process 0 stops" in stderr


def test_processes_without_a_meeting_point_are_told_how_to_launch():
    options = poptorch.Options()
    options.Distributed.configureProcessId(0, 2)
    model = Linear()
    with pytest.raises(poptorch.Error, match="torchrun --nproc-per-node 2"):
        poptorch.trainingModel(model.train(), options)(torch.ones(2, 3))


class Linear(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(3, 3)

    def forward(self, x):
        return torch.nn.functional.mse_loss(self.linear(x), x)


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, (0, 1)),
        ({"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "4"}, (1, 4)),
        ({"RANK": "2", "WORLD_SIZE": "3", "MASTER_ADDR": "a", "MASTER_PORT": "1"}, (2, 3)),
        ({"RANK": "2", "WORLD_SIZE": "3"}, (0, 1)),
    ],
    ids=["alone", "OpenMPI", "torchrun", "variables of something else"],
)
def test_options_know_from_the_launcher_which_process_this_is(monkeypatch, environment, expected):
    for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    processes = poptorch.Options().Distributed
    assert (processes.processId, processes.numProcesses) == expected
