"""Make the site of the notebooks with their stored outputs, the docs and the docstrings.

    python tools/docs.py            in build/site
    python tools/docs.py FOLDER     in FOLDER/site

Sphinx reads one folder, so the pages are laid out in build/site_source as they lie in the repository, where
the links between them hold. Three pages are made here: the first one, the gallery of the tutorials, and the
table of layers. Any warning is an error: a link to nowhere, a docstring that reads badly.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import colab
import nbformat
import repository
import tutorials
from chromium import CHROMIUM, FLAGS
from sphinx.cmd.build import build_main

ROOT = Path(__file__).resolve().parent.parent
VENDOR = ROOT / "build" / "vendor"
# In the order of the navigation bar. A page that is not there (yet) is left out.
PAGES = {
    "notebooks/index": "Tutorials",
    "docs/cheat_sheet": "Cheat sheet",
    "docs/supported_layers": "Layers",
    "docs/reference/index": "Reference",
    "docs/troubleshooting": "Troubleshooting",
    "docs/does_it_pay": "Does it pay?",
    "docs/scaling_out": "Scaling out",
    "README": "Guide",
    "docs/architecture": "Architecture",
    "docs/decisions": "Decisions",
    "CONTRIBUTING": "Contributing",
    "CHANGELOG": "Changelog",
}


def lay_out(source: Path) -> None:
    """Copy the pages into the folder `source`, and make those that are made of others."""
    shutil.rmtree(source, ignore_errors=True)
    shutil.copytree(ROOT / "static", source / "static", ignore=shutil.ignore_patterns("*.md"))
    shutil.copytree(ROOT / "examples", source / "examples", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "docs", source / "docs", ignore=shutil.ignore_patterns("*.py", "site", "__*"))
    for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md"):
        shutil.copy(ROOT / name, source / name)
    (source / "notebooks").mkdir()
    pictures = {}
    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        notebook = nbformat.read(path, as_version=4)
        suffix, picture = tutorials.thumbnail(notebook)
        (source / "notebooks" / f"{path.stem}.{suffix}").write_bytes(picture)
        nbformat.write(folded(notebook), source / "notebooks" / path.name)
        pictures[path.stem] = f"{path.stem}.{suffix}"
    if CHROMIUM:
        sheet = source / "docs" / "cheat_sheet.md"
        link = '<a class="pdf" href="cheat_sheet.pdf" download>This page as a PDF, one sheet of A4</a>\n\n'
        sheet.write_text(
            sheet.read_text(encoding="utf-8").replace("\n## ", f"\n{link}## ", 1), encoding="utf-8"
        )
    layers = source / "docs" / "supported_layers.md"
    layers.write_text(in_one_table(layers.read_text(encoding="utf-8")), encoding="utf-8")
    gallery = f"# Tutorials\n\n{cards(pictures, '')}\n{contents(list(pictures))}"
    (source / "notebooks" / "index.md").write_text(gallery, encoding="utf-8")
    home = (ROOT / "docs" / "site" / "home.md").read_text(encoding="utf-8")
    home = home.replace("CARDS", cards(pictures, "notebooks/")).replace(
        "CHECK_REPORT", printed_by("first_check.py")
    )
    pages = [f"{title} <{page}>" for page, title in PAGES.items() if any(source.glob(f"{page}.*"))]
    (source / "index.md").write_text(home + contents(pages), encoding="utf-8")


def contents(pages: list[str]) -> str:
    """A table of contents that only the navigation shows."""
    return "\n".join(["", "```{toctree}", ":hidden:", "", *pages, "```", ""])


def folded(notebook):
    """The notebook with the cells tagged `solution` folded away."""
    for cell in notebook.cells:
        if "solution" in cell.metadata.get("tags", []):
            cell.metadata["tags"] = [*cell.metadata["tags"], "hide-cell"]
    return notebook


def printed_by(example: str) -> str:
    """What a script of examples/ prints, so that what the site shows is true."""
    command = [sys.executable, example]
    ran = subprocess.run(command, cwd=ROOT / "examples", capture_output=True, text=True, timeout=120)
    if ran.returncode:
        raise RuntimeError(f"examples/{example} failed:\n{ran.stderr}")
    return ran.stdout.strip()


def cards(pictures: dict[str, str], folder: str) -> str:
    """The tutorials as cards, from the README's table; `folder` leads to them and their `pictures`."""
    lines = ["::::{grid} 1 2 2 3", ":gutter: 3", ""]
    for name, entry in tutorials.table().items():
        title = entry["title"]
        lines += [
            f":::{{grid-item-card}} {title}",
            f":img-top: {folder}{pictures[name]}",
            f":img-alt: A figure from the tutorial {title}",
            f":link: {folder}{name}",
            ":link-type: doc",
            ":class-item: tutorial",
            "",
            f"You learn: {entry['you learn']}.",
            "```{card-footer}",
            f"{entry['to read']} to read, {entry['to run']} to run",
            "```",
            ":::",
            "",
        ]
    return "\n".join([*lines, "::::", ""])


