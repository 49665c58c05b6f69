"""Stand-ins for MUTAG and PROTEINS: as many graphs, each as large as the original's and of the same class."""

from __future__ import annotations

from typing import Callable, List, Tuple

import numpy as np
import torch
from torch_geometric.data import Data, InMemoryDataset

from .catalogue import MUTAG, PROTEINS
from .random_integers import RandomIntegers, original_sizes
from .real_data import TUDataset

_C, _N, _O, _F, _I, _CL, _BR = range(7)
_AROMATIC, _SINGLE, _DOUBLE = range(3)
_NUM_ATOM_KINDS, _NUM_BOND_KINDS = 7, 4
# Corners of a hexagon around its centre, and the way to the six neighbouring cells.
_CORNERS = ((0, 2), (1, 1), (1, -1), (0, -2), (-1, -1), (-1, 1))
_NEIGHBOURS = ((2, 0), (-2, 0), (1, 3), (-1, 3), (1, -3), (-1, -3))
# Percent of ring atoms that are nitrogen, and of small substituents that are halogens, by class.
_RING_NITROGEN = (13, 2)
_HALOGEN = (45, 8)
# Percent of helices and of sheets among the elements of a protein, by class; the rest are turns.
_HELIX, _SHEET = (52, 44), (45, 53)
_NUM_ELEMENT_KINDS = 3

Bonds = List[Tuple[int, int, int]]


def make_mutag() -> TUDataset:
    """188 connected graphs: fused hexagonal rings with nitro groups and other substituents.

    Each has x `[n, 7]`, edge_index `[2, e]`, edge_attr `[e, 4]` and y `[1]`.
    """
    sizes = {"num_node_attributes": 0, "num_node_labels": 7, "num_edge_attributes": 0, "num_edge_labels": 4}
    return _make(MUTAG.name, _aromatic_molecule, 4, sizes)


def make_proteins() -> TUDataset:
    """1113 connected graphs: chains folded in space, linked along the chain and to what lies close.

    Each has x `[n, 3]`, edge_index `[2, e]` and y `[1]`.
    """
    sizes = {"num_node_attributes": 1, "num_node_labels": 3, "num_edge_attributes": 0, "num_edge_labels": 0}
    return _make(PROTEINS.name, _folded_chain, 5, sizes)


def _make(name: str, make_graph: Callable[..., Data], seed: int, sizes: dict[str, int]) -> TUDataset:
    """Graphs of the original's numbers of nodes and edges and of its labels, in its order."""
    draws = RandomIntegers(seed)
    graphs = [make_graph(draws, *figures) for figures in original_sizes(name.lower()).tolist()]
    return TUDataset.made(*InMemoryDataset.collate(graphs), name=name, cleaned=False, sizes=sizes)


def _aromatic_molecule(draws: RandomIntegers, num_nodes: int, num_edges: int, label: int) -> Data:
    num_rings = num_edges // 2 - num_nodes + 1
    atoms, bonds = _rings(draws, num_rings, num_nodes)
    _place_ring_nitrogen(draws, atoms, bonds, _RING_NITROGEN[label])
    _attach_groups(draws, atoms, bonds, num_nodes, _HALOGEN[label])
    begin, end, kind = np.array(bonds).T
    row, col = np.concatenate([begin, end]), np.concatenate([end, begin])
    order = np.lexsort((col, row))
    return Data(
        edge_index=torch.from_numpy(np.stack([row, col])[:, order]),
        x=torch.eye(_NUM_ATOM_KINDS)[torch.tensor(atoms)],
        edge_attr=torch.eye(_NUM_BOND_KINDS)[torch.from_numpy(np.concatenate([kind, kind])[order])],
        y=torch.tensor([label]),
    )


def _rings(draws: RandomIntegers, num_rings: int, num_nodes: int) -> tuple[list[int], Bonds]:
    """Carbon atoms and aromatic bonds of so many fused hexagons, with room for a nitro group if possible."""
    room = 3
    for attempt in range(100):
        atoms, bonds = _hexagons(_patch(draws, num_rings, is_compact=attempt >= 10))
        has_hole = len(bonds) - len(atoms) + 1 != num_rings
        if not has_hole and len(atoms) + room <= num_nodes:
            break
        room = 3 if attempt < 20 else 0
    return atoms, bonds


