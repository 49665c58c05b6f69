"""The loaders of parts of one large graph: neighbourhoods of seeds and clusters, trimmed and padded.

Each mini-batch is one subgraph. What the two loaders share comes first, then neighbourhoods, then clusters.
"""

from __future__ import annotations

import copy
import inspect
import warnings
from typing import Any, Iterator, NamedTuple, Sequence

import torch
import torch_geometric.typing
from torch import Tensor
from torch_geometric.data import Batch, Data, HeteroData
from torch_geometric.loader import ClusterData, NeighborLoader
from torch_geometric.sampler.base import SubgraphType

from .collating import Collator, combine_batches, fits
from .graphs import (
    EDGE,
    GRAPH,
    NODE,
    GraphTable,
    Picked,
    Schema,
    StoreKey,
    infer_schema,
    kind_of,
    spans,
)
from .loaders import BatchSource, PlannedLoader, shortened, tell_left_out
from .options import FixedSizeOptions, OverSizeStrategy, check_options, list_of_names, whole_number
from .sampling import FanOuts, VectorisedNeighborSampler, check_range
from .trimming import trim_table, with_report

# Arguments of NeighborLoader that say how to sample; all others are for the loader around it.
_SAMPLING_ARGUMENTS = set(inspect.signature(NeighborLoader.__init__).parameters) - {
    "self",
    "data",
    "num_neighbors",
    "input_nodes",
    "kwargs",
}

# What PyG notes on a sample about how it was made: of no fixed size, or added by 'finish'.
_NOT_FOR_BATCHES = ("batch", "batch_size", "input_id", "num_sampled_edges", "num_sampled_nodes", "seed_time")

# How many batches to look at for a fixed size.
_NUM_PROBES = 100

_IDS = {NODE: "n_id", EDGE: "e_id"}
_STRUCTURE = ("edge_index", *_IDS.values())


class _Request(NamedTuple):
    """One mini-batch to be made."""

    number: int  # in the epoch
    seed: int  # decides everything random, so that it does not matter which worker makes it
    items: Tensor  # positions of what it is made of


class _Incomplete(NamedTuple):
    """The mini-batches of a combined batch that are left when others are skipped."""

    fitting: list[Batch]
    num_skipped: int


class SubgraphSource(BatchSource):
    """Makes subgraphs out of numbered items, seeds or clusters."""

    schema: Schema
    contents: str  # what to take fewer of where a subgraph is too large
    # Set by the loader.
    collator: Collator
    over_size: OverSizeStrategy
    generator: torch.Generator | None

    def __init__(self, num_items: int) -> None:
        super().__init__(range(num_items))

    def sample(self, items: list[int], seed: int) -> Data | HeteroData:
        """The subgraph of some items; the seed decides everything random about it."""
        raise NotImplementedError

    def num_protected_nodes(self, num_items: int) -> dict[StoreKey, int]:
        """How many nodes at the front of a subgraph of so many items may not be trimmed, by node type."""
        return {}

    def table(self, sample: Data | HeteroData, number: int) -> GraphTable:
        """The subgraph of that number in the epoch, as the collator wants it."""
        return GraphTable.of_samples([sample], self.collator.schema, torch.tensor([number]))

    def finish(self, batch: Batch, sample: Data | HeteroData) -> Batch:
        """The padded batch with what belongs to neither nodes, edges nor graphs."""
        return batch

    def check_room(self, options: FixedSizeOptions) -> None:
        """Raises if what may not be trimmed does not fit."""

    def requests(self, mini_batches: list[Tensor]) -> list[Any]:
        """Gives each mini-batch of an epoch its seed."""
        seeds = torch.randint(2**63 - 1, (len(mini_batches),), generator=self.generator).tolist()
        return [_Request(*request) for request in zip(range(len(seeds)), seeds, mini_batches)]

    def join(self, batches: list[Batch | None]) -> Batch | _Incomplete:
        """The combined batch, unless some of its mini-batches are skipped."""
        fitting = [batch for batch in batches if batch is not None]
        if len(fitting) < len(batches):
            return _Incomplete(fitting, len(batches) - len(fitting))
        return combine_batches(fitting)

    def mini_batch(self, request: _Request) -> Batch | None:
        """One fixed-size batch, or None if it is to be skipped."""
        items, options = request.items.tolist(), self.collator.options
        sample = self.sample(items, request.seed)
        table, whole = self.table(sample, request.number), torch.tensor([0])
        if self.over_size == OverSizeStrategy.Skip and not fits(table, whole, options):
            return None
        protected = self.num_protected_nodes(len(items))
        table, trimmed = trim_table(table, options, self.over_size, protected)
        for group, counts in table.counts.items():
            if int(counts) > options.room(group):
                raise ValueError(
                    f"Subgraph {request.number} of the epoch, with {int(counts)} {kind_of(group)} does not "
                    f"fit: {options.lack_of_room(group, int(counts))}, take fewer {self.contents}, or choose "
                    "another over_size_strategy: OverSizeStrategy.TrimNodesAndEdges cuts subgraphs down, "
                    "Skip leaves them out."
                )
        batch = self.collator.collate(table, whole)
        return with_report(self.finish(batch, sample), trimmed)


