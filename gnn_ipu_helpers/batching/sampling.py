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
        numbering: Any = _SortedList if disjoint else _Table
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

    def _with_reverse_edges(self, out: Any) -> Any:
        return out.to_bidirectional() if self.subgraph_type == SubgraphType.bidirectional else out

    def _sample(self, seed: Any, seed_time: Any = None) -> SamplerOutput | HeteroSamplerOutput:
        if seed_time is not None:
            raise NotImplementedError("Sampling by time needs 'pyg-lib', which is not installed.")
        seeds = seed if self._is_hetero else {_NODES: seed}
        nodes = {key: _Sampled(self._numbering[key], size) for key, size in self._num_nodes.items()}
        try:
            num_seeds = 0
            for key, of_type in seeds.items():
                check_range(of_type, self._num_nodes[key], "A seed")
                graphs = np.arange(num_seeds, num_seeds + len(of_type)) if self.disjoint else 0
                nodes[key].add_seeds(of_type.numpy().astype(np.int64, copy=False) + graphs * nodes[key].size)
                num_seeds += len(of_type)
            hops = self._walk(nodes)
            if self.subgraph_type == SubgraphType.induced:
                edges = {key: self._edges_between(key, nodes[key[0]], nodes[key[2]]) for key in hops}
            else:
                edges = {key: [_concatenate(parts) for parts in zip(*each)] for key, each in hops.items()}
        finally:
            for numbering in self._numbering.values():
                numbering.clear()
        return self._output(nodes, edges, hops)

    def _walk(self, nodes: dict[str, _Sampled]) -> dict[EdgeType, list[Any]]:
        """Adds the neighbours of the seeds hop by hop; the edges of every type and hop: row, column, edge."""
        # One draw from torch's generator decides the whole sample.
        random = np.random.default_rng(int(torch.randint(2**63 - 1, (), generator=self.generator)))
        hops: dict[EdgeType, list[Any]] = {key: [] for key in self._edges}
        for hop in range(len(next(iter(self._fan_outs.values()), []))):
            frontiers = {key: sampled.start_hop() for key, sampled in nodes.items()}
            for key, in_edges in self._edges.items():
                start, frontier = frontiers[key[2]]
                graphs, targets = self._split(frontier, nodes[key[2]].size)
                target, place = in_edges.pick(targets, self._fan_outs[key][hop], self.replace, random)
                sources, found = nodes[key[0]], in_edges.source[place]
                row = sources.add(found if graphs is None else graphs[target] * sources.size + found)
                hops[key].append((row, target + start, in_edges.edge_id[place]))
        return hops

    def _split(self, keys: np.ndarray, size: int) -> tuple[np.ndarray | None, np.ndarray]:
        """The subgraphs (None if there is but one) and the nodes that keys stand for."""
        return np.divmod(keys, size) if self.disjoint else (None, keys)

    def _edges_between(self, key: EdgeType, sources: _Sampled, targets: _Sampled) -> list[np.ndarray]:
        """Every edge of one type that joins two nodes of the sample: row, column, edge."""
        in_edges = self._edges[key]
        graphs, nodes = self._split(targets.keys(), targets.size)
        target, place = in_edges.pick(nodes, -1)
        found = in_edges.source[place]
        row = sources.numbering.find(found if graphs is None else graphs[target] * sources.size + found)
        kept = np.flatnonzero(row >= 0)
        return [row[kept], target[kept], in_edges.edge_id[place[kept]]]

    def _output(
        self,
        nodes: dict[str, _Sampled],
        edges: dict[EdgeType, list[np.ndarray]],
        hops: dict[EdgeType, list[Any]],
    ) -> SamplerOutput | HeteroSamplerOutput:
        both = {key: self._split(sampled.keys(), sampled.size) for key, sampled in nodes.items()}
        fields: dict[str, dict[Any, Any]] = {
            "node": {key: torch.from_numpy(own) for key, (_, own) in both.items()},
            **{
                name: {key: torch.from_numpy(kept[at]) for key, kept in edges.items()}
                for at, name in enumerate(("row", "col", "edge"))
            },
        }
        if self.disjoint:
            fields["batch"] = {key: torch.from_numpy(graphs) for key, (graphs, _) in both.items()}
        if self.subgraph_type != SubgraphType.induced:
            fields["num_sampled_nodes"] = {key: sampled.num_by_hop() for key, sampled in nodes.items()}
            fields["num_sampled_edges"] = {
                key: [row.size for row, _, _ in each] for key, each in hops.items()
            }
        if self._is_hetero:
            return HeteroSamplerOutput(**fields)
        return SamplerOutput(**{name: next(iter(values.values())) for name, values in fields.items()})


