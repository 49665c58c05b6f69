"""`poptorch.DataLoader`: torch's loader that hands out combined batches, shares them out and loads ahead."""

from __future__ import annotations

import itertools
import logging
from typing import Any, Iterable, Iterator

import torch
from torch.utils.data import DataLoader as TorchDataLoader
from torch.utils.data import Dataset, IterableDataset

from .arguments import Flat, rebuild
from .enums import DataLoaderMode, SharingStrategy
from .errors import Error, InvalidSetting
from .options import Options, freeze

_LOG = logging.getLogger("poptorch")


class DataLoader(TorchDataLoader):
    """A loader whose batches hold all the mini-batches of one call of the wrapped model.

    Args:
        options: The options of the model.
        dataset: Where samples come from.
        batch_size: The samples of a mini-batch. A batch holds `batch_size` times device iterations, replicas
            and accumulation steps: tensors come as `[combinedBatchSize, ...]`. With None the dataset's items
            are whole combined batches.
        shuffle: Whether to draw samples in random order; with several processes this needs `randomSeed`.
        num_workers: Processes that load.
        drop_last: Leave out an incomplete last batch; True unless said otherwise, unlike torch.
        persistent_workers: Keep the workers between epochs: where there are any, unless said otherwise.
        auto_distributed_partitioning: Give each of several processes a share of its own.
        mode: `Async` loads ahead in a process of its own.
        async_options: Further arguments for `AsynchronousDataAccessor`.
        rebatched_worker_size: With `AsyncRebatched`, how many samples are loaded at a time.
        batch_sampler: Names the samples of each mini-batch; as many mini-batches as one call takes are
            joined.
        kwargs: Further arguments for torch's `DataLoader`.
    """

    _accessor: AsynchronousDataAccessor | None = None

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
        if not isinstance(options, Options):
            raise InvalidSetting(
                "The first argument of poptorch.DataLoader must be a poptorch.Options (got "
                f"{type(options).__name__})."
            )
        is_shared = auto_distributed_partitioning and options.Distributed.numProcesses > 1
        if batch_sampler is not None:
            if batch_size != 1 or shuffle:
                raise Error(
                    "`batch_sampler` option is mutually exclusive with batch_size, shuffle: it decides the "
                    f"batches by itself (got batch_size={batch_size}, shuffle={shuffle})."
                )
            if is_shared:
                raise Error(
                    "`batch_sampler` option is mutually exclusive with auto_distributed_partitioning=True: "
                    "give each process one of its own and pass auto_distributed_partitioning=False."
                )
            batch_size = getattr(batch_sampler, "batch_size", 1)
        freeze(options)
        self._options = options
        self._mode = DataLoaderMode(mode)
        self._drops_last = drop_last
        per_call = options.device_iterations * options.replication_factor
        per_call *= options.Training.gradient_accumulation
        self._joins = per_call if batch_sampler is not None else 1
        size = None if batch_size is None else batch_size * per_call
        self._combined_batch_size = size
        if is_shared:
            dataset = _Share(dataset, options, size, drop_last, bool(shuffle))
        elif not (drop_last or batch_sampler is not None or isinstance(dataset, IterableDataset)):
            rest = len(dataset) % size if size else 0
            if rest:
                _LOG.warning(
                    "The dataset's %d elements are not divisible by the combined batch size of %d, and "
                    "drop_last=False: the last batch holds %d, and a compiled graph serves one size only. "
                    "Pass drop_last=True.",
                    *(len(dataset), size, rest),
                )
        arguments: dict[str, Any] = dict(kwargs, num_workers=num_workers)
        if persistent_workers is None:
            persistent_workers = num_workers > 0
        arguments["persistent_workers"] = persistent_workers
        if batch_sampler is not None:
            arguments["batch_sampler"] = batch_sampler
        else:
            arguments.update(batch_size=size, drop_last=drop_last)
            arguments["shuffle"] = bool(shuffle) and not is_shared  # a share shuffles by itself
        self._rebatched_size: int | None = None
        if self._mode == DataLoaderMode.AsyncRebatched and batch_sampler is None:
            if size is None:
                raise InvalidSetting("DataLoaderMode.AsyncRebatched needs a batch_size.")
            if rebatched_worker_size is not None and not 1 <= rebatched_worker_size <= size:
                raise InvalidSetting(
                    f"rebatched_worker_size must lie in 1..{size}, the combined batch size (got "
                    f"{rebatched_worker_size})."
                )
            self._rebatched_size = size
            arguments.update(batch_size=rebatched_worker_size or size, drop_last=False)
        elif rebatched_worker_size is not None:
            raise InvalidSetting("rebatched_worker_size is for mode=poptorch.DataLoaderMode.AsyncRebatched.")
        super().__init__(dataset, **arguments)
        # Workers load ahead by themselves; without any, a process is started that does.
        if self._mode != DataLoaderMode.Sync and num_workers == 0:
            self._accessor = AsynchronousDataAccessor(_Synchronous(self), **(async_options or {}))

    combinedBatchSize = property(
        lambda self: self._combined_batch_size,
        doc="How many samples one batch holds; None where the dataset decides.",
    )
    options = property(lambda self: self._options, doc="The options this loader was made with.")

    def terminate(self) -> None:
        """Stop loading ahead."""
        if self._accessor is not None:
            self._accessor.terminate()

    def __del__(self) -> None:
        self.terminate()

    def __len__(self) -> int:
        if self._rebatched_size is not None:
            samples: Any = self.dataset if isinstance(self.dataset, IterableDataset) else self.sampler
            count, joined = len(samples), self._rebatched_size
        else:
            count, joined = super().__len__(), self._joins
        return count // joined if self._drops_last else -(-count // joined)

    def __iter__(self) -> Any:
        if isinstance(self.dataset, _Share):
            self.dataset.shuffle()
        return iter(_Synchronous(self) if self._accessor is None else self._accessor)


