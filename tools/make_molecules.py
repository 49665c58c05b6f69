"""Remake the molecules that stand in for QM9, with RDKit and tblite installed.

`python tools/make_molecules.py` grows molecules of C, N, O, F and H with up to nine heavy atoms from a fixed
seed, keeps those that make chemical sense, embeds them in 3D (ETKDG, then MMFF94) and computes QM9's nineteen
properties. The file holds arrays only, no pickled objects; `gnn_ipu_helpers/datasets/standin_molecules.py`
reads it and says how each property is made. It takes about fifteen minutes on one core.
"""

from __future__ import annotations

import argparse
import random
from pathlib import Path

import numpy as np
from rdkit import Chem, RDLogger
from rdkit.Chem import AllChem
from tblite.interface import Calculator

SEED = 2024
# Molecules per number of heavy atoms: what small ones there are, then mostly nine, as in QM9.
COUNTS = {1: 3, 2: 8, 3: 20, 4: 60, 5: 100, 6: 150, 7: 250, 8: 800, 9: 4700}
MAX_ATOMS = 29
TARGET = Path(__file__).resolve().parents[1] / "gnn_ipu_helpers" / "datasets" / "molecules.npz"

VALENCE = {"C": 4, "N": 3, "O": 2, "F": 1}
ELEMENT_WEIGHTS = {"C": 66, "N": 12, "O": 20, "F": 2}
WELL_KNOWN = """
    C N O C#C C#N C=O CC CO C=C CN CF CC#C CC#N CC=O NC=O CCC CCO COC C1CC1 C1CO1 CC(C)=O CC(N)=O NC(N)=O
"""
CORES = """
    C C C C CC C=C C#C C#N C=O C1CC1 C1CC1 C1CO1 C1CN1 C1CCC1 C1COC1 C1CCCC1 C1CCCC1 C1CCOC1 C1CCNC1 C1CCCCC1
    C1CCOCC1 C1CC2CC1C2 C1CC2CC12 C1C2CC12 C1=CCCC1 C1=CC=CO1 C1=CC=CN1 C1=CN=CN1 C1=CC=NN1 C1=COC=N1
    C1=CC=CC=C1 C1=CC=NC=C1 C1=CN=CN=C1
"""
UNSTABLE = [
    Chem.MolFromSmarts(pattern)
    for pattern in (
        "[#8]~[#8]",
        "[#7,#8,#9]~[#9]",
        "[#7]~[#7]~[#7]",
        "[#8]~[#7]~[#8]",
        "*=*=*",
        "[R]#[R]",
        "[r3]=[r3]",
        "[r4]=[r4]",
        "[a;r3,r4]",
        "[r3;R3]",
        "[A;R2,R3]=*",
        "[OX2H][CX4][OX2H,NX3H2,NX3H1]",
        "[NX3H2,NX3H1][CX4][NX3H2,NX3H1]",
        "[OX2H][C]=[C]",
        "[F][CX4][OX2H,NX3H2,NX3H1]",
        "[OX2H][CX3]=[NX2]",
    )
]

# CODATA 2018 values and what follows from them.
BOHR = 0.529177210903  # ångström
HARTREE = 27.211386245988  # eV
DEBYE = 2.541746473  # per e·bohr
KCAL_PER_MOL = 0.0433641043  # eV
BOLTZMANN = 8.617333262e-5  # eV / K
PLANCK = 4.135667696e-15  # eV s
LIGHT = 2.99792458e10  # cm / s
DALTON = 1.66053906660e-27  # kg
ELECTRONVOLT = 1.602176634e-19  # J
GAS_CONSTANT = 1.987204259  # cal / (mol K)
TEMPERATURE, PRESSURE = 298.15, 101325.0
THERMAL = BOLTZMANN * TEMPERATURE
UNPAIRED = {1: 1, 6: 2, 7: 3, 8: 2, 9: 1}
# <r^2> of the free atoms' electrons in bohr^2 (Hartree-Fock), for the electronic spatial extent.
ATOM_EXTENT = {1: 3.0, 6: 13.8, 7: 12.1, 8: 11.2, 9: 10.2}
FIELD = 0.002  # a.u., for the polarisability


