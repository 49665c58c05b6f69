"""`poptorch.Options`: a table of settings, and the few that do more than keep a value as methods.

What was set can be read by the names PopTorch stores it under (`options.device_iterations`). Settings that
only mean something on an IPU are checked and kept like the others, and listed as having no effect here.
"""

from __future__ import annotations

import ast
import builtins
import copy
import enum
import inspect
import json
import logging
import operator
import os
from typing import Any, Callable

import torch

from . import enums
from .errors import ConfigFileError, InvalidSetting, offer_only, require_instance
from .processes import launched_as

_LOG = logging.getLogger("poptorch")

# Settings by group: the call as PopTorch has it, and what it does. What an argument must be is a type or a
# row of _CHECKS. A value is read by its argument's name, or by the one behind the arrow ("=": the setter's).
_ACTING = {
    "Options": {
        "deviceIterations(device_iterations: count)": "Mini-batches (training: steps) in a call.",
        "replicationFactor(replication_factor: count)": "Train as this many replicas, each on its own data.",
        "modelName(name) -> model_name": "A name for the model, used for its entry in the executable cache.",
        "enableExecutableCaching(path) -> cachePath": "Keep compiled graphs here; None: do not.",
        "showCompilationProgressBar(show=True) -> show_compilation_progress_bar": "Show a progress bar.",
        "relaxOptimizerAttributesChecks(relax=True) -> relax_optimizer_checks": "Do not warn about what the "
        "device leaves out of an optimiser.",
        "broadcastBuffers(broadcast_buffers=True)": "Whether replicas share buffers. With several, a model "
        "that writes buffers needs False.",
        "updatableNamedBuffers(buffers: list) -> updatable_named_buffers": "Buffers that "
        "`copyNamedBuffersToDevice` may write.",
        "connectionType(connection_type: ConnectionType)": "When to attach to a device; a model with "
        "`ConnectionType.Never` can only be compiled.",
        "logCycleCount(log_cycle_count)": "Count the IPU's cycles; a model that should cannot run without.",
    },
    "Training": {
        "gradientAccumulation(gradient_accumulation: count)": "Add up this many gradients for a step.",
        "accumulationAndReplicationReductionType(reduction_type: mean_or_sum)"
        " -> accumulation_and_replication_reduction_type": "Whether these gradients are averaged or added.",
        "setMeanAccumulationAndReplicationReductionStrategy(mean_reduction_strategy: MeanReductionStrategy)"
        " -> meanAccumulationAndReplicationReductionStrategy": "When a mean is taken; all one in float32.",
    },
}
# Those that only mean something on an IPU.
_LOCATION = "Location(location: TensorLocationSettings) -> location_"
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
        "setAvailableMemoryProportion(available_memory_proportion: by_ipu)": "Memory for scratch.",
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
        "setPartialsType(dtype: float_or_half)": "The type of partial sums in matrix products.",
    },
    "Jit": {"traceModel(trace_model: untraced)": "PopTorch no longer traces with torch.jit: False only."},
    "_Popart": {
        "set(key, value)": "Set an option of the IPU's compiler.",
        "setEngineOptions(engine_options)": "Set options of the IPU's engine.",
        "setPatterns(patterns: dict, level: int = 2)": "Switch graph transformations of the compiler.",
    },
    "TensorLocations": {
        "numIOTiles(num_tiles: io_tiles)": "Tiles kept for input and output: even, 32 to 192.",
        f"setActivation{_LOCATION}activation": "Where activations lie.",
        f"setWeight{_LOCATION}weight": "Where weights lie.",
        f"setOptimizer{_LOCATION}optimizer": "Where the optimiser's state lies.",
        f"setAccumulator{_LOCATION}accumulator": "Where gradient accumulators lie.",
    },
    "TensorLocationSettings": {
        "minElementsForOffChip(min_elements: int) -> =": "Smaller tensors stay on the chip.",
        "minElementsForReplicatedTensorSharding(min_elements: int) -> =": "Smaller tensors are not sharded.",
        "useOnChipStorage(use=True) -> onChip": "Store on the chip.",
        "useReplicatedTensorSharding(use: bool = True) -> =": "Share the tensor out among replicas.",
        "useIOTilesToLoad(use: bool = True) -> =": "Load through tiles kept for that.",
        "useIOTilesToStore(use: bool = True) -> =": "Store through tiles kept for that.",
    },
}


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


