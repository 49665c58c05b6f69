"""Static versions of PyG code that is dynamic inside though its result is not, all of them.

Each is written for the code of PyG 2.8.1 (LSTM: torch 2.13.0) that its `source` is the digest of: when that
code changes, a test fails and names the layer. See then whether the static version still computes the same.
First how they are put in force while a model is traced, and every one of them taken back; then the versions.
"""

from __future__ import annotations

import builtins
import contextlib
import functools
import hashlib
import inspect
import itertools
import logging
import re
import threading
import types
from typing import Any, Callable, Iterator, NamedTuple

import torch
import torch_geometric.nn as pyg
import torch_geometric.typing
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.data.storage import BaseStorage, EdgeStorage, NodeStorage
from torch_geometric.nn.aggr import Aggregation
from torch_geometric.nn.conv import spline_conv
from torch_geometric.utils import degree, scatter, softmax, to_dense_adj, to_dense_batch

from . import point_clouds
from .internals import host_check

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
    table: list[tuple[Any, str, Any]] = []
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
            vars(function)["__wrapped__"] = getter  # for whoever asks for its signature
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


# Convolutions that drop or count self-loops: keep every edge and give the dropped ones no weight.


def _with_own_loops(edge_index: Tensor, num_nodes: int) -> Tensor:
    """`edge_index` [2, E] followed by one self-loop per node: [2, E + N]."""
    nodes = torch.arange(num_nodes, device=edge_index.device)
    return torch.cat([edge_index, nodes.expand(2, -1)], dim=1)


@static_version_of(pyg.ClusterGCNConv, source="d099b04c")
def cluster_gcn_conv(self: Any, x: Tensor, edge_index: Tensor) -> Tensor:
    """Self-loops of the graph count as absent where the layer adds its own."""
    num_nodes = x.size(self.node_dim)
    is_loop = edge_index[0] == edge_index[1]
    if self.add_self_loops:
        present = torch.cat([~is_loop, is_loop.new_ones(num_nodes)])
        edge_index = _with_own_loops(edge_index, num_nodes)
    else:
        present = torch.ones_like(is_loop)
    present = present.to(x.dtype)
    row, col = edge_index[0], edge_index[1]
    inverse = 1.0 / scatter(present, col, dim_size=num_nodes, reduce="sum").clamp(min=1.0)
    weight = inverse[col] + (row == col).to(x.dtype) * self.diag_lambda * inverse[row]
    out = self.propagate(edge_index, x=x, edge_weight=present * weight)
    return self.lin_out(out) + self.lin_root(x)


@static_version_of(pyg.ChebConv, "__norm__", "6de0e761")
def cheb_norm(
    self, edge_index, num_nodes, edge_weight, normalization, lambda_max=None, dtype=None, batch=None
):
    """`(edge_index, weight)` of the scaled Laplacian, [2, E + N] and [E + N]; the graph's own loops
    weigh nothing."""
    row, col = edge_index[0], edge_index[1]
    weight = torch.ones_like(row, dtype=dtype) if edge_weight is None else edge_weight
    weight = torch.where(row == col, torch.zeros_like(weight), weight)
    degrees = scatter(weight, row, dim_size=num_nodes, reduce="sum")
    diagonal = torch.ones_like(degrees)
    if normalization is None:
        diagonal = degrees
    elif normalization == "sym":
        root = torch.where(degrees > 0, degrees.clamp(min=1e-38).rsqrt(), torch.zeros_like(degrees))
        weight = root[row] * weight * root[col]
    else:
        inverse = torch.where(degrees > 0, 1.0 / degrees, torch.zeros_like(degrees))
        weight = inverse[row] * weight
    laplacian = torch.cat([-weight, diagonal])
    edge_index = _with_own_loops(edge_index, num_nodes)
    if lambda_max is None:
        lambda_max = 2.0 * laplacian.max()
    elif not isinstance(lambda_max, Tensor):
        lambda_max = torch.tensor(lambda_max, dtype=dtype, device=edge_index.device)
    if batch is not None and lambda_max.numel() > 1:
        lambda_max = lambda_max[batch[edge_index[0]]]
    scaled = 2.0 * laplacian / lambda_max
    scaled = torch.where(torch.isinf(scaled), torch.zeros_like(scaled), scaled)
    return edge_index, scaled - torch.cat([torch.zeros_like(weight), torch.ones_like(diagonal)])


