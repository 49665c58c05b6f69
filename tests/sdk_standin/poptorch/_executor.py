"""A wrapped model: it checks inputs, has weights of its own, finds its loss and steps on the device."""

import contextlib
import copy
import datetime
import inspect
import itertools
import logging
import pickle
import time

import torch

from . import _context, optim
from ._arguments import check_same, map_tensors, tensors
from ._device_optimisers import changed_constants, read_settings, step
from .enums import ConnectionType, OutputMode, ReductionType
from .options import Options
from .poptorch_core import Error

_logger = logging.getLogger("poptorch::python")
_NOT_COMPILED = "Model has not been compiled or has been destroyed."
_DOWN = {torch.int64: torch.int32, torch.float64: torch.float32}
_hooks = {"before": {}, "after": {}}


def _register(when, hook):
    if not callable(hook):
        raise RuntimeError(f"A hook must be callable (got {hook!r})")
    handle = torch.utils.hooks.RemovableHandle(_hooks[when])
    _hooks[when][handle.id] = hook
    return handle


def registerPreCompileHook(hook):
    return _register("before", hook)


def registerPostCompileHook(hook):
    return _register("after", hook)


class _Wrapped:
    """Marks the classes of models that a training model has been made of."""


def trainingModel(model, options=None, optimizer=None):
    model = model._user_model if isinstance(model, PoplarExecutor) else model
    if isinstance(model, _Wrapped):
        raise RuntimeError(
            "Model has already been wrapped in 'poptorch.trainingModel'. Call model.destroy() on the model "
            "to unwrap before wrapping again."
        )
    return PoplarExecutor(copy.copy(model), options, True, None, optimizer, user_model=model)


def inferenceModel(model, options=None):
    model = model._user_model if isinstance(model, PoplarExecutor) else model
    return PoplarExecutor(copy.copy(model), options, False, None)


