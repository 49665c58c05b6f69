"""The README's code runs as printed."""

import re
from pathlib import Path

README = (Path(__file__).resolve().parent.parent / "README.md").read_text(encoding="utf-8")


def test_the_loaders_in_ten_lines(capsys):
    (snippet,) = re.findall(r"(?s)```python\n(.*?)```", README)
    assert len([line for line in snippet.splitlines() if line.strip()]) <= 10
    names = {}
    exec(snippet, names)
    assert "of nodes" in capsys.readouterr().out
    assert names["pooled"].shape == (names["sizes"].num_graphs, names["dataset"].num_features)
