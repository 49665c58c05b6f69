"""Batch normalisation that leaves padding out of its statistics."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


class MaskedBatchNorm(torch.nn.BatchNorm1d):
    """Batch normalisation over the rows that `mask` marks as real, with shapes that do not depend on the
    mask.

    On the real rows the result, the gradients and the running statistics are those of
    `torch.nn.BatchNorm1d` on `x[mask]`; its arguments and weights are the same, so that a state dict of one
    loads into the other. Padded rows are normalised with the same statistics. Call it as `norm(x,
    data.nodes_mask)` or, after pooling, `norm(x, data.graphs_mask)`; without a mask every row counts.
    """

    # Tensors, or None where the layer keeps no running statistics.
    running_mean: Any
    running_var: Any
    num_batches_tracked: Any

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """`x` [N, F] normalised per column; `mask` [N] is True where a row is real."""
        if mask is None:
            return super().forward(x)
        if x.dim() != 2 or mask.shape != x.shape[:1]:
            raise ValueError(
                f"MaskedBatchNorm needs x of shape [N, F] and mask of shape [N] "
                f"(got {list(x.shape)} and {list(mask.shape)})."
            )
        mean, variance = self.running_mean, self.running_var
        if self.training or mean is None:
            mean, variance = self._statistics(x, mask)
        out = (x - mean) * torch.rsqrt(variance + self.eps)
        return out * self.weight + self.bias if self.affine else out

    def _statistics(self, x: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and biased variance [F] of the real rows; moves the running statistics."""
        weight = mask.to(x.dtype).unsqueeze(1)
        num_real = weight.sum()
        count = num_real.clamp(min=1.0)
        mean = (x * weight).sum(dim=0) / count
        variance = ((x - mean).square() * weight).sum(dim=0) / count
        if self.training and self.track_running_stats:
            with torch.no_grad():
                # Fewer than two real rows have no variance: such a batch leaves the statistics alone.
                self._move(mean, variance * count / (count - 1.0).clamp(min=1.0), num_real > 1.0)
        return mean, variance

    def _move(self, mean: Tensor, unbiased_variance: Tensor, counts: Tensor) -> None:
        self.num_batches_tracked.add_(counts.to(self.num_batches_tracked.dtype))
        factor: Any = self.momentum
        if factor is None:
            factor = 1.0 / self.num_batches_tracked.clamp(min=1)
        factor = factor * counts.to(mean.dtype)
        self.running_mean.copy_((1.0 - factor) * self.running_mean + factor * mean)
        self.running_var.copy_((1.0 - factor) * self.running_var + factor * unbiased_variance)
