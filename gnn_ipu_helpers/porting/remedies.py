"""From the place where a graph stops being static to the finding that helps: why, and what to write instead.

First the words, one table; then how a row of it is chosen for a place; then what is said of indices, missing
neighbours and padding.
"""

from __future__ import annotations

import dataclasses
import re
import sys
import traceback
from typing import Any, Callable, Iterable, NamedTuple, Sequence

import torch
import torch_geometric.nn
from torch import Tensor

from .findings import Finding, Place, from_summary, is_library, is_own, is_pyg, locate, relevant
from .internals import stack_of_failure
from .losses import is_loss_function
from .origins import Layer, Origin
from .static_layers import signature_of


class Hint(NamedTuple):
    """`reason` and `remedy` of a finding; `{name}` stands for what the user calls or creates."""

    reason: str
    remedy: str

    @property
    def argument(self) -> str:
        """The argument that the remedy asks for, so that it can be asked of something that takes it: `pass
        argument=<…> to {name}` when it is called, `{name} with argument=…` when it is created."""
        asked = re.match(r"(?:pass (?:.*\W)?|{name} with )(\w+)=(?:<|False)", self.remedy)
        return asked.group(1) if asked else ""


_SIZE = "the size of the result is read from the data"
_GRAPHS = "the number of graphs is read from the data (the largest number in `batch`)"
_CLASSES = "the number of classes is read from the data"
_SELECTS = "how many rows remain depends on the data, so the result has no fixed size"
_VALUE = "a tensor's value is read back into Python, which the device cannot do while its graph runs"
_OF_LOADER = "<number of graphs, i.e. the batch_size of the fixed-size loader>"
_CONSTANT = "use a constant, such as a size known when the model is built, and mask the rest with torch.where"
_WITHOUT_LOOPS = "{name} with add_self_loops=False"

