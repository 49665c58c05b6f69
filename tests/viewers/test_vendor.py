"""3Dmol.js is fetched where it can be, and its absence stops nothing."""

import subprocess

import pytest

from tools import vendor


def missing():
    raise FileNotFoundError("npm")


def failing():
    raise subprocess.CalledProcessError(1, "npm")


def from_somewhere():
    return b"script"


def never():
    pytest.fail("fetched again")


def test_the_first_source_that_answers_is_taken(tmp_path):
    told = vendor.fetch(tmp_path / "vendor", sources=(missing, failing, from_somewhere, never))
    assert (tmp_path / "vendor" / "3Dmol-min.js").read_bytes() == b"script"
    assert told == f"3Dmol.js {vendor.VERSION} fetched (from somewhere)"


def test_the_right_version_is_not_fetched_again(tmp_path):
    vendor.fetch(tmp_path, sources=(from_somewhere,))
    assert vendor.fetch(tmp_path, sources=(never,)).endswith("is there already")


def test_another_version_is_replaced(tmp_path):
    vendor.fetch(tmp_path, sources=(from_somewhere,))
    (tmp_path / "3Dmol.version").write_text("1.0.0")
    vendor.fetch(tmp_path, sources=(lambda: b"newer",))
    assert (tmp_path / "3Dmol-min.js").read_bytes() == b"newer"


def test_without_npm_and_network_it_says_so_and_leaves_nothing(tmp_path):
    told = vendor.fetch(tmp_path / "vendor", sources=(missing, failing))
    assert "could not be fetched" in told
    assert not (tmp_path / "vendor").exists()


def test_a_page_gets_the_script_once(tmp_path):
    vendor.fetch(tmp_path, sources=(from_somewhere,))
    page = tmp_path / "page.html"
    page.write_text('<head></head><div class="gnn-molecules"></div>')
    vendor.inline(page, tmp_path)
    vendor.inline(page, tmp_path)
    assert page.read_text().count("{script\n}") == 1


def test_a_page_without_molecules_is_left_alone(tmp_path):
    vendor.fetch(tmp_path, sources=(from_somewhere,))
    page = tmp_path / "page.html"
    page.write_text("<head></head>")
    vendor.inline(page, tmp_path)
    assert page.read_text() == "<head></head>"
