"""Settings for the unit tests: reproducible examples, no cache between runs, and the quick compiler."""

import os
import warnings

from hypothesis import settings

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # PyG's own, on import: in the tests a warning is an error
    import torch_geometric.nn  # noqa: F401

settings.register_profile("suite", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("suite")

# Unfused runs the same checked graph without a C++ compilation; tests about inductor ask for it by name.
os.environ.setdefault("GNN_IPU_COMPILER", "unfused")
for variable in ("POPTORCH_CACHE_DIR", "POPLAR_EXECUTABLE_CACHE_DIR"):
    os.environ.pop(variable, None)
