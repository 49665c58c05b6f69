"""What the pages of the tutorials have in common: titles, thumbnails, and the README's table of them."""

from __future__ import annotations

import base64
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def title_of(notebook) -> str:
    """The notebook's first heading, or an empty string."""
    headings = [re.search(r"(?m)^# +(.+?) *$", cell.source) for cell in notebook.cells]
    return next((heading[1] for heading in headings if heading), "")


def table() -> dict[str, dict[str, str]]:
    """The README's table of notebooks: by the notebook's name, its short title and the columns of its row."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    head, _, *rows = re.search(r"(?m)^\| notebook \|.*\n(?:\|.*\n)+", text)[0].splitlines()
    columns = [name.strip() for name in head.strip("|").split("|")]
    entries = {}
    for row in rows:
        entry = dict(zip(columns, (value.strip() for value in row.strip("|").split("|"))))
        title, name = re.fullmatch(r"\[(.*)\]\(notebooks/(.*)\.ipynb\)", entry["notebook"]).groups()
        entries[name] = {"title": title, **entry}
    return entries


def thumbnail(notebook) -> tuple[str, bytes]:
    """Suffix and content of the first picture that the notebook drew, or of a finding if it drew none."""
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    drawn = [output.data["image/png"] for output in outputs if "image/png" in output.get("data", {})]
    return ("png", base64.b64decode(drawn[0])) if drawn else ("svg", FINDING.encode())


FINDING = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 400 160">
<g font-family="ui-monospace, monospace" font-size="19">
<text x="20" y="44" fill="#b34700">x = x[mask]</text>
<text x="20" y="130" fill="#00704f">x = torch.where(mask, x, 0)</text></g>
<text x="20" y="86" font-family="sans-serif" font-size="15"
fill="#444">not static: rows depend on values</text>
</svg>
"""
