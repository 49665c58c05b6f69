"""Running the traced graph on the example values: does it fit the device, do all indices fit, and does
padding reach what is real?

Whether padding leaks is found by experiment, not by rules for layers: the graph runs twice, with other values
in the padding rows the second time. Where the loss, a real row of an output or a gradient moves, a third run
follows the change through the graph to the first lines where real rows come to depend on padding.

Which rows are padding, the loaders' masks say in a data object: `nodes_mask`, `edges_mask`, `graphs_mask`.
Where the tensors of a batch are passed one by one, their contents say it, whatever they are called: a mask
that is True up to some row and that no edge crosses, a vector `batch` whose last graphs are padding, or an
edge list that ends in the same self-loop repeated.
"""

from __future__ import annotations

import contextlib
import contextvars
import dataclasses
import re
import weakref
from typing import Any, Callable, Iterable, Iterator, Sequence

import torch
from torch import Tensor
from torch.fx import Graph, GraphModule, Node

from .checking import Leaf
from .findings import OUT_OF_MEMORY, Finding, forward_place, parse_stack
from .internals import example_value
from .origins import Layer, Origin, ancestors, origin, random_state_kept
from .remedies import Hint, distinct, finding_at, missing_neighbours, out_of_range, padding_hint

# Which rows are padding.


NODES, EDGES, GRAPHS = "nodes", "edges", "graphs"


@dataclasses.dataclass
class Rows:
    """Rows of one `kind` (of one node or edge type): `real` [number of rows] is True where a row is real."""

    kind: str
    real: Tensor


@dataclasses.dataclass
class Padding:
    """What is known of the padding in some inputs: the `rows` of each kind, and for each leaf, by its number,
    the rows that it has (`attributes`) or, for a mask, that it tells of (`masks`); the nodes and graphs of a
    vector `batch`, and the rows of an edge list."""

    rows: list[Rows] = dataclasses.field(default_factory=list)
    attributes: dict[int, Rows] = dataclasses.field(default_factory=dict)
    masks: dict[int, Rows] = dataclasses.field(default_factory=dict)
    batches: dict[int, tuple[Rows, Rows]] = dataclasses.field(default_factory=dict)
    edges: dict[int, Rows] = dataclasses.field(default_factory=dict)


def find_padding(leaves: Sequence[Leaf]) -> Padding | None:
    """The padding in these inputs, or None where there is none to be seen."""
    stores: dict[int, dict[int, Leaf]] = {}
    for number, leaf in enumerate(leaves):
        if isinstance(leaf.value, Tensor):
            stores.setdefault(0 if leaf.store is None else id(leaf.store), {})[number] = leaf
    padding = Padding()
    for key, group in stores.items():
        told = (_by_key if key else _by_content)(padding, group)
        known = {kind: told[kind] for kind in (NODES, EDGES, GRAPHS) if kind in told}
        padding.rows += known.values()
        for number, leaf in group.items():
            if not _names_rows(leaf) and number not in {**padding.masks, **padding.batches}:
                is_of_edge = leaf.key.startswith("edge") and EDGES in known
                possible = [known[EDGES]] if is_of_edge else known.values()
                found = [rows for rows in possible if leaf.value.shape[:1] == rows.real.shape]
                if found and _agree(found):  # otherwise rows of two kinds are equal in number
                    is_mask = leaf.value.dtype == torch.bool and torch.equal(leaf.value, found[0].real)
                    (padding.masks if is_mask else padding.attributes)[number] = found[0]
    return padding if any(not bool(rows.real.all()) for rows in padding.rows) else None


def _agree(found: Sequence[Rows]) -> bool:
    return all(torch.equal(rows.real, found[0].real) for rows in found)


def _names_rows(leaf: Leaf) -> bool:
    """Whether an attribute holds numbers of nodes, edges or graphs, by PyG's own rule for its name."""
    if leaf.store is None:
        return _is_edge_list(leaf.value)
    key = leaf.key
    return "index" in key or "batch" in key or "ptr" in key or key in ("n_id", "e_id", "input_id", "face")


