"""PopTorch's optimisers do what torch's do, and learning rates reach the device with ``setOptimizer``."""

import copy
import math

import pytest
import torch

from gnn_ipu_helpers import compile_count
from gnn_ipu_helpers import poptorch_cpu as poptorch

from .models import Classifier, classified
from .side_by_side import assert_same_weights, eager_step

PAIRS = {
    "SGD": ({"lr": 0.1}, {}),
    "SGD with momentum": ({"lr": 0.1, "momentum": 0.9, "weight_decay": 0.01, "nesterov": True}, {}),
    "Adam": ({}, {"loss_scaling": 1024.0, "accum_type": torch.float16}),
    "Adam with settings": ({"lr": 0.02, "betas": (0.8, 0.9), "weight_decay": 0.1}, {}),
    "AdamW": ({"lr": 0.02}, {"bias_correction": True}),
    "RMSprop": ({"lr": 0.02, "momentum": 0.5, "centered": True}, {"loss_scaling": 2.0}),
}


def _train(model, optimizer, steps=3):
    trained = poptorch.trainingModel(model, optimizer=optimizer)
    torch.manual_seed(1)
    for _ in range(steps):
        trained(*classified(8))
    return trained


def _train_eager(model, optimizer, steps=3):
    torch.manual_seed(1)
    for _ in range(steps):
        eager_step(model, optimizer, classified(8))


@pytest.mark.parametrize("name", PAIRS)
def test_optimiser_steps_like_torchs(name):
    settings, ipu_only = PAIRS[name]
    kind = name.split()[0]
    model, eager = (copy.deepcopy(Classifier()) for _ in range(2))
    eager.load_state_dict(model.state_dict())
    _train(model, getattr(poptorch.optim, kind)(model.parameters(), **settings, **ipu_only))
    _train_eager(eager, getattr(torch.optim, kind)(eager.parameters(), **settings))
    assert_same_weights(model, eager)


def test_adamw_without_bias_correction_takes_smaller_first_steps():
    weight = torch.nn.Parameter(torch.ones(1))
    optimizer = poptorch.optim.AdamW([weight], lr=0.1, weight_decay=0.0, bias_correction=False, eps=0.0)
    weight.grad = torch.ones(1)
    optimizer.step()
    moved = 0.1 * (1 - 0.9) / math.sqrt(1 - 0.999)
    torch.testing.assert_close(weight.detach(), torch.tensor([1 - moved]))


def test_lamb_scales_the_step_by_the_norms():
    weight = torch.nn.Parameter(torch.tensor([3.0, 4.0]))
    optimizer = poptorch.optim.LAMB([weight], lr=0.1, weight_decay=0.0, eps=0.0)
    weight.grad = torch.tensor([1.0, 1.0])
    optimizer.step()
    trust = 5 / math.sqrt(2)
    torch.testing.assert_close(weight.detach(), torch.tensor([3.0, 4.0]) - 0.1 * trust)


def test_lamb_limits_the_weight_norm():
    weight = torch.nn.Parameter(torch.tensor([3.0, 4.0]))
    optimizer = poptorch.optim.LAMB([weight], lr=0.1, weight_decay=0.0, eps=0.0, max_weight_norm=1.0)
    weight.grad = torch.tensor([1.0, 1.0])
    optimizer.step()
    torch.testing.assert_close(weight.detach(), torch.tensor([3.0, 4.0]) - 0.1 / math.sqrt(2))


def test_lamb_learns():
    model = Classifier()
    trained = poptorch.trainingModel(model, optimizer=poptorch.optim.LAMB(model.parameters(), lr=0.05))
    batch = classified(8)
    losses = [trained(*batch)[1].item() for _ in range(20)]
    assert losses[-1] < losses[0] / 1.2


def test_gradients_are_clipped_to_the_norm():
    model = Classifier()
    before = copy.deepcopy(model)
    _train(model, poptorch.optim.SGD(model.parameters(), lr=1.0, max_grad_norm=0.01), steps=1)
    moved = [new - old for new, old in zip(model.parameters(), before.parameters())]
    norm = torch.cat([tensor.flatten() for tensor in moved]).norm().item()
    assert norm == pytest.approx(0.01, rel=1e-3)


def test_rmsprop_steps_as_tensorflow_does_if_asked():
    weight = torch.nn.Parameter(torch.tensor([1.0, -2.0]))
    settings = {"lr": 0.1, "alpha": 0.9, "eps": 0.01, "momentum": 0.5}
    optimizer = poptorch.optim.RMSprop([weight], **settings, use_tf_variant=True)
    expected, square, speed = weight.detach().clone(), torch.ones(2), torch.zeros(2)
    for gradient in (torch.tensor([0.5, -1.0]), torch.tensor([2.0, 0.1])):
        weight.grad = gradient
        optimizer.step()
        square = 0.9 * square + 0.1 * gradient**2
        speed = 0.5 * speed + 0.1 * gradient / (square + 0.01).sqrt()
        expected = expected - speed
        torch.testing.assert_close(weight.detach(), expected)


