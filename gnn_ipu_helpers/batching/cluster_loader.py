"""A loader of clusters of a partitioned graph, in batches of a fixed size."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch_geometric.data import Data
from torch_geometric.loader import ClusterData, ClusterLoader

from .options import FixedSizeOptions
from .strategies import OverSizeStrategy
from .subgraph_loader import FixedSizeSubgraphLoader, SubgraphSource, for_graph, subgraph_schema


class FixedSizeClusterLoader(FixedSizeSubgraphLoader):
    """Merges some clusters at a time, with the edges between them, and pads the subgraph to a fixed size.

    ``loader.trimmed`` tells how much the current or last epoch lost to trimming. The same seed of torch gives
    the same batches for any number of workers.

    Args:
        cluster_data: A partitioned graph; see :func:`~gnn_ipu_helpers.partition`.
        fixed_size_options: The size that every mini-batch is padded to, for example
            ``FixedSizeOptions.from_loader(ClusterLoader(cluster_data, batch_size=10))``.
        batch_size: Clusters in a mini-batch.
        over_size_strategy: What to do with subgraphs that are too large.
        add_pad_masks: Add ``nodes_mask``, ``edges_mask`` and ``graphs_mask``, True where real.
        options: A ``poptorch.Options``: how many mini-batches make up a combined batch.
        kwargs: Arguments of ``poptorch.DataLoader`` such as ``shuffle`` or ``num_workers``.
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
                f"'cluster_data' needs to be a partitioned graph (got {type(cluster_data).__name__}). "
                f"Make one with 'partition(data, num_parts)'."
            )
        source = _Clusters(cluster_data)
        fixed_size_options = for_graph(fixed_size_options, cluster_data.data)
        super().__init__(
            source, fixed_size_options, batch_size, over_size_strategy, add_pad_masks, options, **kwargs
        )


class _Clusters(SubgraphSource):
    """Subgraphs of clusters, merged by PyG's ``ClusterLoader``."""

    def __init__(self, cluster_data: ClusterData) -> None:
        super().__init__(len(cluster_data))
        self._merge = ClusterLoader(cluster_data).collate_fn
        whole = copy.copy(cluster_data.data)
        # The partition keeps the edges to itself; their number is all that the schema needs.
        whole.edge_index = torch.zeros(2, cluster_data.partition.edge_perm.numel(), dtype=torch.long)
        self.schema = subgraph_schema(whole, self.sample([0]))

    def sample(self, items: list[int]) -> Data:
        return self._merge(items)
