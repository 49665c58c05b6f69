"""Which part of a model an IPU of several would run: written into the model, without effect on a CPU."""

from __future__ import annotations

import functools
from typing import Any, Callable

import torch


class Block(torch.nn.Module):
    """The operations inside ``with poptorch.Block("name", ipu_id=1):`` belong to one block."""

    @staticmethod
    def useAutoId() -> None:
        """Number blocks anew from 0 in the next model."""

    def __init__(self, user_id: str | None = None, ipu_id: int | None = None) -> None:
        super().__init__()
        self._user_id, self._ipu_id = user_id, ipu_id

    def __enter__(self) -> Block:
        return self

    def __exit__(self, *exception: Any) -> None:
        pass

    @staticmethod
    def start(user_id: str | None = None, ipu_id: int | None = None) -> None:
        """All operations from here on, up to the next block, belong to this one."""


class LegacyBeginBlockFn(torch.nn.Module):
    """``layer_to_call`` as the beginning of a block."""

    def __init__(
        self, layer_to_call: torch.nn.Module, user_id: str | None = None, ipu_id: int | None = None
    ) -> None:
        super().__init__()
        self._layer_to_call = layer_to_call

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Call the layer."""
        return self._layer_to_call(*args, **kwargs)


def BeginBlock(
    layer_to_call: torch.nn.Module, user_id: str | None = None, ipu_id: int | None = None
) -> torch.nn.Module:
    """Have a block begin with this layer, and return the layer."""
    if not isinstance(layer_to_call, torch.nn.Module):
        raise ValueError(f"BeginBlock takes a torch.nn.Module (got {type(layer_to_call).__name__}).")
    return layer_to_call


def BlockFunction(user_id: str | None = None, ipu_id: int | None = None) -> Callable[[Callable], Callable]:
    """Decorate a function whose operations belong to one block."""

    def decorate(function: Callable) -> Callable:
        @functools.wraps(function)
        def in_block(*args: Any, **kwargs: Any) -> Any:
            return function(*args, **kwargs)

        return in_block

    return decorate


def removeBlocks(module: torch.nn.Module) -> None:
    """Take the blocks out of a model; here they leave no trace."""
