"""What is changed in a graph before inductor compiles it: reductions over neighbours, and matrix products.

PyTorch adds messages to their targets one by one (`scatter_add`, and `index_put` in the backward pass of a
gather). Compiled, that is a loop of scalar additions, atomic ones with two threads. All shapes are static
here, and all layers share their edges. So every index is sorted once per mini-batch, for all layers and for
both passes, and a sum over neighbours becomes one call of the kernel behind
`torch.nn.functional.embedding_bag`, which reads the rows of each target one after the other:

    sum(weight[e] * x[source[e]] for e with target[e] == n)
      = embedding_bag(x, source[order], start, per_sample_weights=weight[order])[n]

The messages of a target are added in the order of the edges, as in eager PyTorch. The largest and the
smallest message go through PyTorch's own kernel for one index over whole rows, which inductor would not find.
"""

from __future__ import annotations

import operator
from typing import Any, Callable

import numpy
import torch
from torch.fx import Graph, Node

aten, prims = torch.ops.aten, torch.ops.prims

_VIEWS = {aten.view.default, aten._unsafe_view.default, aten.reshape.default, aten.alias.default}
_SHAPES_ONLY = _VIEWS | {aten.unsqueeze.default, aten.squeeze.dim, aten.squeeze.dims, aten.expand.default}


# Operations of our own: inductor calls them as they are.

_library = torch.library.Library("gnn_ipu_helpers", "DEF")
_own = torch.ops.gnn_ipu_helpers


def _operation(schema: str, shape: Callable) -> Callable:
    """Register a function as an operation on CPU tensors; `shape` gives empty results of the right shape."""
    name = schema[: schema.index("(")]
    _library.define(schema)
    torch.library.register_fake(f"gnn_ipu_helpers::{name}", shape, lib=_library)
    return torch.library.impl(_library, name, "CPU")


