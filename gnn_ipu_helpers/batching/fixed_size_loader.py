"""The loader of batches of one fixed size."""

from __future__ import annotations

import copy
import zlib
from typing import Any, Iterator, NamedTuple, Sequence

import torch
from torch import Tensor
from torch_geometric.data import Batch, Data

from .collating import Collator, Prepared, Workspace
from .in_memory import table_of_dataset
from .options import FixedSizeOptions
from .padding import fits
from .planned_loader import BatchSource, PlannedLoader
from .planning import Budgets, Plan, pack, pad_to_max, stream_pack, without_misfits
from .schema import Group, Schema
from .sizes import scan
from .strategies import FixedSizeStrategy, OverSizeStrategy
from .table import GraphTable, check_edges, take
from .trimming import Trimmed, nothing_trimmed, take_report, trim_table, with_report

# Without a plan that needs all sizes, so many graphs are looked at for their attributes.
_LOOKED_AT = 1000

_DEFAULT_BATCH_SIZE = 2


class FixedSizeDataLoader(PlannedLoader):
    """Loads batches that all have the same number of nodes, edges and graphs.

    Args:
        dataset: The graphs. An in-memory dataset without a transform is read by vectorised gathers, any
            other one graph by graph; the batches are the same.
        batch_size: Graphs in a batch, including at least one padding graph.
        shuffle: A new order every epoch.
        fixed_size_options: The fixed size. By default it is found from the dataset, for ``batch_size``
            graphs.
        fixed_size_strategy: How graphs are put together.
        over_size_strategy: What happens to graphs that do not fit.
        add_pad_masks: Add ``nodes_mask``, ``edges_mask`` and ``graphs_mask``, True where real.
        follow_batch: Attributes that get their own ``<name>_batch`` and ``<name>_ptr``.
        exclude_keys: Attributes to leave out.
        options: A ``poptorch.Options``: device iterations, replication and gradient accumulation make
            combined batches, concatenated on dimension 0.
        drop_last: Leave out an incomplete last batch; with packing, an incomplete last combined batch.
        kwargs: For ``poptorch.DataLoader``: ``num_workers``, ``sampler``, ``batch_sampler`` …
    """

    def __init__(
        self,
        dataset: Sequence[Data],
        batch_size: int = _DEFAULT_BATCH_SIZE,
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
        if len(dataset) == 0:
            raise ValueError("The dataset is empty (got 0 graphs): at least one graph is needed.")
        _check_batch_size(batch_size, fixed_size_options)
        self.fixed_size_strategy = FixedSizeStrategy(fixed_size_strategy)
        self.over_size_strategy = OverSizeStrategy(over_size_strategy)
        self.trimmed = Trimmed()
        plans_by_size = (
            self.fixed_size_strategy != FixedSizeStrategy.PadToMax
            or self.over_size_strategy == OverSizeStrategy.Skip
        )
        needs_sizes = plans_by_size or fixed_size_options is None
        graphs = _read(dataset, exclude_keys or (), all_sizes=needs_sizes)
        self.fixed_size_options = fixed_size_options or self._infer_options(graphs.counts, batch_size)
        if graphs.schema.is_hetero:
            node_types, edge_types = graphs.schema.node_types, graphs.schema.edge_types
            self.fixed_size_options = copy.copy(self.fixed_size_options).to_hetero(node_types, edge_types)
        collator = Collator(graphs.schema, self.fixed_size_options, add_pad_masks, follow_batch)
        source = _FixedSizeSource(dataset, graphs.table, collator, self.over_size_strategy)
        planner = _Planner(self, graphs.counts, drop_last)
        super().__init__(
            source,
            planner,
            any_order=not plans_by_size,
            shuffle=shuffle,
            options=options,
            drop_last=drop_last,
            **kwargs,
        )

    def _infer_options(self, counts: dict[Group, Tensor], batch_size: int) -> FixedSizeOptions:
        if self.fixed_size_strategy == FixedSizeStrategy.Pack:
            return FixedSizeOptions.for_packing_sizes(counts, num_graphs=batch_size)
        return FixedSizeOptions.from_sizes(counts, batch_size)

    def __iter__(self) -> Iterator[Batch]:
        return self._counting(super().__iter__()) if self.over_size_strategy.trims else super().__iter__()

    def _counting(self, batches: Iterator[Batch]) -> Iterator[Batch]:
        self.trimmed = Trimmed()
        for batch in batches:
            self.trimmed += take_report(batch)
            yield batch


class _Graphs(NamedTuple):
    """What is known of a dataset's graphs before any batch is made."""

    schema: Schema
    table: GraphTable | None
    counts: dict[Group, Tensor]


def _read(dataset: Sequence[Data], exclude_keys: Sequence[str], all_sizes: bool) -> _Graphs:
    table = table_of_dataset(dataset, exclude_keys)
    if table is not None:
        check_edges(table)
        return _Graphs(table.schema, table, table.counts)
    counts, schema = scan(dataset, exclude_keys, sample_limit=None if all_sizes else _LOOKED_AT)
    return _Graphs(schema, None, counts)


def _check_batch_size(batch_size: int, options: FixedSizeOptions | None) -> None:
    if options is not None and batch_size not in (_DEFAULT_BATCH_SIZE, options.num_graphs):
        raise ValueError(
            f"batch_size={batch_size} does not match fixed_size_options.num_graphs={options.num_graphs}: "
            "both count the graphs of a batch, including the padding graph. Give the same number, or leave "
            "out batch_size."
        )


class _Planner:
    """Plans an epoch for graphs in a given order."""

    def __init__(self, loader: FixedSizeDataLoader, counts: dict[Group, Tensor], drop_last: bool) -> None:
        self._options, self._strategy = loader.fixed_size_options, loader.fixed_size_strategy
        self._over_size, self._drop_last = loader.over_size_strategy, drop_last
        self._counts = counts

    def __call__(self, order: Tensor) -> Plan:
        if self._strategy == FixedSizeStrategy.PadToMax and self._over_size != OverSizeStrategy.Skip:
            return pad_to_max(order, self._options.num_graphs - 1, self._drop_last)
        packs = self._strategy != FixedSizeStrategy.PadToMax
        budgets = Budgets.of(self._counts, self._options, keep_edge=packs)
        num_graphs = len(order)
        if self._over_size == OverSizeStrategy.Error:
            budgets.check()
        elif self._over_size == OverSizeStrategy.Skip:
            order = order[~budgets.too_large()[order]]
        else:
            budgets = budgets.clipped()
        if len(order) == 0:
            raise ValueError(
                f"All {num_graphs} graphs would be skipped: none of them fits into {self._options}."
            )
        plan = self._put_together(order, budgets)
        return plan._replace(skipped=plan.skipped + num_graphs - len(order))

    def _put_together(self, order: Tensor, budgets: Budgets) -> Plan:
        if self._strategy == FixedSizeStrategy.StreamPack:
            return stream_pack(order, budgets)
        if self._strategy == FixedSizeStrategy.Pack:
            return pack(order, budgets)
        return without_misfits(pad_to_max(order, budgets.num_graphs, self._drop_last), budgets)


class _FixedSizeSource(BatchSource):
    """Makes fixed-size batches, by gathers from a table of all graphs or, without one, graph by graph."""

    def __init__(
        self,
        dataset: Sequence[Data],
        table: GraphTable | None,
        collator: Collator,
        over_size: OverSizeStrategy,
    ) -> None:
        super().__init__(dataset)
        self._table = None if table is None else table.only(collator.schema)
        self._collator = collator
        self._over_size = over_size

    def prepare(self, mini_batches: list[Tensor], workspace: Workspace) -> list[Any]:
        """Works out where everything goes, if the graphs lie in a table and need no trimming."""
        if self._table is None or self._over_size.trims:
            return mini_batches
        return self._collator.prepare(self._table, mini_batches, workspace)

    def mini_batch(self, entry: Tensor | Prepared) -> Batch:
        """One fixed-size batch."""
        if isinstance(entry, Prepared):
            return self._collator.assemble(entry)
        table, graphs = self._table, entry
        if table is None:
            table = self._read(graphs)
            graphs = torch.arange(len(graphs))
        trimmed = Trimmed()
        if self._over_size.trims and fits(table, graphs, self._collator.options):
            trimmed = nothing_trimmed(table, graphs)
        elif self._over_size.trims:
            table, trimmed = self._trim(take(table, graphs))
            graphs = torch.arange(len(graphs))
        batch = self._collator.collate(table, graphs)
        return with_report(batch, trimmed)

    def _read(self, graphs: Tensor) -> GraphTable:
        samples = [self.graphs[graph] for graph in graphs.tolist()]
        table = GraphTable.of_samples(samples, self._collator.schema, ids=graphs)
        check_edges(table)
        return table

    def _trim(self, table: GraphTable) -> tuple[GraphTable, Trimmed]:
        # The same graphs are trimmed in the same way, in whichever worker that happens.
        generator = torch.Generator().manual_seed(zlib.crc32(table.ids.numpy().tobytes()))
        return trim_table(table, self._collator.options, self._over_size, generator=generator)
