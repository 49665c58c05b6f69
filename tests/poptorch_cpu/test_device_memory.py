"""What lives on the device and what on the host: inputs, outputs, buffers, weights."""

import pytest
import torch
import torch.nn.functional as F

from gnn_ipu_helpers import poptorch_cpu as poptorch


class Updatable(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("first", torch.ones(1))
        self.register_buffer("second", torch.ones(1))

    def forward(self, x):
        return torch.sum(x + self.first + self.second)


class Counting(torch.nn.Module):
    """Adds what it sees to a buffer, and returns the buffer and a weight."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(2))
        self.register_buffer("total", torch.zeros(2))

    def forward(self, x):
        self.total += x
        return self.total, self.weight, F.mse_loss(self.weight * x, torch.zeros_like(x))


# Numbers of 32 bits


@pytest.mark.parametrize(("sent", "returned"), [(torch.int64, torch.int32), (torch.float64, torch.float32)])
def test_outputs_have_32_bits(sent, returned):
    class Model(torch.nn.Module):
        def forward(self, x):
            return x + 1, {"same": x}

    added, rest = poptorch.inferenceModel(Model())(torch.arange(3).to(sent))
    assert (added.dtype, rest["same"].dtype) == (returned, returned)
    assert added.tolist() == [1, 2, 3]


def test_double_input_is_cast_for_a_model_in_float(caplog):
    model = torch.nn.Linear(3, 2)
    x = torch.randn(4, 3, dtype=torch.float64)
    torch.testing.assert_close(poptorch.inferenceModel(model)(x), model(x.float()))
    assert "input is float64" in caplog.text


def test_integer_that_does_not_fit_is_refused():
    with pytest.raises(poptorch.Error, match="integers of 32 bits"):
        poptorch.inferenceModel(torch.nn.Identity())(torch.tensor([2**40]))


# Inputs and outputs


def test_input_with_a_gradient_is_detached_with_a_warning(caplog):
    x = torch.ones(2, 3, requires_grad=True)
    assert not poptorch.inferenceModel(torch.nn.Linear(3, 2))(x).requires_grad
    assert "Input tensor has requires_grad=True set. This tensor will be detached because" in caplog.text
    assert "it is input 0, input" in caplog.text


def test_backward_on_an_output_says_that_it_is_done_already():
    _, _, loss = poptorch.trainingModel(Counting())(torch.ones(2))
    with pytest.raises(
        poptorch.Error, match="backwards pass is performed automatically.*Leave out loss.backward"
    ):
        loss.backward()


def test_outputs_are_copies_of_buffers_parameters_and_inputs():
    class Model(Counting):
        def forward(self, x):
            return (*super().forward(x), x, self.weight[:1])

    trained = poptorch.trainingModel(Model())
    x = torch.ones(2)
    results = [trained(x) for _ in range(3)]
    assert [total[0].item() for total, *_ in results] == [1, 2, 3]
    weights = [weight[0].item() for _, weight, *_ in results]
    assert len(set(weights)) == 3
    assert [part[0].item() for *_, part in results] == weights
    results[0][3].zero_()
    assert x.tolist() == [1, 1]


def test_buffer_that_is_written_and_returned_is_the_devices():
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("buffer", torch.ones(2))

        def forward(self, x):
            self.buffer.copy_(self.buffer + x)
            return self.buffer

    model = poptorch.inferenceModel(Model())
    results = [model(torch.ones(2)) for _ in range(3)]
    assert [result.tolist() for result in results] == [[2, 2], [3, 3], [4, 4]]


@pytest.mark.parametrize("is_contiguous", [True, False])
@pytest.mark.parametrize("iterations", [1, 2])
def test_what_forward_writes_into_an_input_the_caller_sees(is_contiguous, iterations):
    class Model(torch.nn.Module):
        def forward(self, x):
            x += 1

    x = torch.zeros(4, 2) if is_contiguous else torch.zeros(2, 4).t()
    model = poptorch.inferenceModel(Model(), poptorch.Options().deviceIterations(iterations))
    assert model(x) is None
    assert torch.equal(x, torch.ones(4, 2))
    assert model(x) is None
    assert torch.equal(x, torch.full((4, 2), 2.0))


# Buffers


def test_named_buffers_reach_the_device_when_asked_for():
    options = poptorch.Options().updatableNamedBuffers(["first"])
    model = poptorch.inferenceModel(Updatable(), options)
    x = torch.ones(3)
    assert model(x) == 9
    model.first.add_(1)
    assert model(x) == 9
    model.copyNamedBuffersToDevice()
    assert model(x) == 12
    model.second.add_(1)
    model.copyNamedBuffersToDevice()
    assert model(x) == 12
    model.copyWeightsToDevice()
    assert model(x) == 15


def test_buffers_that_were_not_named_cannot_be_sent():
    model = poptorch.inferenceModel(Updatable())
    model(torch.ones(3))
    with pytest.raises(poptorch.Error, match="updatableNamedBuffers"):
        model.copyNamedBuffersToDevice()
    unknown = poptorch.inferenceModel(Updatable(), poptorch.Options().updatableNamedBuffers(["third"]))
    with pytest.raises(poptorch.Error, match="third: the model has no such buffer"):
        unknown(torch.ones(3))


def test_written_buffers_come_to_the_host_with_training_and_on_demand_with_inference():
    model = Counting()
    poptorch.trainingModel(model)(torch.ones(2))
    assert model.total.tolist() == [1, 1]
    inferred = poptorch.inferenceModel(model)
    inferred(torch.ones(2))
    assert model.total.tolist() == [1, 1]
    inferred.copyWeightsToHost()
    assert model.total.tolist() == [2, 2]


def test_replicas_that_write_buffers_must_agree_to_have_their_own():
    options = poptorch.Options().replicationFactor(2)
    with pytest.raises(poptorch.Error, match=r"broadcastBuffers\(False\). forward writes: total"):
        poptorch.trainingModel(Counting(), options)(torch.ones(4))
    options = options.clone().broadcastBuffers(False)
    model = Counting()
    trained = poptorch.trainingModel(model, options)
    for _ in range(3):
        total, *_ = trained(torch.tensor([1.0, 1, 5, 5]))
    assert total.tolist() == [3, 3, 15, 15]
    assert model.total.tolist() == [3, 3]


def test_constant_buffers_are_shared_by_replicas():
    model = poptorch.inferenceModel(Updatable(), poptorch.Options().replicationFactor(2))
    assert model(torch.ones(4)).tolist() == [6, 6]


def test_buffer_removed_in_forward_is_refused():
    class Model(Updatable):
        def forward(self, x):
            self._buffers.pop("first", None)
            return x + 1

    model = Model()
    with pytest.raises(poptorch.Error):
        poptorch.inferenceModel(model)(torch.ones(3))
    assert "first" in model._buffers


def test_model_without_inputs_runs():
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("x", torch.ones(1))

        def forward(self):
            self.x += 1
            return self.x

    model = poptorch.inferenceModel(Model())
    assert [model().item() for _ in range(3)] == [2, 3, 4]


# Weights


def test_weights_written_on_the_host_are_told_of(caplog):
    model = Counting()
    trained = poptorch.trainingModel(model)
    trained(torch.ones(2))
    trained(torch.ones(2))
    with torch.no_grad():
        model.weight.zero_()
    trained.copyWeightsToDevice()
    trained(torch.ones(2))
    assert "copyWeightsToDevice" not in caplog.text
    with torch.no_grad():
        model.weight.zero_()
    trained(torch.ones(2))
    assert "on an IPU it would be lost: call copyWeightsToDevice()" in caplog.text


@pytest.mark.parametrize("name", ["copyWeightsToHost", "copyWeightsToDevice", "copyNamedBuffersToDevice"])
def test_copying_needs_a_compiled_model(name):
    with pytest.raises(poptorch.Error, match="Model has not been compiled or has been destroyed"):
        getattr(poptorch.inferenceModel(Updatable()), name)()
