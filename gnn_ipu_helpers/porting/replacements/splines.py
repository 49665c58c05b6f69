"""B-spline kernels in plain torch, for `SplineConv`, which otherwise needs `pyg-lib`."""

from __future__ import annotations

import itertools

import torch
from torch import Tensor
from torch_geometric.nn.conv import spline_conv

from .scope import replace_value


def spline_basis(
    pseudo: Tensor, kernel_size: Tensor, is_open_spline: Tensor, degree: int
) -> tuple[Tensor, Tensor]:
    """`(basis, index)`, both [E, (degree + 1) ** D]: the B-spline products that are not zero at `pseudo`
    [E, D] in [0, 1], and the number of the kernel's weight that each belongs to."""
    is_open = is_open_spline.to(torch.bool)
    scaled = pseudo * (kernel_size - degree * is_open.long()).to(pseudo.dtype)
    left = scaled.detach().floor()
    fraction = scaled - left
    stride = torch.cumprod(kernel_size, 0) // kernel_size
    basis, index = [], []
    for offsets in itertools.product(range(degree + 1), repeat=pseudo.size(1)):
        steps = torch.tensor(offsets, device=pseudo.device)
        parts = [_bspline(fraction[:, d], degree, offset) for d, offset in enumerate(offsets)]
        basis.append(torch.stack(parts, dim=-1).prod(dim=-1))
        cell = torch.remainder(left.long() + steps, kernel_size)
        index.append((cell * stride).sum(dim=-1))
    return torch.stack(basis, dim=-1), torch.stack(index, dim=-1)


def _bspline(t: Tensor, degree: int, offset: int) -> Tensor:
    """The `offset`-th of the `degree + 1` uniform B-splines that are not zero at `t` in [0, 1)."""
    if degree == 1:
        return (1.0 - t, t)[offset]
    if degree == 2:
        return (0.5 * (1.0 - t) ** 2, 0.5 + t - t * t, 0.5 * t * t)[offset]
    if degree == 3:
        return (
            (1.0 - t) ** 3 / 6.0,
            (3.0 * t**3 - 6.0 * t**2 + 4.0) / 6.0,
            (-3.0 * t**3 + 3.0 * t**2 + 3.0 * t + 1.0) / 6.0,
            t**3 / 6.0,
        )[offset]
    raise ValueError(f"SplineConv's degree must be 1, 2 or 3 (got {degree}).")


def spline_weighting(x: Tensor, weight: Tensor, basis: Tensor, index: Tensor) -> Tensor:
    """`x` [E, F_in] through the kernel `weight` [K, F_in, F_out] blended by `basis` at `index`: [E,
    F_out]."""
    out = x.new_zeros(x.size(0), weight.size(2))
    for number in range(weight.size(0)):
        share = torch.where(index == number, basis, torch.zeros_like(basis)).sum(dim=-1, keepdim=True)
        out = out + share * (x @ weight[number])
    return out


replace_value(spline_conv, "spline_basis", spline_basis)
replace_value(spline_conv, "spline_weighting", spline_weighting)
