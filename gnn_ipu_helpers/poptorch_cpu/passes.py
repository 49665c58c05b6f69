"""What is changed in a graph before inductor compiles it: sums over neighbours, and matrix products.

PyTorch adds messages to their targets one by one (`scatter_add`, and `index_put` in the backward pass of a
gather). Compiled, that is a loop of scalar additions, atomic ones with two threads. All shapes are static
here, and all layers share their edges. So every index is sorted once per mini-batch, for all layers and for
both passes, and a sum over neighbours becomes one call of the kernel behind
`torch.nn.functional.embedding_bag`, which reads the rows of each target one after the other:

    sum(weight[e] * x[source[e]] for e with target[e] == n)
      = embedding_bag(x, source[order], start, per_sample_weights=weight[order])[n]

The messages of a target are added in the order of the edges, as in eager PyTorch.
"""

from __future__ import annotations

import operator
from typing import Any, Callable

import torch
from torch.fx import Graph, Node

aten, prims = torch.ops.aten, torch.ops.prims

_VIEWS = {aten.view.default, aten._unsafe_view.default, aten.reshape.default, aten.alias.default}
_SHAPES_ONLY = _VIEWS | {aten.unsqueeze.default, aten.squeeze.dim, aten.squeeze.dims, aten.expand.default}


def rewrite(graph: Graph) -> None:
    """Rewrite a functional graph of ATen operations, forward and backward passes together, in place."""
    _share_equal_nodes(graph)
    _gather_by_rows(graph)
    _share_equal_nodes(graph)
    _sum_in_order(graph)
    _choose_products(graph)
    graph.eliminate_dead_code()


def _share_equal_nodes(graph: Graph) -> None:
    """Compute once what several nodes compute: degrees of all layers, and the rows of `edge_index`."""
    seen: dict[Any, Node] = {}
    returned = {node for node in graph.output_node().all_input_nodes}
    for node in list(graph.nodes):
        if node.op != "call_function" or node in returned or not _is_pure(node.target):
            continue
        try:
            key = (node.target, _hashable(node.args), _hashable(node.kwargs))
            first = seen.setdefault(key, node)
        except TypeError:  # an argument that is neither a node nor hashable
            continue
        if first is not node:
            node.replace_all_uses_with(first)
            graph.erase_node(node)


def _is_pure(target: Any) -> bool:
    """Whether equal arguments give an equal result, and nothing is written to."""
    if target is operator.getitem:
        return True
    if not isinstance(target, torch._ops.OpOverload):
        return False
    return not target._schema.is_mutable and torch.Tag.nondeterministic_seeded not in target.tags


def _hashable(value: Any) -> Any:
    """`value` with its type in a form that can be a key: 1, 1.0 and True are different constants."""
    if isinstance(value, (list, tuple)):
        return tuple(map(_hashable, value))
    if isinstance(value, dict):
        return tuple((key, _hashable(item)) for key, item in value.items())
    return value if isinstance(value, Node) else (type(value), repr(value))


def _gather_by_rows(graph: Graph) -> None:
    """Read whole rows where `gather` has one index for all columns, as in the backward pass of `scatter`."""
    for node in graph.find_nodes(op="call_function", target=aten.gather.default):
        source, dim, index = node.args[:3]
        rows = _row_index(index) if dim in (0, -_value(node).dim()) else None
        if rows not in (None, index) and _value(source).shape[1:] == _value(node).shape[1:]:
            with graph.inserting_before(node):
                _replace(node, _call(graph, aten.index.Tensor, source, [rows]))


def _row_index(index: Node) -> Node | None:
    """The index `[E]` of which `index`, `[E, ...]`, repeats each entry over a row; None if it is not so."""
    length = _value(index).shape[0] if _value(index).dim() else 0
    while index.op == "call_function" and index.target in _SHAPES_ONLY:
        before, after = _value(index.args[0]), _value(index)
        # An expansion may add columns, not rows. Other steps keep all elements, one for each row.
        if before.numel() != after.numel():
            if before.dim() != after.dim() or before.shape[0] != length:
                return None
        elif after.numel() != length and before.shape != after.shape:
            return None
        index = index.args[0]
    return index if _value(index).dim() == 1 and _value(index).shape[0] == length else None