class FixedSizeSubgraphLoader(PlannedLoader):
    """Base of the loaders of sampled subgraphs: the same seed gives the same batches for any `num_workers`.

    `graph` is the one that `source` takes subgraphs of; all else is as in the loaders below.
    """

    def __init__(
        self,
        graph: Data | HeteroData,
        source: SubgraphSource,
        fixed_size_options: FixedSizeOptions,
        batch_size: int,
        over_size_strategy: OverSizeStrategy,
        add_pad_masks: bool,
        options: Any = None,
        exclude_keys: Sequence[str] | None = None,
        **kwargs: Any,
    ) -> None:
        check_options(fixed_size_options)
        if isinstance(graph, HeteroData):
            fixed_size_options = copy.copy(fixed_size_options).to_hetero(graph.node_types, graph.edge_types)
        self.fixed_size_options = fixed_size_options
        self.over_size_strategy = OverSizeStrategy(over_size_strategy)
        self._skipped = 0
        schema = source.schema.without(list_of_names("exclude_keys", exclude_keys))
        tell_left_out(schema, fixed_size_options)
        source.check_room(fixed_size_options)
        source.collator = Collator(schema, fixed_size_options, add_pad_masks)
        source.over_size = self.over_size_strategy
        super().__init__(source, batch_size, options=options, **kwargs)
        source.generator = self._generator
        num_processes = self.options.Distributed.numProcesses
        if self.over_size_strategy == OverSizeStrategy.Skip and num_processes > 1:
            raise ValueError(
                f"OverSizeStrategy.Skip cannot be shared by {num_processes} processes: which subgraphs fit "
                "is only known when they are made, and a process with more steps than the rest would wait "
                "for them for ever. Trim with OverSizeStrategy.TrimNodesAndEdges."
            )

    @property
    def skipped(self) -> int:
        """How many subgraphs of the current or last epoch were left out because they did not fit."""
        return self._skipped

    def __iter__(self) -> Iterator[Batch]:
        return self._counting(self._complete(super().__iter__()))

    def _complete(self, batches: Iterator[Batch | _Incomplete]) -> Iterator[Batch]:
        """Combined batches, made up anew where some of their mini-batches are skipped."""
        number = self._epochs.num_mini_batches
        waiting: list[Batch] = []
        self._skipped = 0
        for batch in batches:
            if isinstance(batch, _Incomplete):
                self._skipped += batch.num_skipped
                waiting += batch.fitting
                if len(waiting) < number:
                    continue
                batch = combine_batches(waiting[:number])
                waiting = waiting[number:]
            yield batch
        if self._skipped:
            others = ""
            if waiting:
                self._skipped += len(waiting)
                others = f", {len(waiting)} of them because the others of their combined batch do not"
            warnings.warn(
                f"{self._skipped} subgraphs are skipped because they do not fit into the fixed size{others}. "
                "Raise num_nodes and num_edges, or trim with OverSizeStrategy.TrimNodesAndEdges.",
                stacklevel=2,
            )


