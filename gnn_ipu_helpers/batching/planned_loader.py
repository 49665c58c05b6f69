"""The base of the loaders: an epoch is planned first, then its batches are made, here or in workers."""

from __future__ import annotations

import warnings
from typing import Any, Callable, Iterator, Sequence

import torch
from torch import Tensor
from torch.utils.data import Dataset, Sampler

from .._backend import poptorch
from .collating import Workspace
from .combining import combine_batches, num_mini_batches
from .planning import Plan, combined

# So many mini-batches are worked out at once: enough to spread the overhead, few enough for the cache.
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

    def prepare(self, mini_batches: list[Any], workspace: Workspace) -> list[Any]:
        """Does what can be done for many mini-batches at once, in memory that may be used again."""
        return mini_batches

    def mini_batch(self, entry: Any) -> Any:
        """One mini-batch, from the positions of its graphs or from what was prepared."""
        raise NotImplementedError


class PlannedLoader(poptorch.DataLoader):
    """A loader that knows all batches of an epoch before the first one is made.

    Args:
        source: Makes the batches.
        make_plan: Plans an epoch for the graphs in a given order.
        any_order: Whether the number of batches is the same for any order, so that no order has to be drawn
            to tell it.
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
        any_order: bool = False,
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
        planner = _EpochPlanner(
            sampler, batch_sampler, make_plan, any_order, num_mini_batches(options), drop_last
        )
        # Without workers and the like, torch's own iterator would only add to the time that a batch takes.
        self._is_simple = num_workers == 0 and not any(kwargs.get(name) for name in ("pin_memory", "mode"))
        # Workers get the positions of graphs only, which are cheaper to send than what can be prepared.
        self._plans = _PlanSampler(planner, source, prepares=num_workers == 0)
        super().__init__(
            options,
            source,
            batch_size=None,
            drop_last=False,  # PopTorch's default is True, which torch refuses beside batch_size=None
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
        return map(self.dataset.__getitem__, iter(self._plans)) if self._is_simple else super().__iter__()

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

    def __len__(self) -> int:
        return self._length

    def draw(self) -> Tensor:
        """The positions of all graphs, ``[G]``."""
        if not self._shuffle:
            return torch.arange(self._length)
        generator = self._generator
        if generator is None:
            generator = torch.Generator().manual_seed(int(torch.empty((), dtype=torch.int64).random_()))
        return torch.randperm(self._length, generator=generator)


class _EpochPlanner:
    """Makes the plan of one epoch after another."""

    def __init__(
        self,
        sampler: Any,
        batch_sampler: Any,
        make_plan: Callable[[Tensor], Plan],
        any_order: bool,
        num_mini_batches: int,
        drop_last: bool,
    ) -> None:
        self._sampler, self._batch_sampler, self._make_plan = sampler, batch_sampler, make_plan
        self._any_order = any_order and batch_sampler is None
        self.num_mini_batches, self._drop_last = num_mini_batches, drop_last
        self._told: set[str] = set()

    def plan(self) -> Plan:
        """The plan of the next epoch."""
        if self._batch_sampler is not None:
            batches = [torch.as_tensor(batch, dtype=torch.long) for batch in self._batch_sampler]
            plan = Plan(torch.cat(batches), [len(batch) for batch in batches])
        elif isinstance(self._sampler, _Order):
            plan = self._make_plan(self._sampler.draw())
        else:
            plan = self._make_plan(torch.tensor(list(self._sampler), dtype=torch.long))
        plan = combined(plan, self.num_mini_batches, self._drop_last)
        self._tell("skipped", plan.skipped, "do not fit into the fixed size")
        self._tell(
            "left out",
            plan.left_out,
            f"are fewer than the {self.num_mini_batches} mini-batches of a combined batch, none of which may "
            "be without a graph",
        )
        return plan

    def length(self) -> int | None:
        """The number of combined batches, if it can be told without a plan."""
        if not self._any_order:
            return None
        order = torch.arange(len(self._sampler))
        plan = combined(self._make_plan(order), self.num_mini_batches, self._drop_last)
        return len(plan.sizes) // self.num_mini_batches

    def _tell(self, what: str, number: int, why: str) -> None:
        if number and what not in self._told:
            self._told.add(what)
            warnings.warn(f"{number} graphs are {what} in this epoch: they {why}.", stacklevel=2)


class _PlanSampler(Sampler):
    """Yields the mini-batches of one combined batch after another.

    The plan of an epoch is made when its length is first asked for, or when it begins.
    """

    def __init__(self, planner: _EpochPlanner, source: BatchSource, prepares: bool) -> None:
        self._planner, self._source, self._prepares = planner, source, prepares
        self._running: Plan | None = None
        self._upcoming: Plan | None = None
        self._workspaces: list[Workspace] = []

    def current(self) -> Plan:
        """The plan of the running epoch, or of the next one if none is running."""
        if self._running is not None:
            return self._running
        if self._upcoming is None:
            self._upcoming = self._planner.plan()
        return self._upcoming

    def __len__(self) -> int:
        length = self._planner.length()
        return len(self.current().sizes) // self._planner.num_mini_batches if length is None else length

    def __iter__(self) -> Iterator[list[Any]]:
        self._running = None
        plan, self._upcoming = self.current(), None
        self._running = plan
        # Epochs that run at the same time have memory of their own.
        workspace = self._workspaces.pop() if self._workspaces else Workspace()
        try:
            yield from self._combined_batches(self._source.requests(plan.mini_batches()), workspace)
        finally:
            self._workspaces.append(workspace)
            if self._running is plan:
                self._running = None

    def _combined_batches(self, mini_batches: list[Any], workspace: Workspace) -> Iterator[list[Any]]:
        step = self._planner.num_mini_batches
        at_once = step * max(_CHUNK // step, 1)
        for start in range(0, len(mini_batches), at_once):
            chunk = mini_batches[start : start + at_once]
            chunk = self._source.prepare(chunk, workspace) if self._prepares else chunk
            for first in range(0, len(chunk), step):
                yield chunk[first : first + step]


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
