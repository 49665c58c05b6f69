"""PopTorch's options: setters that can be chained, values that can be read, frozen at first use."""

import copy
import json
import os
import re

import torch

from . import enums
from ._names import CLASSES, method


class ConfigFileError(Exception):
    """A file of options that cannot be read."""


# What can be read before it was set; a setter takes values of the same type only.
_DEFAULTS = {
    "Options": {
        "replication_factor": 1,
        "input_group_size": 1,
        "input_cgt": enums.CommGroupType.Consecutive,
        "broadcast_buffers": True,
        "device_iterations": 1,
        "log_dir": ".",
        "max_repeat_logs": 4,
        "auto_round_num_ipus": False,
        "anchored_tensors": {},
        "output_mode": enums.OutputMode.Default,
        "output_return_period": 1,
        "connection_type": enums.ConnectionType.Always,
        "sync_pattern": enums.SyncPattern.Full,
        "available_memory_proportion": {},
    },
    "_TrainingOptions": {
        "gradient_accumulation": 1,
        "accumulation_and_replication_reduction_type": enums.ReductionType.Mean,
        "meanAccumulationAndReplicationReductionStrategy": enums.MeanReductionStrategy.Post,
    },
    "_DistributedOptions": {"num_distributed_processes": 1, "distributed_process_id": 0},
    "_JitOptions": {"trace_model": False},
}

# Where a setter's values go, if not under the names of its parameters.
_STORED_AS = {
    "accumulationAndReplicationReductionType": ["accumulation_and_replication_reduction_type"],
    "setMeanAccumulationAndReplicationReductionStrategy": ["meanAccumulationAndReplicationReductionStrategy"],
    "inputReplicaGrouping": ["input_group_size", "input_cgt"],
    "modelName": ["model_name"],
    "enableExecutableCaching": ["cache_path"],
    "maxRepeatLogs": ["max_repeat_logs"],
}

_AT_LEAST_ONE = {"device_iterations", "replication_factor", "gradient_accumulation"}


class _Settings:
    """A set of options: the values by name, and whether they may still change."""

    def __init__(self):
        self.__dict__["_values"] = copy.deepcopy(_DEFAULTS.get(type(self).__name__, {}))
        self.__dict__["_is_frozen"] = False

    def exists(self, option):
        return option in self._values

    def _set(self, **values):
        if self._is_frozen:
            raise AttributeError("Can't modify frozen Options")
        for name, value in values.items():
            if name in self._values and self._values[name] is not None:
                wanted = type(self._values[name])
                assert isinstance(value, wanted), (
                    f"Unexpected type {type(value)} for option {name}. Expected {wanted}"
                )
            assert name not in _AT_LEAST_ONE or value >= 1, f"{name} must be greater than 0"
            self._values[name] = value
        return self

    def _store(self, setter, arguments):
        values = [value for name, value in arguments.items() if name not in ("self", "to")]
        names = _STORED_AS.get(setter) or [name for name in arguments if name not in ("self", "to")]
        return self._set(
            **dict(zip(names or [re.sub(r"(?<!^)(?=[A-Z])", "_", setter).lower()], values or [True]))
        )

    def __getattr__(self, name):
        if name.startswith("__") or name not in self.__dict__.get("_values", {}):
            raise AttributeError(f"Invalid attribute {name}.")
        return self._values[name]

    def __setattr__(self, name, value):
        if name not in self._values:
            raise AttributeError(f"Invalid attribute {name}.")
        self._set(**{name: value})

    def __repr__(self):
        return (
            f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self._values.items())})"
        )


def _with_listed_setters(cls):
    """Adds to a class the setters that are in the table and not in its body."""
    for name, parameters in CLASSES[cls.__name__][1].items():
        if parameters != "property" and name not in cls.__dict__:
            setattr(cls, name, method(name, parameters, vars(enums), cls._store))
    return cls


@_with_listed_setters
class TensorLocationSettings(_Settings):
    pass


@_with_listed_setters
class _JitOptions(_Settings):
    def traceModel(self, trace_model):
        if trace_model:
            raise AttributeError("Tracing is no longer supported: leave traceModel out.")
        return self


@_with_listed_setters
class _PrecisionOptions(_Settings):
    def __init__(self, popart_options):
        super().__init__()


@_with_listed_setters
class _TrainingOptions(_Settings):
    def __init__(self, popart_options):
        super().__init__()


class _PopartOptions(_Settings):
    def checkIsFrozen(self, option=None):
        if self._is_frozen:
            raise AttributeError("Can't modify frozen Options")

    def set(self, key, value):
        return self._set(**{key: value})

    def setEngineOptions(self, engine_options):
        return self._set(engineOptions=engine_options)

    def setPatterns(self, patterns, level=2):
        return self._set(patterns=patterns, patternsLevel=level)


