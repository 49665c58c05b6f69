"""Compiling, attaching, timing, naming, saving and loading of a wrapped model."""

import copy
import datetime

import pytest
import torch

from gnn_ipu_helpers import compile_count
from gnn_ipu_helpers import poptorch_cpu as poptorch

from .models import Classifier, classified
from .side_by_side import assert_same_weights


def _trained(model=None, options=None):
    model = model or Classifier()
    return poptorch.trainingModel(model, options, torch.optim.Adam(model.parameters(), lr=0.1))


def test_text_begins_with_poptorch_and_the_class():
    assert repr(_trained()).startswith("PoptorchClassifier(\n  (linear): Linear(")


def test_compile_runs_nothing():
    model = torch.nn.Sequential(torch.nn.BatchNorm1d(5), torch.nn.Dropout(0.5))
    x = torch.randn(4, 5)
    before, state = copy.deepcopy(model), torch.get_rng_state()
    inferred = poptorch.inferenceModel(model)
    inferred.compile(x)
    assert inferred.isCompiled()
    assert_same_weights(model, before)
    assert torch.equal(torch.get_rng_state(), state)


def test_first_call_steps_once():
    class Model(Classifier):
        def __init__(self):
            super().__init__()
            self.norm = torch.nn.BatchNorm1d(5)

        def forward(self, x, y):
            return super().forward(self.norm(x), y)

    model = Model()
    _trained(model)(*classified(4))
    assert model.norm.num_batches_tracked == 1


def test_compilation_time_is_known_once_compiled():
    trained = _trained()
    with pytest.raises(poptorch.Error, match="Please compile the model before obtaining compilation time"):
        trained.compilationTime()
    trained(*classified(4))
    assert trained.compilationTime() > datetime.timedelta(0)


def test_device_is_held_from_the_first_call_until_detached():
    trained = _trained()
    assert not trained.isAttachedToDevice()
    trained(*classified(4))
    assert trained.isAttachedToDevice()
    trained.detachFromDevice()
    assert not trained.isAttachedToDevice()
    trained.attachToDevice()
    assert trained.isAttachedToDevice()
    trained.detachFromDevice()
    trained(*classified(4))
    assert trained.isAttachedToDevice()
    assert compile_count(trained) == 1


def test_attaching_and_detaching_at_the_wrong_time_is_refused():
    trained = _trained()
    with pytest.raises(poptorch.Error, match="attachToDevice needs a compiled model"):
        trained.attachToDevice()
    with pytest.raises(poptorch.Error, match="not attached"):
        trained.detachFromDevice()
    trained(*classified(4))
    with pytest.raises(poptorch.Error, match="already"):
        trained.attachToDevice()


def test_destroy_forgets_the_graph():
    trained = _trained()
    trained(*classified(4))
    trained.destroy()
    assert not trained.isCompiled()
    trained(*classified(6))
    assert compile_count(trained) == 2


def test_weights_are_up_to_date_on_the_host_without_copying():
    model = Classifier()
    trained = _trained(model)
    before = copy.deepcopy(model.state_dict())
    trained(*classified(4))
    assert trained.copyWeightsToHostIfNeeded() is False
    trained.copyWeightsToHost()
    assert not torch.equal(model.state_dict()["linear.weight"], before["linear.weight"])
    assert torch.equal(trained.state_dict()["linear.weight"], model.linear.weight)


def test_loaded_weights_reach_the_compiled_graph():
    model, other = Classifier(), Classifier()
    inferred = poptorch.inferenceModel(model)
    x, y = classified(4)
    inferred(x, y)
    inferred.load_state_dict(other.state_dict())
    inferred.copyWeightsToDevice()
    torch.testing.assert_close(inferred(x, y)[0], other(x, y)[0])
    assert compile_count(inferred) == 1


def test_other_attributes_are_the_models_own():
    model = Classifier()
    trained = _trained(model)
    assert trained.linear is model.linear
    assert trained.model is model
    assert [name for name, _ in trained.named_parameters()] == ["linear.weight", "linear.bias"]
    with pytest.raises(
        AttributeError, match="PoptorchClassifier has no name 'copyWeightToHost'.*copyWeightsToHost"
    ):
        trained.copyWeightToHost()


def test_options_of_a_wrapped_model_are_frozen():
    options = poptorch.Options()
    trained = _trained(options=options)
    for frozen in (options, trained.options):
        with pytest.raises(AttributeError, match=r"deviceIterations cannot be changed.*clone\(\)"):
            frozen.deviceIterations(2)
    assert options.clone().deviceIterations(2).toDict()["device_iterations"] == 2