# -- neighbourhoods of seeds ---------------------------------------------------------------------------------


def neighbor_loader(
    data: Data | HeteroData, num_neighbors: FanOuts, input_nodes: Any = None, **kwargs: Any
) -> NeighborLoader:
    """PyG's own `NeighborLoader`, which also works where `pyg-lib` is not installed.

    With `pyg-lib`, this is `NeighborLoader(data, num_neighbors, input_nodes, **kwargs)` and nothing else.
    Without it, a `VectorisedNeighborSampler` is plugged in through `neighbor_sampler`.

    The same seed of torch gives the same batches as long as `num_workers` stays the same: every worker
    has its own random numbers. (`FixedSizeNeighborLoader` gives the same ones for any number.)

    Args:
        data: One graph.
        num_neighbors: The fan-out of every hop, `[10, 10]` for example, or such a list per edge type;
            -1 takes all neighbours.
        input_nodes: The seeds: indices, a mask `[num_nodes]` or None for all nodes; for a heterogeneous
            graph a node type or `(node_type, indices or mask)`.
        kwargs: Further arguments of `NeighborLoader` such as `batch_size`, `replace`, `shuffle`.

    Example:
        >>> data = Data(x=torch.ones(3, 1), edge_index=torch.tensor([[0, 1], [1, 2]]))
        >>> [batch.n_id.tolist() for batch in neighbor_loader(data, [1], batch_size=1)]
        [[0], [1, 0], [2, 1]]
    """
    _check_input_nodes(data, input_nodes)
    subgraph_type = SubgraphType(kwargs.get("subgraph_type", "directional"))
    pyg_lib_can = torch_geometric.typing.WITH_PYG_LIB and subgraph_type != SubgraphType.induced
    if kwargs.get("neighbor_sampler") is None and not pyg_lib_can:
        for name in ("time_attr", "weight_attr"):
            if kwargs.get(name) is not None:
                raise NotImplementedError(
                    f"Sampling by '{name}' needs 'pyg-lib', which is not installed. Leave out '{name}' to "
                    "sample uniformly, or install 'pyg-lib'."
                )
        kwargs["neighbor_sampler"] = VectorisedNeighborSampler(
            data,
            num_neighbors,
            subgraph_type=subgraph_type,
            replace=kwargs.get("replace", False),
            disjoint=kwargs.get("disjoint", False),
        )
    return NeighborLoader(data, num_neighbors, input_nodes=input_nodes, **kwargs)


