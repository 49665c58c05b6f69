"""Channels of the profiler, which records nothing here."""

import contextlib


class Channel:
    def __init__(self, name):
        self.name = name

    def instrument(self, obj, *methods):
        return obj

    @contextlib.contextmanager
    def tracepoint(self, label):
        yield
