"""`poptorch.Options`: a table of settings, and the few that do more than keep a value as methods.

What was set can be read by the names PopTorch stores it under (`options.device_iterations`). Settings that
only mean something on an IPU are checked and kept like the others, and listed as having no effect here.
"""

from __future__ import annotations

import ast
import copy
import enum
import inspect
import json
import logging
import os
import re
from typing import Any, Callable

import torch

from . import enums
from .errors import ConfigFileError, InvalidSetting, offer_only, require_instance
from .processes import launched_as

_LOG = logging.getLogger("poptorch")

# Settings by group: the call as PopTorch has it, its annotations being what is checked, and what it does.
# They are read by the names of their arguments, or by those of _READ_AS.
_ACTING = {
    "Options": {
        "deviceIterations(device_iterations)": "Run this many mini-batches (training: steps) in one call.",
        "replicationFactor(replication_factor)": "Train as this many replicas, on mini-batches of their own.",
        "modelName(name)": "A name for the model, used for its entry in the executable cache.",
        "enableExecutableCaching(path)": "Keep compiled graphs in this directory, for the next process to "
        "start warm; None: do not.",
        "showCompilationProgressBar(show=True)": "Show a progress bar while compiling.",
        "relaxOptimizerAttributesChecks(relax=True)": "Do not warn about what the device leaves out of an "
        "optimiser.",
        "broadcastBuffers(broadcast_buffers=True)": "Whether replicas share buffers. With several, a model "
        "that writes buffers needs False.",
        "updatableNamedBuffers(buffers: list)": "Buffers that `copyNamedBuffersToDevice` may write.",
        "connectionType(connection_type: ConnectionType)": "When to attach to a device; a model with "
        "`ConnectionType.Never` can only be compiled.",
        "logCycleCount(log_cycle_count)": "Count the IPU's cycles; a model that should cannot run without.",
    },
    "Training": {
        "gradientAccumulation(gradient_accumulation)": "Add up this many mini-batches' gradients to a step.",
        "accumulationAndReplicationReductionType(reduction_type)": "Whether gradients of accumulated and "
        "replicated mini-batches are averaged, the default, or added.",
        "setMeanAccumulationAndReplicationReductionStrategy"
        "(mean_reduction_strategy: MeanReductionStrategy)": "When a mean over gradients is taken; in float32 "
        "it makes no difference.",
    },
}
# Those that only mean something on an IPU.
_KEPT = {
    "Options": {
        "sourceLocationExcludes(excludes)": "Paths left out of source locations in the compiler's log.",
        "appendToLocationExcludes(*excludes)": "Further paths left out of source locations.",
        "autoRoundNumIPUs(auto_round_num_ipus=True)": "Reserve the next power of two of IPUs.",
        "setExecutionStrategy(strategy: _Strategy)": "Share the model out among IPUs.",
        "logDir(log_dir)": "Where the IPU's logs go.",
        "maxRepeatLogs(max_lines)": "How many equal log lines to print.",
        "useIpuModel(use_model)": "Simulate an IPU.",
        "syncPattern(sync_pattern: SyncPattern)": "How IPUs wait for one another.",
        "useIpuId(ipu_id: int)": "Which IPU to use.",
        "enableStableNorm(enabled)": "Use the slower, stabler normalisation.",
        "enableSyntheticData(enabled)": "Measure without moving data.",
        "enableProfiling(profile_dir=None)": "Write a profile for the PopVision tools.",
        "disableModuleNamescope()": "Leave module names out of the compiled graph.",
        "setAvailableMemoryProportion(available_memory_proportion: dict)": "Memory of each IPU for scratch.",
        "inputReplicaGrouping(input_group_size, input_group_type: CommGroupType)": "Groups of replicas.",
    },
    "Training": {
        "setAutomaticLossScaling(enabled)": "Scale the loss of half-precision models by itself.",
        "setConvolutionDithering(enabled)": "Spread convolutions over tiles.",
    },
    "Precision": {
        "halfFloatCasting(half_float_casting)": "How mixed operands are cast; PopTorch ignores it.",
        "runningStatisticsAlwaysFloat(value: bool)": "Statistics in float32; PopTorch ignores it.",
        "enableFloatingPointExceptions(enabled: bool)": "Stop at an overflow or an invalid operation.",
        "enableStochasticRounding(enabled)": "Round half-precision results at random.",
        "setPartialsType(dtype: torch.dtype)": "The type of partial sums in matrix products.",
    },
    "Jit": {"traceModel(trace_model)": "PopTorch no longer traces with torch.jit: False only."},
    "_Popart": {
        "set(key, value)": "Set an option of the IPU's compiler.",
        "setEngineOptions(engine_options)": "Set options of the IPU's engine.",
        "setPatterns(patterns: dict, level: int = 2)": "Switch graph transformations of the compiler.",
    },
    "TensorLocations": {
        "numIOTiles(num_tiles: int)": "Tiles kept for input and output: even, 32 to 192.",
        "setActivationLocation(location: TensorLocationSettings)": "Where activations lie.",
        "setWeightLocation(location: TensorLocationSettings)": "Where weights lie.",
        "setOptimizerLocation(location: TensorLocationSettings)": "Where the optimiser's state lies.",
        "setAccumulatorLocation(location: TensorLocationSettings)": "Where gradient accumulators lie.",
    },
    "TensorLocationSettings": {
        "minElementsForOffChip(min_elements: int)": "Smaller tensors stay on the chip.",
        "minElementsForReplicatedTensorSharding(min_elements: int)": "Smaller tensors are not sharded.",
        "useOnChipStorage(use=True)": "Store on the chip.",
        "useReplicatedTensorSharding(use: bool = True)": "Share the tensor out among replicas.",
        "useIOTilesToLoad(use: bool = True)": "Load through tiles kept for input and output.",
        "useIOTilesToStore(use: bool = True)": "Store through tiles kept for input and output.",
    },
}
_READ_AS = {
    "modelName": "model_name",
    "enableExecutableCaching": "cachePath",
    "showCompilationProgressBar": "show_compilation_progress_bar",
    "relaxOptimizerAttributesChecks": "relax_optimizer_checks",
    "updatableNamedBuffers": "updatable_named_buffers",
    "accumulationAndReplicationReductionType": "accumulation_and_replication_reduction_type",
    "setMeanAccumulationAndReplicationReductionStrategy": "meanAccumulationAndReplicationReductionStrategy",
    "setActivationLocation": "location_activation",
    "setWeightLocation": "location_weight",
    "setOptimizerLocation": "location_optimizer",
    "setAccumulatorLocation": "location_accumulator",
    "useOnChipStorage": "onChip",
    **{name: name for name in ("minElementsForOffChip", "minElementsForReplicatedTensorSharding")},
    **{name: name for name in ("useReplicatedTensorSharding", "useIOTilesToLoad", "useIOTilesToStore")},
}
# What can be read before it is set, though it means nothing here.
_KEPT_DEFAULTS = {
    "log_dir": ".",
    "auto_round_num_ipus": False,
    "sync_pattern": enums.SyncPattern.Full,
    "available_memory_proportion": {},
    "anchored_tensors": {},
}


