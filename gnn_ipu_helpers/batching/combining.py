"""Combined batches: several mini-batches in one, as PopTorch feeds them to the device."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from .._backend import poptorch
from .trimming import Trimmed, take_report, with_report


def num_mini_batches(options: Any) -> int:
    """How many mini-batches one call of a wrapped model takes.

    That is device iterations × replicas × gradient accumulation steps, found through PopTorch's own loader.

    Args:
        options: A ``poptorch.Options``, or None for the default ones.
    """
    if options is None:
        return 1
    return poptorch.DataLoader(options, range(1), batch_size=1).combinedBatchSize


def combine_batches(batches: list[Any]) -> Any:
    """Concatenates the tensors of batches of one size on dimension 0: ``edge_index`` gets ``[2k, E]``.

    Everything that is not a tensor (``num_nodes``, ``num_edges`` …) is that of the first mini-batch.

    Args:
        batches: The mini-batches, ``Batch`` objects with the same attributes. The first one is changed.
    """
    combined = batches[0]
    if len(batches) == 1:
        return combined
    trimmed = sum((take_report(batch) for batch in batches), Trimmed())
    for position, store in enumerate(combined.stores):
        others = [batch.stores[position] for batch in batches[1:]]
        for name, value in list(store.items()):
            if isinstance(value, Tensor):
                store[name] = _concatenate(name, [value, *(other[name] for other in others)])
            elif isinstance(value, list):
                store[name] = value + [item for other in others for item in other[name]]
    # The parts can no longer be told apart the way PyG separates a batch.
    combined._slice_dict = combined._inc_dict = None
    return with_report(combined, trimmed)


def _concatenate(name: str, values: list[Tensor]) -> Tensor:
    shapes = {tuple(value.shape) for value in values}
    if len(shapes) > 1:
        raise ValueError(
            f"Mini-batches of different sizes cannot be combined: '{name}' has the shapes "
            f"{[list(shape) for shape in sorted(shapes)]}. FixedSizeDataLoader makes batches of one size."
        )
    return torch.cat(values)
