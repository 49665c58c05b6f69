"""``poptorch.DataLoader``: torch's loader that hands out combined batches, shards them and loads ahead."""

from __future__ import annotations

import itertools
from typing import Any, Iterator

import torch
from torch.utils.data import DataLoader as TorchDataLoader
from torch.utils.data import IterableDataset, RandomSampler, Sampler, SequentialSampler

from ._settings import freeze, values_of
from .accessor import AsynchronousDataAccessor, rebatched
from .enums import DataLoaderMode
from .errors import Error
from .options import Options


def mini_batches_per_call(options: Options) -> int:
    """How many mini-batches one call of the wrapped model consumes."""
    values = values_of(options)
    return values["device_iterations"] * values["replication_factor"] * values["gradient_accumulation"]


class _Share(Sampler):
    """Every ``count``-th item of a sampler, beginning with ``first``; all shares are equally long."""

    def __init__(self, sampler: Any, first: int, count: int) -> None:
        self._sampler, self._first, self._count = sampler, first, count

    def __iter__(self) -> Iterator:
        rounds = zip(*[iter(self._sampler)] * self._count)
        return (items[self._first] for items in rounds)

    def __len__(self) -> int:
        return len(self._sampler) // self._count


class _IterableShare(IterableDataset):
    """Every ``count``-th sample of an iterable dataset, beginning with ``first``."""

    def __init__(self, dataset: IterableDataset, first: int, count: int) -> None:
        self._dataset, self._first, self._count = dataset, first, count

    def __iter__(self) -> Iterator:
        return itertools.islice(iter(self._dataset), self._first, None, self._count)


class DataLoader(TorchDataLoader):
    """A loader whose batches hold all the mini-batches of one call of the wrapped model.

    The combined batch size is ``batch_size`` × device iterations × replicas × gradient accumulation; tensors
    come as ``[combined_batch_size, ...]``. A ``batch_sampler`` names the samples of each combined batch.
    Under ``options.Distributed`` each process gets its share.
    """

    def __init__(
        self,
        options: Options,
        dataset: Any,
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        num_workers: int = 0,
        drop_last: bool = True,
        persistent_workers: bool | None = None,
        auto_distributed_partitioning: bool = True,
        mode: DataLoaderMode = DataLoaderMode.Sync,
        async_options: dict[str, Any] | None = None,
        rebatched_worker_size: int | None = None,
        batch_sampler: Any = None,
        **kwargs: Any,
    ) -> None:
        _require_options(options)
        freeze(options)
        self._options = options
        self._mode = DataLoaderMode(mode)
        self._accessor: AsynchronousDataAccessor | None = None
        self._rebatched_size: int | None = None
        self._drops_last = drop_last
        self._combined_batch_size = _combined_batch_size(options, batch_size, batch_sampler)

        arguments = dict(kwargs, num_workers=num_workers)
        arguments["persistent_workers"] = (
            num_workers > 0 if persistent_workers is None else persistent_workers
        )
        if batch_sampler is None:
            arguments.update(batch_size=self._combined_batch_size, shuffle=bool(shuffle))
            if batch_size is not None:
                arguments["drop_last"] = drop_last
        else:
            _refuse_beside_batch_sampler(batch_size, shuffle)
            arguments["batch_sampler"] = batch_sampler
        if auto_distributed_partitioning and options.Distributed.numProcesses > 1:
            dataset, arguments = _shard(dataset, arguments, options)

        if self._mode == DataLoaderMode.AsyncRebatched:
            self._rebatched_size = self._rebatch(arguments, rebatched_worker_size)
        elif rebatched_worker_size is not None:
            raise ValueError("rebatched_worker_size is for mode=poptorch.DataLoaderMode.AsyncRebatched.")
        super().__init__(dataset, **arguments)
        # Workers load ahead by themselves; without any, a thread does.
        if self._mode != DataLoaderMode.Sync and num_workers == 0:
            self._accessor = AsynchronousDataAccessor(_Synchronous(self), **(async_options or {}))

    def _rebatch(self, arguments: dict[str, Any], worker_size: int | None) -> int:
        """Let workers load ``worker_size`` samples at a time; returns the size they are put together to."""
        size = self._combined_batch_size
        if size is None or "batch_sampler" in arguments:
            raise ValueError("DataLoaderMode.AsyncRebatched needs a batch_size, and no batch_sampler.")
        if worker_size is not None and not 1 <= worker_size <= size:
            raise ValueError(
                f"rebatched_worker_size must lie in 1..{size}, the combined batch size (got {worker_size})."
            )
        arguments.update(batch_size=worker_size or size, drop_last=False)
        return size

    @property
    def combinedBatchSize(self) -> int | None:
        """How many samples one batch holds; ``None`` where the batch sampler or dataset decides."""
        return self._combined_batch_size

    @property
    def options(self) -> Options:
        """The options this loader was made with."""
        return self._options

    def terminate(self) -> None:
        """Stop loading ahead."""
        if self._accessor is not None:
            self._accessor.terminate()

    def __len__(self) -> int:
        if self._mode == DataLoaderMode.AsyncRebatched:
            whole, rest = divmod(len(self.sampler), self._combined_batch_size)
            return whole if self._drops_last else whole + bool(rest)
        return super().__len__()

    def __iter__(self) -> Iterator:
        batches = super().__iter__() if self._accessor is None else iter(self._accessor)
        return (
            batches
            if self._rebatched_size is None
            else rebatched(batches, self._rebatched_size, self._drops_last)
        )


