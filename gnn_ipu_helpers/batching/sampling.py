"""Neighbour sampling without a compiler: NumPy expressions that plug into PyG's loaders."""

from __future__ import annotations

import numbers
from typing import Any, Dict, NamedTuple, Sequence, Tuple, Union

import numpy as np
import torch
from torch_geometric.data import Data, HeteroData
from torch_geometric.sampler import (
    BaseSampler,
    EdgeSamplerInput,
    HeteroSamplerOutput,
    NegativeSampling,
    NodeSamplerInput,
    SamplerOutput,
)
from torch_geometric.sampler.base import NumNeighbors, SubgraphType
from torch_geometric.sampler.neighbor_sampler import edge_sample, node_sample

EdgeType = Tuple[str, str, str]
FanOuts = Union[NumNeighbors, Sequence[int], Dict[EdgeType, Sequence[int]]]

# A homogeneous graph is sampled as a heterogeneous one with these types only.
_NODES = ""
_EDGES = ("", "", "")


class VectorisedNeighborSampler(BaseSampler):
    """Samples neighbours hop by hop, as `pyg-lib` does, with a handful of array expressions per hop.

    Pass it to PyG as `NeighborLoader(data, num_neighbors, neighbor_sampler=sampler)`, or let
    `neighbor_loader` do so. The seeds are the first nodes of a sample, in their order; every other node
    comes once, in the order in which it was met. Edges point towards the seeds. Random numbers follow
    `torch.manual_seed`.

    Args:
        data: one graph with an `edge_index` `[2, num_edges]` (for each edge type).
        num_neighbors: the fan-out of every hop, or such a list per edge type; -1 takes all neighbours.
        subgraph_type: `"directional"` keeps the sampled edges, `"bidirectional"` their reverse too,
            `"induced"` every edge between the sampled nodes.
        replace: whether a neighbour can be drawn more than once.
        disjoint: whether every seed gets a subgraph of its own; `batch` then tells the seed of every node.
    """

    def __init__(
        self,
        data: Data | HeteroData,
        num_neighbors: FanOuts,
        subgraph_type: SubgraphType | str = "directional",
        replace: bool = False,
        disjoint: bool = False,
    ):
        self.subgraph_type = SubgraphType(subgraph_type)
        self.replace = replace
        self.disjoint = disjoint
        # A loader sets it for a sample that shall depend on nothing else; None is torch's global one.
        self.generator: torch.Generator | None = None
        self._is_hetero = isinstance(data, HeteroData)
        if self._is_hetero:
            self._num_nodes = {key: data[key].num_nodes for key in data.node_types}
            stores = {key: data[key] for key in data.edge_types}
        elif isinstance(data, Data):
            self._num_nodes = {_NODES: data.num_nodes}
            stores = {_EDGES: data}
        else:
            raise TypeError(
                f"Neighbours are sampled from one 'Data' or 'HeteroData' (got '{type(data).__name__}')."
            )
        self._fan_outs = _fan_outs(num_neighbors, list(stores), self._is_hetero)
        self._edges = {key: _in_edges(key, store, self._num_nodes) for key, store in stores.items()}
        numbering = _SparseNumbering if disjoint else _DenseNumbering
        self._numbering = {key: numbering(size) for key, size in self._num_nodes.items()}

    def sample_from_nodes(
        self, index: NodeSamplerInput, **kwargs: Any
    ) -> SamplerOutput | HeteroSamplerOutput:
        """The subgraph around the seeds `index.node` `[num_seeds]`."""
        return self._with_reverse_edges(node_sample(index, self._sample))

    def sample_from_edges(
        self, index: EdgeSamplerInput, neg_sampling: NegativeSampling | None = None
    ) -> SamplerOutput | HeteroSamplerOutput:
        """The subgraph around both ends of the edges `(index.row, index.col)`."""
        num_nodes = self._num_nodes if self._is_hetero else self._num_nodes[_NODES]
        out = edge_sample(index, self._sample, num_nodes, self.disjoint, None, neg_sampling)
        return self._with_reverse_edges(out)

    @property
    def edge_permutation(self) -> dict[EdgeType, None] | None:
        """Nothing to permute: samples name edges by their place in `edge_index`."""
        return {key: None for key in self._edges} if self._is_hetero else None

    def _with_reverse_edges(self, out):
        return out.to_bidirectional() if self.subgraph_type == SubgraphType.bidirectional else out

    def _sample(self, seed: Any, seed_time: Any = None) -> SamplerOutput | HeteroSamplerOutput:
        if seed_time is not None:
            raise NotImplementedError("Sampling by time needs 'pyg-lib', which is not installed.")
        seeds = seed if self._is_hetero else {_NODES: seed}
        nodes = {key: _SampledNodes(self._numbering[key], self.disjoint) for key in self._num_nodes}
        try:
            self._add_seeds(nodes, seeds)
            edges, num_edges = self._walk(nodes)
            if self.subgraph_type == SubgraphType.induced:
                edges = {
                    key: _edges_between(self._edges[key], nodes[key[0]], nodes[key[2]]) for key in self._edges
                }
        finally:
            for numbering in self._numbering.values():
                numbering.clear()
        return self._output(nodes, edges, num_edges)

    def _add_seeds(self, nodes: dict[str, _SampledNodes], seeds: dict[str, torch.Tensor]) -> None:
        num_seeds = 0
        for key, seed in seeds.items():
            check_range(seed, self._num_nodes[key], "A seed")
            seed = seed.numpy().astype(np.int64, copy=False)
            nodes[key].add_seeds(seed, np.arange(num_seeds, num_seeds + seed.size))
            num_seeds += seed.size

    def _walk(
        self, nodes: dict[str, _SampledNodes]
    ) -> tuple[dict[EdgeType, _Edges], dict[EdgeType, list[int]]]:
        # One draw from torch's generator decides the whole sample.
        random = np.random.default_rng(int(torch.randint(2**63 - 1, (), generator=self.generator)))
        picked: dict[EdgeType, list[_Edges]] = {key: [] for key in self._edges}
        for hop in range(len(next(iter(self._fan_outs.values()), []))):
            frontiers = {key: sampled.start_hop() for key, sampled in nodes.items()}
            for key, in_edges in self._edges.items():
                frontier = frontiers[key[2]]
                target, place = in_edges.pick(frontier.nodes, self._fan_outs[key][hop], self.replace, random)
                graphs = None if frontier.graphs is None else frontier.graphs[target]
                row = nodes[key[0]].add(in_edges.source[place], graphs)
                picked[key].append(_Edges(row, target + frontier.start, in_edges.edge_id[place]))
        edges = {key: _Edges(*map(_concatenate, zip(*hops))) for key, hops in picked.items()}
        return edges, {key: [hop.row.size for hop in hops] for key, hops in picked.items()}

    def _output(self, nodes, edges, num_edges) -> SamplerOutput | HeteroSamplerOutput:
        by_hop = self.subgraph_type != SubgraphType.induced
        fields = {
            "node": {key: torch.from_numpy(sampled.nodes()) for key, sampled in nodes.items()},
            "row": {key: torch.from_numpy(kept.row) for key, kept in edges.items()},
            "col": {key: torch.from_numpy(kept.col) for key, kept in edges.items()},
            "edge": {key: torch.from_numpy(kept.edge_id) for key, kept in edges.items()},
        }
        if self.disjoint:
            fields["batch"] = {key: torch.from_numpy(sampled.graphs()) for key, sampled in nodes.items()}
        if by_hop:
            fields["num_sampled_nodes"] = {key: sampled.num_by_hop() for key, sampled in nodes.items()}
            fields["num_sampled_edges"] = num_edges
        if self._is_hetero:
            return HeteroSamplerOutput(**fields)
        return SamplerOutput(**{name: next(iter(values.values())) for name, values in fields.items()})


