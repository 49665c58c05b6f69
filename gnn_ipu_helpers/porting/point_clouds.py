"""Neighbour search among points in plain torch, with sizes that do not depend on the points.

The calls and results are those of `torch_geometric.nn`, which needs `pyg-lib` for them, with one
difference: where fewer neighbours exist than asked for, the missing edges join the last points. In a fixed-
size batch those are padding. Where nothing is padded, `check` and the compiler refuse inputs on which
neighbours are missing; they look at the inputs of the first call only.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor


def knn(
    x: Tensor,
    y: Tensor,
    k: int,
    batch_x: Tensor | None = None,
    batch_y: Tensor | None = None,
    cosine: bool = False,
    num_workers: int = 1,
    batch_size: int | None = None,
) -> Tensor:
    """For each row of `y` [M, F] its `k` nearest rows of `x` [N, F]: indices [2, M * k], of `y` and of
    `x`."""
    return _closest(_distance(x, y, cosine, batch_x, batch_y), k)


def knn_graph(
    x: Tensor,
    k: int,
    batch: Tensor | None = None,
    loop: bool = False,
    flow: str = "source_to_target",
    cosine: bool = False,
    num_workers: int = 1,
    batch_size: int | None = None,
) -> Tensor:
    """Edges [2, N * k] from the `k` nearest rows of `x` [N, F] to each row."""
    distance = _distance(x, x, cosine, batch, batch)
    edges = _closest(distance if loop else _without_diagonal(distance), k)
    return edges.flip(0) if flow == "source_to_target" else edges


def radius(
    x: Tensor,
    y: Tensor,
    r: float,
    batch_x: Tensor | None = None,
    batch_y: Tensor | None = None,
    max_num_neighbors: int = 32,
    num_workers: int = 1,
    batch_size: int | None = None,
) -> Tensor:
    """For each row of `y` [M, F] the rows of `x` [N, F] closer than `r`, the nearest `max_num_neighbors`
    at most: indices [2, M * min(max_num_neighbors, N)], of `y` and of `x`."""
    return _within(_distance(x, y, False, batch_x, batch_y), r, max_num_neighbors)


def radius_graph(
    x: Tensor,
    r: float,
    batch: Tensor | None = None,
    loop: bool = False,
    max_num_neighbors: int = 32,
    flow: str = "source_to_target",
    num_workers: int = 1,
    batch_size: int | None = None,
) -> Tensor:
    """Edges [2, N * min(max_num_neighbors, N)] between the rows of `x` [N, F] closer than `r`."""
    distance = _distance(x, x, False, batch, batch)
    edges = _within(distance if loop else _without_diagonal(distance), r, max_num_neighbors)
    return edges.flip(0) if flow == "source_to_target" else edges


def nearest(x: Tensor, y: Tensor, batch_x: Tensor | None = None, batch_y: Tensor | None = None) -> Tensor:
    """For each row of `x` [N, F] the index of the nearest row of `y` [M, F]: [N]."""
    return _distance(y, x, False, batch_y, batch_x).argmin(dim=1)


def fps(
    x: Tensor,
    batch: Tensor | None = None,
    ratio: float = 0.5,
    random_start: bool = True,
    batch_size: int | None = None,
) -> Tensor:
    """Indices [ceil(ratio * N)] of rows of `x` [N, F], each the farthest from those before it.

    With a `batch` the number of points of each graph would depend on data: then this raises.
    """
    if batch is not None:
        raise ValueError(
            "fps with a `batch` keeps as many points of each graph as the data say. Sample each cloud on its "
            "own with batch=None."
        )
    points = x.flatten(1)
    count = math.ceil(ratio * points.size(0))
    start = torch.randint(points.size(0), (1,), device=x.device) if random_start else _first(points)
    chosen, distance = [start], torch.full_like(points[:, 0], math.inf)
    for _ in range(count - 1):
        distance = torch.minimum(distance, (points - points[chosen[-1]]).square().sum(dim=1))
        chosen.append(distance.argmax(dim=0, keepdim=True))
    return torch.cat(chosen)


def voxel_grid(
    pos: Tensor, size: Any, batch: Tensor | None = None, start: Any = None, end: Any = None
) -> Tensor:
    """The number of the voxel, of edge lengths `size`, that each row of `pos` [N, D] lies in: [N]."""
    pos = pos.unsqueeze(-1) if pos.dim() == 1 else pos
    size = torch.as_tensor(size, dtype=pos.dtype, device=pos.device).expand(pos.size(1))
    lowest = pos.amin(dim=0) if start is None else torch.as_tensor(start, dtype=pos.dtype, device=pos.device)
    highest = pos.amax(dim=0) if end is None else torch.as_tensor(end, dtype=pos.dtype, device=pos.device)
    cells = ((pos - lowest) / size).long()
    counts = ((highest - lowest) / size).long().expand(pos.size(1)) + 1
    strides = torch.cumprod(counts, 0)
    voxel = (cells * torch.cat([torch.ones_like(strides[:1]), strides[:-1]])).sum(dim=1)
    return voxel if batch is None else voxel + batch * strides[-1]


def _first(points: Tensor) -> Tensor:
    return torch.zeros(1, dtype=torch.long, device=points.device)


def _distance(x: Tensor, y: Tensor, cosine: bool, batch_x: Tensor | None, batch_y: Tensor | None) -> Tensor:
    """Distances [M, N] from `y` to `x`, infinite between points of two graphs."""
    x, y = x.detach().flatten(1), y.detach().flatten(1)
    if cosine:
        x, y = torch.nn.functional.normalize(x, dim=1), torch.nn.functional.normalize(y, dim=1)
        distance = 1.0 - y @ x.t()
    else:
        distance = torch.cdist(y, x, compute_mode="donot_use_mm_for_euclid_dist")
    if batch_x is None or batch_y is None:
        return distance
    return distance.masked_fill(batch_y.unsqueeze(1) != batch_x.unsqueeze(0), math.inf)


def _without_diagonal(distance: Tensor) -> Tensor:
    return distance.masked_fill(
        torch.eye(distance.size(0), dtype=torch.bool, device=distance.device), math.inf
    )


def _closest(distance: Tensor, k: int) -> Tensor:
    """Pairs [2, M * k] of row and column of the `k` smallest distances [M, N] of each row; the last row
    and the last column where there is none that is finite."""
    num_rows, num_columns = distance.shape
    found = distance.topk(min(k, num_columns), dim=1, largest=False)
    missing = (0, k - found.indices.size(1))
    columns = torch.nn.functional.pad(found.indices, missing)
    exists = torch.nn.functional.pad(torch.isfinite(found.values), missing)
    rows = torch.arange(num_rows, device=distance.device).unsqueeze(1).expand_as(columns)
    rows = torch.where(exists, rows, num_rows - 1)
    columns = torch.where(exists, columns, num_columns - 1)
    return torch.stack([rows.reshape(-1), columns.reshape(-1)])


def _within(distance: Tensor, r: float, max_num_neighbors: int) -> Tensor:
    return _closest(distance.masked_fill(distance > r, math.inf), min(max_num_neighbors, distance.size(1)))
