"""The loss that training starts from: marked by hand or made by torch, found in a traced graph.

This is PopTorch's rule. Every call of a torch loss function, whatever its `reduction`, and every
`identity_loss` makes a loss. One that leads into another is a plain operation. Exactly one must remain, and
training starts its backward pass there: what is done to it afterwards has no part in training.

`check`, the CPU executor and the tests' stand-in for the SDK all ask `find_loss`, so that they agree.
"""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import inspect
import re
import textwrap
from typing import Any, Callable, Iterator

import torch

from .findings import Finding, Place, locate, parse_stack

_REDUCTIONS: dict[str | int, int] = {"sum": 0, 0: 0, "mean": 1, 1: 1, "none": 2, 2: 2}

# What reaches the compiler as one loss. `gaussian_nll_loss` and `triplet_margin_with_distance_loss` are not
# among them: torch writes both as ordinary arithmetic, in which nothing is left to recognise.
_LOSS_FUNCTIONS = """
    binary_cross_entropy binary_cross_entropy_with_logits cosine_embedding_loss cross_entropy
    cross_entropy_loss ctc_loss hinge_embedding_loss huber_loss kl_div l1_loss margin_ranking_loss mse_loss
    multilabel_soft_margin_loss nll_loss nll_loss2d nll_loss_nd poisson_nll_loss smooth_l1_loss
    soft_margin_loss triplet_margin_loss
"""
_LOSS_NAMES = frozenset(re.findall(r"\w+", _LOSS_FUNCTIONS))

# What may be done to a loss without changing what a reader would take it for.
_HARMLESS = frozenset(
    re.findall(r"\w+", "detach clone view reshape view_as squeeze unsqueeze flatten float to cpu")
)


def _mark(x: torch.Tensor) -> torch.Tensor:
    """Stands in the traced graph as the sign that its result is a loss."""
    if torch.overrides.has_torch_function_unary(x):  # so that whoever watches an eager run sees it too
        return torch.overrides.handle_torch_function(_mark, (x,), x)
    return x.view_as(x)


def identity_loss(x: torch.Tensor, reduction: str | int) -> torch.Tensor:
    """Reduce `x` and mark the result as the loss to train on.

    PopTorch finds the results of torch's own loss functions by itself; a loss computed in any other way, or
    changed after such a function made it, has to be marked.

    Args:
        x: The loss, of any shape.
        reduction: What to do with `x`: add it up (`"sum"` or 0), average it (`"mean"` or 1), or leave it as
            it is (`"none"` or 2).

    Returns:
        The reduced tensor.
    """
    code = _REDUCTIONS.get(reduction)
    if code is None:
        raise ValueError(f"The reduction must be 'sum' (0), 'mean' (1) or 'none' (2) (got {reduction!r}).")
    return _mark((x.sum() if code == 0 else x.mean()) if code != 2 else x)


def keep_marks_while_tracing() -> None:
    """Have torch's tracer put marks into the graph as they are. Call it before tracing."""
    torch.compiler.allow_in_graph(_mark)


def is_loss_function(function: Any) -> bool:
    """Whether calling `function` makes a loss: one of torch's loss functions, or a mark."""
    module = str(getattr(function, "__module__", None) or "")
    return function is _mark or (
        getattr(function, "__name__", "") in _LOSS_NAMES and module.split(".")[0] == "torch"
    )


@dataclasses.dataclass(frozen=True)
class Loss:
    """What `find_loss` found: the `node` whose value is differentiated, or None with the reason in
    `findings`. `warnings` tell of what is probably not meant."""

    node: torch.fx.Node | None
    findings: list[Finding] = dataclasses.field(default_factory=list)
    warnings: list[Finding] = dataclasses.field(default_factory=list)


def find_loss(graph: torch.fx.Graph, model: Callable | None = None) -> Loss:
    """The node of a traced graph that training starts from.

    Args:
        graph: A graph traced by `torch.compile`, marks included.
        model: What was traced; names the line where a loss is missing.
    """
    losses = [node for node in graph.nodes if node.op == "call_function" and is_loss_function(node.target)]
    last = [node for node in losses if not any(other in losses for other in _descendants(node))]
    if not last:
        return Loss(None, [no_loss(model)])
    if len(last) > 1:
        return Loss(None, [_several(last)])
    return _judge_what_follows(graph, last[0])


def strip_marks(graph: torch.fx.Graph, loss: torch.fx.Node) -> torch.fx.Node:
    """Take the marks out of a graph, whose compiler cache takes torch's own functions only.

    Returns:
        The node that holds the loss now.
    """
    for node in [node for node in graph.nodes if node.target is _mark]:
        (marked,) = node.all_input_nodes
        node.replace_all_uses_with(marked)
        loss = marked if node is loss else loss
        graph.erase_node(node)
    return loss


