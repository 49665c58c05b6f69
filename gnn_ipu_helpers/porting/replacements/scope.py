"""Putting the replacements in force while a model is traced, and taking every one of them back."""

from __future__ import annotations

import contextlib
import functools
import re
import sys
import threading
from typing import Any, Callable, Iterator, NamedTuple

_LOCK = threading.RLock()
_METHODS: list[tuple[type, str, Callable]] = []
_FUNCTIONS: dict[Callable, Callable] = {}
_VALUES: list[tuple[Any, str, Any]] = []
_ABSENT = object()


def replaces_method(owner: type | None, name: str = "forward") -> Callable[[Callable], Callable]:
    """Register the decorated function as the static version of `owner.name`, a method or the getter of a
    property; without effect where PyG lacks it."""

    def register(function: Callable) -> Callable:
        if owner is not None and hasattr(owner, name):
            _METHODS.append((owner, name, function))
        return function

    return register


def replaces_function(original: Callable | None) -> Callable[[Callable], Callable]:
    """Register the decorated function as the static version of `original`, in every module that imported
    it."""

    def register(function: Callable) -> Callable:
        if original is not None:
            _FUNCTIONS[original] = function
        return function

    return register


def replace_value(owner: Any, name: str, value: Any) -> None:
    """Register `value` for the attribute `name` of the module `owner`, where there is one."""
    if hasattr(owner, name):
        _VALUES.append((owner, name, value))


@contextlib.contextmanager
def static_replacements() -> Iterator[None]:
    """Within this context PyG's dynamic-inside layers run their static versions; afterwards all is as before.

    One thread at a time; may be nested. Within it, layers that need `pyg-lib` (`DynamicEdgeConv`, `XConv`,
    `GravNetConv`, `SplineConv`) can be built without it.
    """
    with _LOCK, contextlib.ExitStack() as stack:
        for owner, name, replacement in [*_METHODS, *_VALUES, *_imported_functions()]:
            original = vars(owner).get(name, _ABSENT)
            stack.callback(_restore, owner, name, original)
            setattr(owner, name, _in_kind(original, replacement))
        yield


class Original(NamedTuple):
    """What a replacement stands for: `function` in `file`, and the class it is a method of, if any."""

    owner: type | None
    function: str
    file: str


def replaced_by(function_name: str) -> Original | None:
    """What the replacement of that name stands for, if there is one."""
    return _originals().get(function_name)


@functools.lru_cache(maxsize=None)
def _originals() -> dict[str, Original]:
    methods = {f.__name__: Original(owner, name, _file(owner)) for owner, name, f in _METHODS}
    functions = {
        f.__name__: Original(None, original.__name__, _file(original)) for original, f in _FUNCTIONS.items()
    }
    values = {f.__name__: Original(None, name, "") for _, name, f in _VALUES if callable(f)}
    return {**methods, **functions, **values}


def _file(thing: Any) -> str:
    return getattr(sys.modules[thing.__module__], "__file__", "")


def _in_kind(original: Any, replacement: Any) -> Any:
    """The replacement of a property's getter as a property."""
    return original.getter(replacement) if isinstance(original, property) else replacement


def _restore(owner: Any, name: str, value: Any) -> None:
    if value is _ABSENT:
        delattr(owner, name)
    else:
        setattr(owner, name, value)


def _imported_functions() -> list[tuple[Any, str, Callable]]:
    names = {original.__name__: original for original in _FUNCTIONS}
    found = []
    for module in list(sys.modules.values()):
        contents = getattr(module, "__dict__", {})
        for name, original in names.items():
            if contents.get(name) is original:
                found.append((module, name, _FUNCTIONS[original]))
    return found


def concerns_replacement(name: str, value: Any) -> bool:
    """Whether a condition that a compiled graph checks before it runs, on `value` found under `name`, is
    about a replacement: it holds while tracing, with the replacements in force, and no longer afterwards."""
    return any(value is part for part in _parts()) or bool(_names().search(name))


def _parts() -> list[Any]:
    functions = [*(function for _, _, function in _METHODS), *_FUNCTIONS.values()]
    return [*functions, *(getattr(function, "__code__", None) for function in functions)]


@functools.lru_cache(maxsize=None)
def _names() -> re.Pattern:
    """Matches the name of an attribute of a replaced function, or of a replaced value."""
    functions = "|".join(re.escape(original.__name__) for original in _FUNCTIONS)
    values = "|".join(re.escape(name) for _, name, _ in _VALUES)
    return re.compile(rf"\b({functions})('\])?\.__\w+__|(\.|')({values})\b")
