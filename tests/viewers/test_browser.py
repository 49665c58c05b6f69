"""The 3D view in a real browser, offline: the slider moves it, and without it the picture stays."""

import shutil

import pytest

from gnn_ipu_helpers import viewers
from tools import vendor

from ..browser import needs_browser, open_browser
from .test_pictures import page_of

pytestmark = [
    needs_browser,
    pytest.mark.skipif(
        not (vendor.VENDOR / "3Dmol-min.js").exists(), reason="make setup fetched no 3Dmol.js"
    ),
]


@pytest.fixture(scope="module")
def browser():
    with open_browser() as browser:
        yield browser


@pytest.fixture
def page(tmp_path, molecules):
    """An exported page beside a folder with 3Dmol.js, as `make run` leaves them."""
    path = tmp_path / "html" / "page.html"
    path.parent.mkdir()
    path.write_text(page_of(viewers.molecules(molecules)), encoding="utf-8")
    shutil.copytree(vendor.VENDOR, tmp_path / "vendor")
    return path


@pytest.fixture
def offline(browser):
    context = browser.new_context(offline=True, has_touch=True, viewport={"width": 400, "height": 700})
    yield context.new_page()
    context.close()


def moves(tab):
    """Does the slider change the words and the picture on the canvas?"""
    tab.wait_for_selector(".gnn-molecules[data-ready]")
    view = tab.locator(".gnn-molecules [role=img]")
    before = view.screenshot()
    tab.locator(".gnn-molecules input").fill("2")
    assert "3 of 3. CH₄: 5 atoms, 4 bonds" in tab.locator(".gnn-molecules").inner_text()
    return view.screenshot() != before


def test_the_slider_works_in_an_exported_page_offline(page, offline):
    offline.goto(page.as_uri())
    assert moves(offline)
    assert not offline.locator(".gnn-molecules img").is_visible()
    assert offline.evaluate("document.documentElement.scrollWidth") <= 400


def test_arrow_keys_move_the_slider_and_are_kept_from_jupyterlabs_shortcuts(page, offline):
    offline.goto(page.as_uri())
    offline.wait_for_selector(".gnn-molecules[data-ready]")
    slider = offline.locator(".gnn-molecules input")
    slider.press("ArrowRight")
    assert slider.input_value() == "1"
    # JupyterLab takes keys before the page does, except below this attribute.
    assert slider.evaluate("slider => slider.closest('[data-lm-suppress-shortcuts]') !== null")


def test_a_finger_moves_the_slider_and_turns_the_molecule(page, offline):
    offline.goto(page.as_uri())
    offline.wait_for_selector(".gnn-molecules[data-ready]")
    slider, view = offline.locator(".gnn-molecules input"), offline.locator(".gnn-molecules [role=img]")
    slider.scroll_into_view_if_needed()
    box = slider.bounding_box()
    offline.touchscreen.tap(box["x"] + box["width"] - 4, box["y"] + box["height"] / 2)
    assert slider.input_value() == "2"
    before, box = view.screenshot(), view.bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    touches = offline.context.new_cdp_session(offline)
    for kind, shift in (("touchStart", 0), ("touchMove", 40), ("touchMove", 90), ("touchEnd", None)):
        points = [] if shift is None else [{"x": x + shift, "y": y}]
        touches.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})
    offline.wait_for_timeout(200)
    assert view.screenshot() != before


def test_the_wheel_over_the_view_scrolls_the_page(page, offline):
    page.write_text(page.read_text() + "<div style='height:3000px'></div>")
    offline.goto(page.as_uri())
    offline.wait_for_selector(".gnn-molecules[data-ready]")
    offline.locator(".gnn-molecules [role=img]").hover()
    offline.mouse.wheel(0, 300)
    offline.wait_for_function("window.scrollY > 0", timeout=3000)


def test_a_page_with_the_script_written_into_it_may_be_moved_anywhere(page, offline, tmp_path):
    vendor.inline(page)
    moved = page.rename(tmp_path / "html" / "moved.html")
    shutil.rmtree(tmp_path / "vendor")
    offline.goto(moved.as_uri())
    assert moves(offline)


def test_without_the_library_the_picture_stays(page, offline, tmp_path):
    shutil.rmtree(tmp_path / "vendor")
    with offline.expect_console_message(lambda message: "3D view not shown" in message.text):
        offline.goto(page.as_uri())
    assert offline.locator(".gnn-molecules img").is_visible()
    assert offline.locator(".gnn-molecules input").count() == 0


def test_without_scripts_the_picture_stays(page, browser):
    context = browser.new_context(offline=True, java_script_enabled=False)
    tab = context.new_page()
    tab.goto(page.as_uri())
    assert tab.locator(".gnn-molecules img").is_visible()
    context.close()
