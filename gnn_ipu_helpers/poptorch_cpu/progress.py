"""The progress bar of a compilation, and what users want called around one."""

from __future__ import annotations

import contextlib
import sys
from typing import Callable, Iterator

from tqdm import tqdm


class _Hooks:
    def __init__(self) -> None:
        self._hooks: dict[int, Callable[[], None]] = {}
        self._count = 0

    def add(self, hook: Callable[[], None]) -> RemovableHook:
        self._count += 1
        self._hooks[self._count] = hook
        return RemovableHook(self._hooks, self._count)

    def run(self) -> None:
        for hook in list(self._hooks.values()):
            hook()


class RemovableHook:
    """A registered hook; ``remove`` unregisters it."""

    def __init__(self, hooks: dict, key: int) -> None:
        self._hooks, self._key = hooks, key

    def remove(self) -> None:
        """Unregister the hook."""
        self._hooks.pop(self._key, None)


_before, _after = _Hooks(), _Hooks()


def registerPreCompileHook(hook: Callable[[], None]) -> RemovableHook:
    """Call ``hook`` before each compilation."""
    return _before.add(hook)


def registerPostCompileHook(hook: Callable[[], None]) -> RemovableHook:
    """Call ``hook`` after each compilation."""
    return _after.add(hook)


@contextlib.contextmanager
def compiling(show_bar: bool) -> Iterator[Callable[[int], None]]:
    """Around a compilation: runs the hooks, and gives a function that moves the bar to a percentage."""
    _before.run()
    # Where output is kept, as in a notebook, a finished bar is debris.
    with tqdm(
        total=100, desc="Graph compilation", disable=not show_bar, leave=sys.stderr.isatty(), file=sys.stderr
    ) as bar:
        yield lambda percent: bar.update(percent - bar.n)
        bar.update(100 - bar.n)
        bar.refresh()
    _after.run()
