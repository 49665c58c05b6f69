"""The wrapped model: PopTorch's `PoplarExecutor` without an IPU, from wrapping to step."""

from __future__ import annotations

import contextlib
import datetime
import inspect
import logging
import os
import sys
import threading
import time
import weakref
from collections import OrderedDict
from typing import Any, Callable, Iterator

import torch
from torch.utils.hooks import RemovableHandle
from tqdm.auto import tqdm

from . import enums, optim
from .arguments import Call, Flat, Signature, as_returned, plain, rebuild
from .cache import ExecutableCache, PackedExecutable, compile_lock, read_export, write_export
from .errors import Error, InvalidSetting, offer_only, only_on_ipu
from .graph import Graph, ModelWatch, shallow_copy, unchanged
from .ops import module_repr, take_traced_blocks
from .options import Options, count_stages, freeze, values_of
from .processes import Processes

_LOG = logging.getLogger("poptorch")
_VERSION = "3.4.0"
_wrapped_for_training: weakref.WeakSet = weakref.WeakSet()

# Wrapping


def trainingModel(
    model: torch.nn.Module, options: Options | None = None, optimizer: torch.optim.Optimizer | None = None
) -> PoplarExecutor:
    """Wrap a model whose `forward` computes its loss: each call trains on a combined batch.

    The loss is the result of a torch loss function, or a tensor marked by `identity_loss`. The model keeps
    the mode it is in: call `model.train()` before.

    Args:
        model: The model, or a wrapped one, whose model is taken. It can be wrapped for training once, until
            `destroy()` is called.
        options: How to run it.
        optimizer: SGD, Adam, AdamW or RMSprop of torch or PopTorch, or PopTorch's LAMB; SGD with a learning
            rate of 0.01 unless given.
    """
    model = model._user_model if isinstance(model, PoplarExecutor) else model
    if isinstance(model, torch.nn.Module) and model in _wrapped_for_training:
        raise RuntimeError(
            "Model has already been wrapped in 'poptorch.trainingModel'. Call destroy() on the wrapped model "
            "before wrapping it again, or make the model anew."
        )
    return PoplarExecutor(model, options, True, _VERSION, optimizer)


def inferenceModel(model: torch.nn.Module, options: Options | None = None) -> PoplarExecutor:
    """Wrap a model for inference. It keeps the mode it is in: call `model.eval()` before.

    Args:
        model: The model, or a wrapped one, whose model is taken.
        options: How to run it.
    """
    model = model._user_model if isinstance(model, PoplarExecutor) else model
    return PoplarExecutor(model, options, False, _VERSION)


def load(
    filename: str | os.PathLike, edit_opts_fn: Callable[[Options], None] | None = None
) -> PoplarExecutor:
    """The wrapped model of a file written by `compileAndExport` or `save`, compiled and ready.

    Load only files from a source that you trust: they hold code.

    Args:
        filename: The file.
        edit_opts_fn: May change the options before the model is made.
    """
    content = read_export(filename)
    if content["model"] is None:
        raise InvalidSetting(
            f"{os.fspath(filename)!r} was exported without its model: wrap the model and call "
            "loadExecutable(filename) on it."
        )
    options = content["options"].clone()
    if edit_opts_fn is not None:
        edit_opts_fn(options)
    executor = PoplarExecutor(content["model"], options, content["training"], _VERSION, content["optimizer"])
    executor._load(content)
    return executor


