"""A stand-in for the Poplar SDK's `poptorch`: put the folder that this package is in first on the path.

It is written from what is known of PopTorch, not from the CPU implementation of its calls, and shares
nothing with that but the search for the loss. Models run eagerly. It has the public names of PopTorch and no
other, so that code which runs against it uses nothing that a machine with IPUs lacks.
"""
# ruff: noqa: F401

import logging as _logging

from . import enums, ops, optim, options, poptorch_core, profiling
from ._arguments import ICustomArgParser, registerCustomArgParser, registerGeometricCustomArgParsers
from ._context import isRunningOnIpu
from ._executor import (
    PoplarExecutor,
    inferenceModel,
    load,
    registerPostCompileHook,
    registerPreCompileHook,
    trainingModel,
)
from ._loader import AsynchronousDataAccessor, DataLoader
from ._names import CLASSES as _CLASSES
from ._names import ENUMERATIONS as _ENUMERATIONS
from ._names import FUNCTIONS as _FUNCTIONS
from ._names import MODULE as _MODULE
from .poptorch_core import Error, RecoverableError, UnrecoverableError

__version__ = "3.3.0"


def ipuHardwareIsAvailable(num_ipus=1):
    return False


def ipuHardwareVersion():
    raise AssertionError("No IPU hardware available on this system")


def setLogLevel(level):
    _logging.getLogger("poptorch::python").setLevel(level if isinstance(level, int) else "WARNING")


_public = {name for name in [*_FUNCTIONS, *_CLASSES, *_ENUMERATIONS, *_MODULE] if not name.startswith("_")}
for _name in _public - set(globals()):
    globals()[_name] = next(getattr(home, _name) for home in (enums, ops, options) if hasattr(home, _name))


def __dir__():
    return sorted(_public)
