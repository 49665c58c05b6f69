"""Models that select rows by a mask, or use Python in a way that a trace cannot follow."""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.nn import DeepGraphInfomax, MaskLabel

from .scope import replaces_method


@replaces_method(MaskLabel)
def mask_label(self, x: Tensor, y: Tensor, mask: Tensor) -> Tensor:
    """The embedding of the label where `mask` is True, zero elsewhere, added to `x` [N, F] or beside it."""
    known = torch.where(mask, y, torch.zeros_like(y))
    embedding = torch.where(mask.unsqueeze(-1), self.emb(known), 0.0)
    return torch.cat([x, embedding], dim=-1) if self.method == "concat" else x + embedding


@replaces_method(DeepGraphInfomax)
def deep_graph_infomax(self, *args, **kwargs) -> tuple[Tensor, Tensor, Tensor]:
    """`(positive, negative, summary)` of the input and its corruption."""
    positive = self.encoder(*args, **kwargs)
    corrupted = self.corruption(*args, **kwargs)
    corrupted = corrupted if isinstance(corrupted, tuple) else (corrupted,)
    replaced = dict(zip(kwargs, corrupted[len(args) :]))
    negative = self.encoder(*corrupted[: len(args)], **{**kwargs, **replaced})
    return positive, negative, self.summary(positive, *args, **kwargs)
