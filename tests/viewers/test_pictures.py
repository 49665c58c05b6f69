"""Every figure reaches a notebook as an image with alternative text, small, and leaves nothing open."""

import base64
import io
import re

import matplotlib.pyplot
import nbformat
import numpy as np
import pytest
from nbconvert import HTMLExporter
from PIL import Image
from torch_geometric.data import HeteroData

from gnn_ipu_helpers import viewers

from .conftest import make_fixed_batch, make_molecules, make_two_graphs


@pytest.fixture(scope="module")
def every_picture():
    """One picture of each function."""
    fixed_batch = make_fixed_batch()
    types = HeteroData()
    types["movie"].num_nodes = 2
    types["actor"].num_nodes = 3
    types["actor", "in", "movie"].edge_index = fixed_batch.edge_index[:, :1]
    sample = make_two_graphs()[1]
    sample.batch_size = 1
    return {
        "adjacency": viewers.adjacency(fixed_batch),
        "bars": viewers.bars({"Seconds": {"a": 1.5, "b": 2}}),
        "batch": viewers.batch(fixed_batch),
        "batches": viewers.batches(make_two_graphs()[0], fixed_batch),
        "confusion": viewers.confusion([0, 1, 1], [0, 1, 0]),
        "embedding": viewers.embedding([[0, 1], [1, 0]], [0, 1]),
        "losses": viewers.losses({"train": [2, 1]}),
        "molecule": viewers.molecule(make_molecules()[0]),
        "packs": viewers.packs([3, 4], [[0, 1]], 8),
        "padding_waste": viewers.padding_waste({"Pack": {"nodes": 0.9, "edges": 0.8, "graphs": 0.7}}),
        "parity": viewers.parity([1.0, 2.0], [1.5, 2.5]),
        "schema": viewers.schema(types),
        "subgraph": viewers.subgraph(sample),
    }


def page_of(*shown):
    """The HTML page that nbconvert makes of a notebook with these outputs."""
    bundles = [one._repr_mimebundle_() for one in shown]
    outputs = [nbformat.v4.new_output("display_data", data=data, metadata=more) for data, more in bundles]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("…", outputs=outputs)])
    return HTMLExporter().from_notebook_node(notebook)[0]


def test_all_functions_that_draw_are_covered(every_picture):
    others = {"Page", "Picture", "browse", "diff", "molecules", "packing_explorer"}
    assert set(every_picture) == set(viewers.__all__) - others


def test_a_picture_is_an_image_with_alternative_text_in_an_exported_page(every_picture):
    images = re.findall(r"<img [^>]*>", page_of(*every_picture.values()))
    assert len(images) == len(every_picture)
    for image, picture in zip(images, every_picture.values()):
        assert f'alt="{picture.alt}"' in image


def test_a_picture_holds_png_html_and_words(every_picture):
    data, metadata = every_picture["batch"]._repr_mimebundle_()
    assert set(data) == {"text/html", "image/png", "text/plain"}
    assert data["text/plain"] == metadata["image/png"]["alt"] == every_picture["batch"].alt
    assert data["image/png"] in data["text/html"]
    assert Image.open(io.BytesIO(base64.b64decode(data["image/png"]))).format == "PNG"


def test_pictures_are_small_and_the_same_on_every_call(every_picture):
    for name, picture in every_picture.items():
        first, second = picture.png, picture.png
        assert len(first) < 60_000, name
        assert first == second, name


def test_drawing_leaves_no_figure_open_and_no_setting_changed(every_picture):
    assert matplotlib.pyplot.get_fignums() == []
    assert matplotlib.rcParams["svg.hashsalt"] is None


def test_own_alternative_text_replaces_the_generated_one():
    assert viewers.losses({"train": [2, 1]}, alt='It "falls"').alt == 'It "falls"'


def test_quotes_and_angles_in_alternative_text_are_escaped():
    shown = viewers.losses({"train": [2, 1]}, alt='a "b" <c>')
    assert 'alt="a &quot;b&quot; &lt;c&gt;"' in shown.html


def test_no_picture_relies_on_colour_alone():
    """In grey, the first curves still differ in line and marker."""
    lines = viewers.losses({name: [1, 2] for name in "abcdefg"}).figure.axes[0].get_lines()
    assert len({(str(line.get_linestyle()), line.get_marker()) for line in lines}) == 7


def test_a_picture_is_saved_by_its_suffix(tmp_path, every_picture):
    every_picture["losses"].save(tmp_path / "a.png")
    every_picture["losses"].save(tmp_path / "a.svg")
    assert (tmp_path / "a.png").read_bytes() == every_picture["losses"].png
    assert (tmp_path / "a.svg").read_text().startswith("<?xml")
    with pytest.raises(ValueError, match=r"\.png or \.svg \(got 'a\.pdf'\)"):
        every_picture["losses"].save(tmp_path / "a.pdf")


def test_rare_colours_survive_the_palette():
    """A single blue point among hundreds of green ones stays blue."""
    points = np.random.default_rng(0).normal(size=(600, 2))
    picture = viewers.embedding(points, [2] * 599 + [0])
    colours = {colour for _, colour in Image.open(io.BytesIO(picture.png)).convert("RGB").getcolors(10_000)}
    assert (0, 114, 178) in colours