def _by_key(padding: Padding, group: dict[int, Leaf]) -> dict[str, Rows]:
    """The rows that the loaders' masks in a store tell of."""
    known: dict[str, Rows] = {}
    for number, leaf in group.items():
        kind = leaf.key.removesuffix("_mask")
        if leaf.key.endswith("_mask") and kind in (NODES, EDGES, GRAPHS) and leaf.value.dtype == torch.bool:
            known[kind] = padding.masks[number] = Rows(kind, leaf.value.clone())
    for number, leaf in group.items():
        if leaf.key == "batch" and NODES in known and GRAPHS in known:
            padding.batches[number] = known[NODES], known[GRAPHS]
        elif leaf.key == "edge_index" and EDGES in known:
            padding.edges[number] = known[EDGES]
    return known


def _by_content(padding: Padding, group: dict[int, Leaf]) -> dict[str, Rows]:
    """The rows that tensors which were passed one by one tell of."""
    tensors = {number: leaf.value for number, leaf in group.items()}
    edge_lists = {n: t for n, t in tensors.items() if _is_edge_list(t)}
    masks = {n: t for n, t in tensors.items() if t.dtype == torch.bool and t.dim() == 1 and _is_prefix(t)}
    batches = {n: t for n, t in tensors.items() if _is_batch(t)}
    known: dict[str, Rows] = {}
    for number, mask in masks.items():  # a mask of nodes, which no edge crosses
        if any(_separates(mask, edge_list) for edge_list in edge_lists.values()):
            known[NODES] = padding.masks[number] = Rows(NODES, mask.clone())
    for batch in batches.values():  # a mask of graphs
        for number, mask in masks.items():
            if number in padding.masks or not int(batch.max()) < len(mask) != len(batch):
                continue
            of_nodes = mask[batch]
            if all(_separates(of_nodes, e) for e in edge_lists.values()) and not bool(of_nodes.all()):
                known[GRAPHS] = padding.masks[number] = Rows(GRAPHS, mask.clone())
                known.setdefault(NODES, Rows(NODES, of_nodes))
    for edge_list in edge_lists.values() if NODES not in known else ():
        nodes = _from_last_loops(edge_list, tensors.values())
        if nodes is not None:
            known.setdefault(NODES, nodes)
    if NODES not in known:
        return {}
    real = known[NODES].real
    for number, batch in batches.items():
        if len(batch) == len(real):
            first = torch.arange(int(batch.max()) + 1) <= int(batch[real].max())
            graphs = known.setdefault(GRAPHS, Rows(GRAPHS, first))
            padding.batches[number] = known[NODES], graphs
    for number, edge_list in edge_lists.items():
        if _separates(real, edge_list):
            known[EDGES] = padding.edges[number] = Rows(EDGES, real[edge_list[0]])
    return known


def _is_edge_list(tensor: Tensor) -> bool:
    is_index = not tensor.is_floating_point() and tensor.dtype != torch.bool
    return is_index and tensor.dim() == 2 and tensor.size(0) == 2 and tensor.size(1) > 1


def _is_prefix(mask: Tensor) -> bool:
    count = int(mask.sum())
    return 0 < count < len(mask) and bool(mask[:count].all())


def _is_batch(tensor: Tensor) -> bool:
    if tensor.dtype != torch.long or tensor.dim() != 1 or len(tensor) < 2:
        return False
    return int(tensor[0]) == 0 and bool((tensor.diff() >= 0).all()) and int(tensor[-1]) > 0


def _separates(mask: Tensor, edge_list: Tensor) -> bool:
    """Whether no edge joins a real node to one of padding, and some edge joins two of padding."""
    if int(edge_list.max()) >= len(mask) or int(edge_list.min()) < 0:
        return False
    source, target = mask[edge_list[0]], mask[edge_list[1]]
    return torch.equal(source, target) and not bool(source.all())