def _is_no_count(value: Any) -> bool:
    return isinstance(value, bool) or not isinstance(value, int) or value < 1


# Values that a setting refuses, by its name: a test of its arguments, and what it takes.
_COUNT = (_is_no_count, "an integer of at least 1")
_REFUSED = {
    "deviceIterations": _COUNT,
    "replicationFactor": _COUNT,
    "gradientAccumulation": _COUNT,
    "accumulationAndReplicationReductionType": (
        lambda kind: kind not in (enums.ReductionType.Sum, enums.ReductionType.Mean),
        "poptorch.ReductionType.Mean or .Sum",
    ),
    "traceModel": (lambda trace_model: trace_model, "False: tracing with torch.jit is no longer supported"),
    "setPartialsType": (
        lambda dtype: dtype not in (torch.float32, torch.float16),
        "torch.float or torch.half",
    ),
    "numIOTiles": (lambda tiles: tiles not in range(32, 193, 2), "an even number between 32 and 192"),
    "setAvailableMemoryProportion": (
        lambda proportion: any(not key.startswith("IPU") for key in proportion),
        "a dictionary such as {'IPU0': 0.5}",
    ),
    "inputReplicaGrouping": (
        lambda size, kind: (
            kind == enums.CommGroupType.All or (kind != enums.CommGroupType.NoGrouping and size != 1)
        ),
        "groups of one replica without an IPU",
    ),
}


