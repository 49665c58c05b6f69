"""Loaders of sampled neighbourhoods: PyG's own without ``pyg-lib``, and one of fixed-size batches."""

from __future__ import annotations

from typing import Any

import torch
import torch_geometric.typing
from torch_geometric.data import Data, HeteroData
from torch_geometric.loader import NeighborLoader
from torch_geometric.sampler.base import SubgraphType

from .sampling import FanOuts, VectorisedNeighborSampler, check_range


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
    _check_input_nodes(data, input_nodes)
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


def _check_input_nodes(data: Data | HeteroData, input_nodes: Any) -> None:
    """Raises if ``input_nodes`` cannot be the seeds of a neighbour loader over ``data``."""
    nodes, num_nodes, where = input_nodes, None, ""
    if isinstance(data, HeteroData):
        node_type, nodes = _split_hetero_input(data, input_nodes)
        num_nodes, where = data[node_type].num_nodes, f" of type '{node_type}'"
    elif isinstance(data, Data):
        num_nodes = data.num_nodes
    else:
        raise TypeError(
            f"Neighbours are sampled from one 'Data' or 'HeteroData' (got '{type(data).__name__}')."
        )
    if nodes is None:
        return
    if not isinstance(nodes, torch.Tensor):
        nodes = _as_index_tensor(nodes)
    if nodes.dtype == torch.bool and nodes.shape != (num_nodes,):
        raise ValueError(
            f"A mask as 'input_nodes' needs one entry for each of the {num_nodes} nodes{where} "
            f"(got shape {list(nodes.shape)})."
        )
    if nodes.dtype not in (torch.bool, torch.int64, torch.int32) or nodes.dim() != 1:
        raise TypeError(
            f"'input_nodes' needs to be a mask or node indices in one dimension "
            f"(got {nodes.dtype} of shape {list(nodes.shape)})."
        )
    if nodes.numel() == 0 or (nodes.dtype == torch.bool and not bool(nodes.any())):
        raise ValueError(f"'input_nodes' selects no node{where}: nothing to sample. Select at least one.")
    if nodes.dtype != torch.bool:
        check_range(nodes, num_nodes, f"'input_nodes'{where}")


def _split_hetero_input(data: HeteroData, input_nodes: Any) -> tuple[str, Any]:
    pair = (input_nodes, None) if isinstance(input_nodes, str) else input_nodes
    if not isinstance(pair, (tuple, list)) or len(pair) != 2 or pair[0] not in data.node_types:
        raise ValueError(
            f"'input_nodes' of a heterogeneous graph needs to be a node type or (type, indices or mask), "
            f"with a type out of {data.node_types} (got {_short(input_nodes)})."
        )
    return pair[0], pair[1]


def _as_index_tensor(nodes: Any) -> torch.Tensor:
    try:
        return torch.tensor(nodes, dtype=torch.long)
    except (TypeError, ValueError, RuntimeError) as error:
        raise TypeError(
            f"'input_nodes' needs to be a mask or node indices in one dimension (got {_short(nodes)})."
        ) from error


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _pyg_lib_can_sample(subgraph_type: SubgraphType) -> bool:
    return torch_geometric.typing.WITH_PYG_LIB and subgraph_type != SubgraphType.induced
