"""Stand-in for MUTAG: fused hexagonal rings with nitro groups and other substituents."""

from __future__ import annotations

from typing import List, Tuple

import numpy as np
import torch
from torch_geometric.data import Data

from .draws import Draws

_SEED = 4
# The original's joint counts: nodes, edges, graphs of class 0, graphs of class 1.
_SIZES = (
    "10 20 2 0, 11 22 14 0, 12 24 3 2, 12 26 4 4, 13 26 2 2, 13 28 12 1, 14 28 3 0, 14 30 4 0, 15 32 2 0, "
    "15 34 0 5, 16 34 8 4, 16 36 1 3, 17 36 1 1, 17 38 0 16, 18 38 0 2, 18 40 0 2, 19 40 1 2, 19 42 0 3, "
    "19 44 0 10, 20 44 1 7, 20 46 0 6, 21 44 1 4, 21 46 1 0, 21 48 0 2, 22 46 1 0, 22 48 1 0, 22 50 0 13, "
    "23 48 0 1, 23 50 0 2, 23 52 0 1, 23 54 0 14, 24 50 1 3, 25 56 0 4, 25 58 0 2, 26 56 0 1, 26 60 0 4, "
    "27 66 0 1, 28 62 0 1, 28 66 0 2"
)
_FIRST = ((17, 38, 1), (13, 28, 0))
_C, _N, _O, _F, _I, _CL, _BR = range(7)
_AROMATIC, _SINGLE, _DOUBLE = range(3)
_NUM_ATOM_KINDS, _NUM_BOND_KINDS = 7, 4
# Corners of a hexagon around its centre, and the way to the six neighbouring cells.
_CORNERS = ((0, 2), (1, 1), (1, -1), (0, -2), (-1, -1), (-1, 1))
_NEIGHBOURS = ((2, 0), (-2, 0), (1, 3), (-1, 3), (1, -3), (-1, -3))
# Percent of ring atoms that are nitrogen, and of small substituents that are halogens, by class.
_RING_NITROGEN = (13, 2)
_HALOGEN = (45, 8)

Bonds = List[Tuple[int, int, int]]


def make_aromatics() -> list[Data]:
    """188 connected graphs with x `[n, 7]`, edge_index `[2, e]`, edge_attr `[e, 4]` and y `[1]`."""
    draws = Draws(_SEED)
    sizes = _sizes()
    for graph in _FIRST:
        sizes.remove(graph)
    order = draws.order(len(sizes))
    return [_make_graph(draws, *size) for size in (*_FIRST, *(sizes[index] for index in order))]


def _sizes() -> list[tuple[int, int, int]]:
    sizes = []
    for row in _SIZES.split(","):
        num_nodes, num_edges, *counts = map(int, row.split())
        for label, count in enumerate(counts):
            sizes += [(num_nodes, num_edges, label)] * count
    return sizes


def _make_graph(draws: Draws, num_nodes: int, num_edges: int, label: int) -> Data:
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


def _rings(draws: Draws, num_rings: int, num_nodes: int) -> tuple[list[int], Bonds]:
    """Carbon atoms and aromatic bonds of so many fused hexagons, with room for a nitro group if possible."""
    room = 3
    for attempt in range(100):
        atoms, bonds = _hexagons(_patch(draws, num_rings, is_compact=attempt >= 10))
        has_hole = len(bonds) - len(atoms) + 1 != num_rings
        if not has_hole and len(atoms) + room <= num_nodes:
            break
        room = 3 if attempt < 20 else 0
    return atoms, bonds


def _patch(draws: Draws, num_cells: int, is_compact: bool) -> list[tuple[int, int]]:
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


def _place_ring_nitrogen(draws: Draws, atoms: list[int], bonds: Bonds, percent: float) -> None:
    sites = _open_sites(atoms, bonds, len(atoms))
    for site, is_nitrogen in zip(sites, draws.chance(percent, len(sites))):
        if is_nitrogen:
            atoms[site] = _N


def _attach_groups(draws: Draws, atoms: list[int], bonds: Bonds, num_nodes: int, halogen: float) -> None:
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


def _small_group(draws: Draws, halogen: float) -> int:
    if draws.chance(halogen, 1)[0]:
        return (_CL, _CL, _F, _BR, _CL, _F, _I)[int(draws.below(7, 1)[0])]
    return (_C, _C, _O, _N)[int(draws.below(4, 1)[0])]
