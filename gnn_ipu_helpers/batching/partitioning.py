"""METIS partitions of a graph without a compiler: PyG's `ClusterData` computed by `pymetis`."""

from __future__ import annotations

import contextlib
import os
from numbers import Integral
from typing import Any

import numpy as np
import torch
import torch_geometric.loader
from torch_geometric.data import Data
from torch_geometric.loader.cluster import Partition
from torch_geometric.utils import remove_self_loops, to_undirected

from .sampling import check_range

# METIS breaks ties at random; a fixed seed makes the partition a function of the graph.
_METIS_SEED = 0


def partition(
    data: Data,
    num_parts: int,
    recursive: bool = False,
    save_dir: str | os.PathLike | None = None,
    keep_inter_cluster_edges: bool = False,
    log: bool = False,
    **kwargs: Any,
) -> torch_geometric.loader.ClusterData:
    """Splits a graph into clusters with few edges between them, for a cluster loader.

    The same graph always gives the same clusters. METIS works on undirected graphs without self-loops: for
    the partition alone, missing reverse edges are added and self-loops left out; the clusters keep the edges
    as given.

    Args:
        data: one homogeneous graph with an `edge_index` `[2, num_edges]`.
        num_parts: how many clusters.
        recursive: bisect again and again instead of splitting into all parts at once.
        save_dir: where to keep the partition, so that the next call reads it.
        keep_inter_cluster_edges: whether `clusters[i]` keeps its edges to other clusters.
        log: whether to say on the standard error stream that METIS is at work.
        kwargs: further arguments of PyG's `ClusterData` such as `filename`.

    Returns:
        PyG's `ClusterData`: `clusters[i]` is a `Data`, `clusters.partition` holds the permutations.
    """
    if not isinstance(data, Data):
        raise TypeError(f"'partition' needs one homogeneous 'Data' (got '{type(data).__name__}').")
    if data.edge_index is None:
        raise ValueError("The graph has no 'edge_index' to partition. Give it one, of shape [2, num_edges].")
    if not isinstance(num_parts, Integral) or not 1 <= num_parts <= data.num_nodes:
        raise ValueError(
            f"'num_parts' needs to be a whole number between 1 and the number of nodes, {data.num_nodes} "
            f"(got {num_parts})."
        )
    check_range(data.edge_index, data.num_nodes, "A node in 'edge_index'")
    if save_dir is not None:
        os.makedirs(save_dir, exist_ok=True)
    with _saved_partitions_can_be_read():
        return ClusterData(
            data,
            num_parts,
            recursive=recursive,
            save_dir=save_dir,
            keep_inter_cluster_edges=keep_inter_cluster_edges,
            log=log,
            **kwargs,
        )


class ClusterData(torch_geometric.loader.ClusterData):
    """PyG's `ClusterData`, whose METIS comes from `pymetis`."""

    def _metis(self, edge_index: torch.Tensor, num_nodes: int) -> torch.Tensor:
        try:
            import pymetis
        except ImportError:
            return self._metis_of_pyg(edge_index, num_nodes)
        starts, neighbours = _undirected_csr(edge_index, num_nodes)
        graph: dict[str, Any]
        if hasattr(pymetis, "CSRAdjacency"):
            graph = {"adjacency": pymetis.CSRAdjacency(starts, neighbours)}
        else:  # before pymetis 2025
            graph = {"xadj": starts, "adjncy": neighbours}
        options = pymetis.Options(seed=_METIS_SEED)
        _, cluster = pymetis.part_graph(self.num_parts, recursive=self.recursive, options=options, **graph)
        return torch.as_tensor(cluster, dtype=torch.long).to(edge_index.device)

    def _metis_of_pyg(self, edge_index: torch.Tensor, num_nodes: int) -> torch.Tensor:
        try:
            return super()._metis(edge_index, num_nodes)
        except ImportError as error:
            raise ImportError(
                "'partition' needs METIS: install 'pymetis' ('pip install pymetis'; 'pyg-lib' serves too)."
            ) from error

    def _permute_data(self, data: Data, saved: Partition) -> Data:
        if saved.node_perm.numel() != data.num_nodes or saved.edge_perm.numel() != data.num_edges:
            raise ValueError(
                f"The partition saved in 'save_dir' is of another graph, of {saved.node_perm.numel()} nodes "
                f"and {saved.edge_perm.numel()} edges; this one has {data.num_nodes} and {data.num_edges}. "
                "Remove the file or choose another 'save_dir'."
            )
        return super()._permute_data(data, saved)


def _saved_partitions_can_be_read() -> contextlib.AbstractContextManager:
    # Newer versions of torch only read back the classes that they are told of; older ones have no such list.
    if hasattr(torch.serialization, "safe_globals"):
        return torch.serialization.safe_globals([Partition])
    return contextlib.nullcontext()


def _undirected_csr(edge_index: torch.Tensor, num_nodes: int) -> tuple[np.ndarray, np.ndarray]:
    edge_index, _ = remove_self_loops(edge_index.cpu())
    row, col = to_undirected(edge_index, num_nodes=num_nodes)
    ends = torch.bincount(row, minlength=num_nodes).cumsum(0)
    return torch.cat([ends.new_zeros(1), ends]).numpy(), col.numpy()
