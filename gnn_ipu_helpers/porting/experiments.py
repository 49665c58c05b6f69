"""Running the traced graph on the example values: do all indices fit, and does padding reach what is real?

Whether padding leaks is found by experiment, not by rules for layers: the graph runs twice, with other values
in the padding rows the second time. Where the loss, a real row of an output or a gradient moves, a third run
follows the change through the graph to the first lines where real rows come to depend on padding.

Which rows are padding, the loaders' masks say in a data object: `nodes_mask`, `edges_mask`, `graphs_mask`.
Where the tensors of a batch are passed one by one, their contents say it, whatever they are called: a mask
that is True up to some row and that no edge crosses, a vector `batch` whose last graphs are padding, or an
edge list that ends in the same self-loop repeated.
"""

from __future__ import annotations

import dataclasses
import re
from typing import Any, Callable, Iterator, Sequence

import torch
from torch import Tensor

from .checking import Leaf
from .findings import Finding, forward_place, parse_stack
from .internals import example_value
from .origins import Layer, Origin, ancestors, origin, random_state_kept
from .remedies import Hint, finding_at, missing_neighbours, out_of_range, padding_hint

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
    the rows that it has (`attributes`) or, for a mask, that it tells of (`masks`)."""

    rows: list[Rows] = dataclasses.field(default_factory=list)
    attributes: dict[int, Rows] = dataclasses.field(default_factory=dict)
    masks: dict[int, Rows] = dataclasses.field(default_factory=dict)
    batches: dict[int, tuple[Rows, Rows]] = dataclasses.field(default_factory=dict)
    edges: dict[int, Rows] = dataclasses.field(default_factory=dict)


def find_padding(leaves: Sequence[Leaf]) -> Padding | None:
    """The padding in these inputs, or None where there is none to be seen."""
    stores: dict[int, list[int]] = {}
    for number, leaf in enumerate(leaves):
        if isinstance(leaf.value, Tensor):
            stores.setdefault(0 if leaf.store is None else id(leaf.store), []).append(number)
    padding = Padding()
    for key, numbers in stores.items():
        group = {number: leaves[number] for number in numbers}
        if key == 0:
            _add_tensors(padding, {number: leaf.value for number, leaf in group.items()})
        else:
            _add_store(padding, group)
    return padding if any(not bool(rows.real.all()) for rows in padding.rows) else None


def _add_store(padding: Padding, group: dict[int, Leaf]) -> None:
    """The rows of a store that holds the loaders' masks."""
    known: dict[str, Rows] = {}
    for kind in (NODES, EDGES, GRAPHS):
        for number, leaf in group.items():
            if leaf.key == f"{kind}_mask" and leaf.value.dtype == torch.bool:
                known[kind] = padding.masks[number] = Rows(kind, leaf.value.clone())
    padding.rows += known.values()
    for number, leaf in group.items():
        if leaf.key == "batch" and NODES in known and GRAPHS in known:
            padding.batches[number] = known[NODES], known[GRAPHS]
        elif leaf.key == "edge_index" and EDGES in known:
            padding.edges[number] = known[EDGES]
        elif not _names_rows(leaf.key) and number not in padding.masks:
            rows = _of_length(known.values(), leaf.value)
            if EDGES in known and leaf.key.startswith("edge") and _has_rows(known[EDGES], leaf.value):
                rows = known[EDGES]
            if rows is not None:
                padding.attributes[number] = rows


def _names_rows(key: str) -> bool:
    """Whether an attribute holds numbers of nodes, edges or graphs, by PyG's own rule for its name."""
    return "index" in key or "batch" in key or "ptr" in key or key in ("n_id", "e_id", "input_id", "face")