class FixedSizeNeighborLoader(FixedSizeSubgraphLoader):
    """Samples the neighbourhood of some seeds at a time and pads it to a fixed size.

    The nodes of a batch are the seeds, then their sampled neighbours, then padding; `n_id` and `e_id`
    name them in `data`. `batch_size` and the shape of `input_id`, `[batch_size]`, are the same for
    every batch. The last batch of an epoch may hold fewer seeds: `seeds_mask` `[num_nodes]` is True for
    the nodes that are seeds, and the end of `input_id` is then -1. A loss over the seeds alone, static and
    right for every batch::

        target = torch.where(batch.seeds_mask, batch.y, -100)
        loss = F.cross_entropy(model(batch.x, batch.edge_index), target)

    In a heterogeneous graph, `batch_size`, `input_id` and `seeds_mask` belong to the seeds' node type.

    Trimming drops the nodes and edges farthest from the seeds and never a seed; `loader.trimmed` tells how
    much the current or last epoch lost. The same seed of torch gives the same batches for any number of
    workers.

    Args:
        data: One graph.
        num_neighbors: The fan-out of every hop, `[10, 10]` for example, or such a list per edge type; -1
            takes all neighbours.
        input_nodes: The seeds: indices, a mask `[num_nodes]` or None for all nodes; for a heterogeneous
            graph a node type or `(node_type, indices or mask)`.
        batch_size: Seeds in a mini-batch.
        fixed_size_options: The size that every mini-batch is padded to. By default it is found by sampling,
            so that the largest of 100 batches fits.
        over_size_strategy: What to do with samples that are too large.
        add_pad_masks: Add `nodes_mask`, `edges_mask` and `graphs_mask`, True where real.
        options: A `poptorch.Options`: how many mini-batches make up a combined batch.
        kwargs: `exclude_keys`, arguments of PyG's `NeighborLoader` that are about sampling, such as
            `replace`, and of `poptorch.DataLoader`, such as `shuffle` or `num_workers`.

    Example:
        >>> data = Data(x=torch.ones(3, 1), edge_index=torch.tensor([[0, 1], [1, 2]]))
        >>> loader = FixedSizeNeighborLoader(data, [1], batch_size=2)
        >>> [batch.n_id[batch.seeds_mask].tolist() for batch in loader]
        [[0, 1], [2]]
    """

    def __init__(
        self,
        data: Data | HeteroData,
        num_neighbors: FanOuts,
        input_nodes: Any = None,
        batch_size: int = 1,
        fixed_size_options: FixedSizeOptions | None = None,
        over_size_strategy: OverSizeStrategy = OverSizeStrategy.TrimNodesAndEdges,
        add_pad_masks: bool = True,
        options: Any = None,
        **kwargs: Any,
    ) -> None:
        if kwargs.get("disjoint"):
            raise ValueError(
                "A fixed-size batch holds one subgraph around all its seeds: 'disjoint' cannot be True. Use "
                "'neighbor_loader' for a subgraph of each seed."
            )
        whole_number("batch_size", batch_size, least=1)
        sampling = {name: kwargs.pop(name) for name in _SAMPLING_ARGUMENTS if name in kwargs}
        samples = neighbor_loader(data, num_neighbors, input_nodes, batch_size=batch_size, **sampling)
        with torch.random.fork_rng(devices=[]):
            source = _Neighbourhoods(samples)
            if fixed_size_options is None:
                fixed_size_options = source.with_room(
                    FixedSizeOptions.from_loader(samples, sample_limit=_NUM_PROBES)
                )
        super().__init__(
            data, source, fixed_size_options, batch_size, over_size_strategy, add_pad_masks, options, **kwargs
        )


class NeighborBatch(Batch):
    """A homogeneous batch whose `batch_size` counts seeds, where PyG's own counts graphs."""

    @property
    def batch_size(self) -> int:
        """How many nodes at the front have room for seeds."""
        return self["batch_size"]