class PoplarExecutor:
    def __init__(self, model, options, training, poptorch_version, optimizer=None, user_model=None):
        if options is not None and not isinstance(options, Options):
            raise Error(f"Invalid type: 'options' is of type {type(options)} (Expected poptorch.Options)")
        if options is not None:
            options._freeze()
        self._options = Options() if options is None else options.clone()
        self._model, self._user_model, self._training = model, user_model or model, training
        self._signature = inspect.signature(model.forward)
        self._compiled_for = self._device = self._optimizer = self._settings = None
        self._is_attached = False
        self._seen_versions = {}
        if self._options.defaultOutputMode():
            self._options.outputMode(OutputMode.Final if training else OutputMode.All)
        if training:
            self.setOptimizer(optimizer or optim.SGD(self._user_model.parameters(), lr=0.01))
            kind = type(self._user_model)
            methods = {"destroy": lambda _: self.destroy()}
            self._user_model.__class__ = type(f"Poptorch{kind.__name__}", (kind, _Wrapped), methods)
        else:
            if self._options.Training.gradient_accumulation != 1:
                raise Error(
                    "You must set poptorch.Options().Training.gradientAccumulation to 1 for inference."
                )
            assert not optimizer, "Optimizer should be None for inference"
        self._options._freeze()

    # --- compiling

    def compile(self, *args, **kwargs):
        bound = self._bind(args, kwargs)
        if self.isCompiled():
            _logger.warning("Call to compile() ignored: the executable is already compiled")
        else:
            self._compile(bound)

    def _compile(self, bound):
        began = time.perf_counter()
        for tensor in tensors(list(bound.arguments.values())):
            if tensor.requires_grad:
                _logger.warning("Input tensor has requires_grad=True set. This tensor will be detached.")
            if not tensor.numel():
                raise Error(f"Zero-sized tensors are unsupported (Got shape {list(tensor.shape)})")
        for hook in _hooks["before"].values():
            hook()
        # The modes that modules have now are part of the program: setting another later does not reach it.
        self._modes = {module: module.training for module in self._model.modules()}
        self._upload()
        self._loss_number = None
        generator = torch.Generator()
        generator.manual_seed(self._options.random_seed if self._options.exists("random_seed") else 42)
        self._rng = generator.get_state()
        if self._training:
            self._group_members = self._match_parameters()
            self._states = self._loaded_states()
        self._trace(self._micro_batches(bound)[0])
        self._compiled_for = dict(bound.arguments)
        self._is_attached = self._options.connection_type != ConnectionType.Never
        for hook in _hooks["after"].values():
            hook()
        self._compilation_time = datetime.timedelta(seconds=time.perf_counter() - began)

    def _trace(self, bound):
        """Runs the model once on a copy of the device's memory, to find its loss."""
        kept, rng = {name: value.clone() for name, value in self._buffers()}, self._rng
        recording = _Recording()
        recording.ends_with(self._run(bound, recording))
        for name, value in kept.items():
            is_broadcast = self._options.replication_factor > 1 and self._options.broadcast_buffers
            if is_broadcast and not torch.equal(self._device[name], value):
                raise Error(
                    f"The buffer {name} is written in forward while replicationFactor is "
                    f"{self._options.replication_factor}: set options.broadcastBuffers(False)."
                )
        self._device.update(kept)
        self._rng = rng
        if self._training:
            self._loss_number = recording.loss_number(self._user_model)

    def _buffers(self):
        return [(name, self._device[name]) for name, _ in self._model.named_buffers()]

    def _match_parameters(self):
        """For every group of the optimiser the names of its parameters."""
        names = {parameter.data_ptr(): name for name, parameter in self._model.named_parameters()}
        groups = [
            [names.get(p.data_ptr()) for p in group["params"]] for group in self._optimizer.param_groups
        ]
        if any(None in group for group in groups):
            raise Error(
                "The optimizer holds parameters that are not the model's: make it from model.parameters()."
            )
        return groups

    # --- running

    def __call__(self, *args, **kwargs):
        assert self._options.connection_type != ConnectionType.Never, (
            "Trying to run a model on an offline device"
        )
        bound = self._bind(args, kwargs)
        if not self.isCompiled():
            self._compile(bound)
        if not self._is_attached:
            self.attachToDevice()
        for name, compiled in self._compiled_for.items():
            check_same(name, compiled, bound.arguments[name])
        # An inference model gets the weights of a training model over the same parameters before it runs.
        source = getattr(self._user_model, "_trained_by", None) if not self._training else None
        if source is not None and self._seen_versions.get(id(source)) != source._version:
            self.copyWeightsToDevice()
            self._seen_versions[id(source)] = source._version
        outputs = self._run_all(self._micro_batches(bound))
        if self._training:
            self._download()
            self._version = getattr(self, "_version", 0) + 1
            self._user_model.__dict__["_trained_by"] = self
        return outputs

    def _bind(self, args, kwargs):
        try:
            bound = self._signature.bind(*args, **kwargs)
        except TypeError as error:
            raise Error(f"The model's forward takes {self._signature}: {error}") from None
        bound.apply_defaults()
        return bound

    def _micro_batches(self, bound):
        """The arguments of one run of forward after another: equal parts of dimension 0."""
        options = self._options
        count = (
            options.device_iterations
            * (options.replication_factor // options.input_group_size)
            * options.Training.gradient_accumulation
        )

        def part(tensor, number):
            size = tensor.shape[0] if tensor.dim() else 1
            assert size % count == 0, (
                f"Invalid batch dimension: In the input {tensor.shape}, its size ({size}) must be a "
                f"multiple of deviceIterations({options.device_iterations}) * (replicationFactor("
                f"{options.replication_factor}) / input_group_size({options.input_group_size})) * "
                f"gradientAccumulation({options.Training.gradient_accumulation}) = {count}"
            )
            tensor = tensor.narrow(0, number * (size // count), size // count) if tensor.dim() else tensor
            tensor = tensor.detach().clone()
            # 64 bits do not exist on the device; torch on the host wants them for indices, so they come back.
            down = tensor.to(_DOWN.get(tensor.dtype, tensor.dtype))
            return down.to(torch.int64) if tensor.dtype == torch.int64 else down

        parts = []
        for number in range(count):
            copied = copy.copy(bound)
            copied.arguments = {
                name: map_tensors(lambda tensor: part(tensor, number), value)  # noqa: B023
                for name, value in bound.arguments.items()
            }
            parts.append(copied)
        return parts

    def _run(self, bound, mode):
        """One forward on the device's weights, in the compiled modes, with the device's random numbers."""
        with contextlib.ExitStack() as stack:
            for module, training in self._modes.items():
                stack.callback(setattr, module, "training", module.training)
                module.training = training
            stack.enter_context(torch.random.fork_rng(devices=[]))
            stack.enter_context(_context.running(self._training))
            stack.enter_context(torch.set_grad_enabled(self._training))
            torch.set_rng_state(self._rng)
            with mode:
                result = torch.func.functional_call(self._model, self._device, bound.args, bound.kwargs)
            self._rng = torch.get_rng_state()
        return result

    def _run_all(self, micro_batches):
        options, results = self._options, []
        per_step = (
            options.replication_factor // options.input_group_size * options.Training.gradient_accumulation
        )
        for start in range(0, len(micro_batches), per_step):
            gradients = {}
            for bound in micro_batches[start : start + per_step]:
                losses = _Losses()
                results.append(self._run(bound, losses))
                if self._training:
                    self._add_gradients(losses.values[self._loss_number], gradients)
            if self._training:
                self._update(gradients, per_step)
        return self._chosen(results)

    def _add_gradients(self, loss, gradients):
        weights = {
            n: self._device[n] for n, p in self._model.named_parameters() if self._device[n].requires_grad
        }
        values = torch.autograd.grad(loss.sum(), list(weights.values()), allow_unused=True)
        for name, value in zip(weights, values):
            if value is not None:
                gradients[name] = gradients.get(name, 0) + value

    def _update(self, gradients, count):
        if self._options.Training.accumulation_and_replication_reduction_type == ReductionType.Mean:
            gradients = {name: value / count for name, value in gradients.items()}
        kind, settings = self._settings
        members = [[self._device[name] for name in names] for names in self._group_members]
        by_tensor = {self._device[name]: value for name, value in gradients.items()}
        step(kind, list(zip(settings, members)), by_tensor, self._states)

    def _chosen(self, results):
        """What comes back of all results, by the output mode: concatenated, in 32 bits, and copies."""
        options, replicas = self._options, self._options.replication_factor // self._options.input_group_size
        steps = [results[start : start + replicas] for start in range(0, len(results), replicas)]
        if options.output_mode == OutputMode.Final:
            steps = steps[-1:]
        elif options.output_mode == OutputMode.EveryN:
            steps = steps[options.output_return_period - 1 :: options.output_return_period]
        if options.output_mode == OutputMode.Sum:
            sums = [[sum(column) for column in zip(*(tensors(s[r]) for s in steps))] for r in range(replicas)]
            columns = zip(*sums)
        else:
            columns = zip(*(tensors(result) for result in itertools.chain(*steps)))
        return map_tensors(lambda _: self._returned(next(columns)), results[-1])

    def _returned(self, values):
        values = [value.detach() for value in values]
        joined = (
            values[0].clone()
            if len(values) == 1
            else torch.cat([v.reshape(1) if not v.dim() else v for v in values])
        )
        joined = joined.to(_DOWN.get(joined.dtype, joined.dtype))
        joined.backward = _no_backward
        return joined

    # --- weights

    def _host(self):
        return {**dict(self._model.named_parameters()), **dict(self._model.named_buffers())}

    def _upload(self):
        self._device = {
            name: value.detach().clone().requires_grad_(value.requires_grad)
            for name, value in self._host().items()
        }

    def _download(self):
        with torch.no_grad():
            for name, value in self._host().items():
                value.copy_(self._device[name])

    def _need_compiled(self):
        if not self.isCompiled():
            raise Error(_NOT_COMPILED)

    def copyWeightsToHost(self):
        self._need_compiled()
        self._download()

    def copyWeightsToHostIfNeeded(self):
        return False  # done after every call

    def copyWeightsToDevice(self):
        self._need_compiled()
        with torch.no_grad():
            for name, value in self._host().items():
                self._device[name].copy_(value)

    def copyNamedBuffersToDevice(self):
        self._need_compiled()
        if not self._options.exists("buffers"):
            raise Error("No named buffers marked as updatable via updatableNamedBuffers option")
        for name in self._options.buffers:
            self._device[name].copy_(self._host()[name])

    def load_state_dict(self, state_dict, strict=True):
        result = self._user_model.load_state_dict(state_dict, strict)
        if self.isAttachedToDevice():
            self.copyWeightsToDevice()
        return result

    def setOptimizer(self, optimizer):
        settings = read_settings(optimizer)
        if self.isCompiled():
            changed = changed_constants(self._settings, settings)
            if changed:
                raise Error(
                    f"{', '.join(changed)} of the optimizer: constant in the compiled program. "
                    "Pass it to the optimizer's constructor, or mark it with variable_attrs.markAsVariable."
                )
        self._optimizer, self._settings = optimizer, settings
        if isinstance(optimizer, optim.Optimizer):
            optimizer.state_dict = self._optimizer_state

    def _loaded_states(self):
        """What the optimiser brings from a checkpoint: PopTorch writes it once it has compiled."""
        if not (isinstance(self._optimizer, optim.Optimizer) and self._optimizer.has_state()):
            return {}
        loaded = self._optimizer._ipu_state["ipu_state"]
        return {self._device[name]: copy.deepcopy(state) for name, state in loaded.items()}

    def _optimizer_state(self):
        if self.isCompiled():
            names = {id(tensor): name for name, tensor in self._device.items()}
            state = {names[id(tensor)]: value for tensor, value in self._states.items()}
            self._optimizer._ipu_state = {
                "ipu_state": state,
                "ipu_param": [dict(g) for g in self._settings[1]],
            }
        return self._optimizer.get_state_dict()

    # --- the rest

    def __repr__(self):
        return repr(self._user_model)

    def __getattr__(self, name):
        if name.startswith("__") or "_user_model" not in self.__dict__:
            raise AttributeError(name)
        return getattr(self._user_model, name)

    @property
    def model(self):
        return self._user_model

    @property
    def options(self):
        return self._options

    @property
    def rng_state(self):
        self._need_compiled()
        return self._rng.tolist()

    @rng_state.setter
    def rng_state(self, state):
        self._need_compiled()
        self._rng = torch.tensor(state, dtype=torch.uint8)

    def getTensorNames(self):
        assert self.isCompiled(), "Model must be compiled before calling getTensorNames"
        return list(self._device)

    def getAnchoredTensor(self, short_name):
        raise AssertionError(f"No tensor with name {short_name} found.")

    def isCompiled(self):
        return self._compiled_for is not None

    def isAttachedToDevice(self):
        return self.isCompiled() and self._is_attached

    def detachFromDevice(self):
        self._need_compiled()
        if not self._is_attached:
            raise Error("Device is not attached")
        self._is_attached = False

    def attachToDevice(self):
        self._need_compiled()
        if self._is_attached:
            raise Error("Device is already attached")
        self._is_attached = True
        self.copyWeightsToDevice()

    def destroy(self):
        if not self.isCompiled():
            return
        self._compiled_for, self._is_attached = None, False
        if self._training and isinstance(self._user_model, _Wrapped):
            self._user_model.__class__ = type(self._user_model).__bases__[0]

    def compilationTime(self):
        if not self.isCompiled():
            raise Error("Please compile the model before obtaining compilation time.")
        if not self._options._shows_progress:
            raise Error("Please set showCompilationProgressBar option to obtain compilation time.")
        return self._compilation_time

    def cycleCount(self):
        if not self._options.exists("log_cycle_count"):
            raise Error("Cycle count logging is disabled. Please set option logCycleCount to True to enable.")
        if not self.isCompiled():
            raise Error("Please run the model at least once before obtaining cycle count.")
        return 1

    def getPerfCounters(self):
        return {event: [[]] for event in ("input", "input_complete", "output", "output_complete")}

    def getLatency(self):
        return (0.0, 0.0, 0.0)

    def getHostIpuLatency(self):
        return self.getLatency()

    def getComputeLatency(self):
        return self.getLatency()

    def getIpuHostLatency(self):
        return self.getLatency()

    def save(self, filename, export_model=True, save_rng_state=True):
        self._need_compiled()
        model = copy.copy(self._user_model)
        model.__dict__.pop("_trained_by", None)
        model.__class__ = type(model).__bases__[0] if isinstance(model, _Wrapped) else type(model)
        content = {"inputs": self._compiled_for, "options": self._options, "training": self._training}
        content.update({"model": model} if export_model else {})
        with open(filename, "wb") as file:
            pickle.dump(content, file)

    def compileAndExport(self, filename, *args, export_model=True, **kwargs):
        self.compile(*args, **kwargs)
        self.save(filename, export_model)

    def loadExecutable(self, filename):
        with open(filename, "rb") as file:
            content = pickle.load(file)
        self._compile(self._bind((), content["inputs"]))


def load(filename, edit_opts_fn=None):
    with open(filename, "rb") as file:
        content = pickle.load(file)
    assert "model" in content, f"{filename} was created with 'export_model=False'"
    options = content["options"].clone()
    if edit_opts_fn:
        edit_opts_fn(options)
    make = trainingModel if content["training"] else inferenceModel
    executor = make(content["model"], options)
    executor.loadExecutable(filename)
    return executor


def _no_backward(*args, **kwargs):
    raise Error(
        "backward() cannot be called explicitly on outputs of a PopTorch model: a trainingModel does the "
        "backward pass by itself when it is called; instead of an inferenceModel, use a trainingModel."
    )


def _finder():
    # Found when used: the package is being imported while it imports this module.
    from gnn_ipu_helpers.porting import losses

    return losses


class _Losses(torch.overrides.TorchFunctionMode):
    """Keeps the values of the losses that a run computes, in order."""

    def __init__(self):
        super().__init__()
        self.values = []
        self._is_loss = _finder().is_loss_function

    def __torch_function__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        if self._is_loss(function):
            self.values.append(result)
        return result


class _Recording(torch.overrides.TorchFunctionMode):
    """Writes down what a run does as a graph, in which the loss can be looked for."""

    def __init__(self):
        super().__init__()
        self.graph = torch.fx.Graph()
        self._nodes, self._kept = {}, []

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        result = function(*args, **kwargs)
        name = getattr(function, "__name__", "")
        if name in ("__get__", "__set__") or not isinstance(result, (torch.Tensor, tuple, list)):
            return result
        inputs = [self._node(value) for value in _tensors_in([args, kwargs])]
        outputs = _tensors_in([result])
        if inputs and outputs:
            node = self.graph.create_node("call_function", function, tuple(inputs))
            node.meta["example_value"] = result
            self._kept.append(result)
            for value in outputs:
                self._nodes[id(value)] = node
        return result

    def _node(self, value):
        if id(value) not in self._nodes:
            self._nodes[id(value)] = self.graph.create_node("placeholder", f"input_{len(self._nodes)}")
            self._nodes[id(value)].meta["example_value"] = value
            self._kept.append(value)
        return self._nodes[id(value)]

    def ends_with(self, result):
        self.graph.output(tuple(self._node(value) for value in tensors(result)))

    def loss_number(self, model):
        """Which of the losses that a run computes is the one to train on."""
        losses = _finder()
        found = losses.find_loss(self.graph, model)
        # PopTorch would train on another loss than the one that is shown, and say nothing. Nothing that runs
        # against this stand-in means that.
        if found.findings or found.warnings:
            raise Error("\n".join(map(str, [*found.findings, *found.warnings])))
        calls = [node for node in self.graph.nodes if node.op == "call_function"]
        return [node for node in calls if losses.is_loss_function(node.target)].index(found.node)


def _tensors_in(value):
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    return (
        [tensor for item in value for tensor in _tensors_in(item)] if isinstance(value, (tuple, list)) else []
    )
