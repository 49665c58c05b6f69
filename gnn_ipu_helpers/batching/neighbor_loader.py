"""Loaders of sampled neighbourhoods: PyG's own without ``pyg-lib``, and one of fixed-size batches."""

from __future__ import annotations

import inspect
from typing import Any

import torch
import torch_geometric.typing
from torch_geometric.data import Batch, Data, HeteroData
from torch_geometric.loader import NeighborLoader
from torch_geometric.sampler.base import SubgraphType

from .input_nodes import check_input_nodes
from .options import FixedSizeOptions
from .padding import largest_fill
from .sampling import FanOuts, VectorisedNeighborSampler
from .schema import NODE
from .strategies import OverSizeStrategy
from .subgraph_loader import FixedSizeSubgraphLoader, SubgraphSource, for_graph, subgraph_schema
from .table import GraphTable
from .whole_graph import WholeGraph

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


def neighbor_loader(
    data: Data | HeteroData, num_neighbors: FanOuts, input_nodes: Any = None, **kwargs: Any
) -> NeighborLoader:
    """PyG's own ``NeighborLoader``, which also works where ``pyg-lib`` is not installed.

    With ``pyg-lib``, this is ``NeighborLoader(data, num_neighbors, input_nodes, **kwargs)`` and nothing else.
    Without it, a :class:`VectorisedNeighborSampler` is plugged in through ``neighbor_sampler``.

    The same seed of torch gives the same batches as long as ``num_workers`` stays the same: every worker
    has its own random numbers. (:class:`FixedSizeNeighborLoader` gives the same ones for any number.)

    Args:
        data: one graph.
        num_neighbors: the fan-out of every hop, ``[10, 10]`` for example, or such a list per edge type;
            -1 takes all neighbours.
        input_nodes: the seeds: indices, a mask ``[num_nodes]`` or None for all nodes; for a heterogeneous
            graph a node type or ``(node_type, indices or mask)``.
        kwargs: further arguments of ``NeighborLoader`` such as ``batch_size``, ``replace``, ``shuffle``.
    """
    check_input_nodes(data, input_nodes)
    subgraph_type = SubgraphType(kwargs.get("subgraph_type", "directional"))
    sampler_is_given = kwargs.get("neighbor_sampler") is not None
    if not sampler_is_given and not _pyg_lib_can_sample(subgraph_type):
        for name in ("time_attr", "weight_attr"):
            if kwargs.get(name) is not None:
                raise NotImplementedError(
                    f"Sampling by '{name}' needs 'pyg-lib', which is not installed. "
                    f"Leave out '{name}' to sample uniformly, or install 'pyg-lib'."
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

    The nodes of a batch are the seeds, then their sampled neighbours, then padding; ``n_id`` and ``e_id``
    name them in ``data``. ``batch_size`` and the shape of ``input_id``, ``[batch_size]``, are the same for
    every batch. The last batch of an epoch may hold fewer seeds: ``seeds_mask`` ``[num_nodes]`` is True for
    the nodes that are seeds, and the end of ``input_id`` is then -1. A loss over the seeds alone, static and
    right for every batch::

        target = torch.where(batch.seeds_mask, batch.y, -100)
        loss = F.cross_entropy(model(batch.x, batch.edge_index), target)

    In a heterogeneous graph, ``batch_size``, ``input_id`` and ``seeds_mask`` belong to the seeds' node type.

    Trimming drops the nodes and edges farthest from the seeds and never a seed; ``loader.trimmed`` tells how
    much the current or last epoch lost. The same seed of torch gives the same batches for any number of
    workers.

    Args:
        data: One graph.
        num_neighbors: The fan-out of every hop, ``[10, 10]`` for example, or such a list per edge type; -1
            takes all neighbours.
        input_nodes: The seeds: indices, a mask ``[num_nodes]`` or None for all nodes; for a heterogeneous
            graph a node type or ``(node_type, indices or mask)``.
        batch_size: Seeds in a mini-batch.
        fixed_size_options: The size that every mini-batch is padded to. By default it is found by sampling,
            so that the largest of 100 batches fits.
        over_size_strategy: What to do with samples that are too large.
        add_pad_masks: Add ``nodes_mask``, ``edges_mask`` and ``graphs_mask``, True where real.
        options: A ``poptorch.Options``: how many mini-batches make up a combined batch.
        kwargs: Arguments of PyG's ``NeighborLoader`` that are about sampling, such as ``replace``, and of
            ``poptorch.DataLoader``, such as ``shuffle`` or ``num_workers``.
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
                "A fixed-size batch holds one subgraph around all its seeds: 'disjoint' cannot be True. "
                "Use 'neighbor_loader' for a subgraph of each seed."
            )
        sampling = {name: kwargs.pop(name) for name in _SAMPLING_ARGUMENTS if name in kwargs}
        samples = neighbor_loader(data, num_neighbors, input_nodes, batch_size=batch_size, **sampling)
        with torch.random.fork_rng(devices=[]):
            source = _Neighbourhoods(samples)
            if fixed_size_options is None:
                fixed_size_options = FixedSizeOptions.from_loader(samples, sample_limit=_NUM_PROBES)
        fixed_size_options = for_graph(fixed_size_options, data)
        source.check_room(fixed_size_options)
        super().__init__(
            source, fixed_size_options, batch_size, over_size_strategy, add_pad_masks, options, **kwargs
        )