class _Neighbourhoods(SubgraphSource):
    """Subgraphs around seeds, made by PyG's `NeighborLoader`."""

    contents = "seeds or neighbours"

    def __init__(self, samples: NeighborLoader) -> None:
        super().__init__(len(samples.dataset))
        self._samples = samples
        self._batch_size = samples.batch_size
        self._seed_type = samples.input_data.input_type
        transforms = samples.transform is not None or samples.transform_sampler_output is not None
        # Our own sampler takes its random numbers from a generator; anything else from torch's global one.
        is_ours = type(samples.node_sampler) is VectorisedNeighborSampler
        self._sampler = samples.node_sampler if is_ours and not transforms else None
        probe = self.sample(list(range(min(self._batch_size, len(self)))), seed=0)
        self.schema = _sample_schema(samples.data, probe)
        self._whole = None
        if not transforms and _WholeGraph.can_take(samples.data, self.schema):
            self._whole = _WholeGraph(samples.data, self.schema)
            samples.data = self._whole.skeleton
        if not self.schema.is_hetero:
            batch_class = type(NeighborBatch(_base_cls=self.schema.data_class))
            self.schema = self.schema._replace(data_class=batch_class)

    def sample(self, items: list[int], seed: int) -> Data | HeteroData:
        if len(items) > self._batch_size:
            raise ValueError(
                f"A mini-batch of {len(items)} seeds has no room: batch_size={self._batch_size}. Raise "
                "batch_size to the most seeds that 'batch_sampler' gives."
            )
        if self._sampler is not None:
            self._sampler.generator = torch.Generator().manual_seed(seed)
            try:
                return self._samples(torch.as_tensor(items))
            finally:
                self._sampler.generator = None
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(seed)
            return self._samples(torch.as_tensor(items))

    def table(self, sample: Data | HeteroData, number: int) -> GraphTable:
        if self._whole is None:
            return super().table(sample, number)
        return self._whole.table(sample, self.collator.schema, number)

    def num_protected_nodes(self, num_items: int) -> dict[StoreKey, int]:
        return {self._seed_type: num_items}

    def with_room(self, options: FixedSizeOptions) -> FixedSizeOptions:
        """The options with room for the seeds of a full mini-batch, also where there are fewer in all."""
        least = self._batch_size + options.num_reserved_nodes
        if self._seed_type is None:
            options.num_nodes = max(options.num_nodes, least)
        else:
            options.num_nodes[self._seed_type] = max(options.num_nodes[self._seed_type], least)
        return options

    def check_room(self, options: FixedSizeOptions) -> None:
        """Raises unless all seeds of a mini-batch fit."""
        group = (NODE, self._seed_type)
        if options.room(group) < self._batch_size:
            raise ValueError(
                f"batch_size={self._batch_size} seeds do not fit a batch: "
                f"{options.lack_of_room(group, self._batch_size)}, or take a smaller batch_size."
            )

    def finish(self, batch: Batch, sample: Data | HeteroData) -> Batch:
        store, sampled = (
            graph.stores[0] if self._seed_type is None else graph[self._seed_type]
            for graph in (batch, sample)
        )
        input_id = torch.full((self._batch_size,), -1)
        input_id[: sampled.batch_size] = sampled.input_id
        store["seeds_mask"] = torch.arange(len(store["batch"])) < sampled.batch_size
        store["batch_size"] = self._batch_size
        store["input_id"] = input_id
        return batch


def _sample_schema(whole: Data | HeteroData, sample: Data | HeteroData) -> Schema:
    """The attributes of samples of a graph.

    Whether an attribute belongs to nodes or edges, the whole graph tells better: a sample may happen to
    have as many edges as nodes.
    """
    known = infer_schema([whole], _NOT_FOR_BATCHES, one_graph=True).fields
    levels = {(field.store, field.name): field for field in known}
    schema = infer_schema([sample], _NOT_FOR_BATCHES, one_graph=True)
    fields = []
    for field in schema.fields:
        if field.name in ("n_id", "e_id") and field.level == GRAPH:
            # A transform added or removed nodes or edges, so that this no longer tells which they are.
            continue
        told = levels.get((field.store, field.name), field)
        fields.append(field._replace(level=told.level, rows=told.rows))
    return schema._replace(fields=tuple(fields))


