"""For your own tests: what a loader's shapes cost, and whether a padded batch gives what real graphs give."""

from __future__ import annotations

import dataclasses
import html
import inspect
from typing import Any, Callable, Iterable, Sequence

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from .arguments import named_leaves
from .eager import copied, random_state_kept
from .graphs import layers_of


def _table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f"<th>{html.escape(title)}</th>" for title in titles)
    cell = '<td style="text-align: left">{}</td>'
    body = "".join(f"<tr>{''.join(cell.format(html.escape(c)) for c in row)}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


@dataclasses.dataclass(frozen=True)
class Compilations:
    """The answer of `compilations`: how many graphs (`count`) so many `batches` need, and for each argument
    that `differs` the shapes that it comes in."""

    count: int
    batches: int
    differs: dict[str, list[str]]

    def _summary(self) -> str:
        graphs = "1 graph" if self.count == 1 else f"{self.count} graphs"
        batches = "1 batch" if self.batches == 1 else f"{self.batches} batches"
        return f"{graphs} to compile for {batches}."

    def __str__(self) -> str:
        width = max(map(len, self.differs), default=0)
        lines = [f"  {name:{width}}  {_some(shapes)}" for name, shapes in self.differs.items()]
        return "\n".join([self._summary(), *lines])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        rows = [(name, str(len(shapes)), _some(shapes)) for name, shapes in self.differs.items()]
        table = _table(("Argument", "Shapes", "such as"), rows) if rows else ""
        return f"<p>{self._summary()}</p>{table}"


def _some(shapes: Sequence[str]) -> str:
    return ", ".join(shapes[:4]) + (", …" if len(shapes) > 4 else "")


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
    missing = [name for name in required if name not in batch]
    if missing:
        raise ValueError(
            f"The batch has no {', '.join(missing)}, which the model takes: pass inputs=lambda batch: (…), "
            "a function that makes the model's arguments of a batch."
        )
    return tuple(batch[name] for name in required)


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
        parting = (name for name, value in self.differences.items() if not value <= self.tolerance)
        return next(parting, None)

    def _summary(self) -> str:
        if self.ok:
            return f"{self.graphs} graphs: padded and one by one give the same."
        return f"{self.graphs} graphs: padded and one by one part at {self.first}."

    def __str__(self) -> str:
        width = max(map(len, self.differences), default=0)
        rows = [] if self.ok else [f"  {n:{width}}  {value:.2g}" for n, value in self.differences.items()]
        return "\n".join([self._summary(), *rows])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        rows = [(name, f"{value:.2g}") for name, value in self.differences.items()]
        return f"<p>{html.escape(self._summary())}</p>{_table(('Result of', 'Largest difference'), rows)}"


def compare_padded(
    model: torch.nn.Module,
    batches: Any,
    inputs: Callable[[Any], tuple] | None = None,
    tolerance: float = 1e-4,
) -> Comparison:
    """Run the real graphs of padded batches one by one, unpadded, beside the padded batches, and show where
    the results part.

    Everything runs eagerly, in evaluation mode, on a copy of the model. A result with a row per node or per
    graph is compared row by row; a single number of the batch with the mean over its graphs.

    Args:
        model: A model that pools with `size=`, as padded batches need it.
        batches: A batch of a fixed-size loader with its masks, or a loader that gives such batches.
        inputs: Makes the model's arguments of a batch; see `compilations`.
        tolerance: Largest difference to take for rounding, relative to the largest value.

    Example:
        >>> compare_padded(model, FixedSizeDataLoader(datasets.mutag(), batch_size=10))
        188 graphs: padded and one by one give the same.
    """
    model = copied(model).eval()
    results = _Results(model)
    total, differences = 0, {}
    with random_state_kept(), torch.no_grad():
        for batch in [batches] if hasattr(batches, "stores") else batches:
            graphs = _real_graphs(batch)
            together = results.of(_arguments(model, batch, inputs))
            apart = [results.of(_arguments(model, graph, inputs)) for graph in graphs]
            total += len(graphs)
            for name, value in _compared(batch, graphs, together, apart):
                differences[name] = max(differences.get(name, 0.0), value, key=_nan_last)
    return Comparison(total, differences, tolerance)


def _nan_last(value: float) -> float:
    return float("inf") if value != value else value


class _Results:
    """What a model and all its modules return, in the order in which they are computed."""

    def __init__(self, model: torch.nn.Module):
        self._model = model
        self._noted: list[tuple[str, Tensor]] = []
        for layer in layers_of(model).values():
            if layer.module is not model:
                layer.module.register_forward_hook(self._noting(layer.path))

    def _noting(self, path: str) -> Callable:
        def note(module, args, output):
            for leaf in pytree.tree_leaves(output):
                if isinstance(leaf, Tensor) and leaf.is_floating_point():
                    self._noted.append((path, leaf))

        return note

    def of(self, arguments: tuple) -> list[tuple[str, Tensor]]:
        self._noted = []
        self._noting("the result")(None, None, self._model(*copied(arguments)))
        return self._noted


def _real_graphs(batch: Any) -> list[Any]:
    """The real graphs of a padded batch, each as a batch of its own without a node or edge of padding.

    The rows of graphs stay as many as in the padded batch, the real one first: a model that pools with a
    constant `size` returns as many.
    """
    from torch_geometric.data import Batch, HeteroData

    if isinstance(batch, HeteroData):
        raise ValueError(f"compare_padded takes batches of one node type (got a {type(batch).__name__}).")
    if "graphs_mask" not in batch:
        raise ValueError("The batch has no graphs_mask: make the loader with add_pad_masks=True.")
    count = len(batch["graphs_mask"])
    graphs = []
    for number in batch["graphs_mask"].nonzero().view(-1).tolist():
        graph = batch.get_example(number)
        for mask in ("nodes_mask", "edges_mask", "graphs_mask"):
            if mask in graph:
                del graph[mask]
        alone = Batch.from_data_list([graph])
        for key, value in alone.to_dict().items():
            whole = batch[key]
            if isinstance(value, Tensor) and value.dim() and len(value) == 1 and len(whole) == count:
                alone[key] = torch.cat([value, *[whole[-1:]] * (count - 1)])
        alone["nodes_mask"] = torch.ones(alone.num_nodes, dtype=torch.bool)
        alone["edges_mask"] = torch.ones(alone.num_edges, dtype=torch.bool)
        alone["graphs_mask"] = torch.arange(count) < 1
        alone._num_graphs = count
        graphs.append(alone)
    return graphs


def _compared(batch, graphs, together, apart) -> Iterable[tuple[str, float]]:
    """The largest difference of each result, relative to its largest value."""
    starts = torch.cumsum(torch.tensor([0, *(graph.num_nodes for graph in graphs)]), 0).tolist()
    for place, (name, whole) in enumerate(together):
        singles = [found[place][1] for found in apart if place < len(found)]
        if len(singles) < len(graphs):
            continue
        pairs = []
        if whole.dim() == 0:
            pairs = [(whole, torch.stack(singles).mean())]
        elif whole.size(0) == batch.num_nodes and batch.num_nodes != len(batch["graphs_mask"]):
            pairs = [
                (whole[start : start + graph.num_nodes], single[: graph.num_nodes])
                for start, graph, single in zip(starts, graphs, singles)
            ]
        elif whole.size(0) == len(batch["graphs_mask"]):
            pairs = [(whole[number : number + 1], single[:1]) for number, single in enumerate(singles)]
        for one, other in pairs:
            if one.shape == other.shape and one.numel():
                yield name, float((one - other).abs().max() / other.abs().max().clamp(min=1e-6))