_gps_forward = pyg.GPSConv.forward


@static_version_of(pyg.GPSConv, source="162adc44")
def gps_conv(self: Any, x: Tensor, edge_index: Tensor, batch: Any = None, **kwargs: Any) -> Tensor:
    """Attention within each graph is attention over all nodes with every pair of two graphs masked out."""
    if batch is None or not isinstance(self.attn, torch.nn.MultiheadAttention):
        return _gps_forward(self, x, edge_index, batch, **kwargs)

    def normalised(norm, h):
        if norm is None:
            return h
        return norm(h, batch=batch) if self.norm_with_batch else norm(h)

    def dropped(h):
        return torch.nn.functional.dropout(h, self.dropout, self.training)

    parts = []
    if self.conv is not None:
        parts.append(normalised(self.norm1, dropped(self.conv(x, edge_index, **kwargs)) + x))
    other_graph = batch.unsqueeze(0) != batch.unsqueeze(1)
    rows = x.unsqueeze(0)
    attended, _ = self.attn(rows, rows, rows, attn_mask=other_graph, need_weights=False)
    parts.append(normalised(self.norm2, dropped(attended.squeeze(0)) + x))
    out = sum(parts)
    return normalised(self.norm3, out + self.mlp(out))


# One weight per type: where PyG sorts or selects rows by type, choose results by type.


def _ends(self: Any, edge_index: Tensor) -> tuple[Tensor, Tensor]:
    """`(sender, receiver)` of every edge."""
    source, target = edge_index[0], edge_index[1]
    return (source, target) if self.flow == "source_to_target" else (target, source)


def _by_relation(self: Any, messages: Tensor, receiver: Tensor, kind: Tensor, shape: tuple) -> Tensor:
    """`messages` [E, F] aggregated over (target, relation) pairs: [*shape, F], targets and relations."""
    pairs = receiver * shape[1] + kind
    return self.aggr_module(messages, pairs, dim_size=shape[0] * shape[1], dim=0).view(*shape, -1)


@static_version_of(pyg.HeteroLinear, source="094cb9e4")
def hetero_linear(self: Any, x: Tensor, type_vec: Tensor) -> Tensor:
    """`x` [*, F_in] times the weight of its row's type, `type_vec` [*] in 0 … num_types - 1."""
    out = x.new_zeros(x.size(0), self.out_channels)
    for kind in range(self.num_types):
        out = torch.where((type_vec == kind).unsqueeze(-1), x @ self.weight[kind], out)
    return out if self.bias is None else out + self.bias[type_vec]


@static_version_of(pyg.HGTConv, "_construct_src_node_feat", "de58215e")
def hgt_sources(self: Any, k_dict: dict, v_dict: dict, edge_index_dict: dict) -> tuple[Tensor, Tensor, dict]:
    """`(keys, values, offset)` of the sources of every edge type, the first two [N, H, F] one type after the
    other: the number of rows of each type is known, so that each meets its own weights only."""
    shape = (self.heads, len(self.edge_types), *self.k_rel.weight.shape[1:])
    key_weight, value_weight = self.k_rel.weight.view(shape), self.v_rel.weight.view(shape)
    keys, values, offset, start = [], [], {}, 0
    for edge_type in edge_index_dict:
        source, number = edge_type[0], self.edge_types_map[edge_type]
        keys.append(torch.einsum("nhi,hio->nho", k_dict[source], key_weight[:, number]))
        values.append(torch.einsum("nhi,hio->nho", v_dict[source], value_weight[:, number]))
        offset[edge_type] = start
        start += k_dict[source].size(0)
    return torch.cat(keys), torch.cat(values), offset


@static_version_of(pyg.MFConv, source="0be7e3f7")
def mf_conv(self: Any, x: Any, edge_index: Tensor, size: Any = None) -> Tensor:
    """Each node's sum of neighbours and own features through the weights of its degree."""
    x = (x, x) if isinstance(x, Tensor) else x
    hidden = self.propagate(edge_index, x=x, size=size)
    degrees = degree(_ends(self, edge_index)[1], hidden.size(self.node_dim), dtype=torch.long).clamp(
        max=self.max_degree
    )
    out = hidden.new_zeros([*hidden.shape[:-1], self.out_channels])
    for number, (left, right) in enumerate(zip(self.lins_l, self.lins_r)):
        value = left(hidden) if x[1] is None else left(hidden) + right(x[1])
        out = torch.where((degrees == number).unsqueeze(-1), value, out)
    return out