def _sum_in_order(graph: Graph) -> None:
    """Sum messages in the order of their targets; the first sum with an index makes the order for all."""
    orders: dict[tuple[Node, int], _Order] = {}
    for node in list(graph.nodes):
        found = _as_sum(node)
        if found is not None:
            messages, index, size = found
            with graph.inserting_before(node):
                if (index, size) not in orders:
                    orders[index, size] = _Order(graph, index, size)
                _replace(node, _summed(graph, node, messages, orders[index, size]))


def _as_sum(node: Node) -> tuple[Node, Node, int] | None:
    """`(messages [E, ...], index [E], rows of the result)` if the node adds messages to rows of zeros."""
    if node.op != "call_function":
        return None
    if node.target is aten.scatter_add.default:
        start, dim, index, messages = node.args
        index = _row_index(index) if dim in (0, -_value(node).dim()) else None
    elif node.target is aten.index_put.default and len(node.args) == 4 and node.args[3] is True:
        start, indices, messages = node.args[:3]
        index = indices[0] if len(indices) == 1 else None
    else:
        return None
    if index is None or not _is_full_of(start, 0):
        return None
    value, result = _value(messages), _value(node)
    fits = (
        value.dtype == torch.float32
        and value.device.type == "cpu"
        and _value(index).dtype == torch.int64
        and _value(index).dim() == 1
        and value.shape == (_value(index).shape[0], *result.shape[1:])
        and all(isinstance(length, int) for length in (*value.shape, *result.shape))
        and value.numel() > 0
        and result.numel() > 0
    )
    return (messages, index, result.shape[0]) if fits else None


def _is_full_of(node: Any, number: float) -> bool:
    return isinstance(node, Node) and node.target is aten.full.default and node.args[1] == number


class _Order:
    """The edges sorted by target: nodes for `order` `[E]`, and `start` `[size + 1]` of each target in it."""

    def __init__(self, graph: Graph, index: Node, size: int) -> None:
        self._graph, self._picked = graph, {}
        # Looking the index up in 0 ... size - 1 leaves it as it is, and raises where it is out of range.
        counting = {"start": 0, "step": 1, "dtype": torch.int64, "device": torch.device("cpu")}
        rows = _call(graph, prims.iota.default, size, **counting, requires_grad=False)
        both = _call(graph, aten.sort.stable, _call(graph, aten.gather.default, rows, 0, index), stable=True)
        in_order = _call(graph, operator.getitem, both, 0)
        self.order = _call(graph, operator.getitem, both, 1)
        self.start = _call(graph, aten._convert_indices_from_coo_to_csr.default, in_order, size)

    def pick(self, values: Node) -> Node:
        """`values` `[E]`, one for each edge, in this order; once for all sums that need them."""
        if values not in self._picked:
            self._picked[values] = _call(self._graph, aten.index.Tensor, values, [self.order])
        return self._picked[values]


def _summed(graph: Graph, node: Node, messages: Node, order: _Order) -> Node:
    """The sum of the messages of each row; messages that are only gathered are not made at all."""
    shape = list(_value(node).shape)
    if _is_full_of(messages, 1):
        degree = _call(
            graph,
            aten.sub.Tensor,
            _call(graph, aten.slice.Tensor, order.start, 0, 1, shape[0] + 1),
            _call(graph, aten.slice.Tensor, order.start, 0, 0, shape[0]),
        )
        degree = _call(graph, prims.convert_element_type.default, degree, torch.float32)
        degree = _call(graph, aten.view.default, degree, [shape[0]] + [1] * (len(shape) - 1))
        return _call(graph, aten.expand.default, degree, shape) if len(shape) > 1 else degree
    rows, weight, source = order.order, None, messages
    gathered = _as_gathered(messages)
    if gathered is not None:
        source, index, weight = gathered
        rows = order.pick(index)
        if weight is not None:
            weight = order.pick(weight)
    flat = _call(graph, aten.reshape.default, source, [_value(source).shape[0], -1])
    bags = _call(
        graph,
        aten._embedding_bag_forward_only.default,
        flat,
        rows,
        order.start,
        False,
        0,
        False,
        weight,
        True,
    )
    return _call(graph, aten.reshape.default, _call(graph, operator.getitem, bags, 0), shape)


