"""The words for each way in which a graph can fail to be static: why, and what to write instead."""

from __future__ import annotations

from typing import NamedTuple


class Hint(NamedTuple):
    """`reason` and `remedy` of a finding; `{name}` stands for the layer or function that the user calls."""

    reason: str
    remedy: str


SIZE = "the size of the result is read from the data"
_SELECTS = "how many rows remain depends on the data, so the result has no fixed size"
_VALUE = "a tensor's value is read back into Python, which the device cannot do while its graph runs"

SELF_LOOPS = Hint(
    "existing self-loops are removed before new ones are added, so the number of edges depends on the data",
    "create {name} with add_self_loops=False and add them once beforehand: pre_transform=T.AddSelfLoops()",
)
_POOL = Hint(
    "the number of graphs is read from the data (the largest number in `batch`)",
    "pass size=<number of graphs, i.e. the batch_size of the fixed-size loader> to {name}",
)
_SELECTING_POOL = Hint(
    "{name} keeps a number of nodes or edges that depends on the data",
    "keep all nodes and weigh them by their score, or use a pooling of fixed size: global_mean_pool with "
    "size, SortAggregation with max_num_elements, MemPooling, dense_diff_pool or DMoNPooling",
)
_NUM_NODES = Hint(SIZE, "pass num_nodes=<number of nodes>, for example x.size(0), to {name}")
_DIM_SIZE = Hint(SIZE, "pass dim_size=<number of groups>, for example x.size(0) for nodes, to {name}")
_BATCH_SIZE = Hint(
    "the number of graphs is read from the data (the largest number in `batch`)",
    "pass batch_size=<number of graphs, i.e. the batch_size of the fixed-size loader> to {name}",
)
_DENSE = Hint(
    "the number of graphs or of nodes in the largest graph is read from the data",
    "pass batch_size=<number of graphs> and max_num_nodes=<most nodes that a graph may have> to {name}",
)
_CLUSTERED = Hint(
    "the number of clusters is read from the data",
    "pass batch_size=<number of graphs> and size=<most clusters that a graph may have> to {name}",
)
_BEFOREHAND = Hint(
    "{name} returns as many edges or nodes as the data say",
    "do it once beforehand, on the host: as a transform of the dataset (pre_transform), not inside forward",
)
_SAMPLING = Hint(
    "{name} draws a set whose size depends on the data or on chance",
    "draw it on the host, in the loader, or keep all edges and multiply their messages by a random 0/1 mask",
)

BY_FUNCTION = {
    **dict.fromkeys(("global_add_pool", "global_mean_pool", "global_max_pool"), _POOL),
    **dict.fromkeys(("max_pool_x", "avg_pool_x"), _CLUSTERED),
    **dict.fromkeys(("max_pool", "avg_pool", "max_pool_neighbor_x", "avg_pool_neighbor_x"), _SELECTING_POOL),
    **dict.fromkeys(("degree", "softmax", "maybe_num_nodes", "spmm", "contains_isolated_nodes"), _NUM_NODES),
    **dict.fromkeys(("scatter", "scatter_argmax", "group_argsort"), _DIM_SIZE),
    **dict.fromkeys(("to_dense_batch", "to_dense_adj"), _DENSE),
    "to_nested_tensor": _DENSE,
    "one_hot": Hint(
        "the number of classes is read from the data", "pass num_classes=<number of classes> to {name}"
    ),
    **dict.fromkeys(("add_remaining_self_loops", "gcn_norm"), SELF_LOOPS),
    **dict.fromkeys(
        (
            "remove_self_loops",
            "segregate_self_loops",
            "remove_isolated_nodes",
            "to_undirected",
            "is_undirected",
            "coalesce",
            "subgraph",
            "k_hop_subgraph",
            "bipartite_subgraph",
            "dense_to_sparse",
            "to_edge_index",
            "unbatch",
            "unbatch_edge_index",
            "get_laplacian",
            "get_mesh_laplacian",
            "grid",
            "to_torch_coo_tensor",
            "to_torch_csr_tensor",
            "to_scipy_sparse_matrix",
            "to_networkx",
            "ppr",
            "get_ppr",
            "contains_self_loops",
        ),
        _BEFOREHAND,
    ),
    **dict.fromkeys(
        (
            "dropout_edge",
            "dropout_node",
            "dropout_path",
            "dropout_adj",
            "negative_sampling",
            "batched_negative_sampling",
            "structured_negative_sampling",
            "add_random_edge",
            "random_walk",
        ),
        _SAMPLING,
    ),
    "add_self_loops": Hint(
        "the number of nodes is read from the data",
        "pass num_nodes=<number of nodes>, for example x.size(0), to {name}",
    ),
    "fps": Hint(
        "the number of points kept of each graph depends on the data",
        "call {name} with batch=None, one cloud at a time",
    ),
}

