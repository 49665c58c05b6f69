"""Which PopTorch this is: the SDK's where it imports, otherwise our CPU implementation of its calls."""

from __future__ import annotations

import importlib
import warnings
from typing import Any

import torch
import torch_geometric

from .poptorch_cpu.executor import times_compiled
from .poptorch_cpu.options import options_without_effect


def _choose() -> Any:
    """The SDK's module if it is there and works, otherwise ours."""
    try:
        found = importlib.import_module("poptorch")
        if (
            getattr(found, "__file__", None) is not None
        ):  # else a folder of that name that happens to be there
            return found
    except ModuleNotFoundError as error:
        if error.name != "poptorch":
            _warn(error)
    except (ImportError, OSError) as error:
        _warn(error)
    return importlib.import_module("gnn_ipu_helpers.poptorch_cpu")


def _warn(error: Exception) -> None:
    warnings.warn(
        f"PopTorch is installed but does not import ({error}): running on the CPU implementation instead. "
        "PopTorch 3.3 wants torch 2.0.1 and torch_geometric 2.4.0 with the Poplar SDK enabled; here are "
        f"torch {torch.__version__} and torch_geometric {torch_geometric.__version__}.",
        stacklevel=3,
    )


poptorch = _choose()
_ON_SDK = poptorch.__name__ == "poptorch"


def backend() -> str:
    """One line that says where models run, with versions, and whether they fit one another."""
    versions = f"torch {torch.__version__}, torch_geometric {torch_geometric.__version__}"
    if not _ON_SDK:
        return f"Backend: CPU implementation of PopTorch's calls ({versions})"
    return f"Backend: PopTorch {getattr(poptorch, '__version__', 'of the SDK')} ({versions}{_misfit()})"


def _misfit() -> str:
    fits = torch.__version__.startswith("2.0.") and torch_geometric.__version__.startswith("2.4.")
    return "" if fits else "; PopTorch 3.3 was made for torch 2.0.1 and torch_geometric 2.4.0"


def compile_count(model: Any) -> int:
    """How often the wrapped ``model`` has been compiled: 1 for a whole training run with fixed shapes."""
    if _ON_SDK:
        return int(model.isCompiled())
    return times_compiled(model)


def settings_without_effect(options: Any) -> dict[str, Any]:
    """The settings of ``options`` that change nothing here, by dotted setter name; empty on an IPU."""
    return {} if _ON_SDK else options_without_effect(options)
