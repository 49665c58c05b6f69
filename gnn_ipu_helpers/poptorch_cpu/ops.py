"""PopTorch's operations for use inside a model, and the calls that shape how an IPU would run it."""

from __future__ import annotations

import contextlib
import functools
import logging
import math
from typing import Any, Callable, Iterator, Sequence

import torch

from ..porting.losses import is_training_on_device, isRunningOnIpu
from .enums import MatMulSerializationMode, MultiConvPlanType, OverlapMode
from .errors import Error, InvalidSetting, only_on_ipu, require_instance


def _tensor(what: str, value: Any) -> torch.Tensor:
    if not isinstance(value, torch.Tensor):
        raise Error(f"{what} takes a tensor (got {type(value).__name__}).")
    return value


def _while_tracing(function: Callable) -> Callable:
    """Have the tracer call `function` as plain Python, so that it may take notes."""
    compiler = getattr(torch, "compiler", None)  # torch 2.0 has none: it loads batches, and wraps no model
    return compiler.assume_constant_result(function) if compiler else function


# Loops and branches


def for_loop(
    count: int, body: Callable[..., Sequence[torch.Tensor]], inputs: Sequence[torch.Tensor]
) -> list[torch.Tensor]:
    """Call `body` `count` times, each time on the results of the time before. For inference only.

    Args:
        count: The number of times, fixed when the model is compiled.
        body: Takes as many tensors as there are `inputs`, and returns as many of the same shapes and types.
        inputs: A list of tensors to begin with; the body gets copies.

    Returns:
        The results of the last time.
    """
    _require_list("for_loop", "inputs", inputs)
    _require_inference("for_loop")
    state = [tensor.clone() for tensor in inputs]
    for _ in range(count):
        result = _as_list(body(*state))
        _require_same("for_loop: the body", state, result)
        state = result
    return state


def cond(
    condition: torch.Tensor,
    then_body: Callable[..., Sequence[torch.Tensor]],
    then_inps: Sequence[torch.Tensor],
    else_body: Callable[..., Sequence[torch.Tensor]],
    else_inps: Sequence[torch.Tensor],
) -> list[torch.Tensor]:
    """The results of `then_body(*then_inps)` where `condition` holds, else of `else_body(*else_inps)`.

    For inference only. `condition` is a tensor with one element, whose value may change from call to call;
    both bodies return as many tensors of the same shapes and types. In a compiled model both are computed and
    one is chosen, so that the graph stays static; on the host only one is.
    """
    _require_list("cond", "then_inps", then_inps)
    _require_list("cond", "else_inps", else_inps)
    _require_inference("cond")
    if not isRunningOnIpu():
        return _as_list(then_body(*then_inps) if condition else else_body(*else_inps))
    then_results = _as_list(then_body(*[tensor.clone() for tensor in then_inps]))
    else_results = _as_list(else_body(*[tensor.clone() for tensor in else_inps]))
    _require_same("cond: the else branch", then_results, else_results)
    chosen = condition.reshape(()).bool()
    return [torch.where(chosen, first, second) for first, second in zip(then_results, else_results)]


def _require_inference(name: str) -> None:
    if is_training_on_device():
        raise Error(
            f"poptorch.{name}() is only supported in inference models: it has no backward pass. Write the "
            "loop or the choice with torch's operations (a Python loop of fixed length, torch.where)."
        )


def _require_list(name: str, what: str, tensors: Any) -> None:
    problem = "" if isinstance(tensors, list) else f"Object is not list) Got {type(tensors).__name__}"
    for place, tensor in enumerate(tensors if not problem else ()):
        if not isinstance(tensor, torch.Tensor):
            kind = type(tensor).__name__
            problem = f"Object contained in list at index {place} is not torch.tensor) Got {kind}"
    if problem:
        raise ValueError(
            f"poptorch.{name} expects input tensors ({what}) to be a list of tensors. ({problem}."
        )


def _as_list(result: Any) -> list[torch.Tensor]:
    return list(result) if isinstance(result, (list, tuple)) else [result]


def _require_same(what: str, expected: list[torch.Tensor], got: list[torch.Tensor]) -> None:
    wanted = [(list(tensor.shape), tensor.dtype) for tensor in expected]
    returned = [(list(tensor.shape), tensor.dtype) for tensor in got]
    if wanted != returned:
        raise Error(f"{what} must return tensors of these shapes and types: {wanted} (got {returned}).")


