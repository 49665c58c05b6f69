"""From the place where a graph stops being static to the finding that helps: why, and what to write instead.

First the words, in tables by function, by file of PyG and by operation; then how one is chosen for a place.
"""

from __future__ import annotations

import dataclasses
import re
import sys
import traceback
from typing import Callable, Iterable, NamedTuple, Sequence

import torch
import torch_geometric.nn

from .findings import Finding, Place, from_summary, is_library, is_own, is_pyg, locate, relevant
from .internals import stack_of_failure
from .losses import is_loss_function
from .origins import Layer, Origin
from .static_layers import signature_of


class Hint(NamedTuple):
    """`reason` and `remedy` of a finding; `{name}` stands for what the user calls or creates, and
    `argument` for the argument that the remedy asks for, so that it can be asked of something that takes it:
    when it is called, or, where `is_setting`, when it is created."""

    reason: str
    remedy: str
    argument: str = ""
    is_setting: bool = False


SIZE = "the size of the result is read from the data"
_SELECTS = "how many rows remain depends on the data, so the result has no fixed size"
_CONSTANT = "use a constant, such as a size known when the model is built, and mask the rest with torch.where"
_VALUE = "a tensor's value is read back into Python, which the device cannot do while its graph runs"

SELF_LOOPS = Hint(
    "existing self-loops are removed before new ones are added, so the number of edges depends on the data",
    "{name} with add_self_loops=False and add them once beforehand: pre_transform=T.AddSelfLoops()",
    "add_self_loops",
    is_setting=True,
)
_POOL = Hint(
    "the number of graphs is read from the data (the largest number in `batch`)",
    "pass size=<number of graphs, i.e. the batch_size of the fixed-size loader> to {name}",
    "size",
)
_SELECTING_POOL = Hint(
    "{name} keeps a number of nodes or edges that depends on the data",
    "keep all nodes and weigh them by their score, or use a pooling of fixed size: global_mean_pool with "
    "size, SortAggregation with max_num_elements, MemPooling, dense_diff_pool or DMoNPooling",
)
_NUM_NODES = Hint(SIZE, "pass num_nodes=<number of nodes>, for example x.size(0), to {name}", "num_nodes")
_DIM_SIZE = Hint(
    SIZE, "pass dim_size=<number of groups>, for example x.size(0) for nodes, to {name}", "dim_size"
)
_BATCH_SIZE = Hint(
    "the number of graphs is read from the data (the largest number in `batch`)",
    "pass batch_size=<number of graphs, i.e. the batch_size of the fixed-size loader> to {name}",
    "batch_size",
)
_DENSE = Hint(
    "the number of graphs or of nodes in the largest graph is read from the data",
    "pass batch_size=<number of graphs> and max_num_nodes=<most nodes that a graph may have> to {name}",
    "max_num_nodes",
)
_CLUSTERED = Hint(
    "the number of clusters is read from the data",
    "pass batch_size=<number of graphs> and size=<most clusters that a graph may have> to {name}",
    "size",
)
_BEFOREHAND = Hint(
    "{name} returns as many edges or nodes as the data say",
    "do it once beforehand, on the host: as a transform of the dataset (pre_transform), not inside forward",
)
_SAMPLING = Hint(
    "{name} draws a set whose size depends on the data or on chance",
    "draw it on the host, in the loader, or keep all edges and multiply their messages by a random 0/1 mask",
)


def _words(text: str) -> list[str]:
    return text.split()