def _add_tensors(padding: Padding, tensors: dict[int, Tensor]) -> None:
    """The rows of tensors that were passed one by one."""
    edge_lists = {n: t for n, t in tensors.items() if _is_edge_list(t)}
    masks = {n: t for n, t in tensors.items() if t.dtype == torch.bool and t.dim() == 1 and _is_prefix(t)}
    batches = {n: t for n, t in tensors.items() if _is_batch(t)}
    nodes = edges = graphs = None
    for number, mask in masks.items():  # a mask of nodes, which no edge crosses
        if any(_separates(mask, edge_list) for edge_list in edge_lists.values()):
            nodes = padding.masks[number] = Rows(NODES, mask.clone())
    for batch in batches.values():
        if nodes is not None and len(nodes.real) == len(batch):
            count = int(batch[nodes.real].max()) + 1 if bool(nodes.real.any()) else 0
            graphs = graphs or Rows(GRAPHS, torch.arange(int(batch.max()) + 1) < count)
        for place, mask in masks.items():  # a mask of graphs
            if place in padding.masks or len(mask) <= int(batch.max()) or len(mask) == len(batch):
                continue
            of_nodes = mask[batch]
            if all(_separates(of_nodes, e) for e in edge_lists.values()) and not bool(of_nodes.all()):
                graphs = padding.masks[place] = Rows(GRAPHS, mask.clone())
                nodes = nodes or Rows(NODES, of_nodes)
    for edge_list in edge_lists.values() if nodes is None else ():
        nodes = nodes or _from_last_loops(edge_list, tensors)
        if nodes is not None and graphs is None:
            for batch in batches.values():
                if len(batch) == len(nodes.real) and bool(nodes.real.any()):
                    count = int(batch[nodes.real].max()) + 1
                    graphs = Rows(GRAPHS, torch.arange(int(batch.max()) + 1) < count)
    if nodes is None:
        return
    for number, edge_list in edge_lists.items():
        if _separates(nodes.real, edge_list):
            edges = padding.edges[number] = Rows(EDGES, nodes.real[edge_list[0]])
    known = [rows for rows in (nodes, edges, graphs) if rows is not None]
    padding.rows += known
    for number, batch in batches.items():
        if graphs is not None and len(batch) == len(nodes.real):
            padding.batches[number] = nodes, graphs
    for number, tensor in tensors.items():
        special = number in edge_lists or number in padding.masks or number in padding.batches
        rows = None if special else _of_length(known, tensor)
        if rows is not None and tensor.dtype == torch.bool and torch.equal(tensor, rows.real):
            padding.masks[number] = rows
        elif rows is not None:
            padding.attributes[number] = rows


def _is_edge_list(tensor: Tensor) -> bool:
    is_index = not tensor.is_floating_point() and tensor.dtype != torch.bool
    return is_index and tensor.dim() == 2 and tensor.size(0) == 2 and tensor.size(1) > 1


def _is_prefix(mask: Tensor) -> bool:
    count = int(mask.sum())
    return 0 < count < len(mask) and bool(mask[:count].all())


def _is_batch(tensor: Tensor) -> bool:
    if tensor.dtype != torch.long or tensor.dim() != 1 or len(tensor) < 2:
        return False
    steps = tensor[1:] - tensor[:-1]
    return int(tensor[0]) == 0 and bool((steps >= 0).all()) and int(tensor[-1]) > 0


def _separates(mask: Tensor, edge_list: Tensor) -> bool:
    """Whether no edge joins a real node to one of padding, and some edge joins two of padding."""
    if edge_list.numel() == 0 or int(edge_list.max()) >= len(mask) or int(edge_list.min()) < 0:
        return False
    source, target = mask[edge_list[0]], mask[edge_list[1]]
    return bool((source == target).all()) and not bool(source.all())


def _from_last_loops(edge_list: Tensor, tensors: dict[int, Tensor]) -> Rows | None:
    """The rows of nodes that an edge list tells of which ends in the same self-loop, repeated."""
    last = int(edge_list[0, -1])
    if int(edge_list[1, -1]) != last or not bool((edge_list[:, -2] == last).all()):
        return None
    sizes = [len(t) for t in tensors.values() if t.is_floating_point() and t.dim() > 1 and len(t) > last]
    if not sizes:
        return None
    real = torch.arange(sizes[0]) < last
    return Rows(NODES, real) if _separates(real, edge_list) and bool(real.any()) else None


