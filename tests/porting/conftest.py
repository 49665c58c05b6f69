"""Imports PyG's layers once with its own deprecation warnings silenced: in these tests a warning is an
error."""

import warnings

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import torch_geometric.nn  # noqa: F401