# Tensors


def nop(tensor: torch.Tensor) -> torch.Tensor:
    """`tensor`, behind an operation that the compiler does not remove."""
    return _tensor("nop", tensor).clone()


def dynamic_slice(tensor: torch.Tensor, dim: int, start: torch.Tensor, size: int, step: int) -> torch.Tensor:
    """Every `step`-th of the `size` elements of dimension `dim` from `start` on.

    `start` is an integer tensor, whose value may change from call to call; beyond the end it goes on from the
    beginning. `size` divides the length of the dimension. The result has `ceil(size / step)` elements in it.
    """
    places = _places("dynamic_slice", tensor, dim, start, size, step)
    if tensor.shape[dim] % size:
        raise Error(
            f"The size of the slice ({size}) must be a factor of the slicing dimension "
            f"({tensor.shape[dim]}). Take a size that divides it, or pad the tensor."
        )
    return tensor.index_select(dim, places)


def dynamic_update(
    input: torch.Tensor, src: torch.Tensor, dim: int, start: torch.Tensor, size: int
) -> torch.Tensor:
    """A copy of `input` with `src` in the `size` places of dimension `dim` from `start` on."""
    places = _places("dynamic_update", input, dim, start, size)
    if input.dim() != _tensor("src of dynamic_update", src).dim():
        raise Error(
            f"input and src tensors must have same dimensionality. ({input.dim()}) vs ({src.dim()}): their "
            f"shapes are {list(input.shape)} and {list(src.shape)}."
        )
    if input.dtype != src.dtype:
        on_device = [_ON_DEVICE.get(tensor.dtype, tensor.dtype) for tensor in (input, src)]
        raise Error(
            f"input and src tensor must have same dtype. ({on_device[0]} vs {on_device[1]}): pass "
            f"src.to({input.dtype})."
        )
    return input.index_copy(dim, places, src)


_ON_DEVICE = {torch.int64: torch.int32, torch.float64: torch.float32}  # which has 32 bits


def _places(
    name: str, tensor: torch.Tensor, dim: int, start: torch.Tensor, size: int, step: int = 1
) -> torch.Tensor:
    """The indices of a slice that begins where a tensor says."""
    _tensor(name, tensor)
    _tensor(f"The start of {name}", start)
    for what, value in (("dim", dim), ("size", size), ("step", step)):
        if not isinstance(value, int):
            raise Error(f"{name}: {what} must be an integer (got {value!r}).")
    if size == 0:
        raise Error("The start and end of a slice must be different: its size is 0.")
    if size < 0:
        raise Error(f"Taking a slice of a tensor with the end less than the start is not supported: {size}.")
    return (start.reshape(()) + torch.arange(0, size, step, device=tensor.device)) % tensor.shape[dim]


def serializedMatMul(
    lhs: torch.Tensor,
    rhs: torch.Tensor,
    mode: MatMulSerializationMode,
    factor: int = 0,
    keep_precision: bool = False,
) -> torch.Tensor:
    """`lhs @ rhs`; on an IPU in `factor` pieces, to save memory."""
    require_instance("The mode of serializedMatMul", mode, MatMulSerializationMode)
    return torch.matmul(lhs, rhs)


def fps(src: torch.Tensor, ptr: list[int], ratio: float = 0.5, random_start: bool = False) -> torch.Tensor:
    """Farthest-point sampling: `ceil(ratio * n)` indices of each group `src[ptr[i]:ptr[i + 1]]`.

    `src` is `[num_points, F]` and `ptr` a list of integers, so that the result's size is fixed.
    """
    _tensor("fps", src)
    if not isinstance(ptr, list) or len(ptr) < 2:
        raise Error(f"fps: ptr must be a list of at least two integers (got {ptr!r}).")
    chosen = []
    for begin, end in zip(ptr[:-1], ptr[1:]):
        points = src[begin:end]
        latest = torch.randint(end - begin, (1,)) if random_start else torch.zeros(1, dtype=torch.long)
        indices, closest = [latest], torch.full((end - begin,), float("inf"), dtype=src.dtype)
        for _ in range(math.ceil(ratio * (end - begin)) - 1):
            closest = torch.minimum(closest, (points - points[latest]).square().sum(dim=1))
            latest = closest.argmax().reshape(1)
            indices.append(latest)
        chosen.append(begin + torch.cat(indices))
    return torch.cat(chosen)


