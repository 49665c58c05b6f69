"""What turns the checked graph into something that runs: inductor, or the graph as it is.

For training, inductor is given one graph with the forward and the backward pass, instead of the two that
AOTAutograd would make of it. Nothing has to be kept from one pass for the other: AOTAutograd would keep the
signs of a relu as bools, which inductor's C++ stores and loads slowly. And both passes share what belongs to
the mini-batch, such as the order of its edges. `passes` says what else is changed.
"""

from __future__ import annotations

import functools
import logging
import os
import shutil
import warnings
from typing import Any, Callable

import torch

from . import passes
from .errors import Error

_VARIABLE = "GNN_IPU_COMPILER"


@functools.lru_cache(maxsize=None)
def has_cpp_compiler() -> bool:
    """Whether there is one; says once if there is not."""
    found = any(shutil.which(name) for name in (os.environ.get("CXX"), "g++", "clang++", "cl") if name)
    if not found:
        _say(
            "No C++ compiler found: running the checked graph without fusing its operations. Results are "
            "the same; install g++ or clang++ for speed."
        )
    return found


def compiler_name() -> str:
    """`"inductor"` where a C++ compiler is found, else `"unfused"`; `GNN_IPU_COMPILER` forces one."""
    forced = os.environ.get(_VARIABLE, "")
    if forced not in ("", "inductor", "unfused"):
        raise Error(f"{_VARIABLE} must be 'inductor' or 'unfused' (got {forced!r}).")
    return forced or ("inductor" if has_cpp_compiler() else "unfused")


def compile_graph(name: str, graph_module: torch.fx.GraphModule, example_inputs: list) -> Callable:
    """Compile a traced graph with the compiler of this name.

    Args:
        name: `"inductor"` or `"unfused"`, see `compiler_name`.
        graph_module: The graph as dynamo traced it, taking parameters, buffers and tensors. With gradients
            enabled the last of its outputs is the loss and the others take no part in the backward pass.
        example_inputs: Its inputs, real or fake.

    Returns:
        A function of the same inputs that returns the same outputs. `loss.backward()` sets the gradients of
        the parameters; the gradient that it is called with must be ones.
    """
    if name == "unfused":
        return torch._dynamo.lookup_backend("aot_eager")(graph_module, example_inputs)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # torch's own, on import
        from torch._inductor import compile_fx as inductor

    compile_fx: Callable[..., Any] = inductor.compile_fx
    # Eager's random numbers, so that a seed gives the same dropout compiled and not.
    settings = {"fallback_random": True, "size_asserts": False, "alignment_asserts": False, **_own_passes()}
    if not torch.is_grad_enabled():
        return compile_fx(graph_module, example_inputs, config_patches=settings)
    try:
        both, inputs, places = _forward_and_backward(graph_module, example_inputs)
    except Exception as error:  # another torch, or an operation that can only be traced by AOTAutograd
        _say_slower(f"{type(error).__name__}: {error}")
        return compile_fx(graph_module, example_inputs, config_patches={"fallback_random": True})
    _keep_freed_memory()
    with torch.no_grad():
        return _Step(compile_fx(both, inputs, config_patches=settings), places)


def _keep_freed_memory() -> None:
    """Have the C library keep what a step frees for the next one, instead of handing it back to the system.

    glibc decides by the largest block that was freed so far (at most 32 MB) what is worth handing back. In a
    process that never freed a large one, a step spends up to a fifth of its time on getting pages again.
    """
    torch.empty(31 << 20, dtype=torch.uint8)


# Private names of torch, seen in 2.13. Where one is missing the plain path runs, with the same results.


def _own_passes() -> dict[str, Any]:
    """The settings that have inductor run our pass over a graph, for this compilation alone."""
    try:
        from torch._inductor.custom_graph_pass import CustomGraphPass, get_hash_for_files
    except ImportError as error:
        _say_slower(str(error))
        return {}

    class Rewrite(CustomGraphPass):
        """`passes.rewrite`, in the form that inductor's cache of compiled graphs asks for."""

        def __call__(self, graph: torch.fx.Graph) -> None:
            passes.rewrite(graph)

        def uuid(self) -> bytes:
            return get_hash_for_files((passes.__file__,))

    return {"joint_custom_pre_pass": Rewrite()}


