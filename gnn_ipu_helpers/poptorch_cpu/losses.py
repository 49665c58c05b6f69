"""Marking and finding the loss that training starts its backward pass from."""

from __future__ import annotations

import logging

import torch

from .errors import Error

_REDUCTIONS = {"sum": 0, "mean": 1, "none": 2}
_LOSS_FUNCTIONS = frozenset(
    name
    for name in dir(torch.nn.functional)
    if name.endswith("_loss")
    or name in ("cross_entropy", "kl_div")
    or name.startswith("binary_cross_entropy")
)


def _mark(x: torch.Tensor) -> torch.Tensor:
    """Stands in the traced graph as the sign that its result is the loss."""
    return x.view_as(x)


def identity_loss(x: torch.Tensor, reduction: str | int) -> torch.Tensor:
    """Mark ``x`` as the loss, reduced by ``'sum'`` (0), ``'mean'`` (1) or ``'none'`` (2), and return it.

    PopTorch finds torch's own loss functions by itself; a loss computed in any other way, or put together
    from several, has to be marked.
    """
    code = _REDUCTIONS.get(reduction, reduction)
    if code not in (0, 1, 2):
        raise ValueError(f"The reduction must be 'sum' (0), 'mean' (1) or 'none' (2) (got {reduction!r}).")
    if code == 0:
        x = x.sum()
    elif code == 1:
        x = x.mean()
    return _mark(x)


def keep_marks_while_tracing() -> None:
    """Have torch.compile keep the marks in the graph instead of looking through them."""
    torch.compiler.allow_in_graph(_mark)


def find_loss(graph: torch.fx.Graph) -> torch.fx.Node:
    """The node of a traced graph whose result is the loss, or an error that says how to mark it."""
    marked = [node for node in graph.nodes if node.op == "call_function" and node.target is _mark]
    marked = [node for node in marked if not _feeds_any(node, marked)]
    if len(marked) > 1:
        raise Error(
            f"{len(marked)} tensors are marked by poptorch.identity_loss, and training starts from one "
            "loss. Add them up and mark the sum: poptorch.identity_loss(first + second, reduction='none')."
        )
    return marked[0] if marked else _returned_scalar(graph)


def without_marks(graph: torch.fx.Graph, loss: torch.fx.Node) -> torch.fx.Node:
    """Take the marks out of the graph, for the compiler's cache takes torch's own functions only.

    Returns the node that holds the loss now.
    """
    for node in [node for node in graph.nodes if node.target is _mark]:
        node.replace_all_uses_with(node.args[0])
        loss = node.args[0] if node is loss else loss
        graph.erase_node(node)
    return loss


def _feeds_any(node: torch.fx.Node, targets: list[torch.fx.Node]) -> bool:
    """Whether another one of ``targets`` is computed from ``node``."""
    reached, waiting = set(), list(node.users)
    while waiting:
        user = waiting.pop()
        if user in targets:
            return True
        if user not in reached:
            reached.add(user)
            waiting.extend(user.users)
    return False


def _returned_scalar(graph: torch.fx.Graph) -> torch.fx.Node:
    scalars = [node for node in graph_outputs(graph) if _is_scalar_with_gradient(node)]
    if not scalars:
        raise Error(
            "The training model returns no loss. Compute the loss inside forward and return it: the result "
            "of a torch loss function such as F.cross_entropy(out, y), or any tensor marked by "
            "poptorch.identity_loss(loss, reduction='mean')."
        )
    made_by_torch = [node for node in scalars if getattr(node.target, "__name__", "") in _LOSS_FUNCTIONS]
    if len(scalars) > 1 and len(made_by_torch) != 1:
        raise Error(
            f"The training model returns {len(scalars)} scalars, and each could be the loss. Mark the one "
            "to train on: poptorch.identity_loss(loss, reduction='none')."
        )
    if not made_by_torch:
        logging.getLogger("poptorch").warning(
            "The loss is not the direct result of a torch loss function; an IPU finds it only when it is "
            "marked: return poptorch.identity_loss(loss, reduction='none')."
        )
    return (made_by_torch or scalars)[0]


def graph_outputs(graph: torch.fx.Graph) -> list:
    """What a traced graph returns, in order."""
    (output,) = [node for node in graph.nodes if node.op == "output"]
    return list(output.args[0]) if isinstance(output.args[0], (tuple, list)) else [output.args[0]]


def _is_scalar_with_gradient(node: object) -> bool:
    value = getattr(node, "meta", {}).get("example_value")
    return isinstance(value, torch.Tensor) and value.dim() == 0 and value.requires_grad