def _from_last_loops(edge_list: Tensor, tensors: Iterable[Tensor]) -> Rows | None:
    """The rows of nodes that an edge list tells of which ends in the same self-loop, repeated."""
    last = int(edge_list[0, -1])
    sizes = [len(t) for t in tensors if t.is_floating_point() and t.dim() > 1 and len(t) > last]
    if last == 0 or not sizes or not bool((edge_list[:, -2:] == last).all()):
        return None
    real = torch.arange(sizes[0]) < last
    return Rows(NODES, real) if _separates(real, edge_list) else None


def with_one_graph_less(padding: Padding, values: list[Tensor]) -> list[Tensor]:
    """The inputs with their last real graph turned into padding, as a loader might have given them as well.

    A loss over `out[:-1]` is right as long as there is one padding graph; it must be right for two.
    """
    for number, (nodes, graphs) in padding.batches.items():
        count = int(graphs.real.sum())
        if count < 2 or not bool((~nodes.real).any()):
            continue
        leaving = (values[number] == count - 1) & nodes.real
        changed = {id(nodes): leaving, id(graphs): torch.arange(len(graphs.real)) == count - 1}
        lists = [(values[place], rows) for place, rows in padding.edges.items()]
        lists = [(edges, rows) for edges, rows in lists if int(edges.max()) < len(leaving)]
        if any(not torch.equal(leaving[edges[0]], leaving[edges[1]]) for edges, _ in lists):
            continue  # its edges lead into other graphs
        for edges, rows in lists:
            changed[id(rows)] = leaving[edges[0]] & rows.real
        for rows in padding.rows:
            if id(rows) in changed:
                rows.real &= ~changed[id(rows)]
        for place, rows in padding.attributes.items():
            if id(rows) in changed and bool((~rows.real).any()):
                value = values[place] = values[place].clone()
                value[changed[id(rows)]] = value[-1].clone()
        for place, rows in padding.masks.items():
            values[place] = rows.real.clone()
    return values


def with_other_padding(padding: Padding, values: list[Tensor]) -> list[Tensor]:
    """The inputs with other values in the padding rows of their attributes: others that could stand there."""
    generator = torch.Generator().manual_seed(0)
    changed = list(values)
    for number, rows in padding.attributes.items():
        value, is_padding = values[number], ~rows.real
        real = value[rows.real]
        if not bool(is_padding.any()):
            continue
        if value.is_floating_point():
            scale = (real.float().std() if real.numel() > 1 else torch.ones(())).nan_to_num(1.0) + 0.5
            other = torch.randn(value.shape, generator=generator) * scale + value.float().nan_to_num(0.0)
            other = other.abs() if real.numel() and bool((real >= 0).all()) else other
            other = other.to(value.dtype)
        elif value.dtype == torch.bool:
            if not bool(value[is_padding].any()):
                continue  # a mask, which says of all padding that it does not count
            other = ~value
        elif bool((value[is_padding] < 0).all()) or not len(real):
            continue  # marked as no class at all
        else:
            low, high = real.amin(dim=0), real.amax(dim=0)
            other = torch.where(value == high, low, high)
        shape = (-1,) + (1,) * (value.dim() - 1)
        changed[number] = torch.where(is_padding.view(shape), other, value)
    return changed


# What is found without running the graph, and by running it once.


def graph_warnings(
    graph: Graph, inputs: Sequence[Any], function: Callable, loss: Node | None
) -> list[Finding]:
    """What a graph does that is probably not meant, to be seen without running it: dropout in a model set to
    `eval()`, and parameters that the loss does not depend on."""
    if not isinstance(function, torch.nn.Module):
        return []
    found = []
    for node in graph.nodes if not function.training else ():
        if node.target in (torch.nn.functional.dropout, torch.dropout):
            given = {**dict(zip(("input", "p", "training"), node.args)), **node.kwargs}
            if given.get("train", given.get("training", True)) and given.get("p", 0.5) != 0:
                hint = Hint(
                    "the model is in evaluation mode, and dropout is on: predictions are random",
                    "pass training=self.training to F.dropout, or use torch.nn.Dropout",
                )
                found.append(finding_at(origin(node), hint, "dropout in evaluation"))
    idle = [] if loss is None else _idle_parameters(graph, inputs, function, loss)
    if idle:
        total = sum(1 for parameter in function.parameters() if parameter.requires_grad)
        few = ", ".join(idle[:4]) + (", …" if len(idle) > 4 else "")
        reason = f"the loss does not depend on {len(idle)} of {total} parameters, which never move: {few}"
        remedy = "use them in forward, or take them out of the model; freeze those that are meant to stay"
        found.append(Finding.at(forward_place(function), "idle parameters", reason, remedy))
    return found


