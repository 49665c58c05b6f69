"""Training the same model compiled and in eager PyTorch, and comparing them at every step."""

import copy

import torch
from torch.utils import _pytree as pytree

from gnn_ipu_helpers import poptorch_cpu as poptorch

RTOL, ATOL = 1e-4, 1e-5


def assert_same_weights(model, expected):
    """All parameters and buffers of two models are equal within float32 rounding."""
    for (name, tensor), other in zip(model.state_dict().items(), expected.state_dict().values()):
        torch.testing.assert_close(
            tensor, other, rtol=RTOL, atol=ATOL, msg=lambda text, name=name: f"{name}: {text}"
        )


def loss_of(outputs):
    """The last scalar among the outputs of a model."""
    return [leaf for leaf in pytree.tree_leaves(outputs) if leaf.dim() == 0][-1]


def eager_step(model, optimizer, *mini_batches):
    """One optimiser step on the mean gradient of mini-batches, each a tuple of arguments; their outputs."""
    optimizer.zero_grad()
    results = []
    for arguments in mini_batches:
        outputs = model(*arguments)
        (loss_of(outputs) / len(mini_batches)).backward()
        results.append(pytree.tree_map(torch.detach, outputs))
    optimizer.step()
    return results


def assert_trains_like_eager(model, *arguments, steps=4, optimizer=torch.optim.Adam, options=None):
    """Four steps compiled and eager, from the same weights and seed: equal losses and weights after each.

    Returns the wrapped model.
    """
    eager = copy.deepcopy(model).train()
    eager_optimizer = optimizer(eager.parameters(), lr=0.01)
    trained = poptorch.trainingModel(model.train(), options, optimizer(model.parameters(), lr=0.01))
    for step in range(steps):
        torch.manual_seed(step)
        outputs = trained(*arguments)
        torch.manual_seed(step)
        (expected,) = eager_step(eager, eager_optimizer, arguments)
        torch.testing.assert_close(loss_of(outputs), loss_of(expected), rtol=RTOL, atol=ATOL)
        assert_same_weights(model, eager)
    return trained