class _Edges(NamedTuple):
    row: np.ndarray
    col: np.ndarray
    edge_id: np.ndarray


class _Frontier(NamedTuple):
    start: int
    nodes: np.ndarray
    graphs: np.ndarray | None


class _InEdges(NamedTuple):
    """The edges of one type, sorted by target: those into node `i` lie in `ptr[i]:ptr[i + 1]`."""

    ptr: np.ndarray
    source: np.ndarray
    edge_id: np.ndarray

    def pick(
        self, nodes: np.ndarray, fan_out: int, replace: bool, random: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray]:
        """Up to `fan_out` edges into each of `nodes`: whose edge each is, and where it lies."""
        first = self.ptr[nodes]
        degree = self.ptr[nodes + 1] - first
        if fan_out < 0:
            count = degree
        elif replace:
            count = np.where(degree > 0, fan_out, 0)
        else:
            count = np.minimum(degree, fan_out)
        target = np.repeat(np.arange(nodes.size), count)
        if replace and fan_out >= 0:
            return target, first[target] + (random.random(target.size) * degree[target]).astype(np.int64)
        begin = np.cumsum(count) - count
        place = np.arange(target.size) + (first - begin)[target]
        crowded = np.flatnonzero(degree > count)
        if crowded.size and fan_out > 0:
            chosen = _distinct(degree[crowded], fan_out, random)
            place[begin[crowded] + np.arange(fan_out)[:, None]] = first[crowded] + chosen
        return target, place