BY_FUNCTION = {
    **dict.fromkeys(("global_add_pool", "global_mean_pool", "global_max_pool"), _POOL),
    **dict.fromkeys(("max_pool_x", "avg_pool_x"), _CLUSTERED),
    **dict.fromkeys(("max_pool", "avg_pool", "max_pool_neighbor_x", "avg_pool_neighbor_x"), _SELECTING_POOL),
    **dict.fromkeys(("degree", "softmax", "maybe_num_nodes", "spmm", "contains_isolated_nodes"), _NUM_NODES),
    **dict.fromkeys(("scatter", "scatter_argmax", "group_argsort"), _DIM_SIZE),
    **dict.fromkeys(("to_dense_batch", "to_dense_adj"), _DENSE),
    "to_nested_tensor": Hint(
        "a nested tensor has as many rows in each part as the data say",
        "use to_dense_batch(x, batch, batch_size=<number of graphs>, max_num_nodes=<most nodes of a graph>)",
    ),
    "one_hot": Hint(
        "the number of classes is read from the data",
        "pass num_classes=<number of classes> to {name}",
        "num_classes",
    ),
    **dict.fromkeys(("add_remaining_self_loops", "gcn_norm"), SELF_LOOPS),
    **dict.fromkeys(
        _words(
            """remove_self_loops segregate_self_loops remove_isolated_nodes to_undirected is_undirected
            coalesce subgraph k_hop_subgraph bipartite_subgraph dense_to_sparse to_edge_index unbatch
            unbatch_edge_index get_laplacian get_mesh_laplacian grid to_torch_coo_tensor to_torch_csr_tensor
            to_scipy_sparse_matrix to_networkx ppr get_ppr contains_self_loops"""
        ),
        _BEFOREHAND,
    ),
    **dict.fromkeys(
        _words(
            """dropout_edge dropout_node dropout_path dropout_adj negative_sampling batched_negative_sampling
            structured_negative_sampling add_random_edge random_walk"""
        ),
        _SAMPLING,
    ),
    "add_self_loops": _NUM_NODES._replace(reason="the number of nodes is read from the data"),
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
    "nn/aggr/": Hint(SIZE, "pass dim_size=<number of groups, i.e. of graphs or nodes> to {name}", "dim_size"),
    "nn/norm/mean_subtraction_norm.py": Hint(SIZE, "pass dim_size=<number of graphs> to {name}", "dim_size"),
    "nn/norm/": _BATCH_SIZE,
    "nn/conv/hypergraph_conv.py": Hint(
        "the number of hyperedges is read from the data",
        "pass num_edges=<number of hyperedges> to {name}",
        "num_edges",
    ),
    "nn/conv/supergat_conv.py": Hint(
        "self-loops and negative edges are drawn inside, in numbers that depend on the data",
        "{name} with add_self_loops=False and pass neg_edge_index=<edges drawn in the loader>",
        "add_self_loops",
        is_setting=True,
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
    "max_num_elements",
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
    "size": Hint("how large a tensor is depends on the data", _CONSTANT),
    "loop": Hint("how often the loop runs depends on the data", _CONSTANT),
    "slice": Hint("where the slice begins or ends depends on the data", _CONSTANT),
    "sort": Hint(
        "Python's sort compares what it sorts, and here that is tensors or holds them",
        "sort by what is constant, such as the names: `for name in sorted(tensors)`, or give a key; sort "
        "values with torch.sort",
    ),
    "packed sequence": Hint(
        "a packed sequence has as many rows as the lengths say, which are data",
        "run the layer over all steps, `out, _ = rnn(rows)`, and leave out the others by the mask, "
        "torch.where(mask.unsqueeze(-1), out, 0); the last state is the row at lengths - 1, by gather",
    ),
    "sparse": Hint(
        "a sparse tensor's number of entries is not part of its shape", "use edge_index and edge_weight"
    ),
    "gradient": Hint(
        "a gradient is taken inside forward; the device differentiates once, from the loss that is returned",
        "return the loss and leave backward to the device; write another derivative as a formula, or take it "
        "on the host, after the call",
    ),
    "changed attribute": Hint(
        "forward changes {name}, and the graph keeps the value that it had at the first call",
        "register it, `self.register_buffer('{name}', torch.zeros(…))`, and change it in place, "
        "`self.{name}.add_(…)` or `self.{name}.copy_(…)`; or count on the host, after the call",
    ),
    "assigned buffer": Hint(
        "Buffer {name} is reassigned within the model, and the device keeps the first: PopTorch asks for "
        "self.{name}.copy_(src)",
        "copy into it, self.{name}.copy_(src), where src is what is assigned now",
    ),
    "random": Hint(
        "Python or NumPy draws this number once, while the graph is built: every step would use the same",
        "draw with torch, `torch.rand(())` or `torch.rand_like(x)`, or in the dataset, and pass it in",
    ),
    "time": Hint("the clock is read once, while the graph is built", "read it outside forward"),
    "device": Hint(
        "tensors are moved to another device, and the whole graph runs on one",
        "drop `.cuda()` and `.to('cuda')` from forward: poptorch puts the model and its inputs on the device",
    ),
    "file": Hint("files are on the host, and the graph runs on the device", "read it before, and pass it in"),
    "untraceable": Hint(
        "Python does something here that is no operation on tensors, so it cannot be in the graph",
        "move it out of forward, into the dataset or after the model, or write it with torch functions",
    ),
}

# Where a library's layer calls something inside and hands no argument on: another way out, by its class.
WAYS_OUT = {
    "GPSConv": "create {path} with norm='layer_norm' and norm_kwargs={{'mode': 'node'}}, or norm=None: they "
    "need no number of graphs",
    "SchNet": "replace its readout: {path}.readout = Sized(), where `class Sized(SumAggregation)` has "
    "`def __call__(self, x, index, **kwargs): kwargs['dim_size'] = <number of graphs>; "
    "return super().__call__(x, index, **kwargs)`",
    "ViSNet": "write a subclass of ViSNet whose forward passes dim_size=<number of graphs> to scatter",
}
_CONTAINERS = frozenset(
    _words(
        """Sequential ModuleList ModuleDict HeteroConv GAE VGAE ARGA ARGVA DeepGCNLayer DirGNNConv GPSConv
        DeepGraphInfomax AntiSymmetricConv GraphModule DataParallel MetaLayer GroupAddRev"""
    )
)
_INSTALLED_BY = {"torch_sparse": "torch-sparse", "torch_cluster": "torch-cluster", "pyg_lib": "pyg-lib"}


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
    name = name or operation
    user, cause = locate(origin.frames)
    return Finding.at(user, operation, _filled(hint.reason, name), _filled(hint.remedy, name), cause)


def _filled(text: str, name: str) -> str:
    return text.replace("{name}", name).replace("{{", "{").replace("}}", "}")


def distinct(findings: Iterable[Finding]) -> list[Finding]:
    """`findings` without repetitions: one per line of the user and remedy, the first of each."""
    unique = list({(f.file, f.line, f.remedy): f for f in reversed(list(findings))}.values())[::-1]
    explained = {(f.file, f.line) for f in unique if not _is_consequence(f)}
    return [f for f in unique if not _is_consequence(f) or (f.file, f.line) not in explained]


def _is_consequence(finding: Finding) -> bool:
    """Whether a finding says no more than that some size depends on data, as after any other on its line."""
    return finding.remedy == BY_OPERATION["size"].remedy


def is_known_in_library(origin: Origin) -> bool:
    """Whether the place lies in the user's own line, or in a call into PyG that is known to be dynamic."""
    return locate(origin.frames)[1] is None or _library_hint(origin) is not None


def _statement(source: str, operation: str) -> str:
    """A value read for a condition or a loop is better explained by the statement that reads it."""
    if "one_hot(" in source:
        return "one_hot"
    if operation == "untraceable":
        for kind, pattern in _STATEMENTS.items():
            if re.search(pattern, source):
                return kind
    if operation in ("item", "size", "branch"):
        if re.match(r"(if|elif|while)\b", source) or re.search(r"\bif\b.+\belse\b", source):
            return "branch"
        if re.match(r"assert\b", source):
            return "assert"
        if re.match(r"for\b", source) or "range(" in source:
            return "loop"
    if operation == "item" and re.search(r"\w\[[^]]*:", source):
        return "slice"
    return operation


_STATEMENTS = {
    "gradient": r"autograd\.grad\(|\.backward\(|\.requires_grad_\(",
    "random": r"(?<!torch\.)\brandom\.\w+\(|\brandint\(|\bnp\.random",
    "time": r"\btime\.\w+\(|\bdatetime\b",
    "device": r"\.cuda\(|['\"]cuda",
    "file": r"\bopen\(",
    "packed sequence": r"\bpack_(padded_)?sequence\(",
}


def _library_hint(origin: Origin) -> tuple[Hint, str] | None:
    """The hint for the outermost call into PyG that is known to be dynamic, and what to call it."""
    frames = _library_frames(origin)
    for number, frame in enumerate(frames):
        hint = _hint_of_frame(frame)
        if hint is not None:
            user = locate(origin.frames)[0]
            return _typed_in(_refined(hint, frames, user.source if user else ""), origin, frames, number)
    return None


def _library_frames(origin: Origin) -> list[Place]:
    """The frames of libraries that the user's own innermost line leads to."""
    frames = relevant(origin.frames)
    own = [number for number, frame in enumerate(frames) if not is_library(frame.file)]
    return frames[own[-1] + 1 if own else 0 :]


def _hint_of_frame(frame: Place) -> Hint | None:
    if not is_pyg(frame.file):
        return None
    for fragment, hint in BY_FILE.items():
        if fragment in frame.file.replace("\\", "/"):
            return hint
    return BY_FUNCTION.get(frame.function)


def _refined(hint: Hint, frames: Sequence[Place], source: str) -> Hint:
    """The hint for what `source`, the user's line, leads to more precisely."""
    files = [frame.file.replace("\\", "/") for frame in frames]
    if hint is _SELECTING_POOL:
        return hint
    if hint is _DENSE and "batch_size=" in source.split("#")[0]:
        return hint._replace(remedy="pass max_num_nodes=<most nodes that a graph may have> to {name}")
    if any("nn/conv/" in file for file in files) and files[-1].endswith("utils/loop.py"):
        return SELF_LOOPS
    is_aggregation = any("nn/aggr/" in file for file in files)
    return MAX_ELEMENTS if is_aggregation and "max_num_nodes" in frames[-1].source else hint


def _typed_in(hint: Hint, origin: Origin, frames: Sequence[Place], number: int) -> tuple[Hint, str]:
    """The hint, asked of something that takes its argument, and the name of that something."""
    layers = [layer for layer in origin.layers if _is_pyg_layer(layer)]
    name = _name(layers, frames[: number + 1])
    if hint.is_setting:
        return _setting(hint, layers, name)
    if not hint.argument:
        return hint, name
    called = [frame for frame in frames if not _is_passed_through(frame)]
    if not called or _takes(_callable(called[0], layers), hint.argument):
        return hint, name
    outer = layers[0] if layers else None
    inside = next(
        (f.function for f in called if _takes(_function(f), hint.argument)), frames[number].function
    )
    if _is_sequential(frames[0]):
        partial = f"functools.partial({inside}, {hint.argument}=<…>)"
        return Hint(hint.reason, f"{hint.remedy}; in a Sequential write {partial}"), inside
    if outer is None:
        return hint, name
    known = next((WAYS_OUT[k.__name__] for k in outer.kind.__mro__ if k.__name__ in WAYS_OUT), None)
    remedy = known and known.format(path=outer.path or outer.kind.__name__)
    return Hint(
        hint.reason,
        remedy
        or f"{outer.kind.__name__} hands no {hint.argument} on: write a subclass of it whose forward passes "
        f"{hint.argument}=<a constant> to {inside}",
    ), outer.kind.__name__


def _setting(hint: Hint, layers: Sequence[Layer], name: str) -> tuple[Hint, str]:
    """Which layer to create with the argument: the innermost that takes it, or the ready-made model that
    hands it on, by its path in the model."""
    number = max((n for n, layer in enumerate(layers) if _takes(layer.kind, hint.argument)), default=None)
    if number is None:
        return hint._replace(remedy="create " + hint.remedy), name
    layer, parents = layers[number], layers[:number]
    remedy = hint.remedy
    if _joins_two_types(layer):
        remedy = "{name} with add_self_loops=False: between two node types there are none"
    for parent in reversed(parents):
        if any(kind.__name__ == "BasicGNN" for kind in parent.kind.__mro__):  # hands its **kwargs on
            layer = parent
        elif parent.kind.__name__ not in _CONTAINERS and hasattr(layer.module, hint.argument):
            setting = f"{layer.path}.{hint.argument} = False"
            return Hint(
                hint.reason, remedy.replace("{name} with add_self_loops=False", f"set {setting}")
            ), name
    what = (
        f"`{layer.path}`, a {layer.kind.__name__},"
        if layer.path not in ("", "model")
        else layer.kind.__name__
    )
    return Hint(hint.reason, remedy.replace("{name}", f"create {what}")), layer.kind.__name__


def _joins_two_types(layer: Layer) -> bool:
    edge_type = re.search(r"\['(\w+)', '\w+', '(\w+)'\]", layer.path)
    if edge_type:
        return edge_type.group(1) != edge_type.group(2)
    return isinstance(getattr(layer.module, "in_channels", None), tuple)


def _is_pyg_layer(layer: Layer) -> bool:
    return layer.kind.__module__.startswith("torch_geometric.nn")


def _is_sequential(frame: Place) -> bool:
    return "_Sequential_" in frame.file or frame.file.replace("\\", "/").endswith("nn/sequential.py")


def _is_passed_through(frame: Place) -> bool:
    """Whether a frame only hands its arguments on: decorators, and `__call__` of PyG's modules."""
    return frame.function in ("wrapper", "__call__", "_call_impl", "inner")


def _callable(frame: Place, layers: Sequence[Layer]) -> Callable | None:
    if frame.function == "forward":
        return layers[0].kind.forward if layers else None
    return _function(frame)


def _function(frame: Place) -> Callable | None:
    """The function of a module's that a frame is a call of, if it can be found."""
    for module in list(sys.modules.values()):
        if getattr(module, "__file__", None) == frame.file:
            return getattr(module, frame.function, None)
    return None


def _takes(function: Callable | None, argument: str) -> bool:
    try:
        return argument in signature_of(function).parameters
    except (TypeError, ValueError):
        return False


def _name(layers: Sequence[Layer], frames: Sequence[Place]) -> str:
    """The layer or function that the user knows: the module around the call, or the function called."""
    frames = [frame for frame in frames if not _is_passed_through(frame)] or frames
    called = frames[-1]
    if called.function in BY_FUNCTION and len(frames) == 1:
        return called.function
    if layers:
        return layers[0].kind.__name__
    class_name = re.search(r"/(\w+)\.py$", frames[0].file.replace("\\", "/"))
    is_method = frames[0].function in ("forward", "__call__")
    return _class_in(class_name.group(1)) if is_method and class_name else frames[0].function


def _class_in(stem: str) -> str:
    """The class of PyG that a file is named after, such as GATConv for gat_conv."""
    names = {name.lower(): name for name in dir(torch_geometric.nn) if name[:1].isupper()}
    wanted = stem.replace("_", "")
    return names.get(wanted) or next((names[name] for name in names if name.startswith(wanted)), stem)


def _operation_hint(origin: Origin) -> tuple[Hint, str]:
    """The hint for an operation in the user's own line, or in a library that is not known better."""
    frames = _library_frames(origin)
    hint = BY_OPERATION.get(origin.operation, BY_OPERATION["size"])
    if not any(is_pyg(frame.file) for frame in frames):
        return hint, origin.detail or origin.operation
    layers = [layer for layer in origin.layers if _is_pyg_layer(layer)]
    name = _name(layers, frames)
    missing = re.match(r"(\w+) = int\(", frames[-1].source)
    if missing:
        remedy = f"pass {missing.group(1)}=<a constant> to {{name}}"
        return _typed_in(Hint(SIZE, remedy, missing.group(1)), origin, frames, len(frames) - 1)
    file = next((frame.file for frame in frames if is_pyg(frame.file)), "").replace("\\", "/")
    remedy = next(remedy for fragment, remedy in ELSEWHERE_IN_PYG.items() if fragment in file)
    return Hint(hint.reason + ", inside {name}", remedy), name


_KINDS = (
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
)


def origin_of_failure(error: BaseException) -> Origin:
    """Where and by what kind of operation the trace was ended."""
    message = str(error).split("from user code:")[0]
    operation = next((kind for pattern, kind in _KINDS if re.search(pattern, message)), "untraceable")
    return Origin(operation, from_summary(stack_of_failure(error)))


def own_failure(error: Exception) -> Finding | None:
    """The finding for an exception that a model raises itself on this machine, though its inputs are right:
    a library that is not installed, a device that is not there. None for any other."""
    text = str(error)
    frames = from_summary(_traceback(error))
    if isinstance(error, ImportError) or re.search(
        r"requires '?[\w-]+'? ?|'NoneType' object is not callable", text
    ):
        match = re.search(r"(?:No module named|requires|install) ['`]?([\w-]+)", text)
        name = match and _INSTALLED_BY.get(match.group(1), match.group(1)) or "an optional library"
        hint = Hint(f"{name} is needed here, and it is not installed: {text.splitlines()[0]}", _MISSING)
        return finding_at(Origin("missing library", frames), hint, "missing library", name)
    if re.search(r"CUDA|cuda|NVIDIA", text):
        return finding_at(Origin("device", frames), BY_OPERATION["device"], "device")
    return None


_MISSING = (
    "install {name} where the device is, or use another layer, see docs/supported_layers.md; what a library "
    "on the host computes belongs into the dataset or the loader"
)


def _traceback(error: Exception) -> list:
    return [frame for frame in traceback.extract_tb(error.__traceback__) if not is_own(frame.filename)]


def out_of_range(origin: Origin, args: Sequence, kwargs: dict, message: str) -> Finding:
    """The finding for an index beyond the size that it indexes, with both numbers."""
    tensors = [value for value in [*args, *kwargs.values()] if isinstance(value, torch.Tensor)]
    if origin.operation == "getitem" or origin.operation == "size":
        index = args[1] if isinstance(args[1], tuple) else (args[1],)
        tensors += [part for part in index if isinstance(part, torch.Tensor)]
    indices = [t for t in tensors if not t.is_floating_point() and t.dtype != torch.bool and t.numel()]
    told = re.search(r"index (-?\d+) is out of bounds for dimension \d+ with size (\d+)", message)
    largest, size = (int(told.group(1)), int(told.group(2))) if told else (None, None)
    if indices and not told:
        index = indices[0] if origin.operation != "index_select" else indices[-1]
        largest = int(index.max()) if int(index.min()) >= 0 else int(index.min())
        size = _size_indexed(origin.operation, args, kwargs, tensors)
    numbers = f"an index is {largest}" if largest is not None else "an index does not fit"
    if largest is not None and size is not None:
        numbers = f"an index is {largest}, and what it indexes has {size} places, 0 to {size - 1}"
    found = _library_hint(origin)
    hint, name = found if found else (Hint("", ""), origin.operation)
    if origin.operation == "embedding":
        remedy = (
            f"create the embedding with {_at_least(largest)} rows, or look for a wrong number in the data"
        )
    elif origin.operation in ("cross_entropy", "nll_loss", "nll_loss_nd"):
        remedy = f"give the last layer {_at_least(largest)} outputs, or look for a wrong label in the data"
    elif hint.argument in ("size", "dim_size", "batch_size", "num_nodes", "num_edges"):
        remedy = f"pass {hint.argument}={_at_least(largest)} to {name}"
    else:
        remedy = "make what is indexed larger, or look for a wrong number in the data"
    operation = name if locate(origin.frames)[1] is not None else "index out of range"
    return finding_at(origin, Hint(numbers, remedy), operation)


def _at_least(largest: int | None) -> str:
    return f"{largest + 1} or more" if largest is not None and largest >= 0 else "enough"


def _size_indexed(operation: str, args: Sequence, kwargs: dict, tensors: Sequence) -> int | None:
    floating = [tensor for tensor in tensors if tensor.is_floating_point()]
    if operation == "embedding" and floating:
        return floating[0].size(0)
    if operation in ("cross_entropy", "nll_loss", "nll_loss_nd") and floating:
        return floating[0].size(1 if floating[0].dim() > 1 else 0)
    if operation in ("index_select", "gather", "scatter_add_", "scatter_add") and len(args) > 1:
        return args[0].size(args[1]) if isinstance(args[1], int) else None
    return None


def missing_neighbours(origin: Origin) -> Finding:
    """The finding for a neighbour search that finds fewer than asked for, on inputs without padding."""
    searches = ("knn", "knn_graph", "radius", "radius_graph")
    frames = [frame for frame in origin.frames if frame.function in searches]
    layers = [layer for layer in origin.layers if _is_pyg_layer(layer)]
    name = layers[-1].kind.__name__ if layers else frames[0].function if frames else "the search"
    hint = Hint(
        "some points have fewer neighbours than asked for, and a static graph has edges for all: the missing "
        "ones join the last point, which is real here",
        "ask {name} for fewer neighbours, k or max_num_neighbors, or pass a batch of a fixed-size loader, "
        "whose last points are padding",
    )
    return finding_at(origin, hint, name, name)


_MASKED_NORM = Hint(
    "padding rows enter the mean and variance of {name}: {what} depends on what the padding holds",
    "use gnn_ipu_helpers.porting.MaskedBatchNorm in its place and call it with the mask, "
    "norm(x, data.{mask}), or a LayerNorm, which looks at one row at a time",
)
_PADDING = {
    "norm": Hint(
        "without `batch`, padding rows enter the statistics of {name}: {what} depends on what the padding "
        "holds",
        "pass batch=data.batch and {argument}=<number of graphs> to {name}: padding has graphs of its own",
    ),
    "classes": Hint(
        "padding rows count in the loss: {what} depends on what the padding holds",
        "give padding the label that {name} leaves out: F.{name}(out, torch.where(data.{mask}, y, -100))",
    ),
    "loss": Hint(
        "padding rows count in the loss: {what} depends on what the padding holds",
        "leave them out, and mark what is left as the loss: poptorch.identity_loss((F.{name}(out, y, "
        'reduction="none") * data.{mask}).sum() / data.{mask}.sum(), reduction="none")',
    ),
    "softmax": Hint(
        "the softmax runs over real and padding rows: {what} depends on what the padding holds",
        "take it within each graph: torch_geometric.utils.softmax(x, data.batch, num_nodes=<number of "
        "graphs>)",
    ),
    "attention": Hint(
        "every row attends to all others, padding included: {what} depends on what the padding holds",
        "mask the padding: attn_mask or key_padding_mask made of data.{mask}",
    ),
    "slice": Hint(
        "a slice leaves out as many rows as it says, and a batch may hold more padding: {what} depends on "
        "what the padding holds",
        "use the mask, which says for every batch which rows are real: the label -100 for a loss, "
        "torch.where(data.{mask}, y, -100), or else torch.where(data.{mask}, value, 0)",
    ),
    "all": Hint(
        "{name} runs over real and padding rows: {what} depends on what the padding holds",
        "leave padding out, torch.where(data.{mask}.unsqueeze(-1), x, 0).sum(0) / data.{mask}.sum() for a "
        "mean, or work within each graph: global_mean_pool(x, data.batch, size=<number of graphs>)",
    ),
}


def padding_hint(node: torch.fx.Node, origin: Origin, what: str, kind: str) -> tuple[str, Hint]:
    """What to call the operation through which padding leaks, and what to write instead."""
    name = origin.operation if origin.operation != "size" else "slice"
    layer = next((layer for layer in reversed(origin.layers) if "norm" in layer.kind.__module__), None)
    argument = "batch_size"
    if name == "batch_norm":
        outer = [layer.kind.__name__ for layer in origin.layers if "Norm" in layer.kind.__name__]
        case, name = None, outer[0] if outer else name
    elif layer is not None and _is_pyg_layer(layer):
        name = layer.kind.__name__
        case = "norm" if _takes(layer.kind.forward, "batch") else None
        argument = argument if _takes(layer.kind.forward, argument) else "dim_size"
    elif is_loss_function(node.target):
        case = "classes" if name in ("cross_entropy", "nll_loss", "nll_loss_nd") else "loss"
        name = {"nll_loss_nd": "nll_loss", "_mark": "mse_loss"}.get(name, name)
    elif "softmax" in name:
        case = "softmax"
    elif "attention" in name or any("Attention" in layer.kind.__name__ for layer in origin.layers):
        case = "attention"
    else:
        case = "slice" if name in ("slice", "getitem") else "all"
    hint = _MASKED_NORM if case is None else _PADDING[case]
    words = {"{what}": what, "{mask}": f"{kind}_mask", "{argument}": argument}
    reason, remedy = hint.reason, hint.remedy
    for blank, word in words.items():
        reason, remedy = reason.replace(blank, word), remedy.replace(blank, word)
    return name, Hint(reason, remedy)
