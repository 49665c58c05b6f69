"""``poptorch.Options``: how a model is compiled and run."""

from __future__ import annotations

import ast
import copy
import enum
import json
import os
from typing import Any, Iterable

import torch

from . import enums
from ._settings import Settings, kept_by, kept_setter, positive, setter, unfreeze, values_of
from .errors import ConfigFileError


class _JitOptions(Settings):
    """How the model is traced."""

    def __init__(self) -> None:
        super().__init__("Options.Jit", {})

    @kept_setter
    def traceModel(self, trace_model: bool) -> _JitOptions:
        """Trace with torch.jit instead of the dispatcher."""


class _PrecisionOptions(Settings):
    """Number formats on the IPU."""

    def __init__(self, popart_options: _PopartOptions) -> None:
        super().__init__("Options.Precision", {})

    @kept_setter
    def halfFloatCasting(self, half_float_casting: enums.HalfFloatCastingBehavior) -> _PrecisionOptions:
        """How operands of mixed precision are cast."""

    @kept_setter
    def runningStatisticsAlwaysFloat(self, value: bool) -> _PrecisionOptions:
        """Keep running means and variances in float32."""

    @kept_setter
    def enableFloatingPointExceptions(self, enabled: bool) -> _PrecisionOptions:
        """Stop at a floating-point exception."""

    @kept_setter
    def enableStochasticRounding(self, enabled: bool) -> _PrecisionOptions:
        """Round stochastically."""

    @kept_setter
    def setPartialsType(self, dtype: torch.dtype) -> _PrecisionOptions:
        """The type of partial results of matrix products and convolutions."""


class _TrainingOptions(Settings):
    """Options of training alone."""

    def __init__(self, popart_options: _PopartOptions) -> None:
        defaults = {
            "gradient_accumulation": 1,
            "accumulation_and_replication_reduction_type": enums.ReductionType.Mean,
        }
        super().__init__("Options.Training", defaults)

    @setter
    def gradientAccumulation(self, gradient_accumulation: int) -> _TrainingOptions:
        """Add up the gradients of this many mini-batches before each optimiser step."""
        self._store(gradient_accumulation=positive("gradientAccumulation", gradient_accumulation))

    @setter
    def accumulationAndReplicationReductionType(
        self, reduction_type: enums.ReductionType
    ) -> _TrainingOptions:
        """Bring gradients together by their mean (the default) or their sum."""
        allowed = (enums.ReductionType.Mean, enums.ReductionType.Sum)
        if reduction_type not in allowed or not isinstance(reduction_type, enums.ReductionType):
            raise ValueError(
                f"The reduction type must be poptorch.ReductionType.Mean or Sum (got {reduction_type!r})."
            )
        self._store(accumulation_and_replication_reduction_type=reduction_type)

    @kept_setter
    def setMeanAccumulationAndReplicationReductionStrategy(
        self, mean_reduction_strategy: enums.MeanReductionStrategy
    ) -> _TrainingOptions:
        """When the mean is taken; the weights differ by rounding only."""

    @kept_setter
    def setAutomaticLossScaling(self, enabled: bool) -> _TrainingOptions:
        """Scale the loss automatically, for half precision."""

    @kept_setter
    def setConvolutionDithering(self, enabled: bool) -> _TrainingOptions:
        """Spread convolutions over tiles."""


class _PopartOptions(Settings):
    """Options handed to the IPU's compiler as they are."""

    def __init__(self) -> None:
        super().__init__("Options._Popart", {})

    def checkIsFrozen(self, option: str | None = None) -> None:
        """Raise if the options are in use already."""
        self._refuse_if_frozen(option or "set")

    @setter
    def set(self, key: str, value: Any) -> _PopartOptions:
        """Keep one compiler option."""
        self._kept[f"set({key})"] = value

    @kept_setter
    def setEngineOptions(self, engine_options: dict[str, str]) -> _PopartOptions:
        """Options of the Poplar engine."""

    @kept_setter
    def setPatterns(self, patterns: dict[str, bool], level: int = 2) -> _PopartOptions:
        """Switch graph transformations of the compiler."""