class Settings:
    """A group of settings, changed by calling its setters, which return the group so that calls chain."""

    _title = ""

    def __init__(self, **defaults: Any) -> None:
        self.__dict__.update(_values=defaults, _kept={}, _kept_values={}, _is_frozen=False)

    def __init_subclass__(cls, title: str | None = None) -> None:
        if title is None:  # a user's own
            return
        cls._title = title
        for table in (_ACTING, _KEPT):
            for call, doc in table.get(title, {}).items():
                name, _, parameters = call.partition("(")
                setattr(cls, name, _setter(name, parameters[:-1], doc, acts=table is _ACTING))

    def exists(self, option: str) -> bool:
        """Whether this setting has a value."""
        return option in self._values or option in self._kept_values

    def checkIsFrozen(self, option: str | None = None) -> None:
        """Raise if these options are in use."""
        if self._is_frozen:
            raise AttributeError(
                f"{self._named(option)} cannot be changed: a model or a DataLoader already uses these "
                "options. Set it before, or change a copy: options.clone()."
            )

    def toDict(self) -> dict[str, Any]:
        """The settings of this group by the names they are read by."""
        return {**self._values, **self._kept_values}

    def _named(self, name: str | None = None) -> str:
        path = ["poptorch"] + (["Options"] if self._title in _GROUPS else []) + [self._title]
        return ".".join(path + ([name] if name else []))

    def _store(self, name: str, **values: Any) -> Any:
        self.checkIsFrozen(name)
        self._values.update(values)
        return self

    def _keep(self, name: str, given: dict[str, Any], values: dict[str, Any]) -> Any:
        self.checkIsFrozen(name)
        self._kept_values.update(values)
        self._kept[name] = next(iter(given.values())) if len(given) == 1 else given
        return self

    def __deepcopy__(self, memo: dict) -> Any:
        duplicate = type(self).__new__(type(self))
        memo[id(self)] = duplicate
        duplicate.__dict__.update(copy.deepcopy(self.__dict__, memo), _is_frozen=False)
        return duplicate

    def __getattr__(self, name: str) -> Any:
        own = self.__dict__
        for values in (own.get("_values", {}), own.get("_kept_values", {})):
            if name in values:
                return values[name]
        offer_only(self._named(), name, [*dir(type(self)), *own.get("_values", {})])

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith("_"):
            return super().__setattr__(name, value)
        if name in dir(type(self)):
            raise AttributeError(f"{self._named(name)} is set by calling it: {name}({value!r}).")
        if name not in self._values:
            offer_only(self._named(), name, [*dir(type(self)), *self._values])
        self._store(name, **{name: value})

    def __repr__(self) -> str:
        settings = [f"{name}={_shown(value)}" for name, value in self.toDict().items()]
        return f"{self._named()}({', '.join(settings)})"


def _setter(name: str, parameters: str, doc: str, acts: bool) -> Callable:
    """A setter that checks its arguments and keeps them."""
    known = {**vars(enums), "torch": torch}
    bare = inspect.signature(eval(f"lambda {re.sub(r':[^=,]+', '', parameters)}: None"))
    checks = dict(re.findall(r"(\w+): ([\w.]+)", parameters))

    def set_it(self, *args: Any, **kwargs: Any) -> Any:
        bound = bare.bind(*args, **kwargs)
        bound.apply_defaults()
        given = dict(bound.arguments)
        for argument, kind in checks.items():
            require_instance(self._named(name), given[argument], eval(kind, globals(), known))
        refuses, wanted = _REFUSED.get(name, (None, ""))
        if refuses is not None and refuses(*given.values()):
            got = ", ".join(map(repr, given.values()))
            raise InvalidSetting(f"{self._named(name)} must be {wanted} (got {got}).")
        values = {given["key"]: given["value"]} if "key" in given else given
        if name in _READ_AS:
            (value,) = given.values()
            values = {_READ_AS[name]: value.toDict() if isinstance(value, Settings) else value}
        return self._store(name, **values) if acts else self._keep(name, given, values)

    set_it.__name__, set_it.__doc__ = name, doc
    me = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    set_it.__signature__ = inspect.Signature([me, *bare.parameters.values()])
    return set_it