class NeighborBatch(Batch):
    """A homogeneous batch whose ``batch_size`` counts seeds, where PyG's own counts graphs."""

    @property
    def batch_size(self) -> int:
        """How many nodes at the front have room for seeds."""
        return self["batch_size"]


class _Neighbourhoods(SubgraphSource):
    """Subgraphs around seeds, made by PyG's ``NeighborLoader``."""

    def __init__(self, samples: NeighborLoader) -> None:
        super().__init__(len(samples.dataset))
        self._samples = samples
        self._batch_size = samples.batch_size
        self._seed_type = samples.input_data.input_type
        probe = self.sample(list(range(min(self._batch_size, len(self)))))
        self.schema = subgraph_schema(samples.data, probe, _NOT_FOR_BATCHES)
        self._whole = None
        if not _transforms(samples) and WholeGraph.can_take(samples.data, self.schema):
            self._whole = WholeGraph(samples.data, self.schema)
            samples.data = self._whole.skeleton
        if not self.schema.is_hetero:
            batch_class = type(NeighborBatch(_base_cls=self.schema.data_class))
            self.schema = self.schema._replace(data_class=batch_class)

    def sample(self, items: list[int]) -> Data | HeteroData:
        if len(items) > self._batch_size:
            raise ValueError(
                f"A mini-batch of {len(items)} seeds has no room: batch_size={self._batch_size}. "
                f"Raise batch_size to the most seeds that 'batch_sampler' gives."
            )
        return self._samples(torch.as_tensor(items))

    def table(self, sample: Data | HeteroData, number: int) -> GraphTable:
        if self._whole is None:
            return super().table(sample, number)
        return self._whole.table(sample, self.collator.schema, number)

    def num_protected_nodes(self, num_items: int) -> dict[str | None, int]:
        return {self._seed_type: num_items}

    def check_room(self, options: FixedSizeOptions) -> None:
        """Raises unless all seeds of a mini-batch fit."""
        room = largest_fill((NODE, self._seed_type), options)
        if room < self._batch_size:
            raise ValueError(
                f"batch_size={self._batch_size} seeds do not fit a batch: num_nodes={room + 1} leaves room "
                f"for {room} (one is padding). Raise num_nodes to at least {self._batch_size + 1}."
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


def _transforms(samples: NeighborLoader) -> bool:
    return samples.transform is not None or samples.transform_sampler_output is not None


def _pyg_lib_can_sample(subgraph_type: SubgraphType) -> bool:
    return torch_geometric.typing.WITH_PYG_LIB and subgraph_type != SubgraphType.induced
