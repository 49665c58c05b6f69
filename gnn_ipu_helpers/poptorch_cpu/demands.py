"""What a model, its options and this torch must fulfil to be wrapped."""

from __future__ import annotations

from typing import Any

import torch

from ._settings import freeze
from .errors import Error, only_on_ipu
from .options import Options


def require_initialised(model: torch.nn.Module) -> None:
    """Raise if a lazy layer has no size yet."""
    lazy = [name for name, tensor in model.named_parameters() if torch.nn.parameter.is_lazy(tensor)]
    if lazy:
        raise Error(
            f"The model has parameters without a size yet: {', '.join(lazy)}. Call the model itself once, "
            "under torch.no_grad(), before you make its optimiser and wrap it."
        )


def own_options(options: Options | None) -> Options:
    """A frozen copy of the options; those given are frozen too, as a change would not reach the model."""
    if options is None:
        options = Options()
    if not isinstance(options, Options):
        raise Error(f"options must be a poptorch.Options (got {type(options).__name__}).")
    freeze(options)
    own = options.clone()
    freeze(own)
    return own


def check_mode(values: dict[str, Any], training: bool) -> None:
    """Raise for settings that do not go with training, or with inference."""
    if not training and values["gradient_accumulation"] != 1:
        raise Error(
            f"gradientAccumulation({values['gradient_accumulation']}) is for training. For inference, give "
            "the model and its DataLoader options of their own, with deviceIterations for the same number "
            "of mini-batches."
        )
    if training and values["num_distributed_processes"] > 1:
        raise only_on_ipu(
            "Training in several processes",
            "Gradients are not exchanged between processes here: use options.replicationFactor in one "
            "process.",
        )


def require_torch() -> None:
    """Raise if this torch is too old to compile."""
    if not hasattr(getattr(torch, "compiler", None), "set_stance"):
        raise Error(
            f"Running a wrapped model without an IPU needs torch 2.6 or later (got {torch.__version__}): "
            "install a newer torch, or use the Poplar SDK's PopTorch on a machine with IPUs."
        )
