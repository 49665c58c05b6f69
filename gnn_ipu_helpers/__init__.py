"""Fixed-size batching and static-graph execution for PyTorch Geometric, with or without an IPU."""