BY_FILE = {
    "nn/pool/topk_pool.py": _SELECTING_POOL,
    "nn/pool/sag_pool.py": _SELECTING_POOL,
    "nn/pool/asap.py": _SELECTING_POOL,
    "nn/pool/edge_pool.py": _SELECTING_POOL,
    "nn/pool/cluster_pool.py": _SELECTING_POOL,
    "nn/pool/pan_pool.py": _SELECTING_POOL,
    "nn/pool/mem_pool.py": _DENSE,
    "nn/models/graph_unet.py": _SELECTING_POOL,
    "nn/aggr/": Hint(SIZE, "pass dim_size=<number of groups, i.e. of graphs or nodes> to {name}"),
    "nn/norm/mean_subtraction_norm.py": Hint(SIZE, "pass dim_size=<number of graphs> to {name}"),
    "nn/norm/": _BATCH_SIZE,
    "nn/conv/hypergraph_conv.py": Hint(
        "the number of hyperedges is read from the data", "pass num_edges=<number of hyperedges> to {name}"
    ),
    "nn/conv/supergat_conv.py": Hint(
        "self-loops and negative edges are drawn inside, in numbers that depend on the data",
        "create {name} with add_self_loops=False and pass neg_edge_index=<edges drawn in the loader>",
    ),
    "utils/augmentation.py": _SAMPLING,
    "utils/dropout.py": _SAMPLING,
}

ELSEWHERE_IN_PYG = {
    "torch_geometric/transforms/": "give it to the dataset as its transform or pre_transform, not in forward",
    "torch_geometric/data/": "take the tensors out of the data object, x = data.x, and go on with those; "
    "copy or convert the object itself before the call",
    "": "use another layer, see docs/supported_layers.md",
}

MAX_ELEMENTS = Hint(
    "the size of the largest group is read from the data",
    "pass max_num_elements=<most elements that a group may have>, beside dim_size, to {name}",
)

BY_OPERATION = {
    "boolean indexing": Hint(
        _SELECTS,
        "keep all rows and neutralise the others: torch.where(mask.unsqueeze(-1), x, 0), or for a loss the "
        "label -100 where the mask is False: F.cross_entropy(out, torch.where(mask, y, -100))",
    ),
    "nonzero": Hint(
        _SELECTS, "work with the mask itself, torch.where(mask, a, b), or torch.topk with a constant k"
    ),
    "where": Hint(
        "torch.where with one argument lists the True entries, and their number depends on the data",
        "give all three arguments, torch.where(mask, a, b), or torch.topk with a constant k",
    ),
    "unique": Hint(
        "the number of distinct values depends on the data",
        "find them on the host, in the dataset or loader, and pass the result in, or count with a scatter of "
        "fixed dim_size",
    ),
    "bincount": Hint(
        "the number of bins depends on the data",
        "count with degree(index, num_nodes=<number of bins>) or scatter with dim_size",
    ),
    "masked_select": Hint(_SELECTS, "use torch.where(mask, x, 0), which keeps the shape"),
    "repeat_interleave": Hint(
        "the length of the result is the sum of the repeats, which are data",
        "pass output_size=<total length> to {name}, or repeat a constant number of times",
    ),
    "item": Hint(
        _VALUE, "stay with the tensor: a tensor can take the place of the number in almost every formula"
    ),
    "tolist": Hint(_VALUE, "return the tensor and convert it after the call, outside forward"),
    "numpy": Hint(
        _VALUE, "use the torch function of the same name; convert to NumPy after the call, outside forward"
    ),
    "print": Hint(
        "printing needs the tensor's value on the host while the graph runs",
        "return the tensor and print it after the call, or drop the line; print only shapes",
    ),
    "branch": Hint(
        "Python must know the value to choose a branch, and the graph is built before there are values",
        "compute both and choose with torch.where(condition, a, b), or poptorch.cond for whole branches",
    ),
    "assert": Hint(
        "the assertion reads a tensor's value while the graph runs",
        "check the data on the host, in the dataset or loader; assert only on shapes inside forward",
    ),
    "one_hot": Hint(
        "the number of classes is read from the data", "pass num_classes=<number of classes> to one_hot"
    ),
    "scalar index": Hint(
        "an index in a tensor of no dimension is read back into Python",
        "select with a tensor of one dimension, x.index_select(0, index.view(1))",
    ),
    "size": Hint(
        "how large a tensor is depends on the data",
        "use a constant, such as a size known when the model is built, and mask the rest with torch.where",
    ),
    "loop": Hint(
        "how often the loop runs depends on the data",
        "use a constant, such as a size known when the model is built, and mask the rest with torch.where",
    ),
    "sparse": Hint(
        "a sparse tensor's number of entries is not part of its shape", "use edge_index and edge_weight"
    ),
    "gradient": Hint(
        "a gradient is taken inside forward; the device differentiates once, from the loss that is returned",
        "return the loss and leave backward to the device; write another derivative as a formula, or take it "
        "on the host, after the call",
    ),
    "untraceable": Hint(
        "the tracer cannot take this into the graph",
        "move the call out of forward, into the dataset or after the model, or write it with torch functions",
    ),
}