class _Synchronous:
    """A loader's own batches, without loading ahead: in the process that does so for it, they draw from that
    process's random numbers."""

    def __init__(self, loader: DataLoader) -> None:
        self._loader = loader

    def __len__(self) -> int:
        return len(self._loader)

    def __iter__(self) -> Iterator:
        loader = self._loader
        batches = TorchDataLoader.__iter__(loader)
        if loader._rebatched_size is not None:
            return rebatched(batches, loader._rebatched_size, loader._drops_last)
        if loader._joins > 1:
            return _joined(batches, loader._joins, loader._drops_last)
        return batches


class _Share(Dataset):
    """The part of a dataset that one of several processes sees: contiguous, and as long as the others'.

    Shuffled, all processes draw the same order of the whole, and each takes its part of it. What is left
    over at the end of one epoch comes at the beginning of the next.
    """

    def __init__(
        self, dataset: Any, options: Options, size: int | None, drop_last: bool, shuffle: bool
    ) -> None:
        process, count = options.Distributed.processId, options.Distributed.numProcesses
        if isinstance(dataset, IterableDataset):
            raise InvalidSetting("auto_distributed_partitioning is not supported for an IterableDataset.")
        if size is None:
            raise InvalidSetting("batch_size=None is not allowed when using auto_distributed_partitioning.")
        if shuffle and not options.exists("random_seed"):
            raise InvalidSetting(
                "Shuffling across processes needs the same order in each of them: call "
                "options.randomSeed(seed), with the same seed everywhere."
            )
        total = len(dataset)
        if drop_last:
            self._length = size * (total // (size * count))
            self._offset = process * self._length
            self._left_over = total % self._length if self._length else 0
        else:
            lengths = [total // count + (total % count > number) for number in range(count)]
            self._length, self._offset, self._left_over = lengths[process], sum(lengths[:process]), 0
        self._dataset = dataset
        self._generator = torch.Generator().manual_seed(options.random_seed) if shuffle else None
        # In shared memory, so that workers see the next epoch's order too.
        self._order = torch.arange(total).share_memory_()
        self._shift = torch.zeros((), dtype=torch.long).share_memory_()

    def shuffle(self) -> None:
        """Draw the order of the next epoch."""
        if self._generator is not None:
            self._order.copy_(torch.randperm(len(self._dataset), generator=self._generator))
            self._shift.copy_(self._left_over if self._shift == 0 else torch.zeros(()))

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: int) -> Any:
        if not 0 <= index < self._length:
            raise IndexError(index)
        return self._dataset[int(self._order[index + self._offset + self._shift])]


# Joining and cutting batches


def _joined(batches: Iterable, count: int, drop_last: bool) -> Iterator:
    """Every `count` batches of one structure as one, tensor by tensor on dimension 0."""
    batches = iter(batches)
    while held := list(itertools.islice(batches, count)):
        if len(held) == count or not drop_last:
            tensors = [torch.cat(parts) for parts in zip(*(Flat(batch).tensors for batch in held))]
            yield rebuild(held[0], iter(tensors))


def rebatched(batches: Iterable, size: int, drop_last: bool = True) -> Iterator:
    """Cut and join batches on dimension 0 to batches of `size`; an incomplete last one may be dropped."""
    pending: list[list[torch.Tensor]] = []
    held = 0
    for batch in batches:
        pending.append(Flat(batch).tensors)
        held += len(pending[-1][0])
        while held >= size:
            joined = [torch.cat(parts) for parts in zip(*pending)]
            yield rebuild(batch, iter([tensor[:size] for tensor in joined]))
            held -= size
            pending = [[tensor[size:] for tensor in joined]]
    if held and not drop_last:
        yield rebuild(batch, iter([torch.cat(parts) for parts in zip(*pending)]))


# Loading ahead


class _Stream(IterableDataset):
    """The batches of any iterable, made in the one process that goes over it."""

    def __init__(self, batches: Iterable, rebatched_size: int | None) -> None:
        self._batches, self._size = batches, rebatched_size

    def __iter__(self) -> Iterator:
        batches = iter(self._batches)
        return batches if self._size is None else rebatched(batches, self._size)


class AsynchronousDataAccessor:
    """Iterates over `dataset` while a process of its own loads ahead.

    Loading draws from that process's random numbers and leaves those of the model's process alone.

    Args:
        dataset: Any iterable of batches, such as a `DataLoader`.
        buffer_size: How many batches to load ahead.
        miss_sleep_time_in_ms: Without effect here.
        load_indefinitely: Whether it can be gone over more than once.
        early_preload: Begin to load now rather than when it is first gone over.
        sharing_strategy: Without effect here: the process is made by torch's own loader.
        rebatched_size: Put incoming batches together to batches of that many samples (dimension 0), dropping
            an incomplete last one.
    """

    _loader: TorchDataLoader | None = None

    def __init__(
        self,
        dataset: Any,
        buffer_size: int = 3,
        miss_sleep_time_in_ms: float = 0.1,
        load_indefinitely: bool = True,
        early_preload: bool = False,
        sharing_strategy: SharingStrategy = SharingStrategy.ForkServer,
        rebatched_size: int | None = None,
    ) -> None:
        if isinstance(dataset, DataLoader) and dataset._accessor is not None:
            raise Error(
                "The DataLoader already uses an AsynchronousDataAccessor internally: go over it as it is, or "
                "make it with mode=poptorch.DataLoaderMode.Sync."
            )
        is_nested = getattr(dataset, "num_workers", 0) > 0  # workers cannot be started from another worker
        if rebatched_size is not None and rebatched_size < 2:
            raise InvalidSetting(f"rebatched_size must be None or greater than 1 (got {rebatched_size}).")
        self._dataset = dataset
        self._load_indefinitely = load_indefinitely
        self._passes = 0
        self.rebatched_size = rebatched_size
        self._ready: Iterator | None = None
        self._direct = _Stream(dataset, rebatched_size)
        if not is_nested:
            seed = torch.initial_seed() % 2**63
            self._loader = TorchDataLoader(
                self._direct,
                batch_size=None,
                num_workers=1,
                prefetch_factor=max(buffer_size, 1),
                persistent_workers=True,
                generator=torch.Generator().manual_seed(seed),
            )
        if early_preload:
            self._ready = iter(self._source())

    def terminate(self) -> None:
        """Stop loading ahead; the process ends."""
        loader, self._loader, self._ready = self._loader, None, None
        if loader is not None:
            self._direct = _Stream([], None)
            if loader._iterator is not None:
                loader._iterator._shutdown_workers()  # type: ignore[attr-defined]
                loader._iterator = None

    def __del__(self) -> None:
        self.terminate()

    def __len__(self) -> int:
        if self.rebatched_size is None:
            return len(self._dataset)
        return len(self._dataset) * (getattr(self._dataset, "batch_size", 1) or 1) // self.rebatched_size

    def __iter__(self) -> Iterator:
        if self._passes and not self._load_indefinitely:
            raise Error(
                "This accessor was made with load_indefinitely=False: it goes over the dataset only once."
            )
        self._passes += 1
        ready, self._ready = self._ready, None
        return ready if ready is not None else iter(self._source())

    def _source(self) -> Iterable:
        return self._direct if self._loader is None else self._loader
