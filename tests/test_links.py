"""Relative links in the README, the docs and the notebooks lead to files, and anchors to headings."""

import re
from pathlib import Path

import nbformat
import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *(ROOT / "notebooks").glob("*.ipynb")]
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)|(?:src|href)=\"([^\"]+)\"")


def markdown(path):
    if path.suffix == ".ipynb":
        cells = nbformat.read(path, as_version=4).cells
        return "\n\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
    return path.read_text(encoding="utf-8")


def without_code(text):
    return re.sub(r"`[^`\n]*`", "", re.sub(r"(?s)```.*?```", "", text))


def links_in(path):
    return [link or address for link, address in LINK.findall(without_code(markdown(path)))]


def anchors(path):
    headings = re.findall(r"(?m)^#+ +(.*?) *$", markdown(path))
    forms = set()
    for heading in headings:
        plain = re.sub(r"[`*]", "", heading)
        forms.add(plain.replace(" ", "-"))
        forms.add(re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-"))
    return forms


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_relative_links_lead_somewhere(page):
    for link in links_in(page):
        if re.match(r"[a-z]+:", link):
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        assert target.exists(), f"{page.name} links to {link}, which is not there"
        if anchor and target.suffix in (".md", ".ipynb"):
            assert anchor in anchors(target), f"{page.name} links to {link}, but that heading is not there"


def test_the_readme_leads_to_every_notebook():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for notebook in (ROOT / "notebooks").glob("*.ipynb"):
        assert f"notebooks/{notebook.name}" in text


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", "docs/architecture.md"])
def test_files_that_a_guide_names_are_there(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    named = re.findall(r"`((?:gnn_ipu_helpers|tests|tools)/[\w/]+\.py)`", text)
    assert len(named) > 3
    for name in named:
        assert (ROOT / name).exists(), f"{page} names {name}, which is not there"