@static_version_of(pyg.RGCNConv, source="117dbcb1")
def rgcn_conv(self: Any, x: Any, edge_index: Tensor, edge_type: Any = None) -> Tensor:
    """One aggregation over (target, relation) pairs stands for one over each relation's edges."""
    source, target = x if isinstance(x, tuple) else (x, x)
    if source is None:
        source = torch.arange(self.in_channels_l, device=self.weight.device)
        target = source if target is None else target
    shape = (target.size(0), self.num_relations)
    sender, receiver = _ends(self, edge_index)
    weight = self.weight
    if self.num_bases is not None:
        weight = torch.einsum("rb,bio->rio", self.comp, weight)
    is_embedding = not torch.is_floating_point(target)
    messages = weight[edge_type, source[sender]] if is_embedding else source[sender]
    hidden = _by_relation(self, messages, receiver, edge_type, shape)
    if is_embedding:
        out = hidden.sum(dim=1)
    elif self.num_blocks is not None:
        blocks = hidden.view(*shape, weight.size(1), weight.size(2))
        out = torch.einsum("nrbi,rbio->nbo", blocks, weight).flatten(1)
    else:
        # One product over relations and channels at once: `einsum` would copy both into another order.
        out = hidden.flatten(1) @ weight.flatten(0, 1)
    if self.root is not None:
        out = out + (self.root[target] if is_embedding else target @ self.root)
    return out if self.bias is None else out + self.bias


@static_version_of(pyg.FiLMConv, source="534514a7")
def film_conv(self: Any, x: Any, edge_index: Tensor, edge_type: Any = None) -> Tensor:
    """One aggregation over (target, relation) pairs stands for one over each relation's edges."""
    source, target = (x, x) if isinstance(x, Tensor) else x

    def modulated(values: Tensor, film: Tensor) -> Tensor:
        shift, scale = film.split(self.out_channels, dim=-1)
        out = scale * values + shift
        return out if self.act is None else self.act(out)

    sender, receiver = _ends(self, edge_index)
    shape = (target.size(0), max(self.num_relations, 1))
    kind = torch.zeros_like(sender) if shape[1] == 1 else edge_type
    values = torch.stack([linear(source) for linear in self.lins])[kind, sender]
    films = torch.stack([film(target) for film in self.films])[kind, receiver]
    hidden = _by_relation(self, modulated(values, films), receiver, kind, shape)
    return modulated(self.lin_skip(target), self.film_skip(target)) + hidden.sum(dim=1)


_rgat_across_relations = pyg.RGATConv.forward


@static_version_of(pyg.RGATConv, source="99beccd6")
def rgat_conv(
    self: Any,
    x: Tensor,
    edge_index: Tensor,
    edge_type: Any = None,
    edge_attr: Tensor | None = None,
    size: Any = None,
    return_attention_weights: Any = None,
) -> Any:
    """Attention within a relation is a softmax over (target, relation) pairs."""
    if self.attention_mechanism != "within-relation":
        rest = (edge_type, edge_attr, size, return_attention_weights)
        return _rgat_across_relations(self, x, edge_index, *rest)
    sender, receiver = _ends(self, edge_index)
    num_nodes = x.size(0) if size is None else size[1 if self.flow == "source_to_target" else 0]
    values, logits = _rgat_values_and_logits(self, x[receiver], x[sender], edge_type, edge_attr)
    pairs = receiver * self.num_relations + edge_type
    attention = softmax(logits, pairs, num_nodes=num_nodes * self.num_relations)
    messages = _rgat_modulated(self, values, attention, receiver, num_nodes)
    out = self.update(self.aggr_module(messages, receiver, dim_size=num_nodes, dim=self.node_dim))
    return (out, (edge_index, attention)) if isinstance(return_attention_weights, bool) else out


