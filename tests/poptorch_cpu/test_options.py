"""Options: setters chain and are kept, those without effect are listed, and unknown ones raise."""

import inspect

import pytest

from gnn_ipu_helpers import poptorch_cpu as poptorch
from gnn_ipu_helpers import settings_without_effect
from tests.sdk_standin import names


def test_setters_chain():
    options = poptorch.Options()
    assert options.deviceIterations(2).replicationFactor(3).modelName("model") is options
    assert options.Training.gradientAccumulation(2) is options.Training
    assert options.Precision.enableStochasticRounding(True) is options.Precision


def test_settings_are_found_in_the_dictionary():
    options = poptorch.Options().deviceIterations(2).outputMode(poptorch.OutputMode.All).useIpuModel(True)
    options.Training.gradientAccumulation(3)
    settings = options.toDict()
    assert (settings["device_iterations"], settings["gradient_accumulation"]) == (2, 3)
    assert settings["output_mode"] == 2
    assert settings["useIpuModel"] is True


def test_settings_without_effect_are_kept_and_listed():
    options = poptorch.Options().deviceIterations(2).useIpuModel(True)
    options.setAvailableMemoryProportion({"IPU0": 0.3})
    options.TensorLocations.numIOTiles(32)
    options.Precision.enableStochasticRounding(True)
    options.anchorTensor("grad", "Gradient___w")
    assert settings_without_effect(options) == {
        "useIpuModel": True,
        "setAvailableMemoryProportion": {"IPU0": 0.3},
        "anchorTensor": {
            "short_name": "grad",
            "long_name": "Gradient___w",
            "output_mode": None,
            "output_return_period": 1,
        },
        "Precision.enableStochasticRounding": True,
        "TensorLocations.numIOTiles": 32,
    }


def test_text_says_what_has_no_effect():
    lines = repr(poptorch.Options().deviceIterations(2).useIpuModel(True)).splitlines()
    assert "device_iterations=2" in lines[0]
    assert "output_mode=Default" in lines[0]
    assert lines[1:] == ["  useIpuModel=True: no effect here"]


@pytest.mark.parametrize("group", [None, "Training", "Precision", "Jit", "Distributed", "TensorLocations"])
def test_unknown_setter_raises(group):
    options = poptorch.Options()
    owner = options if group is None else getattr(options, group)
    with pytest.raises(AttributeError, match="has no name 'noSuchSetting': PopTorch does not offer it"):
        owner.noSuchSetting(1)
    with pytest.raises(AttributeError, match="has no name 'noSuchSetting'"):
        owner.noSuchSetting = 1


def test_misspelt_setter_names_the_right_one():
    with pytest.raises(AttributeError, match="Did you mean deviceIterations"):
        poptorch.Options().device_iterations(4)
    with pytest.raises(AttributeError, match="Did you mean gradientAccumulation"):
        poptorch.Options().Training.gradientAccumulations(4)


def test_assigning_instead_of_calling_says_how_to_call():
    with pytest.raises(AttributeError, match=r"set by calling it: deviceIterations\(4\)"):
        poptorch.Options().deviceIterations = 4


