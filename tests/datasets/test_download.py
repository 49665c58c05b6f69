"""Downloads against a server of our own: complete, broken, silent and unreachable."""

import socket
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from gnn_ipu_helpers.datasets import download as module
from gnn_ipu_helpers.datasets.catalogue import Entry
from gnn_ipu_helpers.datasets.download import Unavailable, download, fetch_url, reachable

from .conftest import files_under


class Handler(BaseHTTPRequestHandler):
    def do_HEAD(self):
        self.send_response({"/forbidden": 403, "/no-head": 405}.get(self.path, 200))
        self.end_headers()

    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"content of " + self.path.encode())

    def log_message(self, *args):
        pass


@pytest.fixture
def server():
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


def entry_at(url):
    return Entry("Toy", ("Toy/raw",), {"a.txt": None, "b.txt": None}, url)


def test_a_download_puts_all_files_in_the_datasets_folder(server, tmp_path):
    def fetch(folder):
        for name in ("a.txt", "b.txt"):
            fetch_url(f"{server}/{name}", folder / name)

    folder = download(entry_at(server), tmp_path, fetch)
    assert folder == tmp_path / "Toy" / "raw"
    assert (folder / "b.txt").read_text() == "content of /b.txt"
    assert len(files_under(tmp_path)) == 2


def test_an_incomplete_download_leaves_nothing_behind(server, tmp_path):
    with pytest.raises(Unavailable, match="lacks b.txt"):
        download(entry_at(server), tmp_path, lambda folder: fetch_url(f"{server}/a.txt", folder / "a.txt"))
    assert list(tmp_path.iterdir()) == []


def test_a_failing_download_is_unavailable_with_its_reason(server, tmp_path):
    def fail(folder):
        raise RuntimeError("checksum mismatch")

    with pytest.raises(Unavailable, match="RuntimeError: checksum mismatch"):
        download(entry_at(server), tmp_path, fail)
    assert list(tmp_path.iterdir()) == []


def test_a_download_that_stands_still_is_given_up(server, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "STALL_SECONDS", 0.3)
    released = threading.Event()
    with pytest.raises(Unavailable, match="stood still"):
        download(entry_at(server), tmp_path, lambda folder: released.wait(20))
    released.set()


@pytest.mark.parametrize(("path", "answer"), [("/", True), ("/no-head", True), ("/forbidden", False)])
def test_a_server_is_reachable_if_it_would_hand_out_the_file(server, path, answer):
    assert reachable(server + path) is answer


def test_a_closed_port_is_not_reachable(tmp_path):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}"
        with pytest.raises(Unavailable, match="there is no network"):
            download(entry_at(url), tmp_path, lambda folder: None)


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
