"""How many nodes and edges each graph of a dataset has, read from the layout where it tells."""

from __future__ import annotations

from typing import Sequence

import torch
from torch import Tensor
from torch_geometric.data import Data
from tqdm.auto import tqdm

from .in_memory import table_of_dataset
from .schema import Group, Schema, SchemaBuilder

# From this many graphs on, reading them one by one takes long enough for a progress bar.
_PROGRESS_FROM = 10_000


def sizes_of(
    dataset: Sequence[Data], sample_limit: int | None = None, progress_bar: bool | None = None
) -> dict[Group, Tensor]:
    """The number of nodes and edges of each graph.

    Returns:
        For each node type and edge type the counts ``[num_graphs_looked_at]``.
    """
    table = table_of_dataset(dataset)
    if table is not None:
        looked_at = _evenly(len(dataset), sample_limit)
        return {group: counts[looked_at] for group, counts in table.counts.items()}
    return scan(dataset, sample_limit=sample_limit, progress_bar=progress_bar)[0]


def scan(
    dataset: Sequence[Data],
    exclude_keys: Sequence[str] = (),
    sample_limit: int | None = None,
    progress_bar: bool | None = None,
) -> tuple[dict[Group, Tensor], Schema]:
    """Reads the graphs of a dataset one by one for their sizes and attributes.

    Args:
        dataset: Graphs, all homogeneous or all heterogeneous.
        exclude_keys: Attributes to ignore.
        sample_limit: Look at no more than this many graphs, evenly spread (default: at all).
        progress_bar: Show progress (default: from 10,000 graphs on).

    Returns:
        The counts ``[num_graphs_looked_at]`` for each node type and edge type, and the schema.
    """
    if len(dataset) == 0:
        raise ValueError("The dataset is empty (got 0 graphs): at least one graph is needed.")
    looked_at = _evenly(len(dataset), sample_limit)
    if progress_bar is None:
        progress_bar = len(looked_at) >= _PROGRESS_FROM
    builder = SchemaBuilder(exclude_keys)
    rows: list[dict[Group, int]] = []
    for index in tqdm(looked_at, desc="Reading sizes", disable=not progress_bar):
        rows.append(builder.add(dataset[index]))
    schema = builder.build()
    counts = {group: torch.tensor([row.get(group, 0) for row in rows]) for group in schema.groups}
    return counts, schema


def _evenly(length: int, limit: int | None) -> list[int]:
    if limit is None or limit >= length:
        return list(range(length))
    return torch.linspace(0, length - 1, max(limit, 1)).long().tolist()
