"""Aggregations that assert a sorted index or count with `bincount`."""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.nn.aggr import Aggregation, QuantileAggregation
from torch_geometric.utils import degree, to_dense_batch

from .scope import replaces_method


@replaces_method(Aggregation, "to_dense_batch")
def aggregation_to_dense_batch(
    self, x, index=None, ptr=None, dim_size=None, dim=-2, fill_value=0.0, max_num_elements=None
) -> tuple[Tensor, Tensor]:
    """Rows [N, F] grouped as [dim_size, max_num_elements, F]. Sorts instead of asserting a sorted index."""
    self.assert_index_present(index)
    self.assert_two_dimensional_input(x, dim)
    index, order = torch.sort(index, stable=True)
    return to_dense_batch(
        x[order], index, batch_size=dim_size, fill_value=fill_value, max_num_nodes=max_num_elements
    )


@replaces_method(QuantileAggregation)
def quantile_aggregation(self, x: Tensor, index=None, ptr=None, dim_size=None, dim: int = -2) -> Tensor:
    """Quantiles per group from one sort by (group, value); counts come from a scatter of fixed size."""
    self.assert_index_present(index)
    dim = dim % x.dim()
    rows = x.movedim(dim, 0)
    flat = rows.reshape(rows.size(0), -1)
    by_value = torch.sort(flat, dim=0)
    groups = torch.sort(index[by_value.indices], dim=0, stable=True)
    ordered = by_value.values.gather(0, groups.indices)
    count = degree(index, dim_size, dtype=torch.long)
    start = torch.cumsum(count, 0) - count
    position = (self.q * (count - 1) + start.clamp(max=flat.size(0) - 1)).t().reshape(-1)
    value = _interpolated(ordered, position, self.interpolation)
    num_quantiles = self.q.numel()
    empty = (count == 0).unsqueeze(1).expand(-1, num_quantiles).reshape(-1, 1)
    value = value.masked_fill(empty, self.fill_value)
    out = value.view(-1, num_quantiles, *rows.shape[1:]).movedim(0, dim)
    return out.flatten(dim + 1, dim + 2) if dim + 2 <= out.dim() - 1 else out.flatten(dim)


def _interpolated(ordered: Tensor, position: Tensor, how: str) -> Tensor:
    """Rows of `ordered` [N, F] at the fractional `position` [Q]: [Q, F]."""
    if how == "nearest":
        return ordered[position.round().long()]
    lower, upper = ordered[position.floor().long()], ordered[position.ceil().long()]
    if how == "lower":
        return lower
    if how == "higher":
        return upper
    part = 0.5 if how == "midpoint" else position.frac().unsqueeze(1)
    return lower + (upper - lower) * part
