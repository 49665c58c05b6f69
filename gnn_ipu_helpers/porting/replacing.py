"""Putting the static versions in force while a model is traced, and taking every one of them back.

The static versions themselves are in `static_layers`, each with the PyG code that it stands for.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import inspect
import threading
import types
from typing import Any, Callable, Iterator, NamedTuple

import torch

_LOCK = threading.RLock()
_IN_FORCE = threading.local()
_ABSENT = object()


class Replacement(NamedTuple):
    """A static version and what it stands for: `owner.name` (a method, the getter of a property, or a value
    of a module), or the function `owner` itself where `name` is empty. `source` is the digest of the code
    it was written for."""

    owner: Any
    name: str
    static: Any
    source: str

    @property
    def original(self) -> Any:
        """What the static version stands for: a function, a method, or the whole class, whose `forward` is
        its messages and updates too."""
        if self.name in ("", "forward"):
            return self.owner
        original = inspect.getattr_static(self.owner, self.name)
        return original.fget if isinstance(original, property) else original

    @property
    def label(self) -> str:
        """The name of the layer or function, as a user knows it."""
        return self.owner.__name__ if inspect.isclass(self.owner) else self.name or self.owner.__name__


REPLACEMENTS: list[Replacement] = []


def static_version_of(owner: Any, name: str = "forward", source: str = "") -> Callable[[Any], Any]:
    """Register what is decorated as the static version of `owner.name`, or of the function `owner`; without
    effect where this PyG lacks it. `source` is what `digest` says of the code it was written for."""

    def register(static: Any) -> Any:
        is_function = isinstance(owner, types.FunctionType)
        if owner is not None and (is_function or hasattr(owner, name)):
            REPLACEMENTS.append(Replacement(owner, "" if is_function else name, static, source))
        return static

    return register


def digest(code: Any) -> str:
    """Eight digits that change with the source of `code`, a function or class."""
    return hashlib.sha256(inspect.getsource(code).encode()).hexdigest()[:8]


@contextlib.contextmanager
def static_replacements() -> Iterator[None]:
    """Within this context PyG's dynamic-inside layers run their static versions; afterwards all is as before.

    May be nested; one thread at a time. Other threads go on running PyG's own code meanwhile, but for two
    things: a `torch.compile` of theirs takes the static versions, whose results are the same, and layers that
    need `pyg-lib` (`DynamicEdgeConv`, `XConv`, `GravNetConv`, `SplineConv`) can be built without it.

    Example:
        >>> with static_replacements():
        ...     conv = torch_geometric.nn.DynamicEdgeConv(mlp, k=3)
    """
    table = _installed()
    with _LOCK, contextlib.ExitStack() as stack:
        is_outermost = not getattr(_IN_FORCE, "value", False)
        if is_outermost:
            _IN_FORCE.value = True
            stack.callback(setattr, _IN_FORCE, "value", False)
            for owner, name, replacement in table:
                before = owner.__code__ if name == "__code__" else vars(owner).get(name, _ABSENT)
                stack.callback(_restore, owner, name, before)
                setattr(owner, name, replacement)
        yield


def _restore(owner: Any, name: str, value: Any) -> None:
    if value is _ABSENT:
        delattr(owner, name)
    else:
        setattr(owner, name, value)


@contextlib.contextmanager
def printing_nothing() -> Iterator[None]:
    """Have `print` print nothing in this thread, as in a trace."""
    before = getattr(_IN_FORCE, "is_silent", False)
    _IN_FORCE.is_silent = True
    try:
        yield
    finally:
        _IN_FORCE.is_silent = before


def prints_nothing() -> bool:
    """Whether `printing_nothing` is in force."""
    return getattr(_IN_FORCE, "is_silent", False)


def _is_in_force() -> bool:
    return torch.compiler.is_compiling() or getattr(_IN_FORCE, "value", False)


@functools.lru_cache(maxsize=None)
def _installed() -> list[tuple[Any, str, Any]]:
    """`(owner, attribute, value)` of everything to set: a function keeps its identity and gets other code,
    so that every import of it, under whatever name, is reached; a method or value is another object."""
    from . import static_layers  # noqa: F401  (fills the table)

    table = []
    for number, (owner, name, static, _) in enumerate(REPLACEMENTS):
        original = inspect.getattr_static(owner, name) if name else twin(owner)
        getter = getattr(original, "fget", original)
        _VERSIONS[number] = static, getter
        if not name:
            table.append((owner, "__code__", _choosing(number)))
        elif not callable(static) or not callable(getter):
            table.append((owner, name, static))
        else:
            function = types.FunctionType(_choosing(number), globals(), name)
            function.__wrapped__ = getter  # for whoever asks for its signature
            table.append((owner, name, original.getter(function) if getter is not original else function))
    return table


_VERSIONS: dict[int, tuple[Any, Any]] = {}


def _choosing(number: int) -> types.CodeType:
    """Code that runs the static version where it is in force, and the original in other threads. All that it
    needs it imports: it may run among the globals of the function replaced, and has no closure, which the
    conditions of a compiled graph would look into."""
    source = f"""def run(*args, **kwargs):
    from {__name__} import _VERSIONS, _is_in_force
    return _VERSIONS[{number}][0 if _is_in_force() else 1](*args, **kwargs)"""
    return next(c for c in compile(source, __file__, "exec").co_consts if isinstance(c, types.CodeType))


def twin(function: types.FunctionType) -> types.FunctionType:
    """`function` as it is now, whatever becomes of its code."""
    copy = types.FunctionType(
        function.__code__, function.__globals__, function.__name__, function.__defaults__
    )
    copy.__kwdefaults__ = function.__kwdefaults__
    return copy


@functools.lru_cache(maxsize=None)
def static_versions() -> dict[tuple[str, str], Replacement]:
    """`{(file, function name): replacement}` of the code of all static versions."""
    _installed()
    found = [entry for entry in REPLACEMENTS if isinstance(entry.static, types.FunctionType)]
    return {(entry.static.__code__.co_filename, entry.static.__name__): entry for entry in found}


def signature_of(function: Callable) -> inspect.Signature:
    """The signature of a function as a user knows it, whether its code is replaced or not."""
    owners = (entry.static for entry in REPLACEMENTS if entry.owner is function and not entry.name)
    return inspect.signature(next(owners, function))


def concerns_replacement(name: str, value: Any) -> bool:
    """Whether a condition that a compiled graph checks before it runs, on `value` found under `name`, is
    about a replacement: it holds while tracing, with the replacements in force, and no longer afterwards."""
    identities, values = _parts()
    return id(value) in identities or any(name.endswith(ending) for ending in values)


@functools.lru_cache(maxsize=None)
def _parts() -> tuple[frozenset[int], tuple[str, ...]]:
    parts: list[Any] = []
    for owner, name, value in _installed():
        function = getattr(value, "fget", value)
        parts += [function, getattr(function, "__code__", None), owner if name == "__code__" else None]
    for entry in REPLACEMENTS:
        parts += [entry.static, getattr(entry.static, "__code__", None)]
    values = [entry.name for entry in REPLACEMENTS if entry.name and not inspect.isclass(entry.owner)]
    endings = tuple(f"{left}{name}{right}" for name in values for left, right in ((".", ""), ("['", "']")))
    return frozenset(id(part) for part in parts if part is not None and part is not True), endings
