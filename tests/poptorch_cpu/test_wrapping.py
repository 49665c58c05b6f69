"""Wrapping a model: what is accepted, which mode it keeps, and how a wrapped one is copied and called."""

import copy
import pickle
import threading

import pytest
import torch
import torch.nn.functional as F

from gnn_ipu_helpers import compile_count
from gnn_ipu_helpers import poptorch_cpu as poptorch

from .models import Classifier, classified


class Normed(torch.nn.Module):
    """Normalises, and returns a loss while it is in training mode."""

    def __init__(self):
        super().__init__()
        self.norm = torch.nn.BatchNorm1d(5)
        self.linear = torch.nn.Linear(5, 3)

    def forward(self, x, y=None):
        out = self.linear(self.norm(x))
        return (out, F.cross_entropy(out, y)) if self.training else out


def test_wrapped_model_can_be_wrapped_again_for_inference():
    trained = poptorch.trainingModel(Classifier())
    inferred = poptorch.inferenceModel(trained)
    assert inferred.model is trained.model


def test_model_is_wrapped_for_training_once_until_it_is_destroyed():
    model = Classifier()
    trained = poptorch.trainingModel(model)
    for again in (model, trained):
        with pytest.raises(RuntimeError, match="already been wrapped in 'poptorch.trainingModel'"):
            poptorch.trainingModel(again)
    trained.destroy()
    poptorch.trainingModel(model)(*classified(4))


def test_refused_wrapping_leaves_the_model_free():
    model = Classifier()
    with pytest.raises(AssertionError, match="Unsupported optimizer"):
        poptorch.trainingModel(model, optimizer=torch.optim.Adagrad(model.parameters()))
    poptorch.trainingModel(model)


@pytest.mark.parametrize("mode", [True, False])
def test_wrapping_and_calling_leave_the_mode_alone(mode):
    model = Normed().train(mode)
    model.norm.train(not mode)
    poptorch.inferenceModel(model)(*classified(4)[: 1 + mode])
    assert (model.training, model.norm.training) == (mode, not mode)


def test_frozen_normalisation_stays_frozen_in_training():
    model = Normed()
    model.norm.eval()
    poptorch.trainingModel(model)(*classified(4))
    assert torch.equal(model.norm.running_mean, torch.zeros(5))
    assert not model.norm.training


def test_mode_set_on_the_model_later_does_not_reach_the_wrapped_one():
    model = Normed().train()
    trained = poptorch.trainingModel(model)
    model.eval()
    out, loss = trained(*classified(4))
    assert loss.dim() == 0
    inferred = poptorch.inferenceModel(model)
    assert inferred(classified(4)[0]).shape == (4, 3)
    model.train()
    assert isinstance(inferred(classified(4)[0]), torch.Tensor)


def test_compiling_again_is_a_warning_and_nothing_else(caplog):
    trained = poptorch.trainingModel(Classifier())
    trained.compile(*classified(4))
    trained.compile(*classified(6))
    assert "already compiled" in caplog.text
    assert compile_count(trained) == 1
    trained(*classified(4))


def test_wrapped_model_is_pickled_and_copied_without_its_graph():
    trained = poptorch.trainingModel(Classifier(), poptorch.Options().deviceIterations(2))
    trained(*classified(4))
    for duplicate in (pickle.loads(pickle.dumps(trained)), copy.deepcopy(trained)):
        assert not duplicate.isCompiled()
        assert duplicate.options.device_iterations == 2
        duplicate(*classified(4))


def test_errors_carry_what_poptorchs_carry():
    assert poptorch.poptorch_core.Error is poptorch.Error
    assert issubclass(poptorch.RecoverableError, poptorch.Error)
    assert issubclass(poptorch.UnrecoverableError, poptorch.Error)
    with pytest.raises(poptorch.Error) as caught:
        poptorch.inferenceModel(Classifier()).rng_state  # noqa: B018
    assert caught.value.message == str(caught.value)
    assert (caught.value.type, caught.value.location) == ("poptorch_py_error", "")
    assert pickle.loads(pickle.dumps(caught.value)).message == caught.value.message


