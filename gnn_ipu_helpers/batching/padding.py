"""Where real and padding rows go in a batch of fixed size: the arithmetic, for many batches at once."""

from __future__ import annotations

from typing import Any, NamedTuple, Sequence

import torch
from torch import Tensor

from .options import FixedSizeOptions
from .schema import EDGE, GRAPH, NODE, Field, Group, end_points
from .table import GraphTable, spans, within


class Prepared(NamedTuple):
    """Which rows of a table make up one batch, and where they go. N padded rows of a group, P graphs.

    Args:
        places: The real graphs' positions in graph-level columns.
        rows: For each group the table's rows of its real nodes or edges.
        ptr: For each group where each graph begins in the batch, ``[P + 1]``, padding graphs included.
        graph_of: For each group asked for, the graph that each row belongs to, ``[N]``.
        steps: By position of the field, what is added to the values of each graph, ``[P]`` or ``[2, P]``.
        offsets: The same for each row, ``[N]`` or ``[2, N]``.
    """

    places: Tensor
    rows: dict[Group, Tensor]
    ptr: dict[Group, Tensor]
    graph_of: dict[Group, Tensor]
    steps: dict[int, Tensor]
    offsets: dict[int, Tensor]


def prepare(
    table: GraphTable, batches: Sequence[Tensor], options: FixedSizeOptions, followed: Sequence[Group]
) -> list[Prepared]:
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
    counts = {group: count[graphs] for group, count in table.counts.items()}
    check_fit(table, batches, options)
    padded = _padded(counts, slots, sizes, options)
    ptr = {group: _ptr(matrix) for group, matrix in padded.items()}
    numbers = torch.arange(options.num_graphs).expand(len(sizes), -1)
    steps = {i: _steps(table, i, graphs, slots, ptr) for i in table.shifts}
    per_batch = (
        {group: _rows(table.starts[group][graphs], counts[group], slots[0], len(sizes)) for group in counts},
        _unbind(ptr),
        _unbind({group: _spread(numbers, padded[group]) for group in followed}),
        _unbind(steps),
        _unbind({i: _offsets(table.schema.fields[i], step, padded, options) for i, step in steps.items()}),
    )
    split = table.places[graphs].split(sizes.tolist())
    return [
        Prepared(split[i], *({key: values[i] for key, values in part.items()} for part in per_batch))
        for i in range(len(sizes))
    ]


def check_fit(table: GraphTable, batches: Sequence[Tensor], options: FixedSizeOptions) -> None:
    """Raises if a batch has more graphs, nodes or edges than fit beside the padding."""
    most_graphs = max(len(batch) for batch in batches)
    if most_graphs >= options.num_graphs:
        raise ValueError(
            f"A batch of {most_graphs} graphs does not fit: num_graphs={options.num_graphs} leaves room "
            f"for {options.num_graphs - 1}, one being reserved for padding. Raise num_graphs or make smaller "
            "batches."
        )
    for group in table.counts:
        totals = _totals(table, group, batches)
        if int(totals.max()) > largest_fill(group, options):
            _raise_too_large(table, group, batches[int(totals.argmax())], options)


def fits(table: GraphTable, batches: Sequence[Tensor], options: FixedSizeOptions) -> bool:
    """Whether all batches have no more nodes and edges than fit beside the padding."""
    return all(
        int(_totals(table, group, batches).max()) <= largest_fill(group, options) for group in table.counts
    )


def _totals(table: GraphTable, group: Group, batches: Sequence[Tensor]) -> Tensor:
    """The real nodes or edges of each batch, ``[M]``."""
    sizes = torch.tensor([len(batch) for batch in batches])
    batch_of = torch.repeat_interleave(torch.arange(len(sizes)), sizes)
    counts = table.counts[group][torch.cat(list(batches))]
    return torch.zeros(len(sizes), dtype=torch.long).index_add_(0, batch_of, counts)


def largest_fill(group: Group, options: FixedSizeOptions) -> int:
    """How many real nodes or edges of a type a batch can hold: one node is always padding."""
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
        "fewer "
        "graphs into a batch (FixedSizeStrategy.StreamPack and Pack do so by themselves), or choose another "
        "over_size_strategy: OverSizeStrategy.Skip leaves such graphs out, TrimNodesAndEdges cuts them down."
    )


def _padded(
    counts: dict[Group, Tensor], slots: tuple[Tensor, Tensor], sizes: Tensor, options: FixedSizeOptions
) -> dict[Group, Tensor]:
    """The rows of every graph of every batch, padding graphs included, ``[M, P]`` for each group.

    Padding is split evenly over the padding graphs, the first ones taking the remainder. Where there are
    fewer padding nodes than padding graphs, the last graphs stay empty and carry no edges either.
    """
    place = torch.arange(options.num_graphs) - sizes.unsqueeze(1)
    num_padding = options.num_graphs - sizes
    padded, with_nodes = {}, {}
    for group, count in sorted(counts.items(), key=lambda item: item[0][0] != NODE):
        matrix = torch.zeros(len(sizes), options.num_graphs, dtype=torch.long)
        matrix[slots] = count
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


def _ptr(counts: Tensor) -> Tensor:
    return torch.nn.functional.pad(counts.cumsum(1), (1, 0))


def _spread(values: Tensor, counts: Tensor) -> Tensor:
    """Repeats each graph's value for each of its rows: ``[M, P]`` to ``[M, N]``."""
    return torch.repeat_interleave(values.reshape(-1), counts.reshape(-1)).view(len(counts), -1)


def _rows(starts: Tensor, counts: Tensor, batch_of: Tensor, num_batches: int) -> tuple[Tensor, ...]:
    """The table's rows of all graphs, one tensor for each batch."""
    rows = spans(starts, counts)
    totals = torch.zeros(num_batches, dtype=torch.long).index_add_(0, batch_of, counts)
    return rows.split(totals.tolist())


def _steps(
    table: GraphTable, position: int, graphs: Tensor, slots: tuple[Tensor, Tensor], ptr: dict[Group, Tensor]
) -> Tensor:
    """What each graph's values of a field are moved by, ``[M, P]`` or ``[M, 2, P]``."""
    field, shift = table.schema.fields[position], table.shifts[position]
    if shift is None and field.level == EDGE and field.store is not None:
        return torch.stack([ptr[end][:, :-1] for end in end_points(field.store)], dim=1)
    if shift is None:
        return ptr[NODE, field.store][:, :-1]
    first = next(iter(ptr.values()))
    matrix = torch.zeros(len(first), first.size(1) - 1, shift.size(1), dtype=torch.long)
    matrix[slots] = shift[graphs]
    moved = (matrix.cumsum(1) - matrix).transpose(1, 2)
    return moved.squeeze(1) if shift.size(1) == 1 else moved


def _offsets(field: Field, steps: Tensor, padded: dict[Group, Tensor], options: FixedSizeOptions) -> Tensor:
    """The same for each row of the batch, ``[M, N]`` or ``[M, 2, N]``."""
    if field.level == GRAPH:
        # An empty padding graph begins behind the last node.
        last = options.total_num_nodes - 1
        return steps.clamp(max=last).repeat_interleave(field.rows, dim=-1)
    counts = padded[field.group]
    if steps.dim() == 2:
        return _spread(steps, counts)
    return torch.stack([_spread(side, counts) for side in steps.unbind(1)], dim=1)


def _unbind(parts: dict[Any, Tensor]) -> dict[Any, tuple[Tensor, ...]]:
    return {key: part.unbind(0) for key, part in parts.items()}