def _idle_parameters(graph: Graph, inputs: Sequence[Any], function: torch.nn.Module, loss: Node) -> list[str]:
    reached = ancestors(loss, lambda node: node.target != "detach")
    placeholders = [node for node in graph.nodes if node.op == "placeholder"]
    used = {id(value) for node, value in zip(placeholders, inputs) if node in reached}
    # In a heterogeneous model the last layers of other types than the loss is of are idle, as they must be.
    by_type = tuple(
        f"{name}."
        for name, parent in function.named_modules()
        if isinstance(parent, torch.nn.ModuleDict) and any(id(p) in used for p in parent.parameters())
    )
    return [
        name
        for name, parameter in function.named_parameters()
        if parameter.requires_grad and id(parameter) not in used and not name.startswith(by_type)
    ]


class _Failed(Exception):
    """A node of the graph could not run: `node`, and the error that it raised."""

    def __init__(self, node: Node, error: Exception):
        super().__init__(node, error)
        self.node, self.error = node, error


class _Run(torch.fx.Interpreter):
    """Runs a traced graph node by node on copies of its inputs, and keeps every value."""

    def __init__(self, graph_module: GraphModule, inputs: Sequence[Any], with_gradients: bool = False):
        super().__init__(graph_module)
        self.args_iter = iter(inputs)
        self.env = {}
        self._with_gradients = with_gradients

    def placeholder(self, target: Any, args: Any, kwargs: Any) -> Any:
        value = super().placeholder(target, args, kwargs)
        if not isinstance(value, Tensor):
            return value
        return value.detach().clone().requires_grad_(value.requires_grad and self._with_gradients)

    def run_node(self, n: Node) -> Any:
        try:
            self.env[n] = super().run_node(n)
        except Exception as error:
            raise _Failed(n, error) from error
        return self.env[n]


_OUT_OF_RANGE = re.compile(r"out of (bounds|range)|smaller than num_classes")


def value_findings(
    graph_module: GraphModule,
    inputs: Sequence[Any],
    layers: dict[int, Layer] | None = None,
    leaves: Sequence[Leaf] = (),
) -> list[Finding]:
    """What does not fit in a graph on these inputs: an index beyond the size that it indexes, or, unless the
    inputs are padded, neighbours that are missing.

    Args:
        graph_module: A static graph as the tracer gave it.
        inputs: The values of its inputs, in order. They are left as they are.
        layers: The modules of the model (`origins.layers_of`), to name them.
        leaves: The arguments of the model (`checking.named_leaves`), to see padding.
    """
    run = _Run(graph_module, inputs)
    nodes = list(graph_module.graph.nodes)
    indexing, needed = _taking_part_in_indices(nodes)
    with random_state_kept(), torch.no_grad():
        for node in nodes:
            is_open = node in indexing and not _fits(node, run.env)
            if not is_open and node not in needed and node.op != "get_attr":
                if node.op == "placeholder":
                    next(run.args_iter)
                run.env[node] = _of_shape(node)
                continue
            try:
                value = run.run_node(node)
            except _Failed as failed:
                message = str(failed.error)
                if isinstance(failed.error, (IndexError, RuntimeError)) and _OUT_OF_RANGE.search(message):
                    args, kwargs = run.fetch_args_kwargs_from_env(node)
                    return [out_of_range(origin(node, layers), args, kwargs, message)]
                run.env[node] = _of_shape(node)  # an experiment; what is really wrong the compiler says
                continue
            if _is_search(node) and not bool(value.all()) and find_padding(leaves) is None:
                return [missing_neighbours(origin(node, layers))]
    return []