def test_hooks_run_around_each_compilation_until_removed():
    events = []
    handles = [
        poptorch.registerPreCompileHook(lambda: events.append("before")),
        poptorch.registerPostCompileHook(lambda: events.append("after")),
    ]
    trained = _trained()
    trained(*classified(4))
    trained(*classified(4))
    for handle in handles:
        handle.remove()
    _trained()(*classified(4))
    assert events == ["before", "after"]


@pytest.mark.parametrize("register", [poptorch.registerPreCompileHook, poptorch.registerPostCompileHook])
def test_hook_that_cannot_be_called_is_refused(register):
    with pytest.raises(RuntimeError, match="must be callable .got <class 'int'>"):
        register(5)


def test_progress_bar_shows_the_compilation(capsys):
    trained = _trained()
    trained(*classified(4))
    assert "Graph compilation: 100%" in capsys.readouterr().err
    trained(*classified(4))
    assert capsys.readouterr().err == ""


def test_progress_bar_can_be_switched_off(capsys):
    _trained(options=poptorch.Options().showCompilationProgressBar(False))(*classified(4))
    assert capsys.readouterr().err == ""


def test_latency_is_that_of_the_last_call():
    trained = _trained(options=poptorch.Options().deviceIterations(3))
    assert trained.getLatency() == (0.0, 0.0, 0.0)
    trained(*classified(6))
    shortest, longest, mean = trained.getLatency()
    assert 0 < shortest <= mean <= longest
    assert trained.getComputeLatency() == (shortest, longest, mean)
    assert trained.getHostIpuLatency() == trained.getIpuHostLatency() == (0.0, 0.0, 0.0)
    counters = trained.getPerfCounters()
    assert list(counters) == ["input", "input_complete", "output", "output_complete"]
    assert [len(times) for times in counters["input"]] == [3, 3]  # x and y, three mini-batches
    assert {len(times) for times in counters["output"]} == {3}


def test_what_only_an_ipu_has_is_said_so():
    trained = _trained(options=poptorch.Options().logCycleCount(True))
    with pytest.raises(
        poptorch.Error, match="Cycle count logging is only supported on actual IPU.*getLatency"
    ):
        trained(*classified(4))
    with pytest.raises(poptorch.Error, match="logCycleCount"):
        _trained().cycleCount()
    with pytest.raises(poptorch.Error, match="getAnchoredTensor needs an IPU"):
        trained.getAnchoredTensor("x")


def test_tensor_names_are_those_of_parameters_and_buffers():
    inferred = poptorch.inferenceModel(torch.nn.BatchNorm1d(5))
    inferred.compile(torch.randn(4, 5))
    expected = ["weight", "bias", "running_mean", "running_var", "num_batches_tracked"]
    assert inferred.getTensorNames() == expected


# Random numbers


