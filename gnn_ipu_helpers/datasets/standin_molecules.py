"""Stand-in for QM9: real molecules of C, N, O, F and H from a file that `tools/make_molecules.py` makes.

Features follow PyG's QM9, whose columns for aromaticity and hybridisation are always 0 and whose bonds are
single, double or triple. Geometries are MMFF94 minima. The nineteen targets, in QM9's order and units:

| column | target | made by |
|---|---|---|
| 0 | dipole moment, D | GFN2-xTB |
| 1 | isotropic polarisability, bohr^3 | GFN2-xTB, dipoles in a small electric field |
| 2, 3, 4 | HOMO, LUMO and their gap, eV | GFN2-xTB |
| 5 | electronic spatial extent, bohr^2 | estimate: GFN2-xTB's atomic charges, spread like free atoms |
| 6 | zero-point vibrational energy, eV | harmonic, Hessian of MMFF94 (RDKit) |
| 7 | U0, eV | GFN2-xTB's energy (valence electrons only) plus column 6 |
| 8, 9, 10 | U, H, G at 298.15 K, eV | column 7 plus ideal gas, rigid rotor, harmonic oscillator |
| 11 | heat capacity at 298.15 K, cal/(mol K) | the same |
| 12, 13, 14, 15 | atomisation U0, U, H, G, eV | columns 7 to 10 less the free atoms in GFN2-xTB |
| 16, 17, 18 | rotational constants, GHz | geometry; 0 for the axis of a linear molecule |

No target is left out. They are GFN2-xTB's values, not those of the density functional behind QM9: gaps are
smaller and total energies lack the core electrons. Their sizes are those of QM9 in the mean (17.8 atoms, QM9
18.0) and in the largest (28, QM9 29), not molecule by molecule: these are other molecules.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

from .real_data import QM9

FILE = Path(__file__).with_name("molecules.npz")
_ELEMENTS = np.array([1, 6, 7, 8, 9])
_NUM_BOND_KINDS = 4
_UNUSED = 4  # aromatic, sp, sp2, sp3


def read_molecules() -> QM9:
    """All molecules, collated as PyG's QM9 keeps them."""
    with np.load(FILE, allow_pickle=False) as arrays:
        atoms, bonds = arrays["num_atoms"].astype(np.int64), arrays["num_bonds"].astype(np.int64)
        z, pairs, positions = arrays["z"], arrays["bonds"].astype(np.int64), arrays["pos"]
        targets = arrays["y"]
        smiles = arrays["smiles"].tobytes().decode("ascii").split("\n")
    atom_slice, edge_slice = _starts(atoms), _starts(2 * bonds)
    edge_index, edge_attr = _edges(pairs, np.repeat(np.arange(len(bonds)), bonds), int(atoms.max()))
    count = len(atoms)
    data = Data(
        x=_node_features(z, edge_index, np.repeat(atom_slice[:-1], 2 * bonds)),
        edge_index=torch.from_numpy(edge_index),
        edge_attr=edge_attr,
        y=torch.from_numpy(targets),
        pos=torch.from_numpy(positions.astype(np.float32) / np.float32(1000)),
        z=torch.from_numpy(z.astype(np.int64)),
        name=[f"xtb_{number}" for number in range(1, count + 1)],
        smiles=smiles,
        idx=torch.arange(count),
    )
    per_atom, per_edge = torch.from_numpy(atom_slice), torch.from_numpy(edge_slice)
    slices = {"edge_index": per_edge, "edge_attr": per_edge, "x": per_atom, "pos": per_atom, "z": per_atom}
    slices.update({key: torch.arange(count + 1) for key in ("y", "name", "smiles", "idx")})
    return QM9.made(data, slices)


def _starts(sizes: np.ndarray) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(sizes)])


def _edges(pairs: np.ndarray, molecule: np.ndarray, most_atoms: int) -> tuple[np.ndarray, Tensor]:
    """Each bond both ways, sorted by molecule, then by its ends: `[2, e]` and one-hot order `[e, 4]`."""
    begin, end, order = pairs.T
    row, col = np.concatenate([begin, end]), np.concatenate([end, begin])
    place = np.argsort((np.tile(molecule, 2) * most_atoms + row) * most_atoms + col, kind="stable")
    kind = torch.from_numpy(np.tile(order - 1, 2)[place])
    return np.stack([row, col])[:, place], torch.eye(_NUM_BOND_KINDS)[kind]


def _node_features(z: np.ndarray, edge_index: np.ndarray, offset: np.ndarray) -> Tensor:
    """One-hot element, atomic number, four unused columns, number of hydrogens: float32 `[num_atoms, 11]`."""
    element = (z[:, None] == _ELEMENTS).astype(np.float32)
    row, col = edge_index + offset
    hydrogens = np.bincount(col, weights=z[row] == 1, minlength=len(z)).astype(np.float32)
    unused = np.zeros((len(z), _UNUSED), dtype=np.float32)
    return torch.from_numpy(np.column_stack([element, z.astype(np.float32), unused, hydrogens]))