def test_state_can_be_read_and_put_back():
    model = Classifier()
    optimizer = poptorch.optim.Adam(model.parameters())
    assert not optimizer.has_state()
    _train(model, optimizer)
    assert optimizer.has_state()
    other = poptorch.optim.Adam(model.parameters())
    other.set_state_dict(optimizer.get_state_dict())
    torch.testing.assert_close(other.state_dict()["state"], optimizer.state_dict()["state"])


def test_without_an_optimiser_it_is_sgd():
    model, eager = Classifier(), Classifier()
    eager.load_state_dict(model.state_dict())
    _train(model, None)
    _train_eager(eager, torch.optim.SGD(eager.parameters(), lr=0.01))
    assert_same_weights(model, eager)


def test_scheduled_rate_reaches_the_device_with_set_optimizer():
    model, eager = Classifier(), Classifier()
    eager.load_state_dict(model.state_dict())
    optimizer, eager_optimizer = (torch.optim.SGD(m.parameters(), lr=0.5) for m in (model, eager))
    schedulers = [torch.optim.lr_scheduler.StepLR(o, 1, gamma=0.5) for o in (optimizer, eager_optimizer)]
    trained = poptorch.trainingModel(model, optimizer=optimizer)
    for _ in range(3):
        batch = classified(8)
        trained(*batch)
        eager_step(eager, eager_optimizer, batch)
        for scheduler in schedulers:
            scheduler.step()
        trained.setOptimizer(optimizer)
    assert_same_weights(model, eager)
    assert compile_count(trained) == 1


def test_a_new_rate_of_the_same_optimiser_is_set_without_a_warning(caplog):
    model = Classifier()
    optimizer = poptorch.optim.SGD(model.parameters(), lr=0.5)
    trained = poptorch.trainingModel(model, optimizer=optimizer)
    trained(*classified(8))
    optimizer.param_groups[0]["lr"] = 0.1
    trained.setOptimizer(optimizer)
    assert not [record for record in caplog.records if record.name == "poptorch"]


def test_rate_changed_without_set_optimizer_does_not_reach_the_device(caplog):
    model, eager = Classifier(), Classifier()
    eager.load_state_dict(model.state_dict())
    optimizer, eager_optimizer = (torch.optim.SGD(m.parameters(), lr=0.5) for m in (model, eager))
    trained = poptorch.trainingModel(model, optimizer=optimizer)
    optimizer.param_groups[0]["lr"] = 0.0
    batch = classified(8)
    trained(*batch)
    eager_step(eager, eager_optimizer, batch)
    assert_same_weights(model, eager)
    assert optimizer.param_groups[0]["lr"] == 0.0
    assert "call setOptimizer(optimizer)" in caplog.text


def test_another_optimiser_of_the_kind_compiled_for_may_take_over():
    model = Classifier()
    trained = poptorch.trainingModel(model, optimizer=poptorch.optim.SGD(model.parameters(), lr=0.1))
    trained(*classified(8))
    before = copy.deepcopy(model)
    trained.setOptimizer(poptorch.optim.SGD(model.parameters(), lr=0.0))
    trained(*classified(8))
    assert_same_weights(model, before)
    assert compile_count(trained) == 1
    with pytest.raises(poptorch.Error, match="compiled for SGD .* .got Adam"):
        trained.setOptimizer(poptorch.optim.Adam(model.parameters(), lr=0.0))


def test_what_is_no_optimiser_is_refused():
    with pytest.raises(AssertionError, match="Unsupported optimizer type float"):
        poptorch.trainingModel(Classifier(), optimizer=0.1)
    model = Classifier()
    inferred = poptorch.inferenceModel(model)
    with pytest.raises(poptorch.Error, match="setOptimizer is for training"):
        inferred.setOptimizer(torch.optim.SGD(model.parameters(), lr=0.1))


@pytest.mark.parametrize("kind", [torch.optim.LBFGS, torch.optim.Adagrad, torch.optim.NAdam])
def test_optimiser_that_the_device_does_not_know_is_refused(kind):
    model = Classifier()
    with pytest.raises(AssertionError, match=f"Unsupported optimizer type {kind.__name__}"):
        poptorch.trainingModel(model, optimizer=kind(model.parameters(), lr=0.1))


def test_python_of_a_subclass_does_not_run(caplog):
    class Lazy(torch.optim.SGD):
        def step(self, closure=None):
            raise RuntimeError("never reached")

    model, reference = Classifier(), Classifier()
    reference.load_state_dict(model.state_dict())
    _train(model, Lazy(model.parameters(), lr=0.1))
    _train(reference, torch.optim.SGD(reference.parameters(), lr=0.1))
    assert_same_weights(model, reference)
    assert "does not run Python optimizer code directly: the device runs SGD instead" in caplog.text