# `(what it is about, reason, remedy)`. What it is about: a folder or file of
# PyG, a function of PyG, written `name()`, or an operation of torch or Python.
_ROWS: tuple[tuple[str, str, str], ...] = (
    (
        """nn/pool/topk_pool.py, nn/pool/sag_pool.py, nn/pool/asap.py, nn/pool/edge_pool.py,
        nn/pool/cluster_pool.py, nn/pool/pan_pool.py, nn/models/graph_unet.py, max_pool(), avg_pool(),
        max_pool_neighbor_x(), avg_pool_neighbor_x()""",
        "{name} keeps a number of nodes or edges that depends on the data",
        "keep all nodes and weigh them by their score, or use a pooling of fixed size: global_mean_pool with "
        "size, SortAggregation with max_num_elements, MemPooling, dense_diff_pool or DMoNPooling",
    ),
    (
        "nn/pool/mem_pool.py, to_dense_batch(), to_dense_adj()",
        "the number of graphs or of nodes in the largest graph is read from the data",
        "pass batch_size=<number of graphs> and max_num_nodes=<most nodes that a graph may have> to {name}",
    ),
    ("nn/aggr/", _SIZE, "pass dim_size=<number of groups, i.e. of graphs or nodes> to {name}"),
    ("nn/norm/mean_subtraction_norm.py", _SIZE, "pass dim_size=<number of graphs> to {name}"),
    ("nn/norm/", _GRAPHS, f"pass batch_size={_OF_LOADER} to {{name}}"),
    (
        "nn/conv/hypergraph_conv.py",
        "the number of hyperedges is read from the data",
        "pass num_edges=<number of hyperedges> to {name}",
    ),
    (
        "nn/conv/supergat_conv.py",
        "self-loops and negative edges are drawn inside, in numbers that depend on the data",
        f"{_WITHOUT_LOOPS} and pass neg_edge_index=<edges drawn in the loader>",
    ),
    (
        "add_remaining_self_loops(), gcn_norm()",
        "existing self-loops are removed before new ones are added, so the number of edges depends on the "
        "data",
        f"{_WITHOUT_LOOPS} and add them once beforehand: pre_transform=T.AddSelfLoops()",
    ),
    (
        "global_add_pool(), global_mean_pool(), global_max_pool()",
        _GRAPHS,
        f"pass size={_OF_LOADER} to {{name}}",
    ),
    (
        "max_pool_x(), avg_pool_x()",
        "the number of clusters is read from the data",
        "pass batch_size=<number of graphs> and size=<most clusters that a graph may have> to {name}",
    ),
    (
        "degree(), softmax(), maybe_num_nodes(), spmm(), contains_isolated_nodes()",
        _SIZE,
        "pass num_nodes=<number of nodes>, for example x.size(0), to {name}",
    ),
    (
        "add_self_loops()",
        "the number of nodes is read from the data",
        "pass num_nodes=<number of nodes>, for example x.size(0), to {name}",
    ),
    (
        "scatter(), scatter_argmax(), group_argsort()",
        _SIZE,
        "pass dim_size=<number of groups>, for example x.size(0) for nodes, to {name}",
    ),
    (
        "max_num_elements",
        "the size of the largest group is read from the data",
        "pass max_num_elements=<most elements that a group may have>, beside dim_size, to {name}",
    ),
    ("one_hot()", _CLASSES, "pass num_classes=<number of classes> to {name}"),
    (
        "to_nested_tensor()",
        "a nested tensor has as many rows in each part as the data say",
        "use to_dense_batch(x, batch, batch_size=<number of graphs>, max_num_nodes=<most nodes of a graph>)",
    ),
    (
        "fps()",
        "the number of points kept of each graph depends on the data",
        "call {name} with batch=None, one cloud at a time",
    ),
    (
        """remove_self_loops(), segregate_self_loops(), remove_isolated_nodes(), to_undirected(),
        is_undirected(), coalesce(), subgraph(), k_hop_subgraph(), bipartite_subgraph(), dense_to_sparse(),
        to_edge_index(), unbatch(), unbatch_edge_index(), get_laplacian(), get_mesh_laplacian(), grid(),
        to_torch_coo_tensor(), to_torch_csr_tensor(), to_scipy_sparse_matrix(), to_networkx(),
        ppr(), get_ppr(), contains_self_loops()""",
        "{name} returns as many edges or nodes as the data say",
        "do it once beforehand, on the host: as a transform of the dataset (pre_transform), not inside "
        "forward",
    ),
    (
        """utils/augmentation.py, utils/dropout.py,
        dropout_edge(), dropout_node(), dropout_path(), dropout_adj(), add_random_edge(), random_walk()""",
        "{name} draws a set whose size depends on the data or on chance",
        "draw it on the host, in the loader, or keep all edges and multiply their messages by a random 0/1 "
        "mask",
    ),
    (
        "negative_sampling(), batched_negative_sampling(), structured_negative_sampling()",
        "{name} draws a set whose size depends on the data or on chance",
        "draw it on the host, in the loader, a fixed number for every batch, and pass it to forward",
    ),
    (
        "boolean indexing",
        _SELECTS,
        "keep all rows and neutralise the others: torch.where(mask.unsqueeze(-1), x, 0), or for a loss the "
        "label -100 where the mask is False: F.cross_entropy(out, torch.where(mask, y, -100))",
    ),
    (
        "nonzero",
        _SELECTS,
        "work with the mask itself, torch.where(mask, a, b), or torch.topk with a constant k",
    ),
    (
        "where",
        "torch.where with one argument lists the True entries, and their number depends on the data",
        "give all three arguments, torch.where(mask, a, b), or torch.topk with a constant k",
    ),
    (
        "unique",
        "the number of distinct values depends on the data",
        "find them on the host, in the dataset or loader, and pass the result in, or count with a scatter of "
        "fixed dim_size",
    ),
    (
        "bincount",
        "the number of bins depends on the data",
        "count with degree(index, num_nodes=<number of bins>) or scatter with dim_size",
    ),
    ("masked_select", _SELECTS, "use torch.where(mask, x, 0), which keeps the shape"),
    (
        "repeat_interleave",
        "the length of the result is the sum of the repeats, which are data",
        "pass output_size=<total length> to {name}, or repeat a constant number of times",
    ),
    (
        "item",
        _VALUE,
        "stay with the tensor: a tensor can take the place of the number in almost every formula",
    ),
    ("tolist", _VALUE, "return the tensor and convert it after the call, outside forward"),
    (
        "numpy",
        _VALUE,
        "use the torch function of the same name; convert to NumPy after the call, outside forward",
    ),
    (
        "print",
        "printing needs the tensor's value on the host while the graph runs",
        "return the tensor and print it after the call, or drop the line; print only shapes",
    ),
    (
        "branch",
        "Python must know the value to choose a branch, and the graph is built before there are values",
        "compute both and choose with torch.where(condition, a, b), or poptorch.cond for whole branches",
    ),
    (
        "assert",
        "the assertion reads a tensor's value while the graph runs",
        "check the data on the host, in the dataset or loader; assert only on shapes inside forward",
    ),
    ("one_hot", _CLASSES, "pass num_classes=<number of classes> to one_hot"),
    (
        "scalar index",
        "an index in a tensor of no dimension is read back into Python",
        "select with a tensor of one dimension, x.index_select(0, index.view(1))",
    ),
    ("size", "how large a tensor is depends on the data", _CONSTANT),
    ("loop", "how often the loop runs depends on the data", _CONSTANT),
    ("slice", "where the slice begins or ends depends on the data", _CONSTANT),
    (
        "sort",
        "Python's sort compares what it sorts, and here that is tensors or holds them",
        "sort by what is constant, such as the names: `for name in sorted(tensors)`, or give a key; sort "
        "values with torch.sort",
    ),
    (
        "packed sequence",
        "a packed sequence has as many rows as the lengths say, which are data",
        "run the layer over all steps, `out, _ = rnn(rows)`, and leave out the others by the mask, "
        "torch.where(mask.unsqueeze(-1), out, 0); the last state is the row at lengths - 1, by gather",
    ),
    (
        "sparse",
        "a sparse tensor's number of entries is not part of its shape",
        "use edge_index and edge_weight",
    ),
    (
        "gradient",
        "a gradient is taken inside forward; the device differentiates once, from the loss that is returned",
        "return the loss and leave backward to the device; write another derivative as a formula, or take it "
        "on the host, after the call",
    ),
    (
        "changed attribute",
        "forward changes {name}, and the graph keeps the value that it had at the first call",
        "register it, `self.register_buffer('{name}', torch.zeros(…))`, and change it in place, "
        "`self.{name}.add_(…)` or `self.{name}.copy_(…)`; or count on the host, after the call",
    ),
    (
        "assigned buffer",
        "Buffer {name} is reassigned within the model, and the device keeps the first: PopTorch asks for "
        "self.{name}.copy_(src)",
        "copy into it, self.{name}.copy_(src), where src is what is assigned now",
    ),
    (
        "random",
        "Python or NumPy draws this number once, while the graph is built: every step would use the same",
        "draw with torch, `torch.rand(())` or `torch.rand_like(x)`, or in the dataset, and pass it in",
    ),
    ("time", "the clock is read once, while the graph is built", "read it outside forward"),
    (
        "device",
        "tensors are moved to another device, and the whole graph runs on one",
        "drop `.cuda()` and `.to('cuda')` from forward: poptorch puts the model and its inputs on the device",
    ),
    ("file", "files are on the host, and the graph runs on the device", "read it before, and pass it in"),
    (
        "untraceable",
        "Python does something here that is no operation on tensors, so it cannot be in the graph",
        "move it out of forward, into the dataset or after the model, or write it with torch functions",
    ),
)
_HINTS = {word: Hint(*row[1:]) for row in _ROWS for word in re.split(r",\s+", row[0])}
_SELF_LOOPS, _DENSE, _SELECTING_POOL = _HINTS["gcn_norm()"], _HINTS["to_dense_batch()"], _HINTS["max_pool()"]

