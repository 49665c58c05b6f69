"""Choosing the budgets of a pack: so that graphs of a dataset fill all of them at the same time."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from torch import Tensor

from .packing import assign_packs, fewest_packs
from .schema import EDGE, NODE, Group

# How much more room than the average graphs need is tried out for the budgets that are not wished for.
_SLACK = (0.005, 0.01, 0.02, 0.03, 0.05, 0.08, 0.12, 0.2, 0.3, 0.5)

# Budgets are tried out on so many graphs, in several orders: one alone can be lucky.
_TRIED_ON = 4_000
_ORDERS = 3


class Choice(NamedTuple):
    """Budgets for real graphs, without padding.

    Args:
        room: Nodes or edges of each type.
        num_graphs: Graphs.
        explanation: Why these.
    """

    room: dict[Group, int]
    num_graphs: int
    explanation: str


def choose_budgets(
    sizes: dict[Group, Tensor], num_nodes: int | None = None, num_graphs: int | None = None
) -> Choice:
    """Finds the budgets with the smallest padded epoch for a wished number of nodes or of graphs in a pack.

    Args:
        sizes: Nodes and edges of each graph, ``[G]`` for each type.
        num_nodes: Wished real nodes in a pack, of all types together.
        num_graphs: Wished real graphs in a pack.
    """
    groups = list(sizes)
    each = np.ones(len(sizes[groups[0]]), dtype=np.int64)
    table = np.stack([*(sizes[group].numpy() for group in groups), each], axis=1)
    nodes = np.array([group[0] == NODE for group in groups] + [False])
    edges = np.array([group[0] == EDGE for group in groups] + [False])
    fixed = np.zeros(table.shape[1], dtype=bool)
    if num_graphs is None:
        _check_room(table[:, nodes].sum(axis=1), num_nodes)
        num_graphs = num_nodes / table[:, nodes].sum(axis=1).mean()
        fixed |= nodes & (nodes.sum() == 1)
    else:
        fixed[-1] = True
    best = _smallest(table, num_graphs * table.mean(axis=0), fixed)
    explanation = _explain(table, best, nodes, edges)
    return Choice(dict(zip(groups, best[:-1].tolist())), int(best[-1]), explanation)


def _check_room(num_nodes: np.ndarray, wished: int) -> None:
    largest = int(num_nodes.argmax())
    if num_nodes[largest] > wished:
        raise ValueError(
            f"num_nodes={wished + 1} leaves room for {wished} real nodes, but graph {largest} has "
            f"{num_nodes[largest]}. Give at least num_nodes={num_nodes[largest] + 1}."
        )


def _smallest(table: np.ndarray, average: np.ndarray, fixed: np.ndarray) -> np.ndarray:
    """The budgets ``[D]`` with the smallest padded epoch; the fixed ones have no slack.

    Args:
        table: The size of each graph, ``[G, D]``.
        average: What as many average graphs as wished take, ``[D]``.
        fixed: Which budgets are given by the wish, ``[D]``.
    """
    rng = np.random.default_rng(0)
    orders = [rng.permutation(len(table))[:_TRIED_ON] for _ in range(_ORDERS)]
    budgets = []
    for slack in _SLACK:
        room = np.where(fixed, np.rint(average), np.ceil(average * (1 + slack))).astype(np.int64)
        room = np.maximum(room, table.max(axis=0))
        num_packs = [assign_packs(table[order], room).max() + 1 for order in orders]
        budgets.append((sum(num_packs) * (room[:-1] + 1).sum(), tuple(room)))
    return np.array(min(budgets)[1])


def _explain(table: np.ndarray, room: np.ndarray, nodes: np.ndarray, edges: np.ndarray) -> str:
    num_packs = assign_packs(table, room).max() + 1
    real = [table[:, kind].sum() / (num_packs * (room + 1)[kind].sum()) for kind in (nodes, edges)]
    return (
        f"{len(table)} graphs of {table[:, nodes].sum() / len(table):.1f} nodes and "
        f"{table[:, edges].sum() / len(table):.1f} edges on average, about {len(table) / num_packs:.1f} to a "
        f"batch, take {num_packs} batches (no plan takes fewer than {fewest_packs(table, room)}), in which "
        f"{real[0]:.1%} of nodes and {real[1]:.1%} of edges are real"
    )
