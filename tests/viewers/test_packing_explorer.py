"""The packing explorer: its sums against the loaders', and in a browser by mouse, keyboard and touch."""

import math

import pytest
import torch
from torch_geometric.data import Data

from gnn_ipu_helpers import FixedSizeDataLoader, FixedSizeOptions, FixedSizeStrategy, datasets, viewers
from gnn_ipu_helpers.viewers.packing_explorer import STRATEGIES, fill

from ..browser import needs_browser, open_browser
from .test_pictures import page_of

BUDGETS = {"num_nodes": 179, "num_edges": 395, "num_graphs": 10}


@pytest.fixture(scope="module")
def mutag():
    return datasets.mutag()


def sizes_of(graphs):
    return [(graph.num_nodes, graph.num_edges) for graph in graphs]


@pytest.mark.parametrize("strategy", STRATEGIES[:2])
@pytest.mark.parametrize("num_graphs", [4, 10, 24])
def test_as_many_steps_as_the_loader_takes(mutag, strategy, num_graphs):
    found = fill(sizes_of(mutag), strategy, 179, 395, num_graphs)
    loader = FixedSizeDataLoader(
        mutag,
        batch_size=num_graphs,
        fixed_size_options=FixedSizeOptions(found.num_nodes, found.num_edges, num_graphs),
        fixed_size_strategy=FixedSizeStrategy[strategy],
    )
    batches = [int(batch.graphs_mask.sum()) for batch in loader]
    assert [len(pack) for pack in found.packs] == batches


def test_the_loader_plans_no_worse_than_the_rule_shown(mutag):
    found = fill(sizes_of(mutag), "Pack", 179, 395, 24)
    loader = FixedSizeDataLoader(
        mutag,
        fixed_size_options=FixedSizeOptions(179, 395, 24),
        fixed_size_strategy=FixedSizeStrategy.Pack,
    )
    assert len(loader) <= len(found.packs) + 1
    assert math.ceil(sum(nodes for nodes, _ in sizes_of(mutag)) / 178) <= len(found.packs)


def test_graphs_that_fit_no_pack_are_counted():
    found = fill([(5, 4), (50, 4), (5, 40)], "StreamPack", 20, 20, 5)
    assert (found.packs, found.left_out) == ([[0]], 2)


def test_a_dataset_without_graphs_is_refused():
    with pytest.raises(ValueError, match="a graph in each"):
        viewers.packing_explorer({"none": []}, 10, 10, 2)


@pytest.fixture(scope="module")
def browser():
    with open_browser() as browser:
        yield browser


@pytest.fixture
def page(tmp_path, mutag):
    path = tmp_path / "page.html"
    small = [Data(edge_index=torch.zeros(2, 3, dtype=torch.long), num_nodes=n) for n in (3, 9, 4, 8, 5)]
    shown = viewers.packing_explorer({"MUTAG": mutag, "small": small}, **BUDGETS)
    path.write_text(page_of(shown), encoding="utf-8")
    return path


@pytest.fixture
def tab(browser, page):
    context = browser.new_context(offline=True, viewport={"width": 400, "height": 700}, has_touch=True)
    tab = context.new_page()
    errors = []
    tab.on("pageerror", lambda error: errors.append(error))
    tab.goto(page.as_uri())
    tab.wait_for_selector(".gnn-packing[data-ready]")
    yield tab
    assert not errors
    context.close()


def words(tab):
    return tab.locator(".gnn-packing p").inner_text()


@needs_browser
def test_the_browser_counts_as_python_does(tab, mutag):
    for strategy in STRATEGIES:
        tab.get_by_label(strategy, exact=True).check()
        for num_graphs in (3, 10, 25):
            tab.get_by_role("slider", name="graphs").fill(str(num_graphs))
            found = fill(sizes_of(mutag), strategy, 179, 395, num_graphs)
            real = sum(graph.num_nodes for graph in mutag)
            padding = 1 - real / (found.num_nodes * len(found.packs))
            percent = math.floor(100 * padding + 0.5)
            assert words(tab).startswith(
                f"{len(found.packs)} steps an epoch. Padding: {percent} % of the nodes"
            )


@needs_browser
def test_the_keyboard_moves_the_sliders_and_changes_the_picture(tab):
    tab.get_by_label("StreamPack").focus()
    tab.keyboard.press("Space")
    before = words(tab), tab.locator(".gnn-packing svg").inner_html()
    tab.get_by_role("slider", name="graphs").focus()
    for _ in range(3):
        tab.keyboard.press("ArrowLeft")
    assert tab.get_by_role("slider", name="graphs").input_value() == "7"
    assert words(tab) != before[0]
    assert tab.locator(".gnn-packing svg").inner_html() != before[1]


@needs_browser
def test_touch_chooses_a_dataset_and_a_strategy(tab):
    tab.get_by_label("small").tap()
    tab.get_by_label("Pack", exact=True).tap()
    assert words(tab).startswith("1 step an epoch")
    assert "small, Pack" in tab.locator(".gnn-packing svg").get_attribute("aria-label")


@needs_browser
def test_the_mouse_drags_a_slider(tab):
    tab.get_by_label("StreamPack").click()
    before = words(tab)
    bar = tab.get_by_role("slider", name="nodes").bounding_box()
    tab.mouse.click(bar["x"] + bar["width"] * 0.9, bar["y"] + bar["height"] / 2)
    assert words(tab) != before
    assert int(tab.get_by_role("slider", name="nodes").input_value()) > 179


@needs_browser
def test_it_fits_a_narrow_screen_and_the_picture_gives_way(tab):
    assert tab.evaluate("document.documentElement.scrollWidth") <= 400
    assert not tab.locator(".gnn-packing > img").is_visible()


@needs_browser
def test_without_scripts_the_picture_stays(browser, page):
    context = browser.new_context(offline=True, java_script_enabled=False)
    tab = context.new_page()
    tab.goto(page.as_uri())
    assert tab.locator(".gnn-packing > img").is_visible()
    assert "packs" in tab.locator(".gnn-packing > img").get_attribute("alt")
    context.close()