# Of their inputs after so many, these take no more than the shape.
_SHAPE_ONLY = {"expand_as": 1, "view_as": 1, "zeros_like": 0, "ones_like": 0}
_SHAPE_ONLY.update(new_zeros=0, new_ones=0, new_full=0, new_empty=0)


def _is_index(value: Any) -> bool:
    return isinstance(value, Tensor) and not value.is_floating_point() and value.dtype != torch.bool


def _taking_part_in_indices(nodes: list[Node]) -> tuple[set[Node], set[Node]]:
    """The nodes that take integers, with which they may index, and those that the integers are computed from.
    Of all others, the products of a large model among them, a shape is enough."""
    if any(_writes(node) and _is_index(example_value(node.all_input_nodes[0])) for node in nodes):
        return set(), set(nodes)  # in place, perhaps through a view
    indices = {n: [i for i in n.all_input_nodes if _is_index(example_value(i))] for n in nodes}
    waiting = [*filter(_is_search, nodes), *(index for found in indices.values() for index in found)]
    needed: set[Node] = set()
    while waiting:
        node = waiting.pop()
        if node not in needed:
            needed.add(node)
            waiting += node.all_input_nodes[: _SHAPE_ONLY.get(_name(node))]
    return {node for node, found in indices.items() if found} - needed, needed


def _fits(node: Node, env: dict[Node, Any]) -> bool:
    """Whether it is plain, without running a large operation, that its index fits."""
    values: list[Any] = [env.get(item) if isinstance(item, Node) else item for item in node.args]
    is_plain = re.fullmatch(
        r"(index_select|gather|index_add|scatter|scatter_add|scatter_reduce)_?", _name(node)
    )
    if not is_plain or len(values) < 3 or not isinstance(values[1], int) or not _is_index(values[2]):
        return False
    index = values[2][tuple(slice(0, 1) if step == 0 else slice(None) for step in values[2].stride())]
    return not index.numel() or (int(index.min()) >= 0 and int(index.max()) < values[0].size(values[1]))


def _writes(node: Node) -> bool:
    """Whether a node changes its first input in place."""
    return bool(node.args and (re.search(r"[^_]_$", _name(node)) or _name(node) == "setitem"))


def _of_shape(node: Node) -> Any:
    """Zeros of the shape of a node's result, without memory of their own unless they are written to."""
    is_written = any(map(_writes, node.users))
    return torch.utils._pytree.tree_map_only(
        Tensor,
        lambda v: torch.zeros(v.shape if is_written else (), dtype=v.dtype).expand(v.shape),
        example_value(node),
    )


def _is_search(node: Node) -> bool:
    """Whether a node says which neighbours were found."""
    is_test = node.target is torch.isfinite
    return is_test and parse_stack(node.meta.get("stack_trace"))[-1].function == "_closest"


def _name(node: Node) -> str:
    return node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "")


# What is found by running it twice.


def padding_warnings(
    graph_module: GraphModule,
    inputs: Sequence[Any],
    layers: dict[int, Layer],
    leaves: Sequence[Leaf],
    loss: Node | None = None,
) -> list[Finding]:
    """Where padding reaches what is computed for real rows, and where it spoils gradients."""
    padding = find_padding(leaves)
    if padding is None:
        return []
    with random_state_kept():
        try:
            return list(_Experiment(graph_module, inputs, layers, leaves, loss, padding).warnings())
        except Exception as error:
            return [_not_tried(error, padding)]


def _not_tried(error: Exception, padding: Padding) -> Finding:
    """The warning for an experiment that cannot be made, so that silence always means that it was."""
    place = Origin("", [])
    if isinstance(error, _Failed):
        place, error = origin(error.node), error.error
    kinds = " and ".join(dict.fromkeys(rows.kind for rows in padding.rows if not bool(rows.real.all())))
    what = (str(error).strip() or "no message").splitlines()[0]
    hint = Hint(
        f"whether padding reaches real rows was tried by running the graph with other values in the padding "
        f"rows of {kinds}, and that run failed with {type(error).__name__}: {what}",
        "compare by yourself, gnn_ipu_helpers.porting.compare_padded(model, batch); if this line refuses "
        "values that the real rows hold too, make it take any such value in padding rows",
    )
    return finding_at(place, hint, "padding not tried")


