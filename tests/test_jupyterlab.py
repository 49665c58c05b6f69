"""The notebooks in a real JupyterLab, worked as a learner would: by menu, mouse, keyboard and touch.

One server and one browser for all tests (of one process); the last test shuts the server down.
"""

import contextlib
import io
import os
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import nbformat
import pytest
from PIL import Image

from gnn_ipu_helpers import datasets
from tools import vendor

from .browser import needs_browser, open_browser

pytestmark = needs_browser

ROOT = Path(__file__).resolve().parents[1]
PLAYGROUND, PADDING, PACKING = (
    "appendix_port_your_model.ipynb",
    "3_small_graph_batching_with_padding.ipynb",
    "4_small_graph_batching_with_packing.ipynb",
)
TOKEN = "learner"
SECONDS = 1000  # Playwright counts in milliseconds
SETTINGS = {
    # What is out of sight stays on the page, so that a test need not scroll to find it.
    "@jupyterlab/notebook-extension/tracker.jupyterlab-settings": '{"windowingMode": "none"}',
    "@jupyterlab/apputils-extension/notification.jupyterlab-settings": '{"fetchNews": "false"}',
}


class Lab:
    """JupyterLab on a free port, over a folder that holds copies of the notebooks without their outputs."""

    def __init__(self, folder):
        self.folder = folder
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        (folder / "notebooks").mkdir()
        for name in (PLAYGROUND, PADDING, PACKING):
            notebook = nbformat.read(ROOT / "notebooks" / name, as_version=4)
            for cell in notebook.cells:
                if cell.cell_type == "code":
                    cell.outputs, cell.execution_count = [], None
            nbformat.write(notebook, folder / "notebooks" / name)
        shutil.copytree(ROOT / "static", folder / "static")
        if vendor.VENDOR.exists():
            shutil.copytree(vendor.VENDOR, folder / "build" / "vendor")
        for path, text in SETTINGS.items():
            (folder / "settings" / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / "settings" / path).write_text(text)
        self.process = self._start()

    def _start(self):
        hidden = self.folder / ".jupyter"
        places = {
            "JUPYTERLAB_SETTINGS_DIR": self.folder / "settings",
            "JUPYTERLAB_WORKSPACES_DIR": hidden / "workspaces",
            "JUPYTER_CONFIG_DIR": hidden / "config",
            "JUPYTER_DATA_DIR": hidden / "data",
            "JUPYTER_RUNTIME_DIR": hidden / "runtime",
            "IPYTHONDIR": hidden / "ipython",
            "POPLAR_EXECUTABLE_CACHE_DIR": hidden / "cache",
            "DATASETS_DIR": datasets.default_root(),
            "PYTHONPATH": ROOT,
        }
        environment = {**os.environ, **{name: str(place) for name, place in places.items()}}
        environment["GNN_IPU_COMPILER"] = "unfused"  # half a minute less
        command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", "--ip=127.0.0.1"]
        command += [f"--port={self.port}", "--ServerApp.port_retries=0", f"--IdentityProvider.token={TOKEN}"]
        command += [f"--ServerApp.root_dir={self.folder}"]
        with (self.folder / "server.log").open("w") as log:
            return subprocess.Popen(command, env=environment, cwd=self.folder, stdout=log, stderr=log)

    def wait(self, seconds=60):
        end = time.monotonic() + seconds
        while time.monotonic() < end and self.process.poll() is None:
            address = f"http://127.0.0.1:{self.port}/api?token={TOKEN}"
            with contextlib.suppress(OSError), urllib.request.urlopen(address, timeout=2):
                return
            time.sleep(0.2)
        pytest.fail("JupyterLab did not start:\n" + (self.folder / "server.log").read_text()[-3000:])

    def saved(self, name):
        """The notebook as it is on disk."""
        return nbformat.read(self.folder / "notebooks" / name, as_version=4)


