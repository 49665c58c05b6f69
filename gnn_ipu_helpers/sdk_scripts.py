"""Code written for the Poplar SDK, run where the SDK is not installed.

`enable()` makes `import poptorch` and `import poptorch_geometric` find this package, under every public
module path of theirs, and gives PyG's own `NeighborLoader` and `ClusterData` a sampler and METIS where PyG
finds none. `python -m gnn_ipu_helpers script.py` does the same for a whole script. Nothing else in the
package calls it: importing `gnn_ipu_helpers` leaves PyG and `sys.modules` as they are.
"""

from __future__ import annotations

import functools
import importlib.abc
import importlib.machinery
import importlib.util
import inspect
import sys
from types import ModuleType
from typing import Any, Callable, Iterable

import torch
import torch_geometric.loader
import torch_geometric.nn
import torch_geometric.typing
from torch_geometric.data import Batch, Data, HeteroData

from . import batching
from ._backend import poptorch

_NAMES = ("poptorch", "poptorch_geometric")


def enable() -> None:
    """Let this package stand for `poptorch` and `poptorch_geometric`, and print what was done.

    Call it in a notebook before the cell that imports them. Where either of them is installed, nothing
    changes: a real module is never hidden. A second call does nothing.

    Example:
        >>> from gnn_ipu_helpers import sdk_scripts
        >>> sdk_scripts.enable()  # doctest: +SKIP
        poptorch and poptorch_geometric: gnn_ipu_helpers stands for them; …
        >>> from poptorch_geometric.dataloader import FixedSizeDataLoader  # doctest: +SKIP
    """
    print(stand_in_for_the_sdk())


def stand_in_for_the_sdk() -> str:
    """Does what `enable` says, and returns the line instead of printing it."""
    if any(isinstance(finder, _Finder) for finder in sys.meta_path):
        return "poptorch and poptorch_geometric: gnn_ipu_helpers stands for them already; nothing changed."
    for name in _NAMES:
        origin = _where_installed(name)
        if origin is not None:
            return (
                f"{name} is installed ({origin}): gnn_ipu_helpers changed nothing and stands for no module."
            )
    # Last in the list: whatever else can be imported under these names comes first.
    sys.meta_path.append(_Finder())
    return "; ".join(
        ["poptorch and poptorch_geometric: gnn_ipu_helpers stands for them", *_help_pyg(), "no IPU is used."]
    )


def _where_installed(name: str) -> str | None:
    if name in sys.modules:
        return getattr(sys.modules[name], "__file__", None) or "imported already"
    spec = importlib.util.find_spec(name)
    return None if spec is None else spec.origin or str(list(spec.submodule_search_locations or []))


# --- PyG's own loaders


def _help_pyg() -> list[str]:
    """Gives PyG what it needs `pyg-lib` or `torch-sparse` for, and says for which classes."""
    if torch_geometric.typing.WITH_PYG_LIB or torch_geometric.typing.WITH_TORCH_SPARSE:
        return []
    done = ["PyG's NeighborLoader samples with its sampler"]
    _sample_without_pyg_lib(torch_geometric.loader.NeighborLoader)
    # Without pymetis, our partition would ask PyG's in turn: then PyG's error says what to install.
    if importlib.util.find_spec("pymetis") is not None:
        done.append("PyG's ClusterData partitions with pymetis")
        torch_geometric.loader.ClusterData._metis = _metis
    return done


def _sample_without_pyg_lib(loader_class: Any) -> None:
    of_pyg = loader_class.__init__

    @functools.wraps(of_pyg)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        given = inspect.signature(of_pyg).bind(self, *args, **kwargs).arguments
        del given["self"]
        given.update(given.pop("kwargs", {}))
        if given.get("neighbor_sampler") is None:
            given["neighbor_sampler"] = batching.neighbor_loader(**given).node_sampler
        of_pyg(self, **given)

    loader_class.__init__ = __init__


def _metis(self: Any, edge_index: torch.Tensor, num_nodes: int) -> torch.Tensor:
    """The cluster of every node, `[num_nodes]`: in place of `ClusterData._metis`."""
    graph = Data(edge_index=edge_index, num_nodes=num_nodes)
    parts = batching.partition(graph, self.num_parts, recursive=self.recursive).partition
    cluster = edge_index.new_empty(num_nodes)
    cluster[parts.node_perm] = torch.arange(self.num_parts).repeat_interleave(parts.partptr.diff())
    return cluster


