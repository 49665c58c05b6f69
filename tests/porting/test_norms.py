"""Masked batch normalisation is batch normalisation of the real rows."""

import pytest
import torch

from gnn_ipu_helpers.porting import MaskedBatchNorm, check, static_compile

SETTINGS = [
    {},
    {"momentum": None},
    {"affine": False},
    {"track_running_stats": False},
    {"eps": 0.1, "momentum": 0.3},
]
mask = torch.tensor([True, True, False, True, True, False, True])


def rows(seed):
    return torch.randn(7, 4, generator=torch.Generator().manual_seed(seed)) * 3 + 1


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_results_gradients_and_running_statistics_equal_batch_norm_on_the_real_rows(settings):
    plain, masked = torch.nn.BatchNorm1d(4, **settings), MaskedBatchNorm(4, **settings)
    for seed in range(3):
        x, y = rows(seed).requires_grad_(), rows(seed).requires_grad_()
        expected, got = plain(x[mask]), masked(y, mask)[mask]
        torch.testing.assert_close(got, expected)
        expected.pow(3).sum().backward()
        got.pow(3).sum().backward()
        torch.testing.assert_close(y.grad, x.grad, rtol=1e-4, atol=1e-4)

    torch.testing.assert_close(masked.state_dict(), plain.state_dict())
    torch.testing.assert_close(masked.eval()(rows(9), mask)[mask], plain.eval()(rows(9)[mask]))


def test_values_in_padded_rows_change_nothing():
    norm = MaskedBatchNorm(4, track_running_stats=False)
    x = rows(0)
    polluted = torch.where(mask.unsqueeze(1), x, 1e6)

    torch.testing.assert_close(norm(polluted, mask)[mask], norm(x, mask)[mask])


def test_without_a_mask_it_is_batch_norm():
    torch.testing.assert_close(MaskedBatchNorm(4)(rows(0)), torch.nn.BatchNorm1d(4)(rows(0)))


def test_a_batch_without_a_real_row_gives_finite_numbers():
    out = MaskedBatchNorm(4)(rows(0), torch.zeros(7, dtype=torch.bool))
    assert torch.isfinite(out).all()


def test_it_is_static_and_compiles_to_the_same():
    norm, twin = MaskedBatchNorm(4), MaskedBatchNorm(4)
    assert check(norm.eval(), rows(0), mask).ok
    compiled = static_compile(twin.train(), "aot_eager")
    norm.train()
    for seed in range(2):
        torch.testing.assert_close(compiled(rows(seed), mask), norm(rows(seed), mask))
    torch.testing.assert_close(twin.state_dict(), norm.state_dict())


def test_a_wrong_shape_is_named():
    with pytest.raises(ValueError, match=r"\[7, 4\] and \[3\]"):
        MaskedBatchNorm(4)(rows(0), mask[:3])


@pytest.mark.parametrize("momentum", [0.1, None])
@pytest.mark.parametrize("num_real", [0, 1])
def test_a_batch_with_too_few_real_rows_leaves_the_statistics_alone(num_real, momentum):
    norm = MaskedBatchNorm(4, momentum=momentum)
    norm(rows(0), mask)
    before = {name: value.clone() for name, value in norm.state_dict().items()}
    assert norm(rows(1), torch.arange(7) < num_real).isfinite().all()
    torch.testing.assert_close(norm.state_dict(), before)