@_operation(
    "order(Tensor index, int size, bool wraps) -> (Tensor, Tensor)",
    lambda index, size, wraps: (index.new_empty(index.shape), index.new_empty(size + 1)),
)
def _order(index: torch.Tensor, size: int, wraps: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """The places of 0, 1, ... in the index `[E]`, and where those of each begin `[size + 1]`.

    With `wraps`, negative entries count from the end.
    """
    keys = index.numpy()
    least, most = keys.min(), keys.max()
    if most >= size or least < (-size if wraps else 0):
        raise IndexError(f"index out of range: {least} to {most} for {size} rows")
    if least < 0:
        keys = numpy.where(keys < 0, keys + size, keys)
    # NumPy sorts 16-bit keys by counting, ten times as fast as PyTorch sorts 64-bit ones by comparing.
    order = numpy.argsort(keys.astype(numpy.uint16), kind="stable")
    if size > 1 << 16:
        order = order[numpy.argsort((keys >> 16).astype(numpy.uint16)[order], kind="stable")]
    start = numpy.zeros(size + 1, dtype=numpy.int64)
    numpy.cumsum(numpy.bincount(keys, minlength=size), out=start[1:])
    return torch.from_numpy(order), torch.from_numpy(start)


@_operation(
    "reduce(Tensor messages, Tensor index, int size, str how) -> Tensor",
    lambda messages, index, size, how: messages.new_empty(size, messages.shape[1]),
)
def _reduce(messages: torch.Tensor, index: torch.Tensor, size: int, how: str) -> torch.Tensor:
    """The largest or smallest of the messages `[E, F]` to each row, 0 where there is none."""
    # PyTorch has a fast kernel for an index that is visibly the same for all columns.
    rows = index.view(-1, 1).expand_as(messages)
    zeros = messages.new_zeros(size, messages.shape[1])
    return zeros.scatter_reduce(0, rows, messages, how, include_self=False)


@_operation(
    "linear(Tensor x, Tensor weight, Tensor? bias) -> Tensor",
    lambda x, weight, bias: x.new_empty(x.shape[0], weight.shape[0]),
)
def _linear(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
    # Under a name of our own: inductor takes oneDNN's to have constant weights.
    return torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")


def rewrite(graph: Graph) -> None:
    """Rewrite a functional graph of ATen operations, forward and backward passes together, in place."""
    _share_equal_nodes(graph)
    _gather_by_rows(graph)
    _share_equal_nodes(graph)
    _reduce_by_rows(graph)
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
    sums = [(node, found) for node in graph.nodes if (found := _as_sum(node)) is not None]
    # A scatter refuses negative indices. Where there is none, `x[index]` counts them from the end.
    scattered = {(found[2], _value(node).shape[0]) for node, found in sums if not _counts_from_end(node)}
    for node, (start, messages, index) in sums:
        size = _value(node).shape[0]
        with graph.inserting_before(node):
            if (index, size) not in orders:
                wraps = (index, size) not in scattered
                orders[index, size] = _Order(graph, index, size, wraps)
            summed = _summed(graph, node, messages, orders[index, size])
            if not _is_full_of(start, 0):
                summed = _call(graph, aten.add.Tensor, start, summed)
            _replace(node, summed)


def _counts_from_end(node: Node) -> bool:
    return node.target is aten.index_put.default


def _as_sum(node: Node) -> tuple[Node, Node, Node] | None:
    """`(start [N, ...], messages [E, ...], index [E])` if the node adds messages to the rows of `start`."""
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
    return (start, messages, index) if index is not None and _suits(node, messages, index) else None


def _suits(node: Node, messages: Node, index: Node) -> bool:
    """Whether messages `[E, ...]` to the rows of the result by an index `[E]` are what our kernels take."""
    value, result = _value(messages), _value(node)
    return (
        value.dtype == torch.float32
        and value.device.type == "cpu"
        and _value(index).dtype == torch.int64
        and _value(index).dim() == 1
        and value.shape == (_value(index).shape[0], *result.shape[1:])
        and all(isinstance(length, int) for length in (*value.shape, *result.shape))
        and value.numel() > 0
        and result.numel() > 0
    )


def _reduce_by_rows(graph: Graph) -> None:
    """Take the largest and smallest messages row by row; inductor spells the index out for each value."""
    for node in graph.find_nodes(op="call_function", target=aten.scatter_reduce.two):
        start, dim, index, messages, how = node.args
        is_whole = dim in (0, -_value(node).dim()) and how in ("amax", "amin")
        rows = _row_index(index) if is_whole and node.kwargs.get("include_self") is False else None
        if rows is None or not _is_full_of(start, 0) or not _suits(node, messages, rows):
            continue
        shape = list(_value(node).shape)
        with graph.inserting_before(node):
            flat = _call(graph, aten.reshape.default, messages, [_value(messages).shape[0], -1])
            reduced = _call(graph, _own.reduce.default, flat, rows, shape[0], how)
            _replace(node, _call(graph, aten.reshape.default, reduced, shape))


def _is_full_of(node: Any, number: float) -> bool:
    return isinstance(node, Node) and node.target is aten.full.default and node.args[1] == number


class _Order:
    """The edges sorted by target: nodes for `order` `[E]`, and `start` `[size + 1]` of each target in it."""

    def __init__(self, graph: Graph, index: Node, size: int, wraps: bool) -> None:
        self._graph = graph
        self._picked: dict[Any, Node] = {}
        both = _call(graph, _own.order.default, index, size, wraps)
        self.order = _call(graph, operator.getitem, both, 0)
        self.start = _call(graph, operator.getitem, both, 1)

    def pick(self, values: Node) -> Node:
        """`values` `[E]`, one for each edge, in this order; once for all sums that need them."""
        if values not in self._picked:
            self._picked[values] = _call(self._graph, aten.index.Tensor, values, [self.order])
        return self._picked[values]

    def pick_rows(self, index: Node, size: int) -> Node:
        """An index `[E]` into so many rows in this order; negative entries count from the end."""
        if (index, size) not in self._picked:
            picked = self.pick(index)
            from_end = _call(self._graph, aten.add.Tensor, picked, size)
            is_negative = _call(self._graph, aten.lt.Scalar, picked, 0)
            self._picked[index, size] = _call(self._graph, aten.where.self, is_negative, from_end, picked)
        return self._picked[index, size]


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
        rows = order.pick_rows(index, _value(source).shape[0])
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
_WIDE = 256  # gradients of weights with more inputs than this are oneDNN's


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
        inner = _value(left).shape[1]
        is_narrow, is_long = 1 < columns < _NARROW, columns > 1 and inner >= _LONG
        is_gradient = left.target is aten.permute.default  # of a weight: a sum over all rows of the batch
        has_plain_bias = bias is None or _value(bias).shape == (columns,)
        suits_onednn = has_onednn and rows >= _MANY_ROWS and has_plain_bias
        with graph.inserting_before(node):
            if (
                is_gradient
                and bias is None
                and has_onednn
                and inner >= _MANY_ROWS
                and max(rows, columns) >= _WIDE
            ):
                _replace(node, _wide_gradient(graph, left, right, rows > columns))
            elif is_gradient and bias is None and is_narrow and columns < rows:
                swapped = _call(graph, aten.mm.default, _swap(graph, right), _swap(graph, left))
                _replace(node, _swap(graph, swapped))
            elif not is_gradient and suits_onednn and (is_narrow or is_long):
                _replace(node, _call(graph, _own.linear.default, left, _swap(graph, right), bias))
            elif bias is not None and has_plain_bias and _is_pointwise_next(node):
                # What comes next adds the bias on the way. As a difference: inductor would put a sum back
                # into the product, which then copies the bias into every row first.
                product = _call(graph, aten.mm.default, left, right)
                _replace(node, _call(graph, aten.sub.Tensor, product, _call(graph, aten.neg.default, bias)))


def _wide_gradient(graph: Graph, left: Node, right: Node, is_tall: bool) -> Node:
    """The product with the longer side of its result as columns, which is how oneDNN is fast at it."""
    if is_tall:
        swapped = _call(graph, _own.linear.default, _swap(graph, right), left, None)
        return _swap(graph, swapped)
    return _call(graph, _own.linear.default, left, _swap(graph, right), None)


def _is_pointwise_next(node: Node) -> bool:
    """Whether all that reads the node is computed value by value, so that a bias is added on the way."""
    readers = set(node.users)
    while any(reader.target in _SHAPES_ONLY for reader in readers):
        shapes = {reader for reader in readers if reader.target in _SHAPES_ONLY}
        readers = (readers - shapes) | {user for reader in shapes for user in reader.users}
    return all(torch.Tag.pointwise in getattr(reader.target, "tags", ()) for reader in readers)


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