class Tab:
    """A notebook open in JupyterLab; cells are counted from 0, as in its file."""

    def __init__(self, browser, lab, name):
        self.lab, self.name = lab, name
        self.cells_in_file = lab.saved(name).cells
        self.context = browser.new_context(viewport={"width": 1280, "height": 800}, has_touch=True)
        self.page = self.context.new_page()
        self.page.goto(f"http://127.0.0.1:{lab.port}/lab/tree/notebooks/{name}?token={TOKEN}&reset")
        self.idle()

    def idle(self):
        """Wait until the kernel is there and has nothing left to do."""
        bar = self.page.locator("#jp-main-statusbar", has_text=re.compile(r"\| Idle"))
        bar.wait_for(timeout=60 * SECONDS)

    def cell(self, number):
        return self.page.locator(".jp-Notebook .jp-Cell").nth(number)

    def number_of(self, words):
        """The number of the cell with these words in its source."""
        return next(at for at, cell in enumerate(self.cells_in_file) if words in cell.source)

    def menu(self, name, *entry):
        self.page.locator(".lm-MenuBar-itemLabel", has_text=re.compile(f"^{name}$")).click()
        for words in entry:
            self.page.locator(".lm-Menu-itemLabel", has_text=re.compile(words)).first.click()

    def run_to(self, number):
        """Run every cell up to and with this one, by the menu."""
        self.cell(number + 1).click(position={"x": 5, "y": 5})
        self.menu("Run", "^Run All Above Selected Cell$")
        self.wait_for(number)

    def wait_for(self, number):
        """Wait until this cell has run, or another has raised."""
        prompt = self.cell(number).locator(".jp-InputPrompt", has_text=re.compile(r"\[\d+\]"))
        error = self.page.locator("[data-mime-type='application/vnd.jupyter.error']")
        prompt.or_(error).first.wait_for(timeout=120 * SECONDS)
        assert error.count() == 0, error.first.inner_text()[-1500:]

    def retype(self, number, source):
        """Replace what stands in a cell, and run it and the one below."""
        self.cell(number).locator(".cm-content").click()
        self.page.keyboard.press("Control+A")
        self.page.keyboard.insert_text(source)
        self.page.keyboard.press("Shift+Enter")
        self.page.keyboard.press("Shift+Enter")

    def selected(self):
        cells = "[...document.querySelectorAll('.jp-Notebook .jp-Cell')]"
        return self.page.evaluate(f"{cells}.findIndex(cell => cell.matches('.jp-mod-active'))")

    def scrolled(self):
        return self.page.evaluate(
            "(document.querySelector('.jp-WindowedPanel-outer') || document.scrollingElement).scrollTop"
        )


@pytest.fixture(scope="module")
def browser():
    with open_browser() as browser:
        yield browser


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    lab = Lab(tmp_path_factory.mktemp("lab"))
    try:
        lab.wait()
        yield lab
    finally:
        if lab.process.poll() is None:
            lab.process.terminate()
            lab.process.wait(30)


@pytest.fixture(scope="module")
def playground(browser, lab):
    tab = Tab(browser, lab, PLAYGROUND)
    tab.menu("Run", "^Run All Cells$")
    tab.wait_for(max(at for at, cell in enumerate(tab.cells_in_file) if cell.cell_type == "code"))
    tab.idle()
    yield tab
    tab.context.close()


@pytest.fixture(scope="module")
def molecules(browser, lab):
    tab = Tab(browser, lab, PADDING)
    tab.run_to(tab.number_of("viewers.molecules("))
    tab.page.wait_for_selector(".gnn-molecules[data-ready]", timeout=30 * SECONDS)
    yield tab
    tab.context.close()


@pytest.fixture(scope="module")
def packing(browser, lab):
    tab = Tab(browser, lab, PACKING)
    tab.run_to(tab.number_of("viewers.packing_explorer("))
    tab.page.wait_for_selector(".gnn-packing[data-ready]", timeout=30 * SECONDS)
    yield tab
    tab.context.close()


# -- a notebook from the first cell to the last


