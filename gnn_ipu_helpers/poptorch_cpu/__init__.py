"""PopTorch's calls without an IPU: the same names and meanings, on `torch.compile`."""

# ruff: noqa: F401, F403 (what is imported here is public: see __all__)
import types as _types

from ..porting.losses import identity_loss, isRunningOnIpu
from . import enums, optim, options
from .arguments import ICustomArgParser, registerCustomArgParser, registerGeometricCustomArgParsers
from .enums import *
from .errors import ConfigFileError, Error, RecoverableError, UnrecoverableError
from .errors import offer_only as _offer_only
from .executor import (
    PoplarExecutor,
    inferenceModel,
    load,
    registerPostCompileHook,
    registerPreCompileHook,
    trainingModel,
)
from .loader import AsynchronousDataAccessor, DataLoader
from .ops import (
    CPU,
    BeginBlock,
    Block,
    BlockFunction,
    LegacyBeginBlockFn,
    MultiConv,
    NameScope,
    cond,
    ctc_beam_search_decoder,
    custom_op,
    dynamic_slice,
    dynamic_update,
    for_loop,
    fps,
    ipu_print_tensor,
    ipuHardwareIsAvailable,
    ipuHardwareVersion,
    module_repr,
    nearest,
    nop,
    recomputationCheckpoint,
    removeBlocks,
    serializedMatMul,
    set_available_memory,
    set_overlap_for_input,
    set_overlap_for_output,
    setLogLevel,
)
from .ops import Channel as _Channel
from .options import (
    Options,
    ParallelPhasedExecution,
    Phase,
    PipelinedExecution,
    SerialPhasedExecution,
    ShardedExecution,
    Stage,
    TensorLocationSettings,
)

__version__ = "3.4.0+cpu"


# Modules of PopTorch that have no file of their own here.
profiling = _types.ModuleType(f"{__name__}.profiling")
profiling.Channel = _Channel  # type: ignore[attr-defined]
poptorch_core = _types.ModuleType(f"{__name__}.poptorch_core")
for _error in (Error, RecoverableError, UnrecoverableError):
    setattr(poptorch_core, _error.__name__, _error)

_MODULES = ("enums", "optim", "options", "poptorch_core", "profiling")
__all__ = [
    name
    for name, value in globals().items()
    if not name.startswith("_") and (not isinstance(value, _types.ModuleType) or name in _MODULES)
]


def __getattr__(name: str) -> object:
    _offer_only("poptorch", name, __all__)
