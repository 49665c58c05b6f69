"""Training in several processes gives what replicas give in one; PyTorch's own launcher starts them."""

import json
import os
import subprocess
import sys

import pytest
import torch

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
