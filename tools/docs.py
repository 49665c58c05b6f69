"""Make the site of the README, the notebooks with their stored outputs, the docs and the docstrings.

    python tools/docs.py            in build/site
    python tools/docs.py FOLDER     in FOLDER/site

Sphinx reads one folder, so the pages are laid out in build/site_source as they lie in the repository,
where the links between them hold. Any warning is an error: a link to nowhere, a docstring that reads badly.
"""

import shutil
import sys
from pathlib import Path

import nbformat
from sphinx.cmd.build import build_main

ROOT = Path(__file__).resolve().parent.parent
VENDOR = ROOT / "build" / "vendor"
CONTENTS = """

```{toctree}
:hidden:

notebooks/index
docs/reference/index
docs/supported_layers
docs/does_it_pay
docs/decisions
```
"""
TUTORIALS = """# Tutorials

```{toctree}
:glob:
:maxdepth: 1

*
```
"""


def lay_out(source):
    """Copy the pages into the folder `source`, with the README as its index."""
    shutil.rmtree(source, ignore_errors=True)
    shutil.copytree(ROOT / "static", source / "static", ignore=shutil.ignore_patterns("*.md"))
    shutil.copytree(ROOT / "examples", source / "examples", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "docs", source / "docs", ignore=shutil.ignore_patterns("conf.py", "__pycache__"))
    (source / "notebooks").mkdir()
    for path in (ROOT / "notebooks").glob("*.ipynb"):
        nbformat.write(adapt(nbformat.read(path, as_version=4)), source / "notebooks" / path.name)
    (source / "notebooks" / "index.md").write_text(TUTORIALS, encoding="utf-8")
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (source / "index.md").write_text(readme + CONTENTS, encoding="utf-8")


def adapt(notebook):
    """Have Sphinx fold away the cells tagged `solution`, and lead to the index instead of the README."""
    for cell in notebook.cells:
        if "solution" in cell.metadata.get("tags", []):
            cell.metadata["tags"] = [*cell.metadata["tags"], "hide-cell"]
        if cell.cell_type == "markdown":
            cell.source = cell.source.replace("](../README.md", "](../index.md")
    return notebook


def make(build):
    """Write the site below the folder `build`; 0 if nothing was wrong."""
    source, site = build / "site_source", build / "site"
    lay_out(source)
    shutil.rmtree(site, ignore_errors=True)
    settings = ["--quiet", "--fail-on-warning", "--builder=html", f"--conf-dir={ROOT / 'docs'}"]
    status = build_main([*settings, str(source), str(site)])
    if status == 0 and VENDOR.is_dir():
        # So that the 3D viewer works without a network.
        shutil.copytree(VENDOR, site / "notebooks" / "vendor")
    return status


if __name__ == "__main__":
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "build"
    failed = make(folder)
    if not failed:
        print(f"The site is made: open {folder / 'site' / 'index.html'}")
    sys.exit(failed)
