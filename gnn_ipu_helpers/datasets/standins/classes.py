"""PyG's dataset classes over data made in memory: nothing is downloaded, processed or kept on disk."""

from __future__ import annotations

import torch_geometric.datasets as pyg
from torch import Tensor
from torch_geometric.data import Data, HeteroData, InMemoryDataset


class _InMemory:
    """Lets a PyG dataset class start from a collated graph and its slices."""

    has_download = False
    has_process = False

    def _fill(self, data, slices: dict[str, Tensor] | None) -> None:
        InMemoryDataset.__init__(self)
        self.data, self.slices = data, slices


class Planetoid(_InMemory, pyg.Planetoid):
    """A citation graph with Planetoid's interface."""

    def __init__(self, name: str, data: Data):
        self.name, self.split = name, "public"
        self._fill(data, None)


class TUDataset(_InMemory, pyg.TUDataset):
    """Labelled graphs with TUDataset's interface."""

    def __init__(self, name: str, graphs: list[Data], sizes: dict[str, int]):
        self.name, self.cleaned, self.sizes = name, False, sizes
        self._fill(*InMemoryDataset.collate(graphs))


class IMDB(_InMemory, pyg.IMDB):
    """A graph of movies with IMDB's interface."""

    def __init__(self, data: HeteroData):
        self._fill(data, None)


class QM9(_InMemory, pyg.QM9):
    """Molecules with QM9's interface."""

    def __init__(self, data: Data, slices: dict[str, Tensor]):
        self._fill(data, slices)