class _DistributedOptions(_Settings):
    def __init__(self):
        super().__init__()
        self.setEnvVarNames("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK")

    def disable(self):
        return self.configureProcessId(0, 1)

    def setEnvVarNames(self, var_num_processes, var_process_id):
        return self.configureProcessId(
            int(os.environ.get(var_process_id, "0")), int(os.environ.get(var_num_processes, "1"))
        )

    def configureProcessId(self, process_id, num_processes):
        return self._set(distributed_process_id=process_id, num_distributed_processes=num_processes)

    @property
    def processId(self):
        return self.distributed_process_id

    @property
    def numProcesses(self):
        return self.num_distributed_processes


@_with_listed_setters
class _TensorLocationOptions(_Settings):
    def numIOTiles(self, num_tiles):
        assert num_tiles == 0 or (32 <= num_tiles <= 192 and num_tiles % 2 == 0), (
            f"numIOTiles must be an even number between 32 and 192 (got {num_tiles})"
        )
        return self._set(numIOTiles=num_tiles)


class Stage:
    def __init__(self, *block_ids):
        self._blocks, self._ipu = list(block_ids), None

    @property
    def blocks(self):
        return self._blocks

    def ipu(self, ipu):
        self._ipu = ipu
        return self


class Phase:
    def __init__(self, *arg):
        self._stages = [stage if isinstance(stage, Stage) else Stage(stage) for stage in arg]

    def stage(self, idx):
        return self._stages[idx]

    def ipus(self, *ipus):
        for stage, ipu in zip(self._stages, ipus):
            stage.ipu(ipu)


class _Strategy:
    def backendOptions(self):
        return {}


class PipelinedExecution(_Strategy):
    def __init__(self, *args):
        self._stages = args


class ShardedExecution(PipelinedExecution):
    pass


class SerialPhasedExecution(_Strategy):
    def __init__(self, *phases):
        self._phases = phases

    def setTensorsLiveness(self, liveness):
        return self


class ParallelPhasedExecution(_Strategy):
    def __init__(self, *phases):
        self._phases = phases

    def sendTensorsOffChipAfterFwd(self, off_chip=True):
        return self


@_with_listed_setters
class Options(_Settings):
    def __init__(self):
        super().__init__()
        popart = _PopartOptions()
        self.__dict__.update(
            _Popart=popart,
            _groups={
                "Jit": _JitOptions(),
                "Precision": _PrecisionOptions(popart),
                "Training": _TrainingOptions(popart),
                "Distributed": _DistributedOptions(),
                "TensorLocations": _TensorLocationOptions(),
            },
            _shows_progress=True,
        )
        self.from_json(os.environ.get("POPTORCH_DEFAULT_OPTIONS", "{}"))

    TensorLocations = property(lambda self: self._groups["TensorLocations"])
    Distributed = property(lambda self: self._groups["Distributed"])
    Jit = property(lambda self: self._groups["Jit"])
    Precision = property(lambda self: self._groups["Precision"])
    Training = property(lambda self: self._groups["Training"])

    def _freeze(self):
        for settings in (self, self._Popart, *self._groups.values()):
            settings.__dict__["_is_frozen"] = True

    def from_json(self, string):
        for path, value in json.loads(string).items():
            target = self
            for name in path.split("."):
                target = getattr(target, name)
            values = value if isinstance(value, list) else [value]
            target(*map(_enum_by_name, values))
        return self

    def loadFromFile(self, filepath):
        with open(filepath) as file:
            lines = [line.strip() for line in file]
        for number, line in enumerate(lines, 1):
            try:
                exec(f"options.{line}" if line else "", {"options": self, "poptorch": enums, "torch": torch})
            except Exception as error:
                raise ConfigFileError(f"{filepath}, line {number}: {line!r}: {error}") from error
        return self

    def showCompilationProgressBar(self, show=True):
        self.__dict__["_shows_progress"] = show
        return self

    def setExecutionStrategy(self, strategy):
        assert isinstance(strategy, _Strategy)
        return self._set(execution_strategy=strategy)

    def outputMode(self, output_mode, output_return_period=None):
        assert isinstance(output_mode, enums.OutputMode)
        period = 1
        if output_mode == enums.OutputMode.EveryN:
            assert (output_return_period or 0) > 0, "EveryN needs an output_return_period above 0"
            period = output_return_period
        return self._set(output_mode=output_mode, output_return_period=period)

    def defaultOutputMode(self):
        return self.output_mode == enums.OutputMode.Default

    def randomSeed(self, random_seed):
        assert isinstance(random_seed, int)
        torch.manual_seed(random_seed)
        return self._set(random_seed=random_seed)

    def anchorTensor(self, short_name, long_name, output_mode=None, output_return_period=1):
        self.anchored_tensors[short_name] = [long_name, output_mode, output_return_period]
        return self

    def toDict(self):
        assert not self.defaultOutputMode(), "The output mode is chosen by the wrapper of a model"
        return {
            **self._values,
            **{name: value for group in self._groups.values() for name, value in group._values.items()},
        }

    def clone(self):
        other = copy.deepcopy(self)
        for settings in (other, other._Popart, *other._groups.values()):
            settings.__dict__["_is_frozen"] = False
        return other


def _enum_by_name(value):
    if isinstance(value, str) and value.count(".") == 1:
        kind, member = value.split(".")
        return getattr(getattr(enums, kind, None), member, value)
    return value