class _InEdges(NamedTuple):
    """The edges of one type, sorted by target: those into node `i` lie in `ptr[i]:ptr[i + 1]`."""

    ptr: np.ndarray
    source: np.ndarray
    edge_id: np.ndarray

    def pick(
        self,
        nodes: np.ndarray,
        fan_out: int,
        replace: bool = False,
        random: np.random.Generator | None = None,
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


def _distinct(population: np.ndarray, count: int, random: np.random.Generator | None) -> np.ndarray:
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


class _Sampled:
    """The nodes of one type in the sample that is being made, in the order of their local numbers.

    A key stands for each: the node itself or, where every seed has a subgraph of its own, `subgraph * size +
    node`.
    """

    def __init__(self, numbering: _Table | _SortedList, size: int):
        self.numbering, self.size = numbering, size
        self._hops: list[list[np.ndarray]] = [[]]
        self._num_numbered = 0

    def add_seeds(self, keys: np.ndarray) -> None:
        """Takes in the seeds, each with a number of its own, also where one comes twice."""
        self.numbering.add_all(keys)
        self._append(keys)

    def add(self, keys: np.ndarray) -> np.ndarray:
        """The local numbers of nodes, taking in those not met before."""
        local, new = self.numbering.add(keys)
        if new.size:
            self._append(keys[new])
        return local

    def start_hop(self) -> tuple[int, np.ndarray]:
        """What the previous hop brought in, and its first number; all from now on belongs to the next one."""
        keys = _concatenate(self._hops[-1])
        self._hops.append([])
        return self._num_numbered - keys.size, keys

    def keys(self) -> np.ndarray:
        return _concatenate([part for hop in self._hops for part in hop])

    def num_by_hop(self) -> list[int]:
        return [sum(part.size for part in hop) for hop in self._hops]

    def _append(self, keys: np.ndarray) -> None:
        self._hops[-1].append(keys)
        self._num_numbered += keys.size


class _Table:
    """Local numbers in one table over all nodes; what a sample touched is wiped after it."""

    def __init__(self, num_nodes: int):
        self._number = np.full(num_nodes, -1, dtype=np.int64)
        self._touched: list[np.ndarray] = []
        self._size = 0

    def add_all(self, keys: np.ndarray) -> None:
        self._touched.append(keys)
        # NumPy keeps the last of several assignments to one entry, so backwards the first appearance wins.
        self._number[keys[::-1]] = np.arange(keys.size)[::-1]
        self._size = keys.size

    def add(self, keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        unseen = np.flatnonzero(self._number[keys] < 0)
        if unseen.size:
            candidates = keys[unseen]
            self._touched.append(candidates)
            order = np.arange(unseen.size)
            self._number[candidates[::-1]] = order[::-1]
            unseen = unseen[self._number[candidates] == order]
            self._number[keys[unseen]] = np.arange(self._size, self._size + unseen.size)
            self._size += unseen.size
        return self._number[keys], unseen

    def find(self, keys: np.ndarray) -> np.ndarray:
        return self._number[keys]

    def clear(self) -> None:
        for keys in self._touched:
            self._number[keys] = -1
        self._touched, self._size = [], 0


class _SortedList:
    """Local numbers in a sorted list of keys: a table over all pairs of subgraph and node would not fit."""

    def __init__(self, num_nodes: int):
        self.clear()

    def clear(self) -> None:
        self._keys = self._numbers = np.empty(0, dtype=np.int64)

    def add_all(self, keys: np.ndarray) -> None:
        all_keys = np.concatenate([self._keys, keys])
        numbers = np.concatenate([self._numbers, np.arange(self._keys.size, all_keys.size)])
        order = np.argsort(all_keys, kind="stable")
        self._keys, self._numbers = all_keys[order], numbers[order]

    def add(self, keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        unseen = np.flatnonzero(self.find(keys) < 0)
        _, first = np.unique(keys[unseen], return_index=True)
        new = unseen[np.sort(first)]
        self.add_all(keys[new])
        return self.find(keys), new

    def find(self, keys: np.ndarray) -> np.ndarray:
        """The local numbers, -1 where a node is not in the sample."""
        if not self._keys.size:
            return np.full(keys.size, -1, dtype=np.int64)
        place = np.minimum(np.searchsorted(self._keys, keys), self._keys.size - 1)
        return np.where(self._keys[place] == keys, self._numbers[place], -1)


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
    by_type = isinstance(num_neighbors.values, dict)
    if by_type and not is_hetero:
        raise TypeError(
            "'num_neighbors' per edge type needs a 'HeteroData'; a 'Data' takes one list such as [10, 10]."
        )
    if by_type:
        named = {key.to_tuple() for key in num_neighbors.values}
        missing = set() if num_neighbors.default is not None else set(edge_types) - named
        for wrong, what in ((named - set(edge_types), "names"), (missing, "lacks")):
            if wrong:
                raise ValueError(
                    f"'num_neighbors' {what} {sorted(wrong)}, and needs one entry for each edge type: "
                    f"{edge_types}."
                )
    fan_outs = num_neighbors.get_values(edge_types) if is_hetero else {_EDGES: num_neighbors.values}
    for values in fan_outs.values():
        if not len(values):
            raise ValueError("'num_neighbors' needs a number for at least one hop (got an empty list).")
        for value in values:
            if not isinstance(value, numbers.Integral) or isinstance(value, bool) or value < -1:
                raise ValueError(
                    f"'num_neighbors' needs whole numbers from 0, or -1 for all neighbours (got {value!r})."
                )
    return {key: [int(value) for value in values] for key, values in fan_outs.items()}


def check_range(index: torch.Tensor, size: int, what: str) -> None:
    """Raises, naming `what`, unless every entry of `index` is a place among `size`."""
    if index.numel() and (int(index.min()) < 0 or int(index.max()) >= size):
        low, high = int(index.min()), int(index.max())
        raise IndexError(f"{what} needs to lie between 0 and {size - 1} (got values from {low} to {high}).")


def _concatenate(parts: Sequence[np.ndarray]) -> np.ndarray:
    if len(parts) == 1:
        return parts[0]
    return np.concatenate(parts) if parts else np.empty(0, dtype=np.int64)
