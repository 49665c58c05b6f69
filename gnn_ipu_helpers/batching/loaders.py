"""The loaders of many graphs: an epoch is planned first, then its batches are made, here or in workers."""

from __future__ import annotations

import copy
import inspect
import logging
import warnings
import weakref
import zlib
from typing import Any, Callable, Iterator, Sequence

import torch
from torch import Tensor
from torch.utils.data import DataLoader as TorchDataLoader
from torch.utils.data import Dataset, Sampler
from torch_geometric.data import Batch, Data

from .._backend import poptorch
from .collating import Collator, combine_batches, fits, num_mini_batches
from .graphs import GraphTable, Group, Schema, check_dataset, kind_of, read_graphs
from .options import (
    FixedSizeOptions,
    FixedSizeStrategy,
    OverSizeStrategy,
    check_options,
    list_of_names,
    nearest,
    whole_number,
)
from .planning import Budgets, Plan, combined, pack, pad_to_max, share, stream_pack, without_misfits
from .trimming import Trimmed, nothing_trimmed, take_report, trim_table, with_report

# So many nodes and edges are worked out at once: enough to spread the overhead of doing so over many
# mini-batches, and few enough to stay in the processor's caches.
_ROWS_AT_ONCE = 300_000

# Without a plan that needs all sizes, so many graphs are looked at for their attributes.
_LOOKED_AT = 1000

_DEFAULT_BATCH_SIZE = 2

_told_left_out: set[tuple[str, ...]] = set()


class BatchSource(Dataset):
    """A dataset of which one item is a whole combined batch.

    An item is asked for by a list of requests, one for each of its mini-batches. Asked for by a number, it is
    the graph of that number; the length is the number of graphs.

    Args:
        dataset: The graphs.
    """

    at_once = 1  # How many mini-batches to ask for together, where that saves time.

    def __init__(self, dataset: Sequence[Any]) -> None:
        self.graphs = dataset

    def __len__(self) -> int:
        return len(self.graphs)

    def __getitem__(self, item: Any) -> Any:
        if not isinstance(item, list):
            return self.graphs[item]
        return self.join(list(self.mini_batches(item)))

    def requests(self, mini_batches: list[Tensor]) -> list[Any]:
        """What is asked for, given the positions of the graphs for all mini-batches of an epoch."""
        return mini_batches

    def mini_batches(self, requests: list[Any]) -> Iterator[Any]:
        """The mini-batches that are asked for."""
        return map(self.mini_batch, requests)

    def mini_batch(self, request: Any) -> Any:
        """One mini-batch."""
        raise NotImplementedError

    def join(self, batches: list[Any]) -> Any:
        """The combined batch of some mini-batches."""
        return combine_batches(batches)


