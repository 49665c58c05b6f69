"""The molecules that stand in for QM9: real ones, in PyG's schema, in one small file without pickles."""

import numpy as np
import pytest
import torch

from gnn_ipu_helpers.datasets.standin_molecules import FILE

VALENCE = {1: 1, 6: 4, 7: 3, 8: 2, 9: 1}


@pytest.fixture
def molecules(stand_in):
    return stand_in("qm9")


def test_the_file_is_small_and_holds_plain_arrays_only():
    assert FILE.stat().st_size <= 3_000_000
    with np.load(FILE, allow_pickle=False) as arrays:
        assert all(arrays[name].dtype != object for name in arrays.files)


def test_there_are_enough_of_them_and_all_are_different(molecules):
    assert len(molecules) >= 5000
    assert len(set(molecules._data.smiles)) == len(molecules)


def test_they_are_as_large_as_qm9s(molecules):
    sizes = molecules.slices["x"].diff()
    heavy = torch.tensor([int((molecule.z > 1).sum()) for molecule in molecules])
    assert int(sizes.max()) <= 29
    assert 17.5 < float(sizes.float().mean()) < 18.5
    assert int(heavy.max()) == 9
    assert set(molecules._data.z.unique().tolist()) == set(VALENCE)


def test_every_atom_has_its_valence(molecules):
    data, slices = molecules._data, molecules.slices
    offset = torch.repeat_interleave(slices["x"][:-1], slices["edge_index"].diff())
    order = data.edge_attr @ torch.tensor([1.0, 2.0, 3.0, 1.5])
    bonds = torch.zeros(data.num_nodes).index_add_(0, data.edge_index[0] + offset, order)
    assert torch.equal(bonds, torch.tensor([float(VALENCE[z]) for z in data.z.tolist()]))


def test_features_follow_pygs_schema(molecules):
    for molecule in molecules[::500]:
        n, e = molecule.num_nodes, molecule.num_edges
        shapes = {
            "x": (n, 11),
            "z": (n,),
            "pos": (n, 3),
            "edge_index": (2, e),
            "edge_attr": (e, 4),
            "y": (1, 19),
        }
        assert {key: tuple(molecule[key].shape) for key in shapes} == shapes
        assert molecule.idx.shape == (1,)
        assert isinstance(molecule.name, str)
        assert isinstance(molecule.smiles, str)
        assert torch.equal(molecule.x[:, 5].long(), molecule.z)
        row, col = molecule.edge_index
        hydrogens = torch.zeros(n).index_add_(0, col, (molecule.z[row] == 1).float())
        assert torch.equal(molecule.x[:, 10], hydrogens)
        assert torch.equal((row * n + col).sort().values, row * n + col)


def test_the_first_are_well_known(molecules):
    assert [molecule.smiles for molecule in molecules[:3]] == ["[H]C([H])([H])[H]", "[H]N([H])[H]", "[H]O[H]"]
    assert molecules[0].y.shape == (1, 19)


def test_bonded_atoms_are_a_bond_length_apart_and_others_are_not(molecules):
    for molecule in molecules[::100]:
        distance = torch.cdist(molecule.pos, molecule.pos)
        row, col = molecule.edge_index
        assert distance[row, col].min() > 0.9
        assert distance[row, col].max() < 1.75
        distance[row, col] = 9
        distance.fill_diagonal_(9)
        assert distance.min() > 1.3


def test_targets_are_complete_and_consistent(molecules):
    y = molecules._data.y
    homo, lumo, gap = y[:, 2], y[:, 3], y[:, 4]
    assert torch.isfinite(y).all()
    assert torch.allclose(gap, lumo - homo, atol=1e-4)
    assert gap.min() > 1
    assert gap.std() > 1
    zpve, u0, u, h, g = y[:, 6], y[:, 7], y[:, 8], y[:, 9], y[:, 10]
    assert (zpve > 0).all()
    assert ((g < u0) & (u0 < u) & (u < h)).all()
    assert (y[:, 12:16] < 0).all()
    assert (y[:, 17] >= y[:, 18] - 1e-3).all()


def test_water_has_its_published_figures(molecules):
    """GFN2-xTB on water: dipole near 2.2 D; experiment: rotational constants 835, 435 and 278 GHz."""
    water = molecules[2].y[0]
    assert water[0] == pytest.approx(2.2, abs=0.2)
    assert water[16:].tolist() == pytest.approx([835, 435, 278], rel=0.06)
    assert water[6] == pytest.approx(0.558, abs=0.05)  # harmonic zero-point energy in eV
    assert water[11] == pytest.approx(6.0, abs=0.1)  # heat capacity in cal/(mol K)
