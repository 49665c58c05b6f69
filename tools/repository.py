"""The repository's address, which is one setting: `Repository` in pyproject.toml.

    python tools/repository.py                                  say what it is
    python tools/repository.py https://github.com/you/yours     write it everywhere

The site reads it when it is built. CITATION.cff and README.md cannot, so the second form writes it into them;
a test holds them to it. While it names OWNER nothing links to it.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SETTING = re.compile(r'(?m)^Repository = "(.*)"$')
CITED = re.compile(r"(?m)^repository-code: .*\n")
LINKS = re.compile(r"(?s)(<!-- one click -->\n).*?(<!-- /one click -->\n)")
FORM = re.compile(r"https://github\.com/([\w.-]+/[\w.-]+?)(?:\.git)?/?")


def address(root: Path = ROOT) -> str | None:
    """The address, such as `https://github.com/you/yours`; None while it is not set."""
    found = SETTING.search((root / "pyproject.toml").read_text(encoding="utf-8"))[1]
    return None if "/OWNER/" in found else found


def launch_links(repository: str, notebook: str = "") -> dict[str, str]:
    """Where the repository, or one notebook of it, opens with one click, by service."""
    name = FORM.fullmatch(repository)[1]
    path = f"notebooks/{notebook}" if notebook else ""
    return {
        # On a branch that the site's workflow fills, the notebooks begin with the cell of tools/colab.py.
        "Colab": f"https://colab.research.google.com/github/{name}/blob/colab/{path or 'notebooks'}",
        "Binder": f"https://mybinder.org/v2/gh/{name}/main?urlpath=lab/tree/{path or 'notebooks'}",
        "Codespaces": f"https://codespaces.new/{name}",
    }


def write(repository: str, root: Path = ROOT) -> list[str]:
    """Write the address into every file that holds it; the names of those that changed."""
    if not FORM.fullmatch(repository):
        raise ValueError(f"An address such as https://github.com/you/yours is needed (got {repository!r}).")
    repository = f"https://github.com/{FORM.fullmatch(repository)[1]}"
    is_set = "/OWNER/" not in repository
    links = " · ".join(f"[{service}]({link})" for service, link in launch_links(repository).items())
    line = f"Open the notebooks in your browser: {links}. Each sets itself up.\n\n" if is_set else ""
    cited = f"repository-code: {repository}\n" if is_set else ""

    def cite(text):
        return CITED.sub("", text) + cited

    changed = []
    for name, edit in {
        "pyproject.toml": lambda text: re.sub(
            rf"{re.escape(SETTING.search(text)[1])}(?=[/\"])", repository, text
        ),
        "CITATION.cff": cite,
        "README.md": lambda text: LINKS.sub(lambda found: found[1] + line + found[2], text),
    }.items():
        before = (root / name).read_text(encoding="utf-8")
        after = edit(before)
        if after != before:
            (root / name).write_text(after, encoding="utf-8")
            changed.append(name)
    return changed


if __name__ == "__main__":
    if len(sys.argv) == 1:
        print(address() or "not set: python tools/repository.py https://github.com/you/yours")
    else:
        try:
            print("written into " + (", ".join(write(sys.argv[1])) or "nothing: it was there already"))
        except ValueError as error:
            sys.exit(f"tools/repository.py: {error}")
