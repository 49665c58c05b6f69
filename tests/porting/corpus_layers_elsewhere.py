"""A layer in a module file of its own, as larger projects have them."""

import torch
from torch import nn


class Gate(nn.Module):
    """Keeps rows whose gate is open; `keeps_all` keeps every row and closes the others."""

    def __init__(self, channels: int, keeps_all: bool):
        super().__init__()
        self.lin, self.keeps_all = nn.Linear(channels, 1), keeps_all

    def forward(self, x):
        is_open = self.lin(x).squeeze(-1) > 0
        if self.keeps_all:
            return torch.where(is_open.unsqueeze(-1), x, 0)
        return x[is_open]
