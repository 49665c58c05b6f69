"""Every number in a notebook's prose comes from one of its outputs or code cells, so that no text goes stale.

`EXECUTED=build/notebooks` looks at notebooks that were run somewhere else, such as on stand-in data.
"""

import json
import os
import re
from pathlib import Path

import nbformat
import pytest

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = sorted((ROOT / os.environ.get("EXECUTED", "notebooks")).glob("*.ipynb"))
NUMBER = re.compile(r"(?<![\w.,])\d[\d,]*(?:\.\d+)?(?!\w)")
SMALL = 10  # "three steps", "layer 2": counts that a reader sees at a glance
YEARS = range(1990, 2031)
LEFT_OUT = (
    r"```.*?```",  # code is code
    r"`[^`]*`",
    r"(?m)^\*\*Time[^\n]*",  # how long and how large: its own test below
    r"!\[[^]]*\]\([^)]*\)",  # drawings are tested with their alternative texts
    r"\]\([^)]*\)",  # where a link leads
    r"<[^>]+>",
    r"(?i)\bnotebooks? \d\b",
)


@pytest.fixture(params=NOTEBOOKS, ids=lambda path: path.stem)
def notebook(request):
    return nbformat.read(request.param, as_version=4)


def value(text):
    return float(text.replace(",", "").replace("_", ""))


def numbers_in_prose(markdown):
    """The numbers that a text claims, as (words around it, value, whether in percent)."""
    for pattern in LEFT_OUT:
        markdown = re.sub(pattern, " ", markdown, flags=re.DOTALL)
    for found in NUMBER.finditer(markdown):
        number = value(found.group().rstrip(","))
        whole = number == int(number)
        if whole and (number <= SMALL or ("," not in found.group() and number in YEARS)):
            continue
        around = " ".join(markdown[max(0, found.start() - 40) : found.end() + 20].split())
        yield around, number, bool(re.match(r"\s?%", markdown[found.end() :]))


def numbers_shown(notebook):
    """The values that stand in the outputs and in the code."""
    texts = []
    for cell in notebook.cells:
        if cell.cell_type == "code":
            texts.append(cell.source.replace("_", ""))
            for output in cell.outputs:
                data = {kind: text for kind, text in output.get("data", {}).items() if "image" not in kind}
                texts.append(json.dumps([output.get("text", ""), data], ensure_ascii=False))
    found = [number for text in texts for number in re.findall(r"\d[\d,]*\d(?:\.\d+)?|\d(?:\.\d+)?", text)]
    return {value(number) for number in found}


def unsupported(notebook):
    shown = numbers_shown(notebook)
    prose = "\n\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
    return [
        around
        for around, number, percent in numbers_in_prose(prose)
        if number not in shown and not (percent and round(number / 100, 9) in shown)
    ]


def test_every_number_in_the_text_is_shown(notebook):
    assert unsupported(notebook) == []


def test_the_stated_size_is_the_number_of_code_lines(notebook):
    (stated,) = re.findall(r"(\d+) lines of code", notebook.cells[0].source)
    lines = [
        line
        for cell in notebook.cells
        if cell.cell_type == "code"
        for line in cell.source.splitlines()
        if line.strip()
    ]
    assert int(stated) == pytest.approx(len(lines), rel=0.1)


def test_solutions_store_no_output(notebook):
    if "EXECUTED" in os.environ:
        pytest.skip("an executed notebook has them")
    solutions = [cell for cell in notebook.cells if "solution" in cell.metadata.get("tags", [])]
    assert [cell.outputs for cell in solutions] == [[]] * len(solutions)


@pytest.mark.parametrize(
    ("text", "claims"),
    [
        ("It has 2708 nodes.", [2708]),
        ("It took 12,345 steps, 81.5 % right.", [12345, 81.5]),
        ("Seven of 7 in `x[1433]`, since 2017 ([paper](https://arxiv.org/1609.02907)).", []),
        ("See notebook 12.\n\n**Time:** 25 minutes.\n", [12]),
    ],
)
def test_what_counts_as_a_claim(text, claims):
    assert [number for _, number, _ in numbers_in_prose(text)] == claims