class _Synchronous:
    """A loader's own batches, without loading ahead."""

    def __init__(self, loader: DataLoader) -> None:
        self._loader = loader

    def __len__(self) -> int:
        return len(self._loader)

    def __iter__(self) -> Iterator:
        return TorchDataLoader.__iter__(self._loader)


def _require_options(options: Any) -> None:
    if not isinstance(options, Options):
        raise Error(
            "The first argument of poptorch.DataLoader must be a poptorch.Options (got "
            f"{type(options).__name__})."
        )


def _combined_batch_size(options: Options, batch_size: int | None, batch_sampler: Any) -> int | None:
    if batch_sampler is not None:
        return getattr(batch_sampler, "batch_size", None)
    return None if batch_size is None else batch_size * mini_batches_per_call(options)


def _refuse_beside_batch_sampler(batch_size: int | None, shuffle: bool | None) -> None:
    if batch_size not in (1, None) or shuffle:
        raise ValueError(
            "batch_sampler decides the batches by itself: leave out batch_size and shuffle (got "
            f"batch_size={batch_size}, shuffle={shuffle})."
        )


def _shard(dataset: Any, arguments: dict[str, Any], options: Options) -> Any:
    """Give this process its share of the dataset, or of what the samplers draw from it."""
    share = (options.Distributed.processId, options.Distributed.numProcesses)
    arguments = dict(arguments)
    if isinstance(dataset, IterableDataset):
        return _IterableShare(dataset, *share), arguments
    if "batch_sampler" in arguments:
        arguments["batch_sampler"] = _Share(arguments["batch_sampler"], *share)
        return dataset, arguments
    sampler = arguments.pop("sampler", None)
    if arguments.pop("shuffle"):
        sampler = RandomSampler(dataset, generator=_shared_generator(options))
    arguments["sampler"] = _Share(SequentialSampler(dataset) if sampler is None else sampler, *share)
    return dataset, arguments


def _shared_generator(options: Options) -> torch.Generator:
    seed = values_of(options)["random_seed"]
    if seed is None:
        raise Error(
            "Shuffling across processes needs the same order in each of them: call "
            "options.randomSeed(seed), with the same seed everywhere."
        )
    return torch.Generator().manual_seed(seed)