def grow(rng: random.Random, num_heavy: int) -> Chem.Mol | None:
    """A random molecule with `num_heavy` heavy atoms, grown from a core, or None if growth got stuck."""
    core = Chem.MolFromSmiles(rng.choice(CORES.split()))
    Chem.Kekulize(core, clearAromaticFlags=True)
    molecule = Chem.RWMol(core)
    if molecule.GetNumAtoms() > num_heavy:
        return None
    while molecule.GetNumAtoms() < num_heavy:
        if not _attach_atom(rng, molecule):
            return None
        if rng.random() < 0.25:
            _close_ring(rng, molecule)
    for _ in range(2):
        if rng.random() < 0.55:
            _raise_bond(rng, molecule)
    if rng.random() < 0.35:
        _replace_carbon(rng, molecule)
    return molecule.GetMol()


def _free(atom: Chem.Atom) -> int:
    return VALENCE[atom.GetSymbol()] - int(sum(bond.GetBondTypeAsDouble() for bond in atom.GetBonds()))


def _attach_atom(rng: random.Random, molecule: Chem.RWMol) -> bool:
    places = [atom for atom in molecule.GetAtoms() if _free(atom) > 0]
    if not places:
        return False
    place = rng.choice(places)
    element = rng.choices(list(ELEMENT_WEIGHTS), list(ELEMENT_WEIGHTS.values()))[0]
    order = min(rng.choices((1, 2, 3), (78, 15, 7))[0], _free(place), VALENCE[element])
    index = molecule.AddAtom(Chem.Atom(element))
    molecule.AddBond(place.GetIdx(), index, _bond_type(order))
    return True


def _close_ring(rng: random.Random, molecule: Chem.RWMol) -> None:
    distance = Chem.GetDistanceMatrix(molecule, force=True)
    open_atoms = [atom.GetIdx() for atom in molecule.GetAtoms() if _free(atom) > 0]
    pairs = [(i, j) for i in open_atoms for j in open_atoms if i < j and 2 <= distance[i, j] <= 5]
    if pairs:
        molecule.AddBond(*rng.choice(pairs), Chem.BondType.SINGLE)


def _raise_bond(rng: random.Random, molecule: Chem.RWMol) -> None:
    bonds = [b for b in molecule.GetBonds() if _free(b.GetBeginAtom()) > 0 and _free(b.GetEndAtom()) > 0]
    bonds = [bond for bond in bonds if bond.GetBondTypeAsDouble() < 3]
    if bonds:
        bond = rng.choice(bonds)
        bond.SetBondType(_bond_type(int(bond.GetBondTypeAsDouble()) + 1))


def _replace_carbon(rng: random.Random, molecule: Chem.RWMol) -> None:
    element = rng.choice("NOO")
    spare = 4 - VALENCE[element]
    carbons = [atom for atom in molecule.GetAtoms() if atom.GetSymbol() == "C" and _free(atom) >= spare]
    if carbons:
        rng.choice(carbons).SetAtomicNum({"N": 7, "O": 8}[element])


def _bond_type(order: int) -> Chem.BondType:
    return (Chem.BondType.SINGLE, Chem.BondType.DOUBLE, Chem.BondType.TRIPLE)[order - 1]


def sensible_smiles(molecule: Chem.Mol) -> str | None:
    """Canonical SMILES of a molecule that could be put in a bottle, None for any other."""
    molecule = Chem.Mol(molecule)
    if Chem.SanitizeMol(molecule, catchErrors=True) != Chem.SanitizeFlags.SANITIZE_NONE:
        return None
    if any(molecule.HasSubstructMatch(pattern) for pattern in UNSTABLE):
        return None
    if sum(len(ring) < 5 for ring in molecule.GetRingInfo().AtomRings()) > 2:
        return None
    return Chem.MolToSmiles(molecule)


