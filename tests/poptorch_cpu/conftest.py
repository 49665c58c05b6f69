"""Inputs that several tests share."""

import pytest
import torch


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


@pytest.fixture
def graph():
    """A small graph: features ``[20, 8]``, edges ``[2, 60]`` and labels ``[20]`` of 4 classes."""
    return torch.randn(20, 8), torch.randint(20, (2, 60)), torch.randint(4, (20,))
