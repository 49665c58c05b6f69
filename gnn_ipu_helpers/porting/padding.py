"""Seeing that inputs are padded, and normalisation whose statistics the padding would pollute."""

from __future__ import annotations

import inspect
from typing import Any, Callable, Iterator

import torch
from torch_geometric.data.data import BaseData

from .findings import Finding
from .hints import finding_at
from .inspection import Origin, origin
from .remedies import Hint

_MASKS = frozenset(
    f"{what}_mask" for what in ("nodes", "node", "edges", "edge", "graphs", "graph", "pad", "padding")
)
_NEEDS_BATCH = frozenset(("GraphNorm", "InstanceNorm", "PairNorm", "MeanSubtractionNorm", "LayerNorm"))

_BATCH_NORM = Hint(
    "the inputs are padded, and padding rows enter the mean and variance of {name}: the loss of real "
    "graphs depends on how much padding their batch holds",
    "use gnn_ipu_helpers.porting.MaskedBatchNorm in its place and call it with the mask, "
    "norm(x, data.nodes_mask), or a LayerNorm, which looks at one row at a time",
)
_NORM_WITHOUT_BATCH = Hint(
    "the inputs are padded, and without `batch` padding rows enter the statistics of {name}",
    "pass batch=data.batch and batch_size=<number of graphs> to {name}: padding has graphs of its own",
)


def inputs_are_padded(function: Callable, args: tuple, kwargs: dict) -> bool:
    """Whether any of the inputs shows padding: a padding mask that holds False, in a batch or as an
    argument of that name, or an edge list that ends in the same self-loop repeated."""
    named = dict(_named(function, args, kwargs))
    return any(_shows_padding(name, value) for name, value in named.items())


def _named(function: Callable, args: tuple, kwargs: dict) -> Iterator[tuple[str, Any]]:
    target = function.forward if isinstance(function, torch.nn.Module) else function
    try:
        arguments = inspect.signature(target).bind(*args, **kwargs).arguments
    except (TypeError, ValueError):
        arguments = dict(enumerate(args), **kwargs)
    for name, value in arguments.items():
        yield from _leaves(str(name), value)


def _leaves(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, BaseData):
        for number, store in enumerate(value.stores):
            for key, item in store.items():
                yield f"{name}.{number}.{key}", item
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _leaves(f"{name}.{key}" if isinstance(key, str) else f"{name}.{key}.", item)
    elif isinstance(value, (list, tuple)):
        for number, item in enumerate(value):
            yield from _leaves(f"{name}.{number}", item)
    else:
        yield name, value


def _shows_padding(name: str, value: Any) -> bool:
    if not isinstance(value, torch.Tensor) or value.numel() == 0:
        return False
    if value.dtype == torch.bool:
        return any(part in _MASKS for part in name.split(".")) and not bool(value.all())
    is_edge_index = value.dim() == 2 and value.size(0) == 2 and value.size(1) > 1
    if not is_edge_index or value.is_floating_point():
        return False
    last, before = value[:, -1], value[:, -2]
    return bool((last == before).all() and last[0] == last[1])


def polluted_statistics(graph_module: torch.fx.GraphModule) -> Iterator[Finding]:
    """A finding for each normalisation in the graph whose statistics run over all rows."""
    for place in _batch_norms(graph_module):
        yield finding_at(place, _BATCH_NORM, place.modules[-1].__name__ if place.modules else "batch_norm")
    for place in _norms_without_batch(graph_module):
        yield finding_at(place, _NORM_WITHOUT_BATCH, place.modules[-1].__name__)


def _batch_norms(graph_module: torch.fx.GraphModule) -> Iterator[Origin]:
    for node in graph_module.graph.nodes:
        if (
            getattr(node.target, "__name__", "") == "batch_norm"
            and _is_training(node)
            and _has_rows(node)
            or _calls(node, "HeteroBatchNorm")
            and getattr(node.target, "__name__", "") == "copy_"
        ):
            yield origin(node)


def _is_training(node: torch.fx.Node) -> bool:
    position = 5
    value = node.kwargs.get("training", node.args[position] if len(node.args) > position else False)
    return value is True


def _has_rows(node: torch.fx.Node) -> bool:
    value = node.args[0].meta.get("example_value") if node.args else None
    return isinstance(value, torch.Tensor) and value.dim() == 2


def _calls(node: torch.fx.Node, name: str) -> bool:
    modules = origin(node).modules
    return bool(modules) and modules[-1].__name__ == name


def _norms_without_batch(graph_module: torch.fx.GraphModule) -> Iterator[Origin]:
    calls: dict[str, list[torch.fx.Node]] = {}
    for node in graph_module.graph.nodes:
        for key, (_, kind) in list((node.meta.get("nn_module_stack") or {}).items())[-1:]:
            is_norm = str(getattr(kind, "__module__", "")).startswith("torch_geometric.nn.norm")
            if is_norm and kind.__name__ in _NEEDS_BATCH:
                calls.setdefault(key, []).append(node)
    for nodes in calls.values():
        if _runs_over_all_rows(nodes):
            yield origin(nodes[-1])


def _runs_over_all_rows(nodes: list[torch.fx.Node]) -> bool:
    """Whether a norm was called without `batch`: it groups by nothing, or by zeros that it made itself."""
    names = {str(getattr(node.target, "__name__", node.target)) for node in nodes}
    if "layer_norm" in names:
        return False
    made = [node.meta.get("example_value") for node in nodes if node.target == "new_zeros"]
    groups_by_zeros = any(value.dtype == torch.long and value.dim() == 1 for value in made)
    return groups_by_zeros or not any("scatter" in name or "index" in name for name in names)
