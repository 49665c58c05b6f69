"""The one error that this package raises about data."""


class DatasetError(RuntimeError):
    """A dataset cannot be had as asked for: a file is missing, damaged or not the one it should be."""
