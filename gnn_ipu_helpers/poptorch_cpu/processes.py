"""Training in several processes: each is a replica, and PyTorch's own collectives add up their gradients.

Started by `torchrun` (or OpenMPI's `mpirun`), every process runs the same script. The options know from the
launcher's environment which process this is, the loaders give each its share, and the wrapped model adds up
the gradients before each step. So `n` processes train as `replicationFactor(n)` does in one.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
from typing import Any, Iterator

import torch
from torch import distributed

from .cache import COMPILER_VARIABLE, ExecutableCache, PackedExecutable, pack
from .errors import Error

_LOG = logging.getLogger("poptorch")
_TORCHRUN = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
_OPENMPI = ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE")


def launched_as() -> tuple[int, int]:
    """The number of this process and how many there are, as OpenMPI or torchrun say; 0 and 1 otherwise."""
    environ = os.environ
    # RANK and WORLD_SIZE alone may be anybody's: torchrun also says where the processes meet.
    names = _TORCHRUN[:2] if all(name in environ for name in _TORCHRUN) else _OPENMPI[:2]
    return int(environ.get(names[0], 0)), int(environ.get(names[1], 1))


class Processes:
    """The processes that train together; `join` before anything is exchanged."""

    def __init__(self, number: int, count: int) -> None:
        self.number, self.count = number, count

    @property
    def is_first(self) -> bool:
        """Whether this is the process that draws progress bars and writes the cache."""
        return self.number == 0

    def join(self) -> None:
        """Find the other processes, unless there are none or the script has done so."""
        if self.count == 1:
            return
        if not distributed.is_initialized():
            self._find_others()
        found = (distributed.get_rank(), distributed.get_world_size())
        if found != (self.number, self.count):
            raise Error(
                f"options.Distributed says that this is process {self.number} of {self.count}, and "
                f"torch.distributed that it is {found[0]} of {found[1]}. Launch the script with torchrun, "
                "which tells both, or call options.Distributed.configureProcessId(rank, world_size)."
            )

    def _find_others(self) -> None:
        environ = os.environ
        address, port = environ.get("MASTER_ADDR"), environ.get("MASTER_PORT")
        if address is None and environ.get(_OPENMPI[2]) == str(self.count):
            address = "127.0.0.1"  # all of them are on this machine
        if address is None or (port is None and _OPENMPI[1] not in environ):
            raise Error(
                f"options.Distributed names {self.count} processes, and this one does not know where the "
                f"others are. Launch the script as `torchrun --nproc-per-node {self.count} script.py`, or "
                "set MASTER_ADDR and MASTER_PORT for every process; to train alone call "
                "options.Distributed.disable()."
            )
        with self._named("could not be reached"):
            distributed.init_process_group(
                "gloo",
                init_method=f"tcp://{address}:{port or 29500}",
                rank=self.number,
                world_size=self.count,
            )
        atexit.register(_leave)

    @contextlib.contextmanager
    def _named(self, what: str) -> Iterator[None]:
        try:
            yield
        except (RuntimeError, ValueError) as error:
            raise Error(
                f"Another of the {self.count} processes {what}, so process {self.number} stops. It may have "
                "failed or been killed (its own output says why), or had fewer batches than the others: all "
                f"must make the same calls. torch.distributed says: {str(error).splitlines()[0]}"
            ) from error

    def share_weights(self, model: torch.nn.Module) -> None:
        """Start from the weights and buffers of the first process, as its replicas would."""
        if self.count == 1:
            return
        with torch.no_grad(), self._named("ended"):
            for tensors in _by_dtype([*model.parameters(), *model.buffers()]):
                own = torch.cat([tensor.reshape(-1) for tensor in tensors])
                first = own.clone()
                distributed.broadcast(first, 0)
                if not torch.equal(own, first):
                    _LOG.warning(
                        "Process %d began with other weights than process 0 and takes those. On IPUs each "
                        "process keeps its own: call torch.manual_seed(...) before the model is made.",
                        self.number,
                    )
                for tensor, part in zip(tensors, first.split([tensor.numel() for tensor in tensors])):
                    tensor.copy_(part.view_as(tensor))

    def add_up(self, gradients: list[torch.Tensor]) -> None:
        """Replace each gradient by its sum over all processes."""
        if self.count == 1:
            return
        with self._named("ended"):
            # One message for all of them: a graph network's weights are small, and messages take time.
            for tensors in _by_dtype(gradients):
                total = torch.cat([tensor.reshape(-1) for tensor in tensors])
                distributed.all_reduce(total)
                for tensor, part in zip(tensors, total.split([tensor.numel() for tensor in tensors])):
                    tensor.copy_(part.view_as(tensor))

    def compiling_once(self, cache: ExecutableCache | PackedExecutable) -> Any:
        """A cache with which the first process compiles, and the others take over what it compiled."""
        return cache if self.count == 1 else _CompiledByFirst(self, cache)


class _CompiledByFirst:
    """What the first process's compiler wrote, in every process."""

    def __init__(self, processes: Processes, cache: ExecutableCache | PackedExecutable) -> None:
        self._processes, self._cache = processes, cache

    @property
    def packed(self) -> bytes | None:
        return self._cache.packed

    @contextlib.contextmanager
    def around_compilation(self, key: tuple) -> Iterator[None]:
        """Compile inside: the others begin when the first has ended, well or not."""
        received: list[Any] = [None]
        if not self._processes.is_first:
            self._exchange(received)
            with PackedExecutable(received[0]).around_compilation(key):
                yield
            return
        is_kept = isinstance(self._cache, PackedExecutable) or self._cache.directory is not None
        cache = self._cache if is_kept else PackedExecutable()
        try:
            with cache.around_compilation(key):
                yield
                received = [pack(os.environ[COMPILER_VARIABLE]) if COMPILER_VARIABLE in os.environ else None]
        finally:
            self._exchange(received)  # nothing, if compiling failed: then it fails in the others too

    def _exchange(self, received: list[Any]) -> None:
        with self._processes._named("ended while compiling"):
            distributed.broadcast_object_list(received, 0)


def _by_dtype(tensors: list[torch.Tensor]) -> Iterator[list[torch.Tensor]]:
    groups: dict[torch.dtype, list[torch.Tensor]] = {}
    for tensor in tensors:
        groups.setdefault(tensor.dtype, []).append(tensor)
    yield from groups.values()


def _leave() -> None:
    if distributed.is_initialized():
        distributed.destroy_process_group()