def _rgat_values_and_logits(
    self: Any, x_i: Tensor, x_j: Tensor, edge_type: Tensor, edge_attr: Tensor | None
) -> tuple[Tensor, Tensor]:
    """`(values, logits)`: the projected sources [E, H * F] and the attention before softmax [E, H * D]."""
    weight = self.weight if self.num_bases is None else torch.einsum("rb,bio->rio", self.att, self.basis)
    # Each block of channels has a matrix of its own; without `num_blocks` there is one block.
    weight = (weight if self.num_blocks is not None else weight.unsqueeze(1))[edge_type]
    receivers, values = (
        torch.einsum("ebi,ebio->ebo", ends.view(*weight.shape[:3]), weight).flatten(1) for ends in (x_i, x_j)
    )
    is_additive = self.attention_mode == "additive-self-attention"
    join = torch.add if is_additive else torch.mul
    logits = join(receivers @ self.q, values @ self.k)
    if edge_attr is not None:
        logits = join(logits, self.lin_edge(edge_attr.view(edge_attr.size(0), -1)) @ self.e)
    return values, torch.nn.functional.leaky_relu(logits, self.negative_slope) if is_additive else logits


def _rgat_modulated(self: Any, values: Tensor, attention: Tensor, index: Tensor, size_i: int) -> Tensor:
    """The messages [E, H, F] or [E, H, D, F] of `values` under `attention`, in the way `self.mod` says."""
    is_additive = self.attention_mode == "additive-self-attention"
    values = values.view(-1, self.heads, self.out_channels)
    values = values if is_additive else values.unsqueeze(2)
    shape = (-1, self.heads, 1) if is_additive else (-1, self.heads, self.dim, 1)
    if self.mod == "additive":
        return values * attention.view(shape) + self.w * values.expand(*attention.view(shape).shape[:-1], -1)
    if self.mod in ("scaled", "f-scaled"):
        degrees = degree(index, size_i, dtype=attention.dtype)[index].unsqueeze(-1)
        if self.mod == "scaled":
            factor = self.activation(degrees @ self.l1 + self.b1) @ self.l2 + self.b2
            factor = factor.view(-1, *[1] * (values.dim() - 2), self.out_channels)
            return values * attention.view(shape) * factor
        attention = attention * degrees
    elif self.mod == "f-additive":
        attention = torch.where(attention > 0, attention + 1, attention)
    else:
        attention = torch.nn.functional.dropout(attention, self.dropout, self.training)
    return values * attention.view(shape)


# Aggregations that assert a sorted index or count with `bincount`.


@static_version_of(Aggregation, "to_dense_batch", "20a2f82b")
def aggregation_to_dense_batch(
    self, x, index=None, ptr=None, dim_size=None, dim=-2, fill_value=0.0, max_num_elements=None
):
    """Rows [N, F] grouped as [dim_size, max_num_elements, F]. Sorts instead of asserting a sorted index."""
    self.assert_index_present(index)
    self.assert_two_dimensional_input(x, dim)
    index, order = torch.sort(index, stable=True)
    return to_dense_batch(
        x[order], index, batch_size=dim_size, fill_value=fill_value, max_num_nodes=max_num_elements
    )


@static_version_of(pyg.QuantileAggregation, source="07f214e9")
def quantile_aggregation(self, x, index=None, ptr=None, dim_size=None, dim=-2):
    """Quantiles per group from one sort by (group, value); counts come from a scatter of fixed size."""
    self.assert_index_present(index)
    dim = dim % x.dim()
    rows = x.movedim(dim, 0)
    flat = rows.reshape(rows.size(0), -1)
    by_value = torch.sort(flat, dim=0)
    groups = torch.sort(index[by_value.indices], dim=0, stable=True)
    ordered = by_value.values.gather(0, groups.indices)
    count = degree(index, dim_size, dtype=torch.long)
    start = torch.cumsum(count, 0) - count
    position = (self.q * (count - 1) + start.clamp(max=flat.size(0) - 1)).t().reshape(-1)
    value = _interpolated(ordered, position, self.interpolation)
    num_quantiles = self.q.numel()
    empty = (count == 0).unsqueeze(1).expand(-1, num_quantiles).reshape(-1, 1)
    value = value.masked_fill(empty, self.fill_value)
    out = value.view(-1, num_quantiles, *rows.shape[1:]).movedim(0, dim)
    return out.flatten(dim + 1, dim + 2) if dim + 2 <= out.dim() - 1 else out.flatten(dim)


