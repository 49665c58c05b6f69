"""Point-cloud layers and functions of PyG, which otherwise need `pyg-lib`."""

from __future__ import annotations

import torch
import torch_geometric.nn as pyg
import torch_geometric.typing
from torch import Tensor

from .. import point_clouds
from .scope import replace_value, replaces_function, replaces_method

for _name in ("knn", "knn_graph", "radius", "radius_graph", "nearest", "fps", "voxel_grid"):
    replaces_function(getattr(pyg, _name, None))(getattr(point_clouds, _name))

for _flag in (
    "WITH_KNN",
    "WITH_FPS",
    "WITH_RADIUS",
    "WITH_NEAREST",
    "WITH_GRID_CLUSTER",
    "WITH_TORCH_CLUSTER",
):
    replace_value(torch_geometric.typing, _flag, True)


def _pair(value) -> tuple:
    return value if isinstance(value, tuple) else (value, value)


@replaces_method(pyg.DynamicEdgeConv)
def dynamic_edge_conv(self, x, batch=None) -> Tensor:
    """Edge convolution over the `k` nearest neighbours in feature space, [N, F_in] to [N, F_out]."""
    x, batch = _pair(x), _pair(batch)
    edge_index = point_clouds.knn(x[0], x[1], self.k, *batch).flip(0)
    return self.propagate(edge_index, x=x)


@replaces_method(pyg.GravNetConv)
def grav_net_conv(self, x, batch=None) -> Tensor:
    """Message passing over the `k` nearest neighbours in a learned space, [N, F_in] to [N, F_out]."""
    x, batch = _pair(x), _pair(batch)
    sources, targets = self.lin_s(x[0]), self.lin_s(x[1])
    edge_index = point_clouds.knn(sources, targets, self.k, *batch).flip(0)
    distance = (sources[edge_index[0]] - targets[edge_index[1]]).square().sum(dim=-1)
    out = self.propagate(
        edge_index,
        x=(self.lin_h(x[0]), None),
        edge_weight=torch.exp(-10.0 * distance),
        size=(sources.size(0), targets.size(0)),
    )
    return self.lin_out1(x[1]) + self.lin_out2(out)


@replaces_method(pyg.XConv)
def x_conv(self, x, pos: Tensor, batch=None) -> Tensor:
    """PointCNN's convolution over `kernel_size` neighbours of each point, [N, F_in] to [N, F_out]."""
    pos = pos.unsqueeze(-1) if pos.dim() == 1 else pos
    num_points, size = pos.size(0), self.kernel_size
    edges = point_clouds.knn(pos, pos, size * self.dilation, batch, batch)[:, :: self.dilation]
    relative = pos[edges[1]] - pos[edges[0]]
    features = self.mlp1(relative)
    if x is not None:
        x = x.unsqueeze(-1) if x.dim() == 1 else x
        features = torch.cat([features, x[edges[1]].view(num_points, size, self.in_channels)], dim=-1)
    transform = self.mlp2(relative.view(num_points, -1))
    return self.conv(features.transpose(1, 2).contiguous() @ transform)
