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
        self._parameters = []
        for prefix, module in model.named_modules():
            self._owners.append((prefix, module._parameters, len(module._parameters)))
            for name, parameter in module._parameters.items():
                if parameter is not None:
                    place = f"{prefix}.{name}" if prefix else name
                    self._parameters.append(
                        (place, module._parameters, name, parameter, parameter.requires_grad, parameter.shape)
                    )

    def check(self) -> None:
        """Raise if parameters were added, removed, replaced or frozen, or modules exchanged."""
        for place, owner, name, parameter, requires_grad, shape in self._parameters:
            now = owner.get(name)
            if now is not parameter:
                raise _changed(f"the parameter {place} was {'removed' if now is None else 'replaced'}")
            if parameter.requires_grad != requires_grad:
                raise _changed(f"requires_grad of {place} was set to {parameter.requires_grad}")
            if parameter.shape != shape:
                raise _changed(f"the shape of {place} went from {list(shape)} to {list(parameter.shape)}")
        for prefix, owner, count in self._owners:
            if len(owner) > count:
                raise _changed(f"the parameter {'.'.join(filter(None, [prefix, list(owner)[-1]]))} was added")
        for current, before in self._modules:
            if current != before:
                names = [name for name in {**before, **current} if current.get(name) is not before.get(name)]
                raise _changed(f"the module {', '.join(names)} was added, removed or replaced")


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
