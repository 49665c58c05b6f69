"""PopTorch's operations for use inside a model."""

from __future__ import annotations

import math
from typing import Any, Callable, Sequence

import torch

from .enums import MatMulSerializationMode, OverlapMode
from .errors import Error, only_on_ipu


def ctc_beam_search_decoder(
    probs: torch.Tensor, lengths: torch.Tensor, blank: int = 0, beam_width: int = 100, top_paths: int = 1
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Decode by beam search; only an IPU does it."""
    raise only_on_ipu("ctc_beam_search_decoder", "Decode on the host with torchaudio's decoder.")


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
    """Print ``tensor`` when the graph runs on an IPU; here it is returned unprinted, as are its gradients."""
    return tensor


def for_loop(
    count: int, body: Callable[..., Sequence[torch.Tensor]], inputs: Sequence[torch.Tensor]
) -> list[torch.Tensor]:
    """Call ``body`` ``count`` times, each time on the results of the time before, beginning with ``inputs``.

    The number of times and the shapes are fixed: ``body`` returns as many tensors as it takes, of the same
    shapes and types.
    """
    if not isinstance(inputs, (list, tuple)):
        raise ValueError(f"inputs must be a list of tensors (got {type(inputs).__name__}).")
    state = list(inputs)
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
    """The results of ``then_body(*then_inps)`` where ``condition`` holds, else of ``else_body(*else_inps)``.

    ``condition`` is a tensor with one element. Both bodies return as many tensors of the same shapes and
    types. Here both are computed and one is chosen, so that the graph stays static.
    """
    then_results, else_results = _as_list(then_body(*then_inps)), _as_list(else_body(*else_inps))
    _require_same("cond: the else branch", then_results, else_results)
    chosen = condition.reshape(()).bool()
    return [torch.where(chosen, first, second) for first, second in zip(then_results, else_results)]


def _as_list(result: Any) -> list[torch.Tensor]:
    return list(result) if isinstance(result, (list, tuple)) else [result]


def _require_same(what: str, expected: list[torch.Tensor], got: list[torch.Tensor]) -> None:
    wanted = [(list(tensor.shape), tensor.dtype) for tensor in expected]
    returned = [(list(tensor.shape), tensor.dtype) for tensor in got]
    if wanted != returned:
        raise Error(f"{what} must return tensors of these shapes and types: {wanted} (got {returned}).")


def nop(tensor: torch.Tensor) -> torch.Tensor:
    """``tensor``, behind an operation that the compiler does not remove."""
    return tensor.clone()


def dynamic_slice(tensor: torch.Tensor, dim: int, start: torch.Tensor, size: int, step: int) -> torch.Tensor:
    """Every ``step``-th of the ``size`` elements of dimension ``dim`` from ``start`` on.

    ``start`` is an integer tensor, whose value may change from call to call. The result
    has ``ceil(size / step)`` elements in that dimension.
    """
    offsets = torch.arange(0, size, step, device=tensor.device)
    return tensor.index_select(dim, start.reshape(()) + offsets)


def dynamic_update(
    input: torch.Tensor, src: torch.Tensor, dim: int, start: torch.Tensor, size: int
) -> torch.Tensor:
    """A copy of ``input`` with ``src`` in the ``size`` places of dimension ``dim`` from ``start`` on."""
    places = start.reshape(()) + torch.arange(size, device=input.device)
    return input.index_copy(dim, places, src)


def recomputationCheckpoint(*tensors: torch.Tensor) -> Any:
    """Where an IPU begins to recompute in the backward pass; here the tensors come back as they are."""
    return tensors[0] if len(tensors) == 1 else tensors


def serializedMatMul(
    lhs: torch.Tensor,
    rhs: torch.Tensor,
    mode: MatMulSerializationMode,
    factor: int = 0,
    keep_precision: bool = False,
) -> torch.Tensor:
    """``lhs @ rhs``; on an IPU in ``factor`` pieces, to save memory."""
    MatMulSerializationMode(mode)
    return torch.matmul(lhs, rhs)


def set_available_memory(tensor: torch.Tensor, available_memory_proportion: float) -> torch.Tensor:
    """How much memory the operation that made ``tensor`` may take on an IPU; here it comes back as it is."""
    return tensor


def set_overlap_for_input(input_tensors: Any, mode: OverlapMode) -> Any:
    """How loading these inputs overlaps with computation on an IPU; here they come back as they are."""
    OverlapMode(mode)
    return input_tensors


def set_overlap_for_output(output_tensors: Any, mode: OverlapMode) -> Any:
    """How storing these outputs overlaps with computation on an IPU; here they come back as they are."""
    OverlapMode(mode)
    return output_tensors


def custom_op(
    inputs: Sequence[torch.Tensor],
    name: str,
    domain: str,
    domain_version: int,
    example_outputs: Sequence[torch.Tensor],
    attributes: dict[str, Any] | None = None,
) -> list[torch.Tensor]:
    """An operation written for the IPU; only an IPU has it."""
    raise only_on_ipu(
        f"The custom operation {domain}.{name}", "Write it with torch's operations to run it here."
    )


def fps(src: torch.Tensor, ptr: list[int], ratio: float = 0.5, random_start: bool = False) -> torch.Tensor:
    """Farthest-point sampling: ``ceil(ratio * n)`` indices of each group ``src[ptr[i]:ptr[i + 1]]``.

    ``src`` is ``[num_points, F]`` and ``ptr`` a list of integers, so that the result's size is fixed.
    """
    chosen = []
    for begin, end in zip(ptr[:-1], ptr[1:]):
        chosen.append(begin + _farthest(src[begin:end], math.ceil(ratio * (end - begin)), random_start))
    return torch.cat(chosen)


def _farthest(points: torch.Tensor, count: int, random_start: bool) -> torch.Tensor:
    first = torch.randint(points.shape[0], (1,)) if random_start else torch.zeros(1, dtype=torch.long)
    indices, latest = [first], first
    nearest = torch.full((points.shape[0],), float("inf"), dtype=points.dtype)
    for _ in range(count - 1):
        nearest = torch.minimum(nearest, (points - points[latest]).square().sum(dim=1))
        latest = nearest.argmax().reshape(1)
        indices.append(latest)
    return torch.cat(indices)


def nearest(
    x: torch.Tensor,
    y: torch.Tensor,
    batch_x: torch.Tensor | list[int] | None = None,
    batch_y: torch.Tensor | list[int] | None = None,
) -> torch.Tensor:
    """For each row of ``x`` ``[N, F]`` the nearest row of ``y`` ``[M, F]`` in its batch: indices ``[N]``."""
    distance = torch.cdist(x, y)
    if batch_x is not None and batch_y is not None:
        other = torch.as_tensor(batch_x).unsqueeze(1) != torch.as_tensor(batch_y).unsqueeze(0)
        distance = distance.masked_fill(other, float("inf"))
    return distance.argmin(dim=1)


class CPU:
    """A part of a model that runs on the host; here everything does."""

    def __init__(self, layer_to_call: Callable, ID: str) -> None:
        self._layer, self._id = layer_to_call, ID
        self.inputs: tuple = ()
        self.outputs: Any = None

    def __call__(self, *inputs: Any) -> Any:
        """Call the layer."""
        return self._layer(*inputs)

    def execute(self) -> None:
        """Run the layer on the inputs it was given last."""
        self.outputs = self._layer(*self.inputs)

    def registerPersistentData(self) -> None:
        """Keep the buffers that the host and an IPU share; here there are none."""


class MultiConv:
    """Convolutions that an IPU may run side by side; on a CPU they run as written."""

    def __init__(self) -> None:
        self._settings: dict[str, Any] = {}

    def _set(self, name: str, value: Any) -> MultiConv:
        self._settings[name] = value
        return self

    def availableMemoryProportions(self, value: Any) -> MultiConv:
        """The part of memory each convolution may take."""
        return self._set("availableMemoryProportions", value)

    def partialsTypes(self, value: Any) -> MultiConv:
        """The type of each convolution's partial results."""
        return self._set("partialsTypes", value)

    def enableConvDithering(self, value: Any) -> MultiConv:
        """Spread convolutions over tiles."""
        return self._set("enableConvDithering", value)

    def planType(self, value: Any) -> MultiConv:
        """Side by side, or one after the other."""
        return self._set("planType", value)

    def perConvReservedTiles(self, value: int) -> MultiConv:
        """Tiles kept for each convolution."""
        return self._set("perConvReservedTiles", value)

    def cycleBackOff(self, value: float) -> MultiConv:
        """How much slower a convolution may become."""
        return self._set("cycleBackOff", value)

    def __enter__(self) -> MultiConv:
        return self

    def __exit__(self, *exception: Any) -> None:
        pass


class NameScope:
    """Names the operations inside it in an IPU's compiled graph."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __enter__(self) -> NameScope:
        return self

    def __exit__(self, *exception: Any) -> None:
        pass