def _interpolated(ordered: Tensor, position: Tensor, how: str) -> Tensor:
    """Rows of `ordered` [N, F] at the fractional `position` [Q]: [Q, F]."""
    if how == "nearest":
        return ordered[position.round().long()]
    lower, upper = ordered[position.floor().long()], ordered[position.ceil().long()]
    if how == "lower":
        return lower
    if how == "higher":
        return upper
    part = 0.5 if how == "midpoint" else position.frac().unsqueeze(1)
    return lower + (upper - lower) * part


# Dense adjacency matrices without asking whether an edge falls outside.


_to_dense_adj = twin(to_dense_adj)


@static_version_of(to_dense_adj, source="c807b726")
def static_to_dense_adj(edge_index, batch=None, edge_attr=None, max_num_nodes=None, batch_size=None):
    """Adjacency matrices [batch_size, max_num_nodes, max_num_nodes, *] of the graphs in a batch; edges
    of nodes beyond `max_num_nodes` count nothing."""
    if batch is None or batch_size is None or max_num_nodes is None:
        return _to_dense_adj(edge_index, batch, edge_attr, max_num_nodes, batch_size)
    counts = scatter(torch.ones_like(batch), batch, dim_size=batch_size, reduce="sum")
    first = torch.cumsum(counts, 0) - counts
    graph = batch[edge_index[0]]
    row, col = edge_index[0] - first[graph], edge_index[1] - first[batch[edge_index[1]]]
    inside = (row < max_num_nodes) & (col < max_num_nodes)
    if edge_attr is None:
        edge_attr = torch.ones(edge_index.size(1), device=edge_index.device)
    place = (graph * max_num_nodes + row) * max_num_nodes + col
    total = batch_size * max_num_nodes * max_num_nodes
    place = torch.where(inside, place, total)
    dense = scatter(edge_attr, place, dim_size=total + 1, reduce="sum")[:total]
    return dense.view(batch_size, max_num_nodes, max_num_nodes, *edge_attr.shape[1:])


# Normalisation per type without asking which types occur.


_instance_norm = pyg.InstanceNorm.forward


@static_version_of(pyg.InstanceNorm, source="df98a3ff")
def instance_norm(self, x, batch=None, batch_size=None):
    """PyG puts new tensors in the place of the running statistics, which a device does not follow: here the
    values are copied into them."""
    if not self.training or not self.track_running_stats or batch is None or batch_size is None:
        return _instance_norm(self, x, batch, batch_size)
    count = degree(batch, batch_size, dtype=x.dtype).clamp(min=1).view(-1, 1)
    mean = scatter(x, batch, dim=0, dim_size=batch_size, reduce="sum") / count
    x = x - mean.index_select(0, batch)
    squares = scatter(x * x, batch, dim=0, dim_size=batch_size, reduce="sum")
    with torch.no_grad():
        unbiased = squares / (count - 1).clamp(min=1)
        self.running_mean.lerp_(mean.mean(0), self.momentum)
        self.running_var.lerp_(unbiased.mean(0), self.momentum)
    out = x / (squares / count + self.eps).sqrt().index_select(0, batch)
    return out if self.weight is None else out * self.weight + self.bias


@static_version_of(pyg.HeteroBatchNorm, source="4ea60279")
def hetero_batch_norm(self: Any, x: Tensor, type_vec: Tensor) -> Tensor:
    """Running statistics move only for types that occur: chosen by mask, where PyG lists those types."""
    if not self.training and self.track_running_stats:
        mean, variance = self.running_mean, self.running_var
    else:
        with torch.no_grad():
            mean, variance = self.mean_var(x, type_vec, dim_size=self.num_types)
    if self.training and self.track_running_stats:
        with torch.no_grad():
            _update_running(self, mean, variance, degree(type_vec, self.num_types) > 0)
    out = (x - mean[type_vec]) / variance.clamp(self.eps).sqrt()[type_vec]
    return out * self.weight[type_vec] + self.bias[type_vec] if self.affine else out


