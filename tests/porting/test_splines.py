"""The B-spline kernel against what defines it."""

import pytest
import torch

from gnn_ipu_helpers.porting.static_layers import spline_basis, spline_weighting


def basis(pseudo, size, degree, is_open=True):
    sizes = torch.tensor(size)
    return spline_basis(pseudo, sizes, torch.full_like(sizes, is_open, dtype=torch.uint8), degree)


@pytest.mark.parametrize("degree", [1, 2, 3])
@pytest.mark.parametrize("is_open", [True, False])
def test_the_products_add_up_to_one_and_name_weights_of_the_kernel(degree, is_open):
    pseudo = torch.rand(50, 2, generator=torch.Generator().manual_seed(0)) * 0.999
    value, index = basis(pseudo, [5, 6], degree, is_open)

    assert value.shape == index.shape == (50, (degree + 1) ** 2)
    torch.testing.assert_close(value.sum(dim=1), torch.ones(50))
    assert index.min() >= 0
    assert index.max() < 30


def test_degree_one_interpolates_linearly_between_neighbouring_weights():
    table = torch.tensor([3.0, -1.0, 4.0, 1.0]).view(4, 1, 1)
    pseudo = torch.tensor([[0.0], [1 / 3], [0.5], [0.9]])
    out = spline_weighting(torch.ones(4, 1), table, *basis(pseudo, [4], 1))

    torch.testing.assert_close(out.view(-1), torch.tensor([3.0, -1.0, 1.5, 1.9]))


def test_a_closed_spline_meets_itself():
    start, index_of_start = basis(torch.tensor([[0.0]]), [4], 1, is_open=False)
    end, index_of_end = basis(torch.tensor([[0.999999]]), [4], 1, is_open=False)

    weight_at_start = dict(zip(index_of_start[0].tolist(), start[0].tolist()))
    weight_at_end = dict(zip(index_of_end[0].tolist(), end[0].tolist()))
    assert weight_at_start[0] == pytest.approx(1.0)
    assert weight_at_end[0] == pytest.approx(1.0, abs=1e-4)


@pytest.mark.parametrize("degree", [2, 3])
def test_higher_degrees_follow_the_recursion_of_b_splines(degree):
    def recursive(position, order, knot):
        if order == 0:
            return float(knot <= position < knot + 1)
        rising = (position - knot) / order * recursive(position, order - 1, knot)
        falling = (knot + order + 1 - position) / order * recursive(position, order - 1, knot + 1)
        return rising + falling

    value, _ = basis(torch.tensor([[0.37]]), [degree + 1], degree)
    expected = [recursive(0.37, degree, number - degree) for number in range(degree + 1)]
    torch.testing.assert_close(value[0], torch.tensor(expected))


def test_gradients_reach_features_and_weights():
    x = torch.randn(3, 2, requires_grad=True)
    weight = torch.randn(4, 2, 5, requires_grad=True)
    spline_weighting(x, weight, *basis(torch.rand(3, 1), [4], 1)).sum().backward()

    assert x.grad.abs().sum() > 0
    assert weight.grad.abs().sum() > 0


def test_an_unknown_degree_is_refused():
    with pytest.raises(ValueError, match=r"got 4"):
        basis(torch.rand(3, 1), [8], 4)