# What an argument must be, where a type does not say it: a test, and the words for it.
_CHECKS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "integer": (_is_integer, "an integer"),
    "count": (lambda value: _is_integer(value) and value >= 1, "an integer of at least 1"),
    "io_tiles": (lambda v: _is_integer(v) and v in range(32, 193, 2), "an even number between 32 and 192"),
    "untraced": (operator.not_, "False: tracing with torch.jit is no longer supported"),
    "float_or_half": (lambda dtype: dtype in (torch.float32, torch.float16), "torch.float or torch.half"),
    "mean_or_sum": (
        lambda kind: kind in (enums.ReductionType.Sum, enums.ReductionType.Mean),
        "poptorch.ReductionType.Mean or .Sum",
    ),
    "by_ipu": (
        lambda value: isinstance(value, dict) and all(key.startswith("IPU") for key in value),
        "a dictionary such as {'IPU0': 0.5}",
    ),
}


def _require(what: str, kind: str, value: Any) -> None:
    """Raise unless `value` is what a row of `_CHECKS`, or a type by name, asks for."""
    if kind not in _CHECKS:
        types = {**vars(builtins), **globals(), **vars(enums)}
        require_instance(what, value, types[kind])
    elif not _CHECKS[kind][0](value):
        raise InvalidSetting(f"{what} must be {_CHECKS[kind][1]} (got {value!r}).")


class Settings:
    """A group of settings, changed by calling its setters, which return the group so that calls chain."""

    _title = ""
    # By the names they are read by: those that act, and those that only mean something on an IPU. The latter
    # also by setter, as they were given.
    _values: dict[str, Any]
    _kept_values: dict[str, Any]
    _kept: dict[str, Any]
    _is_frozen: bool

    def __init__(self, **defaults: Any) -> None:
        self.__dict__.update(_values=defaults, _kept={}, _kept_values={}, _is_frozen=False)

    def __init_subclass__(cls, title: str | None = None) -> None:
        if title is None:  # a user's own
            return
        cls._title = title
        for table in (_ACTING, _KEPT):
            for call, doc in table.get(title, {}).items():
                setter = _setter(call, doc, acts=table is _ACTING)
                setattr(cls, setter.__name__, setter)

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

    def _store(self, setter: str, values: dict[str, Any]) -> Any:
        self.checkIsFrozen(setter)
        self._values.update(values)
        return self

    def _keep(self, setter: str, values: dict[str, Any], given: dict[str, Any]) -> Any:
        self.checkIsFrozen(setter)
        self._kept_values.update(values)
        self._kept[setter] = next(iter(given.values())) if len(given) == 1 else given
        return self

    def __deepcopy__(self, memo: dict) -> Any:
        duplicate = type(self).__new__(type(self))
        memo[id(self)] = duplicate
        duplicate.__dict__.update(copy.deepcopy(self.__dict__, memo), _is_frozen=False)
        return duplicate

    def __getattr__(self, name: str) -> Any:
        known = {**self.__dict__.get("_kept_values", {}), **self.__dict__.get("_values", {})}
        if name in known:
            return known[name]
        offer_only(self._named(), name, [*dir(type(self)), *self.__dict__.get("_values", {})])

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith("_"):
            return super().__setattr__(name, value)
        if name in dir(type(self)):
            raise AttributeError(f"{self._named(name)} is set by calling it: {name}({value!r}).")
        if name not in self._values:
            offer_only(self._named(), name, [*dir(type(self)), *self._values])
        self._store(name, {name: value})

    def __repr__(self) -> str:
        return f"{self._named()}({', '.join(_shown(self.toDict()))})"


