"""The machinery under Options: setters that chain, can be frozen, and refuse unknown names."""

from __future__ import annotations

import functools
import inspect
from typing import Any, Callable

from .errors import unknown_name


def _arguments(signature: inspect.Signature, args: tuple, kwargs: dict) -> Any:
    """The arguments of a setter call: one value as it is, several as a dict by name."""
    bound = signature.bind(*args, **kwargs)
    bound.apply_defaults()
    values = dict(list(bound.arguments.items())[1:])
    return next(iter(values.values())) if len(values) == 1 else values


def setter(method: Callable) -> Callable:
    """A setter that changes what happens here. The method stores its values with ``_store``."""

    @functools.wraps(method)
    def set_and_chain(self, *args, **kwargs):
        self._refuse_if_frozen(method.__name__)
        method(self, *args, **kwargs)
        return self

    return set_and_chain


def kept_setter(method: Callable) -> Callable:
    """A setter that means something on an IPU only: its arguments are kept, and nothing changes here."""
    signature = inspect.signature(method)

    @functools.wraps(method)
    def keep_and_chain(self, *args, **kwargs):
        self._refuse_if_frozen(method.__name__)
        method(self, *args, **kwargs)
        self._kept[method.__name__] = _arguments(signature, (self, *args), kwargs)
        return self

    return keep_and_chain


class Settings:
    """A group of settings, changed by calling its setters."""

    def __init__(self, title: str, defaults: dict[str, Any]) -> None:
        self._title = title
        self._values = dict(defaults)
        self._kept: dict[str, Any] = {}
        self._frozen = False

    def __getattr__(self, name: str) -> Any:
        title = self.__dict__.get("_title", type(self).__name__)
        raise AttributeError(unknown_name(f"poptorch.{title}", name, dir(type(self))))

    def __setattr__(self, name: str, value: Any) -> None:
        if not name.startswith("_"):
            known = name in dir(type(self))
            raise AttributeError(
                f"poptorch.{self._title}.{name} is set by calling it: {name}({value!r})."
                if known
                else unknown_name(f"poptorch.{self._title}", name, dir(type(self)))
            )
        super().__setattr__(name, value)

    def _store(self, **values: Any) -> None:
        self._values.update(values)

    def _refuse_if_frozen(self, name: str) -> None:
        if self._frozen:
            raise AttributeError(
                f"poptorch.{self._title}.{name} cannot be changed: a model or a DataLoader already uses "
                "these options. Set it before, or change a copy: options.clone()."
            )

    def __repr__(self) -> str:
        settings = [f"{name}={value!r}" for name, value in self._values.items()]
        settings += [f"{name}={value!r} (no effect here)" for name, value in self._kept.items()]
        return f"poptorch.{self._title}({', '.join(settings)})"


def freeze(settings: Settings) -> None:
    """Refuse any further change of these settings and of the groups inside them."""
    settings._frozen = True
    for group in settings.__dict__.values():
        if isinstance(group, Settings):
            freeze(group)


def unfreeze(settings: Settings) -> None:
    """Allow changes again; for copies."""
    settings._frozen = False
    for group in settings.__dict__.values():
        if isinstance(group, Settings):
            unfreeze(group)


def values_of(settings: Settings) -> dict[str, Any]:
    """The settings that act here, those of the groups inside included."""
    values = dict(settings._values)
    for group in settings.__dict__.values():
        if isinstance(group, Settings):
            values.update(values_of(group))
    return values


def kept_by(settings: Settings, prefix: str = "") -> dict[str, Any]:
    """The settings that have no effect here, by dotted setter name."""
    kept = {prefix + name: value for name, value in settings._kept.items()}
    for group in settings.__dict__.values():
        if isinstance(group, Settings):
            kept.update(kept_by(group, group._title.partition(".")[2] + "."))
    return kept


def positive(name: str, value: Any) -> int:
    """``value`` as an integer of at least 1."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"{name} must be an integer of at least 1 (got {value!r}).")
    return value
