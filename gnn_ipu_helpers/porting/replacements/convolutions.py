"""Convolutions that drop or count self-loops: keep every edge and give the dropped ones no weight."""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.nn import ChebConv, ClusterGCNConv, GPSConv
from torch_geometric.utils import scatter

from .scope import replaces_method


def _with_own_loops(edge_index: Tensor, num_nodes: int) -> Tensor:
    """`edge_index` [2, E] followed by one self-loop per node: [2, E + N]."""
    nodes = torch.arange(num_nodes, device=edge_index.device)
    return torch.cat([edge_index, nodes.expand(2, -1)], dim=1)


@replaces_method(ClusterGCNConv)
def cluster_gcn_conv(self, x: Tensor, edge_index: Tensor) -> Tensor:
    """Self-loops of the graph count as absent where the layer adds its own."""
    num_nodes = x.size(self.node_dim)
    is_loop = edge_index[0] == edge_index[1]
    if self.add_self_loops:
        present = torch.cat([~is_loop, is_loop.new_ones(num_nodes)])
        edge_index = _with_own_loops(edge_index, num_nodes)
    else:
        present = torch.ones_like(is_loop)
    present = present.to(x.dtype)
    row, col = edge_index[0], edge_index[1]
    inverse = 1.0 / scatter(present, col, dim_size=num_nodes, reduce="sum").clamp(min=1.0)
    weight = inverse[col] + (row == col).to(x.dtype) * self.diag_lambda * inverse[row]
    out = self.propagate(edge_index, x=x, edge_weight=present * weight)
    return self.lin_out(out) + self.lin_root(x)


@replaces_method(ChebConv, "__norm__")
def cheb_norm(
    self, edge_index, num_nodes, edge_weight, normalization, lambda_max=None, dtype=None, batch=None
) -> tuple[Tensor, Tensor]:
    """`(edge_index, weight)` of the scaled Laplacian, [2, E + N] and [E + N]; the graph's own loops
    weigh nothing."""
    row, col = edge_index[0], edge_index[1]
    weight = torch.ones_like(row, dtype=dtype) if edge_weight is None else edge_weight
    weight = torch.where(row == col, torch.zeros_like(weight), weight)
    degrees = scatter(weight, row, dim_size=num_nodes, reduce="sum")
    diagonal = torch.ones_like(degrees)
    if normalization is None:
        diagonal = degrees
    elif normalization == "sym":
        root = torch.where(degrees > 0, degrees.clamp(min=1e-38).rsqrt(), torch.zeros_like(degrees))
        weight = root[row] * weight * root[col]
    else:
        inverse = torch.where(degrees > 0, 1.0 / degrees, torch.zeros_like(degrees))
        weight = inverse[row] * weight
    laplacian = torch.cat([-weight, diagonal])
    edge_index = _with_own_loops(edge_index, num_nodes)
    if lambda_max is None:
        lambda_max = 2.0 * laplacian.max()
    elif not isinstance(lambda_max, Tensor):
        lambda_max = torch.tensor(lambda_max, dtype=dtype, device=edge_index.device)
    if batch is not None and lambda_max.numel() > 1:
        lambda_max = lambda_max[batch[edge_index[0]]]
    scaled = 2.0 * laplacian / lambda_max
    scaled = torch.where(torch.isinf(scaled), torch.zeros_like(scaled), scaled)
    return edge_index, scaled - torch.cat([torch.zeros_like(weight), torch.ones_like(diagonal)])


_gps_forward = GPSConv.forward


@replaces_method(GPSConv)
def gps_conv(self, x: Tensor, edge_index: Tensor, batch: Tensor = None, **kwargs) -> Tensor:
    """Attention within each graph is attention over all nodes with every pair of two graphs masked out."""
    if batch is None or not isinstance(self.attn, torch.nn.MultiheadAttention):
        return _gps_forward(self, x, edge_index, batch, **kwargs)

    def normalised(norm, h):
        if norm is None:
            return h
        return norm(h, batch=batch) if self.norm_with_batch else norm(h)

    def dropped(h):
        return torch.nn.functional.dropout(h, self.dropout, self.training)

    parts = []
    if self.conv is not None:
        parts.append(normalised(self.norm1, dropped(self.conv(x, edge_index, **kwargs)) + x))
    other_graph = batch.unsqueeze(0) != batch.unsqueeze(1)
    rows = x.unsqueeze(0)
    attended, _ = self.attn(rows, rows, rows, attn_mask=other_graph, need_weights=False)
    parts.append(normalised(self.norm2, dropped(attended.squeeze(0)) + x))
    out = sum(parts)
    return normalised(self.norm3, out + self.mlp(out))
