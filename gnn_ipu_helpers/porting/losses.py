"""Whether a model in training mode returns the loss that the device must differentiate."""

from __future__ import annotations

import ast
import inspect
import textwrap
from typing import Any

import torch
from torch.utils import _pytree as pytree

from .findings import Finding
from .places import shown

_REASON = (
    "in training the device runs forward, backward and step in one go: the loss must come out of forward"
)
_REMEDY = (
    "pass the labels to forward and return the loss too, such as `return out, F.cross_entropy(out, y)`; for "
    "inference call model.eval() first"
)


def graph_returns_loss(graph_module: torch.fx.GraphModule) -> bool:
    """Whether a traced graph returns a single floating-point number, or a tensor marked by
    `identity_loss`."""
    (output,) = [node for node in graph_module.graph.nodes if node.op == "output"]
    returned = [node for node in pytree.tree_leaves(output.args) if isinstance(node, torch.fx.Node)]
    if any(_is_number(node.meta.get("example_value")) for node in returned):
        return True
    return any(
        "in identity_loss" in (node.meta.get("stack_trace") or "") for node in graph_module.graph.nodes
    )


def result_has_loss(model: torch.nn.Module, result: Any) -> bool:
    """The same of the result of an eager call of `model`."""
    return any(map(_is_number, pytree.tree_leaves(result))) or "identity_loss" in _source(model)


def _is_number(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.is_floating_point() and value.numel() == 1


def _source(model: torch.nn.Module) -> str:
    try:
        return inspect.getsource(type(model))
    except (OSError, TypeError):
        return ""


def no_loss(model: torch.nn.Module) -> Finding:
    """The finding for a model that returns no loss, at the last `return` of its `forward`."""
    file, line, source = _last_return(model)
    return Finding("no loss", shown(file), line, source, _REASON, _REMEDY)


def _last_return(model: torch.nn.Module) -> tuple[str, int, str]:
    forward = type(model).forward
    try:
        lines, first = inspect.getsourcelines(forward)
        file = inspect.getsourcefile(forward) or ""
    except (OSError, TypeError):
        return "", 0, ""
    tree = ast.parse(textwrap.dedent("".join(lines)))
    returns = [node.lineno for node in ast.walk(tree) if isinstance(node, ast.Return)]
    offset = max(returns, default=1) - 1
    return file, first + offset, lines[offset].strip()