def _of_length(known, tensor: Tensor) -> Rows | None:
    """The rows that a tensor has, if that is certain: rows of two kinds may be equal in number."""
    found = [rows for rows in known if _has_rows(rows, tensor)]
    same = found and all(torch.equal(rows.real, found[0].real) for rows in found)
    return found[0] if same else None


def _has_rows(rows: Rows, tensor: Tensor) -> bool:
    return tensor.dim() > 0 and tensor.size(0) == len(rows.real)


def with_one_graph_less(padding: Padding, values: list[Tensor]) -> list[Tensor]:
    """The inputs with their last real graph turned into padding, as a loader might have given them as well.

    A loss over `out[:-1]` is right as long as there is one padding graph; it must be right for two.
    """
    for number, (nodes, graphs) in padding.batches.items():
        count = int(graphs.real.sum())
        if count < 2 or not bool((~nodes.real).any()):
            continue
        batch = values[number]
        leaving = (batch == count - 1) & nodes.real
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
        if not bool(is_padding.any()):
            continue
        if value.is_floating_point():
            real = value[rows.real].float()
            scale = (real.std() if real.numel() > 1 else torch.ones(())).nan_to_num(1.0) + 0.5
            other = torch.randn(value.shape, generator=generator) * scale + value.float().nan_to_num(0.0)
            other = other.abs() if real.numel() and bool((real >= 0).all()) else other
            other = other.to(value.dtype)
        elif value.dtype == torch.bool:
            if not bool(value[is_padding].any()):
                continue  # a mask, which says of all padding that it does not count
            other = ~value
        elif bool((value[is_padding] < 0).all()) or not bool(rows.real.any()):
            continue  # marked as no class at all
        else:
            choices = value[rows.real].flatten(1) if value.dim() > 1 else value[rows.real].unsqueeze(1)
            low, high = choices.amin(dim=0), choices.amax(dim=0)
            flat = value.reshape(len(value), -1)
            other = torch.where(flat == high, low, high).view_as(value)
        shape = (-1,) + (1,) * (value.dim() - 1)
        changed[number] = torch.where(is_padding.view(shape), other, value)
    return changed


# What is found without running the graph, and by running it once.


def graph_warnings(
    graph: torch.fx.Graph, inputs: Sequence[Any], function: Callable, loss: torch.fx.Node | None
) -> list[Finding]:
    """What a graph does that is probably not meant, to be seen without running it: dropout in a model set to
    `eval()`, and parameters that the loss does not depend on."""
    if not isinstance(function, torch.nn.Module):
        return []
    found = []
    for node in graph.nodes if not function.training else ():
        if node.target in (torch.nn.functional.dropout, torch.dropout) and _is_on(node):
            hint = Hint(
                "the model is in evaluation mode, and dropout is on: predictions are random",
                "pass training=self.training to F.dropout, or use torch.nn.Dropout",
            )
            found.append(finding_at(origin(node), hint, "dropout in evaluation"))
    if loss is not None:
        idle = _idle_parameters(graph, inputs, function, loss)
        total = sum(1 for parameter in function.parameters() if parameter.requires_grad)
        if idle:
            few = ", ".join(idle[:4]) + (", …" if len(idle) > 4 else "")
            reason = f"the loss does not depend on {len(idle)} of {total} parameters, which never move: {few}"
            remedy = "use them in forward, or take them out of the model; freeze those that are meant to stay"
            found.append(Finding.at(forward_place(function), "idle parameters", reason, remedy))
    return found


def _is_on(node: torch.fx.Node) -> bool:
    arguments = dict(zip(("input", "p", "training"), node.args), **node.kwargs)
    arguments["training"] = arguments.get("train", arguments.get("training", True))
    return bool(arguments["training"]) and arguments.get("p", 0.5) != 0