# What to do about anything else in these folders of PyG.
_ELSEWHERE = {
    "torch_geometric/transforms/": "give it to the dataset as its transform or pre_transform, not in forward",
    "torch_geometric/data/": "take the tensors out of the data object, x = data.x, and go on with those; "
    "copy or convert the object itself before the call",
    "": "use another layer, see docs/supported_layers.md",
}

# Where a library's layer calls something inside and hands no argument on: another way out, by its class.
_WAYS_OUT = {
    "GPSConv": "create {path} with norm='layer_norm' and norm_kwargs={'mode': 'node'}, or norm=None: they "
    "need no number of graphs",
    "SchNet": "replace its readout: {path}.readout = Sized(), where `class Sized(SumAggregation)` has "
    "`def __call__(self, x, index, **kwargs): kwargs['dim_size'] = <number of graphs>; "
    "return super().__call__(x, index, **kwargs)`",
    "ViSNet": "use SchNet or another layer, see docs/supported_layers.md: ViSNet also selects edges by "
    "masks, in several places",
    "SGFormer": "replace {path}.trans_conv by a subclass of its class whose forward passes batch_size="
    "<number of graphs> and max_num_nodes=<most nodes that a graph may have> to to_dense_batch, and takes "
    "each node's row out again by its place instead of by the mask",
}
_CONTAINERS = re.findall(
    r"\w+",
    """Sequential ModuleList ModuleDict HeteroConv GAE VGAE ARGA ARGVA DeepGCNLayer DirGNNConv GPSConv
    DeepGraphInfomax AntiSymmetricConv GraphModule DataParallel MetaLayer GroupAddRev""",
)


