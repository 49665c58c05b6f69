"""The porting check: is this model one static graph, and if not, what has to change?

First the arguments: their names, and which of them a device takes as they are. Then `check`, and what it is
made of for your own tests: `assert_static`, `compilations`, `compare_padded`. The tracer is imported by the
first check: this module is light, and works on a torch too old to trace.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import html
import inspect
from typing import Any, Callable, Iterable, Iterator, NamedTuple, Sequence

import torch
from torch import Tensor

from .findings import Finding, Report, StaticGraphError, counted, fits_device, html_table

OLDEST_TORCH = (2, 6)


def torch_is_new_enough() -> bool:
    """Whether this torch can trace well enough for the check (2.6 or later)."""
    return tuple(int(part) for part in torch.__version__.split(".")[:2]) >= OLDEST_TORCH


class Leaf(NamedTuple):
    """A value in nested arguments: its `name` in Python, and the store of the data object it lies in."""

    name: str
    value: Any
    store: Any = None
    key: str = ""


def named_leaves(function: Callable, args: tuple, kwargs: dict) -> list[Leaf]:
    """All values in the arguments of a call, with names such as `data.x` or `x_dict['movie']`."""
    target = function.forward if isinstance(function, torch.nn.Module) else function
    try:
        arguments = inspect.signature(target).bind(*args, **kwargs).arguments
    except (TypeError, ValueError):
        arguments = {**{f"argument {number}": value for number, value in enumerate(args, 1)}, **kwargs}
    return [leaf for name, value in arguments.items() for leaf in _leaves(name, value)]


def _leaves(name: str, value: Any) -> Iterator[Leaf]:
    if hasattr(value, "stores"):  # PyG's Data, HeteroData and Batch
        for store in value.stores:
            inner = name if store._key is None else f"{name}[{_key(store._key)}]"
            for key, item in store.items():
                yield Leaf(f"{inner}.{key}", item, store, key)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _leaves(f"{name}[{_key(key)}]", item)
    elif isinstance(value, (list, tuple)):
        for number, item in enumerate(value):
            yield from _leaves(f"{name}[{number}]", item)
    else:
        yield Leaf(name, value)


def _key(key: Any) -> str:
    return ", ".join(map(repr, key)) if isinstance(key, tuple) else repr(key)


def argument_findings(names: Sequence[str], values: Sequence[Any]) -> tuple[list[Finding], list[Finding]]:
    """What of these arguments a device does not take, and what it takes otherwise than it is given.

    Args:
        names: What to call each value, `x` or `data.edge_attr`.
        values: The tensors, numbers and other objects in the arguments.

    Returns:
        Findings, which stop, and warnings, which do not.
    """
    findings, warnings = [], []
    for number, (name, value) in enumerate(zip(names, values)):
        problem = _problem(name, value)
        if problem is not None:
            findings.append(Finding.at(None, f"argument {name}", *problem))
        elif isinstance(value, Tensor):
            warnings += [Finding.at(None, *told) for told in _changed_on_the_way(number, name, value)]
    return findings, warnings


def _problem(name: str, value: Any) -> tuple[str, str] | None:
    """Reason and remedy where the device takes no such value."""
    if type(value).__module__ == "numpy":
        kind = type(value).__name__
        return f"{name} is a numpy {kind}, and the device takes tensors", f"pass torch.as_tensor({name})"
    if type(value).__name__ == "SparseTensor":
        return f"{name} is a SparseTensor, which is no tensor", "pass edge_index and edge_weight"
    if not isinstance(value, Tensor):
        return None
    if value.layout != torch.strided:
        reason = f"{name} is sparse ({value.layout}), and the number of its entries is not part of its shape"
        return reason, "pass edge_index and edge_weight"
    if value.device.type != "cpu":
        reason = (
            f"{name} is on the device {value.device.type!r}, and PopTorch moves tensors from the CPU itself"
        )
        return reason, f"pass {name}.cpu()"
    if value.numel() == 0:
        reason = f"Zero-sized tensors are unsupported (Got shape {list(value.shape)}): {name} holds nothing"
        return reason, "leave it out; a batch of a fixed-size loader is never empty"
    if value.dtype == torch.int64 and int(value.abs().max()) >= 2**31:
        reason = f"{name} holds {int(value.abs().max())}, and the device has integers of 32 bits"
        return reason, "number what it names from 0 on"
    return None


def _changed_on_the_way(number: int, name: str, value: Tensor) -> Iterator[tuple[str, str, str]]:
    """What is named, reason and remedy where the device takes a value otherwise than it is given."""
    if value.requires_grad and not isinstance(value, torch.nn.Parameter):
        reason = (
            "Input tensor has requires_grad=True set. This tensor will be detached because backward pass via "
            f"inputs is not supported: it is input {number}, {name}"
        )
        remedy = f"pass {name}.detach(), or make it a torch.nn.Parameter of the model"
        yield f"gradient of {name}", reason, remedy
    if value.dtype == torch.float64:
        reason = f"{name} is float64, and the device has 32 bits: it is cast to float32, as is the result"
        yield f"float64 in {name}", reason, f"cast it yourself, in the dataset: {name}.float()"


def with_tensors(change: Callable[[Tensor], Tensor], value: Any) -> Any:
    """`value`, nested as it may be, with `change(tensor)` in the place of every tensor."""
    if isinstance(value, Tensor):
        return change(value)
    if hasattr(value, "stores"):
        return copy.copy(value).apply(change)
    if isinstance(value, dict):
        return {key: with_tensors(change, item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        items = [with_tensors(change, item) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    return value


def cast_down(value: Any) -> Any:
    """`value` with every float64 tensor as float32, as the device holds it."""
    return with_tensors(lambda tensor: tensor.float() if tensor.dtype == torch.float64 else tensor, value)


class _Traced(Exception):
    """Ends the trace once the graph has been looked at, so that nothing is compiled."""


def check(model: Callable, *inputs: Any, **kwargs: Any) -> Report:
    """Look for everything in `model(*inputs, **kwargs)` that a static graph cannot hold.

    The model runs on copies only: its weights, buffers, gradients and hooks stay as they are, and so does the
    random state of torch, Python and NumPy. A module in training mode must also make its loss, because that
    is what the device differentiates. What `check` refuses, wrapping and calling the model refuses too.

    Args:
        model: A module or function.
        inputs: What it will be called with: tensors, nested lists, tuples or dicts of tensors, `Data` or
            `HeteroData`. With a batch of a fixed-size loader, `check` also tries whether padding reaches
            what is computed for real graphs.
        kwargs: The same by name.

    Example:
        >>> check(torch.nn.Linear(4, 2).eval(), torch.ones(3, 4))
        Linear: one static graph, nothing to change.
    """
    if not torch_is_new_enough():
        return Report(
            None, [], f"Not checked: looking at the graph needs torch 2.6 or later (got {torch.__version__})."
        )
    findings, warnings, replaced = _trace(model, inputs, kwargs)
    is_module = isinstance(model, torch.nn.Module)
    name = type(model).__name__ if is_module else getattr(model, "__name__", repr(model))
    if findings:
        what = f"not a static graph yet, {counted(len(findings), 'place')} to change"
        what = what if fits_device(findings) else "does not fit the device"
        return Report(False, findings, f"{name}: {what}.", (), warnings)
    verdict = ("nothing to change", "with a warning", "with warnings")[min(len(warnings), 2)]
    swapped = f" Run in a static version of ours: {', '.join(replaced)}." if replaced else ""
    return Report(True, [], f"{name}: one static graph, {verdict}.{swapped}", replaced, warnings)


def _trace(
    model: Callable, inputs: tuple, kwargs: dict
) -> tuple[list[Finding], list[Finding], tuple[str, ...]]:
    """Findings, warnings and replaced layers of a copy of the model, called with copies of the inputs."""
    from .internals import BackendFailed
    from .origins import copied, random_state_kept
    from .tracing import StaticFunction, no_graph, uninitialised

    def stop(graph_module, example_inputs):
        raise _Traced

    leaves = named_leaves(model, inputs, kwargs)
    findings, warnings = argument_findings([leaf.name for leaf in leaves], [leaf.value for leaf in leaves])
    if findings:
        return findings, warnings, ()
    is_module = isinstance(model, torch.nn.Module)
    with random_state_kept():
        model = copied(model) if is_module else model
        inputs, kwargs = copied((inputs, kwargs))
        if not any(p.dtype == torch.float64 for p in (model.parameters() if is_module else ())):
            inputs, kwargs = cast_down(inputs), cast_down(kwargs)
        waiting = uninitialised(model)
        if waiting is not None:
            findings.append(waiting)
            with torch.no_grad():
                model(*inputs, **kwargs)
        function = StaticFunction(model, stop, is_module and model.training, tries_padding=True)
        try:
            function(*inputs, **kwargs)
            findings.append(no_graph(model))
        except StaticGraphError as error:
            return findings + error.findings, warnings, ()
        except BackendFailed as error:
            if not isinstance(error.inner_exception, _Traced):
                raise
    return findings, warnings + function.warnings, function.replaced


def assert_static(model: Callable, *inputs: Any, **kwargs: Any) -> Report:
    """Raise an `AssertionError` that reads like the report unless `model(*inputs, **kwargs)` is static.

    For your own tests. Takes what `check` takes, and returns its report.

    Example:
        >>> def test_my_model_can_be_ported():
        ...     assert_static(MyModel(), *inputs)
    """
    report = check(model, *inputs, **kwargs)
    if report.ok is False:
        raise AssertionError(str(report))
    return report


@dataclasses.dataclass(frozen=True)
class Compilations:
    """The answer of `compilations`: how many graphs (`count`) so many `batches` need, and for each argument
    that `differs` the shapes that it comes in."""

    count: int
    batches: int
    differs: dict[str, list[str]]

    def __str__(self) -> str:
        return _text(self._summary(), [(name, some) for name, _, some in self._rows()])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        table = html_table(("Argument", "Shapes", "such as"), self._rows()) if self.differs else ""
        return f"<p>{self._summary()}</p>{table}"

    def _summary(self) -> str:
        return f"{counted(self.count, 'graph')} to compile for {counted(self.batches, 'batch')}."

    def _rows(self) -> list[tuple[str, str, str]]:
        return [
            (name, str(len(shapes)), ", ".join([*shapes[:4], "…"] if len(shapes) > 4 else shapes))
            for name, shapes in self.differs.items()
        ]


def _text(summary: str, rows: Sequence[tuple[str, str]]) -> str:
    width = max((len(name) for name, _ in rows), default=0)
    return "\n".join([summary, *[f"  {name:{width}}  {value}" for name, value in rows]])


def compilations(
    model: Callable, loader: Iterable, inputs: Callable[[Any], tuple] | None = None
) -> Compilations:
    """How many graphs a device would have to compile for the batches of a loader, and what differs in them.

    Args:
        model: What will be called with every batch.
        loader: Gives the batches. A fixed-size loader needs 1 graph, PyG's own one for nearly every batch.
        inputs: Makes the model's arguments of a batch. Unless given, a `forward` with one argument gets the
            batch, and one with several the attributes of the batch of these names.

    Example:
        >>> mutag = datasets.mutag()
        >>> compilations(model, torch_geometric.loader.DataLoader(mutag, batch_size=10))
        19 graphs to compile for 19 batches.
          x           [166, 7], [172, 7], [201, 7], [173, 7], …
          edge_index  [2, 364], [2, 384], [2, 456], [2, 374], …
          batch       [166], [172], [201], [173], …
        >>> compilations(model, FixedSizeDataLoader(mutag, batch_size=10))
        1 graph to compile for 21 batches.
    """
    seen: dict[tuple, None] = {}
    shapes: dict[str, dict[str, None]] = {}
    batches = 0
    for batch in loader:
        batches += 1
        leaves = named_leaves(model, _arguments(model, batch, inputs), {})
        signature = [(leaf.name, _signature(leaf.value)) for leaf in leaves]
        seen.setdefault(tuple(signature))
        for name, shape in signature:
            shapes.setdefault(name, {}).setdefault(shape)
    differs = {name: list(found) for name, found in shapes.items() if len(found) > 1}
    return Compilations(len(seen), batches, differs)


def _signature(value: Any) -> str:
    if not isinstance(value, Tensor):
        return repr(value)
    kind = str(value.dtype).replace("torch.", "")
    return str(list(value.shape)) + ("" if kind in ("float32", "int64", "bool") else f" {kind}")


def _arguments(model: Callable, batch: Any, inputs: Callable[[Any], tuple] | None) -> tuple:
    if inputs is not None:
        found = inputs(batch)
        return found if isinstance(found, tuple) else (found,)
    target = model.forward if isinstance(model, torch.nn.Module) else model
    parameters = inspect.signature(target).parameters.values()
    wanted = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    required = [p.name for p in wanted if p.default is p.empty]
    if len(required) <= 1:
        return (batch,)
    values = {}
    for name in required:
        with contextlib.suppress(AttributeError, KeyError):  # also `x_dict` of a heterogeneous batch
            values[name] = getattr(batch, name)
    missing = [name for name in required if values.get(name) is None or values[name] == {}]
    if missing:
        raise ValueError(
            f"The batch has no {', '.join(missing)}, which the model takes: pass inputs=lambda batch: (…), "
            "a function that makes the model's arguments of a batch."
        )
    return tuple(values.values())


@dataclasses.dataclass(frozen=True)
class Comparison:
    """The answer of `compare_padded`: whether all results are equal (`ok`), and for each result or module,
    in the order in which they are computed, the largest difference of any graph (`differences`)."""

    graphs: int
    differences: dict[str, float]
    tolerance: float

    @property
    def ok(self) -> bool:
        """Whether nothing differs by more than the tolerance."""
        return self.first is None

    @property
    def first(self) -> str | None:
        """Where the padded batch and the real graphs part: the first module whose result differs."""
        return next((name for name, value in self.differences.items() if not value <= self.tolerance), None)

    def __str__(self) -> str:
        return _text(self._summary(), [] if self.ok else self._rows())

    __repr__ = __str__

    def _repr_html_(self) -> str:
        rows = [(html.escape(name), value) for name, value in self._rows()]
        return f"<p>{html.escape(self._summary())}</p>{html_table(('Result of', 'Largest difference'), rows)}"

    def _summary(self) -> str:
        how = "give the same" if self.ok else f"part at {self.first}"
        return f"{self.graphs} graphs: padded and one by one {how}."

    def _rows(self) -> list[tuple[str, str]]:
        return [(name, f"{value:.2g}") for name, value in self.differences.items()]


def compare_padded(
    model: torch.nn.Module,
    batches: Any,
    inputs: Callable[[Any], tuple] | None = None,
    tolerance: float = 1e-4,
) -> Comparison:
    """Run the real graphs of padded batches one by one, unpadded, beside the padded batches, and show where
    the results part.

    Everything runs eagerly, in evaluation mode, on a copy of the model. A result with a row per node, edge or
    graph is compared row by row; a single number of the batch with the sum or mean over its graphs, or their
    nodes or edges.

    Args:
        model: A model that pools with `size=`, as padded batches need it.
        batches: A batch of a fixed-size loader with its masks, heterogeneous or not, or a loader that gives
            such batches. A batch of neighbours or clusters counts as one graph.
        inputs: Makes the model's arguments of a batch; see `compilations`.
        tolerance: Largest difference to take for rounding, relative to the largest value.

    Example:
        >>> compare_padded(model, FixedSizeDataLoader(datasets.mutag(), batch_size=10))
        188 graphs: padded and one by one give the same.
    """
    from .origins import copied, layers_of, random_state_kept

    model = copied(model).eval()
    noted: list[tuple[str, Tensor]] = []

    def noting(path: str) -> Callable:
        def note(module, args, output):
            values = [leaf.value for leaf in _leaves("", output)]
            noted.extend((path, v) for v in values if isinstance(v, Tensor) and v.is_floating_point())

        return note

    for layer in layers_of(model).values():
        path = "the result" if layer.module is model else layer.path
        layer.module.register_forward_hook(noting(path))

    def results(batch: Any) -> list[tuple[str, Tensor]]:
        """What the model and all its modules return, in the order in which they are computed."""
        noted.clear()
        model(*copied(_arguments(model, batch, inputs)))
        return list(noted)

    total = 0
    differences: dict[str, float] = {}
    with random_state_kept(), torch.no_grad():
        for batch in [batches] if hasattr(batches, "stores") else batches:
            graphs = _real_graphs(batch)
            total += len(graphs)
            for name, value in _compared(batch, graphs, results(batch), [*map(results, graphs)]):
                differences[name] = max(differences.get(name, 0.0), value, key=_nan_last)
    return Comparison(total, differences, tolerance)


def _nan_last(value: float) -> float:
    return float("inf") if value != value else value


def _real_graphs(batch: Any) -> list[Any]:
    """The real graphs of a padded batch, each as a batch of its own without a node or edge of padding.

    The rows of graphs stay as many as in the padded batch, the real one first: a model that pools with a
    constant `size` returns as many.
    """
    from torch_geometric.data import Batch

    masks = [store for store in batch.stores if "nodes_mask" in store]
    if "graphs_mask" not in batch and not masks:
        raise ValueError("The batch has no graphs_mask: make the loader with add_pad_masks=True.")
    if "graphs_mask" not in batch:  # neighbours of some nodes, or clusters of one graph
        real = {store._key: store["nodes_mask"] for store in masks}
        return [_with_masks(batch.subgraph(real.get(None, real)), batch)]
    graphs, count = [], len(batch["graphs_mask"])
    for number in batch["graphs_mask"].nonzero().view(-1).tolist():
        alone = _with_masks(Batch.from_data_list([batch.get_example(number)]), batch)
        for own, whole in zip(alone.stores, batch.stores):
            for key, value in list(own.items()) if own._key is None else ():
                if isinstance(value, Tensor) and value.dim() and len(value) == 1 and len(whole[key]) == count:
                    own[key] = torch.cat([value, *[whole[key][-1:]] * (count - 1)])
        alone["graphs_mask"] = torch.arange(count) < 1
        alone._num_graphs = count
        graphs.append(alone)
    return graphs


def _with_masks(graph: Any, batch: Any) -> Any:
    """`graph` with the masks of nodes and edges that `batch` has, True everywhere."""
    for own, whole in zip(graph.stores, batch.stores):
        for mask, size in (("nodes_mask", "num_nodes"), ("edges_mask", "num_edges")):
            if mask in whole:
                own[mask] = torch.ones(getattr(own, size), dtype=torch.bool)
    return graph


def _sizes(data: Any) -> dict[Any, int]:
    """The number of nodes and of edges, of each type."""
    if not hasattr(data, "node_types"):
        return {"nodes": data.num_nodes, "edges": data.num_edges}
    nodes = {kind: data[kind].num_nodes for kind in data.node_types}
    return {**nodes, **{kind: data[kind].num_edges for kind in data.edge_types}}


def _compared(
    batch: Any, graphs: list, together: list[tuple[str, Tensor]], apart: list[list[tuple[str, Tensor]]]
) -> Iterator[tuple[str, float]]:
    """The largest difference of each result, relative to its largest value."""
    one_each = [1] * len(graphs)
    sizes = {kind: [_sizes(graph)[kind] for graph in graphs] for kind in _sizes(batch)}
    count = len(batch["graphs_mask"]) if "graphs_mask" in batch else 1
    for place, (name, whole) in enumerate(together):
        singles = [found[place][1] for found in apart if place < len(found)]
        if len(singles) < len(graphs):
            continue
        if whole.dim() == 0:
            values = torch.stack(singles)
            shares = [torch.tensor(rows) / max(sum(rows), 1) for rows in [one_each, *sizes.values()]]
            joined = [values.sum(), *[(values * share).sum() for share in shares]]
            yield name, min((_difference(whole, value) for value in joined), key=_nan_last)
            continue
        totals = _sizes(batch)
        lengths = [single.dim() and len(single) for single in singles]
        fitting = [rows for kind, rows in sizes.items() if rows == lengths and totals[kind] == len(whole)]
        rows = fitting[0] if fitting else one_each if len(whole) == count else []
        for number, single in enumerate(singles) if rows else ():
            part, single = whole[sum(rows[:number]) :][: rows[number]], single[: rows[number]]
            if part.shape == single.shape and part.numel():
                yield name, _difference(part, single)


def _difference(one: Tensor, other: Tensor) -> float:
    return float((one - other).abs().max() / other.abs().max().clamp(min=1e-6))