def _idle_parameters(graph, inputs, function: torch.nn.Module, loss: torch.fx.Node) -> list[str]:
    seen, waiting = set(), [loss]
    while waiting:
        node = waiting.pop()
        if node not in seen and node.target != "detach":
            seen.add(node)
            waiting.extend(node.all_input_nodes)
    placeholders = [node for node in graph.nodes if node.op == "placeholder"]
    used = {id(value) for node, value in zip(placeholders, inputs) if node in seen}
    # In a heterogeneous model the last layers of other types than the loss is of are idle, as they must be.
    by_type = set()
    for name, parent in function.named_modules():
        if isinstance(parent, torch.nn.ModuleDict) and any(id(p) in used for p in parent.parameters()):
            by_type.add(f"{name}.")
    return [
        name
        for name, parameter in function.named_parameters()
        if parameter.requires_grad and id(parameter) not in used and not name.startswith(tuple(by_type))
    ]


_OUT_OF_RANGE = re.compile(r"out of (bounds|range)|smaller than num_classes")


class _OutOfRange(Exception):
    def __init__(self, node: torch.fx.Node, args: Any, message: str):
        super().__init__(message)
        self.node, self.args_of_node = node, args


class _Run(torch.fx.Interpreter):
    """Runs a traced graph node by node; an index that does not fit is told with its node."""

    def __init__(self, graph_module: torch.fx.GraphModule, inputs: Sequence[Any]):
        super().__init__(graph_module)
        self.args_iter = iter(inputs)
        self.env = {}

    def run_node(self, n: torch.fx.Node) -> Any:
        try:
            value = super().run_node(n)
        except Exception as error:
            if not isinstance(error, (IndexError, RuntimeError)) or not _OUT_OF_RANGE.search(str(error)):
                error.node = n
                raise
            raise _OutOfRange(n, self.fetch_args_kwargs_from_env(n), str(error)) from None
        self.env[n] = value
        return value


def _clones(inputs: Sequence[Any], with_gradients: bool = False) -> list[Any]:
    def clone(value: Any) -> Any:
        if not isinstance(value, Tensor):
            return value
        twin = value.detach().clone()
        return twin.requires_grad_(value.requires_grad and with_gradients)

    return [clone(value) for value in inputs]


def value_findings(
    graph_module: torch.fx.GraphModule,
    inputs: Sequence[Any],
    layers: dict[int, Layer] | None = None,
    leaves: Sequence[Leaf] = (),
) -> list[Finding]:
    """What does not fit in a graph on these inputs: an index beyond the size that it indexes, or, unless the
    inputs are padded, neighbours that are missing.

    Args:
        graph_module: A static graph as the tracer gave it.
        inputs: The values of its inputs, in order. They are left as they are.
        layers: The modules of the model (`graphs.layers_of`), to name them.
        leaves: The arguments of the model (`arguments.named_leaves`), to see padding.
    """
    nodes = list(graph_module.graph.nodes)
    searches = [node for node in nodes if _is_search(node)]
    indexing = {node: found for node in nodes if (found := _indices(node))}
    # Only what the indices are computed from runs on its values; what is indexed needs no more than a shape.
    real = _computed_from([*searches, *(index for found in indexing.values() for index in found)], nodes)
    run = _Run(graph_module, ())
    arguments = iter(inputs)
    with random_state_kept(), torch.no_grad():
        for node in nodes:
            if node.op == "placeholder":
                value = next(arguments)
                run.env[node] = _clones([value])[0] if node in real else _of_shape(node)
                continue
            try:
                is_open = node in indexing and not _fits(node, run.env)
                is_run = node in real or is_open or node.op == "get_attr"
                run.env[node] = run.run_node(node) if is_run else _of_shape(node)
            except _OutOfRange as error:
                args, kwargs = error.args_of_node
                return [out_of_range(origin(error.node, layers), args, kwargs, str(error))]
            except Exception:  # this is an experiment; what is really wrong the compiler says
                run.env[node] = _of_shape(node)
            if node in searches and not bool(run.env[node].all()) and find_padding(leaves) is None:
                return [missing_neighbours(origin(node, layers))]
    return []


