"""The loss is found as PopTorch finds it, or an error says how to mark it."""

import pytest
import torch
import torch.nn.functional as F

from gnn_ipu_helpers import poptorch_cpu as poptorch

from .models import classified


class _Model(torch.nn.Module):
    """A linear layer whose outputs go through a function that the test gives."""

    def __init__(self, outputs):
        super().__init__()
        self.linear = torch.nn.Linear(5, 3)
        self.outputs = outputs

    def forward(self, x, y):
        return self.outputs(self.linear(x), y)


def _gradient_sign_of(outputs):
    """Train one step, and return by how much the bias moved."""
    model = _Model(outputs)
    before = model.linear.bias.detach().clone()
    trained = poptorch.trainingModel(model, optimizer=torch.optim.SGD(model.parameters(), lr=1.0))
    trained(*classified(4))
    return before - model.linear.bias.detach()


def test_result_of_a_torch_loss_among_other_scalars_is_the_loss():
    moved = _gradient_sign_of(lambda out, y: (out.mean(), F.mse_loss(out, out.detach() - 1), out.max()))
    torch.testing.assert_close(moved, torch.full((3,), 2 / 3))


def test_scalar_without_gradient_is_not_mistaken_for_the_loss():
    moved = _gradient_sign_of(
        lambda out, y: ((out.argmax(1) == y).float().mean(), F.l1_loss(out, out.detach() - 1))
    )
    torch.testing.assert_close(moved, torch.full((3,), 1 / 3))


def test_loss_of_torch_that_leads_into_a_marked_one_is_a_plain_operation():
    def outputs(out, y):
        return poptorch.identity_loss(F.mse_loss(out, out.detach() - 1) * 3, reduction="none")

    torch.testing.assert_close(_gradient_sign_of(outputs), torch.full((3,), 2.0))


def test_elements_of_an_unreduced_loss_all_count():
    """A mask applied after the loss function, and not marked, has no part in training."""
    mask = torch.tensor([True, True, False, False])

    def outputs(out, y):
        return (F.mse_loss(out, out.detach() - 1, reduction="none")[:, 0] * mask).sum() / mask.sum()

    torch.testing.assert_close(_gradient_sign_of(outputs), torch.full((3,), 8.0))


def test_what_is_done_to_the_last_loss_afterwards_has_no_part_in_training(caplog):
    moved = _gradient_sign_of(lambda out, y: F.mse_loss(out, out.detach() - 1) / 2)
    torch.testing.assert_close(moved, torch.full((3,), 2 / 3))
    assert "mse_loss" in caplog.text
    assert "identity_loss(loss, reduction='none')" in caplog.text


@pytest.mark.parametrize(
    "outputs",
    [
        lambda out, y: F.cross_entropy(out, y),
        lambda out, y: (out, F.cross_entropy(out, y).detach()),
        lambda out, y: F.cross_entropy(out, y).view(1),
    ],
)
def test_loss_returned_as_it_is_gives_no_warning(outputs, caplog):
    _gradient_sign_of(outputs)
    assert "has no part in training" not in caplog.text


def test_term_that_would_be_left_out_of_training_is_refused():
    def outputs(out, y):
        loss = F.cross_entropy(out, y)
        return loss + 10 * out.square().mean(), loss

    with pytest.raises(
        poptorch.Error, match=r"return loss \+ 10[\s\S]*left out of training[\s\S]*identity_loss"
    ):
        _gradient_sign_of(outputs)


def test_marked_tensor_need_not_be_returned():
    def outputs(out, y):
        poptorch.identity_loss(out, reduction="mean")
        return out

    torch.testing.assert_close(_gradient_sign_of(outputs), torch.full((3,), 1 / 3))


def test_mark_upon_marks_is_the_loss():
    def outputs(out, y):
        parts = [poptorch.identity_loss(out, reduction="sum") for _ in range(2)]
        return poptorch.identity_loss(parts[0] + parts[1], reduction="none")

    torch.testing.assert_close(_gradient_sign_of(outputs), torch.full((3,), 8.0))


def test_loss_marked_without_reduction_counts_every_element():
    moved = _gradient_sign_of(lambda out, y: poptorch.identity_loss(out, reduction="none"))
    torch.testing.assert_close(moved, torch.full((3,), 4.0))


@pytest.mark.parametrize(
    ("reduction", "expected"), [("sum", 6.0), (0, 6.0), ("mean", 2.0), (1, 2.0), ("none", None), (2, None)]
)
def test_identity_loss_reduces(reduction, expected):
    x = torch.tensor([1.0, 2.0, 3.0])
    result = poptorch.identity_loss(x, reduction)
    assert torch.equal(result, x) if expected is None else result.item() == expected


def test_identity_loss_refuses_another_reduction():
    with pytest.raises(ValueError, match="'sum' .0., 'mean' .1. or 'none' .2. .got 'average'"):
        poptorch.identity_loss(torch.ones(2), "average")


def test_training_without_a_loss_says_how_to_return_one():
    with pytest.raises(poptorch.Error, match=r"no loss[\s\S]*F\.cross_entropy[\s\S]*identity_loss"):
        _gradient_sign_of(lambda out, y: out)


@pytest.mark.parametrize("outputs", [lambda out, y: out.sum(), lambda out, y: (out.mean(), out.sum())])
def test_scalar_that_no_loss_function_made_is_no_loss(outputs):
    with pytest.raises(poptorch.Error, match="no loss"):
        _gradient_sign_of(outputs)


@pytest.mark.parametrize(
    "outputs",
    [
        lambda out, y: (F.cross_entropy(out, y), F.mse_loss(out, out.detach() - 1)),
        lambda out, y: F.cross_entropy(out, y) + F.mse_loss(out, out.detach() - 1),
        lambda out, y: (F.cross_entropy(out, y), poptorch.identity_loss(out, reduction="sum")),
        lambda out, y: (poptorch.identity_loss(out, "sum"), poptorch.identity_loss(out, "mean")),
    ],
)
def test_several_losses_of_which_none_leads_into_another_are_refused(outputs):
    with pytest.raises(poptorch.Error, match=r"several losses[\s\S]*line \d+ and [\s\S]*mark the sum"):
        _gradient_sign_of(outputs)


def test_inference_needs_no_loss():
    model = _Model(lambda out, y: out)
    assert poptorch.inferenceModel(model)(*classified(4)).shape == (4, 3)


def test_loss_that_depends_on_no_parameter_trains_nothing_and_says_so(caplog):
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(2, 1)

        def forward(self, x):
            return poptorch.identity_loss(x**2, reduction="sum")

    model = Model()
    before = model.linear.weight.detach().clone()
    assert poptorch.trainingModel(model)(torch.ones(2)) == 2
    assert torch.equal(model.linear.weight, before)
    assert "depends on no parameter" in caplog.text
