"""Every figure reaches a notebook as an image with alternative text, small, and leaves nothing open."""

import base64
import doctest
import io
import itertools
import re
from xml.etree import ElementTree

import matplotlib.pyplot
import nbformat
import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.text import Text
from nbconvert import HTMLExporter
from PIL import Image
from torch_geometric.data import HeteroData

from gnn_ipu_helpers import viewers
from gnn_ipu_helpers.viewers import pictures

from ..browser import needs_browser, open_browser
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


def svg_of(picture):
    source = re.search(r'src="data:image/svg\+xml;base64,([^"]*)"', picture.html)[1]
    return ElementTree.fromstring(base64.b64decode(source))


def test_a_notebook_gets_vector_graphics_and_words_and_a_png_for_other_viewers(every_picture):
    for name, picture in every_picture.items():
        data, metadata = picture._repr_mimebundle_()
        assert set(data) == {"text/html", "image/png", "text/plain"}
        assert data["text/plain"] == metadata["image/png"]["alt"] == picture.alt
        assert Image.open(io.BytesIO(base64.b64decode(data["image/png"]))).format == "PNG"
        assert svg_of(picture).tag == "{http://www.w3.org/2000/svg}svg", name


def test_no_hatching_and_no_black(every_picture):
    for name, picture in every_picture.items():
        assert not [patch for patch in picture.figure.findobj(Patch) if patch.get_hatch()], name
        style = re.search(r"<style.*?</style>", picture.svg, re.DOTALL)[0]
        drawn = picture.svg.replace(style, "")
        assert not re.search(r"<pattern|#000000", drawn), name
        # What has no colour of its own is black.
        text = [group for group in re.findall(r"<g ([^>]*scale[^>]*)>", drawn) if "fill:" not in group]
        assert text == [], name


def test_every_word_is_large_enough_for_a_phone(every_picture):
    """At 100 pixels per inch, squeezed into the 360 pixels that a 400 pixel screen leaves: eight high."""
    for name, picture in every_picture.items():
        squeezed = min(1.0, 360 / (100 * picture.figure.get_figwidth()))
        for text in picture.figure.findobj(Text):
            if text.get_text().strip():
                assert text.get_fontsize() / 72 * 100 * squeezed >= 8, (name, text.get_text())


def test_words_do_not_overlap(every_picture):
    for name, picture in every_picture.items():
        picture.figure.draw_without_rendering()
        shown = [
            text for text in picture.figure.findobj(Text) if text.get_visible() and text.get_text().strip()
        ]
        # Ticks beyond the limits are kept, but not drawn.
        shown = [text for text in shown if not hasattr(text, "_drawn") and text.get_window_extent().width > 0]
        labels = {
            text for axes in picture.figure.axes for text in (*axes.texts, axes.title, axes._left_title)
        }
        boxes = [(text.get_text(), text.get_window_extent()) for text in shown if text in labels]
        for (one, box), (other, another) in itertools.combinations(boxes, 2):
            assert not box.shrunk(0.9, 0.9).overlaps(another.shrunk(0.9, 0.9)), (name, one, other)