class _DistributedOptions(Settings):
    """Which of several processes this is; the DataLoader gives each its share of the data."""

    def __init__(self) -> None:
        defaults = {"num_distributed_processes": 1, "distributed_process_id": 0}
        super().__init__("Options.Distributed", defaults)

    @setter
    def disable(self) -> _DistributedOptions:
        """Run as the only process, whatever the environment says."""
        self._store(num_distributed_processes=1, distributed_process_id=0)

    @setter
    def setEnvVarNames(self, var_num_processes: str, var_process_id: str) -> _DistributedOptions:
        """Read the number of processes and this process's number from these environment variables."""
        missing = [name for name in (var_num_processes, var_process_id) if name not in os.environ]
        if missing:
            raise ValueError(f"The environment variable {' and '.join(missing)} is not set.")
        self._configure(int(os.environ[var_process_id]), int(os.environ[var_num_processes]))

    @setter
    def configureProcessId(self, process_id: int, num_processes: int) -> _DistributedOptions:
        """This is process ``process_id`` of ``num_processes``."""
        self._configure(process_id, num_processes)

    def _configure(self, process_id: int, num_processes: int) -> None:
        positive("num_processes", num_processes)
        if not 0 <= process_id < num_processes:
            raise ValueError(f"process_id must lie in 0..{num_processes - 1} (got {process_id!r}).")
        self._store(num_distributed_processes=num_processes, distributed_process_id=process_id)

    @property
    def processId(self) -> int:
        """The number of this process."""
        return self._values["distributed_process_id"]

    @property
    def numProcesses(self) -> int:
        """The number of processes."""
        return self._values["num_distributed_processes"]


class TensorLocationSettings(Settings):
    """Where one kind of tensor lies on an IPU machine."""

    def __init__(self) -> None:
        super().__init__("TensorLocationSettings", {})

    @kept_setter
    def minElementsForOffChip(self, min_elements: int) -> TensorLocationSettings:
        """Smaller tensors stay on the chip."""

    @kept_setter
    def minElementsForReplicatedTensorSharding(self, min_elements: int) -> TensorLocationSettings:
        """Smaller tensors are not sharded."""

    @kept_setter
    def useOnChipStorage(self, use: bool = True) -> TensorLocationSettings:
        """Store on the chip."""

    @kept_setter
    def useReplicatedTensorSharding(self, use: bool = True) -> TensorLocationSettings:
        """Share the tensor out among replicas."""

    @kept_setter
    def useIOTilesToLoad(self, use: bool = True) -> TensorLocationSettings:
        """Load through tiles kept for input and output."""

    @kept_setter
    def useIOTilesToStore(self, use: bool = True) -> TensorLocationSettings:
        """Store through tiles kept for input and output."""


class _TensorLocationOptions(Settings):
    """Where tensors lie on an IPU machine."""

    def __init__(self) -> None:
        super().__init__("Options.TensorLocations", {})

    @kept_setter
    def numIOTiles(self, num_tiles: int) -> _TensorLocationOptions:
        """Tiles kept for input and output."""

    @kept_setter
    def setActivationLocation(self, location: TensorLocationSettings) -> _TensorLocationOptions:
        """Where activations lie."""

    @kept_setter
    def setWeightLocation(self, location: TensorLocationSettings) -> _TensorLocationOptions:
        """Where weights lie."""

    @kept_setter
    def setOptimizerLocation(self, location: TensorLocationSettings) -> _TensorLocationOptions:
        """Where the optimiser's state lies."""

    @kept_setter
    def setAccumulatorLocation(self, location: TensorLocationSettings) -> _TensorLocationOptions:
        """Where gradient accumulators lie."""