def _as_gathered(messages: Node) -> tuple[Node, Node, Node | None] | None:
    """`(x, index, weight)` if the messages are `x[index]`, or that times a weight for each edge `[E]`."""
    if _is_gather(messages):
        return (messages.args[0], messages.args[1][0], None)
    if messages.target is not aten.mul.Tensor:
        return None
    for gather, weight in (messages.args[:2], messages.args[1::-1]):
        if isinstance(gather, Node) and isinstance(weight, Node) and _is_gather(gather):
            shape = _value(gather).shape
            if _value(messages).shape != shape or _value(weight).dtype != torch.float32:
                continue
            inner = (
                _row_index(weight) if _value(weight).shape == (shape[0], *[1] * (len(shape) - 1)) else None
            )
            if inner is not None:
                return (gather.args[0], gather.args[1][0], inner)
    return None


def _is_gather(node: Any) -> bool:
    """Whether the node is `x[index]` with one index `[E]` over the rows of `x`, of float32."""
    if not isinstance(node, Node) or node.target is not aten.index.Tensor or len(node.args[1]) != 1:
        return False
    index = node.args[1][0]
    return (
        isinstance(index, Node)
        and _value(index).dim() == 1
        and _value(index).dtype == torch.int64
        and _value(node.args[0]).dtype == torch.float32
        and _value(node.args[0]).numel() > 0
    )


# Matrix products: which of two kernels is faster depends on the shape, by factors of up to seven.
# Measured with torch 2.13 (MKL 2024.2, oneDNN 3.12), 2,304 to 4,864 rows and 4 to 1,433 columns.

_NARROW = 50  # MKL is slow at results with fewer columns than this and more rows
_LONG = 100  # oneDNN is faster at sums of more products than this
_MANY_ROWS = 512  # below, a call of oneDNN takes longer to set up than to run

_library = torch.library.Library("gnn_ipu_helpers", "DEF")
_library.define("linear(Tensor x, Tensor weight, Tensor? bias) -> Tensor")


@torch.library.impl(_library, "linear", "CPU")
def _linear(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
    # Under a name of our own: inductor takes oneDNN's to have constant weights.
    return torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")


@torch.library.register_fake("gnn_ipu_helpers::linear", lib=_library)
def _linear_shape(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
    return x.new_empty(x.shape[0], weight.shape[0])


def _choose_products(graph: Graph) -> None:
    """Give long and narrow products to oneDNN, and have narrow gradients of weights computed transposed."""
    has_onednn = torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")
    for node in list(graph.nodes):
        if node.target is aten.mm.default:
            bias, (left, right) = None, node.args
        elif node.target is aten.addmm.default and not node.kwargs:
            bias, left, right = node.args
        else:
            continue
        value = _value(node)
        if value.dtype != torch.float32 or value.device.type != "cpu" or value.numel() == 0:
            continue
        rows, columns = value.shape
        is_narrow, is_long = 1 < columns < _NARROW, columns > 1 and _value(left).shape[1] >= _LONG
        is_gradient = left.target is aten.permute.default  # of a weight: a sum over all rows of the batch
        has_plain_bias = bias is None or _value(bias).shape == (columns,)
        suits_onednn = has_onednn and rows >= _MANY_ROWS and has_plain_bias
        with graph.inserting_before(node):
            if is_gradient and bias is None and is_narrow and columns < rows:
                swapped = _call(graph, aten.mm.default, _swap(graph, right), _swap(graph, left))
                _replace(node, _swap(graph, swapped))
            elif not is_gradient and suits_onednn and (is_narrow or is_long):
                linear = torch.ops.gnn_ipu_helpers.linear.default
                _replace(node, _call(graph, linear, left, _swap(graph, right), bias))


def _swap(graph: Graph, matrix: Node) -> Node:
    """The matrix with rows and columns exchanged, undoing the exchange if it is one."""
    if matrix.target is aten.permute.default and list(matrix.args[1]) == [1, 0]:
        return matrix.args[0]
    return _call(graph, aten.permute.default, matrix, [1, 0])


# Nodes


def _value(node: Node) -> torch.Tensor:
    return node.meta["val"]


def _replace(node: Node, new: Node) -> None:
    node.replace_all_uses_with(new)
    node.graph.erase_node(node)


def _call(graph: Graph, target: Callable, *args: Any, **kwargs: Any) -> Node:
    """A node for the call, with the shape of its result."""
    node = graph.call_function(target, args, kwargs)
    values = torch.fx.map_arg((args, kwargs), _value)
    with next(filter(None, (getattr(other.meta.get("val"), "fake_mode", None) for other in graph.nodes))):
        node.meta["val"] = target(*values[0], **values[1])
    return node