def luminance(shade):
    parts = [int(shade[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one, other):
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_ink_and_marks_can_be_told_from_the_ground_on_light_and_on_dark_pages():
    rules = dict(re.findall(r'fill: (#\w{6})"\]\{fill:(#\w{6})', viewers.losses({"train": [2, 1]}).svg))
    night = {day.upper(): shade for day, shade in rules.items()}
    assert contrast(pictures.INK, pictures.GROUND) > 10
    assert contrast(night[pictures.INK], night[pictures.GROUND]) > 10
    for shade in (*pictures.COLOURS, pictures.LINK, pictures.PADDING_EDGE):
        assert contrast(shade, pictures.GROUND) > 2, shade
        assert contrast(night.get(shade, shade), night[pictures.GROUND]) > 3, shade
    for shade in (*pictures.COLOURS, pictures.PADDING_FILL):
        ink = pictures.ink_on(shade)
        assert contrast(ink, shade) > 4.5, shade
        assert contrast(night.get(ink, ink), night.get(shade, shade)) > 3.5, shade


@needs_browser
def test_a_figure_follows_the_page_into_the_dark():
    """Also one drawn by a reader in matplotlib's own style, whose words are black."""
    figure = Figure(figsize=(2, 1))
    figure.text(0.1, 0.3, "words", fontsize=30)
    shown = viewers.Picture(figure, "Words").html
    found = {}
    with open_browser() as browser:
        for scheme in ("light", "dark"):
            context = browser.new_context(color_scheme=scheme)
            tab = context.new_page()
            tab.set_content(f'<html style="color-scheme:{scheme}"><body>{shown}</body></html>')
            picture = Image.open(io.BytesIO(tab.locator("img").screenshot())).convert("L")
            found[scheme] = [shade for _, shade in sorted(picture.getcolors())[-2:]]
            context.close()
    (light_ink, light_ground), (dark_ink, dark_ground) = found["light"], found["dark"]
    assert light_ink < 40 < 250 < light_ground
    assert dark_ground < 25 < 200 < dark_ink


def test_pictures_are_small_and_the_same_on_every_call(every_picture):
    for name, picture in every_picture.items():
        assert len(picture.png) < 60_000, name
        assert len(picture.svg) < 120_000, name
        assert (picture.png, picture.svg) == (picture.png, picture.svg), name


def test_a_cloud_of_points_does_not_swell_the_notebook():
    points = np.random.default_rng(0).normal(size=(3000, 2))
    assert len(viewers.embedding(points, [0, 1, 2] * 1000).svg) < 180_000
    assert len(viewers.parity(*points.T).svg) < 120_000


def test_drawing_leaves_no_figure_open_and_no_setting_changed(every_picture):
    assert matplotlib.pyplot.get_fignums() == []
    assert matplotlib.rcParams["svg.hashsalt"] is None


def test_own_alternative_text_replaces_the_generated_one():
    assert viewers.losses({"train": [2, 1]}, alt='It "falls"').alt == 'It "falls"'


def test_quotes_and_angles_in_alternative_text_are_escaped():
    shown = viewers.losses({"train": [2, 1]}, alt='a "b" <c>')
    assert 'alt="a &quot;b&quot; &lt;c&gt;"' in shown.html


def test_no_picture_relies_on_colour_alone():
    """In grey, the first curves still differ in line."""
    lines = viewers.losses({name: [1, 2] for name in "abcdefg"}).figure.axes[0].get_lines()
    assert len({str(line._unscaled_dash_pattern) for line in lines}) == 7


def test_a_picture_is_saved_by_its_suffix(tmp_path, every_picture):
    every_picture["losses"].save(tmp_path / "a.png")
    every_picture["losses"].save(tmp_path / "a.svg")
    assert (tmp_path / "a.png").read_bytes() == every_picture["losses"].png
    assert (tmp_path / "a.svg").read_text() == every_picture["losses"].svg
    with pytest.raises(ValueError, match=r"\.png or \.svg \(got 'a\.pdf'\)"):
        every_picture["losses"].save(tmp_path / "a.pdf")


def test_rare_colours_survive_the_palette():
    """A single blue point among hundreds of green ones stays blue."""
    points = np.random.default_rng(0).normal(size=(600, 2))
    picture = viewers.embedding(points, [2] * 599 + [0])
    image = np.asarray(Image.open(io.BytesIO(picture.png)).convert("RGB")).astype(int)
    assert (np.abs(image - (0, 114, 178)).max(-1) < 12).sum() > 5


@pytest.mark.parametrize(
    "name", [name for name in viewers.__all__ if ">>>" in getattr(viewers, name).__doc__]
)
def test_the_examples_are_true(name):
    shown = getattr(viewers, name)
    examples = doctest.DocTestParser().get_doctest(shown.__doc__, {**vars(viewers)}, name, None, 0)
    assert doctest.DocTestRunner().run(examples).failed == 0
