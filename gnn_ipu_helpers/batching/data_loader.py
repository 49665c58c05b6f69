"""The loader of ordinary batches, whose sizes vary, with PopTorch's combined batches."""

from __future__ import annotations

from typing import Any, Sequence

from torch import Tensor
from torch_geometric.data import Batch, Data

from .planned_loader import BatchSource, PlannedLoader
from .planning import Plan, pad_to_max


class DataLoader(PlannedLoader):
    """PyG's loader for a model wrapped by PopTorch: no padding, for graphs of one size or a single one.

    Args:
        dataset: The graphs.
        batch_size: Graphs in a batch.
        shuffle: A new order every epoch.
        follow_batch: Attributes that get their own ``<name>_batch`` and ``<name>_ptr``.
        exclude_keys: Attributes to leave out.
        options: A ``poptorch.Options``: device iterations, replication and gradient accumulation make
            combined batches, concatenated on dimension 0. The batches in them must have the same size.
        drop_last: Leave out an incomplete last batch.
        kwargs: For ``poptorch.DataLoader``: ``num_workers``, ``sampler``, ``batch_sampler`` …
    """

    def __init__(
        self,
        dataset: Sequence[Data],
        batch_size: int = 1,
        shuffle: bool = False,
        follow_batch: Sequence[str] | None = None,
        exclude_keys: Sequence[str] | None = None,
        options: Any = None,
        drop_last: bool = False,
        **kwargs: Any,
    ) -> None:
        if batch_size < 1:
            raise ValueError(f"batch_size should be at least 1 (got {batch_size}).")

        def make_plan(order: Tensor) -> Plan:
            return pad_to_max(order, batch_size, drop_last)

        source = _OrdinarySource(dataset, follow_batch, exclude_keys)
        super().__init__(
            source, make_plan, any_order=True, shuffle=shuffle, options=options, drop_last=drop_last, **kwargs
        )


class _OrdinarySource(BatchSource):
    """Makes PyG's own batches."""

    def __init__(self, dataset: Sequence[Data], follow_batch: Any, exclude_keys: Any) -> None:
        super().__init__(dataset)
        self._follow_batch, self._exclude_keys = follow_batch, exclude_keys

    def mini_batch(self, entry: Tensor) -> Batch:
        """One batch as PyG makes it."""
        samples = [self.graphs[graph] for graph in entry.tolist()]
        return Batch.from_data_list(samples, self._follow_batch, self._exclude_keys)