def _shown(values: dict[str, Any]) -> list[str]:
    return [f"{k}={v.name if isinstance(v, enum.Enum) else repr(v)}" for k, v in values.items()]


def _setter(call: str, doc: str, acts: bool) -> Callable:
    """The setter of a row: it checks its arguments and keeps them."""
    head, _, read_as = call.partition(" -> ")
    name, _, parameters = head.partition("(")
    made: dict[str, Any] = {}
    exec(f"def {name}(self, {parameters}: pass", {}, made)  # for its signature, checks being annotations
    signature = inspect.signature(made[name])

    def set_it(self: Settings, *args: Any, **kwargs: Any) -> Any:
        bound = signature.bind(self, *args, **kwargs)
        bound.apply_defaults()
        given = {key: value for key, value in bound.arguments.items() if key != "self"}
        for argument, value in given.items():
            if signature.parameters[argument].annotation is not inspect.Parameter.empty:
                _require(self._named(name), signature.parameters[argument].annotation, value)
        values = {given["key"]: given["value"]} if "key" in given else given
        if read_as:
            (value,) = given.values()
            values = {read_as.replace("=", name): value.toDict() if isinstance(value, Settings) else value}
        return self._store(name, values) if acts else self._keep(name, values, given)

    set_it.__name__, set_it.__doc__ = name, doc
    set_it.__signature__ = signature  # type: ignore[attr-defined]
    return set_it


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

    options = property(lambda self: self._kept_values, doc="What was set, by name.")

    def __init__(self) -> None:
        super().__init__()


class TensorLocationSettings(Settings, title="TensorLocationSettings"):
    """Where one kind of tensor lies on an IPU machine."""


class _TensorLocationOptions(Settings, title="TensorLocations"):
    """Where tensors lie on an IPU machine."""


