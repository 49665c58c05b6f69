"""A real browser for the pages that people look at: an installed Chromium, without a network."""

import contextlib
import functools
import http.server
import threading

import pytest

from tools.chromium import CHROMIUM, FLAGS

needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed")


@contextlib.contextmanager
def open_browser():
    sync_api = pytest.importorskip("playwright.sync_api")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


@contextlib.contextmanager
def serve(folder):
    """The address under which a server on this machine gives out the files of `folder`."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    handler = functools.partial(Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


def note_problems(tab, address, problems):
    """Add to the list `problems` whatever goes wrong in `tab`, and whatever it asks from elsewhere."""

    def note(what):
        problems.append(f"{tab.url.removeprefix(address)}: {what}")

    def look_at_request(request):
        if not request.url.startswith((address, "data:", "blob:")):
            note(f"asks for {request.url}")

    def look_at_failure(request):
        if request.failure != "net::ERR_ABORTED":  # which only says that the tab went on to the next page
            note(f"did not get {request.url}: {request.failure}")

    tab.on("request", look_at_request)
    tab.on("requestfailed", look_at_failure)
    tab.on("response", lambda answer: answer.status < 400 or note(f"{answer.status} for {answer.url}"))
    tab.on("pageerror", lambda error: note(error))
    tab.on("console", lambda told: told.type != "error" or note(f"{told.text} {told.location['url']}"))