def explain(origin: Origin) -> Finding:
    """The finding for one place where the graph is not static."""
    user, _ = locate(origin.frames)
    is_in_pyg = any(is_pyg(frame.file) for frame in _library_frames(origin))
    if not is_in_pyg and user is not None:
        origin = dataclasses.replace(origin, operation=_statement(user.source, origin.operation))
    hint, name = _library_hint(origin) or _operation_hint(origin)
    return finding_at(origin, hint, name if is_in_pyg else origin.operation, name)


def finding_at(origin: Origin, hint: Hint, operation: str, name: str | None = None) -> Finding:
    """The finding that says `hint` about `operation` at the place of `origin`; `name` fills the hint's
    `{name}`."""
    user, cause = locate(origin.frames)
    reason, remedy = (text.replace("{name}", name or operation) for text in (hint.reason, hint.remedy))
    return Finding.at(user, operation, reason, remedy, cause)


def distinct(findings: Iterable[Finding]) -> list[Finding]:
    """`findings` without repetitions: one per line of the user and remedy, the first of each. One that says
    no more than that some size depends on data follows from any other on its line."""
    unique = list({(f.file, f.line, f.remedy): f for f in reversed(list(findings))}.values())[::-1]
    explained = {(f.file, f.line) for f in unique if f.remedy != _CONSTANT}
    return [f for f in unique if f.remedy != _CONSTANT or (f.file, f.line) not in explained]


def is_known_in_library(origin: Origin) -> bool:
    """Whether the place lies in the user's own line, or in a call into PyG that is known to be dynamic."""
    return locate(origin.frames)[1] is None or _library_hint(origin) is not None


# A value read for a condition or a loop is better explained by the statement that reads it:
# `(operations, pattern of the user's line, what to call it)`, the first that fits.
_READS_VALUE = ("item", "size", "branch")
_STATEMENTS = (
    ((), r"one_hot\(", "one_hot"),
    (("untraceable",), r"autograd\.grad\(|\.backward\(|\.requires_grad_\(", "gradient"),
    (("untraceable",), r"(?<!torch\.)\brandom\.\w+\(|\brandint\(|\bnp\.random", "random"),
    (("untraceable",), r"\btime\.\w+\(|\bdatetime\b", "time"),
    (("untraceable",), r"\.cuda\(|['\"]cuda", "device"),
    (("untraceable",), r"\bopen\(", "file"),
    (("untraceable",), r"\bpack_(padded_)?sequence\(", "packed sequence"),
    (_READS_VALUE, r"^(if|elif)\b|\bif\b.+\belse\b", "branch"),
    (_READS_VALUE, r"^assert\b", "assert"),
    (_READS_VALUE, r"^(for|while)\b|range\(", "loop"),
    (("item",), r"\w\[(?![\d\s:,-]*\])[^]]*:", "slice"),  # not one between constants
)


def _statement(source: str, operation: str) -> str:
    for operations, pattern, kind in _STATEMENTS:
        if (not operations or operation in operations) and re.search(pattern, source):
            return kind
    return operation


def _path(frame: Place) -> str:
    return frame.file.replace("\\", "/")


def _library_frames(origin: Origin) -> list[Place]:
    """The frames of libraries that the user's own innermost line leads to."""
    frames = relevant(origin.frames)
    own = [number for number, frame in enumerate(frames) if not is_library(frame.file)]
    return frames[own[-1] + 1 if own else 0 :]


