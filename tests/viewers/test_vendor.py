"""3Dmol.js is fetched where it can be, only the genuine one goes into pages, and without it all goes on."""

import hashlib
import subprocess

import pytest

from tools import vendor

PINNED = vendor.SHA256


@pytest.fixture(autouse=True)
def _script_is_genuine(monkeypatch):
    monkeypatch.setattr(vendor, "SHA256", {vendor.VERSION: hashlib.sha256(b"script").hexdigest()})


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


def tampered():
    return b"script; steal()"


def test_the_installed_version_has_a_pinned_hash():
    assert len(PINNED[vendor.VERSION]) == 64


def test_the_right_version_is_not_fetched_again(tmp_path):
    vendor.fetch(tmp_path, sources=(from_somewhere,))
    assert vendor.fetch(tmp_path, sources=(never,)).endswith("is there already")


def test_another_version_is_replaced(tmp_path, monkeypatch):
    vendor.fetch(tmp_path, sources=(from_somewhere,))
    monkeypatch.setattr(vendor, "SHA256", {vendor.VERSION: hashlib.sha256(b"newer").hexdigest()})
    vendor.fetch(tmp_path, sources=(lambda: b"newer",))
    assert (tmp_path / "3Dmol-min.js").read_bytes() == b"newer"


def test_a_tampered_script_is_refused_and_the_next_source_asked(tmp_path):
    told = vendor.fetch(tmp_path, sources=(tampered, from_somewhere))
    assert told.endswith("fetched (from somewhere)")
    assert (tmp_path / "3Dmol-min.js").read_bytes() == b"script"


def test_a_tampered_script_alone_is_not_stored_and_told(tmp_path):
    told = vendor.fetch(tmp_path, sources=(tampered,))
    assert "what came tampered is not the script" in told
    assert not (tmp_path / "3Dmol-min.js").exists()


def test_a_script_changed_on_disk_goes_even_without_a_network(tmp_path):
    vendor.fetch(tmp_path, sources=(from_somewhere,))
    (tmp_path / "3Dmol-min.js").write_bytes(tampered())
    vendor.fetch(tmp_path, sources=(missing,))
    assert not (tmp_path / "3Dmol-min.js").exists()


def test_a_script_changed_on_disk_goes_into_no_page(tmp_path):
    (tmp_path / "3Dmol-min.js").write_bytes(tampered())
    page = tmp_path / "page.html"
    page.write_text('<head></head><div class="gnn-molecules"></div>')
    assert "no genuine" in vendor.inline(page, tmp_path)
    assert "steal" not in page.read_text()


def test_a_version_without_a_pinned_hash_is_not_fetched(tmp_path, monkeypatch):
    monkeypatch.setattr(vendor, "SHA256", {})
    assert "could not be fetched" in vendor.fetch(tmp_path, sources=(from_somewhere,))


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
