"""The wrapped model: PopTorch's `PoplarExecutor` without an IPU, from wrapping to step."""

from __future__ import annotations

import contextlib
import datetime
import functools
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
            "Model has already been wrapped in 'poptorch.trainingModel'. Call model.destroy() on the model "
            "to unwrap before wrapping again, or make the model anew."
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
        self._forward = inspect.signature(self._model.forward)
        self._training = training
        self._options = _own_options(options, training)
        values = values_of(self._options)
        self._replicas = values["replication_factor"]
        self._accumulation = values["gradient_accumulation"]
        self._per_step = self._accumulation * self._replicas
        self._parts = values["device_iterations"] * self._per_step
        self._output_mode, self._output_period = values["output_mode"], values["output_return_period"]
        reduction = values["accumulation_and_replication_reduction_type"]
        self._reduces_by_mean = reduction == enums.ReductionType.Mean
        number, count = self._options.Distributed.processId, self._options.Distributed.numProcesses
        self._processes = Processes(number, count if training else 1)
        # With a seed, or as one process of several, the device draws from a stream of its own, another in
        # every process; otherwise from torch's global stream.
        seed = values.get("random_seed", torch.initial_seed() if number else None)
        self._random = None if seed is None else torch.Generator().manual_seed(seed + number).get_state()
        self._cache = ExecutableCache(values["cachePath"], values.get("model_name"))
        self._lock = threading.RLock()
        self._compile_count = 0
        self._compilation_seconds = 0.0
        self._forget_graph()
        self._optimizer: optim.DeviceOptimizer | None = None
        if training:
            if optimizer is None and any(True for _ in self._user_model.parameters()):
                optimizer = optim.SGD(self._user_model.parameters(), lr=0.01)
            if optimizer is not None:
                self._optimizer = self._on_device(optimizer)
            _wrapped_for_training.add(self._user_model)
            self._user_model.__dict__["destroy"] = _Destroy(self)

    def _forget_graph(self) -> None:
        # None until the model is compiled, and nothing of the others is asked for before.
        self._graph: Any = None
        self._signature: Any = None
        self._watch: Any = None
        self._parameters: list[torch.nn.Parameter] = []
        self._buffers: list[dict[str, torch.Tensor]] = [{}]
        self._written_buffers: set[str] = set()
        self._keeps_double = False
        self._asides: list = []
        self._example: tuple = ()
        self._executable: bytes | None = None
        self._is_attached = False
        self._times: list[tuple[float, float]] = []

    # From call to step

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the mini-batches of a combined batch: forward, and when training also backward and steps."""
        with self._lock:
            self._require_device()
            call = self._call(args, kwargs)
            if self._graph is None:
                self._compile(call, self._cache)
            else:
                self._signature.check(call)
                self._watch.check()
            if not self._is_attached:
                self.attachToDevice()
            if self._training and self._watch.weights_were_written():
                _LOG.warning(
                    "The weights were written on the host after they went to the device. Here the change "
                    "counts; on an IPU it would be lost: call copyWeightsToDevice() on the wrapped model "
                    "after it, or load_state_dict on the wrapped model instead of the model."
                )
            if not call.flat.has_same_asides(self._asides):
                self._verify(call)
            tensors = [plain(tensor, self._keeps_double) for tensor in call.tensors]
            outputs: list = []
            self._times = []
            self._drop_gradients()
            with self._drawing(), torch.set_grad_enabled(self._training):
                # In the order device iteration, accumulation step, replica (the innermost).
                for number, mini_batch in enumerate(self._mini_batches(tensors)):
                    began = time.perf_counter()
                    output, loss = self._run(mini_batch, self._buffers[number % len(self._buffers)])
                    if loss is not None and loss.requires_grad:
                        loss.backward(None if loss.dim() == 0 else torch.ones_like(loss))
                    self._keep_output(outputs, number, output)
                    if self._training and (number + 1) % self._per_step == 0:
                        self._step()
                    self._times.append((began, time.perf_counter()))
            if self._training:
                self._copy_buffers_to_host()
                self._watch.note_weights()
            # What forward wrote into an input the caller sees, also where a copy went to the device.
            for given, taken in zip(call.tensors, tensors):
                if given is not taken and taken._version:
                    given.copy_(taken)
            return _combine(_join, outputs)

    def _require_device(self) -> None:
        if self._options.log_cycle_count:
            raise Error(
                "Cycle count logging is only supported on actual IPU hardware. Leave out "
                "logCycleCount(True); getLatency() gives seconds here too."
            )
        if self._options.connection_type == enums.ConnectionType.Never:
            raise InvalidSetting(
                "Trying to run a model on an offline device (ConnectionType.Never): use "
                "model.compile(inputs) instead of model(inputs)."
            )

    def _call(self, args: tuple, kwargs: dict) -> Call:
        return Call(self._forward, type(self._user_model).__name__, args, kwargs)

    def _mini_batches(self, tensors: list[torch.Tensor]) -> list[list[torch.Tensor]]:
        if self._parts == 1:
            return [tensors]
        chunks = [tensor.chunk(self._parts) for tensor in tensors]
        return [[chunk[number] for chunk in chunks] for number in range(self._parts)]

    def _run(self, tensors: list[torch.Tensor], buffers: dict[str, torch.Tensor]) -> tuple[Any, Any]:
        try:
            return self._graph.run(tensors, buffers)
        except (RuntimeError, IndexError) as error:
            if "out of bounds" in str(error) or "out of range" in str(error):
                raise Error(self._signature.out_of_range(tensors, str(error))) from error
            raise

    def _keep_output(self, kept: list, number: int, output: Any) -> None:
        """Keep what the output mode asks for of the outputs of mini-batch `number`."""
        mode, step = self._output_mode, number // self._per_step + 1
        if mode == enums.OutputMode.Sum and number >= self._replicas:
            replica = number % self._replicas
            kept[replica] = _combine(lambda pair: pair[0] + pair[1], [kept[replica], output])
        elif mode == enums.OutputMode.EveryN and step % self._output_period:
            return
        elif mode != enums.OutputMode.Final or number >= self._parts - self._replicas:
            kept.append(output)

    def _step(self) -> None:
        """Bring the gradients of accumulation, replicas and processes together, and update the weights."""
        count = self._per_step * self._processes.count
        gradients = [p.grad for p in self._parameters if p.grad is not None] if count > 1 else []
        self._processes.add_up(gradients)
        if self._reduces_by_mean and gradients:
            torch._foreach_div_(gradients, count)
        if self._optimizer is not None:
            self._optimizer.step()
        self._drop_gradients()

    def _drop_gradients(self) -> None:
        for parameter in self._parameters if self._training else ():
            parameter.grad = None

    def _verify(self, call: Call) -> None:
        """Go through the tracer, which raises if a changed value that is no tensor is part of the graph."""
        args, kwargs, tensors = self._first_mini_batch(call)
        with unchanged(self._model), torch.set_grad_enabled(self._training):
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

    @contextlib.contextmanager
    def _drawing(self) -> Iterator[None]:
        """Draw random numbers from the device's stream."""
        if self._random is None:
            yield
            return
        host = torch.get_rng_state()
        torch.set_rng_state(self._random)
        try:
            yield
        finally:
            self._random = torch.get_rng_state()
            torch.set_rng_state(host)

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
        named = self._model.named_parameters()
        lazy = [name for name, tensor in named if torch.nn.parameter.is_lazy(tensor)]
        if lazy:
            raise Error(
                f"The model has parameters without a size yet: {', '.join(lazy)}. Call the model itself "
                "once, under torch.no_grad(), before you make its optimiser and wrap it."
            )
        signature = Signature(call, self._parts)
        started = time.perf_counter()
        self._processes.join()
        self._processes.share_weights(self._model)
        cache = self._processes.compiling_once(cache)
        show_bar = self._options.show_compilation_progress_bar and self._processes.is_first
        with _compiling(show_bar) as progress, compile_lock:
            key = (type(self._user_model).__name__, self._training, signature.key())
            with cache.around_compilation(key):
                graph, written, blocks = self._compile_graph(call, progress)
        # Not sooner: what a process refuses is compiled, and the others need not compile it to refuse it too.
        self._refuse_unsupported(blocks, written)
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

    def _compile_graph(
        self, call: Call, progress: Callable[[int], None]
    ) -> tuple[Graph, set[str], list[tuple[str | None, int | None]]]:
        """Trace and compile on the first mini-batch; running backward once compiles it too.

        Returns:
            The graph, the names of the buffers that forward writes, and the blocks that were traced.
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
        return graph, written, take_traced_blocks()

    def _refuse_unsupported(self, blocks: list[tuple[str | None, int | None]], written: set[str]) -> None:
        """Raise if the options do not fit the blocks that were traced and the buffers that forward writes."""
        stages = count_stages(self._options, blocks) if self._training else 0
        if stages > 1 and self._accumulation < 2 * stages - 1:
            raise Error(
                "poptorch.Options().Training.gradientAccumulation must be greater than or equal to the "
                f"number of pipeline stages ({2 * stages - 1}) when using poptorch.PipelinedExecution. "
                f"Please note that a model with {stages} pipeline stages in PopTorch will have an additional "
                f"{stages - 1} stages when training. (Got {self._accumulation}; with "
                "poptorch.ShardedExecution() any number will do.)"
            )
        named = set(values_of(self._options).get("updatable_named_buffers", ()))
        unknown = named - dict(self._model.named_buffers()).keys()
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
        if self._training:
            _wrapped_for_training.discard(self._user_model)
            self._user_model.__dict__.pop("destroy", None)
        self._forget_graph()

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
        PoplarExecutor.__init__(self, *state["arguments"])

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

    def _copy_buffers_to_device(self) -> None:
        host = dict(self._model.named_buffers())
        # Replicas have copies of their own only of what they write.
        count = self._replicas if self._written_buffers else 1
        self._buffers = [{name: b.detach().clone() for name, b in host.items()} for _ in range(count)]

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
        host = dict(self._model.named_buffers())
        with torch.no_grad():
            for name in self._options.updatable_named_buffers:
                for copies in self._buffers:
                    copies[name].copy_(host[name])

    def load_state_dict(self, state_dict: Any, strict: bool = True) -> Any:
        """Load weights into the model and onto the device."""
        result = self._user_model.load_state_dict(state_dict, strict)
        if self._is_attached:
            self.copyWeightsToDevice()
        return result

    def setOptimizer(self, optimizer: torch.optim.Optimizer) -> None:
        """Train on with this optimiser, or the same one with new settings; nothing is compiled again."""
        if not self._training:
            raise Error("setOptimizer is for training: this model was wrapped by poptorch.inferenceModel.")
        new = self._on_device(optimizer)
        if self._graph is not None and self._optimizer is not None:
            new.require_replaces(self._optimizer)
            new.note_compiled()
        self._optimizer = new

    def _on_device(self, optimizer: torch.optim.Optimizer) -> optim.DeviceOptimizer:
        # Half-precision accumulators are averaged as they grow, which has to be known before compiling.
        in_half = getattr(optimizer, "accum_type", None) == torch.float16
        if in_half and not getattr(optimizer, "use_combined_accum", False):
            training, running = self._options.Training, enums.MeanReductionStrategy.Running
            if self._graph is None:
                training._values["meanAccumulationAndReplicationReductionStrategy"] = running
            elif training.meanAccumulationAndReplicationReductionStrategy != running:
                raise ValueError(
                    "Invalid optimizer: accum_type=torch.float16 needs MeanReductionStrategy.Running, and "
                    "the executable is already compiled with another: give the first optimiser that type."
                )
        parameters = dict(self._user_model.named_parameters())
        return optim.DeviceOptimizer(optimizer, parameters, self._options.relax_optimizer_checks)

    # What it is

    model = property(lambda self: self._user_model, doc="The model that was wrapped.")
    options = property(lambda self: self._options, doc="The options it runs with; they are frozen.")

    @property
    def rng_state(self) -> list[int]:
        """The state of the device's random numbers."""
        self._require_compiled("rng_state")
        return (torch.get_rng_state() if self._random is None else self._random).tolist()

    @rng_state.setter
    def rng_state(self, state: list[int]) -> None:
        self._require_compiled("rng_state")
        if self._random is None:
            torch.set_rng_state(torch.tensor(state, dtype=torch.uint8))
        else:
            self._random = torch.tensor(state, dtype=torch.uint8)

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
        counts = (len(self._signature.names), self._graph.num_outputs) if self._graph else (0, 0)
        inputs = [[began for began, _ in self._times] for _ in range(counts[0])]
        outputs = [[ended for _, ended in self._times] for _ in range(counts[1])]
        return {"input": inputs, "input_complete": inputs, "output": outputs, "output_complete": outputs}

    def getLatency(self) -> tuple[float, float, float]:
        """Seconds from input to output of a mini-batch in the last call: minimum, maximum, mean."""
        seconds = [ended - began for began, ended in self._times] or [0.0]
        return (min(seconds), max(seconds), sum(seconds) / len(seconds))

    def getHostIpuLatency(self) -> tuple[float, float, float]:
        """Seconds to move inputs or outputs between host and device (minimum, maximum, mean): none here."""
        return (0.0, 0.0, 0.0)

    getComputeLatency, getIpuHostLatency = getLatency, getHostIpuLatency

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
    accumulation, period = own.Training.gradient_accumulation, own.output_return_period
    if not training and accumulation != 1:
        raise Error(
            "You must set poptorch.Options().Training.gradientAccumulation to 1 or leave it as its default "
            "value (1) when running a poptorch.inferenceModel(). Use poptorch.Options().deviceIterations to "
            "process a sufficient number of batches each run for pipelined execution instead. (Got "
            f"{accumulation}: give the model and its DataLoader options of their own.)"
        )
    if own.output_mode == enums.OutputMode.EveryN and own.device_iterations % period:
        raise Error(
            f"outputMode(EveryN, {period}) needs a number of device iterations that {period} divides (got "
            f"{own.device_iterations})."
        )
    freeze(own)
    return own


class _Destroy:
    """`destroy` of a model wrapped for training: the wrapped model's, which it does not keep alive."""

    def __init__(self, executor: PoplarExecutor) -> None:
        self._executor = weakref.ref(executor)

    def __call__(self) -> None:
        executor = self._executor()
        if executor is not None:
            executor.destroy()

    def __reduce__(self) -> tuple:
        return functools.partial, (type(None),)  # a copy of the model is wrapped by nobody; loads anywhere


def _join(parts: tuple[torch.Tensor, ...]) -> torch.Tensor:
    """The outputs of several mini-batches, joined on dimension 0 (scalars: as a vector)."""
    if len(parts) == 1:
        return as_returned(parts[0])
    return as_returned(torch.stack(parts) if parts[0].dim() == 0 else torch.cat(parts))


def _combine(function: Callable, outputs: list) -> Any:
    """Apply `function` to the tensors at the same place of each of `outputs`."""
    leaves = [function(parts) for parts in zip(*(Flat(item).tensors for item in outputs))]
    return rebuild(outputs[0], iter(leaves))


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
