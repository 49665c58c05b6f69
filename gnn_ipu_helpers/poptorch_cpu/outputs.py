"""Which mini-batches' outputs a call returns, and how they are put together."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils import _pytree as pytree

from .enums import OutputMode
from .errors import Error


class OutputCollector:
    """Takes the outputs of a call's mini-batches one by one, and keeps what the output mode asks for.

    Mini-batches come in the order device iteration, accumulation step, replica (the innermost).
    """

    def __init__(
        self, mode: OutputMode, period: int, device_iterations: int, accumulation: int, replicas: int
    ):
        if mode == OutputMode.EveryN and device_iterations % period:
            raise Error(
                f"outputMode(EveryN, {period}) needs a number of device iterations that {period} divides "
                f"(got {device_iterations})."
            )
        self._mode, self._replicas = mode, replicas
        self._per_iteration = accumulation * replicas
        self._period = period
        self._total = device_iterations * self._per_iteration

    def start(self) -> None:
        """Begin a call."""
        self._kept: list = []
        self._count = 0

    def add(self, outputs: Any) -> None:
        """Take the outputs of the next mini-batch."""
        if self._mode == OutputMode.Sum:
            self._add_up(outputs)
        elif self._is_wanted():
            self._kept.append(outputs)
        self._count += 1

    def _is_wanted(self) -> bool:
        if self._mode == OutputMode.Final:
            return self._count >= self._total - self._replicas
        if self._mode == OutputMode.EveryN:
            return (self._count // self._per_iteration + 1) % self._period == 0
        return True

    def _add_up(self, outputs: Any) -> None:
        if self._count < self._replicas:
            self._kept.append(outputs)
        else:
            replica = self._count % self._replicas
            self._kept[replica] = _combine(lambda parts: parts[0] + parts[1], [self._kept[replica], outputs])

    def result(self) -> Any:
        """The outputs of the call: those kept, joined on dimension 0 (scalars: as a vector)."""
        return self._kept[0] if len(self._kept) == 1 else _combine(_join, self._kept)


def _join(parts: list[torch.Tensor]) -> torch.Tensor:
    return torch.stack(parts) if parts[0].dim() == 0 else torch.cat(parts)


def _combine(function: Any, outputs: list) -> Any:
    """Apply ``function`` to the tensors at the same place of each of ``outputs``."""
    flat = [pytree.tree_flatten(item) for item in outputs]
    leaves = [
        function(list(parts)) if isinstance(parts[0], torch.Tensor) else parts[0]
        for parts in zip(*(item_leaves for item_leaves, _ in flat))
    ]
    return pytree.tree_unflatten(leaves, flat[0][1])