class PoplarExecutor:
    """A model compiled into one static graph and called like the model; other attributes are the model's own.

    Made by `trainingModel`, `inferenceModel` and `load`.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        options: Options | None,
        training: bool,
        poptorch_version: str,
        optimizer: torch.optim.Optimizer | None = None,
        user_model: torch.nn.Module | None = None,
    ) -> None:
        if not hasattr(getattr(torch, "compiler", None), "set_stance"):
            raise Error(
                f"Running a wrapped model without an IPU needs torch 2.6 or later (got {torch.__version__}): "
                "install a newer torch, or use the Poplar SDK's PopTorch on a machine with IPUs."
            )
        if not isinstance(model, torch.nn.Module):
            raise Error(f"PopTorch wraps a torch.nn.Module (got {type(model).__name__}).")
        self._user_model = user_model or model
        self._model = shallow_copy(self._user_model)
        self._training = training
        self._options = _own_options(options, training)
        values = values_of(self._options)
        self._replicas = values["replication_factor"]
        self._accumulation = values["gradient_accumulation"]
        self._iterations = values["device_iterations"]
        self._parts = self._iterations * self._accumulation * self._replicas
        self._output_mode, self._output_period = values["output_mode"], values["output_return_period"]
        if self._output_mode == enums.OutputMode.EveryN and self._iterations % self._output_period:
            raise Error(
                f"outputMode(EveryN, {self._output_period}) needs a number of device iterations that "
                f"{self._output_period} divides (got {self._iterations})."
            )
        reduction = values["accumulation_and_replication_reduction_type"]
        self._reduces_by_mean = reduction == enums.ReductionType.Mean
        processes = self._options.Distributed
        self._processes = Processes(processes.processId, processes.numProcesses if training else 1)
        self._random = _DeviceRandom(values.get("random_seed"), processes.processId)
        self._cache = ExecutableCache(values["cachePath"], values.get("model_name"))
        self._forward = inspect.signature(self._model.forward)
        self._lock = threading.RLock()
        self._compile_count = 0
        self._compilation_seconds = 0.0
        self._times: list[tuple[float, float]] = []
        self._forget_graph()
        self._optimizer: optim.DeviceOptimizer | None = None
        if training:
            has_weights = any(True for _ in self._user_model.parameters())
            if optimizer is None and has_weights:
                optimizer = optim.SGD(self._user_model.parameters(), lr=0.01)
            if optimizer is not None:
                self._settle_reduction(optimizer)
                self._optimizer = self._on_device(optimizer)
            _wrapped_for_training.add(self._user_model)

    # Calling

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the mini-batches of a combined batch: forward, and when training also backward and steps."""
        with self._lock:
            if self._options.log_cycle_count:
                raise Error(
                    "Cycle count logging is only supported on actual IPU hardware. Leave out "
                    "logCycleCount(True); getLatency() gives seconds here too."
                )
            call = self._call(args, kwargs)
            if self._options.connection_type == enums.ConnectionType.Never:
                raise InvalidSetting(
                    "Trying to run a model on an offline device (ConnectionType.Never): use "
                    "model.compile(inputs) instead of model(inputs)."
                )
            if self._graph is None:
                self._compile(call, self._cache)
            else:
                self._signature.check(call)
                self._watch.check()
            if not self._is_attached:
                self.attachToDevice()
            if self._training and self._watch.weights_were_written():
                self._warn_of_written_weights()
            self._times = []
            outputs = _Outputs(
                self._output_mode, self._output_period, self._iterations, self._per_step, self._replicas
            )
            with self._random.drawing(), torch.set_grad_enabled(self._training):
                if self._training:
                    self._train(call, outputs)
                else:
                    for result, _ in self._results(call):
                        outputs.add(result)
            return outputs.joined()

    def _call(self, args: tuple, kwargs: dict) -> Call:
        return Call(self._forward, type(self._user_model).__name__, args, kwargs)

    @property
    def _per_step(self) -> int:
        return self._accumulation * self._replicas

    def _train(self, call: Call, outputs: _Outputs) -> None:
        self._drop_gradients()
        for number, (result, loss) in enumerate(self._results(call), 1):
            if loss.requires_grad:
                loss.backward(None if loss.dim() == 0 else torch.ones_like(loss))
            outputs.add(result)
            if number % self._per_step == 0:
                self._step(self._per_step)
        self._copy_buffers_to_host()
        self._watch.note_weights()

    def _step(self, count: int) -> None:
        count *= self._processes.count
        gradients = [p.grad for p in self._parameters if p.grad is not None] if count > 1 else []
        self._processes.add_up(gradients)
        if self._reduces_by_mean and gradients:
            torch._foreach_div_(gradients, count)
        if self._optimizer is not None:
            self._optimizer.step()
        self._drop_gradients()

    def _results(self, call: Call) -> Iterator[tuple[Any, torch.Tensor | None]]:
        """Outputs and loss of each mini-batch, in order: device iteration, accumulation step, replica."""
        if not call.flat.has_same_asides(self._asides):
            self._verify(call)
        tensors = [plain(tensor, self._keeps_double) for tensor in call.tensors]
        parts = (
            [tensors]
            if self._parts == 1
            else [list(p) for p in zip(*(t.chunk(self._parts) for t in tensors))]
        )
        if not tensors:
            parts = [[] for _ in range(self._parts)]
        for number, part in enumerate(parts):
            started = time.perf_counter()
            try:
                result = self._graph.run(part, self._buffers[number % len(self._buffers)])
            except (RuntimeError, IndexError) as error:
                if "out of bounds" in str(error) or "out of range" in str(error):
                    raise Error(self._signature.out_of_range(part, str(error))) from error
                raise
            yield result
            self._times.append((started, time.perf_counter()))
        # What forward wrote into an input the caller sees, also where a copy went to the device.
        for given, taken in zip(call.tensors, tensors):
            if given is not taken and taken._version:
                given.copy_(taken)

    def _verify(self, call: Call) -> None:
        """Go through the tracer, which raises if a changed value that is no tensor is part of the graph."""
        args, kwargs, tensors = self._first_mini_batch(call)
        with unchanged(self._model):
            self._graph.trace(args, kwargs, tensors)
        self._asides = call.flat.asides

    def _first_mini_batch(self, call: Call) -> tuple[tuple, dict, list[torch.Tensor]]:
        """Copies of the first mini-batch's arguments, and the tensors in them."""
        tensors = [
            plain(tensor, self._keeps_double).chunk(self._parts)[0] if tensor.dim() else tensor
            for tensor in call.tensors
        ]
        tensors = [tensor.detach().clone() for tensor in tensors]
        args, kwargs = rebuild((call.args, call.kwargs), iter(tensors))
        return args, kwargs, tensors

    def _drop_gradients(self) -> None:
        for parameter in self._parameters:
            parameter.grad = None

    # Compiling

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Compile for these arguments, unless it is compiled; weights, buffers, random numbers stay as they
        are."""
        with self._lock:
            call = self._call(args, kwargs)
            if self._graph is not None:
                _LOG.warning(
                    "Call to compile() ignored: the executable is already compiled. Call destroy() first to "
                    "compile for other arguments."
                )
            else:
                self._compile(call, self._cache)

    def _compile(self, call: Call, cache: ExecutableCache | PackedExecutable) -> None:
        _require_initialised(self._model)
        signature = Signature(call, self._parts)
        started = time.perf_counter()
        self._processes.join()
        self._processes.share_weights(self._model)
        cache = self._processes.compiling_once(cache)
        show_bar = self._options.show_compilation_progress_bar and self._processes.is_first
        with _compiling(show_bar) as progress, compile_lock:
            key = (type(self._user_model).__name__, self._training, signature.key())
            with cache.around_compilation(key):
                graph, written = self._compile_graph(call, progress)
        self._refuse_shared_buffers(written)
        self._compilation_seconds = time.perf_counter() - started
        self._graph, self._signature = graph, signature
        self._asides = call.flat.asides
        self._example = rebuild((call.args, call.kwargs), map(torch.zeros_like, call.tensors))
        self._executable = cache.packed
        self._watch = ModelWatch(self._model)
        self._parameters = list(self._model.parameters())
        self._written_buffers = written
        self._copy_buffers_to_device()
        self._compile_count += 1
        self._is_attached = self._options.connection_type != enums.ConnectionType.Never
        if self._optimizer is not None and self._is_attached:
            self._optimizer.note_compiled()

    def _compile_graph(self, call: Call, progress: Callable[[int], None]) -> tuple[Graph, set[str]]:
        """Trace and compile on the first mini-batch; running backward once compiles it too.

        Returns:
            The graph, and the names of the buffers that forward writes.
        """
        self._keeps_double = any(p.dtype == torch.float64 for p in self._model.parameters())
        graph = Graph(self._model, self._training)
        args, kwargs, tensors = self._first_mini_batch(call)
        progress(5)
        take_traced_blocks()
        with unchanged(self._model) as written, torch.set_grad_enabled(self._training):
            loss = graph.trace(args, kwargs, tensors)
            progress(60)
            if loss is not None and loss.requires_grad:
                loss.backward(torch.ones_like(loss))
            elif loss is not None:
                _LOG.warning("The loss depends on no parameter of the model: nothing will be trained.")
        self._require_filled_pipeline(take_traced_blocks())
        return graph, written

    def _require_filled_pipeline(self, blocks: list[tuple[str | None, int | None]]) -> None:
        """Raise if training in a pipeline of these blocks has fewer mini-batches to a step than stages."""
        count = count_stages(self._options, blocks) if self._training else 0
        if count > 1 and self._accumulation < 2 * count - 1:
            raise Error(
                "poptorch.Options().Training.gradientAccumulation must be greater than or equal to the "
                f"number of pipeline stages ({2 * count - 1}) when using poptorch.PipelinedExecution. Please "
                f"note that a model with {count} pipeline stages in PopTorch will have an additional "
                f"{count - 1} stages when training. (Got {self._accumulation}; with "
                "poptorch.ShardedExecution() any number will do.)"
            )

    def _refuse_shared_buffers(self, written: set[str]) -> None:
        unknown = (
            set(self._options._values.get("updatable_named_buffers", ()))
            - dict(self._model.named_buffers()).keys()
        )
        if unknown:
            raise Error(
                f"updatableNamedBuffers names {', '.join(sorted(unknown))}: the model has no such buffer."
            )
        if written and self._replicas * self._processes.count > 1 and self._options.broadcast_buffers:
            raise Error(
                "PopTorch does not support broadcasting buffers. If your model is able to tolerate buffers "
                "becoming out of sync between replicas, you can disable buffer broadcasting using "
                f"poptorch.Options.broadcastBuffers(False). forward writes: {', '.join(sorted(written))}."
            )

    def isCompiled(self) -> bool:
        """Whether the model has been compiled."""
        return self._graph is not None

    def compilationTime(self) -> datetime.timedelta:
        """How long the compilation took."""
        if self._graph is None:
            raise Error("Please compile the model before obtaining compilation time.")
        if not self._options.show_compilation_progress_bar:
            raise Error("Please set showCompilationProgressBar option to obtain compilation time.")
        return datetime.timedelta(seconds=self._compilation_seconds)

    def destroy(self) -> None:
        """Let go of the compiled graph and of the model, which may be wrapped anew; the next call
        compiles."""
        _wrapped_for_training.discard(self._user_model)
        self._forget_graph()

    def _forget_graph(self) -> None:
        self._graph: Graph | None = None
        self._signature: Signature | None = None
        self._watch: ModelWatch | None = None
        self._parameters: list[torch.nn.Parameter] = []
        self._buffers: list[dict[str, torch.Tensor]] = [{}]
        self._written_buffers: set[str] = set()
        self._keeps_double = False
        self._asides: list = []
        self._example: tuple = ()
        self._executable: bytes | None = None
        self._is_attached = False

    def _require_compiled(self, name: str) -> None:
        if self._graph is None:
            raise Error(
                f"Model has not been compiled or has been destroyed. {name} needs a compiled model: call the "
                "model once, or compile(*inputs), before."
            )

    # Files

    def compileAndExport(self, filename: str, *args: Any, export_model: bool = True, **kwargs: Any) -> None:
        """Compile for these arguments and write the result to a file, for `poptorch.load`."""
        with self._lock:
            if self._graph is None:
                call = self._call(args, kwargs)
                self._compile(call, PackedExecutable())
            self.save(filename, export_model)

    def save(self, filename: str, export_model: bool = True, save_rng_state: bool = True) -> None:
        """Write the compiled graph to a file, with `export_model` also the model, options and optimiser."""
        self._require_compiled("save")
        if self._executable is None:  # it was compiled among the files of others: once more, apart
            args, kwargs = self._example
            apart = PackedExecutable()
            with compile_lock, apart.around_compilation(()):
                call = self._call(args, kwargs)
                self._compile_graph(call, lambda percent: None)
            self._executable = apart.packed
        content = {
            "training": self._training,
            "example": self._example,
            "executable": self._executable,
            "rng_state": self.rng_state if save_rng_state else None,
            "model": self._user_model if export_model else None,
            "options": self._options if export_model else None,
            "optimizer": self._optimizer.optimizer if export_model and self._optimizer else None,
        }
        write_export(filename, content)

    def loadExecutable(self, filename: str) -> None:
        """Compile with what an export of this model holds: the same arguments, and code that is ready."""
        self._load(read_export(filename))

    def _load(self, content: dict[str, Any]) -> None:
        if content["training"] != self._training:
            kinds = ("inference", "training")
            raise Error(
                f"The file was exported for {kinds[content['training']]}, and this model is wrapped for "
                f"{kinds[self._training]}."
            )
        args, kwargs = content["example"]
        call = self._call(args, kwargs)
        self._compile(call, PackedExecutable(content["executable"]))
        if content["rng_state"] is not None:
            self.rng_state = content["rng_state"]

    def __getstate__(self) -> dict[str, Any]:
        optimizer = None if self._optimizer is None else self._optimizer.optimizer
        return {"arguments": (self._user_model, self._options, self._training, _VERSION, optimizer)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(*state["arguments"])

    # The device, and what is on it. Weights are the host's own; buffers are copies.

    def isAttachedToDevice(self) -> bool:
        """Whether the model holds the device."""
        return self._is_attached

    def attachToDevice(self) -> None:
        """Take the device for a compiled model."""
        self._require_compiled("attachToDevice")
        if self._is_attached:
            raise Error("Device is already attached.")
        self._copy_buffers_to_device()
        self._is_attached = True

    def detachFromDevice(self) -> None:
        """Let go of the device, with the weights up to date on the host; the next call attaches again."""
        if not self._is_attached:
            raise Error("Device is not attached: the model attaches to it when it is first called.")
        self._copy_buffers_to_host()
        self._is_attached = False

    def _copy_buffers_to_device(self, names: Iterator[str] | None = None) -> None:
        host = dict(self._model.named_buffers())
        if names is None:
            # Replicas have copies of their own only of what they write.
            count = self._replicas if self._written_buffers else 1
            self._buffers = [
                {name: buffer.detach().clone() for name, buffer in host.items()} for _ in range(count)
            ]
            return
        with torch.no_grad():
            for copies in self._buffers:
                for name in names:
                    copies[name].copy_(host[name])

    def _copy_buffers_to_host(self) -> None:
        host = dict(self._model.named_buffers()) if self._written_buffers else {}
        with torch.no_grad():
            for name in self._written_buffers:
                host[name].copy_(self._buffers[0][name])

    def copyWeightsToHostIfNeeded(self) -> bool:
        """Bring the weights up to date on the host; returns whether that was needed, and here it is not."""
        return False

    def copyWeightsToHost(self) -> None:
        """Bring weights and buffers up to date on the host."""
        self._require_compiled("copyWeightsToHost")
        self._copy_buffers_to_host()

    def copyWeightsToDevice(self) -> None:
        """Bring weights and buffers up to date on the device, after a change on the host."""
        self._require_compiled("copyWeightsToDevice")
        self._copy_buffers_to_device()
        self._watch.note_weights()

    def copyNamedBuffersToDevice(self) -> None:
        """Bring the buffers of `Options.updatableNamedBuffers` up to date on the device."""
        self._require_compiled("copyNamedBuffersToDevice")
        if not self._options.exists("updatable_named_buffers"):
            raise Error(
                "No named buffers marked as updatable: name them before wrapping, "
                "options.updatableNamedBuffers(['buffer'])."
            )
        self._copy_buffers_to_device(self._options.updatable_named_buffers)

    def load_state_dict(self, state_dict: Any, strict: bool = True) -> Any:
        """Load weights into the model and onto the device."""
        result = self._user_model.load_state_dict(state_dict, strict)
        if self._is_attached:
            self.copyWeightsToDevice()
        return result

    def _warn_of_written_weights(self) -> None:
        self._watch.note_weights()
        _LOG.warning(
            "The weights were written on the host after they went to the device. Here the change counts; on "
            "an IPU it would be lost: call copyWeightsToDevice() on the wrapped model after it, or "
            "load_state_dict on the wrapped model instead of the model."
        )

    def setOptimizer(self, optimizer: torch.optim.Optimizer) -> None:
        """Train on with this optimiser, or the same one with new settings; nothing is compiled again."""
        if not self._training:
            raise Error("setOptimizer is for training: this model was wrapped by poptorch.inferenceModel.")
        self._settle_reduction(optimizer)
        new = self._on_device(optimizer)
        if self._graph is not None and self._optimizer is not None:
            new.require_replaces(self._optimizer)
            new.note_compiled()
        self._optimizer = new

    def _on_device(self, optimizer: torch.optim.Optimizer) -> optim.DeviceOptimizer:
        parameters = dict(self._user_model.named_parameters())
        return optim.DeviceOptimizer(optimizer, parameters, self._options.relax_optimizer_checks)

    def _settle_reduction(self, optimizer: Any) -> None:
        """Half-precision accumulators are averaged as they grow, which has to be known before compiling."""
        in_half = getattr(optimizer, "accum_type", None) == torch.float16
        if not in_half or getattr(optimizer, "use_combined_accum", False):
            return
        training, running = self._options.Training, enums.MeanReductionStrategy.Running
        if self._graph is None:
            training._values["meanAccumulationAndReplicationReductionStrategy"] = running
        elif training.meanAccumulationAndReplicationReductionStrategy != running:
            raise ValueError(
                "Invalid optimizer: accum_type=torch.float16 needs MeanReductionStrategy.Running, and the "
                "executable is already compiled with another: give the first optimiser that accum_type."
            )

    # What it is

    @property
    def model(self) -> torch.nn.Module:
        """The model that was wrapped."""
        return self._user_model

    @property
    def options(self) -> Options:
        """The options it runs with; they are frozen."""
        return self._options

    @property
    def rng_state(self) -> list[int]:
        """The state of the device's random numbers."""
        self._require_compiled("rng_state")
        return self._random.state

    @rng_state.setter
    def rng_state(self, state: list[int]) -> None:
        self._require_compiled("rng_state")
        self._random.state = state

    def getTensorNames(self) -> list[str]:
        """The names of the tensors on the device: parameters and buffers."""
        self._require_compiled("getTensorNames")
        named = [*self._model.named_parameters(), *self._model.named_buffers()]
        return [name for name, _ in named]

    def getAnchoredTensor(self, short_name: str) -> torch.Tensor:
        """An inner tensor kept by `Options.anchorTensor`; only an IPU has them."""
        raise only_on_ipu("getAnchoredTensor", "Return the tensor from forward instead.")

    # Timing

    def cycleCount(self) -> int:
        """The cycles of the last run; only an IPU counts them."""
        if not self._options.log_cycle_count:
            raise Error("Cycle count logging is disabled. Please set option logCycleCount to True to enable.")
        raise Error("Please run the model at least once before obtaining cycle count.")

    def getPerfCounters(self) -> dict[str, list[list[float]]]:
        """When each input and output of the last call began and ended to move: a list of each tensor, with
        an entry for each mini-batch."""
        begins, ends = [began for began, _ in self._times], [ended for _, ended in self._times]
        inputs = [list(begins) for _ in (self._signature.names if self._signature else ())]
        outputs = [list(ends) for _ in range(self._graph.num_outputs if self._graph else 0)]
        return {"input": inputs, "input_complete": inputs, "output": outputs, "output_complete": outputs}

    def getHostIpuLatency(self) -> tuple[float, float, float]:
        """Seconds from host to device (minimum, maximum, mean): none here."""
        return (0.0, 0.0, 0.0)

    def getComputeLatency(self) -> tuple[float, float, float]:
        """Seconds of computation of a mini-batch in the last call: minimum, maximum, mean."""
        return self.getLatency()

    def getIpuHostLatency(self) -> tuple[float, float, float]:
        """Seconds from device to host (minimum, maximum, mean): none here."""
        return (0.0, 0.0, 0.0)

    def getLatency(self) -> tuple[float, float, float]:
        """Seconds from input to output of a mini-batch in the last call: minimum, maximum, mean."""
        seconds = [ended - began for began, ended in self._times] or [0.0]
        return (min(seconds), max(seconds), sum(seconds) / len(seconds))

    # Everything else is the model's

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or "_user_model" not in self.__dict__:
            raise AttributeError(name)
        try:
            return getattr(self._user_model, name)
        except AttributeError:
            offer_only(
                f"Poptorch{type(self._user_model).__name__}", name, [*dir(type(self)), *dir(self._user_model)]
            )

    def __repr__(self) -> str:
        return f"Poptorch{module_repr(self._user_model)}"


