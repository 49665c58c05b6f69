"""What runs on the host while tracing: printing constants is fine, printing tensors is not."""

from __future__ import annotations

import builtins

import torch

from .scope import replace_value

_print = builtins.print


def print_while_tracing(*values, **options) -> None:
    """`print`, which in a trace prints nothing and leaves a mark in the graph for every tensor it is
    given."""
    if not torch.compiler.is_compiling():
        _print(*values, **options)
        return
    for value in values:
        if isinstance(value, str):
            len(value)  # ends the trace where a tensor is formatted into the text
        elif isinstance(value, torch.Tensor):
            torch._assert_async(torch.ones((), dtype=torch.bool), "print")


replace_value(builtins, "print", print_while_tracing)
