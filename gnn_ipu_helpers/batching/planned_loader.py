"""The base of the loaders: an epoch is planned first, then its batches are made, here or in workers."""

from __future__ import annotations

import warnings
from typing import Any, Callable, Iterator, Sequence

import torch
from torch import Tensor
from torch.utils.data import Dataset, Sampler

from .._backend import poptorch
from .combining import combine_batches, num_mini_batches
from .planning import Plan, combined

# So many combined batches are worked out at once: enough to spread the overhead, few enough for the cache.
_CHUNK = 32


class BatchSource(Dataset):
    """A dataset of which one item is a whole combined batch.

    An item is asked for by its mini-batches: the positions of their graphs, or what :meth:`prepare` made of
    them. Asked for by a number, it is the graph of that number; the length is the number of graphs.

    Args:
        dataset: The graphs.
    """

    def __init__(self, dataset: Sequence[Any]) -> None:
        self.graphs = dataset

    def __len__(self) -> int:
        return len(self.graphs)

    def __getitem__(self, item: Any) -> Any:
        if not isinstance(item, list):
            return self.graphs[item]
        return combine_batches([self.mini_batch(entry) for entry in item])

    def requests(self, mini_batches: list[Tensor]) -> list[Any]:
        """What is asked for, given the positions for all mini-batches of an epoch."""
        return mini_batches

    def prepare(self, mini_batches: list[Tensor]) -> list[Any]:
        """Does what can be done for many mini-batches at once."""
        return mini_batches

    def mini_batch(self, entry: Any) -> Any:
        """One mini-batch, from the positions of its graphs or from what was prepared."""
        raise NotImplementedError


class PlannedLoader(poptorch.DataLoader):
    """A loader that knows all batches of an epoch before the first one is made.

    Args:
        source: Makes the batches.
        make_plan: Plans an epoch for the graphs in a given order.
        fixed_length: The number of combined batches of an epoch, if it does not depend on the order.
        shuffle: A new order every epoch.
        drop_last: Leave out an incomplete combined batch.
        sampler: Gives the order of the graphs instead.
        batch_sampler: Gives the graphs of each mini-batch, instead of a plan.
        options: A ``poptorch.Options``: how many mini-batches make up a combined batch.
        kwargs: For ``poptorch.DataLoader``.
    """

    def __init__(
        self,
        source: BatchSource,
        make_plan: Callable[[Tensor], Plan],
        *,
        shuffle: bool = False,
        drop_last: bool = False,
        sampler: Any = None,
        batch_sampler: Any = None,
        options: Any = None,
        num_workers: int = 0,
        persistent_workers: bool = False,
        **kwargs: Any,
    ) -> None:
        _refuse(shuffle, sampler, batch_sampler, kwargs)
        options = poptorch.Options() if options is None else options
        if len(source) == 0:
            raise ValueError("The dataset is empty (got 0 graphs): at least one graph is needed.")
        self._generator = kwargs.pop("generator", None)
        if sampler is None:
            sampler = _Order(len(source), shuffle, self._generator)
        self._plans = _PlanSampler(sampler, batch_sampler, make_plan, num_mini_batches(options), drop_last)
        self._plans.requests = source.requests
        # Workers get the positions of graphs only, which are cheaper to send than what can be prepared.
        self._plans.prepare = source.prepare if num_workers == 0 else None
        super().__init__(
            options,
            source,
            batch_size=None,
            sampler=self._plans,
            collate_fn=_as_it_is,
            generator=torch.Generator(),
            num_workers=num_workers,
            persistent_workers=persistent_workers,
            **kwargs,
        )

    def __iter__(self) -> Iterator[Any]:
        # Torch draws a seed each time that it starts workers, but not for workers that persist. One draw for
        # every epoch keeps the epochs after the first the same for any workers.
        seed = torch.empty((), dtype=torch.int64).random_(generator=self._generator)
        self.generator.manual_seed(int(seed))
        return super().__iter__()

    @property
    def skipped(self) -> int:
        """How many graphs of the epoch are left out because they do not fit."""
        return self._plans.current().skipped

    @property
    def left_out(self) -> int:
        """How many graphs of the epoch are left out because they do not fill a combined batch."""
        return self._plans.current().left_out


