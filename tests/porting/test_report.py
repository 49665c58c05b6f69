"""How findings read, as text, as an error and as a table."""

import pickle

import pytest

from gnn_ipu_helpers.porting import Finding, Place, Report, StaticGraphError
from gnn_ipu_helpers.porting.places import is_library, locate, parse_stack, shown

OWN = Finding("boolean indexing", "model.py", 12, "return out[mask]", "sizes <vary>", "use torch.where(a, b)")
INSIDE = Finding(
    "GCNConv",
    "model.py",
    20,
    "x = self.conv(x, edge_index)",
    "edges are removed",
    "add_self_loops=False",
    Place(
        "torch_geometric/utils/loop.py", 650, "add_remaining_self_loops", "edge_index = edge_index[:, mask]"
    ),
)


def test_text_has_one_block_per_finding_with_place_source_reason_and_remedy():
    report = Report(False, [OWN, INSIDE], "Model: not a static graph yet, 2 places to change.")

    assert str(report) == (
        "Model: not a static graph yet, 2 places to change.\n"
        "\n"
        "1. model.py:12  boolean indexing\n"
        "    return out[mask]\n"
        "  why:     sizes <vary>\n"
        "  instead: use torch.where(a, b)\n"
        "\n"
        "2. model.py:20  GCNConv\n"
        "    x = self.conv(x, edge_index)\n"
        "  cause:   torch_geometric/utils/loop.py:650  edge_index = edge_index[:, mask]\n"
        "  why:     edges are removed\n"
        "  instead: add_self_loops=False"
    )


def test_table_holds_every_finding_and_escapes_what_it_shows():
    table = Report(False, [OWN, INSIDE], "Two <places>.")._repr_html_()

    assert table.count("<tr>") == 3
    assert "Two &lt;places&gt;." in table
    assert "sizes &lt;vary&gt;" in table
    assert "<code>return out[mask]</code>" in table
    assert "torch_geometric/utils/loop.py:650" in table


def test_a_clean_report_is_a_sentence_and_no_table():
    report = Report(True, [], "Model: one static graph, nothing to change.")

    assert str(report) == repr(report) == "Model: one static graph, nothing to change."
    assert "<table" not in report._repr_html_()


def test_the_error_reads_like_the_report_and_carries_the_findings():
    error = StaticGraphError([OWN])

    assert error.findings == [OWN]
    assert "1 place to change" in str(error)
    assert "1. model.py:12  boolean indexing" in str(error)
    assert "2 places to change" in str(StaticGraphError([OWN, INSIDE]))


def test_error_and_findings_survive_pickling():
    error = pickle.loads(pickle.dumps(StaticGraphError([OWN, INSIDE])))

    assert error.findings == [OWN, INSIDE]


def test_the_users_innermost_line_and_the_librarys_innermost_line_are_taken():
    import torch
    import torch_geometric

    stack = parse_stack(
        f"""
  File "/home/me/train.py", line 3, in forward
    return self.head(x)
  File "/home/me/layers.py", line 7, in head
    return global_mean_pool(x, batch)
  File "{torch_geometric.__path__[0]}/nn/pool/glob.py", line 60, in global_mean_pool
    return scatter(x, batch)
  File "{torch_geometric.__path__[0]}/utils/_scatter.py", line 48, in scatter
    dim_size = int(index.max()) + 1
  File "{torch.__path__[0]}/_tensor.py", line 1, in max
    return wrapped()
"""
    )
    user, cause = locate(stack)

    assert (user.file, user.line, user.function) == ("/home/me/layers.py", 7, "head")
    assert cause.function == "scatter"


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        ("/tmp/ipykernel_812/1234567.py", "notebook cell"),
        ("<ipython-input-5-abcdef>", "In[5]"),
        ("/somewhere/else/model.py", "/somewhere/else/model.py"),
    ],
)
def test_files_are_shown_as_a_reader_knows_them(file, expected):
    assert shown(file) == expected


def test_files_below_the_working_directory_are_shown_relative_to_it(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)

    assert shown(str(tmp_path / "models" / "gcn.py")) == "models/gcn.py"


def test_a_notebooks_cell_is_the_users_own_code():
    assert not is_library("/tmp/ipykernel_812/1234567.py")
    assert not is_library("<ipython-input-5-abcdef>")