class _Noise(torch.nn.Module):
    """Returns dropout of ones."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(50))

    def forward(self, x):
        dropped = torch.nn.functional.dropout(x, 0.5, self.training)
        return dropped, poptorch.identity_loss(self.weight * dropped, "sum")


def _dropped(options, calls=2):
    trained = poptorch.trainingModel(_Noise(), options)
    return torch.stack([trained(torch.ones(50))[0] for _ in range(calls)])


def test_same_seed_gives_the_same_dropout_and_leaves_the_host_alone():
    first = _dropped(poptorch.Options().randomSeed(3))
    options = poptorch.Options().randomSeed(3)
    torch.rand(100)
    host = torch.get_rng_state()
    second = _dropped(options)
    assert torch.equal(torch.get_rng_state(), host)
    assert torch.equal(first, second)
    assert not torch.equal(first[0], first[1])
    assert not torch.equal(first, _dropped(poptorch.Options().randomSeed(4)))


def test_without_a_seed_the_host_governs():
    torch.manual_seed(5)
    first = _dropped(None)
    torch.manual_seed(5)
    assert torch.equal(first, _dropped(None))


def test_state_of_the_random_numbers_can_be_put_back():
    trained = poptorch.trainingModel(_Noise(), poptorch.Options().randomSeed(1))
    trained.compile(torch.ones(50))
    state = trained.rng_state
    first = trained(torch.ones(50))[0]
    trained.rng_state = state
    assert torch.equal(trained(torch.ones(50))[0], first)


# Files


def test_exported_model_is_loaded_compiled_and_trains_on(tmp_path):
    model = Classifier()
    trained = _trained(model, poptorch.Options().randomSeed(7))
    trained(*classified(4))
    trained.save(tmp_path / "model.poptorch")
    loaded = poptorch.load(tmp_path / "model.poptorch")
    assert loaded.isCompiled()
    assert loaded.options.toDict()["random_seed"] == 7
    arguments = classified(4)
    torch.testing.assert_close(loaded(*arguments), trained(*arguments))
    assert_same_weights(loaded, model)


def test_compile_and_export_needs_no_run(tmp_path):
    x, y = classified(4)
    model = Classifier()
    poptorch.inferenceModel(model).compileAndExport(tmp_path / "model.poptorch", x, y)
    loaded = poptorch.load(tmp_path / "model.poptorch", lambda options: options.modelName("other"))
    torch.testing.assert_close(loaded(x, y)[0], model(x, y)[0])
    assert loaded.options.toDict()["model_name"] == "other"
    with pytest.raises(poptorch.Error, match=r"for x: .*\[5, 5\]"):
        loaded(*classified(5))


def test_executable_alone_is_loaded_into_a_wrapped_model(tmp_path):
    file = tmp_path / "model.poptorch"
    poptorch.inferenceModel(Classifier()).compileAndExport(file, *classified(4), export_model=False)
    with pytest.raises(AssertionError, match="exported without its model.*loadExecutable"):
        poptorch.load(file)
    inferred = poptorch.inferenceModel(Classifier())
    inferred.loadExecutable(file)
    assert inferred.isCompiled()
    with pytest.raises(
        poptorch.Error, match="exported for inference, and this model is wrapped for training"
    ):
        _trained().loadExecutable(file)


@pytest.mark.parametrize("content", [b"", b"something else", b"\x80\x04."])
def test_file_that_is_no_export_is_refused(tmp_path, content):
    file = tmp_path / "model.poptorch"
    file.write_bytes(content)
    with pytest.raises(poptorch.Error, match="is not a model exported by this implementation"):
        poptorch.load(file)


def test_missing_and_foreign_files_are_refused(tmp_path):
    with pytest.raises(poptorch.Error, match="There is no file"):
        poptorch.load(tmp_path / "none")
    torch.save({"weight": torch.ones(1)}, tmp_path / "foreign")
    with pytest.raises(poptorch.Error, match="not a model exported by this implementation"):
        poptorch.load(tmp_path / "foreign")


def test_saving_needs_a_compiled_model(tmp_path):
    with pytest.raises(poptorch.Error, match="save needs a compiled model"):
        _trained().save(tmp_path / "model.poptorch")
    assert not list(tmp_path.iterdir())


def test_export_after_a_plain_call_holds_its_executable(tmp_path):
    trained = _trained()
    trained(*classified(4))
    trained.save(tmp_path / "model.poptorch")
    assert trained._executable
    assert poptorch.load(tmp_path / "model.poptorch").isCompiled()


def test_flipped_bit_anywhere_in_an_export_is_found(tmp_path):
    file = tmp_path / "model.poptorch"
    poptorch.inferenceModel(Classifier()).compileAndExport(file, *classified(4))
    whole = file.read_bytes()
    for place in range(3, len(whole), len(whole) // 12):
        file.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises(poptorch.Error):
            poptorch.load(file)


def test_class_that_is_not_here_is_named(tmp_path, monkeypatch):
    import sys
    import types

    elsewhere = types.ModuleType("elsewhere")
    elsewhere.Model = type("Model", (Classifier,), {"__module__": "elsewhere"})
    monkeypatch.setitem(sys.modules, "elsewhere", elsewhere)
    file = tmp_path / "model.poptorch"
    poptorch.inferenceModel(elsewhere.Model()).compileAndExport(file, *classified(4))
    del elsewhere.Model
    with pytest.raises(poptorch.Error, match="class is not here .*Model.*import or define it first"):
        poptorch.load(file)


def test_export_into_a_folder_gets_a_name(tmp_path, caplog):
    poptorch.inferenceModel(Classifier()).compileAndExport(tmp_path / "new" / "m", *classified(4))
    assert (tmp_path / "new" / "m").is_file()
    poptorch.inferenceModel(Classifier()).compileAndExport(tmp_path, *classified(4))
    assert (tmp_path / "model.poptorch").is_file()


def test_offline_model_is_compiled_and_not_run():
    inferred = poptorch.inferenceModel(Classifier(), poptorch.Options().useOfflineIpuTarget())
    inferred.compile(*classified(4))
    assert inferred.isCompiled()
    assert not inferred.isAttachedToDevice()
    with pytest.raises(AssertionError, match="offline device"):
        inferred(*classified(4))


def test_state_of_the_random_numbers_is_a_list():
    trained = poptorch.trainingModel(_Noise(), poptorch.Options().randomSeed(1))
    trained.compile(torch.ones(50))
    assert isinstance(trained.rng_state, list)
