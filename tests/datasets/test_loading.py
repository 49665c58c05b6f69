"""Real files first, then a download, then a stand-in with one notice; forced kinds; transforms."""

import os
import socket
import subprocess
import sys

import pytest
import torch
import torch_geometric.transforms as T
from torch_geometric.datasets import TUDataset

from gnn_ipu_helpers import datasets
from gnn_ipu_helpers.datasets import catalogue

from .conftest import ENTRIES, files_under


def test_the_import_brings_no_module_but_its_own():
    script = (
        "import sys, gnn_ipu_helpers, torch_geometric.datasets\n"
        "before = set(sys.modules)\n"
        "import gnn_ipu_helpers.datasets\n"
        "print(*sorted(set(sys.modules) - before))"
    )
    command = [sys.executable, "-W", "ignore", "-c", script]
    brought = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert brought
    assert all(name.startswith("gnn_ipu_helpers.datasets") for name in brought)


def test_raw_files_are_used_and_nothing_is_downloaded(mutag_root, monkeypatch, capfd):
    def refuse(url):
        raise AssertionError(f"asked for {url}")

    monkeypatch.setattr("gnn_ipu_helpers.datasets.download.reachable", refuse)
    dataset = datasets.mutag(root=mutag_root)
    assert datasets.describe(dataset).startswith("MUTAG: real data")
    assert isinstance(dataset, TUDataset)
    assert capfd.readouterr() == ("", "")


def test_files_read_back_are_the_graphs_that_were_written(mutag_root, stand_in):
    for read, written in zip(datasets.mutag(root=mutag_root)[1:], stand_in("mutag")[1:]):
        assert all(torch.equal(read[key], written[key]) for key in ("x", "edge_index", "edge_attr", "y"))


def test_a_second_load_gives_the_same_graphs_from_the_processed_files(mutag_root):
    first = datasets.mutag(root=mutag_root)
    before = files_under(mutag_root)
    second = datasets.mutag(root=mutag_root)
    assert files_under(mutag_root) == before
    assert torch.equal(first._data.edge_index, second._data.edge_index)


def test_an_unreadable_processed_file_is_made_again(mutag_root):
    expected = datasets.mutag(root=mutag_root)._data.edge_index
    processed = [path for path in files_under(mutag_root) if path.endswith("data.pt")]
    for path in processed:
        with open(path, "w") as file:
            file.write("damaged")
    assert processed
    assert torch.equal(datasets.mutag(root=mutag_root)._data.edge_index, expected)


def test_replaced_raw_files_are_processed_anew(mutag_root):
    labels = mutag_root / catalogue.MUTAG.folders[0] / "MUTAG_graph_labels.txt"
    assert datasets.mutag(root=mutag_root)._data.y.sum() == 125
    labels.write_text("1\n" + "-1\n" * 187)
    os.utime(labels, ns=(1, 1))
    assert datasets.mutag(root=mutag_root)._data.y.sum() == 1


def test_a_read_only_root_is_read_without_writing_to_it(mutag_root, monkeypatch):
    before = files_under(mutag_root)
    monkeypatch.setattr(os, "access", lambda path, mode: False)

    def refuse(*args):
        raise PermissionError("read-only")

    monkeypatch.setattr(os, "rename", refuse)
    assert len(datasets.mutag(root=mutag_root)) == 188
    assert files_under(mutag_root) == before


@pytest.mark.parametrize("name", ENTRIES)
def test_without_files_and_network_a_stand_in_comes_with_a_notice(name, offline, tmp_path, capfd):
    loaded = getattr(datasets, name)(root=tmp_path)
    output, errors = capfd.readouterr()
    assert output.count("\n") == 1
    assert output.startswith(f"Note: {ENTRIES[name].name} is a stand-in")
    assert str(tmp_path / ENTRIES[name].folders[0]) in output
    assert errors == ""
    first = loaded[0] if name == "fashion_mnist" else loaded
    assert datasets.describe(first).startswith(f"{ENTRIES[name].name}: stand-in")


def test_the_notice_comes_once_per_dataset(offline, tmp_path, capfd):
    for load in (datasets.mutag, datasets.cora, datasets.mutag, datasets.cora):
        load(root=tmp_path)
    names = [line.split()[1] for line in capfd.readouterr().out.splitlines()]
    assert names == ["MUTAG", "Cora"]


