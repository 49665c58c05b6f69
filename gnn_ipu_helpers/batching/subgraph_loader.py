"""What the loaders of sampled subgraphs share: each mini-batch is one subgraph, trimmed and padded."""

from __future__ import annotations

import copy
import warnings
from typing import Any, Iterator, NamedTuple, Sequence

import torch
from torch_geometric.data import Batch, Data, HeteroData

from .collating import Collator
from .combining import combine_batches, num_mini_batches
from .options import FixedSizeOptions
from .padding import fits
from .planned_loader import BatchSource, PlannedLoader
from .planning import Plan, pad_to_max
from .schema import GRAPH, Schema, infer_schema
from .strategies import OverSizeStrategy
from .table import GraphTable
from .trimming import Trimmed, nothing_trimmed, take_report, trim_table, with_report


class SubgraphSource(BatchSource):
    """Makes subgraphs out of numbered items, seeds or clusters.

    Args:
        num_items: How many there are.
    """

    schema: Schema

    def __init__(self, num_items: int) -> None:
        super().__init__(range(num_items))
        self.collator: Collator | None = None
        self.over_size = OverSizeStrategy.Error
        self.generator: torch.Generator | None = None

    def sample(self, items: list[int]) -> Data | HeteroData:
        """The subgraph of some items."""
        raise NotImplementedError

    def num_protected_nodes(self, num_items: int) -> dict[str | None, int]:
        """How many nodes at the front of a subgraph of so many items may not be trimmed, by node type."""
        return {}

    def table(self, sample: Data | HeteroData, number: int) -> GraphTable:
        """The subgraph of that number in the epoch, as the collator wants it."""
        return GraphTable.of_samples([sample], self.collator.schema, torch.tensor([number]))

    def finish(self, batch: Batch, sample: Data | HeteroData) -> Batch:
        """The padded batch with what belongs to neither nodes, edges nor graphs."""
        return batch

    def requests(self, mini_batches: list[torch.Tensor]) -> list[_Request]:
        """Gives each mini-batch of an epoch its seed."""
        seeds = torch.randint(2**63 - 1, (len(mini_batches),), generator=self.generator).tolist()
        return [_Request(*request) for request in zip(range(len(seeds)), seeds, mini_batches)]

    def __getitem__(self, item: list[_Request]) -> Batch | _Incomplete:
        batches = [self.mini_batch(request) for request in item]
        fitting = [batch for batch in batches if batch is not None]
        if len(fitting) < len(batches):
            return _Incomplete(fitting, len(batches) - len(fitting))
        return combine_batches(batches)

    def mini_batch(self, entry: _Request) -> Batch | None:
        """One fixed-size batch, or None if it is to be skipped."""
        items, options = entry.items.tolist(), self.collator.options
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(entry.seed)
            sample = self.sample(items)
        table = self.table(sample, entry.number)
        whole = torch.tensor([0])
        if fits(table, whole, options):
            trimmed = nothing_trimmed(table, whole)
        elif self.over_size == OverSizeStrategy.Skip:
            return None
        else:
            table, trimmed = trim_table(table, options, self.over_size, self.num_protected_nodes(len(items)))
        batch = self.collator.collate(table, whole)
        return with_report(self.finish(batch, sample), trimmed)