def _shown(value: Any) -> str:
    return value.name if isinstance(value, enum.Enum) else repr(value)


def _positive(name: str, value: Any) -> int:
    if _is_no_count(value):
        raise InvalidSetting(f"{name} must be an integer of at least 1 (got {value!r}).")
    return value


_GROUPS = ("Training", "Precision", "Jit", "_Popart", "Distributed", "TensorLocations")


class _TrainingOptions(Settings, title="Training"):
    """Options of training alone."""

    def __init__(self, popart_options: Settings) -> None:
        super().__init__(
            gradient_accumulation=1,
            accumulation_and_replication_reduction_type=enums.ReductionType.Mean,
            meanAccumulationAndReplicationReductionStrategy=enums.MeanReductionStrategy.Post,
        )


class _PrecisionOptions(Settings, title="Precision"):
    """Number formats on the IPU."""

    def __init__(self, popart_options: Settings) -> None:
        super().__init__()


class _JitOptions(Settings, title="Jit"):
    """How the model is traced."""


class _PopartOptions(Settings, title="_Popart"):
    """Options of the IPU's compiler."""

    def __init__(self) -> None:
        super().__init__()

    @property
    def options(self) -> dict[str, Any]:
        """What was set, by name."""
        return self._kept_values


class TensorLocationSettings(Settings, title="TensorLocationSettings"):
    """Where one kind of tensor lies on an IPU machine."""


class _TensorLocationOptions(Settings, title="TensorLocations"):
    """Where tensors lie on an IPU machine."""


class _DistributedOptions(Settings, title="Distributed"):
    """Which of several processes this is; the DataLoader gives each its share of the data."""

    def __init__(self) -> None:
        super().__init__()
        self.configureProcessId(*launched_as())

    def disable(self) -> _DistributedOptions:
        """Run as the only process, whatever the environment says."""
        return self.configureProcessId(0, 1)

    def setEnvVarNames(self, var_num_processes: str, var_process_id: str) -> _DistributedOptions:
        """Read the number of processes and this process's number from these variables; without them, 1 and
        0."""
        environ = os.environ
        return self.configureProcessId(
            int(environ.get(var_process_id, 0)), int(environ.get(var_num_processes, 1))
        )

    def configureProcessId(self, process_id: int, num_processes: int) -> _DistributedOptions:
        """This is process `process_id` of `num_processes`."""
        _positive("num_processes", num_processes)
        if not 0 <= process_id < num_processes:
            raise InvalidSetting(f"process_id must lie in 0..{num_processes - 1} (got {process_id!r}).")
        values = {"num_distributed_processes": num_processes, "distributed_process_id": process_id}
        return self._store("configureProcessId", **values)

    @property
    def processId(self) -> int:
        """The number of this process."""
        return self._values["distributed_process_id"]

    @property
    def numProcesses(self) -> int:
        """The number of processes."""
        return self._values["num_distributed_processes"]