class Options(Settings):
    """How a model is compiled and run. Setters return the options, so that calls chain.

    A setter that only means something on an IPU is kept and shown as having no effect here; a name that
    PopTorch does not have raises. Options in use by a model or DataLoader are frozen: change a :meth:`clone`.
    """

    def __init__(self) -> None:
        defaults = {
            "device_iterations": 1,
            "replication_factor": 1,
            "output_mode": enums.OutputMode.Default,
            "output_return_period": 1,
            "random_seed": None,
            "model_name": None,
            "cache_path": None,
            "show_compilation_progress_bar": True,
        }
        super().__init__("Options", defaults)
        self._Popart = _PopartOptions()
        self._jit = _JitOptions()
        self._precision = _PrecisionOptions(self._Popart)
        self._training = _TrainingOptions(self._Popart)
        self._distributed = _DistributedOptions()
        self._tensor_locations = _TensorLocationOptions()

    # Groups

    @property
    def TensorLocations(self) -> _TensorLocationOptions:
        """Where tensors lie on an IPU machine."""
        return self._tensor_locations

    @property
    def Distributed(self) -> _DistributedOptions:
        """Which of several processes this is."""
        return self._distributed

    @property
    def Jit(self) -> _JitOptions:
        """How the model is traced."""
        return self._jit

    @property
    def Precision(self) -> _PrecisionOptions:
        """Number formats on the IPU."""
        return self._precision

    @property
    def Training(self) -> _TrainingOptions:
        """Options of training alone."""
        return self._training

    # Settings that act here

    @setter
    def deviceIterations(self, device_iterations: int) -> Options:
        """Run this many mini-batches (training: optimiser steps) in one call."""
        self._store(device_iterations=positive("deviceIterations", device_iterations))

    @setter
    def replicationFactor(self, replication_factor: int) -> Options:
        """Train as this many replicas, each on its own mini-batches, would."""
        self._store(replication_factor=positive("replicationFactor", replication_factor))

    @setter
    def outputMode(self, output_mode: enums.OutputMode, output_return_period: int | None = None) -> Options:
        """Return the outputs of all mini-batches, the final one, every N-th one, or their sum."""
        mode = enums.OutputMode(output_mode)
        if (mode == enums.OutputMode.EveryN) != (output_return_period is not None):
            raise ValueError(
                "outputMode takes output_return_period with OutputMode.EveryN, and only then (got "
                f"{mode.name}, output_return_period={output_return_period!r})."
            )
        period = 1 if output_return_period is None else positive("output_return_period", output_return_period)
        self._store(output_mode=mode, output_return_period=period)

    def defaultOutputMode(self) -> bool:
        """Whether the output mode is the default one: All for inference, Final for training."""
        return self._values["output_mode"] == enums.OutputMode.Default

    @setter
    def randomSeed(self, random_seed: int) -> Options:
        """Seed the device's random numbers: the same seed gives the same dropout."""
        if isinstance(random_seed, bool) or not isinstance(random_seed, int):
            raise ValueError(f"randomSeed must be an integer (got {random_seed!r}).")
        self._store(random_seed=random_seed)

    @setter
    def modelName(self, name: str) -> Options:
        """A name for the model, used for its entry in the executable cache."""
        self._store(model_name=name)

    @setter
    def enableExecutableCaching(self, path: str | os.PathLike | None) -> Options:
        """Keep compiled graphs in this directory, for the next process to start warm; ``None``: do not."""
        self._store(cache_path=None if path is None else os.fspath(path))

    @setter
    def showCompilationProgressBar(self, show: bool = True) -> Options:
        """Show a progress bar while compiling."""
        self._store(show_compilation_progress_bar=bool(show))

    # Settings that need an IPU

    @kept_setter
    def sourceLocationExcludes(self, excludes: list[str]) -> Options:
        """Paths left out of source locations in the compiler's log."""

    @kept_setter
    def appendToLocationExcludes(self, *excludes: str) -> Options:
        """Further paths left out of source locations."""

    @kept_setter
    def relaxOptimizerAttributesChecks(self, relax: bool = True) -> Options:
        """Do not warn about attributes of an optimiser that PopTorch ignores."""

    @kept_setter
    def autoRoundNumIPUs(self, auto_round_num_ipus: bool = True) -> Options:
        """Reserve the next power of two of IPUs."""

    @kept_setter
    def setExecutionStrategy(self, strategy: Any) -> Options:
        """Share the model out among IPUs."""

    @kept_setter
    def setAvailableMemoryProportion(self, available_memory_proportion: dict[str, float]) -> Options:
        """The part of each IPU's memory that temporary values may take."""

    @kept_setter
    def inputReplicaGrouping(self, input_group_size: int, input_group_type: enums.CommGroupType) -> Options:
        """Give groups of replicas the same input."""
        if input_group_size != 1:
            raise ValueError(
                "inputReplicaGrouping of more than one replica needs an IPU; replicas here are never grouped."
            )

    @kept_setter
    def broadcastBuffers(self, broadcast_buffers: bool = True) -> Options:
        """Send buffers to every replica."""

    @kept_setter
    def logDir(self, log_dir: str) -> Options:
        """Where the IPU's logs go."""

    @kept_setter
    def maxRepeatLogs(self, max_lines: int) -> Options:
        """How many equal log lines to print."""

    @kept_setter
    def useIpuModel(self, use_model: bool) -> Options:
        """Simulate an IPU."""

    @kept_setter
    def connectionType(self, connection_type: enums.ConnectionType) -> Options:
        """When to attach to an IPU."""

    @kept_setter
    def syncPattern(self, sync_pattern: enums.SyncPattern) -> Options:
        """How IPUs wait for one another."""

    @kept_setter
    def useIpuId(self, ipu_id: int) -> Options:
        """Which IPU to use."""

    @kept_setter
    def useOfflineIpuTarget(self, ipu_version: int = 2) -> Options:
        """Compile for an IPU that is not there."""

    @kept_setter
    def anchorTensor(
        self,
        short_name: str,
        long_name: str,
        output_mode: enums.OutputMode | None = None,
        output_return_period: int | None = 1,
    ) -> Options:
        """Keep an inner tensor of the compiled graph for reading."""

    @kept_setter
    def enableStableNorm(self, enabled: bool) -> Options:
        """Use the slower, stabler normalisation."""

    @kept_setter
    def enableSyntheticData(self, enabled: bool | int) -> Options:
        """Measure without moving data."""

    @kept_setter
    def logCycleCount(self, log_cycle_count: bool) -> Options:
        """Count the IPU's cycles."""

    @kept_setter
    def enableProfiling(self, profile_dir: str | None = None) -> Options:
        """Write a profile for the PopVision tools."""

    @kept_setter
    def disableModuleNamescope(self) -> Options:
        """Leave module names out of the compiled graph."""

    @kept_setter
    def updatableNamedBuffers(self, buffers: list[str]) -> Options:
        """Buffers that may be written to the IPU between runs."""

    # Reading, writing, copying

    def from_json(self, string: str) -> Options:
        """Apply settings from a JSON object that maps setters to their argument, or to a list of arguments.

        Setters of a group are given dotted: ``{"deviceIterations": 4, "Training.gradientAccumulation": 2}``.
        """
        for name, value in json.loads(string).items():
            arguments = value if isinstance(value, list) else [value]
            _resolve(self, name.split("."))(*arguments)
        return self

    def loadFromFile(self, filepath: str) -> Options:
        """Apply a file with one setter call a line, such as ``Training.gradientAccumulation(2)``."""
        with open(filepath, encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                text = line.partition("#")[0].strip()
                if text:
                    _apply_line(self, text, f"{filepath}, line {number}")
        return self

    def toDict(self) -> dict[str, Any]:
        """All settings by name, enumerations as integers."""
        settings = {**values_of(self), **kept_by(self)}
        return {
            name: int(value) if isinstance(value, enum.IntEnum) else value for name, value in settings.items()
        }

    def clone(self) -> Options:
        """A copy that may be changed."""
        duplicate = copy.deepcopy(self)
        unfreeze(duplicate)
        return duplicate

    def __repr__(self) -> str:
        settings = [
            f"{name}={value.name if isinstance(value, enum.Enum) else repr(value)}"
            for name, value in values_of(self).items()
        ]
        lines = [f"poptorch.Options({', '.join(settings)})"]
        lines += [f"  {name}={value!r}: no effect here" for name, value in kept_by(self).items()]
        return "\n".join(lines)


def options_without_effect(options: Options) -> dict[str, Any]:
    """The settings that were made and change nothing without an IPU, by dotted setter name."""
    return kept_by(options)


def _resolve(options: Options, path: Iterable[str]) -> Any:
    target = options
    for name in path:
        target = getattr(target, name)
    return target


def _apply_line(options: Options, text: str, place: str) -> None:
    """Apply one setter call, given as text; only names, constants and enumerations are evaluated."""
    try:
        call = ast.parse(text, mode="eval").body
        path = _dotted(call.func)
        path = path[1:] if path[0] in ("options", "opts") else path
        arguments = [_constant(node) for node in call.args]
        keywords = {keyword.arg: _constant(keyword.value) for keyword in call.keywords}
        _resolve(options, path)(*arguments, **keywords)
    except (SyntaxError, ValueError, TypeError, AttributeError) as error:
        raise ConfigFileError(f"{place}: {text!r} cannot be applied: {error}") from error


def _dotted(node: ast.AST) -> list[str]:
    return [node.id] if isinstance(node, ast.Name) else [*_dotted(node.value), node.attr]


def _constant(node: ast.AST) -> Any:
    if isinstance(node, ast.Attribute):
        *_, enumeration, member = _dotted(node)
        return getattr(enums, enumeration)[member]
    return ast.literal_eval(node)
