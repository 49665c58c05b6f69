"""Does the graph fit the device? An optional limit on what its tensors take at once, off unless set."""

from __future__ import annotations

import contextlib
import contextvars
import weakref
from typing import Any, Callable, Iterator, Sequence

import torch

from .findings import OUT_OF_MEMORY, Finding, forward_place

_MEGABYTE = 10**6
_limit: contextvars.ContextVar[float | None] = contextvars.ContextVar("device memory", default=None)


@contextlib.contextmanager
def device_memory(megabytes: float) -> Iterator[None]:
    """Give the device of the CPU implementation a memory of this size while the block runs.

    `check` and the compilation of a wrapped model then refuse a graph whose tensors need more at one time:
    weights, inputs, activations and gradients, in the order in which the model computes them. It is an
    estimate: a real device also needs room for code, the optimiser's state and exchange, and its compiler
    saves some by computing in place. Where the SDK's PopTorch runs this does nothing: the device has its
    own limit. (An IPU has 900 MB beside its processors.)

    Args:
        megabytes: The limit, in millions of bytes.

    Example:
        >>> with device_memory(900):
        ...     report = check(model, x, edge_index)
    """
    if not megabytes > 0:
        raise ValueError(f"megabytes must be positive (got {megabytes}).")
    token = _limit.set(megabytes)
    try:
        yield
    finally:
        _limit.reset(token)


def memory_findings(
    function: Callable, graph_module: torch.fx.GraphModule, inputs: Sequence[Any], loss: torch.fx.Node | None
) -> list[Finding]:
    """The finding for a graph that needs more than the limit, if one is set.

    Args:
        function: What was traced, to name a line.
        graph_module: The graph as the tracer gave it.
        inputs: Its inputs: parameters, buffers and arguments.
        loss: The node that training differentiates; None for inference.
    """
    limit = _limit.get()
    if limit is None:
        return []
    needed = peak_bytes(graph_module, inputs, loss) / _MEGABYTE
    if needed <= limit:
        return []
    return [
        Finding.at(
            forward_place(function),
            OUT_OF_MEMORY,
            f"the tensors of this graph need {needed:,.0f} MB at one time; the device has {limit:,.0f} MB",
            "give it smaller inputs: smaller batches, or subgraphs of a large graph "
            "(`FixedSizeClusterLoader`, `FixedSizeNeighborLoader`); or make the model narrower",
        )
    ]


def peak_bytes(
    graph_module: torch.fx.GraphModule, inputs: Sequence[Any], loss: torch.fx.Node | None = None
) -> int:
    """The most that the tensors of a graph take at one time, with its inputs, and with gradients if there is
    a loss. Nothing is computed: the graph runs on tensors without content."""
    from torch._subclasses.fake_tensor import FakeTensorMode  # the same in torch 2.6 to 2.13

    with FakeTensorMode(allow_non_fake_inputs=True) as mode, torch.set_grad_enabled(loss is not None):
        fakes = [mode.from_tensor(v) if isinstance(v, torch.Tensor) else v for v in inputs]
        with _Living() as living:
            for value in fakes:
                living.count(value)
            run = _UntilLoss(graph_module, loss)
            outputs = run.run(*fakes)
            if run.loss is not None and run.loss.requires_grad:
                run.loss.backward(torch.ones_like(run.loss))
            del outputs
    return living.peak


class _UntilLoss(torch.fx.Interpreter):
    """Runs a graph, and keeps its loss."""

    def __init__(self, graph_module: torch.fx.GraphModule, loss: torch.fx.Node | None) -> None:
        super().__init__(graph_module)
        self._node = loss
        self.loss: torch.Tensor | None = None

    def run_node(self, n: torch.fx.Node) -> Any:
        value = super().run_node(n)
        if n is self._node:
            self.loss = value
        return value


class _Living(torch.utils._python_dispatch.TorchDispatchMode):
    """Adds up the memory of the tensors that operations make, and notes when it is given back."""

    def __init__(self) -> None:
        super().__init__()
        self._now = self.peak = 0
        self._seen: weakref.WeakSet = weakref.WeakSet()

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        result = func(*args, **(kwargs or {}))
        torch.utils._pytree.tree_map_only(torch.Tensor, self.count, result)
        return result

    def count(self, value: Any) -> None:
        """Take a tensor into account, unless its memory is known."""
        storage = value.untyped_storage() if isinstance(value, torch.Tensor) else None
        if storage is None or storage in self._seen:
            return
        self._seen.add(storage)
        weakref.finalize(storage, self._give_back, storage.nbytes())
        self._now += storage.nbytes()
        self.peak = max(self.peak, self._now)

    def _give_back(self, size: int) -> None:
        self._now -= size