# --- The modules of the SDK


def make_exclude_keys(include_keys: Iterable[str], data: Any) -> tuple[str, ...]:
    """The attributes of `data` that are not in `include_keys`, for `exclude_keys` of a loader."""
    keys = data.keys() if callable(data.keys) else data.keys  # a property before PyG 2.5
    return tuple(set(keys) - set(include_keys))


def set_aggregation_dim_size(model: torch.nn.Module, dim_size: int) -> None:
    """Makes every message-passing layer of `model` aggregate to `dim_size` nodes."""

    def with_dim_size(module: torch.nn.Module, inputs: tuple[Any, ...]) -> dict[str, Any]:
        return {**inputs[-1], "dim_size": dim_size}

    for module in model.modules():
        if isinstance(module, torch_geometric.nn.MessagePassing):
            module.register_aggregate_forward_pre_hook(with_dim_size)


def call_once(function: Callable) -> Callable:
    """`function`, whose second and later calls do nothing."""
    called: list[bool] = []

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        if not called:
            called.append(True)
            return function(*args, **kwargs)
        return None

    return wrapper


_OWN = {
    "DataBatch": type(Batch(_base_cls=Data)),
    "HeteroDataBatch": type(Batch(_base_cls=HeteroData)),
    "PyGFixedSizeNeighborLoader": batching.FixedSizeNeighborLoader,
    "call_once": call_once,
    "make_exclude_keys": make_exclude_keys,
    "registerCustomArgParsers": poptorch.registerGeometricCustomArgParsers,
    "set_aggregation_dim_size": set_aggregation_dim_size,
}

# The public names in every module; `poptorch` itself has those of our implementation.
_SIZES = "FixedSizeOptions FixedSizeStrategy OverSizeStrategy"
_MODULES = {
    "poptorch.enums": """
        MeanReductionStrategy DataLoaderMode SharingStrategy OutputMode ConnectionType
        HalfFloatCastingBehavior ReductionType SyncPattern MatMulSerializationMode Liveness OverlapMode
        AutoStage MultiConvPlanType CommGroupType VariableRetrievalMode""",
    "poptorch.ops": """
        ctc_beam_search_decoder ipu_print_tensor for_loop cond nop dynamic_slice dynamic_update
        recomputationCheckpoint serializedMatMul set_available_memory set_overlap_for_input
        set_overlap_for_output Block LegacyBeginBlockFn removeBlocks BeginBlock BlockFunction custom_op CPU
        identity_loss fps nearest MultiConv NameScope""",
    "poptorch.optim": "Optimizer SGD Adam AdamW RMSprop LAMB VariableAttributes",
    "poptorch.options": """
        ConfigFileError TensorLocationSettings Stage Phase PipelinedExecution ShardedExecution
        ParallelPhasedExecution SerialPhasedExecution Options""",
    "poptorch.poptorch_core": "Error RecoverableError UnrecoverableError",
    "poptorch.profiling": "Channel",
    "poptorch_geometric": f"""
        FixedSizeDataLoader {_SIZES} call_once make_exclude_keys registerCustomArgParsers
        set_aggregation_dim_size""",
    "poptorch_geometric.cluster_loader": f"FixedSizeClusterLoader {_SIZES}",
    "poptorch_geometric.collate": "FixedSizeOptions make_exclude_keys",
    "poptorch_geometric.common": "DataBatch HeteroDataBatch call_once",
    "poptorch_geometric.dataloader": f"DataLoader FixedSizeDataLoader {_SIZES}",
    "poptorch_geometric.fixed_size_options": "FixedSizeOptions",
    "poptorch_geometric.neighbor_loader": f"FixedSizeNeighborLoader PyGFixedSizeNeighborLoader {_SIZES}",
    # PyG's own layers: they are replaced while a model is compiled.
    "poptorch_geometric.ops": """
        Aggregation ClusterGCNConv HeteroLinear InstanceNorm knn knn_graph knn_interpolate MFConv radius
        radius_graph""",
    "poptorch_geometric.pyg_cluster_loader": f"FixedSizeClusterLoader {_SIZES}",
    "poptorch_geometric.pyg_dataloader": f"DataLoader FixedSizeDataLoader {_SIZES}",
    "poptorch_geometric.types": "registerCustomArgParsers",
    "poptorch_geometric.utils": "set_aggregation_dim_size",
}


