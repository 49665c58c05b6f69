"""Layers with one weight per type: where PyG sorts or selects rows by type, choose results by type."""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.nn import FiLMConv, HeteroLinear, HGTConv, MFConv, RGATConv, RGCNConv
from torch_geometric.utils import degree, softmax

from .scope import replaces_method


@replaces_method(HeteroLinear)
def hetero_linear(self, x: Tensor, type_vec: Tensor) -> Tensor:
    """`x` [*, F_in] times the weight of its row's type, `type_vec` [*] in 0 … num_types - 1."""
    out = x.new_zeros(x.size(0), self.out_channels)
    for kind in range(self.num_types):
        out = torch.where((type_vec == kind).unsqueeze(-1), x @ self.weight[kind], out)
    return out if self.bias is None else out + self.bias[type_vec]


@replaces_method(HGTConv, "_construct_src_node_feat")
def hgt_sources(self, k_dict, v_dict, edge_index_dict) -> tuple[Tensor, Tensor, dict]:
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


@replaces_method(MFConv)
def mf_conv(self, x, edge_index: Tensor, size=None) -> Tensor:
    """Each node's sum of neighbours and own features through the weights of its degree."""
    x = (x, x) if isinstance(x, Tensor) else x
    hidden = self.propagate(edge_index, x=x, size=size)
    target = edge_index[1 if self.flow == "source_to_target" else 0]
    degrees = degree(target, hidden.size(self.node_dim), dtype=torch.long).clamp(max=self.max_degree)
    out = hidden.new_zeros([*hidden.shape[:-1], self.out_channels])
    for number, (left, right) in enumerate(zip(self.lins_l, self.lins_r)):
        value = left(hidden) if x[1] is None else left(hidden) + right(x[1])
        out = torch.where((degrees == number).unsqueeze(-1), value, out)
    return out


@replaces_method(RGCNConv)
def rgcn_conv(self, x, edge_index: Tensor, edge_type: Tensor = None) -> Tensor:
    """One aggregation over (target, relation) pairs stands for one over each relation's edges."""
    source, target = x if isinstance(x, tuple) else (x, x)
    if source is None:
        source = torch.arange(self.in_channels_l, device=self.weight.device)
        target = source if target is None else target
    num_targets, num_relations = target.size(0), self.num_relations
    is_forward = self.flow == "source_to_target"
    sender, receiver = edge_index[0 if is_forward else 1], edge_index[1 if is_forward else 0]
    weight = self.weight
    if self.num_bases is not None:
        weight = torch.einsum("rb,bio->rio", self.comp, weight)
    is_embedding = not torch.is_floating_point(target)
    messages = weight[edge_type, source[sender]] if is_embedding else source[sender]
    pairs = receiver * num_relations + edge_type
    hidden = self.aggr_module(messages, pairs, dim_size=num_targets * num_relations, dim=0)
    hidden = hidden.view(num_targets, num_relations, -1)
    if is_embedding:
        out = hidden.sum(dim=1)
    elif self.num_blocks is not None:
        blocks = hidden.view(num_targets, num_relations, weight.size(1), weight.size(2))
        out = torch.einsum("nrbi,rbio->nbo", blocks, weight).reshape(num_targets, self.out_channels)
    else:
        out = torch.einsum("nri,rio->no", hidden, weight)
    if self.root is not None:
        out = out + (self.root[target] if is_embedding else target @ self.root)
    return out if self.bias is None else out + self.bias


@replaces_method(FiLMConv)
def film_conv(self, x, edge_index: Tensor, edge_type: Tensor = None) -> Tensor:
    """One aggregation over (target, relation) pairs stands for one over each relation's edges."""
    source, target = (x, x) if isinstance(x, Tensor) else x
    shift, scale = self.film_skip(target).split(self.out_channels, dim=-1)
    out = scale * self.lin_skip(target) + shift
    out = out if self.act is None else self.act(out)
    is_forward = self.flow == "source_to_target"
    sender, receiver = edge_index[0 if is_forward else 1], edge_index[1 if is_forward else 0]
    num_targets, num_relations = target.size(0), max(self.num_relations, 1)
    kind = torch.zeros_like(sender) if num_relations == 1 else edge_type
    values = torch.stack([linear(source) for linear in self.lins])[kind, sender]
    shift, scale = torch.stack([film(target) for film in self.films])[kind, receiver].split(
        self.out_channels, dim=-1
    )
    messages = scale * values + shift
    messages = messages if self.act is None else self.act(messages)
    pairs = receiver * num_relations + kind
    hidden = self.aggr_module(messages, pairs, dim_size=num_targets * num_relations, dim=0)
    return out + hidden.view(num_targets, num_relations, -1).sum(dim=1)


_rgat_across_relations = RGATConv.forward


@replaces_method(RGATConv)
def rgat_conv(self, x, edge_index, edge_type=None, edge_attr=None, size=None, return_attention_weights=None):
    """Attention within a relation is a softmax over (target, relation) pairs."""
    if self.attention_mechanism != "within-relation":
        return _rgat_across_relations(
            self, x, edge_index, edge_type, edge_attr, size, return_attention_weights
        )
    is_forward = self.flow == "source_to_target"
    sender, receiver = edge_index[0 if is_forward else 1], edge_index[1 if is_forward else 0]
    num_nodes = x.size(0) if size is None else size[1 if is_forward else 0]
    values, logits = _rgat_values_and_logits(self, x[receiver], x[sender], edge_type, edge_attr)
    pairs = receiver * self.num_relations + edge_type
    attention = softmax(logits, pairs, num_nodes=num_nodes * self.num_relations)
    messages = _rgat_modulated(self, values, attention, receiver, num_nodes)
    out = self.update(self.aggr_module(messages, receiver, dim_size=num_nodes, dim=self.node_dim))
    return (out, (edge_index, attention)) if isinstance(return_attention_weights, bool) else out


def _rgat_values_and_logits(self, x_i, x_j, edge_type, edge_attr):
    """`(values, logits)`: the projected sources [E, H * F] and the attention before softmax [E, H * D]."""
    if self.num_blocks is not None:
        weight = self.weight[edge_type]
        blocks = (-1, weight.size(1), weight.size(2))
        receivers = torch.einsum("ebi,ebio->ebo", x_i.view(blocks), weight).flatten(1)
        values = torch.einsum("ebi,ebio->ebo", x_j.view(blocks), weight).flatten(1)
    else:
        weight = self.weight if self.num_bases is None else torch.einsum("rb,bio->rio", self.att, self.basis)
        weight = weight[edge_type]
        receivers = torch.einsum("ei,eio->eo", x_i, weight)
        values = torch.einsum("ei,eio->eo", x_j, weight)
    query, key = receivers @ self.q, values @ self.k
    extra = None
    if edge_attr is not None:
        extra = self.lin_edge(edge_attr.view(edge_attr.size(0), -1)) @ self.e
    if self.attention_mode == "additive-self-attention":
        logits = query + key if extra is None else query + key + extra
        return values, torch.nn.functional.leaky_relu(logits, self.negative_slope)
    return values, query * key if extra is None else query * key * extra


def _rgat_modulated(self, values, attention, index, size_i):
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
            return (
                values * attention.view(shape) * factor.view(-1, *[1] * (values.dim() - 2), self.out_channels)
            )
        attention = attention * degrees
    elif self.mod == "f-additive":
        attention = torch.where(attention > 0, attention + 1, attention)
    else:
        attention = torch.nn.functional.dropout(attention, self.dropout, self.training)
    return values * attention.view(shape)
