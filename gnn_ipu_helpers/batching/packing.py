"""Packing graphs."""

from __future__ import annotations

from .planning import stream_pack


def pack(order, budgets):
    return stream_pack(order, budgets)
