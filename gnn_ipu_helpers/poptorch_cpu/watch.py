"""Noticing that a model is no longer the one that was compiled."""

from __future__ import annotations

import contextlib
from typing import Iterator

import torch

from .errors import Error


class ModelWatch:
    """Remembers the modules, parameters and buffers of a model; cheap enough to ask before every call."""

    def __init__(self, model: torch.nn.Module) -> None:
        self._modules = [(module._modules, dict(module._modules)) for module in model.modules()]
        self._owners = []
        self._tensors = []
        for prefix, module in model.named_modules():
            for kind, owner in (("parameter", module._parameters), ("buffer", module._buffers)):
                self._owners.append((f"{kind} {prefix}." if prefix else f"{kind} ", owner, len(owner)))
                for name, tensor in owner.items():
                    if tensor is not None:
                        place = f"{kind} {prefix}.{name}" if prefix else f"{kind} {name}"
                        self._tensors.append((place, owner, name, tensor, _traits(tensor)))

    def check(self) -> None:
        """Raise if parameters or buffers were added, removed, replaced or frozen, or modules exchanged."""
        for place, owner, name, tensor, traits in self._tensors:
            now = owner.get(name)
            if now is not tensor:
                raise _changed(f"the {place} was {'removed' if now is None else 'replaced'}")
            if _traits(tensor) != traits:
                raise _changed(f"the {place} was {_in_words(traits)} and is {_in_words(_traits(tensor))}")
        for prefix, owner, count in self._owners:
            if len(owner) > count:
                raise _changed(f"the {prefix}{list(owner)[-1]} was added")
        for current, before in self._modules:
            if current != before:
                names = [name for name in {**before, **current} if current.get(name) is not before.get(name)]
                raise _changed(f"the module {', '.join(names)} was added, removed or replaced")


def _traits(tensor: torch.Tensor) -> tuple:
    return (tensor.shape, tensor.dtype, tensor.requires_grad)


def _in_words(traits: tuple) -> str:
    shape, dtype, requires_grad = traits
    return f"{list(shape)} {dtype} {'with' if requires_grad else 'without'} a gradient"


@contextlib.contextmanager
def refuse_reassigned_buffers(model: torch.nn.Module) -> Iterator[None]:
    """Raise if a ``forward`` inside puts another tensor in place of a buffer: a graph cannot do that."""
    before = [
        (f"{prefix}.{name}" if prefix else name, module, name, buffer)
        for prefix, module in model.named_modules()
        for name, buffer in module._buffers.items()
    ]
    yield
    reassigned = [place for place, module, name, buffer in before if module._buffers.get(name) is not buffer]
    for _, module, name, buffer in before:
        module._buffers[name] = buffer
    if reassigned:
        raise Error(
            f"forward assigns another tensor to the buffer {', '.join(reassigned)}. The device keeps "
            "buffers where they are: write into them, self.buffer.copy_(value) instead of self.buffer = "
            "value."
        )


def _changed(what: str) -> Error:
    return Error(
        f"The model changed after it was compiled: {what}. A compiled graph keeps the model it was made "
        "from: change the model before wrapping it, or call destroy() on the wrapped model to have the "
        "next call compile anew."
    )
