"""Where to put the nodes of a graph on paper, by distance (stress) or in rings around the seeds."""

from __future__ import annotations

import numpy as np


def by_distance(num_nodes: int, edge_index: np.ndarray, iterations: int = 60) -> np.ndarray:
    """Positions whose distances match the hops between nodes (stress majorisation from classical scaling).

    Args:
        num_nodes: how many nodes.
        edge_index: node pairs, ``[2, num_edges]``; directions and self-loops do not matter.
        iterations: steps of the majorisation.

    Returns:
        Positions in the unit square, ``[num_nodes, 2]``; the same for the same graph.
    """
    if num_nodes == 1:
        return np.full((1, 2), 0.5)
    hops = hop_distances(num_nodes, edge_index)
    positions = _classical_scaling(hops)
    weights = hops + np.eye(num_nodes)
    weights = weights**-2.0
    np.fill_diagonal(weights, 0.0)
    laplacian = np.diag(weights.sum(1)) - weights
    inverse = np.linalg.pinv(laplacian)
    for _ in range(iterations):
        gaps = np.linalg.norm(positions[:, None] - positions[None], axis=-1)
        pull = -weights * hops / np.maximum(gaps, 1e-6)
        np.fill_diagonal(pull, 0.0)
        np.fill_diagonal(pull, -pull.sum(1))
        positions = inverse @ (pull @ positions)
    return into_unit_square(positions)


def hop_distances(num_nodes: int, edge_index: np.ndarray) -> np.ndarray:
    """Hops between every two nodes, ``[num_nodes, num_nodes]``; without a way, the most plus two."""
    hops = np.full((num_nodes, num_nodes), np.inf)
    np.fill_diagonal(hops, 0.0)
    adjacent = np.zeros((num_nodes, num_nodes), dtype=bool)
    adjacent[edge_index[0], edge_index[1]] = adjacent[edge_index[1], edge_index[0]] = True
    reached = np.eye(num_nodes, dtype=bool)
    for hop in range(1, num_nodes):
        grown = reached | ((reached.astype(np.float32) @ adjacent.astype(np.float32)) > 0)
        fresh = grown & ~reached
        if not fresh.any():
            break
        hops[fresh] = hop
        reached = grown
    hops[np.isinf(hops)] = hops[np.isfinite(hops)].max() + 2.0
    return hops


def hops_from(seeds: np.ndarray, num_nodes: int, edge_index: np.ndarray) -> np.ndarray:
    """Hops of every node along the edges to its nearest seed, ``[num_nodes]``; -1 where there is no way."""
    hops = np.full(num_nodes, -1)
    hops[seeds] = 0
    hop = 0
    source, target = edge_index
    while True:
        front = source[(hops[target] == hop) & (hops[source] < 0)]
        if not len(front):
            return hops
        hop += 1
        hops[front] = hop


def in_rings(hops: np.ndarray, edge_index: np.ndarray) -> np.ndarray:
    """Positions on rings by hop, each node near the node that it was sampled for.

    Args:
        hops: ring of every node, ``[num_nodes]``, 0 for the seeds; negative ones get the outermost ring.
        edge_index: ``[2, num_edges]``, from a sampled node to the node that it was sampled for.

    Returns:
        Positions in the unit square, ``[num_nodes, 2]``.
    """
    rings = np.where(hops < 0, hops.max() + 1, hops)
    angles = np.zeros(len(hops))
    for ring in range(rings.max() + 1):
        members = np.flatnonzero(rings == ring)
        if ring > 0:
            wanted = np.array([_parent_angle(node, ring, rings, angles, edge_index) for node in members])
            members = members[np.argsort(wanted, kind="stable")]
        angles[members] = 2 * np.pi * (np.arange(len(members)) + 0.5) / max(len(members), 1)
    num_seeds = int((rings == 0).sum())
    radius = rings + (0.0 if num_seeds == 1 else 0.55)
    circle = np.stack([radius * np.cos(angles), radius * np.sin(angles)], axis=1)
    return into_unit_square(circle)


def into_unit_square(positions: np.ndarray) -> np.ndarray:
    """The same picture, centred in the unit square, its longer side horizontal and filling it."""
    centred = positions - positions.mean(0)
    extent = np.ptp(centred, axis=0)
    if extent[1] > extent[0]:
        centred, extent = centred[:, ::-1], extent[::-1]
    middle = (centred.max(0) + centred.min(0)) / 2
    return (centred - middle) / max(extent.max(), 1e-9) + 0.5


def _parent_angle(
    node: int, ring: int, rings: np.ndarray, angles: np.ndarray, edge_index: np.ndarray
) -> float:
    targets = edge_index[1][edge_index[0] == node]
    parents = targets[rings[targets] == ring - 1]
    return float(angles[parents[0]]) if len(parents) else 2 * np.pi


def _classical_scaling(hops: np.ndarray) -> np.ndarray:
    squared = hops**2
    centre = np.eye(len(hops)) - 1.0 / len(hops)
    values, vectors = np.linalg.eigh(-0.5 * centre @ squared @ centre)
    top = vectors[:, -2:] * np.sqrt(np.maximum(values[-2:], 1e-9))
    # The sign of an eigenvector is arbitrary: fix it, so that a graph is drawn the same way everywhere.
    flips = np.sign(top[np.abs(top).argmax(0), [0, 1]])
    # A hair of asymmetry keeps nodes of a symmetric graph from starting on one spot.
    return top * np.where(flips == 0, 1, flips) + 1e-3 * np.stack(
        [np.cos(np.arange(len(hops))), np.sin(np.arange(len(hops)))], axis=1
    )
