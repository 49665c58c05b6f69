"""The optimiser as the device has it: with the settings of the last ``setOptimizer``."""

from __future__ import annotations

import contextlib
import logging
from typing import Any, Iterator

import torch

from .errors import Error


class DeviceOptimizer:
    """Steps an optimiser with the settings it had when it was handed over.

    An IPU holds a copy of the learning rate and its kin: a scheduler's change reaches it with
    ``setOptimizer`` and not before. The same holds here, with a warning.
    """

    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        if not isinstance(optimizer, torch.optim.Optimizer):
            raise Error(
                "The optimizer must be one of poptorch.optim or torch.optim, over the parameters of the "
                f"model (got {type(optimizer).__name__})."
            )
        self.optimizer = optimizer
        self._settings = _settings(optimizer)
        self._has_warned = False

    def step(self) -> None:
        """Clip the gradients if the optimiser asks for it, and update the weights."""
        limit = getattr(self.optimizer, "max_grad_norm", None)
        if limit is not None:
            parameters = [parameter for group in self.optimizer.param_groups for parameter in group["params"]]
            torch.nn.utils.clip_grad_norm_(parameters, limit)
        with self._as_handed_over():
            self.optimizer.step()

    @contextlib.contextmanager
    def _as_handed_over(self) -> Iterator[None]:
        now = _settings(self.optimizer)
        if now == self._settings:
            yield
            return
        self._warn()
        try:
            self._apply(self._settings)
            yield
        finally:
            self._apply(now)

    def _apply(self, settings: list[dict[str, Any]]) -> None:
        for group, values in zip(self.optimizer.param_groups, settings):
            group.update(values)

    def _warn(self) -> None:
        if not self._has_warned:
            logging.getLogger("poptorch").warning(
                "The optimiser's settings changed, and the device still has the old ones: call "
                "setOptimizer(optimizer) on the wrapped model after every change, such as a scheduler's "
                "step."
            )
            self._has_warned = True


def _settings(optimizer: torch.optim.Optimizer) -> list[dict[str, Any]]:
    return [
        {
            key: value
            for key, value in group.items()
            if isinstance(value, (bool, int, float, tuple, type(None)))
        }
        for group in optimizer.param_groups
    ]