class Options(Settings, title="Options"):
    """How a model is compiled and run. Setters return the options, so that calls chain.

    A setter that only means something on an IPU is kept and shown as having no effect here; a name that
    PopTorch does not have raises. Options in use by a model or DataLoader are frozen: change a `clone`.

    Example:
        >>> options = Options().deviceIterations(4)
        >>> options.Training.gradientAccumulation(2).gradient_accumulation
        2
        >>> options.device_iterations
        4
    """

    def __init__(self) -> None:
        super().__init__(
            device_iterations=1,
            replication_factor=1,
            output_mode=enums.OutputMode.Default,
            output_return_period=1,
            broadcast_buffers=True,
            connection_type=enums.ConnectionType.Always,
            show_compilation_progress_bar=True,
            relax_optimizer_checks=False,
            log_cycle_count=False,
            cachePath=os.environ.get("POPTORCH_CACHE_DIR") or None,
        )
        self._kept_values.update(copy.deepcopy(_KEPT_DEFAULTS))
        self._popart = _PopartOptions()
        self._jit = _JitOptions()
        self._precision = _PrecisionOptions(self._popart)
        self._training = _TrainingOptions(self._popart)
        self._distributed = _DistributedOptions()
        self._tensor_locations = _TensorLocationOptions()
        self.from_json(os.environ.get("POPTORCH_DEFAULT_OPTIONS") or "{}")

    TensorLocations = property(lambda self: self._tensor_locations, doc="Where tensors lie on an IPU.")
    Distributed = property(lambda self: self._distributed, doc="Which of several processes this is.")
    Jit = property(lambda self: self._jit, doc="How the model is traced.")
    Precision = property(lambda self: self._precision, doc="Number formats on the IPU.")
    Training = property(lambda self: self._training, doc="Options of training alone.")
    _execution_strategy = property(lambda self: self._kept_values.get("strategy") or PipelinedExecution())
    _Popart = property(lambda self: self._popart, doc="Options of the IPU's compiler.")

    def outputMode(self, output_mode: Any, output_return_period: int | None = None) -> Options:
        """Return the outputs of all mini-batches, the final one, every N-th one, or their sum."""
        require_instance("outputMode", output_mode, enums.OutputMode)
        if output_mode == enums.OutputMode.EveryN:
            _positive("output_return_period of OutputMode.EveryN", output_return_period)
        elif output_return_period:
            _LOG.info("output_return_period is ignored: outputMode is %s.", output_mode.name)
            output_return_period = None
        values = {"output_mode": output_mode, "output_return_period": output_return_period or 1}
        return self._store("outputMode", **values)

    def defaultOutputMode(self) -> bool:
        """Whether the output mode is the default one: All for inference, Final for training."""
        return self._values["output_mode"] == enums.OutputMode.Default

    def randomSeed(self, random_seed: int) -> Options:
        """Seed the random numbers of the device, and those of the host along with them."""
        if isinstance(random_seed, bool) or not isinstance(random_seed, int):
            raise InvalidSetting(f"randomSeed must be an integer (got {random_seed!r}).")
        self._store("randomSeed", random_seed=random_seed)
        torch.manual_seed(random_seed)
        return self

    def anchorTensor(
        self, short_name: str, long_name: str, output_mode: Any = None, output_return_period: int = 1
    ) -> Options:
        """Keep a tensor of the compiled graph, under a name of your own; only an IPU has them."""
        given = {name: value for name, value in locals().items() if name != "self"}
        anchored = {**self.anchored_tensors, short_name: [long_name, output_mode, output_return_period]}
        return self._keep("anchorTensor", given, {"anchored_tensors": anchored})

    def useOfflineIpuTarget(self, ipu_version: int = 2) -> Options:
        """Compile only, for a device that is not there."""
        values = {"ipu_version": ipu_version, "connection_type": enums.ConnectionType.Never}
        return self._store("useOfflineIpuTarget", **values)

    def from_json(self, string: str) -> Options:
        """Apply settings from a JSON object that maps setters to their argument, or to a list of arguments.

        Setters of a group are given dotted, enumerations by name. The environment variable
        `POPTORCH_DEFAULT_OPTIONS` is such a text, applied to all new options.

        Example:
            >>> text = '{"outputMode": "OutputMode.All", "Training.gradientAccumulation": 2}'
            >>> Options().from_json(text).Training.gradient_accumulation
            2
        """
        for name, value in json.loads(string).items():
            arguments = [_from_name(item) for item in (value if isinstance(value, list) else [value])]
            _resolve(self, name.split("."))(*arguments)
        return self

    def loadFromFile(self, filepath: str) -> Options:
        """Apply a file with one setter call a line, such as `Training.gradientAccumulation(2)`."""
        with open(filepath, encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                text = line.partition("#")[0].strip()
                if text:
                    _apply_line(self, text, number, os.path.basename(filepath))
        return self

    def toDict(self) -> dict[str, Any]:
        """All settings by the names they are read by, enumerations as integers."""
        values = values_of(self).items()
        return {name: int(value) if isinstance(value, enum.IntEnum) else value for name, value in values}

    def clone(self) -> Options:
        """A copy that may be changed."""
        return copy.deepcopy(self)

    def __repr__(self) -> str:
        kept = options_without_effect(self)
        acting = [f"{k}={_shown(v)}" for group in _groups(self).values() for k, v in group._values.items()]
        lines = [f"  {name}={_shown(value)}: no effect here" for name, value in kept.items()]
        return "\n".join([f"Options({', '.join(acting)})", *lines])


def _groups(options: Options) -> dict[str, Settings]:
    """The options themselves and the groups inside them, by the prefix of their setters."""
    return {"": options, **{f"{name}.": getattr(options, name) for name in _GROUPS}}


def freeze(options: Options) -> None:
    """Refuse any further change of these options; a copy may be changed."""
    for group in _groups(options).values():
        group._is_frozen = True


def values_of(options: Options) -> dict[str, Any]:
    """All settings, those of the groups included, by the names they are read by."""
    return {
        key: value for group in _groups(options).values() for key, value in Settings.toDict(group).items()
    }


def options_without_effect(options: Options) -> dict[str, Any]:
    """The settings that were made and change nothing without an IPU, by dotted setter name."""
    groups = _groups(options).items()
    return {prefix + name: value for prefix, group in groups for name, value in group._kept.items()}


def _resolve(options: Options, path: list[str]) -> Any:
    target: Any = options
    for name in path:
        target = getattr(target, name)
    return target


def _from_name(value: Any) -> Any:
    """The member of an enumeration that a text such as `"OutputMode.All"` names, or the value itself."""
    enumeration, _, member = value.partition(".") if isinstance(value, str) else ("", "", "")
    return getattr(enums, enumeration)[member] if enumeration in enums.__all__ else value


def _apply_line(options: Options, text: str, number: int, file: str) -> None:
    """Apply one setter call, given as text; only names, constants and PopTorch's own calls are evaluated."""
    try:
        call = ast.parse(text, mode="eval").body
        path = _dotted(call.func)
        path = path[1:] if path[0] in ("options", "opts") else path
        arguments, keywords = _arguments(call)
        _resolve(options, path)(*arguments, **keywords)
    except (SyntaxError, ValueError, TypeError, AttributeError, KeyError) as error:
        kind = type(error).__name__
        raise ConfigFileError(f"{kind} at line {number} of {file}: {error}\n> options.{text}") from error


def _dotted(node: ast.AST) -> list[str]:
    return [node.id] if isinstance(node, ast.Name) else [*_dotted(node.value), node.attr]


def _arguments(call: ast.Call) -> tuple[list, dict[str, Any]]:
    return [_constant(node) for node in call.args], {k.arg: _constant(k.value) for k in call.keywords}


def _constant(node: ast.AST) -> Any:
    if isinstance(node, ast.Call):  # a strategy, or where a tensor lies
        arguments, keywords = _arguments(node)
        known = {"TensorLocationSettings": TensorLocationSettings, **_STRATEGIES}
        return known[_dotted(node.func)[-1]](*arguments, **keywords)
    if isinstance(node, ast.Attribute):
        return _from_name(".".join(_dotted(node)[-2:]))
    return ast.literal_eval(node)


# How a model would be shared out among IPUs: kept, so that scripts run; without effect on a CPU.


class Stage:
    """Blocks that run together on one IPU."""

    def __init__(self, *block_ids: str) -> None:
        for name in block_ids:
            require_instance("A block's id", name, str)
        self._blocks, self._ipu = block_ids, None

    @property
    def blocks(self) -> tuple[str, ...]:
        """The names of the blocks."""
        return self._blocks

    def ipu(self, ipu: int) -> Stage:
        """Run on this IPU."""
        self._ipu = require_instance("ipu", ipu, int)
        return self


class Phase:
    """Stages that run at the same time."""

    def __init__(self, *arg: Any) -> None:
        self.stages = list(arg) if all(isinstance(item, Stage) for item in arg) else [Stage(*arg)]

    def stage(self, idx: int) -> Stage:
        """The stage at this place."""
        return self.stages[idx]

    def ipus(self, *ipus: int) -> None:
        """Run the stages on these IPUs, in order."""
        if len(ipus) != len(self.stages):
            raise InvalidSetting(
                f"A phase of {len(self.stages)} stages needs as many IPUs (got {len(ipus)})."
            )
        for stage, ipu in zip(self.stages, ipus):
            stage.ipu(ipu)


class _Strategy:
    """Takes stages, phases, lists of block names or block names, each block once."""

    _mode = 0

    def __init__(self, *args: Any) -> None:
        self._settings: dict[str, Any] = {}
        is_auto = bool(args) and isinstance(args[0], enums.AutoStage)
        self._auto_stage = args[0] if is_auto else enums.AutoStage.SameAsIpu
        self._parts = [] if is_auto else [self._part(arg) for arg in args]
        stages = [stage for part in self._parts for stage in getattr(part, "stages", [part])]
        self._stages: dict[str, Stage] = {}
        for stage in stages:
            for block in stage.blocks:
                if block in self._stages:
                    raise InvalidSetting(f"{block} is associated with more than one stage.")
                self._stages[block] = stage

    def _part(self, arg: Any) -> Any:
        return arg if isinstance(arg, Stage) else Stage(arg) if isinstance(arg, str) else Stage(*arg)

    def stage(self, block_id: str) -> Stage:
        """The stage of a block."""
        if block_id not in self._stages:
            raise InvalidSetting(f"Unknown block {block_id!r}; known are {', '.join(self._stages)}.")
        return self._stages[block_id]

    def backendOptions(self) -> dict[str, Any]:
        """What would be handed to the IPU's compiler."""
        return {"execution_mode": self._mode, **self._settings}


class PipelinedExecution(_Strategy):
    """Mini-batches follow one another through the IPUs."""


class ShardedExecution(PipelinedExecution):
    """One IPU after the other, one mini-batch at a time."""

    _mode = 1


class _Phased(_Strategy):
    _mode = 2

    def _part(self, arg: Any) -> Any:
        return arg if isinstance(arg, Phase) else Phase(*(arg if isinstance(arg, list) else [arg]))

    def phase(self, phase: int) -> Phase:
        """The phase of this number."""
        return self._parts[phase]

    def useSeparateBackwardPhase(self, use: bool = True) -> Any:
        """Give forward and backward phases of their own."""
        self._settings["separate_backward_phase"] = require_instance("use", use, bool)
        return self


class ParallelPhasedExecution(_Phased):
    """Phases that alternate between IPUs."""

    def sendTensorsOffChipAfterFwd(self, off_chip: bool = True) -> ParallelPhasedExecution:
        """Move tensors off the chip between forward and backward."""
        self._settings["tensors_liveness"] = int(require_instance("off_chip", off_chip, bool))
        return self


class SerialPhasedExecution(_Phased):
    """Phases one after the other on the same IPUs."""

    def setTensorsLiveness(self, liveness: enums.Liveness) -> SerialPhasedExecution:
        """Where tensors stay between phases."""
        self._settings["tensors_liveness"] = int(require_instance("liveness", liveness, enums.Liveness))
        return self


_STRATEGIES = {
    kind.__name__: kind
    for kind in (PipelinedExecution, ShardedExecution, ParallelPhasedExecution, SerialPhasedExecution)
}


def count_stages(options: Options, blocks: list[tuple]) -> int:
    """How many stages of a pipeline these blocks, each a name and an IPU, make; 0 if there is no pipeline."""
    strategy = options._execution_strategy
    if strategy._mode != PipelinedExecution._mode:
        return 0
    place = 0 if strategy._auto_stage == enums.AutoStage.AutoIncrement else 1
    return len(strategy._parts) or len({block[place] for block in blocks})