def _library_hint(origin: Origin) -> tuple[Hint, str] | None:
    """The hint for the outermost call into PyG that is known to be dynamic, and what to call it."""
    frames = _library_frames(origin)
    for number, frame in enumerate(frames):
        file = _path(frame) if is_pyg(frame.file) else ""
        of_file = (hint for part, hint in _HINTS.items() if "/" in part and part in file)
        hint = next(of_file, _HINTS.get(f"{frame.function}()")) if file else None
        if hint is not None:
            user = locate(origin.frames)[0]
            return _typed_in(_refined(hint, frames, user.source if user else ""), origin, frames, number)
    return None


def _refined(hint: Hint, frames: Sequence[Place], source: str) -> Hint:
    """The hint for what `source`, the user's line, leads to more precisely."""
    files = [_path(frame) for frame in frames]
    if hint == _SELECTING_POOL:
        return hint
    if hint == _DENSE and "batch_size=" in source.split("#")[0]:
        return hint._replace(remedy="pass max_num_nodes=<most nodes that a graph may have> to {name}")
    if any("nn/conv/" in file for file in files) and files[-1].endswith("utils/loop.py"):
        return _SELF_LOOPS
    is_aggregation = any("nn/aggr/" in file for file in files)
    return _HINTS["max_num_elements"] if is_aggregation and "max_num_nodes" in frames[-1].source else hint


def _typed_in(hint: Hint, origin: Origin, frames: Sequence[Place], number: int) -> tuple[Hint, str]:
    """The hint, asked of something that takes its argument, and the name of that something."""
    layers = _pyg_layers(origin)
    name = _name(layers, frames[: number + 1])
    if hint.remedy.startswith("{name}"):
        return _setting(hint, layers, name)
    # Decorators and `__call__` of PyG's modules only hand their arguments on.
    called = [frame for frame in frames if not _is_passed_through(frame)]
    if not hint.argument or not called:
        return hint, name
    is_method = called[0].function == "forward"
    forward = getattr(layers[0].kind, "forward", None) if layers else None
    if _takes(forward if is_method else _function(called[0]), hint.argument):
        return hint, name
    takers = (frame.function for frame in called if _takes(_function(frame), hint.argument))
    inside = next(takers, frames[number].function)
    if "_Sequential_" in frames[0].file or _path(frames[0]).endswith("nn/sequential.py"):
        partial = f"functools.partial({inside}, {hint.argument}=<…>)"
        return Hint(hint.reason, f"{hint.remedy}; in a Sequential write {partial}"), inside
    if not layers:
        return hint, name
    kind = layers[0].kind.__name__
    remedy = (
        f"{kind} hands no {hint.argument} on: write a subclass of it whose forward passes "
        f"{hint.argument}=<a constant> to {inside}"
    )
    return Hint(hint.reason, _way_out(layers[0]) or remedy), kind


def _way_out(layer: Layer) -> str | None:
    ways = [_WAYS_OUT[base.__name__] for base in layer.kind.__mro__ if base.__name__ in _WAYS_OUT]
    return ways[0].replace("{path}", layer.path or layer.kind.__name__) if ways else None


def _setting(hint: Hint, layers: Sequence[Layer], name: str) -> tuple[Hint, str]:
    """Which layer to create with the argument: the innermost that takes it, or the ready-made model that
    hands it on, by its path in the model."""
    number = max((n for n, layer in enumerate(layers) if _takes(layer.kind, hint.argument)), default=None)
    if number is None:
        return hint._replace(remedy="create " + hint.remedy), name
    layer, remedy = layers[number], hint.remedy
    edge_type = re.search(r"\['(\w+)', '\w+', '(\w+)'\]", layer.path)
    is_pair = isinstance(getattr(layer.module, "in_channels", None), tuple)
    if edge_type.group(1) != edge_type.group(2) if edge_type else is_pair:
        remedy = f"{_WITHOUT_LOOPS}: between two node types there are none"
    for parent in reversed(layers[:number]):
        if any(kind.__name__ == "BasicGNN" for kind in parent.kind.__mro__):  # hands its **kwargs on
            layer = parent
        elif parent.kind.__name__ not in _CONTAINERS and hasattr(layer.module, hint.argument):
            setting = f"set {layer.path}.{hint.argument} = False"
            return Hint(hint.reason, remedy.replace(_WITHOUT_LOOPS, setting)), name
    kind = layer.kind.__name__
    what = kind if layer.path in ("", "model") else f"`{layer.path}`, a {kind},"
    return Hint(hint.reason, remedy.replace("{name}", f"create {what}")), kind