def _distinct(population: np.ndarray, count: int, random: np.random.Generator) -> np.ndarray:
    """`[count, n]` distinct numbers below each of `population` `[n]`, every subset equally likely.

    Floyd's method, one step for all at once: the cost does not depend on how many neighbours a node has.
    """
    chosen = np.empty((count, population.size), dtype=np.int64)
    uniform = random.random(chosen.shape)
    for step in range(count):
        last = population - count + step
        candidate = (uniform[step] * (last + 1)).astype(np.int64)
        taken = (chosen[:step] == candidate).any(axis=0)
        chosen[step] = np.where(taken, last, candidate)
    return chosen


class _SampledNodes:
    """The nodes of one type in the sample that is being made, in the order of their local numbers."""

    def __init__(self, numbering: _DenseNumbering | _SparseNumbering, disjoint: bool):
        self._numbering = numbering
        self._disjoint = disjoint
        self._hops: list[list[np.ndarray]] = [[]]
        self._hop_graphs: list[list[np.ndarray]] = [[]]
        self._num_numbered = 0

    def add_seeds(self, nodes: np.ndarray, graphs: np.ndarray) -> None:
        self._numbering.add_all(nodes, graphs)
        self._append(nodes, graphs)

    def add(self, nodes: np.ndarray, graphs: np.ndarray | None) -> np.ndarray:
        """The local numbers of `nodes`, taking in those not met before."""
        local, new = self._numbering.add(nodes, graphs)
        if new.size:
            self._append(nodes[new], None if graphs is None else graphs[new])
        return local

    def start_hop(self) -> _Frontier:
        """The nodes that the previous hop brought in; what comes from now on belongs to the next one."""
        nodes = _concatenate(self._hops[-1])
        graphs = _concatenate(self._hop_graphs[-1]) if self._disjoint else None
        self._hops.append([])
        self._hop_graphs.append([])
        return _Frontier(self._num_numbered - nodes.size, nodes, graphs)

    def find(self, nodes: np.ndarray, graphs: np.ndarray | None) -> np.ndarray:
        """The local numbers of `nodes`, -1 where a node is not in the sample."""
        return self._numbering.find(nodes, graphs)

    def nodes(self) -> np.ndarray:
        return _concatenate([part for hop in self._hops for part in hop])

    def graphs(self) -> np.ndarray | None:
        if not self._disjoint:
            return None
        return _concatenate([part for hop in self._hop_graphs for part in hop])

    def num_by_hop(self) -> list[int]:
        return [sum(part.size for part in hop) for hop in self._hops]

    def _append(self, nodes: np.ndarray, graphs: np.ndarray | None) -> None:
        self._hops[-1].append(nodes)
        if self._disjoint:
            self._hop_graphs[-1].append(graphs)
        self._num_numbered += nodes.size