def times_compiled(executor: PoplarExecutor) -> int:
    """How often a wrapped model has been compiled."""
    return executor._compile_count


def _own_options(options: Options | None, training: bool) -> Options:
    """A frozen copy of the options with the output mode settled; those given are frozen too."""
    if options is None:
        options = Options()
    if not isinstance(options, Options):
        raise Error(f"options must be a poptorch.Options (got {type(options).__name__}).")
    freeze(options)
    own = options.clone()
    if own.defaultOutputMode():
        own.outputMode(enums.OutputMode.Final if training else enums.OutputMode.All)
    accumulation = own.Training.gradient_accumulation
    if not training and accumulation != 1:
        raise Error(
            "You must set poptorch.Options().Training.gradientAccumulation to 1 or leave it as its default "
            "value (1) when running a poptorch.inferenceModel(). Use poptorch.Options().deviceIterations to "
            "process a sufficient number of batches each run for pipelined execution instead. (Got "
            f"{accumulation}: give the model and its DataLoader options of their own.)"
        )
    freeze(own)
    return own


def _require_initialised(model: torch.nn.Module) -> None:
    lazy = [name for name, tensor in model.named_parameters() if torch.nn.parameter.is_lazy(tensor)]
    if lazy:
        raise Error(
            f"The model has parameters without a size yet: {', '.join(lazy)}. Call the model itself once, "
            "under torch.no_grad(), before you make its optimiser and wrap it."
        )