def nearest(
    x: torch.Tensor,
    y: torch.Tensor,
    batch_x: torch.Tensor | list[int] | None = None,
    batch_y: torch.Tensor | list[int] | None = None,
) -> torch.Tensor:
    """For each row of `x` `[N, F]` the nearest row of `y` `[M, F]` in its batch: indices `[N]`."""
    distance = torch.cdist(_tensor("nearest", x), _tensor("nearest", y))
    if batch_x is not None and batch_y is not None:
        other = torch.as_tensor(batch_x).unsqueeze(1) != torch.as_tensor(batch_y).unsqueeze(0)
        distance = distance.masked_fill(other, float("inf"))
    return distance.argmin(dim=1)


# What an IPU does with a tensor and a CPU need not: it comes back as it is.


def ipu_print_tensor(
    tensor: torch.Tensor,
    title: str = "",
    print_gradient: bool = True,
    summarise_threshold: int = 1000,
    edge_items: int = 3,
    max_line_width: int = 80,
    digits: int = 4,
    float_format: str = "auto",
    separator: str = ", ",
    open_bracket: str = "(",
    close_bracket: str = ")",
) -> torch.Tensor:
    """Print `tensor` when the graph runs on an IPU; here it is returned unprinted, and a warning says so."""
    _say_unprinted(title)
    return _tensor("ipu_print_tensor", tensor)


@_while_tracing
def _say_unprinted(title: str) -> None:
    if isRunningOnIpu():
        text = "ipu_print_tensor(..., %r) prints on an IPU only: return the tensor from forward to see it."
        logging.getLogger("poptorch").warning(text, title)


def recomputationCheckpoint(*tensors: torch.Tensor) -> Any:
    """Where an IPU begins to recompute in the backward pass."""
    for tensor in tensors[0] if isinstance(tensors[0], (tuple, list)) else tensors:
        if not isinstance(tensor, torch.Tensor):
            raise ValueError(f"recomputationCheckpoint takes tensors (got {type(tensor).__name__}).")
    return tensors[0] if len(tensors) == 1 else tensors


def set_available_memory(tensor: torch.Tensor, available_memory_proportion: float) -> torch.Tensor:
    """How much memory the operation that made `tensor` may take on an IPU."""
    return _tensor("set_available_memory", tensor)


def set_overlap_for_input(input_tensors: Any, mode: OverlapMode) -> Any:
    """How loading these inputs overlaps with computation on an IPU."""
    require_instance("mode", mode, OverlapMode)
    return input_tensors


def set_overlap_for_output(output_tensors: Any, mode: OverlapMode) -> Any:
    """How storing these outputs overlaps with computation on an IPU."""
    require_instance("mode", mode, OverlapMode)
    return output_tensors


# What only an IPU has