class _DenseNumbering:
    """Local numbers in one table over all nodes; what a sample touched is wiped after it."""

    def __init__(self, num_nodes: int):
        self._number = np.full(num_nodes, -1, dtype=np.int64)
        self._touched: list[np.ndarray] = []
        self._size = 0

    def add_all(self, nodes: np.ndarray, graphs: np.ndarray | None) -> None:
        self._touched.append(nodes)
        # NumPy keeps the last of several assignments to one entry, so backwards the first appearance wins.
        self._number[nodes[::-1]] = np.arange(nodes.size)[::-1]
        self._size = nodes.size

    def add(self, nodes: np.ndarray, graphs: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        unseen = np.flatnonzero(self._number[nodes] < 0)
        if unseen.size:
            candidates = nodes[unseen]
            self._touched.append(candidates)
            order = np.arange(unseen.size)
            self._number[candidates[::-1]] = order[::-1]
            unseen = unseen[self._number[candidates] == order]
            self._number[nodes[unseen]] = np.arange(self._size, self._size + unseen.size)
            self._size += unseen.size
        return self._number[nodes], unseen

    def find(self, nodes: np.ndarray, graphs: np.ndarray | None) -> np.ndarray:
        return self._number[nodes]

    def clear(self) -> None:
        for nodes in self._touched:
            self._number[nodes] = -1
        self._touched = []
        self._size = 0


class _SparseNumbering:
    """Local numbers of (subgraph, node) pairs, in a sorted list: a table over all pairs would not fit."""

    def __init__(self, num_nodes: int):
        self._num_nodes = num_nodes
        self.clear()

    def add_all(self, nodes: np.ndarray, graphs: np.ndarray) -> None:
        self._insert(self._key(nodes, graphs))

    def add(self, nodes: np.ndarray, graphs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        key = self._key(nodes, graphs)
        unseen = np.flatnonzero(self._find_key(key) < 0)
        _, first = np.unique(key[unseen], return_index=True)
        new = unseen[np.sort(first)]
        self._insert(key[new])
        return self._find_key(key), new

    def find(self, nodes: np.ndarray, graphs: np.ndarray) -> np.ndarray:
        return self._find_key(self._key(nodes, graphs))

    def clear(self) -> None:
        self._keys = np.empty(0, dtype=np.int64)
        self._numbers = np.empty(0, dtype=np.int64)

    def _key(self, nodes: np.ndarray, graphs: np.ndarray) -> np.ndarray:
        return graphs * self._num_nodes + nodes

    def _find_key(self, key: np.ndarray) -> np.ndarray:
        if not self._keys.size:
            return np.full(key.size, -1, dtype=np.int64)
        place = np.minimum(np.searchsorted(self._keys, key), self._keys.size - 1)
        return np.where(self._keys[place] == key, self._numbers[place], -1)

    def _insert(self, key: np.ndarray) -> None:
        keys = np.concatenate([self._keys, key])
        numbers = np.concatenate([self._numbers, np.arange(self._keys.size, keys.size)])
        order = np.argsort(keys, kind="stable")
        self._keys, self._numbers = keys[order], numbers[order]


def _edges_between(in_edges: _InEdges, sources: _SampledNodes, targets: _SampledNodes) -> _Edges:
    """Every edge of one type that joins two nodes of the sample."""
    nodes = targets.nodes()
    target, place = in_edges.pick(nodes, -1, False, None)
    graphs = targets.graphs()
    row = sources.find(in_edges.source[place], None if graphs is None else graphs[target])
    kept = np.flatnonzero(row >= 0)
    return _Edges(row[kept], target[kept], in_edges.edge_id[place[kept]])


def _in_edges(key: EdgeType, store: Any, num_nodes: dict[str, int]) -> _InEdges:
    edge_index = getattr(store, "edge_index", None)
    name = "The graph" if key == _EDGES else f"Edge type {key}"
    if edge_index is None:
        raise ValueError(f"{name} has no 'edge_index' to sample from. Give it one, of shape [2, num_edges].")
    if edge_index.is_meta:
        raise ValueError(f"{name} has an 'edge_index' on the device 'meta', without values to sample from.")
    row, col = edge_index.cpu()
    check_range(row, num_nodes[key[0]], f"{name}: a source in 'edge_index'")
    check_range(col, num_nodes[key[2]], f"{name}: a target in 'edge_index'")
    edge_id = torch.sort(col, stable=True).indices
    ptr = np.zeros(num_nodes[key[2]] + 1, dtype=np.int64)
    np.cumsum(torch.bincount(col, minlength=num_nodes[key[2]]).numpy(), out=ptr[1:])
    return _InEdges(ptr, row[edge_id].numpy().astype(np.int64, copy=False), edge_id.numpy())


def _fan_outs(
    num_neighbors: FanOuts, edge_types: list[EdgeType], is_hetero: bool
) -> dict[EdgeType, list[int]]:
    if not isinstance(num_neighbors, (NumNeighbors, Sequence, dict, np.ndarray, torch.Tensor)):
        raise TypeError(
            f"'num_neighbors' needs a list, with a number for every hop (got {num_neighbors!r}): [10, 10]."
        )
    if not isinstance(num_neighbors, NumNeighbors):
        num_neighbors = NumNeighbors(num_neighbors)
    if is_hetero:
        _check_edge_types(num_neighbors, edge_types)
        values = num_neighbors.get_values(edge_types)
    elif isinstance(num_neighbors.values, dict):
        raise TypeError(
            "'num_neighbors' per edge type needs a 'HeteroData'; a 'Data' takes one list such as [10, 10]."
        )
    else:
        values = {_EDGES: num_neighbors.values}
    return {key: _check_fan_outs(value) for key, value in values.items()}


def _check_edge_types(num_neighbors: NumNeighbors, edge_types: list[EdgeType]) -> None:
    if not isinstance(num_neighbors.values, dict):
        return
    named = {key.to_tuple() for key in num_neighbors.values}
    missing = set() if num_neighbors.default is not None else set(edge_types) - named
    for wrong, what in ((named - set(edge_types), "names"), (missing, "lacks")):
        if wrong:
            raise ValueError(
                f"'num_neighbors' {what} {sorted(wrong)}, and needs one entry for each edge type: "
                f"{edge_types}."
            )


def _check_fan_outs(values: Sequence[int]) -> list[int]:
    if not len(values):
        raise ValueError("'num_neighbors' needs a number for at least one hop (got an empty list).")
    for value in values:
        if not isinstance(value, numbers.Integral) or isinstance(value, bool) or value < -1:
            raise ValueError(
                f"'num_neighbors' needs whole numbers from 0, or -1 for all neighbours (got {value!r})."
            )
    return [int(value) for value in values]


def check_range(index: torch.Tensor, size: int, what: str) -> None:
    """Raises, naming `what`, unless every entry of `index` is a place among `size`."""
    if index.numel() and (int(index.min()) < 0 or int(index.max()) >= size):
        low, high = int(index.min()), int(index.max())
        raise IndexError(f"{what} needs to lie between 0 and {size - 1} (got values from {low} to {high}).")


def _concatenate(parts: Sequence[np.ndarray]) -> np.ndarray:
    if len(parts) == 1:
        return parts[0]
    return np.concatenate(parts) if parts else np.empty(0, dtype=np.int64)