class _Order:
    """The order of an epoch: as it is, or drawn just as torch's ``RandomSampler`` draws it."""

    def __init__(self, length: int, shuffle: bool, generator: torch.Generator | None) -> None:
        self._length, self._shuffle, self._generator = length, shuffle, generator

    def draw(self) -> Tensor:
        """The positions of all graphs, ``[G]``."""
        if not self._shuffle:
            return torch.arange(self._length)
        generator = self._generator
        if generator is None:
            generator = torch.Generator().manual_seed(int(torch.empty((), dtype=torch.int64).random_()))
        return torch.randperm(self._length, generator=generator)


class _PlanSampler(Sampler):
    """Yields the mini-batches of one combined batch after another.

    The plan of an epoch is made when its length is first asked for, or when it begins.
    """

    def __init__(
        self,
        sampler: Any,
        batch_sampler: Any,
        make_plan: Callable[[Tensor], Plan],
        num_mini_batches: int,
        drop_last: bool,
    ) -> None:
        self._sampler, self._batch_sampler, self._make_plan = sampler, batch_sampler, make_plan
        self._num_mini_batches, self._drop_last = num_mini_batches, drop_last
        self._running: Plan | None = None
        self._upcoming: Plan | None = None
        self._told: set[str] = set()
        self.requests: Callable[[list[Tensor]], list[Any]] | None = None
        self.prepare: Callable[[list[Tensor]], list[Any]] | None = None

    def current(self) -> Plan:
        """The plan of the running epoch, or of the next one if none is running."""
        if self._running is not None:
            return self._running
        if self._upcoming is None:
            self._upcoming = self._plan()
        return self._upcoming

    def _plan(self) -> Plan:
        if self._batch_sampler is not None:
            batches = [torch.as_tensor(batch, dtype=torch.long) for batch in self._batch_sampler]
            plan = Plan(torch.cat(batches), [len(batch) for batch in batches])
        else:
            is_own = isinstance(self._sampler, _Order)
            order = self._sampler.draw() if is_own else torch.tensor(list(self._sampler), dtype=torch.long)
            plan = self._make_plan(order)
        plan = combined(plan, self._num_mini_batches, self._drop_last)
        self._tell(plan)
        return plan

    def _tell(self, plan: Plan) -> None:
        if plan.skipped and "skipped" not in self._told:
            self._told.add("skipped")
            warnings.warn(
                f"{plan.skipped} of {plan.skipped + len(plan.graphs) + plan.left_out} graphs are skipped "
                "because they do not fit into the fixed size.",
                stacklevel=2,
            )
        if plan.left_out and "left out" not in self._told:
            self._told.add("left out")
            warnings.warn(
                f"{plan.left_out} graphs are left out of the epoch: they are fewer than the "
                f"{self._num_mini_batches} mini-batches of a combined batch, none of which may be without a "
                "graph.",
                stacklevel=2,
            )

    def __len__(self) -> int:
        return len(self.current().sizes) // self._num_mini_batches

    def __iter__(self) -> Iterator[list[Any]]:
        self._running = None
        plan, self._upcoming = self.current(), None
        self._running = plan
        mini_batches = plan.mini_batches() if self.requests is None else self.requests(plan.mini_batches())
        step = self._num_mini_batches
        for start in range(0, len(mini_batches), step * _CHUNK):
            chunk = mini_batches[start : start + step * _CHUNK]
            chunk = chunk if self.prepare is None else self.prepare(chunk)
            for first in range(0, len(chunk), step):
                yield chunk[first : first + step]
        self._running = None


def _as_it_is(batch: Any) -> Any:
    return batch


def _refuse(shuffle: bool, sampler: Any, batch_sampler: Any, kwargs: dict[str, Any]) -> None:
    if "collate_fn" in kwargs:
        raise TypeError(
            "This loader collates graphs itself: leave out collate_fn, or use torch's own DataLoader."
        )
    if batch_sampler is not None and (shuffle or sampler is not None):
        raise ValueError("batch_sampler decides about all batches: leave out shuffle and sampler.")
    if sampler is not None and shuffle:
        raise ValueError("A sampler decides about the order: leave out shuffle (got shuffle=True).")