class PlannedLoader(poptorch.DataLoader):
    """A loader that knows all batches of an epoch before the first one is made.

    Over several processes (`options.Distributed`), all of them plan the same epoch and each takes its share.

    Args:
        source: Makes the batches.
        graphs_per_batch: Graphs in a mini-batch, unless a loader plans otherwise.
        any_order: Whether the number of batches is the same for any order, so that no order has to be drawn
            to tell it.
        batch_sampler: Gives the graphs of each mini-batch, instead of a plan.
        generator: Source of random numbers instead of torch's global one.
        kwargs: For `poptorch.DataLoader`.
    """

    # PopTorch's loader asks for it when it is deleted, also if an argument was refused before it was made.
    _accessor = None

    def __init__(
        self,
        source: BatchSource,
        graphs_per_batch: int,
        *,
        any_order: bool = False,
        shuffle: bool = False,
        drop_last: bool = False,
        sampler: Any = None,
        batch_sampler: Any = None,
        options: Any = None,
        generator: torch.Generator | None = None,
        num_workers: int = 0,
        **kwargs: Any,
    ) -> None:
        self._check_arguments(shuffle, sampler, batch_sampler, kwargs)
        whole_number("batch_size", graphs_per_batch, least=1)
        whole_number("num_workers", num_workers, least=0)
        options = poptorch.Options() if options is None else options
        if not isinstance(options, poptorch.Options):
            raise TypeError(f"options should be a poptorch.Options (got {type(options).__name__}).")
        if not isinstance(generator, (torch.Generator, type(None))):
            raise TypeError(
                f"generator should be a torch.Generator (got {type(generator).__name__}), such as "
                f"torch.Generator().manual_seed({generator!r})."
            )
        if options.Distributed.numProcesses > 1 and shuffle and generator is None:
            seed = getattr(options, "random_seed", None)
            if seed is None:
                raise ValueError(
                    "Shuffling over several processes needs the same order in each of them: call "
                    "options.randomSeed(seed) with the same seed everywhere, or pass "
                    "generator=torch.Generator().manual_seed(seed)."
                )
            generator = torch.Generator().manual_seed(seed)
        # PopTorch's loader keeps them only if it puts batches together itself.
        self._options = options
        self.trimmed = Trimmed()
        self._source, self._generator = source, generator
        self._graphs_per_batch, self._drop_last = graphs_per_batch, drop_last
        self._shuffle, self._given_order, self._given_batches = shuffle, sampler, batch_sampler
        same_sizes = None
        if any_order and batch_sampler is None and (sampler is None or hasattr(sampler, "__len__")):
            same_sizes = self._make_plan(torch.arange(len(source if sampler is None else sampler)))
        self._epochs = _Epochs(self._draw_epoch, same_sizes, source, options, drop_last)
        # Without workers and the like, torch's own iterator would only add to the time that a batch takes.
        self._is_simple = num_workers == 0 and not any(kwargs.get(name) for name in ("pin_memory", "mode"))
        super().__init__(
            options,
            source,
            batch_size=None,
            sampler=self._epochs,
            collate_fn=_as_it_is,
            generator=torch.Generator(),
            num_workers=num_workers,
            # The plan takes care of the remainder and of the shares of processes.
            drop_last=False,
            auto_distributed_partitioning=False,
            **kwargs,
        )

    def _check_arguments(self, shuffle: bool, sampler: Any, batch_sampler: Any, kwargs: Any) -> None:
        if "collate_fn" in kwargs:
            raise TypeError(
                "This loader collates graphs itself: leave out collate_fn, or use torch's own DataLoader."
            )
        if batch_sampler is not None and (shuffle or sampler is not None):
            raise ValueError("batch_sampler decides about all batches: leave out shuffle and sampler.")
        for name, given in (("batch_sampler", batch_sampler), ("sampler", sampler)):
            if hasattr(given, "__next__"):
                of_batch = " of each batch" if name == "batch_sampler" else ""
                raise TypeError(
                    f"{name} should give the positions of the graphs{of_batch}, anew in every epoch (got "
                    f"{type(given).__name__}). Make a list of it."
                )
        if sampler is not None and shuffle:
            raise ValueError("A sampler decides about the order: leave out shuffle (got shuffle=True).")
        known = set()
        for cls in (type(self), poptorch.DataLoader, TorchDataLoader):
            known |= set(inspect.signature(cls.__init__).parameters) - {"self", "args", "kwargs"}
        for name in kwargs:
            if name not in known:
                raise TypeError(
                    f"{type(self).__name__} has no argument '{name}'.{nearest(name, known)} It takes those "
                    "of poptorch.DataLoader as well."
                )

    def _draw_epoch(self) -> Plan:
        """The plan of an epoch, drawn when it begins or when `len` asks for it; both draw the same."""
        # Torch draws a seed each time that it starts workers, but not for workers that persist. One draw for
        # every epoch keeps the epochs after the first the same for any workers.
        self._seed = int(torch.empty((), dtype=torch.int64).random_(generator=self._generator))
        return self._draw_plan()

    def _draw_plan(self) -> Plan:
        """The mini-batches of the next epoch."""
        num_graphs = len(self._source)
        if self._given_batches is not None:
            batches = [_positions(batch, num_graphs, "batch_sampler") for batch in self._given_batches]
            if not batches:
                raise ValueError("batch_sampler gives no batches: at least one is needed.")
            return self._check_batches(Plan(torch.cat(batches), [len(batch) for batch in batches]))
        if self._given_order is not None:
            return self._make_plan(_positions(list(self._given_order), num_graphs, "sampler"))
        if not self._shuffle:
            return self._make_plan(torch.arange(num_graphs))
        # As torch's RandomSampler draws it.
        generator = self._generator
        if generator is None:
            generator = torch.Generator().manual_seed(int(torch.empty((), dtype=torch.int64).random_()))
        return self._make_plan(torch.randperm(num_graphs, generator=generator))

    def _make_plan(self, order: Tensor) -> Plan:
        """The mini-batches of an epoch for the graphs in a given order."""
        return pad_to_max(order, self._graphs_per_batch, self._drop_last)

    def _check_batches(self, plan: Plan) -> Plan:
        """The mini-batches of an epoch where a sampler has given them."""
        return plan

    def __iter__(self) -> Iterator[Any]:
        run = self._epochs.begin()
        self.generator.manual_seed(self._seed)
        return self._batches(iter(self._epochs) if self._is_simple else super().__iter__(), run)

    def _batches(self, items: Iterator[Any], run: _Run) -> Iterator[Any]:
        """The batches of an epoch, which runs meanwhile: those of workers, or made here some at a time."""
        if not self._is_simple:
            # Workers may have taken all items before the first batch is asked for.
            yield from items
            return
        at_once = max(self._source.at_once // self._epochs.num_mini_batches, 1)
        while True:
            chunk = [item for _, item in zip(range(at_once), items)]
            if not chunk:
                return
            batches = self._source.mini_batches([request for item in chunk for request in item])
            for item in chunk:
                yield self._source.join([next(batches) for _ in item])

    def _counting(self, batches: Iterator[Batch]) -> Iterator[Batch]:
        """The batches, while what was trimmed from them is summed up."""
        self.trimmed = Trimmed()
        for batch in batches:
            self.trimmed += take_report(batch)
            yield batch

    @property
    def skipped(self) -> int:
        """How many graphs the current or last epoch leaves out, in all processes, because they do not fit."""
        return 0 if self._epochs.last is None else self._epochs.last.skipped

    @property
    def left_out(self) -> int:
        """How many graphs it leaves out because they do not fill a combined batch."""
        return 0 if self._epochs.last is None else self._epochs.last.left_out


def _as_it_is(batch: Any) -> Any:
    return batch


def _positions(given: Any, num_graphs: int, argument: str) -> Tensor:
    """What a sampler gives, as positions of graphs `[R]`."""
    try:
        positions = torch.as_tensor(given if hasattr(given, "dtype") else list(given))
    except (TypeError, ValueError, RuntimeError):
        positions = torch.empty(0)
    is_whole = not (positions.is_floating_point() or positions.is_complex() or positions.dtype == torch.bool)
    if positions.dim() != 1 or len(positions) == 0 or not is_whole:
        graphs = "the graphs of each batch, at least one" if argument == "batch_sampler" else "graphs"
        raise ValueError(f"{argument} should give positions of {graphs} (got {shortened(given)}).")
    if int(positions.min()) < 0 or int(positions.max()) >= num_graphs:
        raise IndexError(
            f"{argument} should give positions between 0 and {num_graphs - 1} (got values from "
            f"{int(positions.min())} to {int(positions.max())})."
        )
    return positions.long()


def shortened(value: Any) -> str:
    """A value as a message shows it."""
    return repr(value) if len(repr(value)) <= 60 else f"{repr(value)[:57]}..."


class _Run:
    """An epoch that is being gone through."""

    def __init__(self, plan: Plan, requests: list[Any]) -> None:
        self.plan, self.requests = plan, requests


class _Epochs(Sampler):
    """Yields what is asked for, for one combined batch after another.

    The plan of an epoch is made when its length is first asked for, or when it begins.
    """

    def __init__(
        self,
        draw_plan: Callable[[], Plan],
        same_sizes: Plan | None,
        source: BatchSource,
        options: Any,
        drop_last: bool,
    ) -> None:
        self._draw_plan, self._same_sizes, self._source = draw_plan, same_sizes, source
        self._options, self._drop_last = options, drop_last
        self._num_processes = options.Distributed.numProcesses
        self.num_mini_batches = num_mini_batches(options)
        self.last: Plan | None = None
        self._upcoming: Plan | None = None
        self._begun: _Run | None = None
        self._running: Callable[[], _Run | None] = _nothing
        self._told: set[str] = set()

    def __len__(self) -> int:
        plan = self._current() if self._same_sizes is None else self._combined(self._same_sizes)
        return len(plan.sizes) // (self.num_mini_batches * self._num_processes)

    def begin(self) -> _Run:
        """Begins an epoch, which the next iterator goes through; it runs while anybody holds the result."""
        self._running = _nothing
        plan = self.last = self._current()
        self._upcoming = None
        process, replicas = self._options.Distributed.processId, self._options.replication_factor
        requests = self._source.requests(plan.mini_batches())
        self._begun = _Run(plan, share(requests, process, self._num_processes, replicas))
        self._running = weakref.ref(self._begun)
        return self._begun

    def __iter__(self) -> Iterator[list[Any]]:
        # Where there are workers, torch makes two iterators and uses the second one.
        return self._items(self._begun)

    def _items(self, run: _Run | None) -> Iterator[list[Any]]:
        self._begun = None
        step = self.num_mini_batches
        for first in range(0, len(run.requests), step):
            yield run.requests[first : first + step]

    def _current(self) -> Plan:
        """The plan of the running epoch, or of the next one if none is running."""
        running = self._running()
        if running is not None:
            return running.plan
        if self._upcoming is None:
            self._upcoming = plan = self._combined(self._draw_plan())
            block = self.num_mini_batches * self._num_processes
            for what, number, why in (
                ("skipped", plan.skipped, "do not fit into the fixed size"),
                (
                    "left out",
                    plan.left_out,
                    f"are fewer than the {block} mini-batches of a combined batch, none of which may be "
                    "without a graph",
                ),
            ):
                if number and what not in self._told:
                    self._told.add(what)
                    warnings.warn(f"{number} graphs are {what} in this epoch: they {why}.", stacklevel=2)
        return self._upcoming

    def _combined(self, plan: Plan) -> Plan:
        return combined(plan, self.num_mini_batches, self._drop_last, self._num_processes)


def _nothing() -> None:
    return None


# -- batches of one fixed size -------------------------------------------------------------------------------


class FixedSizeDataLoader(PlannedLoader):
    """Loads batches that all have the same number of nodes, edges and graphs.

    Args:
        dataset: The graphs. An in-memory dataset without a transform is read by vectorised gathers, any
            other one graph by graph; the batches are the same.
        batch_size: Graphs in a batch, including at least one padding graph. By default those of
            `fixed_size_options`, or 2.
        shuffle: A new order every epoch.
        fixed_size_options: The fixed size. By default it is found from the dataset, for `batch_size`
            graphs.
        fixed_size_strategy: How graphs are put together.
        over_size_strategy: What happens to graphs that do not fit.
        add_pad_masks: Add `nodes_mask`, `edges_mask` and `graphs_mask`, True where real.
        follow_batch: Attributes that get their own `<name>_batch` and `<name>_ptr`.
        exclude_keys: Attributes to leave out.
        options: A `poptorch.Options`: device iterations, replication and gradient accumulation make
            combined batches, concatenated on dimension 0; over several processes, each gets its share.
        drop_last: Leave out an incomplete last batch; with packing, an incomplete last combined batch.
        kwargs: For `poptorch.DataLoader`: `num_workers`, `sampler`, `batch_sampler` …

    Example:
        >>> from torch_geometric.data import Data
        >>> edge_index = torch.tensor([[0, 1], [1, 0]])
        >>> graphs = [Data(x=torch.ones(nodes, 1), edge_index=edge_index) for nodes in (2, 3, 4)]
        >>> [tuple(batch.x.shape) for batch in FixedSizeDataLoader(graphs, batch_size=3)]
        [(9, 1), (9, 1)]
    """

    def __init__(
        self,
        dataset: Sequence[Data],
        batch_size: int | None = None,
        shuffle: bool = False,
        fixed_size_options: FixedSizeOptions | None = None,
        fixed_size_strategy: FixedSizeStrategy = FixedSizeStrategy.PadToMax,
        over_size_strategy: OverSizeStrategy = OverSizeStrategy.Error,
        add_pad_masks: bool = True,
        follow_batch: Sequence[str] | None = None,
        exclude_keys: Sequence[str] | None = None,
        options: Any = None,
        drop_last: bool = False,
        **kwargs: Any,
    ) -> None:
        if fixed_size_options is not None:
            check_options(fixed_size_options)
        if fixed_size_options is not None and batch_size not in (None, fixed_size_options.num_graphs):
            raise ValueError(
                f"batch_size={batch_size} does not match "
                f"fixed_size_options.num_graphs={fixed_size_options.num_graphs}: both count the graphs of a "
                "batch, including the padding graph. Give the same number, or leave out batch_size."
            )
        self.fixed_size_strategy = FixedSizeStrategy(fixed_size_strategy)
        self.over_size_strategy = OverSizeStrategy(over_size_strategy)
        plans_by_size = (
            self.fixed_size_strategy != FixedSizeStrategy.PadToMax
            or self.over_size_strategy == OverSizeStrategy.Skip
        )
        all_sizes = plans_by_size or fixed_size_options is None
        excluded, followed = (
            list_of_names(name, names)
            for name, names in (("exclude_keys", exclude_keys), ("follow_batch", follow_batch))
        )
        graphs = read_graphs(dataset, excluded, sample_limit=None if all_sizes else _LOOKED_AT)
        schema, counts, table = graphs
        if table is not None:
            table.check_edges()
            counts = table.counts
        if fixed_size_options is None:
            size = _DEFAULT_BATCH_SIZE if batch_size is None else batch_size
            if self.fixed_size_strategy == FixedSizeStrategy.Pack:
                fixed_size_options = FixedSizeOptions.for_packing_sizes(counts, num_graphs=size)
            else:
                fixed_size_options = FixedSizeOptions.from_sizes(counts, size)
        if schema.is_hetero:
            fixed_size_options = copy.copy(fixed_size_options).to_hetero(schema.node_types, schema.edge_types)
        self.fixed_size_options = fixed_size_options
        tell_left_out(schema, fixed_size_options)
        collator = Collator(schema, fixed_size_options, add_pad_masks, followed)
        self._counts, self._thorough = counts, not shuffle and kwargs.get("sampler") is None
        known = counts if all_sizes else None
        super().__init__(
            _FixedSizeSource(dataset, table, known, collator, self.over_size_strategy),
            fixed_size_options.num_graphs - 1,
            any_order=not plans_by_size,
            shuffle=shuffle,
            options=options,
            drop_last=drop_last,
            **kwargs,
        )

    def _make_plan(self, order: Tensor) -> Plan:
        strategy, over_size, num_graphs = self.fixed_size_strategy, self.over_size_strategy, len(order)
        packs = strategy != FixedSizeStrategy.PadToMax
        if not packs and over_size != OverSizeStrategy.Skip:
            return super()._make_plan(order)
        budgets = Budgets.of(self._counts, self.fixed_size_options, keep_edge=packs)
        if over_size == OverSizeStrategy.Error:
            budgets.check()
        elif over_size == OverSizeStrategy.Skip:
            order = order[~budgets.too_large()[order]]
        else:
            budgets = budgets.clipped()
        self._check_any(len(order), num_graphs)
        if strategy == FixedSizeStrategy.StreamPack:
            plan = stream_pack(order, budgets)
        elif strategy == FixedSizeStrategy.Pack:
            plan = pack(order, budgets, self._thorough)
        else:
            plan = without_misfits(super()._make_plan(order), budgets)
        return plan._replace(skipped=plan.skipped + num_graphs - len(order))

    def _check_batches(self, plan: Plan) -> Plan:
        if self.over_size_strategy != OverSizeStrategy.Skip:
            return plan
        fitting = without_misfits(plan, Budgets.of(self._counts, self.fixed_size_options, keep_edge=False))
        self._check_any(len(fitting.graphs), len(plan.graphs))
        return fitting

    def _check_any(self, num_fitting: int, num_graphs: int) -> None:
        if num_fitting == 0:
            raise ValueError(
                f"All {num_graphs} graphs would be skipped: none of them fits into {self.fixed_size_options}."
            )

    def __iter__(self) -> Iterator[Batch]:
        return self._counting(super().__iter__()) if self.over_size_strategy.trims else super().__iter__()


def tell_left_out(schema: Schema, options: FixedSizeOptions) -> None:
    """Names, once, the attributes that no batch holds because nothing says what they are in padding."""
    names = tuple(sorted(set(schema.objects()) - set(options.pad_graph_defaults)))
    if names and names not in _told_left_out:
        _told_left_out.add(names)
        # Not a warning: nothing is wrong, and it comes but once.
        logging.getLogger(__name__).warning(
            "The batches leave out %s, which are not tensors. To keep one, give it a value for padding "
            "graphs in "
            "FixedSizeOptions(pad_graph_defaults={...}); to do without this notice, give exclude_keys=%s.",
            ", ".join(map(repr, names)),
            list(names),
        )


class _FixedSizeSource(BatchSource):
    """Makes fixed-size batches, by gathers from a table of all graphs or, without one, graph by graph."""

    def __init__(
        self,
        dataset: Sequence[Data],
        table: GraphTable | None,
        counts: dict[Group, Tensor] | None,
        collator: Collator,
        over_size: OverSizeStrategy,
    ) -> None:
        super().__init__(dataset)
        self._table = None if table is None else table.only(collator.schema)
        self.counts, self._collator, self._over_size = counts, collator, over_size
        num_rows = collator.options.total_num_nodes + collator.options.total_num_edges
        self.at_once = max(_ROWS_AT_ONCE // num_rows, 1)

    def mini_batches(self, requests: list[Tensor]) -> Iterator[Batch]:
        """The fixed-size batches of graphs at some positions."""
        if self._table is None or self._over_size.trims:
            return super().mini_batches(requests)
        return self._collator.collate_many(self._table, requests)

    def mini_batch(self, request: Tensor) -> Batch:
        """One fixed-size batch, of graphs that are read one by one or that may have to be trimmed."""
        table, graphs, options = self._table, request, self._collator.options
        if table is None:
            samples = [self.graphs[graph] for graph in graphs.tolist()]
            table = GraphTable.of_samples(samples, self._collator.schema, ids=graphs)
            table.check_edges()
            graphs = torch.arange(len(graphs))
        fit = fits(table, graphs, options)
        if not fit and not self._over_size.trims:
            self._check_sizes(table)
        trimmed = Trimmed()
        if self._over_size.trims and fit:
            trimmed = nothing_trimmed(table, graphs)
        elif self._over_size.trims:
            # The same graphs are trimmed in the same way, in whichever worker that happens.
            generator = torch.Generator().manual_seed(zlib.crc32(table.ids[graphs].numpy().tobytes()))
            table, trimmed = trim_table(table.take(graphs), options, self._over_size, generator=generator)
            graphs = torch.arange(len(graphs))
        return with_report(self._collator.collate(table, graphs), trimmed)

    def _check_sizes(self, table: GraphTable) -> None:
        """Raises if graphs no longer have the sizes for which batches were planned."""
        for group, counts in (self.counts or {}).items():
            changed = (counts[table.ids] != table.counts[group]).nonzero()
            if len(changed):
                at = int(changed[0])
                graph, source = int(table.ids[at]), self.graphs
                while not hasattr(source, "transform") and hasattr(source, "dataset"):
                    source = source.dataset
                transform = getattr(source, "transform", None)
                cause = "the dataset" if transform is None else f"the dataset's transform, {transform},"
                raise ValueError(
                    f"Graph {graph} had {int(counts[graph])} {kind_of(group)} when the batches were planned "
                    f"and has {int(table.counts[group][at])} now: {cause} gives it another size every time "
                    "that it is read, and its batch no longer fits. Let that happen once, as a "
                    "pre_transform, or give fixed_size_options with room for the largest and trim what "
                    "exceeds it with OverSizeStrategy.TrimNodesAndEdges."
                )


# -- ordinary batches ----------------------------------------------------------------------------------------


class DataLoader(PlannedLoader):
    """PyG's loader for a model wrapped by PopTorch: no padding, for graphs of one size or a single one.

    Args:
        dataset: The graphs.
        batch_size: Graphs in a batch.
        shuffle: A new order every epoch.
        follow_batch: Attributes that get their own `<name>_batch` and `<name>_ptr`.
        exclude_keys: Attributes to leave out.
        options: A `poptorch.Options`: device iterations, replication and gradient accumulation make
            combined batches, concatenated on dimension 0. The batches in them must have the same size.
        drop_last: Leave out an incomplete last batch.
        kwargs: For `poptorch.DataLoader`: `num_workers`, `sampler`, `batch_sampler` …

    Example:
        >>> from torch_geometric.data import Data
        >>> graphs = [Data(x=torch.ones(2, 1), edge_index=torch.tensor([[0], [1]])) for _ in range(6)]
        >>> len(DataLoader(graphs, batch_size=3))
        2
    """

    def __init__(
        self,
        dataset: Sequence[Data],
        batch_size: int = 1,
        shuffle: bool = False,
        follow_batch: Sequence[str] | None = None,
        exclude_keys: Sequence[str] | None = None,
        options: Any = None,
        drop_last: bool = False,
        **kwargs: Any,
    ) -> None:
        check_dataset(dataset)
        super().__init__(
            _OrdinarySource(dataset, follow_batch, exclude_keys),
            batch_size,
            any_order=True,
            shuffle=shuffle,
            options=options,
            drop_last=drop_last,
            **kwargs,
        )


class _OrdinarySource(BatchSource):
    """Makes PyG's own batches."""

    def __init__(self, dataset: Sequence[Data], follow_batch: Any, exclude_keys: Any) -> None:
        super().__init__(dataset)
        self._follow_batch = list_of_names("follow_batch", follow_batch)
        self._exclude_keys = list_of_names("exclude_keys", exclude_keys)

    def mini_batch(self, request: Tensor) -> Batch:
        """One batch as PyG makes it."""
        samples = [self.graphs[graph] for graph in request.tolist()]
        return Batch.from_data_list(samples, self._follow_batch, self._exclude_keys)