def build(smiles: str) -> Chem.Mol | None:
    """Kekulé structure with hydrogens at a minimum of MMFF94, None where that fails."""
    molecule = Chem.AddHs(Chem.MolFromSmiles(smiles))
    if molecule.GetNumAtoms() > MAX_ATOMS or not AllChem.MMFFHasAllMoleculeParams(molecule):
        return None
    if AllChem.EmbedMolecule(molecule, randomSeed=SEED, maxAttempts=20) != 0:
        return None
    field = _force_field(molecule)
    for _ in range(5):
        if field.Minimize(maxIts=2000, forceTol=1e-6, energyTol=1e-9) == 0:
            return molecule
    return None


def _force_field(molecule: Chem.Mol):
    return AllChem.MMFFGetMoleculeForceField(molecule, AllChem.MMFFGetMoleculeProperties(molecule))


def properties(molecule: Chem.Mol, atom_energy: dict[int, float]) -> np.ndarray | None:
    """QM9's nineteen targets, float64 `[19]`, None if the molecule is no minimum or has no proper gap."""
    numbers = np.array([atom.GetAtomicNum() for atom in molecule.GetAtoms()])
    masses = np.array([Chem.GetPeriodicTable().GetMostCommonIsotopeMass(int(z)) for z in numbers])
    positions = molecule.GetConformer().GetPositions()
    electronic = electronic_properties(numbers, positions)
    vibrations = vibrational_energies(molecule, masses, positions)
    if electronic is None or vibrations is None:
        return None
    energy, mu, alpha, homo, lumo, extent = electronic
    constants = rotational_constants(masses, positions)
    zpve, thermal, entropy_term, heat_capacity = thermochemistry(masses.sum(), vibrations, constants)
    zero = energy + zpve
    inner, enthalpy = zero + thermal, zero + thermal + THERMAL
    free = enthalpy - entropy_term
    atoms = sum(atom_energy[z] for z in numbers.tolist())
    inner_atoms = atoms + 1.5 * THERMAL * len(numbers)
    enthalpy_atoms = atoms + 2.5 * THERMAL * len(numbers)
    free_atoms = enthalpy_atoms - sum(map(atom_entropy_term, numbers.tolist(), masses.tolist()))
    atomisation = [zero - atoms, inner - inner_atoms, enthalpy - enthalpy_atoms, free - free_atoms]
    energies = [zpve, zero, inner, enthalpy, free, heat_capacity, *atomisation]
    return np.array([mu, alpha, homo, lumo, lumo - homo, extent, *energies, *constants])


def electronic_properties(numbers: np.ndarray, positions: np.ndarray) -> tuple[float, ...] | None:
    """GFN2-xTB's energy, dipole, polarisability, HOMO, LUMO and electronic extent: eV, D, powers of bohr."""
    result = single_point(numbers, positions)
    occupied = int(np.sum(result["orbital-occupations"]) / 2 + 0.5)
    homo, lumo = result["orbital-energies"][occupied - 1 : occupied + 1] * HARTREE
    if lumo - homo < 1.5:
        return None
    alpha = 0.0
    for axis in np.eye(3):
        up, down = (single_point(numbers, positions, sign * FIELD * axis)["dipole"] for sign in (1, -1))
        alpha += (up - down) @ axis / (2 * FIELD) / 3
    electrons = numbers - result["charges"]
    centred = (positions - np.average(positions, axis=0, weights=numbers)) / BOHR
    spread = np.array([ATOM_EXTENT[z] / z for z in numbers.tolist()])
    extent = electrons @ ((centred**2).sum(axis=1) + spread)
    return (
        result["energy"] * HARTREE,
        np.linalg.norm(result["dipole"]) * DEBYE,
        abs(alpha),
        homo,
        lumo,
        extent,
    )