def _pyg_layers(origin: Origin) -> list[Layer]:
    return [layer for layer in origin.layers if layer.kind.__module__.startswith("torch_geometric.nn")]


def _is_passed_through(frame: Place) -> bool:
    return frame.function in ("wrapper", "__call__", "_call_impl", "inner")


def _function(frame: Place) -> Callable | None:
    """The function of a module's that a frame is a call of, if it can be found."""
    modules = (m for m in list(sys.modules.values()) if getattr(m, "__file__", None) == frame.file)
    return getattr(next(modules, None), frame.function, None)


def _takes(function: Callable | None, argument: str) -> bool:
    try:
        return function is not None and argument in signature_of(function).parameters
    except (TypeError, ValueError):
        return False


def _name(layers: Sequence[Layer], frames: Sequence[Place]) -> str:
    """The layer or function that the user knows: the module around the call, or the function called."""
    frames = [frame for frame in frames if not _is_passed_through(frame)] or frames
    outermost = frames[0].function
    if f"{outermost}()" in _HINTS and len(frames) == 1:
        return outermost
    if layers:
        return layers[0].kind.__name__
    file = re.search(r"/(\w+)\.py$", _path(frames[0]))
    if outermost not in ("forward", "__call__") or not file:
        return outermost
    # The class of PyG that a file is named after, such as GATConv for gat_conv.
    names = {name.lower(): name for name in dir(torch_geometric.nn) if name[:1].isupper()}
    wanted = file.group(1).replace("_", "")
    return names.get(wanted) or next((names[n] for n in names if n.startswith(wanted)), file.group(1))


def _operation_hint(origin: Origin) -> tuple[Hint, str]:
    """The hint for an operation in the user's own line, or in a library that is not known better."""
    frames = _library_frames(origin)
    hint = _HINTS.get(origin.operation, _HINTS["size"])
    files = [_path(frame) for frame in frames if is_pyg(frame.file)]
    if not files:
        return hint, origin.detail or origin.operation
    missing = re.match(r"(\w+) = int\(", frames[-1].source)
    if missing:
        remedy = f"pass {missing.group(1)}=<a constant> to {{name}}"
        return _typed_in(Hint(_SIZE, remedy), origin, frames, len(frames) - 1)
    layers = _pyg_layers(origin)
    elsewhere = next(remedy for folder, remedy in _ELSEWHERE.items() if folder in files[0])
    remedy = layers and _way_out(layers[0]) or elsewhere
    return Hint(hint.reason + ", inside {name}", remedy), _name(layers, frames)


# Where the tracer or the model itself gives up.


_FAILURES = (
    (r"Data-dependent branching|__bool__", "branch"),
    (r"[Dd]ata-dependent assert", "assert"),
    (r"builtin operator `print`|builtin `print`", "print"),
    (r"[Tt]ensor\.(tolist|to_list)|tolist\(\)", "tolist"),
    (r"[Tt]ensor\.item|\.item\(\)", "item"),
    (r"numpy|NumPy", "numpy"),
    (r"sort with non-constant", "sort"),
    (r"data-dependent expression|data dependent expression|[Dd]ynamic (shape|slicing)|SymInt", "size"),
    (r"[Ss]parse", "sparse"),
    (r"nonzero", "nonzero"),
    (r"unique", "unique"),
    (r"masked_select", "masked_select"),
    (r"", "untraceable"),
)
_INSTALLED_BY = {"torch_sparse": "torch-sparse", "torch_cluster": "torch-cluster", "pyg_lib": "pyg-lib"}


def origin_of_failure(error: BaseException) -> Origin:
    """Where and by what kind of operation the trace was ended."""
    message = str(error).split("from user code:")[0]
    operation = next(kind for pattern, kind in _FAILURES if re.search(pattern, message))
    return Origin(operation, from_summary(stack_of_failure(error)))


