"""Molecules are drawn with all their atoms and bonds, and the 3D view holds what it needs."""

import html
import json
import re

import numpy as np
import pytest
import torch
from matplotlib.patches import Circle
from torch_geometric.data import Data

from gnn_ipu_helpers import viewers

from .conftest import texts


def payload(page):
    return json.loads(html.unescape(re.search(r'data-molecules="([^"]*)"', page.html).group(1)))


def test_every_atom_and_bond_is_drawn(molecules):
    picture = viewers.molecule(molecules[1])
    axes = picture.figure.axes[0]
    assert sum(isinstance(patch, Circle) for patch in axes.patches) == 3
    solid, dotted = (np.isnan(lines.get_xdata()).sum() for lines in axes.get_lines())  # a gap behind each
    assert (solid, dotted) == (1 + 3, 0)  # a single and a triple bond
    assert picture.alt == "Drawing of the molecule CHN: 3 atoms, 2 bonds."


def test_an_aromatic_bond_is_a_solid_and_a_dotted_line(molecules):
    molecules[0].edge_attr = molecules[0].edge_attr[:, [1, 2, 3, 0]]
    solid, dotted = viewers.molecule(molecules[0]).figure.axes[0].get_lines()
    assert (solid.get_linestyle(), dotted.get_linestyle()) == ("-", ":")
    assert np.isnan(solid.get_xdata()).sum() == np.isnan(dotted.get_xdata()).sum() == 2


def test_no_atom_hides_another(molecules):
    circles = viewers.molecule(molecules[2]).figure.axes[0].patches
    centres = np.array([circle.center for circle in circles])
    gaps = np.linalg.norm(centres[:, None] - centres[None], axis=-1)[np.triu_indices(5, 1)]
    assert gaps.min() > 0.5


def test_the_slider_page_holds_every_molecule_with_atoms_bonds_and_orders(molecules):
    content = payload(viewers.molecules(molecules, captions=["wet", "bitter", "light"]))["molecules"]
    assert [one["label"] for one in content] == [
        "H₂O: 3 atoms, 2 bonds, wet",
        "CHN: 3 atoms, 2 bonds, bitter",
        "CH₄: 5 atoms, 4 bonds, light",
    ]
    assert [len(one["atoms"]) for one in content] == [3, 3, 5]
    assert content[1]["bonds"] == [[0, 1, 1.0], [1, 2, 3.0]]


def test_the_view_is_turned_but_neither_bent_nor_mirrored():
    generator = torch.Generator().manual_seed(1)
    pos = torch.randn(6, 3, generator=generator)
    data = Data(z=torch.full((6,), 6), pos=pos, edge_index=torch.tensor([[0, 1], [1, 0]]))
    shown = np.array([atom[1:] for atom in payload(viewers.molecules([data]))["molecules"][0]["atoms"]])
    before, after = pos.numpy() - pos.numpy().mean(0), shown - shown.mean(0)
    turn = np.linalg.lstsq(before, after, rcond=None)[0]
    assert np.allclose(turn @ turn.T, np.eye(3), atol=0.03)
    assert np.linalg.det(turn) == pytest.approx(1, abs=0.03)


def test_the_picture_is_stored_beside_the_3d_view(molecules):
    page = viewers.molecules(molecules)
    assert (
        re.search(r'<img src="data:image/svg\+xml;base64,[^"]{1000,}" alt="([^"]*)"', page.html)[1]
        == page.alt
    )
    assert page.png.startswith(b"\x89PNG")
    assert "H2O: 3 atoms, 2 bonds; CHN: 3 atoms, 2 bonds; CH4: 5 atoms, 4 bonds" in page.alt


def test_the_library_itself_is_not_stored_in_the_notebook(molecules):
    page = viewers.molecules(molecules * 4)
    assert len(page.html) < 150_000
    assert "<script src" not in page.html
    assert re.findall(r"https?://[^&\"]*", page.html) == [payload(page)["network"]]


def test_the_network_address_names_the_version_of_py3dmol(molecules):
    import py3Dmol

    assert f"/3dmol@{py3Dmol.__version__}/" in payload(viewers.molecules(molecules))["network"]


def test_count_limits_what_is_shown(molecules):
    page = viewers.molecules(molecules * 10, count=15)
    assert len(payload(page)["molecules"]) == 15
    assert page.alt.startswith("Drawing of 12 of 15 molecules.")


def test_two_pages_of_the_same_molecules_are_the_same(molecules):
    assert viewers.molecules(molecules).html == viewers.molecules(molecules).html


@pytest.mark.parametrize("missing", ["z", "pos", "edge_index"])
def test_a_graph_that_is_no_molecule_is_refused(molecules, missing):
    del molecules[0][missing]
    with pytest.raises(ValueError, match=f"without {missing}"):
        viewers.molecule(molecules[0])


def test_too_few_captions_are_refused(molecules):
    with pytest.raises(ValueError, match=r"each of 3 molecules \(got 1\)"):
        viewers.molecules(molecules, captions=["wet"])


def test_more_molecules_than_a_notebook_should_hold_are_refused(molecules):
    with pytest.raises(ValueError, match=r"between 1 and 200 molecules .* \(got 201\)"):
        viewers.molecules(molecules * 67, count=201)


def test_browse_offers_the_whole_dataset(molecules):
    slider = viewers.browse(molecules).children[0]
    assert (slider.min, slider.max) == (0, 2)


def test_the_title_can_be_given(molecules):
    assert "Water" in texts(viewers.molecule(molecules[0], title="Water"))