def test_nothing_is_written_for_a_stand_in(offline, tmp_path):
    datasets.mutag(root=tmp_path)
    assert files_under(tmp_path) == []


def test_a_forced_stand_in_ignores_the_raw_files(mutag_root, monkeypatch, capfd):
    monkeypatch.setenv("GNN_IPU_DATA", "standin")
    assert "stand-in" in datasets.describe(datasets.mutag(root=mutag_root))
    assert "unset GNN_IPU_DATA" in capfd.readouterr().out


@pytest.mark.parametrize("name", ENTRIES)
def test_forced_real_data_without_files_and_network_says_what_to_place_where(
    name, offline, tmp_path, monkeypatch
):
    monkeypatch.setenv("GNN_IPU_DATA", "real")
    with pytest.raises(datasets.DatasetError) as raised:
        getattr(datasets, name)(root=tmp_path)
    message = str(raised.value)
    assert str(tmp_path / ENTRIES[name].folders[0]) in message
    assert all(file in message for file in ENTRIES[name].files)
    assert ENTRIES[name].urls[0] in message


def test_of_an_incomplete_folder_only_the_missing_files_are_named(mutag_root, offline, monkeypatch):
    monkeypatch.setenv("GNN_IPU_DATA", "real")
    (mutag_root / catalogue.MUTAG.folders[0] / "MUTAG_edge_labels.txt").unlink()
    with pytest.raises(datasets.DatasetError, match="put MUTAG_edge_labels.txt into"):
        datasets.mutag(root=mutag_root)


def test_a_failed_download_is_named_in_the_notice(tmp_path, online, monkeypatch, capfd):
    def fail(*args, **kwargs):
        raise OSError("disk is full")

    monkeypatch.setattr("urllib.request.urlopen", fail)
    datasets.mutag(root=tmp_path)
    assert "disk is full" in capfd.readouterr().out


def test_a_placed_file_that_differs_is_used_but_not_called_real(mutag_root, monkeypatch, capfd):
    path = mutag_root / catalogue.MUTAG.folders[0] / "MUTAG_node_labels.txt"
    path.write_text("0\n" * 3370 + "6\n")
    for _ in range(2):
        dataset = datasets.mutag(root=mutag_root)
        assert datasets.describe(dataset).startswith("MUTAG: changed data, 188 graphs")
    assert capfd.readouterr().out.count("MUTAG_node_labels.txt") == 1
    monkeypatch.setenv("GNN_IPU_DATA", "real")
    with pytest.raises(datasets.DatasetError, match="MUTAG_node_labels.txt.*not the original"):
        datasets.mutag(root=mutag_root)


def test_folders_of_killed_processing_go(mutag_root):
    left = mutag_root / "TUDataset" / "MUTAG" / "processing-left"
    left.mkdir()
    os.utime(left, (1, 1))
    datasets.mutag(root=mutag_root)
    assert not left.exists()


def test_pre_transforms_never_meet_each_others_graphs(mutag_root):
    plain = datasets.mutag(root=mutag_root)
    looped = datasets.mutag(pre_transform=T.AddSelfLoops(), root=mutag_root)
    weighted = datasets.mutag(pre_transform=T.AddSelfLoops(attr="edge_attr"), root=mutag_root)
    again = datasets.mutag(root=mutag_root)
    assert looped[0].num_edges == plain[0].num_edges + plain[0].num_nodes
    assert len(looped[0].edge_attr) == plain[0].num_edges
    assert len(weighted[0].edge_attr) == plain[0].num_edges + plain[0].num_nodes
    assert again[0].num_edges == plain[0].num_edges


@pytest.mark.parametrize("name", ["cora", "mutag", "imdb"])
def test_stand_ins_take_both_transforms(name, offline, tmp_path):
    def mark(key):
        def transform(data):
            data[key] = torch.ones(1)
            return data

        return transform

    dataset = getattr(datasets, name)(mark("late"), mark("early"), tmp_path)
    assert "early" in dataset._data
    assert "late" not in dataset._data
    assert "late" in dataset[0]
    assert "early" in dataset[0]


def test_a_machine_whose_name_server_is_unreachable_falls_back_on_its_own(tmp_path, monkeypatch, capfd):
    def refuse(*args, **kwargs):
        raise OSError("unreachable")

    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    assert datasets.describe(datasets.mutag(root=tmp_path)).startswith("MUTAG: stand-in")
    assert "there is no network" in capfd.readouterr().out