REFUSED = {
    "deviceIterations": (0, "at least 1 .got 0"),
    "replicationFactor": (1.5, "at least 1 .got 1.5"),
    "randomSeed": ("one", "must be an integer .got 'one'"),
    "outputMode": (poptorch.OutputMode.EveryN, "output_return_period with OutputMode.EveryN"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_bad_value_is_refused(name):
    value, message = REFUSED[name]
    with pytest.raises(ValueError, match=message):
        getattr(poptorch.Options(), name)(value)


def test_bad_training_values_are_refused():
    training = poptorch.Options().Training
    with pytest.raises(ValueError, match="gradientAccumulation must be an integer of at least 1 .got -1"):
        training.gradientAccumulation(-1)
    with pytest.raises(ValueError, match="ReductionType.Mean or Sum"):
        training.accumulationAndReplicationReductionType(poptorch.ReductionType.NoReduction)


def test_period_without_every_n_is_refused():
    with pytest.raises(ValueError, match="and only then .got All, output_return_period=2"):
        poptorch.Options().outputMode(poptorch.OutputMode.All, 2)


def test_default_output_mode_is_known():
    options = poptorch.Options()
    assert options.defaultOutputMode()
    assert not options.outputMode(poptorch.OutputMode.Final).defaultOutputMode()


def test_clone_is_independent():
    options = poptorch.Options().deviceIterations(2)
    options.Training.gradientAccumulation(2)
    clone = options.clone()
    clone.deviceIterations(5)
    clone.Training.gradientAccumulation(7)
    assert options.toDict()["device_iterations"] == 2
    assert options.toDict()["gradient_accumulation"] == 2
    assert clone.toDict()["gradient_accumulation"] == 7


def test_processes_are_configured_by_number_or_environment(monkeypatch):
    distributed = poptorch.Options().Distributed
    assert (distributed.processId, distributed.numProcesses) == (0, 1)
    distributed.configureProcessId(1, 3)
    assert (distributed.processId, distributed.numProcesses) == (1, 3)
    with pytest.raises(ValueError, match=r"0\.\.2 .got 3"):
        distributed.configureProcessId(3, 3)
    monkeypatch.setenv("SIZE", "4")
    monkeypatch.setenv("RANK", "2")
    distributed.setEnvVarNames("SIZE", "RANK")
    assert (distributed.processId, distributed.numProcesses) == (2, 4)
    with pytest.raises(ValueError, match="NONE is not set"):
        distributed.setEnvVarNames("SIZE", "NONE")
    distributed.disable()
    assert distributed.numProcesses == 1


def test_options_are_read_from_json():
    options = poptorch.Options().from_json('{"deviceIterations": 4, "Training.gradientAccumulation": 2}')
    assert options.toDict()["device_iterations"] == 4
    assert options.toDict()["gradient_accumulation"] == 2


def test_options_are_read_from_a_file(tmp_path):
    file = tmp_path / "options.txt"
    file.write_text(
        "# how to run\n"
        "deviceIterations(4)\n"
        "options.Training.gradientAccumulation(2)\n"
        "outputMode(poptorch.OutputMode.EveryN, output_return_period=2)\n"
    )
    settings = poptorch.Options().loadFromFile(file).toDict()
    assert (settings["device_iterations"], settings["gradient_accumulation"]) == (4, 2)
    assert (settings["output_mode"], settings["output_return_period"]) == (1, 2)


@pytest.mark.parametrize("line", ["deviceIterations(0)", "noSuch(1)", "deviceIterations(open('x'))", "a b"])
def test_bad_line_of_a_file_is_named(tmp_path, line):
    file = tmp_path / "options.txt"
    file.write_text(f"modelName('m')\n{line}\n")
    with pytest.raises(poptorch.ConfigFileError, match="options.txt, line 2: "):
        poptorch.Options().loadFromFile(file)


def _sample(parameter):
    """A value that any setter without effect takes."""
    return 1 if parameter.default is parameter.empty else parameter.default


@pytest.mark.parametrize("group", ["Precision", "Jit", "TensorLocations"])
def test_every_setter_of_an_ipu_only_group_is_kept(group):
    options = poptorch.Options()
    owner = getattr(options, group)
    setters = names.CLASSES[type(owner).__name__][1]
    for name in setters:
        setter = getattr(owner, name)
        setter(*map(_sample, inspect.signature(setter).parameters.values()))
    assert list(settings_without_effect(options)) == [f"{group}.{name}" for name in setters]


def test_execution_strategies_are_kept():
    strategy = poptorch.PipelinedExecution(poptorch.Stage("a").ipu(0), poptorch.Stage("b").ipu(1))
    options = poptorch.Options().setExecutionStrategy(strategy)
    assert settings_without_effect(options) == {"setExecutionStrategy": strategy}
    with pytest.raises(ValueError, match="A phase of 2 stages needs as many IPUs .got 1"):
        poptorch.Phase("a", "b").ipus(0)