def own_failure(error: Exception) -> Finding | None:
    """The finding for an exception that a model raises itself on this machine, though its inputs are right:
    a library that is not installed, a device that is not there. None for any other."""
    text = str(error)
    frames = [f for f in traceback.extract_tb(error.__traceback__) if not is_own(f.filename)]
    place = Origin("missing library", from_summary(frames))
    is_needed = re.search(r"requires '?[\w-]+'? ?|'NoneType' object is not callable", text)
    if isinstance(error, ImportError) or is_needed:
        match = re.search(r"(?:No module named|requires|install) ['`]?([\w-]+)", text)
        name = match and _INSTALLED_BY.get(match.group(1), match.group(1)) or "an optional library"
        hint = Hint(
            f"{name} is needed here, and it is not installed: {text.splitlines()[0]}",
            "install {name} where the device is, or use another layer, see docs/supported_layers.md; what a "
            "library on the host computes belongs into the dataset or the loader",
        )
        return finding_at(place, hint, "missing library", name)
    return finding_at(place, _HINTS["device"], "device") if re.search(r"CUDA|cuda|NVIDIA", text) else None


# What is seen when the graph runs.


_CLASS_LOSSES = ("cross_entropy", "nll_loss", "nll_loss_nd")


def out_of_range(origin: Origin, args: Sequence, kwargs: dict, message: str) -> Finding:
    """The finding for an index beyond the size that it indexes, with both numbers."""
    operation = origin.operation
    largest, size = _index_and_size(operation, args, kwargs, message)
    numbers = f"an index is {largest}" if largest is not None else "an index does not fit"
    if largest is not None and size is not None:
        numbers += f", and what it indexes has {size} places, 0 to {size - 1}"
    enough = f"{largest + 1} or more" if largest is not None and largest >= 0 else "enough"
    hint, name = _library_hint(origin) or (Hint("", ""), operation)
    if operation == "embedding":
        remedy = f"create the embedding with {enough} rows, or look for a wrong number in the data"
    elif operation in _CLASS_LOSSES:
        remedy = f"give the last layer {enough} outputs, or look for a wrong label in the data"
    elif hint.argument in ("size", "dim_size", "batch_size", "num_nodes", "num_edges"):
        remedy = f"pass {hint.argument}={enough} to {name}"
    else:
        remedy = "make what is indexed larger, or look for a wrong number in the data"
    is_inside = locate(origin.frames)[1] is not None
    return finding_at(origin, Hint(numbers, remedy), name if is_inside else "index out of range")


def _index_and_size(operation: str, args: Sequence, kwargs: dict, message: str) -> tuple[Any, Any]:
    """The index furthest out and the size that it indexes, each None where it cannot be told."""
    told = re.search(r"index (-?\d+) is out of bounds for dimension \d+ with size (\d+)", message)
    if told:
        return int(told.group(1)), int(told.group(2))
    tensors = [value for value in [*args, *kwargs.values()] if isinstance(value, Tensor)]
    if operation in ("getitem", "size"):
        index = args[1] if isinstance(args[1], tuple) else (args[1],)
        tensors += [part for part in index if isinstance(part, Tensor)]
    floating = [tensor for tensor in tensors if tensor.is_floating_point()]
    indices = [t for t in tensors if not t.is_floating_point() and t.dtype != torch.bool and t.numel()]
    if not indices:
        return None, None
    taken = indices[0] if operation != "index_select" else indices[-1]
    furthest = int(taken.max()) if int(taken.min()) >= 0 else int(taken.min())
    if operation == "embedding" and floating:
        return furthest, floating[0].size(0)
    if operation in _CLASS_LOSSES and floating:
        return furthest, floating[0].size(1 if floating[0].dim() > 1 else 0)
    if operation in ("index_select", "gather", "scatter_add_", "scatter_add") and len(args) > 1:
        return furthest, args[0].size(args[1]) if isinstance(args[1], int) else None
    return furthest, None


def missing_neighbours(origin: Origin) -> Finding:
    """The finding for a neighbour search that finds fewer than asked for, on inputs without padding."""
    searches = [f.function for f in origin.frames if re.fullmatch(r"(knn|radius)(_graph)?", f.function)]
    layers = [layer.kind.__name__ for layer in _pyg_layers(origin)]
    name = [*layers[-1:], *searches, "the search"][0]
    hint = Hint(
        "some points have fewer neighbours than asked for, and a static graph has edges for all: the missing "
        "ones join the last point, which is real here",
        "ask {name} for fewer neighbours, k or max_num_neighbors, or pass a batch of a fixed-size loader, "
        "whose last points are padding",
    )
    return finding_at(origin, hint, name, name)