class _DistributedOptions(Settings, title="Distributed"):
    """Which of several processes this is; the DataLoader gives each its share of the data."""

    processId = property(lambda self: self._values["distributed_process_id"], doc="This process's number.")
    numProcesses = property(lambda self: self._values["num_distributed_processes"], doc="How many there are.")

    def __init__(self) -> None:
        super().__init__()
        self.configureProcessId(*launched_as())

    def disable(self) -> _DistributedOptions:
        """Run as the only process, whatever the environment says."""
        return self.configureProcessId(0, 1)

    def setEnvVarNames(self, var_num_processes: str, var_process_id: str) -> _DistributedOptions:
        """Read the number of processes and this process's number from these variables; without them, 1 and
        0."""
        number, count = os.environ.get(var_process_id, 0), os.environ.get(var_num_processes, 1)
        return self.configureProcessId(int(number), int(count))

    def configureProcessId(self, process_id: int, num_processes: int) -> _DistributedOptions:
        """This is process `process_id` of `num_processes`."""
        _require("num_processes", "count", num_processes)
        if not 0 <= process_id < num_processes:
            raise InvalidSetting(f"process_id must lie in 0..{num_processes - 1} (got {process_id!r}).")
        values = {"num_distributed_processes": num_processes, "distributed_process_id": process_id}
        return self._store("configureProcessId", values)


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
        # What can be read before it is set, though it means nothing here.
        self._kept_values.update(log_dir=".", auto_round_num_ipus=False, sync_pattern=enums.SyncPattern.Full)
        self._kept_values.update(available_memory_proportion={}, anchored_tensors={})
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
        _require("outputMode", "OutputMode", output_mode)
        if output_mode == enums.OutputMode.EveryN:
            _require("output_return_period of OutputMode.EveryN", "count", output_return_period)
        elif output_return_period:
            _LOG.info("output_return_period is ignored: outputMode is %s.", output_mode.name)
            output_return_period = None
        values = {"output_mode": output_mode, "output_return_period": output_return_period or 1}
        return self._store("outputMode", values)

    def defaultOutputMode(self) -> bool:
        """Whether the output mode is the default one: All for inference, Final for training."""
        return self._values["output_mode"] == enums.OutputMode.Default

    def randomSeed(self, random_seed: int) -> Options:
        """Seed the random numbers of the device, and those of the host along with them."""
        _require("randomSeed", "integer", random_seed)
        self._store("randomSeed", {"random_seed": random_seed})
        torch.manual_seed(random_seed)
        return self

    def anchorTensor(
        self, short_name: str, long_name: str, output_mode: Any = None, output_return_period: int = 1
    ) -> Options:
        """Keep a tensor of the compiled graph, under a name of your own; only an IPU has them."""
        given = {name: value for name, value in locals().items() if name != "self"}
        anchored = {**self.anchored_tensors, short_name: [long_name, output_mode, output_return_period]}
        return self._keep("anchorTensor", {"anchored_tensors": anchored}, given)

    def inputReplicaGrouping(self, input_group_size: int, input_group_type: enums.CommGroupType) -> Options:
        """Groups of replicas that share inputs."""
        _require("inputReplicaGrouping", "CommGroupType", input_group_type)
        types = enums.CommGroupType
        is_alone = input_group_type == types.NoGrouping or input_group_size == 1
        if not is_alone or input_group_type == types.All:
            raise InvalidSetting(
                "poptorch.Options.inputReplicaGrouping must be groups of one replica without an IPU (got "
                f"{input_group_size}, {input_group_type!r})."
            )
        given = {"input_group_size": input_group_size, "input_group_type": input_group_type}
        return self._keep("inputReplicaGrouping", given, given)

    def useOfflineIpuTarget(self, ipu_version: int = 2) -> Options:
        """Compile only, for a device that is not there."""
        values = {"ipu_version": ipu_version, "connection_type": enums.ConnectionType.Never}
        return self._store("useOfflineIpuTarget", values)

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
            arguments = value if isinstance(value, list) else [value]
            for place, item in enumerate(arguments):
                enumeration, _, member = item.partition(".") if isinstance(item, str) else ("", "", "")
                if enumeration in enums.__all__:
                    arguments[place] = getattr(enums, enumeration)[member]
            operator.attrgetter(name)(self)(*arguments)
        return self

    def loadFromFile(self, filepath: str) -> Options:
        """Apply a file with one setter call a line, such as `Training.gradientAccumulation(2)`."""
        with open(filepath, encoding="utf-8") as file:
            lines = [line.partition("#")[0].strip() for line in file]
        for number, text in enumerate(lines, 1):
            try:
                if text:
                    is_whole = text.startswith(("options.", "opts."))
                    call = ast.parse(text if is_whole else f"options.{text}", mode="eval").body
                    _evaluate(call, {"options": self, "opts": self})
            except (SyntaxError, ValueError, TypeError, AttributeError, KeyError) as error:
                raise ConfigFileError(
                    f"{type(error).__name__} at line {number} of {os.path.basename(filepath)}: {error}\n"
                    f"> options.{text}"
                ) from error
        return self

    def toDict(self) -> dict[str, Any]:
        """All settings by the names they are read by, enumerations as integers."""
        values = values_of(self).items()
        return {name: int(value) if isinstance(value, enum.IntEnum) else value for name, value in values}

    def clone(self) -> Options:
        """A copy that may be changed."""
        return copy.deepcopy(self)

    def __repr__(self) -> str:
        acting = [text for group in _groups(self).values() for text in _shown(group._values)]
        without_effect = [f"  {text}: no effect here" for text in _shown(options_without_effect(self))]
        return "\n".join([f"Options({', '.join(acting)})", *without_effect])


def _groups(options: Options) -> dict[str, Settings]:
    """The options themselves and the groups inside them, by the prefix of their setters."""
    return {"": options, **{f"{name}.": getattr(options, name) for name in _GROUPS}}


