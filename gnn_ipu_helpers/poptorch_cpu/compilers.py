"""What turns the checked graph into something that runs: inductor, or the graph as it is."""

from __future__ import annotations

import functools
import logging
import os
import shutil
import warnings
from typing import Callable

import torch

from .errors import Error

_VARIABLE = "GNN_IPU_COMPILER"


@functools.lru_cache(maxsize=None)
def has_cpp_compiler() -> bool:
    """Whether there is one; says once if there is not."""
    found = any(shutil.which(name) for name in (os.environ.get("CXX"), "g++", "clang++", "cl") if name)
    if not found:
        logging.getLogger("poptorch").warning(
            "No C++ compiler found: running the checked graph without fusing its operations. Results are "
            "the same; install g++ or clang++ for speed."
        )
    return found


def compiler_name() -> str:
    """``"inductor"`` where a C++ compiler is found, else ``"unfused"``; ``GNN_IPU_COMPILER`` forces one."""
    forced = os.environ.get(_VARIABLE, "")
    if forced not in ("", "inductor", "unfused"):
        raise Error(f"{_VARIABLE} must be 'inductor' or 'unfused' (got {forced!r}).")
    return forced or ("inductor" if has_cpp_compiler() else "unfused")


def compile_graph(name: str, graph_module: torch.fx.GraphModule, example_inputs: list) -> Callable:
    """Compile a traced graph, forward and backward, with the compiler of this name."""
    if name == "unfused":
        return torch._dynamo.lookup_backend("aot_eager")(graph_module, example_inputs)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # torch's own, on import
        from torch._inductor.compile_fx import compile_fx

    # Eager's random numbers, so that a seed gives the same dropout compiled and not.
    return compile_fx(graph_module, example_inputs, config_patches={"fallback_random": True})