def _computed_from(waiting: list[torch.fx.Node], nodes: Sequence[torch.fx.Node]) -> set[torch.fx.Node]:
    """All nodes whose values those in `waiting` are computed from, what is written into them included."""
    found: set[torch.fx.Node] = set()
    while waiting:
        while waiting:
            node = waiting.pop()
            if node not in found:
                found.add(node)
                waiting += node.all_input_nodes[: _SHAPE_ONLY.get(node.target)]
        for node in nodes:
            written = _written_to(node)
            while written is not None and node not in found:
                if written in found:
                    waiting.append(node)
                    break
                first = written.args[0] if written.args else None  # what it may be a view of
                written = first if isinstance(first, torch.fx.Node) else None
    return found


def _written_to(node: torch.fx.Node) -> torch.fx.Node | None:
    """The node whose value this one changes in place, if any."""
    if isinstance(node.kwargs.get("out"), torch.fx.Node):
        return node.kwargs["out"]
    is_writing = node.args and (re.search(r"[^_]_$", _name(node)) or _name(node) == "setitem")
    return node.args[0] if is_writing and isinstance(node.args[0], torch.fx.Node) else None


# How many of their inputs these take the values of; of the others they take the shape.
_SHAPE_ONLY = {"expand_as": 1, "view_as": 1, "new_zeros": 0, "new_ones": 0, "new_full": 0, "new_empty": 0}
_SHAPE_ONLY.update({torch.zeros_like: 0, torch.ones_like: 0})
_INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)


def _is_index(value: Any) -> bool:
    return isinstance(value, Tensor) and value.dtype in _INTEGERS


def _indices(node: torch.fx.Node) -> list[torch.fx.Node]:
    """The integer tensors that a node takes beside something else, with which it may index that."""
    if node.op == "output" or len(node.all_input_nodes) < 2:
        return []
    found = [argument for argument in node.all_input_nodes if _is_index(example_value(argument))]
    return found if len(found) < len(node.all_input_nodes) or _is_indexing(node) else []


def _is_indexing(node: torch.fx.Node) -> bool:
    return any(
        part in _name(node) for part in ("getitem", "setitem", "index", "gather", "scatter", "embedding")
    )


def _fits(node: torch.fx.Node, env: dict) -> bool:
    """Whether it is plain, without running a large operation, that its index fits."""
    if not re.fullmatch(r"(index_select|gather|index_add|scatter|scatter_add|scatter_reduce)_?", _name(node)):
        return False
    values = [env.get(item) if isinstance(item, torch.fx.Node) else item for item in node.args]
    if len(values) < 3 or not isinstance(values[1], int) or not _is_index(values[2]):
        return False
    index = values[2]
    index = index[tuple(slice(0, 1) if step == 0 else slice(None) for step in index.stride())]
    return not index.numel() or (int(index.min()) >= 0 and int(index.max()) < values[0].size(values[1]))


def _name(node: torch.fx.Node) -> str:
    return node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "")


def _of_shape(node: torch.fx.Node) -> Any:
    """Zeros of the shape of a node's result, without memory of their own unless they are written to."""
    is_written = any(_written_to(user) is node for user in node.users)

    def zeros(value: Any) -> Any:
        if not isinstance(value, Tensor):
            return value
        shape = value.shape if is_written else ()
        return torch.zeros(shape, dtype=value.dtype).expand(value.shape)

    value = example_value(node)
    return tuple(map(zeros, value)) if isinstance(value, (tuple, list)) else zeros(value)


def _is_search(node: torch.fx.Node) -> bool:
    """Whether a node says which neighbours were found."""
    if node.target is not torch.isfinite:
        return False
    return parse_stack(node.meta.get("stack_trace"))[-1].function == "_closest"


# What is found by running it twice.


