"""The wrapped model: PopTorch's ``PoplarExecutor`` without an IPU."""

from __future__ import annotations

import datetime
import inspect
import time
from typing import Any, Iterator

import torch

from . import enums, optim
from ._settings import values_of
from .arguments import rebuild
from .caching import ExecutableCache, PackedExecutable
from .demands import check_mode, own_options, require_initialised, require_torch
from .errors import Error, only_on_ipu, unknown_name
from .exports import read_export, write_export
from .graph import Graph
from .options import Options
from .outputs import OutputCollector
from .progress import compiling
from .randomness import DeviceRandom, unchanged
from .signature import Call, Signature
from .stepping import DeviceOptimizer
from .timing import CallTimes
from .watch import ModelWatch, refuse_reassigned_buffers


class PoplarExecutor:
    """A model compiled into one static graph and called like the model; other attributes are the model's own.

    Made by ``trainingModel``, ``inferenceModel`` and ``load``.
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
        require_torch()
        if not isinstance(model, torch.nn.Module):
            raise Error(f"PopTorch wraps a torch.nn.Module (got {type(model).__name__}).")
        self._model = user_model or model
        self._training = training
        self._options = own_options(options)
        values = values_of(self._options)
        check_mode(values, training)
        self._replicas = values["replication_factor"]
        self._accumulation = values["gradient_accumulation"]
        self._iterations = values["device_iterations"]
        self._parts = self._iterations * self._accumulation * self._replicas
        self._reduces_by_mean = (
            values["accumulation_and_replication_reduction_type"] == enums.ReductionType.Mean
        )
        self._collector = self._make_collector(values)
        self._random = DeviceRandom(values["random_seed"])
        self._cache = ExecutableCache.from_settings(values)
        self._shows_progress = values["show_compilation_progress_bar"]
        self._forward = inspect.signature(self._model.forward)
        self._compile_count = 0
        self._compilation_seconds = 0.0
        self._times = CallTimes()
        self._forget_graph()
        self._set_mode()
        self._optimizer: DeviceOptimizer | None = None
        if training:
            self._optimizer = DeviceOptimizer(optimizer or optim.SGD(self._model.parameters(), lr=0.01))

    # Calling

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the mini-batches of a combined batch: forward, and when training also backward and steps."""
        call = self._call(args, kwargs)
        if self._graph is None:
            self._compile(call, self._cache)
        else:
            self._signature.check(call)
            self._watch.check()
        self._is_attached = True
        self._set_mode()
        self._times.clear()
        self._collector.start()
        with self._random.drawing(), torch.set_grad_enabled(self._training):
            if self._training:
                self._train(call)
            else:
                self._infer(call)
        return self._collector.result()

    def _call(self, args: tuple, kwargs: dict) -> Call:
        return Call(self._forward, type(self._model).__name__, args, kwargs)

    def _train(self, call: Call) -> None:
        self._drop_gradients()
        per_step = self._accumulation * self._replicas
        for number, (outputs, loss) in enumerate(self._results(call), 1):
            loss.backward(None if loss.dim() == 0 else torch.ones_like(loss))
            self._collector.add(outputs)
            if number % per_step == 0:
                self._step(per_step)

    def _step(self, count: int) -> None:
        if self._reduces_by_mean and count > 1:
            gradients = [parameter.grad for parameter in self._parameters if parameter.grad is not None]
            torch._foreach_div_(gradients, count)
        self._optimizer.step()
        self._drop_gradients()

    def _infer(self, call: Call) -> None:
        for outputs, _ in self._results(call):
            self._collector.add(outputs)

    def _results(self, call: Call) -> Iterator[tuple[Any, torch.Tensor | None]]:
        """Outputs and loss of each mini-batch, in order: device iteration, accumulation step, replica."""
        for tensors in self._mini_batches(call):
            self._times.start()
            if call.flat.has_same_asides(self._asides):
                result = self._graph.run(tensors)
            else:
                result = self._verify(call, tensors)
            yield result
            self._times.end()

    def _mini_batches(self, call: Call) -> Iterator[list[torch.Tensor]]:
        tensors = [_plain(tensor) for tensor in call.tensors]
        if self._parts == 1:
            yield tensors
        else:
            yield from (list(part) for part in zip(*(tensor.chunk(self._parts) for tensor in tensors)))

    def _verify(self, call: Call, tensors: list[torch.Tensor]) -> tuple[Any, torch.Tensor | None]:
        """Run through the tracer, which raises if a changed value that is no tensor is part of the graph."""
        args, kwargs = rebuild((call.args, call.kwargs), iter(tensors))
        result = self._graph.trace(args, kwargs, tensors)
        self._asides = call.flat.asides
        return result

    def _set_mode(self) -> None:
        if self._model.training != self._training:
            self._model.train(self._training)

    def _drop_gradients(self) -> None:
        for parameter in self._parameters:
            parameter.grad = None

    # Compiling

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Compile for these arguments; weights, buffers and random numbers stay as they are."""
        self._compile(self._call(args, kwargs), self._cache)

    def _compile(self, call: Call, cache: ExecutableCache | PackedExecutable) -> None:
        if not call.tensors:
            raise Error("A model is compiled for the shapes of its tensors, and this call has no tensor.")
        require_initialised(self._model)
        signature = Signature(call, self._parts)
        self._set_mode()
        started = time.perf_counter()
        with compiling(self._shows_progress) as progress:
            key = (type(self._model).__name__, self._training, signature.key())
            with cache.around_compilation(key):
                graph = self._compile_graph(call, progress)
        self._compilation_seconds = time.perf_counter() - started
        self._graph, self._signature = graph, signature
        self._asides = call.flat.asides
        self._example = rebuild((call.args, call.kwargs), map(torch.zeros_like, call.tensors))
        self._executable = cache.packed
        self._watch = ModelWatch(self._model)
        self._parameters = list(self._model.parameters())
        self._compile_count += 1
        self._is_attached = True

    def _compile_graph(self, call: Call, progress: Any) -> Graph:
        """Trace and compile on the first mini-batch; running backward once compiles it too."""
        graph = Graph(self._model, self._training)
        first = next(self._mini_batches(call))
        tensors = [tensor.detach().clone() for tensor in first]
        args, kwargs = rebuild((call.args, call.kwargs), iter(tensors))
        progress(5)
        with unchanged(self._model), torch.set_grad_enabled(self._training):
            with refuse_reassigned_buffers(self._model):
                _, loss = graph.trace(args, kwargs, tensors)
            progress(60)
            if loss is not None:
                loss.backward(torch.ones_like(loss))
        return graph

    def compileAndExport(self, filename: str, *args: Any, export_model: bool = True, **kwargs: Any) -> None:
        """Compile for these arguments and write the result to a file, for ``poptorch.load``."""
        self._compile(self._call(args, kwargs), PackedExecutable())
        self.save(filename, export_model)

    def save(self, filename: str, export_model: bool = True, save_rng_state: bool = True) -> None:
        """Write the compiled graph to a file, with ``export_model`` also the model, options and optimiser."""
        self._require_compiled("save")
        write_export(
            filename,
            {
                "training": self._training,
                "example": self._example,
                "executable": self._executable,
                "rng_state": self._random.state if save_rng_state else None,
                "model": self._model if export_model else None,
                "options": self._options if export_model else None,
                "optimizer": self._optimizer.optimizer if export_model and self._training else None,
            },
        )

    def loadExecutable(self, filename: str) -> None:
        """Compile with what an export of this model holds: the same arguments, and code that is ready."""
        content = read_export(filename)
        if content["training"] != self._training:
            kinds = ("inference", "training")
            raise Error(
                f"{filename!r} was exported for {kinds[content['training']]}, and this model is wrapped for "
                f"{kinds[self._training]}."
            )
        args, kwargs = content["example"]
        self._compile(self._call(args, kwargs), PackedExecutable(content["executable"]))
        if content["rng_state"] is not None:
            self._random.state = content["rng_state"]

    def isCompiled(self) -> bool:
        """Whether the model has been compiled."""
        return self._graph is not None

    def compilationTime(self) -> datetime.timedelta:
        """How long the compilation took."""
        self._require_compiled("compilationTime")
        return datetime.timedelta(seconds=self._compilation_seconds)

    def destroy(self) -> None:
        """Let go of the compiled graph; the next call compiles anew."""
        self._forget_graph()

    def _forget_graph(self) -> None:
        self._graph: Graph | None = None
        self._signature: Signature | None = None
        self._watch: ModelWatch | None = None
        self._parameters: list[torch.nn.Parameter] = []
        self._asides: list = []
        self._example: tuple = ()
        self._executable: bytes | None = None
        self._is_attached = False

    def _require_compiled(self, name: str) -> None:
        if self._graph is None:
            raise Error(f"{name} needs a compiled model: call the model once, or compile(*inputs), before.")

    # The device, and weights on it. Host and device share the weights here.

    def isAttachedToDevice(self) -> bool:
        """Whether the model holds the device."""
        return self._is_attached

    def attachToDevice(self) -> None:
        """Take the device for a compiled model."""
        self._require_compiled("attachToDevice")
        if self._is_attached:
            raise Error("The model is attached to the device already.")
        self._is_attached = True

    def detachFromDevice(self) -> None:
        """Let go of the device, with the weights up to date on the host; the next call attaches again."""
        if not self._is_attached:
            raise Error("The model is not attached to a device: it attaches when it is first called.")
        self._is_attached = False

    def copyWeightsToHostIfNeeded(self) -> bool:
        """Bring the weights up to date on the host; returns whether that was needed, and here it is not."""
        return False

    def copyWeightsToHost(self) -> None:
        """Bring the weights up to date on the host; here they always are."""

    def copyWeightsToDevice(self) -> None:
        """Bring the weights up to date on the device; here they always are."""

    def copyNamedBuffersToDevice(self) -> None:
        """Bring the updatable buffers up to date on the device; here they always are."""

    def load_state_dict(self, state_dict: Any, strict: bool = True) -> Any:
        """Load weights into the model and onto the device."""
        return self._model.load_state_dict(state_dict, strict)

    def setOptimizer(self, optimizer: torch.optim.Optimizer) -> None:
        """Train on with this optimiser, or the same one with new settings; nothing is compiled again."""
        if not self._training:
            raise Error("setOptimizer is for training: this model was wrapped by poptorch.inferenceModel.")
        self._optimizer = DeviceOptimizer(optimizer)

    # What it is

    @property
    def model(self) -> torch.nn.Module:
        """The model that was wrapped."""
        return self._model

    @property
    def options(self) -> Options:
        """The options it runs with; they are frozen."""
        return self._options

    @property
    def rng_state(self) -> torch.Tensor:
        """The state of the device's random numbers."""
        self._require_compiled("rng_state")
        return self._random.state

    @rng_state.setter
    def rng_state(self, state: torch.Tensor) -> None:
        self._require_compiled("rng_state")
        self._random.state = state

    def getTensorNames(self) -> list[str]:
        """The names of the tensors on the device: parameters and buffers."""
        self._require_compiled("getTensorNames")
        named = [*self._model.named_parameters(), *self._model.named_buffers()]
        return [name for name, _ in named]

    def getAnchoredTensor(self, short_name: str) -> torch.Tensor:
        """An inner tensor kept by ``Options.anchorTensor``; only an IPU has them."""
        raise only_on_ipu("getAnchoredTensor", "Return the tensor from forward instead.")

    # Timing

    def cycleCount(self) -> int:
        """The cycles of the last run; only an IPU counts them."""
        raise only_on_ipu("cycleCount", "getLatency() gives seconds here too.")

    def getPerfCounters(self) -> tuple[list[float], ...]:
        """When input began and ended, and output began and ended, for each mini-batch of the last call."""
        return self._times.counters()

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
        return self._times.latency()

    # Everything else is the model's

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or "_model" not in self.__dict__:
            raise AttributeError(name)
        try:
            return getattr(self._model, name)
        except AttributeError:
            known = [*dir(type(self)), *dir(self._model)]
            raise AttributeError(unknown_name(f"Poptorch{type(self._model).__name__}", name, known)) from None

    def __repr__(self) -> str:
        return f"Poptorch{self._model!r}"

    def _make_collector(self, values: dict[str, Any]) -> OutputCollector:
        mode = values["output_mode"]
        if mode == enums.OutputMode.Default:
            mode = enums.OutputMode.Final if self._training else enums.OutputMode.All
        period = values["output_return_period"]
        return OutputCollector(mode, period, self._iterations, self._accumulation, self._replicas)


def _plain(tensor: torch.Tensor) -> torch.Tensor:
    """``tensor`` without a gradient and in the memory layout that graphs are compiled for."""
    if tensor.requires_grad:
        tensor = tensor.detach()
    return tensor if tensor.is_contiguous() else tensor.contiguous()


def times_compiled(executor: PoplarExecutor) -> int:
    """How often a wrapped model has been compiled."""
    return executor._compile_count