class FixedSizeSubgraphLoader(PlannedLoader):
    """Base of the loaders of sampled subgraphs: the same seed gives the same batches for any ``num_workers``.

    Args:
        source: Makes the subgraphs.
        fixed_size_options: The size that every mini-batch is padded to.
        batch_size: Items in each subgraph.
        over_size_strategy: What to do with subgraphs that are too large.
        add_pad_masks: Add ``nodes_mask``, ``edges_mask`` and ``graphs_mask``, True where real.
        options: A ``poptorch.Options``: how many mini-batches make up a combined batch.
        drop_last: Whether to leave out an incomplete last batch.
        generator: Source of random numbers instead of torch's global one.
        kwargs: Further arguments of ``poptorch.DataLoader`` such as ``shuffle`` or ``num_workers``.
    """

    def __init__(
        self,
        source: SubgraphSource,
        fixed_size_options: FixedSizeOptions,
        batch_size: int,
        over_size_strategy: OverSizeStrategy,
        add_pad_masks: bool,
        options: Any = None,
        drop_last: bool = False,
        generator: torch.Generator | None = None,
        **kwargs: Any,
    ) -> None:
        if batch_size < 1:
            raise ValueError(f"batch_size should be at least 1 (got {batch_size}).")
        self.fixed_size_options = fixed_size_options
        self.over_size_strategy = OverSizeStrategy(over_size_strategy)
        self.trimmed = Trimmed()
        self._skipped = 0
        self._num_mini_batches = num_mini_batches(options)
        source.collator = Collator(source.schema, fixed_size_options, add_pad_masks)
        source.over_size = self.over_size_strategy
        source.generator = generator

        def make_plan(order: torch.Tensor) -> Plan:
            kept = len(order) // batch_size * batch_size if drop_last else len(order)
            return pad_to_max(order[:kept], batch_size)

        super().__init__(
            source, make_plan, options=options, drop_last=drop_last, generator=generator, **kwargs
        )

    @property
    def skipped(self) -> int:
        """How many subgraphs of the current or last epoch were left out because they did not fit."""
        return self._skipped

    def __iter__(self) -> Iterator[Batch]:
        self.trimmed, self._skipped = Trimmed(), 0
        waiting: list[Batch] = []
        for batch in super().__iter__():
            if isinstance(batch, _Incomplete):
                self._skipped += batch.num_skipped
                waiting += batch.fitting
                if len(waiting) < self._num_mini_batches:
                    continue
                batch = combine_batches(waiting[: self._num_mini_batches])
                waiting = waiting[self._num_mini_batches :]
            self.trimmed += take_report(batch)
            yield batch
        if self._skipped:
            self._tell(len(waiting))

    def _tell(self, num_waiting: int) -> None:
        others = ""
        if num_waiting:
            self._skipped += num_waiting
            others = f", {num_waiting} of them because the others of their combined batch do not"
        warnings.warn(
            f"{self._skipped} subgraphs are skipped because they do not fit into the fixed size{others}. "
            "Raise num_nodes and num_edges, or trim with OverSizeStrategy.TrimNodesAndEdges.",
            stacklevel=3,
        )


def for_graph(options: FixedSizeOptions, data: Data | HeteroData) -> FixedSizeOptions:
    """A copy of the options with a number for each type of a heterogeneous graph."""
    if not isinstance(options, FixedSizeOptions):
        raise TypeError(
            f"'fixed_size_options' needs to be a FixedSizeOptions (got {type(options).__name__})."
        )
    if not isinstance(data, HeteroData):
        return options
    return copy.copy(options).to_hetero(data.node_types, data.edge_types)


def subgraph_schema(
    whole: Data | HeteroData, subgraph: Data | HeteroData, exclude_keys: Sequence[str] = ()
) -> Schema:
    """The attributes of the subgraphs of a graph.

    Whether an attribute belongs to nodes or edges, the whole graph tells better: a subgraph may happen to
    have as many edges as nodes.
    """
    known = {(field.store, field.name): field for field in infer_schema([whole], exclude_keys).fields}
    schema = infer_schema([subgraph], exclude_keys)
    fields = []
    for field in schema.fields:
        if field.name in ("n_id", "e_id") and field.level == GRAPH:
            # A transform added or removed nodes or edges, so that this no longer tells which they are.
            continue
        told = known.get((field.store, field.name), field)
        fields.append(field._replace(level=told.level, rows=told.rows))
    return schema._replace(fields=tuple(fields))


class _Request(NamedTuple):
    """One mini-batch to be made.

    Args:
        number: Its number in the epoch.
        seed: Decides everything random about it, so that it does not matter which worker makes it.
        items: Positions of the items it is made of.
    """

    number: int
    seed: int
    items: torch.Tensor


class _Incomplete(NamedTuple):
    """The mini-batches of a combined batch that are left when others are skipped."""

    fitting: list[Batch]
    num_skipped: int
