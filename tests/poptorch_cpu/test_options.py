"""Options: setters chain and are kept, those without effect are listed, and unknown ones raise."""

import inspect

import pytest
import torch

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
    assert settings["use_model"] is True


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
        poptorch.Options().device_iteration(4)
    with pytest.raises(AttributeError, match="Did you mean gradientAccumulation"):
        poptorch.Options().Training.gradientAccumulations(4)


def test_assigning_instead_of_calling_says_how_to_call():
    with pytest.raises(AttributeError, match=r"set by calling it: deviceIterations\(4\)"):
        poptorch.Options().deviceIterations = 4


REFUSED = {
    "deviceIterations": (0, "at least 1 .got 0"),
    "replicationFactor": (1.5, "at least 1 .got 1.5"),
    "randomSeed": ("one", "must be an integer .got 'one'"),
    "outputMode": (
        poptorch.OutputMode.EveryN,
        "output_return_period of OutputMode.EveryN must be an integer",
    ),
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
    with pytest.raises(ValueError, match="ReductionType.Mean or .Sum"):
        training.accumulationAndReplicationReductionType(poptorch.ReductionType.NoReduction)


def test_period_without_every_n_is_ignored():
    options = poptorch.Options().outputMode(poptorch.OutputMode.All, 2)
    assert (options.output_mode, options.output_return_period) == (poptorch.OutputMode.All, 1)


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
    distributed.disable()
    assert distributed.numProcesses == 1
    distributed.setEnvVarNames("NONE", "NOR_THIS")
    assert (distributed.processId, distributed.numProcesses) == (0, 1)


def test_processes_are_those_of_the_launcher_by_default(monkeypatch):
    monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", "4")
    monkeypatch.setenv("OMPI_COMM_WORLD_RANK", "2")
    distributed = poptorch.Options().Distributed
    assert (distributed.processId, distributed.numProcesses) == (2, 4)


SETTINGS = """{
    "deviceIterations": 4, "Training.gradientAccumulation": 2, "outputMode": ["OutputMode.EveryN", 2],
    "_Popart.set": ["saveInitializersToFile", "my_file.onnx"]
}"""


def test_options_are_read_from_json():
    options = poptorch.Options().from_json(SETTINGS)
    assert (options.device_iterations, options.Training.gradient_accumulation) == (4, 2)
    assert (options.output_mode, options.output_return_period) == (poptorch.OutputMode.EveryN, 2)
    assert settings_without_effect(options)["_Popart.set"]["value"] == "my_file.onnx"


def test_options_begin_with_those_of_the_environment(monkeypatch):
    monkeypatch.setenv("POPTORCH_DEFAULT_OPTIONS", SETTINGS)
    assert repr(poptorch.Options()) == repr(poptorch.Options().from_json(SETTINGS))
    assert poptorch.Options().device_iterations == 4


def test_what_was_set_can_be_read():
    options = poptorch.Options().replicationFactor(3).randomSeed(7)
    assert (options.replication_factor, options.random_seed) == (3, 7)
    assert options.exists("random_seed")
    assert not poptorch.Options().exists("random_seed")
    options.device_iterations = 5
    assert options.device_iterations == 5


def test_random_seed_seeds_the_host_too():
    poptorch.Options().randomSeed(3)
    drawn = torch.rand(2)
    torch.manual_seed(3)
    assert torch.equal(torch.rand(2), drawn)


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
    with pytest.raises(poptorch.ConfigFileError, match="at line 2 of options.txt: "):
        poptorch.Options().loadFromFile(file)


SAMPLES = {
    "trace_model": False,
    "dtype": torch.half,
    "num_tiles": 32,
    "location": poptorch.TensorLocationSettings(),
}


def _sample(parameter):
    """A value that a setter without effect takes."""
    return SAMPLES.get(parameter.name, True) if parameter.default is parameter.empty else parameter.default


@pytest.mark.parametrize("tiles", [31, 33, 194, "many"])
def test_tiles_for_input_and_output_are_even_and_32_to_192(tiles):
    with pytest.raises(AssertionError, match="numIOTiles"):
        poptorch.Options().TensorLocations.numIOTiles(tiles)


def test_tracing_with_torch_jit_is_refused():
    with pytest.raises(ValueError, match="no longer supported"):
        poptorch.Options().Jit.traceModel(True)


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
        poptorch.Phase(poptorch.Stage("a"), poptorch.Stage("b")).ipus(0)


def test_tensors_and_locations_are_read_as_poptorch_stores_them():
    options = poptorch.Options().anchorTensor("a", "tensor_a").anchorTensor("b", "tensor_b")
    assert options.anchored_tensors == {"a": ["tensor_a", None, 1], "b": ["tensor_b", None, 1]}
    location = poptorch.TensorLocationSettings().useOnChipStorage(False)
    options.TensorLocations.setWeightLocation(location)
    location.useOnChipStorage(True)
    assert options.TensorLocations.location_weight == {"onChip": False}


def test_text_begins_with_the_class():
    assert repr(poptorch.Options().replicationFactor(4)).startswith("Options(device_iterations=1, repl")
