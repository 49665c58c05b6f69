"""Loading ahead: a thread fills a queue with batches while the model runs."""

from __future__ import annotations

import queue
import threading
from typing import Any, Iterator

import torch
from torch.utils import _pytree as pytree

from .enums import SharingStrategy
from .errors import Error

_END = object()


class _Failure:
    def __init__(self, error: BaseException) -> None:
        self.error = error


class _Producer:
    """One pass over a dataset on a thread of its own, at most ``size`` batches ahead."""

    def __init__(self, dataset: Any, size: int) -> None:
        self._queue: queue.Queue = queue.Queue(maxsize=max(size, 1))
        self._stopped = threading.Event()
        self._finished = False
        # The first batch is made here: samplers draw their seed with it, and the order of random draws must
        # not depend on which thread is faster.
        self._iterator = iter(dataset)
        first = self._take()
        self._queue.put(first)
        self._thread = threading.Thread(target=self._run, name="poptorch-loader", daemon=True)
        if first is not _END and not isinstance(first, _Failure):
            self._thread.start()

    def _take(self) -> Any:
        try:
            return next(self._iterator, _END)
        except BaseException as error:  # noqa: B902, handed to the thread that asks for the batch
            return _Failure(error)

    def _run(self) -> None:
        item = None
        while not self._stopped.is_set() and item is not _END and not isinstance(item, _Failure):
            item = self._take()
            self._put(item)

    def _put(self, item: Any) -> None:
        while not self._stopped.is_set():
            try:
                return self._queue.put(item, timeout=0.1)
            except queue.Full:
                continue

    def get(self) -> Any:
        """The next batch, or ``_END``, for good once reached."""
        if self._finished or self._stopped.is_set():
            return _END
        item = self._queue.get()
        self._finished = item is _END or isinstance(item, _Failure)
        if isinstance(item, _Failure):
            raise item.error
        return item

    def stop(self) -> None:
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join()
        self._iterator = None


class AsynchronousDataAccessor:
    """Iterates over ``dataset``, any iterable of batches, while a thread loads ``buffer_size`` of them ahead.

    ``rebatched_size`` puts incoming batches together to batches of that many samples (dimension 0), dropping
    an incomplete last one. ``miss_sleep_time_in_ms`` and ``sharing_strategy`` have no effect here: batches
    are made in this process, or by the workers of the loader that is given.
    """

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
        self._dataset = dataset
        self._buffer_size = buffer_size
        self._load_indefinitely = load_indefinitely
        self._rebatched_size = rebatched_size
        self._passes = 0
        self._current: _Producer | None = None
        self._preloaded = self._start() if early_preload else None

    def _start(self) -> _Producer:
        return _Producer(self._dataset, self._buffer_size)

    def terminate(self) -> None:
        """Stop the thread that loads ahead."""
        for producer in (self._current, self._preloaded):
            if producer is not None:
                producer.stop()

    def __del__(self) -> None:
        if hasattr(self, "_preloaded"):
            self.terminate()

    def __len__(self) -> int:
        return len(self._dataset)

    def __iter__(self) -> Iterator:
        if self._passes and not self._load_indefinitely:
            raise Error(
                "This accessor was made with load_indefinitely=False: it goes over the dataset only once."
            )
        if self._current is not None:
            self._current.stop()
        self._passes += 1
        producer, self._preloaded = self._preloaded or self._start(), None
        self._current = producer
        batches = iter(producer.get, _END)
        return batches if self._rebatched_size is None else rebatched(batches, self._rebatched_size)


def rebatched(batches: Iterator, size: int, drop_last: bool = True) -> Iterator:
    """Cut and join batches on dimension 0 to batches of ``size``; an incomplete last one may be dropped."""
    pending: list[list[torch.Tensor]] = []
    held = 0
    structure = None
    for batch in batches:
        leaves, structure = pytree.tree_flatten(batch)
        pending.append(leaves)
        held += leaves[0].shape[0]
        while held >= size:
            joined = [torch.cat(parts) for parts in zip(*pending)]
            yield pytree.tree_unflatten([leaf[:size] for leaf in joined], structure)
            held -= size
            pending = [[leaf[size:] for leaf in joined]]
    if held and not drop_last:
        yield pytree.tree_unflatten([torch.cat(parts) for parts in zip(*pending)], structure)
