"""The site: built without a warning, every public name and notebook in it, every page sound in a browser."""

import inspect
import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
import sphinx.util.inventory

import gnn_ipu_helpers
from gnn_ipu_helpers import batching, datasets, poptorch_cpu, porting, viewers

from .browser import needs_browser, note_problems, open_browser, serve

ROOT = Path(__file__).resolve().parent.parent
NOTEBOOKS = sorted(path.stem for path in (ROOT / "notebooks").glob("*.ipynb"))
LOOKED_AT = [
    "index.html",
    "notebooks/index.html",
    "notebooks/1_at_a_glance.html",
    "docs/reference/batching.html",
    "docs/supported_layers.html",
    "docs/troubleshooting.html",
]
AXE_RULES = [
    "button-name",
    "color-contrast",
    "document-title",
    "empty-heading",
    "heading-order",
    "html-has-lang",
    "image-alt",
    "label",
    "link-name",
    "page-has-heading-one",
    "select-name",
]
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
    modules = [gnn_ipu_helpers, batching, poptorch_cpu, porting, datasets, viewers]
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
    aliases |= {f"gnn_ipu_helpers.batching.{name}" for name in gnn_ipu_helpers.__all__}
    assert public - submodules - aliases - documented == set()


def test_every_name_in_the_reference_has_an_example(site):
    pages = [path.read_text(encoding="utf-8") for path in (site / "docs" / "reference").glob("*.html")]
    begin = r'<dl class="py (?:class|function)">'
    top_level = re.compile(rf'(?s){begin}\s*<dt class="sig[^"]*" id="([\w.]+)">(.*?)(?={begin}|\Z)')
    entries = [entry for page in pages for entry in top_level.findall(page)]
    assert len(entries) > 100
    assert [name for name, text in entries if "&gt;&gt;&gt;" not in text] == []


def test_names_of_torch_pyg_and_python_lead_to_their_documentation(site):
    page = (site / "docs" / "reference" / "batching.html").read_text(encoding="utf-8")
    links = set(re.findall(r'href="(https://[^"]+)"', page))
    for part in (
        "torch_geometric.data.Data",
        "docs.python.org/3/library/functions.html#int",
        "#torch.Tensor",
    ):
        assert any(part in link for link in links), part


def test_every_notebook_is_a_page_with_its_outputs_and_folded_solutions(site):
    for name in NOTEBOOKS:
        page = (site / "notebooks" / f"{name}.html").read_text(encoding="utf-8")
        assert "Backend: CPU implementation" in page
        assert page.count("Show the solution") >= 2


def test_the_first_page_shows_a_report_that_the_example_really_prints(site):
    page = (site / "index.html").read_text(encoding="utf-8")
    assert "not a static graph yet, 2 places to change" in page
    assert "first_check.py:" in page


def test_every_tutorial_has_a_card_with_a_thumbnail_and_can_be_downloaded(site):
    for page in ("index.html", "notebooks/index.html"):
        text = (site / page).read_text(encoding="utf-8")
        assert len(re.findall(r'<div[^>]*class="[^"]*sd-card ', text)) == len(NOTEBOOKS)
        for name in NOTEBOOKS:
            assert re.search(rf"_images/{name}\.(png|svg)", text)
    for name in NOTEBOOKS:
        assert f'href="{name}.ipynb" download' in (site / "notebooks" / f"{name}.html").read_text("utf-8")
        assert nbformat.read(site / "notebooks" / f"{name}.ipynb", as_version=4).cells


def test_code_cells_are_counted_as_findings_count_them(site):
    for name in NOTEBOOKS:
        page = (site / "notebooks" / f"{name}.html").read_text(encoding="utf-8")
        cells = nbformat.read(ROOT / "notebooks" / f"{name}.ipynb", as_version=4).cells
        last = max(cell.execution_count or 0 for cell in cells if cell.cell_type == "code")
        assert len(re.findall(r'<div class="cell[ "]', page)) == last


def test_public_names_lead_to_their_source(site):
    page = (site / "docs" / "reference" / "batching.html").read_text(encoding="utf-8")
    (source,) = set(re.findall(r'href="\.\./\.\./(_modules/[^"#]+)#[\w./-]*FixedSizeDataLoader"', page))
    assert "class" in (site / source).read_text(encoding="utf-8")


def test_all_layers_stand_in_one_table(site):
    page = (site / "docs" / "supported_layers.html").read_text(encoding="utf-8")
    claimed = int(re.search(r"(\d+) layers", page)[1])
    table = page[page.index('class="layers') :]
    assert table[: table.index("</table>")].count("<tr") == claimed + 1


@needs_browser
def test_the_cheat_sheet_is_a_pdf_of_one_page_that_its_page_links_to(site):
    printed = (site / "docs" / "cheat_sheet.pdf").read_bytes()
    assert printed.startswith(b"%PDF")
    assert re.findall(rb"/Count (\d+)", printed) == [b"1"]
    assert 'href="cheat_sheet.pdf"' in (site / "docs" / "cheat_sheet.html").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def tab(site):
    """A browser's tab, and the address of the site for it."""
    with serve(site) as address, open_browser() as browser:
        page = browser.new_page()
        page.address = address
        yield page