def single_point(numbers: np.ndarray, positions: np.ndarray, field=None, unpaired: int = 0) -> dict:
    """GFN2-xTB results for one geometry in ångström."""
    calculator = Calculator("GFN2-xTB", numbers, positions / BOHR, uhf=unpaired)
    calculator.set("verbosity", 0)
    if field is not None:
        calculator.add("electric-field", field.tolist())
    return calculator.singlepoint().dict()


def vibrational_energies(molecule: Chem.Mol, masses: np.ndarray, positions: np.ndarray) -> np.ndarray | None:
    """Harmonic quanta in eV from the MMFF94 Hessian, None if the geometry is not a minimum."""
    field, step = _force_field(molecule), 1e-3

    def gradient(shift: np.ndarray) -> np.ndarray:
        field.Initialize()  # RDKit would reuse the distances of the geometry before
        return np.array(field.CalcGrad((positions.ravel() + shift).tolist()))

    hessian = np.stack([gradient(shift) - gradient(-shift) for shift in step * np.eye(positions.size)]) / (
        2 * step
    )
    weights = np.repeat(masses, 3) ** -0.5
    values = np.linalg.eigvalsh((hessian + hessian.T) / 2 * weights[:, None] * weights)
    is_linear = rotational_constants(masses, positions)[0] == 0
    values = np.sort(np.delete(values, np.argsort(abs(values))[: 5 if is_linear else 6]))
    if values[0] <= 0:
        return None
    per_second_squared = values * KCAL_PER_MOL * ELECTRONVOLT / DALTON * 1e20
    return PLANCK * np.sqrt(per_second_squared) / (2 * np.pi)


def rotational_constants(masses: np.ndarray, positions: np.ndarray) -> list[float]:
    """A >= B >= C in GHz; A is 0 for a linear molecule, as in QM9."""
    centred = positions - np.average(positions, axis=0, weights=masses)
    inertia = np.einsum("i,ij,ik->jk", masses, centred, centred)
    moments = np.linalg.eigvalsh(np.trace(inertia) * np.eye(3) - inertia)
    factor = PLANCK * ELECTRONVOLT / (8 * np.pi**2 * DALTON * 1e-20) / 1e9
    return [factor / moment if moment > 1e-3 else 0.0 for moment in moments]


def thermochemistry(mass: float, quanta: np.ndarray, constants: list[float]) -> tuple[float, ...]:
    """ZPVE, thermal energy and T·S in eV, heat capacity in cal/(mol K), for symmetry number 1."""
    ratio = quanta / THERMAL
    populated = ratio / np.expm1(ratio)
    rotors = [1e9 * PLANCK * constant for constant in constants if constant > 0]
    degrees = 3 if constants[0] > 0 else 2
    if degrees == 3:
        rotation = np.sqrt(np.pi * np.prod([THERMAL / quantum for quantum in rotors]))
    else:
        rotation = THERMAL / rotors[0]
    thermal = THERMAL * (1.5 + degrees / 2 + populated.sum())
    entropy = translation_entropy(mass) + np.log(rotation) + degrees / 2
    entropy += (populated - np.log1p(-np.exp(-ratio))).sum()
    capacity = GAS_CONSTANT * (1.5 + degrees / 2 + (populated**2 * np.exp(ratio)).sum())
    return quanta.sum() / 2, thermal, THERMAL * entropy, capacity


def translation_entropy(mass: float) -> float:
    """Sackur-Tetrode entropy in units of the Boltzmann constant for a mass in dalton."""
    thermal, planck = THERMAL * ELECTRONVOLT, PLANCK * ELECTRONVOLT
    volume = thermal / PRESSURE
    return 2.5 + np.log((2 * np.pi * mass * DALTON * thermal / planck**2) ** 1.5 * volume)