_ROOTS = ("sqrt", "norm", "rsqrt", "cdist", "pairwise_distance", "pow", "vector_norm")


class _Experiment:
    def __init__(
        self,
        graph_module: GraphModule,
        inputs: Sequence[Any],
        layers: dict[int, Layer],
        leaves: Sequence[Leaf],
        loss: Node | None,
        padding: Padding,
    ):
        self.graph_module, self.layers, self.loss = graph_module, layers, loss
        self.nodes = list(graph_module.graph.nodes)
        tensors = [leaf.value for leaf in leaves]
        place_of = {id(tensor): number for number, tensor in enumerate(tensors)}
        first = with_one_graph_less(padding, list(tensors))
        self.inputs = [
            [values[place_of[id(value)]] if id(value) in place_of else value for value in inputs]
            for values in (first, with_other_padding(padding, first))
        ]
        self.rows = padding.rows
        (output,) = [node for node in self.nodes if node.op == "output"]
        self.outputs = list(dict.fromkeys(output.all_input_nodes))

    def warnings(self) -> Iterator[Finding]:
        is_training = self.loss is not None
        gradients: list[list[Tensor | None]] = []
        with torch.set_grad_enabled(is_training):
            runs = [_Run(self.graph_module, values, is_training) for values in self.inputs]
            for node in self.nodes:
                _alike(runs, node)
            if self.loss is not None:
                gradients = [_gradients(run.env, self.loss) for run in runs]
        is_finite = all(g is None or bool(torch.isfinite(g).all()) for g in (gradients or [[]])[0])
        if not is_finite:
            yield self._no_gradient(runs[0].env)
        what = self._what_moves(runs[0].env, runs[1].env, gradients if is_finite else [])
        if what is not None:
            leaks = self._leaks() or [self.loss or self.outputs[-1]]
            yield from distinct(self._leak(node, what) for node in leaks)

    def _leak(self, node: Node, what: str) -> Finding:
        place = origin(node, self.layers)
        inputs = [self._rows_of(example_value(argument)) for argument in node.all_input_nodes]
        rows, dims = next(filter(None, inputs), (Rows(NODES, torch.ones(0)), []))
        name, hint = padding_hint(node, place, what, rows.kind, has_pairs=len(dims) > 1)
        return finding_at(place, hint, name, name)

    def _what_moves(self, first: dict, second: dict, gradients: list) -> str | None:
        if self.loss is not None and self._moves(first[self.loss], second[self.loss]):
            return "the loss"
        for node in self.outputs:
            value = first[node]
            has_place = isinstance(value, Tensor) and (value.dim() < 2 or self._rows_of(value) is not None)
            if has_place and self._moves(value, second[node]):
                return "a result for real rows"
        if any(a is not None and b is not None and _differs(a, b) for a, b in zip(*gradients)):
            return "a gradient"
        return None

    def _moves(self, first: Tensor, second: Tensor, by_pairs: bool = False) -> bool:
        """Whether a value differs in a real row, or as a whole where it has no rows. `by_pairs`: in a value
        for every pair of rows, only pairs of real ones count."""
        rows, dims = self._rows_of(first) or (Rows(NODES, torch.ones(0)), [])
        real = rows.real.nonzero().view(-1)
        for dim in dims if by_pairs else dims[:1]:
            first, second = first.index_select(dim, real), second.index_select(dim, real)
        return _differs(first, second)

    def _rows_of(self, value: Any) -> tuple[Rows, list[int]] | None:
        """The rows that a value has, and in which dimensions: two where it has a value for every pair."""
        for dim, size in enumerate(value.shape if isinstance(value, Tensor) else ()):
            found = [rows for rows in self.rows if len(rows.real) == size]
            if found:
                dims = [dim, dim + 1] if value.shape[dim + 1 :] == (size,) else [dim]
                return (found[0], dims) if _agree(found) else None
        return None

    def _leaks(self) -> list[Node]:
        """The nodes where real rows come to depend on padding and that lead to a result, each found as if
        those before it were right: after a leak the run goes on with the real rows as they should be."""
        results = [*self.outputs, *([self.loss] if self.loss else [])]
        relevant = set().union(*map(ancestors, results))
        runs = [_Run(self.graph_module, values) for values in self.inputs]
        changed: dict[Node, Node | None] = {}  # node: where a value without rows began
        found: list[Node] = []
        with torch.no_grad():
            for node in self.nodes:
                first, second = _alike(runs, node)
                if node.op == "output" or not isinstance(first, Tensor) or not _differs(first, second):
                    continue
                began = [start for i in node.all_input_nodes if (start := changed.get(i)) is not None]
                start = min(began, key=self.nodes.index) if began else node
                is_result = node is self.loss or (node in self.outputs and first.dim() < 2)
                rows = self._rows_of(first)
                if rows is None and not is_result:
                    changed[node] = start
                    continue
                changed[node] = None
                if self._moves(first, second, by_pairs=True):
                    if node in relevant and node.op != "placeholder":
                        found.append(start)
                    _repair(runs, node, rows)
        return list(dict.fromkeys(found))

    def _no_gradient(self, values: dict) -> Finding:
        """The warning for gradients that are not finite though the loss is."""
        roots = [node for node in self.nodes if _name(node) in _ROOTS and isinstance(values[node], Tensor)]
        suspects = [node for node in roots if bool((values[node] == 0).any())]
        hint = Hint(
            "the gradient is not a number: along padding edges, which are self-loops, the distance is zero, "
            "and a root has no derivative there",
            "keep the root away from zero: (squared + 1e-12).sqrt(), or "
            "torch.where(mask, squared, 1.0).sqrt()",
        )
        return finding_at(origin([*suspects, self.loss][0], self.layers), hint, "root of zero")


