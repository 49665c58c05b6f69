"""Downloads against a server of our own: complete, broken, foreign, silent and unreachable."""

import io
import os
import socket
import threading
import time
import zipfile
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
import torch_geometric.datasets as pyg

from gnn_ipu_helpers import datasets
from gnn_ipu_helpers.datasets import catalogue
from gnn_ipu_helpers.datasets import download as module
from gnn_ipu_helpers.datasets.catalogue import Entry
from gnn_ipu_helpers.datasets.download import Unavailable, download, reachable

from .conftest import ENTRIES, files_under, write_mutag

LOGIN_PAGE = b"<html>Sign in to the hotel's network</html>"


class Handler(BaseHTTPRequestHandler):
    """Serves `files`, or where they have nothing the path itself."""

    files = {}

    def do_HEAD(self):
        self.send_response({"/forbidden": 403, "/no-head": 405}.get(self.path, 200))
        self.end_headers()

    def do_GET(self):
        if self.path == "/gone":
            return self.send_error(404)
        self.send_response(200)
        self.end_headers()
        if self.path == "/silent":
            time.sleep(1)
        self.wfile.write(self.files.get(self.path, b"content of " + self.path.encode()))

    def log_message(self, *args):
        pass


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setattr(Handler, "files", {})
    running = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=running.serve_forever, args=(0.01,))
    thread.start()
    yield f"http://127.0.0.1:{running.server_port}"
    running.shutdown()
    running.server_close()
    thread.join()