def test_a_notebook_runs_to_its_end_and_is_saved(playground):
    playground.page.keyboard.press("Control+S")
    playground.page.wait_for_selector(".jp-mod-current:not(.jp-mod-dirty)")
    cells = [cell for cell in playground.lab.saved(PLAYGROUND).cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    assert not [output for cell in cells for output in cell.outputs if output.output_type == "error"]


ANSWER = """class MyMaskNet(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = pyg.SAGEConv(1433, 7)
    def forward(self, x, edge_index, y, train_mask):
        out = self.conv(x, edge_index)
        return F.cross_entropy(out, torch.where(train_mask, y, -100))
"""


def test_a_cell_that_a_learner_breaks_is_told_with_its_line(playground):
    exercise = playground.number_of("class MyMaskNet")
    verdict = playground.cell(exercise + 1).locator(".jp-OutputArea-output").first
    playground.retype(exercise, ANSWER)
    verdict.filter(has_text="Right.").wait_for(timeout=30 * SECONDS)
    broken = ANSWER.replace("torch.where(train_mask, y, -100)", "y[y.unique()]")
    playground.retype(exercise, broken)
    verdict.filter(has_text="Not yet").wait_for(timeout=30 * SECONDS)
    assert "unique" in verdict.inner_text()
    assert "line 7" in verdict.inner_text()


# -- molecules


def picture(molecules):
    return molecules.page.locator(".gnn-molecules [role=img]").screenshot()


def words(molecules):
    return molecules.page.locator(".gnn-molecules [aria-live]").inner_text()


def zoom(molecules):
    """How many of the picture's pixels are not white: a molecule nearer by covers more."""
    image = Image.open(io.BytesIO(picture(molecules))).convert("L")
    return sum(image.histogram()[:250])


needs_3dmol = pytest.mark.skipif(
    not (vendor.VENDOR / "3Dmol-min.js").exists(), reason="make setup fetched no 3Dmol.js"
)


@needs_3dmol
def test_the_mouse_moves_to_another_molecule(molecules):
    slider = molecules.page.locator(".gnn-molecules input")
    slider.scroll_into_view_if_needed()
    before = words(molecules), picture(molecules)
    bar = slider.bounding_box()
    molecules.page.mouse.move(bar["x"] + 8, bar["y"] + bar["height"] / 2)
    molecules.page.mouse.down()
    molecules.page.mouse.move(bar["x"] + bar["width"] / 2, bar["y"] + bar["height"] / 2)
    molecules.page.mouse.up()
    assert words(molecules).startswith(("6 of 12.", "7 of 12."))
    assert words(molecules) != before[0]
    assert picture(molecules) != before[1]


@needs_3dmol
def test_arrow_keys_move_the_slider_and_not_the_notebook(molecules):
    slider = molecules.page.locator(".gnn-molecules input")
    slider.focus()
    molecules.page.keyboard.press("Home")
    before = words(molecules), picture(molecules)
    place = molecules.selected(), molecules.scrolled()
    molecules.page.keyboard.press("ArrowRight")
    molecules.page.keyboard.press("ArrowUp")
    assert words(molecules).startswith("3 of 12.")
    assert before[0].startswith("1 of 12.")
    assert picture(molecules) != before[1]
    assert (molecules.selected(), molecules.scrolled()) == place


@needs_3dmol
def test_the_wheel_over_a_molecule_scrolls_the_notebook(molecules):
    view = molecules.page.locator(".gnn-molecules [role=img]")
    view.scroll_into_view_if_needed()
    view.hover()  # which makes room for the toolbar of the cell
    before, shown = molecules.scrolled(), zoom(molecules)
    molecules.page.mouse.wheel(0, 60)
    deadline = time.monotonic() + 5
    while molecules.scrolled() == before and time.monotonic() < deadline:
        time.sleep(0.05)
    assert molecules.scrolled() > before
    assert zoom(molecules) == shown


# -- the packing explorer


def told(packing):
    return packing.page.locator(".gnn-packing p").inner_text()


def drawn(packing):
    return packing.page.locator(".gnn-packing svg").inner_html()


def test_the_mouse_sets_a_budget(packing):
    packing.page.get_by_label("StreamPack").click()
    before = told(packing), drawn(packing)
    slider = packing.page.get_by_role("slider", name="nodes")
    bar = slider.bounding_box()
    packing.page.mouse.click(bar["x"] + bar["width"] * 0.9, bar["y"] + bar["height"] / 2)
    assert int(slider.input_value()) > 179
    assert told(packing) != before[0]
    assert drawn(packing) != before[1]


def test_arrow_keys_set_a_budget_and_stay_in_the_explorer(packing):
    slider = packing.page.get_by_role("slider", name="graphs")
    slider.focus()
    before = told(packing), int(slider.input_value()), packing.selected(), packing.scrolled()
    for key in ("ArrowLeft", "ArrowDown", "ArrowLeft"):
        packing.page.keyboard.press(key)
    assert int(slider.input_value()) == before[1] - 3
    assert told(packing) != before[0]
    assert (packing.selected(), packing.scrolled()) == before[2:]


def test_touch_chooses_a_dataset_and_a_strategy(packing):
    packing.page.get_by_label("PROTEINS").tap()
    packing.page.get_by_label("Pack", exact=True).tap()
    label = packing.page.locator(".gnn-packing svg").get_attribute("aria-label")
    assert label.startswith("PROTEINS, Pack: ")
    assert told(packing) in label


# -- the end


def test_shutting_down_ends_the_server(browser, lab):
    tab = Tab(browser, lab, PLAYGROUND)
    tab.menu("File", "^Shut Down$")
    tab.page.locator(".jp-Dialog button.jp-mod-accept").click()
    assert lab.process.wait(30) == 0
    tab.context.close()
