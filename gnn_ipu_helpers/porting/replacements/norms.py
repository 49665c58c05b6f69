"""Normalisation per type without asking which types occur."""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.nn import HeteroBatchNorm
from torch_geometric.utils import degree

from .scope import replaces_method


@replaces_method(HeteroBatchNorm)
def hetero_batch_norm(self, x: Tensor, type_vec: Tensor) -> Tensor:
    """Running statistics move only for types that occur: chosen by mask, where PyG lists those types."""
    if not self.training and self.track_running_stats:
        mean, variance = self.running_mean, self.running_var
    else:
        with torch.no_grad():
            mean, variance = self.mean_var(x, type_vec, dim_size=self.num_types)
    if self.training and self.track_running_stats:
        with torch.no_grad():
            _update_running(self, mean, variance, degree(type_vec, self.num_types) > 0)
    out = (x - mean[type_vec]) / variance.clamp(self.eps).sqrt()[type_vec]
    return out * self.weight[type_vec] + self.bias[type_vec] if self.affine else out


def _update_running(self, mean: Tensor, variance: Tensor, occurs: Tensor) -> None:
    factor = self.momentum
    if factor is None:
        self.num_batches_tracked.add_(1)
        factor = 1.0 / self.num_batches_tracked
    factor = torch.where(occurs, factor, 0.0).unsqueeze(1)
    self.running_mean.copy_(torch.lerp(self.running_mean, mean, factor.to(mean.dtype)))
    self.running_var.copy_(torch.lerp(self.running_var, variance, factor.to(variance.dtype)))