# `what` moves when the values in padding rows do, for each way in which they come in.
_PADDING = {
    "batch norm": (
        "padding rows enter the mean and variance of {name}",
        "use gnn_ipu_helpers.porting.MaskedBatchNorm in its place and call it with the mask, "
        "norm(x, data.{mask}), or a LayerNorm, which looks at one row at a time",
    ),
    "norm": (
        "without `batch`, padding rows enter the statistics of {name}",
        "pass batch=data.batch and {argument}=<number of graphs> to {name}: padding has graphs of its own",
    ),
    "classes": (
        "padding rows count in the loss",
        "give padding the label that {name} leaves out: F.{name}(out, torch.where(data.{mask}, y, -100))",
    ),
    "loss": (
        "padding rows count in the loss",
        "leave them out, and mark what is left as the loss: poptorch.identity_loss((F.{name}(out, y, "
        'reduction="none") * data.{mask}).sum() / data.{mask}.sum(), reduction="none")',
    ),
    "softmax": (
        "the softmax runs over real and padding rows",
        "take it within each graph: torch_geometric.utils.softmax(x, data.batch, num_nodes=<number of "
        "graphs>)",
    ),
    "attention": (
        "every row attends to all others, padding included",
        "mask the padding: attn_mask or key_padding_mask made of data.{mask}",
    ),
    "pairs": (
        "every row attends to all others, padding included",
        "mask the padding before the softmax: scores.masked_fill(~data.{mask}, -inf), with "
        'inf = float("inf"); or keep to pairs of one graph, data.batch[:, None] == data.batch',
    ),
    "slice": (
        "a slice leaves out as many rows as it says, and a batch may hold more padding",
        "use the mask, which says for every batch which rows are real: the label -100 for a loss, "
        "torch.where(data.{mask}, y, -100), or else torch.where(data.{mask}, value, 0)",
    ),
    "all": (
        "{name} runs over real and padding rows",
        "leave padding out, torch.where(data.{mask}.unsqueeze(-1), x, 0).sum(0) / data.{mask}.sum() for a "
        "mean, or work within each graph: global_mean_pool(x, data.batch, size=<number of graphs>)",
    ),
}


def padding_hint(
    node: torch.fx.Node, origin: Origin, what: str, kind: str, has_pairs: bool
) -> tuple[str, Hint]:
    """What to call the operation through which padding leaks, and what to write instead.

    Args:
        node: The operation.
        origin: Its place.
        what: What depends on padding by it, such as the loss.
        kind: Of which rows it takes values, nodes, edges or graphs.
        has_pairs: Whether it takes a value for every pair of rows.
    """
    name = origin.operation if origin.operation != "size" else "slice"
    library = [
        layer for layer in origin.layers if layer.kind.__module__.startswith(("torch.nn", "torch_geom"))
    ]
    norms = [layer for layer in library if "norm" in layer.kind.__module__]
    argument = "batch_size"
    if name == "batch_norm":
        case, name = "batch norm", norms[0].kind.__name__ if norms else name
    elif norms and norms[-1] in _pyg_layers(origin):
        name, forward = norms[-1].kind.__name__, getattr(norms[-1].kind, "forward", None)
        case = "norm" if _takes(forward, "batch") else "batch norm"
        argument = argument if _takes(forward, argument) else "dim_size"
    elif is_loss_function(node.target):
        case = "classes" if name in _CLASS_LOSSES else "loss"
        name = {"nll_loss_nd": "nll_loss", "_mark": "mse_loss"}.get(name, name)
    elif "softmax" in name:
        case = "pairs" if has_pairs else "softmax"
    elif "attention" in name or any("Attention" in layer.kind.__name__ for layer in library):
        case = "attention"
    else:
        case = "slice" if name in ("slice", "getitem") else "all"
    reason, remedy = _PADDING[case]
    remedy = remedy.replace("{mask}", f"{kind}_mask").replace("{argument}", argument)
    return name, Hint(f"{reason}: {what} depends on what the padding holds", remedy)
