"""Keep other people's progress lines out of notebooks."""

from __future__ import annotations

import contextlib
import io
import warnings
from typing import Iterator


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Swallow what PyG writes to stderr, and the deprecations behind its old raw formats."""
    with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
        warnings.simplefilter("ignore")
        yield
