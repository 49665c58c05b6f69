"""The site: built without a warning, every public name and notebook in it, every page sound in a browser."""

import inspect
import subprocess
import sys
from pathlib import Path

import pytest
import sphinx.util.inventory

import gnn_ipu_helpers
from gnn_ipu_helpers import datasets, poptorch_cpu, porting, viewers

from .browser import needs_browser, open_browser

ROOT = Path(__file__).resolve().parent.parent
NOTEBOOKS = sorted(path.stem for path in (ROOT / "notebooks").glob("*.ipynb"))
BROKEN_PICTURES = "[...document.images].filter(i => i.complete && !i.naturalWidth).map(i => i.src)"


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    build = tmp_path_factory.mktemp("build")
    command = [sys.executable, str(ROOT / "tools" / "docs.py"), str(build)]
    made = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert made.returncode == 0, made.stderr
    return build / "site"


def test_every_public_name_is_in_the_reference(site):
    inventory = sphinx.util.inventory.InventoryFile.loads((site / "objects.inv").read_bytes(), uri="")
    documented = {name for kind in inventory.data if kind.startswith("py:") for name in inventory.data[kind]}
    modules = [gnn_ipu_helpers, poptorch_cpu, porting, datasets, viewers]
    public = {f"{module.__name__}.{name}" for module in modules for name in module.__all__}
    public |= {
        f"{poptorch_cpu.optim.__name__}.{name}" for name in ("SGD", "Adam", "AdamW", "RMSprop", "LAMB")
    }
    submodules = {
        f"{module.__name__}.{name}"
        for module in modules
        for name in module.__all__
        if inspect.ismodule(getattr(module, name))
    }
    aliases = {"gnn_ipu_helpers.check"}  # documented where it is defined, as gnn_ipu_helpers.porting.check
    assert public - submodules - aliases - documented == set()


def test_every_notebook_is_a_page_with_its_outputs_and_folded_solutions(site):
    for name in NOTEBOOKS:
        page = (site / "notebooks" / f"{name}.html").read_text(encoding="utf-8")
        assert "Backend: CPU implementation" in page
        assert page.count("Show the solution") >= 2


@needs_browser
def test_pages_load_offline_without_errors_and_fit_a_phone(site):
    pages = [site / "index.html", *site.glob("notebooks/*.html"), *site.glob("docs/**/*.html")]
    problems = []
    with open_browser() as browser:
        tab = browser.new_context(offline=True, viewport={"width": 400, "height": 800}).new_page()
        tab.on("pageerror", lambda error: problems.append(f"{tab.url}: {error}"))
        for path in pages:
            tab.goto(path.as_uri())
            problems += [f"{path.name}: no picture at {source}" for source in tab.evaluate(BROKEN_PICTURES)]
            width = tab.evaluate("document.documentElement.scrollWidth")
            if width > 400:
                problems.append(f"{path.name}: {width} pixels wide on a screen of 400")
    assert len(pages) > len(NOTEBOOKS)
    assert problems == []