def padding_warnings(
    graph_module: torch.fx.GraphModule,
    inputs: Sequence[Any],
    layers: dict[int, Layer],
    leaves: Sequence[Leaf],
    loss: torch.fx.Node | None = None,
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
    kinds = " and ".join(dict.fromkeys(rows.kind for rows in padding.rows if not bool(rows.real.all())))
    node = getattr(error, "node", None)
    what = (str(error).strip() or "no message").splitlines()[0]
    reason = (
        f"whether padding reaches real rows was tried by running the graph with other values in the padding "
        f"rows of {kinds}, and that run failed with {type(error).__name__}: {what}"
    )
    remedy = (
        "compare by yourself, gnn_ipu_helpers.porting.compare_padded(model, batch); if this line refuses "
        "values that the real rows hold too, make it take any such value in padding rows"
    )
    place = Origin("", []) if node is None else origin(node)
    return finding_at(place, Hint(reason, remedy), "padding not tried")


class _Experiment:
    def __init__(self, graph_module, inputs, layers, leaves, loss, padding: Padding):
        self.graph_module, self.layers, self.loss = graph_module, layers, loss
        self.nodes = list(graph_module.graph.nodes)
        tensors = [leaf.value for leaf in leaves]
        place_of = {id(tensor): number for number, tensor in enumerate(tensors)}
        first = with_one_graph_less(padding, list(tensors))
        second = with_other_padding(padding, first)
        self.first, self.second = (
            [values[place_of[id(value)]] if id(value) in place_of else value for value in inputs]
            for values in (first, second)
        )
        self.rows = padding.rows
        (output,) = [node for node in self.nodes if node.op == "output"]
        self.outputs = list(dict.fromkeys(output.all_input_nodes))

    def warnings(self) -> Iterator[Finding]:
        values, changed, gradients = self._run(with_gradients=self.loss is not None)
        if gradients is not None and not _all_finite(gradients[0]):
            yield self._no_gradient(values)
        what = self._what_moves(values, changed, gradients)
        if what is None:
            return
        seen = set()
        for node in self._leaks() or [self.loss or self.outputs[-1]]:
            place = origin(node, self.layers)
            name, hint = padding_hint(node, place, what, self._kind_of_inputs(node))
            finding = finding_at(place, hint, name, name)
            if (finding.file, finding.line, finding.remedy) not in seen:
                seen.add((finding.file, finding.line, finding.remedy))
                yield finding

    def _run(self, with_gradients: bool):
        """The values of all nodes on the first and the second inputs, and the gradients of both losses."""
        runs = [_Run(self.graph_module, _clones(v, with_gradients)) for v in (self.first, self.second)]
        with torch.enable_grad() if with_gradients else torch.no_grad():
            for node in self.nodes:
                _alike(runs, node)
        first, second = runs[0].env, runs[1].env
        gradients = None
        if with_gradients and self.loss is not None:
            gradients = [_gradients(run.env, self.loss, self.nodes) for run in runs]
        return first, second, gradients

    def _what_moves(self, first: dict, second: dict, gradients) -> str | None:
        if self.loss is not None and self._moves(first[self.loss], second[self.loss]):
            return "the loss"
        for node in self.outputs:
            if self._moves(first[node], second[node], strictly=True):
                return "a result for real rows"
        if gradients is not None and _all_finite(gradients[0]):
            pairs = zip(*gradients)
            if any(a is not None and b is not None and _differs(a, b) for a, b in pairs):
                return "a gradient"
        return None

    def _moves(self, first: Any, second: Any, strictly: bool = False) -> bool:
        """Whether a value differs in a real row, or as a whole where it has no rows."""
        if not isinstance(first, Tensor):
            return False
        found = self._rows_of(first)
        if found is None:
            return not (strictly and first.dim() > 1) and _differs(first, second)
        rows, dim = found
        real = rows.real.nonzero().view(-1)
        return _differs(first.index_select(dim, real), second.index_select(dim, real))

    def _rows_of(self, value: Tensor) -> tuple[Rows, int] | None:
        """The rows that a value has, and in which dimension."""
        for dim in range(value.dim()):
            found = [rows for rows in self.rows if len(rows.real) == value.size(dim)]
            if found and all(torch.equal(rows.real, found[0].real) for rows in found):
                return found[0], dim
            if found:
                return None
        return None

    def _leaks(self) -> list[torch.fx.Node]:
        """The nodes where real rows come to depend on padding and that lead to a result, each found as if
        those before it were right: after a leak the run goes on with the real rows as they should be."""
        relevant = set().union(*map(ancestors, [*self.outputs, *([self.loss] if self.loss else [])]))
        runs = [_Run(self.graph_module, _clones(values)) for values in (self.first, self.second)]
        changed: dict[torch.fx.Node, torch.fx.Node | None] = {}  # node: where a value without rows began
        found: list[torch.fx.Node] = []
        with torch.no_grad():
            for node in self.nodes:
                _alike(runs, node)
                first, second = (run.env[node] for run in runs)
                if node.op == "output" or not isinstance(first, Tensor) or not _differs(first, second):
                    continue
                began = [changed[i] for i in node.all_input_nodes if changed.get(i) is not None]
                start = min(began, key=self.nodes.index) if began else node
                is_result = node is self.loss or (node in self.outputs and first.dim() < 2)
                rows = self._rows_of(first)
                if rows is None and not is_result:
                    changed[node] = start
                    continue
                changed[node] = None
                if self._moves(first, second):
                    if node in relevant and node.op != "placeholder":
                        found.append(start)
                    _repair(runs[1].env, node, first, second, rows)
        return list(dict.fromkeys(found))

    def _kind_of_inputs(self, node: torch.fx.Node) -> str:
        """The kind of the rows that a node takes in: nodes, edges or graphs."""
        for argument in node.all_input_nodes:
            value = example_value(argument)
            found = self._rows_of(value) if isinstance(value, Tensor) else None
            if found is not None:
                return found[0].kind
        return "nodes"

    def _no_gradient(self, values: dict) -> Finding:
        """The warning for gradients that are not finite though the loss is."""
        roots = ("sqrt", "norm", "rsqrt", "cdist", "pairwise_distance", "pow", "vector_norm")
        suspects = [
            node
            for node in self.nodes
            if _name(node) in roots and isinstance(values[node], Tensor) and bool((values[node] == 0).any())
        ]
        place = origin(suspects[0] if suspects else self.loss, self.layers)
        reason = (
            "the gradient is not a number: along padding edges, which are self-loops, the distance is zero, "
            "and a root has no derivative there"
        )
        remedy = (
            "keep the root away from zero: (squared + 1e-12).sqrt(), or "
            "torch.where(mask, squared, 1.0).sqrt()"
        )
        return finding_at(place, Hint(reason, remedy), "root of zero")


def _alike(runs: Sequence[_Run], node: torch.fx.Node) -> None:
    """Run a node in all runs, with the same random numbers."""
    state = torch.get_rng_state()
    for run in runs:
        torch.set_rng_state(state)
        run.run_node(node)


def _repair(env: dict, node: torch.fx.Node, first: Tensor, second: Tensor, rows) -> None:
    if rows is None:
        env[node] = first.clone()
        return
    shape = [1] * first.dim()
    shape[rows[1]] = -1
    env[node] = torch.where(rows[0].real.view(shape), first, second)


def _differs(first: Tensor, second: Tensor) -> bool:
    if first.shape != second.shape:
        return True
    if not first.is_floating_point() and not first.is_complex():
        return not torch.equal(first, second)
    finite = first.detach()[torch.isfinite(first.detach())]
    scale = float(finite.abs().max()) if finite.numel() else 1.0
    return not torch.allclose(first, second, rtol=1e-4, atol=1e-5 * scale, equal_nan=True)


def _gradients(env: dict, loss: torch.fx.Node, nodes: Sequence[torch.fx.Node]) -> list[Tensor | None]:
    leaves = [env[n] for n in nodes if n.op == "placeholder" and isinstance(env[n], Tensor)]
    leaves = [leaf for leaf in leaves if leaf.requires_grad]
    value = env[loss]
    if not leaves or not value.requires_grad:
        return []
    return list(torch.autograd.grad(value.sum(), leaves, allow_unused=True))


def _all_finite(gradients: Sequence[Tensor | None]) -> bool:
    return all(gradient is None or bool(torch.isfinite(gradient).all()) for gradient in gradients)
