"""Where real and padding rows go in a batch of fixed size: the arithmetic, for many batches at once."""

from __future__ import annotations

from typing import NamedTuple, Sequence

import torch
from torch import Tensor

from .options import FixedSizeOptions
from .schema import EDGE, GRAPH, NODE, Field, Group, end_points
from .table import GraphTable, spans, within

# Graphs are rows as well: those of graph-level attributes.
GRAPHS: Group = (GRAPH, None)


class Layout(NamedTuple):
    """Where the rows of M batches come from and go to. N padded rows of a group, P graphs in a batch.

    Args:
        num_real: For each group the number of real rows in each batch.
        rows: For each group the table's rows of all batches, one after another, without padding.
        ptr: For each group where each graph begins in its batch, ``[M, P + 1]``.
        graph_of: For each group the graph that each row of a padded batch belongs to, ``[M, N]``.
        steps: By position of the field, what is added to the values of each graph, ``[M, P]`` or
            ``[M, 2, P]``.
        offsets: The same for each row of a padded batch, ``[M, N]`` or ``[M, 2, N]``.
    """

    num_real: dict[Group, list[int]]
    rows: dict[Group, Tensor]
    ptr: dict[Group, Tensor]
    graph_of: dict[Group, Tensor]
    steps: dict[int, Tensor]
    offsets: dict[int, Tensor]


def lay_out(
    table: GraphTable, batches: Sequence[Tensor], options: FixedSizeOptions, followed: Sequence[Group]
) -> Layout:
    """Works out rows, padding and offsets of many batches at once.

    Args:
        table: The graphs.
        batches: For each batch the positions of its real graphs in the table.
        options: The fixed size.
        followed: The groups whose rows need to know their graph.
    """
    sizes = torch.tensor([len(batch) for batch in batches])
    graphs = torch.cat(list(batches))
    slots = (torch.repeat_interleave(torch.arange(len(sizes)), sizes), within(sizes))
    counts = {group: count.index_select(0, graphs) for group, count in table.counts.items()}
    matrices = {
        group: _matrix(count, slots, (len(sizes), options.num_graphs)) for group, count in counts.items()
    }
    num_real = {group: matrix.sum(1).tolist() for group, matrix in matrices.items()}
    num_real[GRAPHS] = sizes.tolist()
    _check_fit(table, batches, num_real, options)
    padded = _padded(matrices, sizes, options)
    padded[GRAPHS] = torch.ones(len(sizes), options.num_graphs, dtype=torch.long)
    rows = {group: spans(table.starts[group].index_select(0, graphs), counts[group]) for group in counts}
    rows[GRAPHS] = table.places.index_select(0, graphs)
    ptr = {group: torch.nn.functional.pad(matrix.cumsum(1), (1, 0)) for group, matrix in padded.items()}
    steps = {i: _steps(table, i, graphs, slots, ptr) for i in table.shifts}
    offsets = {i: _offsets(table.schema.fields[i], step, padded) for i, step in steps.items()}
    numbers = torch.arange(options.num_graphs).expand(len(sizes), -1)
    graph_of = {group: _spread(numbers, padded[group]) for group in followed}
    return Layout(num_real, rows, ptr, graph_of, steps, offsets)


def _matrix(values: Tensor, slots: tuple[Tensor, Tensor], shape: tuple[int, ...]) -> Tensor:
    """Values of real graphs, each in the slot of its graph; 0 for padding graphs."""
    matrix = torch.zeros(shape, dtype=torch.long)
    matrix[slots] = values
    return matrix


def _check_fit(
    table: GraphTable,
    batches: Sequence[Tensor],
    num_real: dict[Group, list[int]],
    options: FixedSizeOptions,
) -> None:
    """Raises if a batch has more graphs, nodes or edges than fit beside the padding."""
    for group, totals in num_real.items():
        most = max(totals)
        if most <= largest_fill(group, options):
            continue
        if group == GRAPHS:
            raise ValueError(
                f"A batch of {most} graphs does not fit: num_graphs={options.num_graphs} leaves room for "
                f"{options.num_graphs - 1}, one being reserved for padding. Raise num_graphs or make smaller "
                "batches."
            )
        _raise_too_large(table, group, batches[totals.index(most)], options)


def fits(table: GraphTable, graphs: Tensor, options: FixedSizeOptions) -> bool:
    """Whether the graphs at these positions have no more nodes and edges than fit beside padding."""
    return all(int(table.counts[g][graphs].sum()) <= largest_fill(g, options) for g in table.counts)


def largest_fill(group: Group, options: FixedSizeOptions) -> int:
    """How many real nodes, edges or graphs a batch can hold: one node and one graph are always padding."""
    if group == GRAPHS:
        return options.num_graphs - 1
    return options.budget(group) - (1 if group[0] == NODE else 0)