@pytest.fixture
def silent_server():
    """Accepts a connection and never says a word."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


def toy_at(url, *names):
    return Entry(
        "Toy", ("Toy/raw",), {"a.txt": None, "b.txt": None}, tuple(f"{url}/{name}" for name in names)
    )


def zipped(members):
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name, text in members.items():
            archive.writestr(name, text)
    return content.getvalue()


def test_a_download_puts_all_files_in_the_datasets_folder(server, tmp_path):
    folder = download(toy_at(server, "a.txt", "b.txt"), tmp_path)
    assert folder == tmp_path / "Toy" / "raw"
    assert (folder / "b.txt").read_text() == "content of /b.txt"
    assert len(files_under(tmp_path)) == 2


def test_an_incomplete_download_leaves_nothing_behind(server, tmp_path):
    with pytest.raises(Unavailable, match="lacks b.txt"):
        download(toy_at(server, "a.txt"), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_failing_download_is_unavailable_with_its_reason(server, tmp_path):
    with pytest.raises(Unavailable, match="HTTPError: HTTP Error 404"):
        download(toy_at(server, "a.txt", "gone"), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_download_that_stands_still_is_given_up(server, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "STALL_SECONDS", 0.3)
    with pytest.raises(Unavailable, match="stood still"):
        download(toy_at(server, "silent"), tmp_path)


def test_members_of_an_archive_cannot_leave_the_folder(server, tmp_path):
    Handler.files["/toy.zip"] = zipped(
        {"toy/a.txt": "a", "../../b.txt": "b", "../../../escaped.txt": "!", "/var/escaped.txt": "!"}
    )
    root = tmp_path / "deep" / "root"
    folder = download(toy_at(server, "toy.zip"), root)
    assert files_under(tmp_path) == [str(folder / "a.txt"), str(folder / "b.txt")]


def test_an_archive_damaged_on_its_way_is_refused(server, tmp_path):
    Handler.files["/toy.zip"] = zipped({"a.txt": "whole", "b.txt": "b"}).replace(b"whole", b"wrong")
    with pytest.raises(Unavailable, match="Bad CRC-32"):
        download(toy_at(server, "toy.zip"), tmp_path)
    assert list(tmp_path.iterdir()) == []


def mutag_at(url, monkeypatch):
    monkeypatch.setattr(catalogue, "MUTAG", catalogue.MUTAG._replace(urls=(f"{url}/MUTAG.zip",)))


@pytest.fixture
def mutag_archive(tmp_path, take_for_originals):
    folder = tmp_path / "originals"
    write_mutag(folder)
    take_for_originals(folder)
    return {f"MUTAG/{path.name}": path.read_text() for path in folder.iterdir()}


def test_what_was_downloaded_is_real_data(server, tmp_path, monkeypatch, mutag_archive, capfd):
    mutag_at(server, monkeypatch)
    Handler.files["/MUTAG.zip"] = zipped({**mutag_archive, "MUTAG/README.txt": "read me"})
    dataset = datasets.mutag(root=tmp_path / "root")
    assert datasets.describe(dataset).startswith("MUTAG: real data")
    raw = tmp_path / "root" / catalogue.MUTAG.folders[0]
    assert sorted(path.name for path in raw.iterdir()) == sorted(catalogue.MUTAG.files)
    assert capfd.readouterr() == ("Downloading MUTAG ...\n", "")


def test_a_log_in_page_instead_of_data_is_not_stored_and_the_next_load_succeeds(
    server, tmp_path, monkeypatch, mutag_archive, capfd
):
    mutag_at(server, monkeypatch)
    Handler.files["/MUTAG.zip"] = LOGIN_PAGE
    assert "stand-in" in datasets.describe(datasets.mutag(root=tmp_path / "root"))
    assert "Sign in to the hotel" in capfd.readouterr().out
    assert files_under(tmp_path / "root") == []
    Handler.files["/MUTAG.zip"] = zipped(mutag_archive)
    assert "real data" in datasets.describe(datasets.mutag(root=tmp_path / "root"))


def test_a_log_in_page_instead_of_single_files_is_not_stored(server, tmp_path, monkeypatch, capfd):
    urls = tuple(f"{server}/{name}" for name in catalogue.CORA.files)
    monkeypatch.setattr(catalogue, "CORA", catalogue.CORA._replace(urls=urls))
    for name in catalogue.CORA.files:
        Handler.files[f"/{name}"] = LOGIN_PAGE
    assert "stand-in" in datasets.describe(datasets.cora(root=tmp_path))
    assert (
        'not the original ind.cora.x but 43 bytes that start with b"<html>Sign in' in capfd.readouterr().out
    )
    assert files_under(tmp_path) == []


def test_damage_of_the_right_shape_is_refused(server, tmp_path, monkeypatch, mutag_archive):
    mutag_at(server, monkeypatch)
    monkeypatch.setenv("GNN_IPU_DATA", "real")
    mutag_archive["MUTAG/MUTAG_node_labels.txt"] = "0\n" * 3371
    Handler.files["/MUTAG.zip"] = zipped(mutag_archive)
    with pytest.raises(datasets.DatasetError, match="not the original MUTAG_node_labels.txt"):
        datasets.mutag(root=tmp_path / "root")


def test_line_ends_and_spaces_do_not_matter(server, tmp_path, monkeypatch, mutag_archive):
    mutag_at(server, monkeypatch)
    files = {name: text.replace(", ", ",").replace("\n", "\r\n") for name, text in mutag_archive.items()}
    Handler.files["/MUTAG.zip"] = zipped(files)
    assert "real data" in datasets.describe(datasets.mutag(root=tmp_path / "root"))


def test_a_network_that_comes_up_is_found_by_the_same_process(tmp_path, monkeypatch, mutag_archive, server):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        mutag_at(f"http://127.0.0.1:{unused.getsockname()[1]}", monkeypatch)
        monkeypatch.setenv("GNN_IPU_DATA", "real")
        with pytest.raises(datasets.DatasetError, match="load it again"):
            datasets.mutag(root=tmp_path / "root")
        port = unused.getsockname()[1]
    Handler.files["/MUTAG.zip"] = zipped(mutag_archive)
    late = HTTPServer(("127.0.0.1", port), Handler)
    thread = threading.Thread(target=late.serve_forever, args=(0.01,))
    thread.start()
    try:
        assert "real data" in datasets.describe(datasets.mutag(root=tmp_path / "root"))
    finally:
        late.shutdown()
        late.server_close()
        thread.join()


def test_folders_of_a_killed_download_go_and_those_in_use_stay(mutag_root):
    left, used = mutag_root / "downloading-left", mutag_root / "downloading-used"
    for folder in (left, used):
        folder.mkdir()
        (folder / "MUTAG.zip").write_text("a part")
    for path in (left / "MUTAG.zip", left, used):
        os.utime(path, (1, 1))
    datasets.mutag(root=mutag_root)
    assert not left.exists()
    assert used.exists()


@pytest.mark.parametrize("name", ENTRIES)
def test_everything_is_downloaded_over_https(name):
    assert all(url.startswith("https://") for url in ENTRIES[name].urls)


@pytest.mark.parametrize("name", ENTRIES)
def test_each_raw_file_has_a_known_digest_but_qm9s(name):
    known = {file for file in ENTRIES[name].files if file in catalogue.SHA256}
    assert known == (set() if name == "qm9" else set(ENTRIES[name].files))


@pytest.mark.parametrize(
    ("name", "url"),
    [
        ("cora", pyg.Planetoid.url),
        ("pubmed", pyg.Planetoid.url),
        ("mutag", pyg.TUDataset.url),
        ("proteins", pyg.TUDataset.url),
        ("imdb", pyg.IMDB.url),
        ("qm9", pyg.QM9.processed_url),
    ],
)
def test_each_graph_dataset_is_downloaded_from_where_pyg_has_it(name, url, tmp_path, online, monkeypatch):
    asked = []

    def record(request, **kwargs):
        asked.append(request.full_url)
        raise OSError("no such server")

    monkeypatch.setattr("urllib.request.urlopen", record)
    monkeypatch.setenv("GNN_IPU_DATA", "real")
    with pytest.raises(datasets.DatasetError, match="no such server"):
        getattr(datasets, name)(root=tmp_path)
    assert len(asked) == 1
    assert asked[0].startswith(url)
    assert files_under(tmp_path) == []


@pytest.mark.parametrize(("path", "answer"), [("/", True), ("/no-head", True), ("/forbidden", False)])
def test_a_server_is_reachable_if_it_would_hand_out_the_file(server, path, answer):
    assert reachable(server + path) is answer


def test_a_closed_port_is_not_reachable(tmp_path):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}"
        with pytest.raises(Unavailable, match="there is no network"):
            download(toy_at(url, "a.txt"), tmp_path)


def test_a_server_that_never_answers_is_not_reachable(silent_server, monkeypatch):
    monkeypatch.setattr(module, "PROBE_SECONDS", 0.2)
    assert reachable(silent_server) is False


def test_a_name_look_up_that_hangs_is_given_up(monkeypatch):
    monkeypatch.setattr(module, "PROBE_SECONDS", 0.2)
    released = threading.Event()

    def hang(*args, **kwargs):
        released.wait(20)
        raise OSError("no name server")

    monkeypatch.setattr(socket, "getaddrinfo", hang)
    assert reachable("http://hanging.invalid/file") is False
    released.set()


def test_the_probe_leaves_room_within_five_seconds():
    assert module.PROBE_SECONDS + 0.5 < 5