def _contents(module: str) -> dict[str, Any]:
    """What stands for the names of a module."""
    version = {"__version__": getattr(poptorch, "__version__", "unknown")}
    if module == "poptorch":
        public = {name: getattr(poptorch, name) for name in poptorch.__all__}
        return {**version, **{name: it for name, it in public.items() if not isinstance(it, ModuleType)}}
    found = {} if module not in _NAMES else version
    profiling = getattr(poptorch, "profiling", None)
    for name in _MODULES[module].split():
        for source in (batching, poptorch, poptorch.optim, profiling, torch_geometric.nn):
            if name in _OWN or hasattr(source, name):
                found[name] = _OWN[name] if name in _OWN else getattr(source, name)
                break
    return found


# Imported with their package, as in the SDK; all others need an import of their own.
_COME_ALONG = {
    "poptorch": ("enums", "ops", "options", "optim", "poptorch_core", "profiling"),
    "poptorch_geometric": (
        *("collate", "common", "dataloader", "fixed_size_options", "ops", "pyg_dataloader", "types"),
        "utils",
    ),
}

# Public in the SDK and not here: what to use instead. A module stands for all its names.
_COLLATING = "gnn_ipu_helpers.batching.collate_fixed_size(graphs, fixed_size_options)"
_COMBINING = "the loaders, which combine batches as their options say"
_PACKING = "FixedSizeDataLoader(…, fixed_size_strategy=FixedSizeStrategy.StreamPack)"
_CHECKING = "torch.testing.assert_close between a wrapped model and the model itself"
_PARSING = (
    "models take PyG's data and batches as they are; for your own classes, poptorch.registerCustomArgParser"
)
_INSTEAD = {
    "poptorch.testing": "torch.testing.assert_close",
    "poptorch_geometric.PyGArgsParser": _PARSING,
    "poptorch_geometric.TrainingStepper": _CHECKING,
    "poptorch_geometric.collate.CombinedBatchingCollater": _COMBINING,
    "poptorch_geometric.collate.FixedSizeCollater": _COLLATING,
    "poptorch_geometric.masker": "the masks of a batch: nodes_mask, edges_mask, graphs_mask",
    "poptorch_geometric.override": "nothing: layers are replaced while a model is compiled",
    "poptorch_geometric.pyg_collate": _COLLATING,
    "poptorch_geometric.stream_packing_sampler": _PACKING,
    "poptorch_geometric.types.PyGArgsParser": _PARSING,
    "poptorch_geometric.utils.TrainingStepper": _CHECKING,
}


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds the modules of the SDK when nobody else has, and fills them with the names of this package."""

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        if fullname in _INSTEAD:
            raise ModuleNotFoundError(_no_counterpart(fullname), name=fullname)
        if fullname != "poptorch" and fullname not in _MODULES:
            return None
        return importlib.machinery.ModuleSpec(fullname, self, is_package=fullname in _NAMES)

    def create_module(self, spec: Any) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        name = module.__name__
        module.__doc__ = f"gnn_ipu_helpers, standing for '{name}' of the Poplar SDK."
        module.__dict__.update(_contents(name))
        module.__dict__["__getattr__"] = functools.partial(_missing, name)
        for submodule in _COME_ALONG.get(name, ()):
            importlib.import_module(f"{name}.{submodule}")


def _missing(module: str, name: str) -> Any:
    full = f"{module}.{name}"
    if full in _INSTEAD or name in _MODULES.get(module, "").split():
        # Not an AttributeError: `from module import name` would drop what it says.
        raise ImportError(_no_counterpart(full), name=module)
    homes = [home for home, names in _MODULES.items() if name in names.split()]
    hint = f": it is in {' and '.join(map(repr, homes))}" if homes else ""
    raise AttributeError(f"module {module!r} of the Poplar SDK has no attribute {name!r}{hint}")


def _no_counterpart(name: str) -> str:
    instead = f" Use instead: {_INSTEAD[name]}." if name in _INSTEAD else ""
    return f"'{name}' of the Poplar SDK has no counterpart in gnn_ipu_helpers.{instead}"
