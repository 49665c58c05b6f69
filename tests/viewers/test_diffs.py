"""A rendered diff shows what goes and what comes, in signs as well as in colours."""

import re
from pathlib import Path

import pytest

from gnn_ipu_helpers import viewers

BEFORE = "import torch\n\nx = 1\ny = 2\nz = 3\nu = 4\nv = 5\nw = 6\n"
AFTER = "import torch\n\nx = 10\ny = 2\nz = 3\nu = 4\nv = 5\nw = 6\nprint(x < y)\n"


def lines(page, tag):
    return re.findall(rf"<{tag} [^>]*>(.*?)</{tag}>", page.html)


def test_lines_out_and_in_carry_their_signs():
    page = viewers.diff(BEFORE, AFTER)
    assert lines(page, "del") == ["- x = 1"]
    assert lines(page, "ins") == ["+ x = 10", "+ print(x &lt; y)"]
    assert page.alt.startswith("before → after: 1 line out, 2 lines in\n")
    assert "\n-x = 1\n+x = 10\n" in page.alt


def test_context_and_blocks_can_be_chosen():
    page = viewers.diff(BEFORE, AFTER, context=1, hunks=[1])
    assert lines(page, "del") == []
    assert lines(page, "ins") == ["+ print(x &lt; y)"]
    assert "  w = 6" in page.html
    assert "v = 5" not in page.html


def test_a_block_that_is_not_there_is_refused():
    with pytest.raises(ValueError, match=r"there are 2 blocks of changes, numbered from 0 \(got \[2\]\)"):
        viewers.diff(BEFORE, AFTER, context=1, hunks=[0, 2])


def test_files_are_named_in_the_heading(tmp_path):
    for name, text in (("a.py", BEFORE), ("b.py", AFTER)):
        (tmp_path / name).write_text(text)
    page = viewers.diff(tmp_path / "a.py", str(tmp_path / "b.py"))
    assert "a.py → b.py: 1 line out, 2 lines in" in page.html
    assert str(tmp_path) not in page.html + page.alt


def test_a_missing_file_is_refused():
    with pytest.raises(ValueError, match=r"got 'nowhere\.py'"):
        viewers.diff(Path("nowhere.py"), AFTER)
