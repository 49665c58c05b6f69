"""Wrapping a model for the device: for training, for inference, or from an exported file."""

from __future__ import annotations

import os
from typing import Callable

import torch

from .errors import Error
from .executor import PoplarExecutor
from .exports import read_export
from .options import Options


def trainingModel(
    model: torch.nn.Module, options: Options | None = None, optimizer: torch.optim.Optimizer | None = None
) -> PoplarExecutor:
    """Wrap a model whose ``forward`` returns its loss: each call trains on a combined batch.

    The loss is the one tensor marked by ``identity_loss``, or else the one scalar returned. Without an
    optimiser it is SGD with a learning rate of 0.01.
    """
    return PoplarExecutor(model, options, True, torch.__version__, optimizer)


def inferenceModel(model: torch.nn.Module, options: Options | None = None) -> PoplarExecutor:
    """Wrap a model for inference; it is put into evaluation mode."""
    return PoplarExecutor(model, options, False, torch.__version__)


def load(
    filename: str | os.PathLike, edit_opts_fn: Callable[[Options], None] | None = None
) -> PoplarExecutor:
    """The wrapped model of a file written by ``compileAndExport`` or ``save``, compiled and ready.

    ``edit_opts_fn`` may change its options before. Load only files from a source that you trust.
    """
    content = read_export(filename)
    if content["model"] is None:
        raise Error(
            f"{os.fspath(filename)!r} was exported without its model: wrap the model and call "
            "loadExecutable(filename) on it."
        )
    options = content["options"].clone()
    if edit_opts_fn is not None:
        edit_opts_fn(options)
    executor = PoplarExecutor(
        content["model"], options, content["training"], torch.__version__, content["optimizer"]
    )
    executor.loadExecutable(filename)
    return executor
