"""Random numbers of the device, apart from the host's where a seed is set."""

from __future__ import annotations

import contextlib
from typing import Iterator

import torch


class DeviceRandom:
    """With a seed, the device draws from a stream of its own; without one, from torch's global stream."""

    def __init__(self, seed: int | None) -> None:
        self._state = None if seed is None else torch.Generator().manual_seed(seed).get_state()

    @property
    def state(self) -> torch.Tensor:
        """The state of the stream, as a tensor."""
        return torch.get_rng_state() if self._state is None else self._state

    @state.setter
    def state(self, state: torch.Tensor) -> None:
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


@contextlib.contextmanager
def unchanged(model: torch.nn.Module) -> Iterator[None]:
    """Put the model's buffers and gradients and the random state back as they were."""
    random_state = torch.get_rng_state()
    buffers = [(buffer, buffer.detach().clone()) for buffer in model.buffers()]
    gradients = [(parameter, parameter.grad) for parameter in model.parameters()]
    try:
        yield
    finally:
        with torch.no_grad():
            for buffer, before in buffers:
                buffer.copy_(before)
        for parameter, gradient in gradients:
            parameter.grad = gradient
        torch.set_rng_state(random_state)
