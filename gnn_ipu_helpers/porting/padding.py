"""Which rows of the inputs are padding, as the fixed-size loaders make it, and other values for those rows.

In a data object the loaders' masks say it: `nodes_mask`, `edges_mask`, `graphs_mask`. Where the tensors of a
batch are passed one by one, their contents say it, whatever they are called: a mask that is True up to some
row and that no edge crosses, a vector `batch` whose last graphs are padding, or an edge list that ends in the
same self-loop repeated.
"""

from __future__ import annotations

import dataclasses
from typing import Sequence

import torch
from torch import Tensor

from .arguments import Leaf

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
            if EDGES in known and leaf.key.startswith("edge") and _fits(known[EDGES], leaf.value):
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
    found = [rows for rows in known if _fits(rows, tensor)]
    same = found and all(torch.equal(rows.real, found[0].real) for rows in found)
    return found[0] if same else None


def _fits(rows: Rows, tensor: Tensor) -> bool:
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