def _update_running(self: Any, mean: Tensor, variance: Tensor, occurs: Tensor) -> None:
    factor = self.momentum
    if factor is None:
        self.num_batches_tracked.add_(1)
        factor = 1.0 / self.num_batches_tracked
    factor = torch.where(occurs, factor, 0.0).unsqueeze(1)
    self.running_mean.copy_(torch.lerp(self.running_mean, mean, factor.to(mean.dtype)))
    self.running_var.copy_(torch.lerp(self.running_var, variance, factor.to(variance.dtype)))


# Models that select rows by a mask, or use Python in a way that a trace cannot follow.


@static_version_of(pyg.MaskLabel, source="c403e0b9")
def mask_label(self: Any, x: Tensor, y: Tensor, mask: Tensor) -> Tensor:
    """The embedding of the label where `mask` is True, zero elsewhere, added to `x` [N, F] or beside it."""
    known = torch.where(mask, y, torch.zeros_like(y))
    embedding = torch.where(mask.unsqueeze(-1), self.emb(known), 0.0)
    return torch.cat([x, embedding], dim=-1) if self.method == "concat" else x + embedding


@static_version_of(pyg.DeepGraphInfomax, source="1e1aa367")
def deep_graph_infomax(self: Any, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor, Tensor]:
    """`(positive, negative, summary)` of the input and its corruption."""
    positive = self.encoder(*args, **kwargs)
    corrupted = self.corruption(*args, **kwargs)
    corrupted = corrupted if isinstance(corrupted, tuple) else (corrupted,)
    replaced = dict(zip(kwargs, corrupted[len(args) :]))
    negative = self.encoder(*corrupted[: len(args)], **{**kwargs, **replaced})
    return positive, negative, self.summary(positive, *args, **kwargs)


# Point clouds, which otherwise need `pyg-lib`.


_SEARCHES = """knn b8afdc12 knn_graph 79fef556 radius 2645c59f radius_graph 0829b40d nearest c02807eb
    fps a046df16 voxel_grid e09d4667"""
for _function, _source in re.findall(r"(\w+) (\w{8})", _SEARCHES):
    static_version_of(getattr(pyg, _function, None), source=_source)(getattr(point_clouds, _function))
for _flag in ("KNN", "FPS", "RADIUS", "NEAREST", "GRID_CLUSTER", "TORCH_CLUSTER"):
    static_version_of(torch_geometric.typing, f"WITH_{_flag}")(True)


def _pair(value: Any) -> tuple:
    return value if isinstance(value, tuple) else (value, value)


@static_version_of(pyg.DynamicEdgeConv, source="8a812389")
def dynamic_edge_conv(self: Any, x: Any, batch: Any = None) -> Tensor:
    """Edge convolution over the `k` nearest neighbours in feature space, [N, F_in] to [N, F_out]."""
    x, batch = _pair(x), _pair(batch)
    edge_index = point_clouds.knn(x[0], x[1], self.k, *batch).flip(0)
    return self.propagate(edge_index, x=x)


@static_version_of(pyg.GravNetConv, source="e70a78d7")
def grav_net_conv(self: Any, x: Any, batch: Any = None) -> Tensor:
    """Message passing over the `k` nearest neighbours in a learned space, [N, F_in] to [N, F_out]."""
    x, batch = _pair(x), _pair(batch)
    sources, targets = self.lin_s(x[0]), self.lin_s(x[1])
    edge_index = point_clouds.knn(sources, targets, self.k, *batch).flip(0)
    distance = (sources[edge_index[0]] - targets[edge_index[1]]).square().sum(dim=-1)
    out = self.propagate(
        edge_index,
        x=(self.lin_h(x[0]), None),
        edge_weight=torch.exp(-10.0 * distance),
        size=(sources.size(0), targets.size(0)),
    )
    return self.lin_out1(x[1]) + self.lin_out2(out)