def test_modules_of_poptorch_are_there():
    assert poptorch.enums.OutputMode is poptorch.OutputMode
    assert poptorch.__version__
    with poptorch.profiling.Channel("mine").tracepoint("part"):
        pass


def test_threads_get_the_results_of_their_own_calls():
    model = poptorch.inferenceModel(torch.nn.Linear(4, 4), poptorch.Options().deviceIterations(2))
    inputs = [torch.randn(6, 4) for _ in range(4)]
    expected = [model(x) for x in inputs]
    wrong = []

    def call(number):
        for _ in range(50):
            if not torch.equal(model(inputs[number]), expected[number]):
                wrong.append(number)

    threads = [threading.Thread(target=call, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


class _Weighted(torch.nn.Module):
    def forward(self, x, weight=None, scale=1.0):
        return x * scale if weight is None else x * weight


def test_default_given_and_left_out_is_the_same_call():
    model = poptorch.inferenceModel(_Weighted())
    model(torch.ones(2))
    assert model(torch.ones(2), weight=None).tolist() == [1, 1]
    assert model(torch.ones(2), None, 1.0).tolist() == [1, 1]
    assert compile_count(model) == 1


def test_lists_tuples_and_orders_of_keys_are_the_same_call():
    class Model(torch.nn.Module):
        def forward(self, pair, named):
            return pair[0] - pair[1] + named["a"] - named["b"]

    one, two = torch.ones(1), torch.full((1,), 2.0)
    model = poptorch.inferenceModel(Model())
    expected = model([one, two], {"a": two, "b": one})
    assert torch.equal(model((one, two), {"b": one, "a": two}), expected)


def test_combined_batch_for_a_model_without_such_options_is_refused():
    class Model(torch.nn.Module):
        def forward(self, x, edge_index):
            return x.index_add(0, edge_index[1], x[edge_index[0]])

    edges = torch.tensor([[0, 1, 2], [1, 2, 0]])
    with pytest.raises(poptorch.Error, match="edge_index of shape .4, 3. holds 2 mini-batches"):
        poptorch.inferenceModel(Model())(torch.ones(6, 2), torch.cat([edges, edges]))


def test_index_outside_of_what_it_indexes_names_the_argument():
    class Model(torch.nn.Module):
        def forward(self, x, index):
            return x[index] * 2

    model = poptorch.inferenceModel(Model())
    model(torch.ones(3, 2), torch.tensor([0, 2]))
    with pytest.raises(poptorch.Error, match="index holds 0 to 7"):
        model(torch.ones(3, 2), torch.tensor([0, 7]))


def test_empty_tensor_is_refused():
    with pytest.raises(poptorch.Error, match=r"Zero-sized tensors are unsupported .Got shape \[0, 2\]"):
        poptorch.inferenceModel(torch.nn.Linear(2, 2))(torch.ones(0, 2))


def test_model_itself_can_end_its_wrapping():
    model = Classifier()
    trained = poptorch.trainingModel(model)
    copied = copy.deepcopy(model)
    copied.destroy()  # a copy is wrapped by nobody
    with pytest.raises(RuntimeError, match=r"Call model.destroy\(\) on the model"):
        poptorch.trainingModel(model)
    trained(*classified(4))
    model.destroy()
    assert not trained.isCompiled()
    assert not hasattr(model, "destroy")
    poptorch.trainingModel(model)


def test_model_that_is_wrapped_can_be_saved(tmp_path):
    model = Classifier()
    trained = poptorch.trainingModel(model)
    torch.save(model, tmp_path / "model.pt")
    loaded = torch.load(tmp_path / "model.pt", weights_only=False)
    torch.testing.assert_close(loaded.state_dict(), trained.state_dict())
    assert "poptorch" not in type(loaded.destroy).__module__  # it loads where this package is not


def test_destroying_an_inference_model_leaves_the_training_model_wrapped():
    model = Classifier()
    trained = poptorch.trainingModel(model)
    poptorch.inferenceModel(model).destroy()
    with pytest.raises(RuntimeError, match="already been wrapped"):
        poptorch.trainingModel(model)
    trained.destroy()
