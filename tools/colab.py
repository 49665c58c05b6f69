"""The first cell that a notebook needs on Google Colab, where nothing of this repository is installed.

    python tools/colab.py                    print the cell
    python tools/colab.py --into FOLDER      copy the notebooks to FOLDER, each with the cell in front

Where the package is installed the cell does nothing, so it can stay in a notebook that is run elsewhere.
Where it is not, the cell clones the repository, installs the package with what the notebooks need, and goes
into the folder of the notebooks: the appendix reads the examples beside it. Colab's own torch is kept.

Colab opens notebooks from GitHub, so the workflow that publishes the site also writes these copies to the
branch `colab`, to which the links for Colab lead. The notebooks that the site offers to download begin with
the cell too, once the repository has an address.
"""

from __future__ import annotations

import sys
from pathlib import Path

import nbformat

sys.path.insert(0, str(Path(__file__).resolve().parent))
import repository

CELL = """\
# On Colab this fetches the repository and installs it; elsewhere it does nothing.
import importlib.util, os, subprocess, sys
if importlib.util.find_spec("gnn_ipu_helpers") is None:
    subprocess.run(["git", "clone", "--quiet", "--depth", "1", "{address}", "tutorials"], check=True)
    package = "./tutorials[viewers,sampling,notebooks]"
    subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", package], check=True)
    os.chdir("tutorials/notebooks")
    importlib.invalidate_caches()
"""


def cell(address: str) -> str:
    """The source of the cell, installing from `address`."""
    return CELL.format(address=address)


def write(folder: Path, address: str) -> list[Path]:
    """Copy the notebooks to `folder` with the cell in front of each; the copies."""
    folder.mkdir(parents=True, exist_ok=True)
    copies = []
    for path in sorted((repository.ROOT / "notebooks").glob("*.ipynb")):
        notebook = nbformat.read(path, as_version=4)
        first = nbformat.v4.new_code_cell(cell(address), id="colab", metadata={"tags": ["colab"]})
        notebook.cells.insert(0, first)
        nbformat.write(notebook, folder / path.name)
        copies.append(folder / path.name)
    return copies


if __name__ == "__main__":
    where = repository.address()
    if where is None:
        sys.exit(
            "tools/colab.py: set the address first, with tools/repository.py https://github.com/you/yours"
        )
    if sys.argv[1:2] == ["--into"] and len(sys.argv) == 3:
        print("\n".join(map(str, write(Path(sys.argv[2]), where))))
    else:
        print(cell(where), end="")