@static_version_of(pyg.XConv, source="1cd2c903")
def x_conv(self: Any, x: Any, pos: Tensor, batch: Any = None) -> Tensor:
    """PointCNN's convolution over `kernel_size` neighbours of each point, [N, F_in] to [N, F_out]."""
    pos = pos.unsqueeze(-1) if pos.dim() == 1 else pos
    num_points, size = pos.size(0), self.kernel_size
    edges = point_clouds.knn(pos, pos, size * self.dilation, batch, batch)[:, :: self.dilation]
    relative = pos[edges[1]] - pos[edges[0]]
    features = self.mlp1(relative)
    if x is not None:
        x = x.unsqueeze(-1) if x.dim() == 1 else x
        features = torch.cat([features, x[edges[1]].view(num_points, size, self.in_channels)], dim=-1)
    transform = self.mlp2(relative.view(num_points, -1))
    return self.conv(features.transpose(1, 2).contiguous() @ transform)


# B-spline kernels in plain torch, for `SplineConv`, which otherwise needs `pyg-lib`.


def spline_basis(
    pseudo: Tensor, kernel_size: Tensor, is_open_spline: Tensor, degree: int
) -> tuple[Tensor, Tensor]:
    """`(basis, index)`, both [E, (degree + 1) ** D]: the B-spline products that are not zero at `pseudo`
    [E, D] in [0, 1], and the number of the kernel's weight that each belongs to."""
    is_open = is_open_spline.to(torch.bool)
    scaled = pseudo * (kernel_size - degree * is_open.long()).to(pseudo.dtype)
    left = scaled.detach().floor()
    fraction = scaled - left
    stride = torch.cumprod(kernel_size, 0) // kernel_size
    basis, index = [], []
    for offsets in itertools.product(range(degree + 1), repeat=pseudo.size(1)):
        steps = torch.tensor(offsets, device=pseudo.device)
        parts = [_bspline(fraction[:, d], degree, offset) for d, offset in enumerate(offsets)]
        basis.append(torch.stack(parts, dim=-1).prod(dim=-1))
        cell = torch.remainder(left.long() + steps, kernel_size)
        index.append((cell * stride).sum(dim=-1))
    return torch.stack(basis, dim=-1), torch.stack(index, dim=-1)


def _bspline(t: Tensor, degree: int, offset: int) -> Tensor:
    """The `offset`-th of the `degree + 1` uniform B-splines that are not zero at `t` in [0, 1)."""
    u = 1.0 - t
    if degree == 1:
        return (u, t)[offset]
    if degree == 2:
        return (u**2 / 2.0, 0.5 + t * u, t**2 / 2.0)[offset]
    if degree == 3:
        parts = u**3, 4.0 - 6.0 * t**2 + 3.0 * t**3, 4.0 - 6.0 * u**2 + 3.0 * u**3, t**3
        return parts[offset] / 6.0
    raise ValueError(f"SplineConv's degree must be 1, 2 or 3 (got {degree}).")


def spline_weighting(x: Tensor, weight: Tensor, basis: Tensor, index: Tensor) -> Tensor:
    """`x` [E, F_in] through the kernel `weight` [K, F_in, F_out] blended by `basis` at `index`: [E,
    F_out]."""
    out = x.new_zeros(x.size(0), weight.size(2))
    for number in range(weight.size(0)):
        share = torch.where(index == number, basis, torch.zeros_like(basis)).sum(dim=-1, keepdim=True)
        out = out + share * (x @ weight[number])
    return out


static_version_of(spline_conv, "spline_basis")(spline_basis)
static_version_of(spline_conv, "spline_weighting")(spline_weighting)


# `torch.nn.LSTM` written out step by step: its fused CPU kernel has no compiled backward pass.


_lstm_forward = torch.nn.LSTM.forward


@static_version_of(torch.nn.LSTM, source="b5841b59")
def lstm(self, input, hx=None):
    """`(output, (h, c))` of `input` [B, T, F] or [T, B, F], all layers and directions unrolled over T."""
    if not isinstance(input, Tensor) or self.proj_size > 0:
        return _lstm_forward(self, input, hx)
    time, is_batched = 1 if self.batch_first else 0, input.dim() == 3
    steps = (input if is_batched else input.unsqueeze(1 - time)).transpose(0, time)
    num_directions = 2 if self.bidirectional else 1
    if hx is None:
        zeros = input.new_zeros(self.num_layers * num_directions, steps.size(1), self.hidden_size)
        hx = (zeros, zeros)
    elif not is_batched:
        hx = (hx[0].unsqueeze(1), hx[1].unsqueeze(1))
    last = []
    for layer in range(self.num_layers):
        outputs = []
        for direction in range(num_directions):
            number = layer * num_directions + direction
            weights = [getattr(self, name) for name in self._all_weights[number]]
            output, *state = _direction(steps, hx[0][number], hx[1][number], weights, direction == 1)
            outputs.append(output)
            last.append(state)
        steps = torch.cat(outputs, dim=-1)
        if layer + 1 < self.num_layers:
            steps = torch.nn.functional.dropout(steps, self.dropout, self.training)
    output = steps.transpose(0, time)
    hidden, cell = (torch.stack(states) for states in zip(*last))
    if is_batched:
        return output, (hidden, cell)
    return output.squeeze(1 - time), (hidden.squeeze(1), cell.squeeze(1))