VERDICTS = {
    "Static as it is": "as it is",
    "Static with an argument": "with an argument",
    "Replaced by us": "replaced",
    "Not static": "not static",
}


def in_one_table(page: str) -> str:
    """The page of layers with its lists and tables, one per verdict and kind, as one table."""
    before, *parts = re.split(r"(?m)^## ", page)
    sections = {part.partition("\n")[0].strip(): part for part in parts}
    rows = [row for title, verdict in VERDICTS.items() for row in layer_rows(sections.pop(title), verdict)]
    claimed = int(re.search(r"(\d+) layers", before)[1])
    if len(rows) != claimed:
        raise ValueError(f"docs/supported_layers.md has {claimed} layers, and {len(rows)} were read from it.")
    version = re.search(r"PyG ([\d.]+)", before)[1]
    table = ["| Layer | Kind | Verdict | What to write | Why |", "|---|---|---|---|---|"]
    table += ["| " + " | ".join(row) + " |" for row in sorted(rows, key=lambda row: row[0].lower())]
    about = (
        f"All layers of PyG {version}. *As it is*: use them as you do on a CPU or GPU. *With an argument*: "
        "pass what is named. *Replaced*: PyG's own code is dynamic inside, and a static version of the same "
        "mathematics takes its place while a model is compiled. *Not static*: an IPU cannot run it as it is."
    )
    before = re.sub(r"Written by `make layers`.*?do not edit\.\s*", "", before)  # meant for the file itself
    rest = [f"## {part}" for part in sections.values()]
    return "\n".join([before, about, "", "::::{div} layers", *table, "::::", "", *rest])


def layer_rows(section: str, verdict: str) -> list[list[str]]:
    """The layers of one verdict: name, kind, verdict, what to write, why."""
    rows = []
    for part in re.split(r"(?m)^### ", section)[1:]:
        kind = part.partition(" — ")[0]
        lines = [
            re.split(r"(?<!\\) \| ", line.strip("| ")) for line in part.splitlines() if line.startswith("| ")
        ]
        if lines:
            head, *entries = lines
            for name, *values in entries:
                named = dict(zip(head[1:], values))
                write = named.get("Argument") or named.get("Write instead", "")
                rows.append([name, kind, verdict, write, named.get("Why", "")])
        else:
            rows += [[name, kind, verdict, "", ""] for name in re.findall(r"`[^`]+`(?:\\\*)?", part)]
    return rows


def print_cheat_sheet(page: Path) -> None:
    """Write the cheat sheet beside itself as a PDF of one page, as large as it fits."""
    if not CHROMIUM:
        print("No Chromium or Chrome is installed: the site has no PDF of the cheat sheet.")
        return
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        tab = browser.new_page(color_scheme="light")
        tab.goto(page.resolve().as_uri())
        for percent in range(100, 40, -2):
            printed = tab.pdf(format="A4", scale=percent / 100, print_background=True)
            if printed.count(b"/Type /Page\n") == 1:
                break
        else:
            raise RuntimeError("The cheat sheet does not fit one sheet of A4, at less than half its size.")
        browser.close()
    page.with_suffix(".pdf").write_bytes(printed)


def make(build: Path) -> int:
    """Write the site below the folder `build`; 0 if nothing was wrong."""
    source, site = build / "site_source", build / "site"
    lay_out(source)
    shutil.rmtree(site, ignore_errors=True)
    settings = [
        "--quiet",
        "--fail-on-warning",
        "--keep-going",
        "--builder=html",
        f"--conf-dir={ROOT / 'docs'}",
    ]
    status = build_main([*settings, str(source), str(site)])
    if status == 0:
        print_cheat_sheet(site / "docs" / "cheat_sheet.html")
        address = repository.address()
        if address:
            colab.write(site / "notebooks", address)
        else:
            for path in (ROOT / "notebooks").glob("*.ipynb"):
                shutil.copy(path, site / "notebooks")
        if VENDOR.is_dir():
            # So that the 3D viewer works without a network.
            shutil.copytree(VENDOR, site / "notebooks" / "vendor")
    return status


if __name__ == "__main__":
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "build"
    failed = make(folder)
    if not failed:
        print(f"The site is made: open {folder / 'site' / 'index.html'}")
    sys.exit(failed)