def _alike(runs: Sequence[_Run], node: Node) -> list[Any]:
    """The values of a node in all runs, with the same random numbers."""
    state, values = torch.get_rng_state(), []
    for run in runs:
        torch.set_rng_state(state)
        values.append(run.run_node(node))
    return values


def _repair(runs: Sequence[_Run], node: Node, rows: tuple[Rows, list[int]] | None) -> None:
    """Give the second run the real rows of the first; a value for every pair is as if padding were masked."""
    first, second = (run.env[node] for run in runs)
    if rows is None:
        runs[1].env[node] = first.clone()
        return
    for number, dim in enumerate(rows[1]):
        real = rows[0].real.view([-1 if d == dim else 1 for d in range(first.dim())])
        if number == 0:
            runs[1].env[node] = torch.where(real, first, second)
        else:
            for run in runs:
                run.env[node] = torch.where(real, run.env[node], torch.zeros_like(first))


def _differs(first: Tensor, second: Tensor) -> bool:
    if first.shape != second.shape:
        return True
    if not first.is_floating_point() and not first.is_complex():
        return not torch.equal(first, second)
    finite = first.detach()[torch.isfinite(first.detach())]
    scale = float(finite.abs().max()) if finite.numel() else 1.0
    return not torch.allclose(first, second, rtol=1e-4, atol=1e-5 * scale, equal_nan=True)


def _gradients(env: dict[Node, Any], loss: Node) -> list[Tensor | None]:
    leaves = [value for node, value in env.items() if node.op == "placeholder" and isinstance(value, Tensor)]
    leaves = [leaf for leaf in leaves if leaf.requires_grad]
    if not leaves or not env[loss].requires_grad:
        return []
    return list(torch.autograd.grad(env[loss].sum(), leaves, allow_unused=True))


# What is found by running it on tensors without content: an optional limit on what they take at once.


_limit: contextvars.ContextVar[float | None] = contextvars.ContextVar("device memory", default=None)


