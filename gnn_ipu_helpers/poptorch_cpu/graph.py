"""One compiled graph: a mini-batch's forward pass, and for training its backward pass."""

from __future__ import annotations

from typing import Any, Callable

import torch
from torch.utils import _pytree as pytree

from ..porting import StaticGraphError, static_compile
from .compiler import compile_graph, compiler_name
from .errors import Error
from .losses import find_loss, graph_outputs, keep_marks_while_tracing, without_marks


class Graph:
    """``model`` compiled for the shapes of its first call.

    The first call traces the model, checks that it is static and compiles it. Every later :meth:`run` goes
    straight to the compiled graph with the tensors of the new mini-batch; the model's Python code does not
    run again, as on an IPU.
    """

    def __init__(self, model: torch.nn.Module, training: bool) -> None:
        self._training = training
        self._compiler = compiler_name()
        self._compiled: Callable | None = None
        self._last_inputs: tuple = ()
        self._last_results: tuple = ()
        keep_marks_while_tracing()
        self._traced = static_compile(model, self._backend)

    def _backend(self, graph_module: torch.fx.GraphModule, example_inputs: list) -> Callable:
        if self._training:
            _return_loss_last(graph_module)
        self._compiled = compile_graph(self._compiler, graph_module, example_inputs)
        return self._record

    def _record(self, *inputs: Any) -> tuple:
        """Run the compiled graph for the traced function, and keep what goes in and comes out."""
        self._last_inputs = inputs
        self._last_results = tuple(self._compiled(*inputs))
        return self._last_results[:-1] if self._training else self._last_results

    def trace(
        self, args: tuple, kwargs: dict, tensors: list[torch.Tensor]
    ) -> tuple[Any, torch.Tensor | None]:
        """Call the model through the tracer, and return the outputs, and the loss when training.

        The first time this compiles; later it verifies that nothing changed that the graph took for constant.
        ``tensors`` are those of ``args`` and ``kwargs``, in order.
        """
        try:
            outputs = self._traced(*args, **kwargs)
        except StaticGraphError as error:
            raise Error(str(error), error.findings) from None
        except torch._dynamo.exc.BackendCompilerFailed as error:
            if isinstance(error.inner_exception, Error):
                raise error.inner_exception from None
            raise
        if self._compiled is None:
            raise Error(
                "The model computes nothing from its inputs and parameters: there is no graph to compile."
            )
        self._note_places(tensors, outputs)
        _require_returnable(outputs)
        loss = self._last_results[-1] if self._training else None
        self._last_inputs = self._last_results = ()
        return outputs, loss

    def _note_places(self, tensors: list[torch.Tensor], outputs: Any) -> None:
        """Note which inputs of the graph are which arguments, and which outputs are which results."""
        position = {id(tensor): place for place, tensor in enumerate(tensors)}
        self._inputs = list(self._last_inputs)
        self._argument_places = [
            (place, position[id(tensor)])
            for place, tensor in enumerate(self._inputs)
            if id(tensor) in position
        ]
        for place, _ in self._argument_places:
            self._inputs[place] = None
        leaves, self._output_structure = pytree.tree_flatten(outputs)
        result = {id(tensor): place for place, tensor in enumerate(self._last_results)}
        self._output_sources = [_source(leaf, result, position) for leaf in leaves]

    def run(self, tensors: list[torch.Tensor]) -> tuple[Any, torch.Tensor | None]:
        """The outputs for a mini-batch of these tensors, and the loss when training."""
        inputs = list(self._inputs)
        for place, argument in self._argument_places:
            inputs[place] = tensors[argument]
        results = self._compiled(*inputs)
        sources = {"result": results, "argument": tensors}
        leaves = [
            value if kind == "constant" else sources[kind][value] for kind, value in self._output_sources
        ]
        outputs = pytree.tree_unflatten(leaves, self._output_structure)
        return outputs, (results[-1] if self._training else None)


def _source(leaf: Any, result: dict[int, int], argument: dict[int, int]) -> tuple[str, Any]:
    if id(leaf) in result:
        return ("result", result[id(leaf)])
    if id(leaf) in argument:
        return ("argument", argument[id(leaf)])
    return ("constant", leaf)


def _require_returnable(outputs: Any) -> None:
    """Raise if the model returns an object whose tensors a compiled graph cannot fill in."""
    for leaf in pytree.tree_leaves(outputs):
        if not isinstance(leaf, (torch.Tensor, bool, int, float, str, type(None))):
            raise Error(
                f"The model returns a {type(leaf).__name__}: return tensors, or tuples, lists and dicts of "
                "them."
            )


def _return_loss_last(graph_module: torch.fx.GraphModule) -> None:
    """Have the graph return its loss behind the outputs, which no longer take part in the backward pass."""
    graph = graph_module.graph
    loss = without_marks(graph, find_loss(graph))
    (output,) = [node for node in graph.nodes if node.op == "output"]
    with graph.inserting_before(output):
        detached = [
            graph.call_method("detach", (node,)) if isinstance(node, torch.fx.Node) else node
            for node in graph_outputs(graph)
        ]
    output.args = ((*detached, loss),)
    graph_module.recompile()