class _Outputs:
    """Takes the outputs of a call's mini-batches one by one, and keeps what the output mode asks for.

    Mini-batches come in the order device iteration, accumulation step, replica (the innermost).
    """

    def __init__(self, mode: Any, period: int, iterations: int, per_iteration: int, replicas: int) -> None:
        self._sums, self._replicas = mode == enums.OutputMode.Sum, replicas
        total = iterations * per_iteration
        self._wanted = set(range(total - replicas if mode == enums.OutputMode.Final else 0, total))
        if mode == enums.OutputMode.EveryN:
            self._wanted = {n for n in self._wanted if (n // per_iteration + 1) % period == 0}
        self._kept: list = []
        self._count = 0

    def add(self, outputs: Any) -> None:
        """Take the outputs of the next mini-batch."""
        if self._sums and self._count >= self._replicas:
            replica = self._count % self._replicas
            self._kept[replica] = _combine(lambda parts: parts[0] + parts[1], [self._kept[replica], outputs])
        elif self._count in self._wanted:
            self._kept.append(outputs)
        self._count += 1

    def joined(self) -> Any:
        """The outputs of the call: those kept, joined on dimension 0 (scalars: as a vector)."""
        return _combine(_join, self._kept)


def _join(parts: list[torch.Tensor]) -> torch.Tensor:
    if len(parts) > 1:
        return as_returned(torch.stack(parts) if parts[0].dim() == 0 else torch.cat(parts))
    return as_returned(parts[0])


def _combine(function: Callable, outputs: list) -> Any:
    """Apply `function` to the tensors at the same place of each of `outputs`."""
    leaves = [function(list(parts)) for parts in zip(*(Flat(item).tensors for item in outputs))]
    return rebuild(outputs[0], iter(leaves))


class _DeviceRandom:
    """With a seed, or as one process of several, the device draws from a stream of its own; otherwise from
    torch's global stream."""

    def __init__(self, seed: int | None, process: int = 0) -> None:
        # Another stream in every process, also where all of them begin with the same seed.
        seed = torch.initial_seed() if seed is None and process else seed
        self._state = None if seed is None else torch.Generator().manual_seed(seed + process).get_state()

    @property
    def state(self) -> list[int]:
        """The state of the stream, as a list of integers."""
        return (torch.get_rng_state() if self._state is None else self._state).tolist()

    @state.setter
    def state(self, state: list[int]) -> None:
        state = torch.tensor(state, dtype=torch.uint8)
        if self._state is None:
            torch.set_rng_state(state)
        else:
            self._state = state

    @contextlib.contextmanager
    def drawing(self) -> Iterator[None]:
        """Draw from the device's stream."""
        if self._state is None:
            yield
            return
        host = torch.get_rng_state()
        torch.set_rng_state(self._state)
        try:
            yield
        finally:
            self._state = torch.get_rng_state()
            torch.set_rng_state(host)


# Around a compilation

_before: OrderedDict[int, Callable[[], None]] = OrderedDict()
_after: OrderedDict[int, Callable[[], None]] = OrderedDict()


def registerPreCompileHook(hook: Callable[[], None]) -> RemovableHandle:
    """Call `hook` before each compilation, until `remove()` is called on what is returned."""
    return _register(_before, hook)


def registerPostCompileHook(hook: Callable[[], None]) -> RemovableHandle:
    """Call `hook` after each compilation, until `remove()` is called on what is returned."""
    return _register(_after, hook)


def _register(hooks: OrderedDict[int, Callable[[], None]], hook: Callable[[], None]) -> RemovableHandle:
    if not callable(hook):
        raise RuntimeError(f"The hook must be callable (got {type(hook)}).")
    handle = RemovableHandle(hooks)
    hooks[handle.id] = hook
    return handle


@contextlib.contextmanager
def _compiling(show_bar: bool) -> Iterator[Callable[[int], None]]:
    """Around a compilation: runs the hooks, and gives a function that moves the bar to a percentage."""
    for hook in list(_before.values()):
        hook()
    # Where output is kept, as in a notebook, a finished bar is debris.
    with tqdm(
        total=100, desc="Graph compilation", disable=not show_bar, leave=sys.stderr.isatty(), file=sys.stderr
    ) as bar:
        yield lambda percent: bar.update(percent - bar.n)
        bar.update(100 - bar.n)
        bar.refresh()
    for hook in list(_after.values()):
        hook()
