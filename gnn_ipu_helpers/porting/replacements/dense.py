"""Dense adjacency matrices without asking whether an edge falls outside."""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.utils import scatter, to_dense_adj

from .scope import replaces_function

_to_dense_adj = to_dense_adj


@replaces_function(to_dense_adj)
def static_to_dense_adj(
    edge_index, batch=None, edge_attr=None, max_num_nodes=None, batch_size=None
) -> Tensor:
    """Adjacency matrices [batch_size, max_num_nodes, max_num_nodes, *] of the graphs in a batch; edges
    of nodes beyond `max_num_nodes` count nothing."""
    if batch is None or batch_size is None or max_num_nodes is None:
        return _to_dense_adj(edge_index, batch, edge_attr, max_num_nodes, batch_size)
    counts = scatter(torch.ones_like(batch), batch, dim_size=batch_size, reduce="sum")
    first = torch.cumsum(counts, 0) - counts
    graph = batch[edge_index[0]]
    row, col = edge_index[0] - first[graph], edge_index[1] - first[batch[edge_index[1]]]
    inside = (row < max_num_nodes) & (col < max_num_nodes)
    if edge_attr is None:
        edge_attr = torch.ones(edge_index.size(1), device=edge_index.device)
    place = (graph * max_num_nodes + row) * max_num_nodes + col
    total = batch_size * max_num_nodes * max_num_nodes
    place = torch.where(inside, place, total)
    dense = scatter(edge_attr, place, dim_size=total + 1, reduce="sum")[:total]
    return dense.view(batch_size, max_num_nodes, max_num_nodes, *edge_attr.shape[1:])