@pytest.mark.parametrize("made_by", [torch.optim, poptorch.optim])
@pytest.mark.parametrize("setting", ["amsgrad", "maximize"])
def test_setting_without_a_meaning_on_the_device_is_refused(made_by, setting):
    model = Classifier()
    optimizer = made_by.AdamW(model.parameters(), **{setting: True})
    with pytest.raises(ValueError, match=setting):
        poptorch.trainingModel(model, optimizer=optimizer)


def test_setting_that_was_not_given_is_a_constant():
    model = Classifier()
    optimizer = poptorch.optim.AdamW(model.parameters(), lr=0.1)
    trained = poptorch.trainingModel(model, optimizer=optimizer)
    trained(*classified(8))
    optimizer.param_groups[0]["lr"] = 0.2
    trained.setOptimizer(optimizer)
    optimizer.param_groups[0]["weight_decay"] = 0.5
    with pytest.raises(poptorch.Error, match="weight_decay was compiled in as a constant, 0.01 .got 0.5"):
        trained.setOptimizer(optimizer)


def test_setting_may_be_marked_as_variable():
    model = Classifier()
    optimizer = poptorch.optim.AdamW(model.parameters(), lr=0.1)
    optimizer.variable_attrs.markAsVariable("weight_decay")
    trained = poptorch.trainingModel(model, optimizer=optimizer)
    trained(*classified(8))
    optimizer.param_groups[0]["weight_decay"] = 0.5
    trained.setOptimizer(optimizer)
    optimizer.variable_attrs.markAsConstant("weight_decay")
    with pytest.raises(poptorch.Error, match="compiled in as a variable"):
        trained.setOptimizer(optimizer)
    with pytest.raises(AssertionError, match="Unknown attribute 'rate'"):
        optimizer.variable_attrs.markAsVariable("rate")


def test_scheduler_made_after_wrapping_changes_nothing(caplog):
    model = Classifier()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    trained = poptorch.trainingModel(model, optimizer=optimizer)
    torch.optim.lr_scheduler.StepLR(optimizer, 1)
    trained(*classified(8))
    assert "settings changed" not in caplog.text


def test_state_of_a_poptorch_optimiser_holds_what_the_device_has():
    model = Classifier()
    optimizer = poptorch.optim.Adam(model.parameters())
    assert optimizer.state_dict()["ipu_state"] is None
    assert (optimizer.accum_type, optimizer.max_grad_norm) == (torch.float32, float("inf"))
    _train(model, optimizer)
    state = optimizer.state_dict()
    assert state["ipu_state"]
    assert state["ipu_param"]["lr___0"] == 1e-3
    assert poptorch.optim.LAMB(model.parameters()).param_groups[0]["max_weight_norm"] == 65500
    with pytest.raises(RuntimeError, match="Only IPU optimizer states"):
        optimizer.load_state_dict(torch.optim.Adam(model.parameters()).state_dict())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "RMSprop"])
def test_half_precision_weights_step_like_torchs(name, dtype):
    weights = [torch.nn.Parameter(torch.zeros(37, dtype=dtype)) for _ in range(2)]
    ours = getattr(poptorch.optim, name)(weights[:1], lr=0.5)
    torchs = getattr(torch.optim, name)(weights[1:], lr=0.5, foreach=False)
    for weight, optimizer in zip(weights, (ours, torchs)):
        for _ in range(3):
            weight.grad = torch.ones_like(weight)
            optimizer.step()
    assert weights[0].abs().min() > 0
    torch.testing.assert_close(weights[0], weights[1])


def test_optimiser_of_another_model_is_refused():
    other = Classifier()
    with pytest.raises(poptorch.Error, match="holds none of the model's parameters"):
        poptorch.trainingModel(Classifier(), optimizer=torch.optim.SGD(other.parameters(), lr=0.1))


def test_optimiser_that_leaves_parameters_out_is_told(caplog):
    model = Classifier()
    some = list(model.parameters())[:1]
    poptorch.trainingModel(model, optimizer=torch.optim.SGD(some, lr=0.1))
    assert "leaves out" in caplog.text


def test_attribute_that_came_later_is_ignored_with_a_warning(caplog):
    model = Classifier()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    trained = poptorch.trainingModel(model, optimizer=optimizer)
    trained(*classified(8))
    optimizer.step = 0
    optimizer.param_groups[0]["mine"] = 1
    trained.setOptimizer(optimizer)
    trained(*classified(8))
    assert "Ignoring unexpected optimizer attribute in SGD optimizer: ['step']" in caplog.text
    assert "Ignoring unexpected group 0 attribute in SGD optimizer: ['mine']" in caplog.text


def test_state_of_the_device_is_tensors_and_none_where_the_device_is_not_there():
    for options, is_there in ((poptorch.Options(), True), (poptorch.Options().useOfflineIpuTarget(), False)):
        model = Classifier()
        optimizer = poptorch.optim.Adam(model.parameters(), lr=0.1)
        poptorch.trainingModel(model, options, optimizer).compile(*classified(8))
        settings = optimizer.state_dict()["ipu_param"]
        assert (settings is not None) == is_there
        assert not is_there or all(isinstance(value, torch.Tensor) for value in settings.values())