def _direction(
    steps: Tensor, hidden: Tensor, cell: Tensor, weights: list[Tensor], is_reversed: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """One layer in one direction over `steps` [T, B, F]: `(output [T, B, H], hidden [B, H], cell [B, H])`."""
    to_gates, hidden_to_gates = weights[0], weights[1]
    bias = weights[2] + weights[3] if len(weights) > 2 else None
    gates_of_input = torch.nn.functional.linear(steps, to_gates, bias)
    order = range(steps.size(0))
    outputs = [hidden] * steps.size(0)
    for step in reversed(order) if is_reversed else order:
        gates = gates_of_input[step] + hidden @ hidden_to_gates.t()
        enter, forget, candidate, leave = gates.chunk(4, dim=-1)
        cell = forget.sigmoid() * cell + enter.sigmoid() * candidate.tanh()
        hidden = leave.sigmoid() * cell.tanh()
        outputs[step] = hidden
    return torch.stack(outputs), hidden, cell


# What a model does with the data object it is given: `data.x = ...`, `data.num_nodes`. To assign, PyG asks
# the class for a setter first, which the tracer cannot follow. The setters of PyG's own attributes only put
# the value into the store, so that it can go there at once. Nor can the tracer follow a property to that of
# a base class.


def _setters(*classes: type) -> frozenset[str]:
    members = [item for owner in classes for item in vars(owner).items()]
    return frozenset(name for name, value in members if getattr(value, "fset", None) is not None)


_OF_DATA = _setters(Data)
_OF_STORES = _setters(NodeStorage, EdgeStorage)
_set_data = Data.__setattr__
_set_store = BaseStorage.__setattr__


def _overrides(kind: type, key: str) -> bool:
    """Whether a subclass of `Data` has a setter of its own for this attribute."""
    return getattr(kind, key) is not getattr(Data, key)


@static_version_of(Data, "__setattr__", "f15d57cf")
def data_set_attribute(self: Data, key: str, value: Any) -> None:
    if key in _OF_DATA and not _overrides(type(self), key):
        self._store[key] = value
    else:
        _set_data(self, key, value)


@static_version_of(Data, "num_nodes", "66ece4ae")
def data_num_nodes(self: Data) -> int | None:
    return self._store.num_nodes


@static_version_of(BaseStorage, "__setattr__", "7852eec1")
def store_set_attribute(self: BaseStorage, key: str, value: Any) -> None:
    if key in _OF_STORES:
        self[key] = value
    else:
        _set_store(self, key, value)


# What runs on the host while tracing: printing constants is fine, printing tensors is not.


_print = builtins.print


def print_while_tracing(*values: Any, **options: Any) -> None:
    """`print`, which in a trace prints nothing and leaves a mark in the graph for every tensor it is
    given."""
    if not torch.compiler.is_compiling():
        if not prints_nothing():
            _print(*values, **options)
        return
    for value in values:
        if isinstance(value, str):
            len(value)  # ends the trace where a tensor is formatted into the text
        elif isinstance(value, torch.Tensor):
            host_check(torch.ones((), dtype=torch.bool), "print")


static_version_of(builtins, "print")(print_while_tracing)

_handle = logging.Logger.handle


@static_version_of(logging.Logger, "handle")
def handle_silently(self: logging.Logger, record: logging.LogRecord) -> None:
    """While nothing is to be printed, make the text of a log entry, which reads its values, and drop it."""
    if prints_nothing():
        record.getMessage()
    else:
        _handle(self, record)