def _raise_too_large(table: GraphTable, group: Group, batch: Tensor, options: FixedSizeOptions) -> None:
    counts = table.counts[group][batch]
    largest, total = int(counts.max()), int(counts.sum())
    what, room = kind_of(group), largest_fill(group, options)
    graph = f"Graph {int(table.ids[batch[counts.argmax()]])} with {largest} {what}"
    if largest > room:
        raise ValueError(f"{graph} does not fit: {_advice(group, largest, options)}")
    raise ValueError(
        f"The {len(batch)} graphs of a batch, with {total} {what} together, do not fit (the largest is "
        f"{graph[0].lower()}{graph[1:]}): {_advice(group, total, options)}"
    )


def kind_of(group: Group) -> str:
    """What a group is called in messages."""
    level, key = group
    return f"{level}s" if key is None else f"{level}s of type {key!r}"


def _advice(group: Group, total: int, options: FixedSizeOptions) -> str:
    name, budget, room = f"num_{group[0]}s", options.budget(group), largest_fill(group, options)
    return (
        f"{name}={budget} leaves room for {room}. Raise {name} to at least {total + budget - room}, put "
        "fewer graphs into a batch (FixedSizeStrategy.StreamPack and Pack do so by themselves), or choose "
        "another over_size_strategy: OverSizeStrategy.Skip leaves such graphs out, TrimNodesAndEdges cuts "
        "them down."
    )


def _padded(counts: dict[Group, Tensor], sizes: Tensor, options: FixedSizeOptions) -> dict[Group, Tensor]:
    """The rows of every graph with padding graphs included, ``[M, P]`` for each group.

    Padding is split evenly over the padding graphs, the first ones taking the remainder. Where there are
    fewer padding nodes than padding graphs, the last graphs stay empty and carry no edges either.

    Args:
        counts: The rows of real graphs, ``[M, P]`` for each group.
        sizes: The number of real graphs in each batch, ``[M]``.
        options: The fixed size.
    """
    place = torch.arange(options.num_graphs) - sizes.unsqueeze(1)
    num_padding = options.num_graphs - sizes
    padded, with_nodes = {}, {}
    for group, matrix in sorted(counts.items(), key=lambda item: item[0][0] != NODE):
        spare = options.budget(group) - matrix.sum(1)
        if group[0] == NODE:
            carriers = num_padding
            with_nodes[group] = torch.minimum(num_padding, spare)
        else:
            carriers = torch.minimum(*(with_nodes[end] for end in end_points(group[1])))
        share = torch.div(spare, carriers, rounding_mode="floor").unsqueeze(1)
        extra = (spare % carriers).unsqueeze(1)
        is_carrier = (place >= 0) & (place < carriers.unsqueeze(1))
        padded[group] = matrix + is_carrier * (share + (place < extra))
    return padded


def _spread(values: Tensor, counts: Tensor) -> Tensor:
    """Repeats each graph's value for each of its rows: ``[M, P]`` to ``[M, N]``."""
    return torch.repeat_interleave(values.reshape(-1), counts.reshape(-1)).view(len(counts), -1)


def _steps(
    table: GraphTable, position: int, graphs: Tensor, slots: tuple[Tensor, Tensor], ptr: dict[Group, Tensor]
) -> Tensor:
    """What each graph's values of a field are moved by, ``[M, P]`` or ``[M, 2, P]``."""
    field, shift = table.schema.fields[position], table.shifts[position]
    if shift is None and field.level == EDGE and field.store is not None:
        return torch.stack([ptr[end][:, :-1] for end in end_points(field.store)], dim=1)
    if shift is None:
        nodes = ptr[NODE, field.store]
        # An empty padding graph begins behind the last node, which is no node to point at.
        return nodes[:, :-1].clamp(max=int(nodes[0, -1]) - 1)
    num_batches, num_graphs = ptr[GRAPHS].size(0), ptr[GRAPHS].size(1) - 1
    matrix = _matrix(shift[graphs], slots, (num_batches, num_graphs, shift.size(1)))
    steps = (matrix.cumsum(1) - matrix).transpose(1, 2)
    return steps.squeeze(1) if shift.size(1) == 1 else steps


def _offsets(field: Field, steps: Tensor, padded: dict[Group, Tensor]) -> Tensor:
    """The steps, for each row of each batch: ``[M, N]`` or ``[M, 2, N]``."""
    if field.level == GRAPH:
        return steps.repeat_interleave(field.rows, dim=-1)
    if steps.dim() == 2:
        return _spread(steps, padded[field.group])
    return torch.stack([_spread(side, padded[field.group]) for side in steps.unbind(1)], dim=1)
