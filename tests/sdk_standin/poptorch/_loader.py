"""PopTorch's loader: torch's own, whose batch is what one call of a wrapped model takes."""

import logging

import torch

from ._arguments import map_tensors, tensors
from .enums import DataLoaderMode, SharingStrategy
from .options import Options
from .poptorch_core import Error

_logger = logging.getLogger("poptorch::python")


class _Share:
    """The samples of one process: a contiguous range of the dataset, of the same length in all processes."""

    def __init__(self, dataset, options, step, drop_last):
        processes, process = options.Distributed.numProcesses, options.Distributed.processId
        if drop_last:
            self._length = step * (len(dataset) // (step * processes))
            self._offset = process * self._length
            self._leftovers = len(dataset) % self._length if self._length else 0
        else:
            lengths = [
                len(dataset) // processes + (len(dataset) % processes > other) for other in range(processes)
            ]
            self._offset, self._length, self._leftovers = sum(lengths[:process]), lengths[process], 0
        self._dataset, self._order, self._is_second = dataset, None, True
        self._generator = torch.Generator()
        if options.exists("random_seed"):
            self._generator.manual_seed(options.random_seed)

    def begin_epoch(self):
        """All processes shuffle alike; every other epoch begins where the leftovers are not left out."""
        self._order = torch.randperm(len(self._dataset), generator=self._generator)
        self._is_second = not self._is_second

    def __len__(self):
        return self._length

    def __getitem__(self, index):
        if self._order is None:
            return self._dataset[index + self._offset]
        return self._dataset[int(self._order[index + self._offset + (not self._is_second) * self._leftovers])]


class DataLoader(torch.utils.data.DataLoader):
    def __init__(
        self,
        options,
        dataset,
        batch_size=1,
        shuffle=None,
        num_workers=0,
        drop_last=True,
        persistent_workers=None,
        auto_distributed_partitioning=True,
        mode=DataLoaderMode.Sync,
        async_options=None,
        rebatched_worker_size=None,
        batch_sampler=None,
        **kwargs,
    ):
        self._has_own_sampler = batch_sampler is not None
        if self._has_own_sampler:
            if batch_size != 1 or shuffle:
                raise Error("`batch_sampler` option is mutually exclusive with batch_size, shuffle.")
            if options.Distributed.numProcesses > 1 and auto_distributed_partitioning:
                raise Error(
                    "`batch_sampler` option is mutually exclusive with auto_distributed_partitioning=True."
                )
            batch_size = getattr(batch_sampler, "batch_size", batch_size)
        else:
            shuffle = bool(shuffle)
        assert isinstance(options, Options)
        options._freeze()
        self._num_joined = (
            options.device_iterations
            * (options.replication_factor // options.input_group_size)
            * options.Training.gradient_accumulation
        )
        self._combined = None if batch_size is None else batch_size * self._num_joined
        if batch_size is not None:  # PopTorch keeps no options without a batch size
            self._options = options
        self._joined_drop_last = drop_last
        # Only from here on can the object be deleted in peace: see terminate.
        self._accessor = None
        self._shares = None
        is_iterable = isinstance(dataset, torch.utils.data.IterableDataset)
        if options.Distributed.numProcesses > 1 and auto_distributed_partitioning:
            assert not is_iterable, "auto_distributed_partitioning not supported for IterableDataset"
            assert not shuffle or options.exists("random_seed"), (
                "When using auto_distributed_partitioning you must set poptorch.Options.randomSeed()"
            )
            assert self._combined is not None, (
                "batch_size=None not allowed with auto_distributed_partitioning."
            )
            dataset = _Share(dataset, options, self._combined, drop_last)
            if shuffle:
                self._shares, shuffle = dataset, False
        if not is_iterable and not drop_last and self._combined and len(dataset) % self._combined:
            _logger.warning(
                "%d elements are not divisible by the %d processed per step, and drop_last=False: the last "
                "batch will be smaller.",
                len(dataset),
                self._combined,
            )
        super().__init__(
            dataset,
            batch_size=1 if self._has_own_sampler else self._combined,
            shuffle=None if self._has_own_sampler else shuffle,
            batch_sampler=batch_sampler,
            num_workers=num_workers,
            drop_last=None if self._has_own_sampler else drop_last,
            persistent_workers=num_workers > 0 if persistent_workers is None else persistent_workers,
            **kwargs,
        )
        if mode != DataLoaderMode.Sync:
            self._accessor = AsynchronousDataAccessor(
                self, **(async_options or {}), rebatched_size=None if drop_last else self._combined
            )

    @property
    def combinedBatchSize(self):
        return self._combined

    @property
    def options(self):
        return self._options

    def terminate(self):
        if self._accessor is not None:
            self._accessor.terminate()

    def __del__(self):
        self.terminate()

    def __iter__(self):
        if self._shares is not None:
            self._shares.begin_epoch()
        if self._has_own_sampler and self._num_joined != 1:
            return self._joined(super().__iter__())
        return super().__iter__()

    def _joined(self, batches):
        """So many batches of the sampler at a time, their tensors concatenated on dimension 0."""
        waiting = []
        for batch in batches:
            waiting.append(batch)
            if len(waiting) == self._num_joined:
                yield _concatenate(waiting)
                waiting = []
        if waiting and not self._joined_drop_last:
            yield _concatenate(waiting)


def _concatenate(batches):
    columns = zip(*map(tensors, batches))
    return map_tensors(lambda tensor: torch.cat(next(columns)), batches[-1])


class AsynchronousDataAccessor:
    """Loads ahead on the SDK; here it gives the same batches without that."""

    def __init__(
        self,
        dataset,
        buffer_size=3,
        miss_sleep_time_in_ms=0.1,
        load_indefinitely=True,
        early_preload=False,
        sharing_strategy=SharingStrategy.ForkServer,
        rebatched_size=None,
    ):
        if isinstance(dataset, DataLoader):
            if dataset._accessor is not None:
                raise Error("The DataLoader already uses an AsynchronousDataAccessor internally.")
            assert dataset._joined_drop_last or rebatched_size or dataset.combinedBatchSize in (None, 1), (
                "The 'drop_last=False' option from the DataLoader only works with 'rebatched_size'."
            )
        self._dataset = dataset

    def terminate(self):
        return None

    def __len__(self):
        return len(self._dataset)

    def __iter__(self):
        return iter(self._dataset)