class _WholeGraph:
    """A graph whose samples copy nothing: they know which rows of its attributes they take.

    Args:
        data: The graph.
        schema: The attributes of the samples.
    """

    def __init__(self, data: Data | HeteroData, schema: Schema) -> None:
        # Its nodes and edges without any attribute are all that is sampled.
        self.skeleton: Any = HeteroData() if isinstance(data, HeteroData) else Data()
        for store, empty in zip(data.node_stores, map(self._own, data.node_stores)):
            empty.num_nodes = store.num_nodes
        for store, empty in zip(data.edge_stores, map(self._own, data.edge_stores)):
            empty.edge_index = store.edge_index
        features = [field for field in schema.fields if field.name not in _STRUCTURE]
        columns = GraphTable.of_samples([data], schema._replace(fields=tuple(features))).columns
        self._columns = {(field.store, field.name): column for field, column in zip(features, columns)}

    def _own(self, store: Any) -> Any:
        return self.skeleton if store._key is None else self.skeleton[store._key]

    @staticmethod
    def can_take(data: Data | HeteroData, schema: Schema) -> bool:
        """Whether every attribute of the samples is a selection of rows of the graph's own."""
        ids = {field.group for field in schema.fields if field.name == _IDS.get(field.level)}
        stores = {store._key: store for store in data.stores}
        for field in schema.fields:
            of_graph = field.name in stores.get(field.store, ())
            if field.name == "edge_index":
                continue
            if field.name in _STRUCTURE:
                if of_graph:
                    return False
            elif not of_graph or "index" in field.name or "batch" in field.name or field.name == "face":
                # The values may number nodes, and would have to be numbered anew.
                return False
            elif field.level != GRAPH and (field.group not in ids or field.dim != 0):
                return False
        return True

    def table(self, sample: Data | HeteroData, schema: Schema, number: int) -> GraphTable:
        """The table of a sample of the skeleton, which is called by its number in messages."""
        own = [field for field in schema.fields if field.name in _STRUCTURE]
        structure = GraphTable.of_samples(
            [sample], schema._replace(fields=tuple(own)), torch.tensor([number])
        )
        columns = {(field.store, field.name): column for field, column in zip(own, structure.columns)}
        for field in schema.fields:
            key = (field.store, field.name)
            if key not in columns:
                store = sample if field.store is None else sample[field.store]
                whole: Any = self._columns[key]
                columns[key] = whole if field.level == GRAPH else Picked(whole, store[_IDS[field.level]])
        return structure._replace(
            schema=schema,
            columns=[columns[field.store, field.name] for field in schema.fields],
            shifts={i: None for i, field in enumerate(schema.fields) if field.name == "edge_index"},
        )


def _check_input_nodes(data: Data | HeteroData, input_nodes: Any) -> None:
    """Raises if `input_nodes` cannot be the seeds of a neighbour loader over `data`."""
    if not isinstance(data, (Data, HeteroData)):
        raise TypeError(
            f"Neighbours are sampled from one 'Data' or 'HeteroData' (got '{type(data).__name__}')."
        )
    given, num_nodes, where = input_nodes, data.num_nodes, ""
    if isinstance(data, HeteroData):
        pair = (input_nodes, None) if isinstance(input_nodes, str) else input_nodes
        if not isinstance(pair, (tuple, list)) or len(pair) != 2 or pair[0] not in data.node_types:
            raise ValueError(
                "'input_nodes' of a heterogeneous graph needs to be a node type or (type, indices or mask), "
                f"with a type out of {data.node_types} (got {shortened(input_nodes)})."
            )
        node_type, given = pair
        num_nodes, where = data[node_type].num_nodes, f" of type '{node_type}'"
    if given is None:
        return
    nodes = given
    if not isinstance(nodes, Tensor):
        try:
            nodes = torch.as_tensor(nodes)
        except (TypeError, ValueError, RuntimeError):
            nodes = torch.empty(1)
        nodes = nodes.long() if nodes.numel() == 0 else nodes
    if nodes.dtype == torch.bool and nodes.shape != (num_nodes,):
        raise ValueError(
            f"A mask as 'input_nodes' needs one entry for each of the {num_nodes} nodes{where} (got shape "
            f"{list(nodes.shape)})."
        )
    if nodes.dtype not in (torch.bool, torch.int64, torch.int32) or nodes.dim() != 1:
        got = f"{nodes.dtype} of shape {list(nodes.shape)}" if nodes is given else shortened(given)
        raise TypeError(f"'input_nodes' needs to be a mask or node indices in one dimension (got {got}).")
    if nodes.numel() == 0 or (nodes.dtype == torch.bool and not bool(nodes.any())):
        raise ValueError(f"'input_nodes' selects no node{where}: nothing to sample. Select at least one.")
    if nodes.dtype != torch.bool:
        check_range(nodes, num_nodes, f"'input_nodes'{where}")


# -- clusters ------------------------------------------------------------------------------------------------