def _patch(draws: RandomIntegers, num_cells: int, is_compact: bool) -> list[tuple[int, int]]:
    cells = [(0, 0)]
    while len(cells) < num_cells:
        around = sorted({(x + dx, y + dy) for x, y in cells for dx, dy in _NEIGHBOURS} - set(cells))
        if is_compact:
            touching = [sum((x + dx, y + dy) in cells for dx, dy in _NEIGHBOURS) for x, y in around]
            around = [cell for cell, count in zip(around, touching) if count == max(touching)]
        cells.append(around[int(draws.below(len(around), 1)[0])])
    return cells


def _hexagons(cells: list[tuple[int, int]]) -> tuple[list[int], Bonds]:
    index: dict[tuple[int, int], int] = {}
    bonds = set()
    for x, y in cells:
        ring = [index.setdefault((x + dx, y + dy), len(index)) for dx, dy in _CORNERS]
        bonds |= {(min(pair), max(pair), _AROMATIC) for pair in zip(ring, ring[1:] + ring[:1])}
    return [_C] * len(index), sorted(bonds)


def _open_sites(atoms: list[int], bonds: Bonds, num_ring_atoms: int) -> list[int]:
    degree = np.bincount(np.array(bonds)[:, :2].ravel(), minlength=len(atoms))
    return [atom for atom in range(num_ring_atoms) if atoms[atom] == _C and degree[atom] == 2]


def _place_ring_nitrogen(draws: RandomIntegers, atoms: list[int], bonds: Bonds, percent: float) -> None:
    sites = _open_sites(atoms, bonds, len(atoms))
    for site, is_nitrogen in zip(sites, draws.chance(percent, len(sites))):
        if is_nitrogen:
            atoms[site] = _N


def _attach_groups(
    draws: RandomIntegers, atoms: list[int], bonds: Bonds, num_nodes: int, halogen: float
) -> None:
    """Fill up to `num_nodes` atoms: a nitro group first, then more of them or single atoms."""
    num_ring_atoms, has_nitro = len(atoms), False
    while len(atoms) < num_nodes:
        sites = _open_sites(atoms, bonds, num_ring_atoms)
        is_wide = num_nodes - len(atoms) >= 3
        if not sites:
            sites = [atom for atom in range(num_ring_atoms, len(atoms)) if atoms[atom] == _C] or [0]
        site = sites[int(draws.below(len(sites), 1)[0])]
        if is_wide and (not has_nitro or draws.chance(40, 1)[0] or len(sites) <= 2):
            _bond_nitro(atoms, bonds, site)
            has_nitro = True
        else:
            atoms.append(_small_group(draws, halogen))
            bonds.append((site, len(atoms) - 1, _SINGLE))


def _bond_nitro(atoms: list[int], bonds: Bonds, site: int) -> None:
    nitrogen = len(atoms)
    atoms += [_N, _O, _O]
    bonds += [(site, nitrogen, _SINGLE), (nitrogen, nitrogen + 1, _DOUBLE), (nitrogen, nitrogen + 2, _SINGLE)]


def _small_group(draws: RandomIntegers, halogen: float) -> int:
    if draws.chance(halogen, 1)[0]:
        return (_CL, _CL, _F, _BR, _CL, _F, _I)[int(draws.below(7, 1)[0])]
    return (_C, _C, _O, _N)[int(draws.below(4, 1)[0])]


def _folded_chain(draws: RandomIntegers, num_nodes: int, num_edges: int, label: int) -> Data:
    """A random walk on a grid; links join neighbours on the chain, then whatever lies closest."""
    steps = draws.below(7, 3 * num_nodes).reshape(num_nodes, 3) - 3
    place = np.cumsum(steps, axis=0)
    squared = ((place[:, None] - place[None]) ** 2).sum(axis=-1)
    row, col = np.triu_indices(num_nodes, k=1)
    on_chain = col == row + 1
    chosen = np.lexsort((col, row, squared[row, col], ~on_chain))[: num_edges // 2]
    row, col = np.concatenate([row[chosen], col[chosen]]), np.concatenate([col[chosen], row[chosen]])
    order = np.lexsort((col, row))
    roll = draws.below(100, num_nodes)
    kind = (roll >= _HELIX[label]).astype(np.int64) + (roll >= _HELIX[label] + _SHEET[label])
    return Data(
        edge_index=torch.from_numpy(np.stack([row, col])[:, order]),
        x=torch.eye(_NUM_ELEMENT_KINDS)[torch.from_numpy(kind)],
        y=torch.tensor([label]),
    )