def _forward_and_backward(
    graph_module: torch.fx.GraphModule, example_inputs: list
) -> tuple[torch.fx.GraphModule, list, list[int]]:
    """One graph that returns outputs, loss and gradients; its inputs; the places of those with gradients."""
    from torch._dispatch.python import enable_python_dispatcher
    from torch._guards import detect_fake_mode
    from torch.fx.experimental.proxy_tensor import make_fx

    places = [
        place
        for place, value in enumerate(example_inputs)
        if isinstance(value, torch.Tensor) and value.requires_grad
    ]

    def step(*given: Any) -> tuple:
        inputs = list(given)
        for place in places:
            inputs[place] = inputs[place].detach().requires_grad_()
        with torch.enable_grad():
            *outputs, loss = graph_module(*inputs)
            wanted = [inputs[place] for place in places]
            gradients = torch.autograd.grad(loss, wanted, torch.ones_like(loss), allow_unused=True)
        return (*outputs, loss.detach(), *gradients)

    fake_mode = detect_fake_mode(example_inputs)

    def fake(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        return fake_mode.from_tensor(value, static_shapes=True).detach()

    with fake_mode, enable_python_dispatcher():
        inputs = [fake(value) for value in example_inputs]
        return make_fx(step)(*inputs), inputs, places


class _Step:
    """Forward and backward pass in one call.

    Called like the graph it was made from, it returns outputs and loss; `loss.backward()` sets the gradients.
    `run` sets the gradients right away, without autograd's part.
    """

    def __init__(self, compiled: Callable, places: list[int]) -> None:
        self._compiled = compiled
        self._places = places  # of the inputs that have a gradient

    def __call__(self, *inputs: Any) -> tuple:
        (*outputs, loss), gradients = self._results(inputs)
        parameters = [inputs[place] for place in self._places]
        return (*outputs, _WithGradients.apply(loss, list(gradients), *parameters))

    def run(self, *inputs: Any) -> tuple:
        """Outputs and loss, which needs no `backward()` any more: the gradients are added to `grad`."""
        results, gradients = self._results(inputs)
        for place, gradient in zip(self._places, gradients):
            if gradient is None:  # the parameter takes no part in the loss
                continue
            parameter = inputs[place]
            if parameter.grad is not None:
                parameter.grad = parameter.grad + gradient
            elif gradient.stride() == parameter.stride():
                parameter.grad = gradient
            else:  # fused optimisers go through the memory of both alike
                parameter.grad = torch.empty_like(parameter).copy_(gradient)
        return results

    def _results(self, inputs: tuple) -> tuple[tuple, tuple]:
        """Outputs and loss; and a gradient, or None, for the input at each of the places."""
        with torch.no_grad():
            results = tuple(self._compiled(*inputs))
        number = len(results) - len(self._places)
        return results[:number], results[number:]


class _WithGradients(torch.autograd.Function):
    """The loss, whose gradients are known already."""

    @staticmethod
    def forward(context: Any, loss: torch.Tensor, gradients: list, *parameters: torch.Tensor) -> torch.Tensor:
        context.gradients = gradients
        return loss.view_as(loss)

    @staticmethod
    def backward(context: Any, gradient: torch.Tensor) -> tuple:
        # Autograd takes gradients over instead of copying them if nobody else holds them.
        gradients = tuple(context.gradients)
        context.gradients.clear()
        return (None, None, *gradients)


@functools.lru_cache(maxsize=None)
def _say_slower(reason: str) -> None:
    _say(f"The graph is compiled without the changes that make it fast ({reason}). Results are the same.")


def _say(message: str) -> None:
    logging.getLogger("poptorch").warning(message)
