"""Whether a model is running on the device at the moment, and how."""

import contextlib

_running = []


@contextlib.contextmanager
def running(training):
    _running.append(training)
    try:
        yield
    finally:
        _running.pop()


def isRunningOnIpu():
    return bool(_running)


def is_training():
    return bool(_running) and _running[-1]