@contextlib.contextmanager
def device_memory(megabytes: float) -> Iterator[None]:
    """Give the device of the CPU implementation a memory of this size while the block runs.

    `check` and the compilation of a wrapped model then refuse a graph whose tensors need more at one time:
    weights, inputs, activations and gradients, in the order in which the model computes them. It is an
    estimate: a real device also needs room for code, the optimiser's state and exchange, and its compiler
    saves some by computing in place. Where the SDK's PopTorch runs this does nothing: the device has its
    own limit. (An IPU has 900 MB beside its processors.)

    Args:
        megabytes: The limit, in millions of bytes.

    Example:
        >>> with device_memory(900):
        ...     report = check(model, x, edge_index)
    """
    if not megabytes > 0:
        raise ValueError(f"megabytes must be positive (got {megabytes}).")
    token = _limit.set(megabytes)
    try:
        yield
    finally:
        _limit.reset(token)


def memory_findings(
    function: Callable, graph_module: GraphModule, inputs: Sequence[Any], loss: Node | None
) -> list[Finding]:
    """The finding for a graph that needs more than the limit, if one is set; `loss` is what training
    differentiates, None for inference."""
    limit = _limit.get()
    needed = 0.0 if limit is None else peak_bytes(graph_module, inputs, loss) / 10**6
    if limit is None or needed <= limit:
        return []
    return [
        Finding.at(
            forward_place(function),
            OUT_OF_MEMORY,
            f"the tensors of this graph need {needed:,.0f} MB at one time; the device has {limit:,.0f} MB",
            "give it smaller inputs: smaller batches, or subgraphs of a large graph "
            "(`FixedSizeClusterLoader`, `FixedSizeNeighborLoader`); or make the model narrower",
        )
    ]


def peak_bytes(graph_module: GraphModule, inputs: Sequence[Any], loss: Node | None = None) -> int:
    """The most that the tensors of a graph take at one time, with its inputs, and with gradients if there is
    a loss. Nothing is computed: the graph runs on tensors without content."""
    from torch._subclasses.fake_tensor import FakeTensorMode  # the same in torch 2.6 to 2.13

    with FakeTensorMode(allow_non_fake_inputs=True) as mode, torch.set_grad_enabled(loss is not None):
        fakes = [mode.from_tensor(v) if isinstance(v, Tensor) else v for v in inputs]
        with _Living() as living:
            for value in fakes:
                living.count(value)
            run = _UntilLoss(graph_module, loss)
            outputs = run.run(*fakes)
            if run.loss is not None and run.loss.requires_grad:
                run.loss.backward(torch.ones_like(run.loss))
            del outputs
    return living.peak


class _UntilLoss(torch.fx.Interpreter):
    """Runs a graph, letting go of what is no longer needed, and keeps its loss."""

    def __init__(self, graph_module: GraphModule, loss: Node | None) -> None:
        super().__init__(graph_module)
        self._node = loss
        self.loss: Tensor | None = None

    def run_node(self, n: Node) -> Any:
        value = super().run_node(n)
        if n is self._node:
            self.loss = value
        return value


class _Living(torch.utils._python_dispatch.TorchDispatchMode):
    """Adds up the memory of the tensors that operations make, and notes when it is given back."""

    def __init__(self) -> None:
        super().__init__()
        self._now = self.peak = 0
        self._seen: weakref.WeakSet = weakref.WeakSet()

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        result = func(*args, **(kwargs or {}))
        torch.utils._pytree.tree_map_only(Tensor, self.count, result)
        return result

    def count(self, value: Any) -> None:
        """Take a tensor into account, unless its memory is known."""
        storage = value.untyped_storage() if isinstance(value, Tensor) else None
        if storage is None or storage in self._seen:
            return
        self._seen.add(storage)
        weakref.finalize(storage, self._give_back, storage.nbytes())
        self._now += storage.nbytes()
        self.peak = max(self.peak, self._now)

    def _give_back(self, size: int) -> None:
        self._now -= size