def atom_entropy_term(number: int, mass: float) -> float:
    """T·S of a free atom in eV, spin degeneracy included."""
    return THERMAL * (translation_entropy(mass) + np.log(UNPAIRED[number] + 1))


def atom_energies() -> dict[int, float]:
    """GFN2-xTB energies of the free atoms in eV."""
    origin = np.zeros((1, 3))
    return {
        z: float(single_point(np.array([z]), origin, unpaired=n)["energy"]) * HARTREE
        for z, n in UNPAIRED.items()
    }


def collect(counts: dict[int, int]) -> list[tuple[Chem.Mol, np.ndarray]]:
    """Distinct molecules with their properties, the smallest and best known first."""
    rng, atoms = random.Random(SEED), atom_energies()
    found: dict[str, tuple[Chem.Mol, np.ndarray]] = {}
    for num_heavy, count in counts.items():
        tried: set[str] = set()
        wanted = [smiles for smiles in WELL_KNOWN.split() if _num_heavy(smiles) == num_heavy]
        accepted, idle = 0, 0
        while accepted < count and idle < 3000:
            idle += 1
            if wanted:
                smiles = Chem.CanonSmiles(wanted.pop(0))
            else:
                grown = grow(rng, num_heavy)
                smiles = None if grown is None else sensible_smiles(grown)
            if smiles is None or smiles in tried:
                continue
            tried.add(smiles)
            molecule = build(smiles)
            targets = None if molecule is None else properties(molecule, atoms)
            if targets is not None:
                found[smiles] = (molecule, targets)
                accepted, idle = accepted + 1, 0
        print(f"{accepted} molecules with {num_heavy} heavy atoms", flush=True)
    return list(found.values())


def _num_heavy(smiles: str) -> int:
    return Chem.MolFromSmiles(smiles).GetNumAtoms()


def pack(records: list[tuple[Chem.Mol, np.ndarray]]) -> dict[str, np.ndarray]:
    """Arrays of the file: sizes, atoms, bonds (`begin < end`), positions in 0.001 ångström, targets."""
    numbers, positions, bonds, smiles = [], [], [], []
    for molecule, _ in records:
        Chem.Kekulize(molecule, clearAromaticFlags=True)
        numbers.append([atom.GetAtomicNum() for atom in molecule.GetAtoms()])
        positions.append(molecule.GetConformer().GetPositions())
        pairs = [sorted((bond.GetBeginAtomIdx(), bond.GetEndAtomIdx())) for bond in molecule.GetBonds()]
        orders = [int(bond.GetBondTypeAsDouble()) for bond in molecule.GetBonds()]
        bonds.append(sorted((*pair, order) for pair, order in zip(pairs, orders)))
        smiles.append(Chem.MolToSmiles(molecule, isomericSmiles=True))
    return {
        "num_atoms": np.array([len(atoms) for atoms in numbers], dtype=np.uint8),
        "num_bonds": np.array([len(pairs) for pairs in bonds], dtype=np.uint8),
        "z": np.concatenate(numbers).astype(np.uint8),
        "bonds": np.concatenate(bonds).astype(np.uint8),
        "pos": (np.concatenate(positions) * 1000).round().astype(np.int16),
        "y": np.stack([targets for _, targets in records]).astype(np.float32),
        "smiles": np.frombuffer("\n".join(smiles).encode("ascii"), dtype=np.uint8),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--output", type=Path, default=TARGET)
    parser.add_argument(
        "--scale", type=float, default=1.0, help="fraction of the molecules to make, for a quick look"
    )
    arguments = parser.parse_args()
    RDLogger.DisableLog("rdApp.*")
    records = collect({size: max(1, round(count * arguments.scale)) for size, count in COUNTS.items()})
    np.savez_compressed(arguments.output, **pack(records))
    print(f"{len(records)} molecules, {arguments.output.stat().st_size / 1e6:.2f} MB: {arguments.output}")


if __name__ == "__main__":
    main()