class FixedSizeClusterLoader(FixedSizeSubgraphLoader):
    """Merges some clusters at a time, with the edges between them, and pads the subgraph to a fixed size.

    `loader.trimmed` tells how much the current or last epoch lost to trimming. The same seed of torch gives
    the same batches for any number of workers.

    Args:
        cluster_data: A partitioned graph; see `gnn_ipu_helpers.partition`.
        fixed_size_options: The size that every mini-batch is padded to, for example
            `FixedSizeOptions.from_loader(ClusterLoader(cluster_data, batch_size=10))`.
        batch_size: Clusters in a mini-batch.
        over_size_strategy: What to do with subgraphs that are too large.
        add_pad_masks: Add `nodes_mask`, `edges_mask` and `graphs_mask`, True where real.
        options: A `poptorch.Options`: how many mini-batches make up a combined batch.
        kwargs: `exclude_keys`, and arguments of `poptorch.DataLoader` such as `shuffle` or `num_workers`.
    """

    def __init__(
        self,
        cluster_data: ClusterData,
        fixed_size_options: FixedSizeOptions,
        batch_size: int = 1,
        over_size_strategy: OverSizeStrategy = OverSizeStrategy.TrimNodesAndEdges,
        add_pad_masks: bool = True,
        options: Any = None,
        **kwargs: Any,
    ) -> None:
        if not isinstance(cluster_data, ClusterData):
            raise TypeError(
                f"'cluster_data' needs to be a partitioned graph (got {type(cluster_data).__name__}). Make "
                "one with 'partition(data, num_parts)'."
            )
        check_options(fixed_size_options)
        super().__init__(
            cluster_data.data,
            _Clusters(cluster_data),
            fixed_size_options,
            batch_size,
            over_size_strategy,
            add_pad_masks,
            options,
            **kwargs,
        )


class _Clusters(SubgraphSource):
    """Clusters, merged as PyG's `ClusterLoader` does it.

    PyG's own code fails on clusters without edges, and leaves edge attributes whole whose name does not say
    what they are; here the graph before its partition tells that.
    """

    contents = "clusters"

    def __init__(self, cluster_data: ClusterData) -> None:
        super().__init__(len(cluster_data))
        self._data, parts = cluster_data.data, cluster_data.partition
        self._bounds, self._by_source = parts.partptr, getattr(parts, "sparse_format", "csr") == "csr"
        # PyG 2.4 calls them by other names.
        self._ptr = parts.indptr if hasattr(parts, "indptr") else parts.rowptr
        self._far = parts.index if hasattr(parts, "index") else parts.col
        whole = copy.copy(self._data)
        # The partition keeps the edges to itself; their number is all that the schema needs.
        whole.edge_index = torch.zeros(2, parts.edge_perm.numel(), dtype=torch.long)
        self.schema = infer_schema([whole], one_graph=True)
        self._number = torch.full((self._data.num_nodes,), -1)

    def sample(self, items: list[int], seed: int = 0) -> Data:
        """The subgraph of some clusters. Nothing about it is random."""
        clusters, ptr = torch.tensor(items), self._ptr
        first, last = self._bounds[clusters], self._bounds[clusters + 1]
        nodes = spans(first, last - first)
        edges = spans(ptr[first], ptr[last] - ptr[first])
        near = torch.repeat_interleave(torch.arange(len(nodes)), ptr[nodes + 1] - ptr[nodes])
        self._number[nodes] = torch.arange(len(nodes))
        far = self._number[self._far[edges]]
        self._number[nodes] = -1
        inside = far >= 0
        near, far, edges = near[inside], far[inside], edges[inside]
        sample = copy.copy(self._data)
        for field in self.schema.fields:
            if field.level != GRAPH and field.name != "edge_index":
                rows = nodes if field.level == NODE else edges
                sample[field.name] = self._data[field.name].index_select(field.dim, rows)
        if "num_nodes" in sample:
            sample.num_nodes = len(nodes)
        sample.edge_index = torch.stack([near, far] if self._by_source else [far, near])
        return sample
