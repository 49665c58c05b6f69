"""Checks on the seeds of a neighbour loader."""

from __future__ import annotations

from typing import Any

import torch
from torch_geometric.data import Data, HeteroData

from .sampling import check_range


def check_input_nodes(data: Data | HeteroData, input_nodes: Any) -> None:
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