def _descendants(node: torch.fx.Node) -> Iterator[torch.fx.Node]:
    """Everything computed from `node`, each once, in the order in which the graph computes it."""
    seen: set[torch.fx.Node] = set()
    waiting = list(node.users)
    while waiting:
        user = waiting.pop(0)
        if user not in seen:
            seen.add(user)
            waiting.extend(user.users)
            yield user


def _judge_what_follows(graph: torch.fx.Graph, loss: torch.fx.Node) -> Loss:
    """Refuse a gradient that would be dropped; warn where the loss is scaled or masked after it was made."""
    from .internals import example_value

    def is_trained(node: torch.fx.Node) -> bool:
        return getattr(example_value(node), "requires_grad", False)

    reached = {loss}
    changes = []
    for node in graph.nodes:
        if node.op not in ("call_function", "call_method") or not set(node.all_input_nodes) & reached:
            continue
        reached.add(node)
        name = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "")
        if not is_trained(node) or name in _HARMLESS:
            continue
        if any(is_trained(other) for other in node.all_input_nodes if other not in reached):
            dropped = "what is added to it afterwards would be left out of training"
            return Loss(None, [_changed_afterwards(loss, node, dropped)])
        changes.append(node)
    returned = {node for output in graph.nodes if output.op == "output" for node in output.all_input_nodes}
    seen_outside = [node for node in changes if node in returned or set(_descendants(node)) & returned]
    if not seen_outside:
        return Loss(loss)
    ignored = "what is done to it afterwards, such as a mask, a weight or a division, has no part in training"
    return Loss(loss, [], [_changed_afterwards(loss, seen_outside[0], ignored)])


def _place(node: torch.fx.Node) -> Place | None:
    return locate(parse_stack(node.meta.get("stack_trace")))[0]


def _words(node: torch.fx.Node) -> str:
    """How a reader would name the loss: its function and its line."""
    place = _place(node)
    name = "identity_loss" if node.target is _mark else node.target.__name__
    return f"{name} in line {place.line}" if place else name


def no_loss(model: Callable | None) -> Finding:
    """The finding for a model that computes no loss, at the last `return` of its `forward`."""
    return Finding.at(
        _last_return(model),
        "no loss",
        "PopTorch's \"Couldn't find a loss in graph\": in training the device runs forward, backward and "
        "step in one go, so forward must compute the loss, by a loss function or marked by identity_loss",
        "pass the labels to forward and return the loss too, such as `return out, F.cross_entropy(out, y)`; "
        "mark any other loss, `poptorch.identity_loss(loss, reduction='mean')`; for inference call "
        "model.eval() first",
    )


def _several(losses: list[torch.fx.Node]) -> Finding:
    return Finding.at(
        _place(losses[-1]),
        "several losses",
        f"training starts from one loss, and none of these leads into another: "
        f"{' and '.join(map(_words, losses))}",
        "add them up and mark the sum, `loss = poptorch.identity_loss(first + second, reduction='none')`; "
        "detach does not hide a loss, so compute one that is only for your eyes without a loss function",
    )


def _changed_afterwards(loss: torch.fx.Node, node: torch.fx.Node, consequence: str) -> Finding:
    return Finding.at(
        _place(node),
        "loss changed after it was made",
        f"training starts from {_words(loss)}: {consequence}",
        "mark the loss that you mean, `poptorch.identity_loss(loss, reduction='none')`, after the last step "
        "of its computation",
    )


def _last_return(model: Callable | None) -> Place | None:
    """The last `return` of a model's `forward`, where the loss should be."""
    forward: Any = type(model).forward if isinstance(model, torch.nn.Module) else model
    try:
        lines, first = inspect.getsourcelines(forward)
        tree = ast.parse(textwrap.dedent("".join(lines)))
    except (OSError, TypeError, SyntaxError):  # no source, or a lambda in the middle of an expression
        return None
    returns = [node.lineno for node in ast.walk(tree) if isinstance(node, ast.Return)]
    offset = max(returns, default=1) - 1
    return Place(inspect.getsourcefile(forward) or "", first + offset, "forward", lines[offset].strip())


# Where a model's own code asks whether it is being compiled for training, or at all.


_traced_for: str | None = None


def isRunningOnIpu() -> bool:
    """Whether this code is part of a model that is being compiled for the device: then it is True, also where
    the device is the CPU implementation; on the host it is False.

    Example:
        >>> isRunningOnIpu()
        False
    """
    return _traced_for is not None


def is_training_on_device() -> bool:
    """Whether a model is being compiled for training."""
    return _traced_for == "training"


@contextlib.contextmanager
def on_device(training: bool) -> Iterator[None]:
    """Around the tracing of a model."""
    global _traced_for
    before, _traced_for = _traced_for, "training" if training else "inference"
    try:
        yield
    finally:
        _traced_for = before