@needs_browser
def test_pages_open_without_errors_ask_for_nothing_elsewhere_and_fit_a_phone(site, tab):
    pages = [*site.glob("*.html"), *site.glob("notebooks/*.html"), *site.glob("docs/**/*.html")]
    pages += (site / "_modules").rglob("loaders.html")  # one of them for all listings of source
    problems = []
    note_problems(tab, tab.address, problems)
    tab.set_viewport_size({"width": 400, "height": 800})
    for path in pages:
        name = path.relative_to(site).as_posix()
        tab.goto(tab.address + name, wait_until="load")
        problems += [f"{name}: no picture at {source}" for source in tab.evaluate(BROKEN_PICTURES)]
        width = tab.evaluate("document.documentElement.scrollWidth")
        if width > 400:
            problems.append(f"{name}: {width} pixels wide on a screen of 400")
    if not (
        ROOT / "build" / "vendor"
    ).is_dir():  # `make setup` could not fetch it: then the viewer looks elsewhere
        problems = [problem for problem in problems if "3Dmol" not in problem]
    assert len(pages) > len(NOTEBOOKS)
    assert not problems, "\n".join(problems)


@needs_browser
def test_search_finds_a_loader(tab):
    tab.goto(tab.address + "search.html?q=FixedSizeDataLoader")
    tab.wait_for_selector("#search-results li a")
    found = tab.evaluate("[...document.querySelectorAll('#search-results li a')].map(a => a.href)")
    assert any("docs/reference/batching.html" in link for link in found)


@needs_browser
def test_layers_can_be_searched_and_sorted(tab):
    tab.set_viewport_size({"width": 1280, "height": 900})
    tab.goto(tab.address + "docs/supported_layers.html")
    names = "document.querySelectorAll('.layers tbody tr:not([hidden]) td:first-child')"
    shown = f"[...{names}].map(name => name.innerText)"
    everything = tab.evaluate(shown)
    tab.fill(".layers-search input", "gcnconv")
    assert "GCNConv" in tab.evaluate(shown)
    assert 0 < len(tab.evaluate(shown)) < len(everything) / 4
    tab.fill(".layers-search input", "")
    tab.select_option(".layers-search select", "not static")
    assert "TopKPooling" in tab.evaluate(shown)
    assert "GCNConv" not in tab.evaluate(shown)
    tab.select_option(".layers-search select", "")
    for _ in range(2):
        tab.click(".layers th:first-child button")
    assert tab.evaluate(shown)[0] == max(everything, key=str.lower)
    assert tab.get_attribute(".layers th:first-child", "aria-sort") == "descending"


@needs_browser
def test_code_fits_a_laptop_and_figures_bring_their_own_ground_in_the_dark(tab):
    tab.set_viewport_size({"width": 1280, "height": 900})
    tab.emulate_media(color_scheme="dark")
    tab.goto(tab.address + "notebooks/3_small_graph_batching_with_padding.html")
    assert tab.evaluate("document.documentElement.dataset.theme") == "dark"
    blocks = "[...document.querySelectorAll('.highlight pre')]"
    assert tab.evaluate(f"{blocks}.filter(block => block.scrollWidth > block.clientWidth + 1).length") == 0
    grounds = (
        "[...document.querySelectorAll('.bd-article img')].map(i => "
        "[/[.]svg$|^data:image.svg/.test(i.getAttribute('src')), getComputedStyle(i).backgroundColor])"
    )
    expected = {True: "rgba(0, 0, 0, 0)", False: "rgb(255, 255, 255)"}
    found = tab.evaluate(grounds)
    assert found == [[is_ours, expected[is_ours]] for is_ours, _ in found]
    assert any(is_ours for is_ours, _ in found)
    tab.emulate_media(color_scheme="light")


@needs_browser
def test_the_report_of_the_check_is_cards_on_a_phone_and_dark_in_the_dark(tab):
    row = "[...document.querySelector('.cell_output table:has(td:nth-child(5)) tbody tr').cells]"
    edges = f"{row}.map(cell => [cell.getBoundingClientRect().left, cell.getBoundingClientRect().right])"
    tab.set_viewport_size({"width": 1280, "height": 900})
    tab.goto(tab.address + "notebooks/1_at_a_glance.html")
    assert len({left for left, _ in tab.evaluate(edges)}) == 5
    tab.set_viewport_size({"width": 400, "height": 800})
    assert len({left for left, _ in tab.evaluate(edges)}) == 1
    assert max(right for _, right in tab.evaluate(edges)) <= 400
    assert tab.evaluate(f"getComputedStyle({row}[4], '::before').content") == '"Write instead: "'
    tab.emulate_media(color_scheme="dark", reduced_motion="reduce")
    tab.reload()
    assert tab.evaluate("document.documentElement.dataset.theme") == "dark"
    ground = f"getComputedStyle({row}[0].closest('.output')).backgroundColor"
    assert tab.evaluate(ground) == tab.evaluate("getComputedStyle(document.body).backgroundColor")
    tab.emulate_media(color_scheme="light")


@needs_browser
def test_the_column_of_contents_is_not_cut_off(tab):
    tab.set_viewport_size({"width": 1280, "height": 900})
    tab.goto(tab.address + "docs/reference/batching.html")
    names = "[...document.querySelectorAll('.bd-sidebar-secondary code')]"
    ends = tab.evaluate(f"{names}.map(name => name.getBoundingClientRect().right)")
    assert len(ends) > 5
    assert max(ends) <= tab.evaluate("document.documentElement.clientWidth")


@needs_browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_headings_contrast_and_labels_pass_axe(tab, scheme):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    tab.emulate_media(color_scheme=scheme, reduced_motion="reduce")  # no colours in the middle of changing
    tab.set_viewport_size({"width": 1280, "height": 900})
    problems = []
    for page in LOOKED_AT:
        tab.goto(tab.address + page)
        result = axe.run(tab, options={"runOnly": AXE_RULES, "resultTypes": ["violations"]})
        for violation in result.response["violations"]:
            places = [" ".join(map(str, node["target"])) for node in violation["nodes"]]
            problems.append(f"{page}: {violation['id']}: {len(places)} times, first {places[0]}")
    tab.emulate_media(color_scheme="light")
    assert not problems, "\n".join(problems)