def ctc_beam_search_decoder(
    probs: torch.Tensor, lengths: torch.Tensor, blank: int = 0, beam_width: int = 100, top_paths: int = 1
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Decode by beam search; only an IPU does it."""
    raise only_on_ipu("ctc_beam_search_decoder", "Decode on the host with torchaudio's decoder.")


def custom_op(
    inputs: Sequence[torch.Tensor],
    name: str,
    domain: str,
    domain_version: int,
    example_outputs: Sequence[torch.Tensor],
    attributes: dict[str, Any] | None = None,
) -> list[torch.Tensor]:
    """An operation written for the IPU; only an IPU has it."""
    raise only_on_ipu(f"The custom operation {domain}.{name}", "Write it with torch's operations.")


def ipuHardwareIsAvailable(num_ipus: int = 1) -> bool:
    """Whether there are this many IPUs: not where this module is in use."""
    return False


def ipuHardwareVersion() -> int:
    """The version of the IPU; asserts that there is one."""
    raise AssertionError("There is no IPU on this system: ask poptorch.ipuHardwareIsAvailable() first.")


class CPU:
    """A part of a model that runs on the host, without a gradient of its own parameters; here everything
    does."""

    def __init__(self, layer_to_call: Callable, ID: str) -> None:
        if isinstance(layer_to_call, torch.nn.Module):
            layer_to_call.requires_grad_(False)
        self._layer, self._id = layer_to_call, ID
        self.inputs: Any = None
        self.outputs: Any = None

    def __call__(self, *inputs: Any) -> Any:
        """Call the layer."""
        return self._layer(*inputs)

    def execute(self) -> None:
        """Run the layer on the inputs it was given last."""
        self.outputs = self._layer(*self.inputs)

    def registerPersistentData(self) -> None:
        """Keep the buffers that the host and an IPU share; here there are none."""


# Which part of a model an IPU of several would run, and under what names and plans. Nothing of it changes
# what is computed here.


class NameScope(contextlib.AbstractContextManager):
    """Names the operations inside it in an IPU's compiled graph."""

    def __init__(self, name: str) -> None:
        self.name = require_instance("The name of a NameScope", name, str)

    def __exit__(self, *exception: Any) -> None:
        pass


class MultiConv(contextlib.AbstractContextManager):
    """Convolutions that an IPU may run side by side; on a CPU they run as written."""

    def __init__(self) -> None:
        self._settings: dict[str, Any] = {}

    def __enter__(self) -> MultiConv:
        if _open_multi_conv(True):
            raise Error("Nested poptorch.MultiConv is not supported: end the outer one first.")
        return self

    def __exit__(self, *exception: Any) -> None:
        _open_multi_conv(False)


# MultiConv's settings: what each takes, whether it may be given for each convolution apart, how PopTorch
# refuses another value, and what it does.
_MULTI_CONV = {
    "availableMemoryProportions": (float, True, "proportions", "The part of memory each may take."),
    "partialsTypes": (torch.dtype, True, "partials types", "The type of each one's partial results."),
    "enableConvDithering": (bool, True, "value", "Spread convolutions over tiles."),
    "planType": (MultiConvPlanType, False, "plan type", "Side by side, or one after the other."),
    "perConvReservedTiles": (int, False, "number of tiles", "Tiles kept for each convolution."),
    "cycleBackOff": (float, False, "cycle back-off", "How much slower a convolution may become."),
}


def _multi_conv_setter(name: str, kind: type, may_be_list: bool, noun: str, doc: str) -> Callable:
    def set_it(self: MultiConv, value: Any) -> MultiConv:
        items = value if may_be_list and isinstance(value, (list, tuple)) else [value]
        if value is not None and not (items and all(isinstance(item, kind) for item in items)):
            raise InvalidSetting(f"Invalid {noun}: MultiConv.{name} takes a {kind.__name__} (got {value!r}).")
        self._settings[name] = value
        return self

    set_it.__name__, set_it.__doc__ = name, doc
    return set_it


for _name, _row in _MULTI_CONV.items():
    setattr(MultiConv, _name, _multi_conv_setter(_name, *_row))


_traced_blocks: list[tuple[str | None, int | None]] = []
_is_multi_conv_open = False


@_while_tracing
def _open_multi_conv(is_open: bool) -> bool:
    """Open or close one while tracing; returns whether one was open before."""
    global _is_multi_conv_open
    before, _is_multi_conv_open = _is_multi_conv_open, is_open and isRunningOnIpu()
    return before and isRunningOnIpu()


@_while_tracing
def _begin_block(user_id: str | None, ipu_id: int | None) -> None:
    if isRunningOnIpu():
        _traced_blocks.append((user_id, ipu_id))


def take_traced_blocks() -> list[tuple[str | None, int | None]]:
    """The blocks, each a name and an IPU, that tracing has met since this was last asked."""
    blocks = list(_traced_blocks)
    _traced_blocks.clear()
    _open_multi_conv(False)  # an error in an earlier trace may have left one open
    return blocks


class Block(torch.nn.Module):
    """The operations inside `with poptorch.Block("name", ipu_id=1):` belong to one block."""

    def __init__(self, user_id: str | None = None, ipu_id: int | None = None) -> None:
        super().__init__()
        self._user_id, self._ipu_id = user_id, ipu_id

    def __enter__(self) -> Block:
        _begin_block(self._user_id, self._ipu_id)
        return self

    def __exit__(self, *exception: Any) -> None:
        pass

    @staticmethod
    def useAutoId() -> None:
        """Number blocks anew from 0 in the next model."""

    @staticmethod
    def start(user_id: str | None = None, ipu_id: int | None = None) -> None:
        """All operations from here on, up to the next block, belong to this one."""
        _begin_block(user_id, ipu_id)


class LegacyBeginBlockFn(torch.nn.Module):
    """`layer_to_call` as the beginning of a block."""

    def __init__(
        self, layer_to_call: Callable, user_id: str | None = None, ipu_id: int | None = None
    ) -> None:
        super().__init__()
        self._layer_to_call, self._user_id, self._ipu_id = layer_to_call, user_id, ipu_id

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Call the layer."""
        _begin_block(self._user_id, self._ipu_id)
        return self._layer_to_call(*args, **kwargs)


class _BeginsBlock:
    """The hook that `BeginBlock` leaves in a module."""

    def __init__(self, user_id: str | None, ipu_id: int | None) -> None:
        self._user_id, self._ipu_id = user_id, ipu_id

    def __call__(self, module: torch.nn.Module, inputs: Any) -> None:
        _begin_block(self._user_id, self._ipu_id)

    def __repr__(self) -> str:
        return f"BeginBlock(user_id={self._user_id}, ipu_id={self._ipu_id})"


def BeginBlock(layer_to_call: Any, user_id: str | None = None, ipu_id: int | None = None) -> Any:
    """Have a block begin with this layer, and return the layer."""
    if not isinstance(layer_to_call, torch.nn.Module):
        if callable(layer_to_call):
            return LegacyBeginBlockFn(layer_to_call, user_id, ipu_id)
        raise Error(f"BeginBlock takes a module or a function (got {type(layer_to_call).__name__}).")
    if any(isinstance(hook, _BeginsBlock) for hook in layer_to_call._forward_pre_hooks.values()):
        raise Error(
            "The module has already been assigned to a block: call poptorch.removeBlocks(model) first."
        )
    layer_to_call.register_forward_pre_hook(_BeginsBlock(user_id, ipu_id))
    return layer_to_call


def removeBlocks(module: torch.nn.Module) -> None:
    """Take the blocks out of a model."""
    for part in require_instance("The model", module, torch.nn.Module).modules():
        for key, hook in list(part._forward_pre_hooks.items()):
            if isinstance(hook, _BeginsBlock):
                del part._forward_pre_hooks[key]


def module_repr(m: torch.nn.Module) -> str:
    """`repr` of a model, with the blocks that begin in it.

    Example:
        >>> module_repr(BeginBlock(torch.nn.ReLU(), "first", ipu_id=1))
        'BeginBlock(user_id=first, ipu_id=1) ReLU()'
    """
    hooks = "".join(f"{hook!r} " for hook in m._forward_pre_hooks.values() if isinstance(hook, _BeginsBlock))
    inside = [hook for part in m.modules() if part is not m for hook in part._forward_pre_hooks.values()]
    if not any(isinstance(hook, _BeginsBlock) for hook in inside):
        return hooks + repr(m)
    parts = [f"({name}): {module_repr(part)}" for name, part in m.named_children()]
    lines = "\n".join([*m.extra_repr().splitlines(), *parts]).replace("\n", "\n  ")
    return f"{hooks}{m._get_name()}(\n  {lines}\n)"


def BlockFunction(user_id: str | None = None, ipu_id: int | None = None) -> Callable[[Callable], Callable]:
    """Decorate a function whose operations belong to one block."""

    def decorate(function: Callable) -> Callable:
        @functools.wraps(function)
        def in_block(*args: Any, **kwargs: Any) -> Any:
            _begin_block(user_id, ipu_id)
            return function(*args, **kwargs)

        return in_block

    return decorate


# Watching


_LEVELS = {"TRACE": 10, "DEBUG": 10, "INFO": 20, "WARN": 30, "ERR": 40, "OFF": 60}  # as in logging


def setLogLevel(level: str | int) -> None:
    """Print messages of this level and above: TRACE, DEBUG, INFO, WARN, ERR or OFF (or 0 to 4)."""
    if isinstance(level, int) and level not in range(5):
        raise ValueError(f"Invalid log level integer {level}: it must be one of 0 to 4.")
    name = list(_LEVELS)[level] if isinstance(level, int) else level
    if name not in _LEVELS:
        known = "DEBUG, ERR, INFO, OFF, TRACE and WARN"
        raise ValueError(f"Unknown log level: {level}. Valid values are {known}.")
    logging.getLogger("poptorch").setLevel(_LEVELS[name])


class Channel:
    """A channel of the PopVision profiler; without it nothing is recorded."""

    def __init__(self, name: str) -> None:
        self.name = name

    def instrument(self, obj: Any, *methods: str) -> Any:
        """`obj`, whose methods would be timed."""
        return obj

    @contextlib.contextmanager
    def tracepoint(self, name: str) -> Iterator[None]:
        """Around something that would be timed."""
        yield
