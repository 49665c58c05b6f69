"""A model that changed after it was compiled is noticed before the next call."""

import pytest
import torch

from gnn_ipu_helpers import compile_count
from gnn_ipu_helpers import poptorch_cpu as poptorch

from .models import Classifier, classified


class _Scaled(Classifier):
    def __init__(self):
        super().__init__()
        self.register_buffer("scale", torch.ones(1))

    def forward(self, x, y):
        return super().forward(x * self.scale, y)


CHANGES = {
    "replaced": (
        lambda model: setattr(model.linear, "weight", torch.nn.Parameter(torch.zeros(3, 5))),
        "the parameter linear.weight was replaced",
    ),
    "removed": (
        lambda model: model.linear.register_parameter("bias", None),
        "the parameter linear.bias was removed",
    ),
    "added": (
        lambda model: model.linear.register_parameter("extra", torch.nn.Parameter(torch.ones(1))),
        "the parameter linear.extra was added",
    ),
    "frozen": (
        lambda model: model.linear.weight.requires_grad_(False),
        "the parameter linear.weight was .* with a gradient and is .* without a gradient",
    ),
    "module": (
        lambda model: setattr(model, "linear", torch.nn.Linear(5, 3)),
        "the module linear was added, removed or replaced",
    ),
    "resized": (
        lambda model: setattr(model.linear.weight, "data", torch.zeros(2, 5)),
        r"the parameter linear.weight was \[3, 5\] .* and is \[2, 5\]",
    ),
    "converted": (
        lambda model: model.linear.double(),
        "the parameter linear.weight was .* torch.float32 .* and is .* torch.float64",
    ),
    "buffer": (
        lambda model: setattr(model, "scale", torch.ones(1)),
        "the buffer scale was replaced",
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_change_is_refused_and_the_weights_stay(name):
    change, message = CHANGES[name]
    model = _Scaled()
    trained = poptorch.trainingModel(model)
    trained(*classified(4))
    change(model)
    weights = [parameter.detach().clone() for parameter in model.parameters()]
    with pytest.raises(poptorch.Error, match=f"changed after it was compiled: {message}.*destroy"):
        trained(*classified(4))
    assert all(torch.equal(before, now) for before, now in zip(weights, model.parameters()))


def test_changed_model_compiles_anew_after_destroy():
    model = Classifier()
    inferred = poptorch.inferenceModel(model)
    x, y = classified(4)
    inferred(x, y)
    model.linear = torch.nn.Linear(5, 3)
    inferred.destroy()
    torch.testing.assert_close(inferred(x, y)[0], model(x, y)[0])
    assert compile_count(inferred) == 2


def test_weights_changed_in_place_are_used():
    model = Classifier()
    inferred = poptorch.inferenceModel(model)
    x, y = classified(4)
    inferred(x, y)
    with torch.no_grad():
        model.linear.weight.zero_()
    torch.testing.assert_close(inferred(x, y)[0], model(x, y)[0])