def freeze(options: Options) -> None:
    """Refuse any further change of these options; a copy may be changed."""
    for group in _groups(options).values():
        group._is_frozen = True


def values_of(options: Options) -> dict[str, Any]:
    """All settings, those of the groups included, by the names they are read by."""
    groups = _groups(options).values()
    return {key: value for group in groups for key, value in Settings.toDict(group).items()}


def options_without_effect(options: Options) -> dict[str, Any]:
    """The settings that were made and change nothing without an IPU, by dotted setter name."""
    groups = _groups(options).items()
    return {prefix + name: value for prefix, group in groups for name, value in group._kept.items()}


def _evaluate(node: ast.expr, own: dict[str, Any]) -> Any:
    """What a line of an options file says: constants, PopTorch's names, their members and calls of them, and
    nothing else."""
    if isinstance(node, ast.Call):
        arguments = [_evaluate(argument, own) for argument in node.args]
        keywords = {k.arg: _evaluate(k.value, own) for k in node.keywords if k.arg is not None}
        return _evaluate(node.func, own)(*arguments, **keywords)
    if isinstance(node, ast.Attribute):
        if isinstance(node.value, ast.Name) and node.value.id == "poptorch":
            return _evaluate(ast.Name(node.attr), own)
        if node.attr.startswith("_") and node.attr != "_Popart":
            raise AttributeError(f"{node.attr} is no setting")
        return getattr(_evaluate(node.value, own), node.attr)
    if isinstance(node, ast.Name):
        known = {kind.__name__: kind for kind in (TensorLocationSettings, Stage, Phase, *_STRATEGIES)}
        return {**{name: getattr(enums, name) for name in enums.__all__}, **known, **own}[node.id]
    return ast.literal_eval(node)


# How a model would be shared out among IPUs: kept, so that scripts run; without effect on a CPU.


class Stage:
    """Blocks that run together on one IPU."""

    blocks = property(lambda self: self._blocks, doc="The names of the blocks.")

    def __init__(self, *block_ids: str) -> None:
        for name in block_ids:
            require_instance("A block's id", name, str)
        self._blocks = block_ids
        self._ipu: int | None = None

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
            wanted = len(self.stages)
            raise InvalidSetting(f"A phase of {wanted} stages needs as many IPUs (got {len(ipus)}).")
        for stage, ipu in zip(self.stages, ipus):
            stage.ipu(ipu)


class _Strategy:
    """Takes stages, phases, lists of block names or block names, each block once."""

    _mode = 0
    _part_type: Any = Stage

    def __init__(self, *args: Any) -> None:
        self._settings: dict[str, Any] = {}
        is_auto = bool(args) and isinstance(args[0], enums.AutoStage)
        self._auto_stage = args[0] if is_auto else enums.AutoStage.SameAsIpu
        kind = self._part_type
        self._parts = [
            arg if isinstance(arg, kind) else kind(*([arg] if isinstance(arg, (str, Stage)) else arg))
            for arg in (() if is_auto else args)
        ]
        self._stages: dict[str, Stage] = {}
        for stage in [stage for part in self._parts for stage in getattr(part, "stages", [part])]:
            for block in stage.blocks:
                if block in self._stages:
                    raise InvalidSetting(f"{block} is associated with more than one stage.")
                self._stages[block] = stage

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
    _part_type = Phase

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


_STRATEGIES = (PipelinedExecution, ShardedExecution, ParallelPhasedExecution, SerialPhasedExecution)


def count_stages(options: Options, blocks: list[tuple]) -> int:
    """How many stages of a pipeline these blocks, each a name and an IPU, make; 0 if there is no pipeline."""
    strategy = options._execution_strategy
    if strategy._mode != PipelinedExecution._mode:
        return 0
    place = 0 if strategy._auto_stage == enums.AutoStage.AutoIncrement else 1
    return len(strategy._parts) or len({block[place] for block in blocks})
