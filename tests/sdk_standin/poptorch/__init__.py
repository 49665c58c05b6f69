"""A stand-in for the Poplar SDK's ``poptorch``: put this folder's parent first on the path.

It has the public names of PopTorch and no other, so that code which runs against it uses nothing that a
machine with IPUs lacks. Names are looked up when used: the package under test imports this module while
it is itself being imported.
"""

import importlib
import os
import runpy

__version__ = "3.3.0"

_names = runpy.run_path(os.path.join(os.path.dirname(os.path.dirname(__file__)), "names.py"))
_public = {*_names["FUNCTIONS"], *_names["CLASSES"], *_names["ENUMERATIONS"], "Error", "optim"}


def __dir__():
    return sorted(name for name in _public if not name.startswith("_"))


def __getattr__(name):
    if name.startswith("_") or name not in _public:
        raise AttributeError(f"module 'poptorch' has no attribute {name!r}")
    return getattr(importlib.import_module("gnn_ipu_helpers.poptorch_cpu"), name)
