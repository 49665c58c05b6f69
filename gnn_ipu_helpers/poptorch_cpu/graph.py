"""One compiled graph: a mini-batch's forward pass, and for training its backward pass.

The first call traces the model, checks that it is static and compiles it. Every later one goes straight to
the compiled graph with the tensors of the new mini-batch; the model's Python code does not run again, as on
an IPU. Parameters are those of the host. Buffers are copies that live on the device: what forward writes
into them reaches the host when the executor says so, and what the host writes reaches the device no sooner.
"""

from __future__ import annotations

import contextlib
import copy
import logging
from typing import Any, Callable, Iterator

import torch

from ..porting import StaticGraphError
from ..porting.losses import find_loss, strip_marks
from .arguments import Flat, leaves_of, rebuild
from .errors import Error

_LOG = logging.getLogger("poptorch")


class Graph:
    """`model`, compiled for the shapes of the call that it is traced with."""

    def __init__(self, model: torch.nn.Module, training: bool) -> None:
        # Imported here: whoever imports a loader needs neither tracer nor compiler, nor a torch with them.
        from ..porting.tracing import StaticFunction
        from .compiler import compiler_name

        self._training = training
        self._compiler = compiler_name()
        self._compiled: Any = None
        self._last_inputs: tuple = ()
        self._last_results: tuple = ()
        # Before tracing: `self.buffer += 1` in forward puts another object into the model.
        self._buffer_names = {id(tensor): name for name, tensor in model.named_buffers()}
        self._modes = [(module, module.training) for module in model.modules()]
        self._traced = StaticFunction(model, self._backend, needs_loss=training, tries_padding=True)

    # Tracing and compiling

    def trace(self, args: tuple, kwargs: dict, tensors: list[torch.Tensor]) -> torch.Tensor | None:
        """Call the model through the tracer, and return the loss when training.

        The first time this compiles; later it verifies that nothing changed that the graph took for constant.

        Args:
            args, kwargs: The arguments of one mini-batch.
            tensors: Those in `args` and `kwargs`, in order.
        """
        is_first = self._compiled is None
        with contextlib.nullcontext() if is_first else self._as_compiled():
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
        if is_first:
            for warning in self._traced.warnings:
                _LOG.warning("%s", warning)
        _require_returnable(outputs)
        loss = self._last_results[-1] if self._training else None
        self._note_places(tensors, outputs)
        self._last_inputs = self._last_results = ()
        return loss

    def _backend(self, graph_module: torch.fx.GraphModule, example_inputs: list) -> Callable:
        from .compiler import compile_graph

        self._checked = _copied(graph_module)
        if self._training:
            _return_loss_last(graph_module)
        self._compiled = compile_graph(self._compiler, graph_module, example_inputs)
        return self._record

    def _record(self, *inputs: Any) -> tuple:
        """Run the compiled graph for the traced function, and keep what goes in and comes out."""
        self._last_inputs = inputs
        self._last_results = tuple(self._compiled(*inputs))
        return self._last_results[:-1] if self._training else self._last_results

    @contextlib.contextmanager
    def _as_compiled(self) -> Iterator[None]:
        """Put each part of the model into the mode it was compiled in: `model.eval()` since then is for
        others."""
        now = [(module, module.training) for module, _ in self._modes]
        try:
            for module, mode in self._modes:
                module.training = mode
            yield
        finally:
            for module, mode in now:
                module.training = mode

    def _note_places(self, tensors: list[torch.Tensor], outputs: Any) -> None:
        """Note which inputs of the graph are arguments and buffers, and where each output comes from."""
        position = {id(tensor): place for place, tensor in enumerate(tensors)}
        buffers = self._buffer_names
        self._inputs = list(self._last_inputs)
        self._argument_places = [
            (place, position[id(t)]) for place, t in enumerate(self._inputs) if id(t) in position
        ]
        self.buffer_places = {
            buffers[id(t)]: place for place, t in enumerate(self._inputs) if id(t) in buffers
        }
        memory = {_memory(t) for t in self._inputs if isinstance(t, torch.Tensor)}
        leaves = Flat(outputs).tensors
        self._output_template = rebuild(outputs, (torch.empty(0) for _ in leaves))
        result = {id(tensor): place for place, tensor in enumerate(self._last_results)}
        self._output_sources: list[tuple[str, Any]] = []
        for leaf in leaves:
            if id(leaf) in result:
                is_shared = leaf.numel() > 0 and _memory(leaf) in memory
                source: tuple[str, Any] = ("shared" if is_shared else "result", result[id(leaf)])
            elif id(leaf) in position:
                source = ("argument", position[id(leaf)])
            elif id(leaf) in buffers:
                source = ("buffer", buffers[id(leaf)])
            else:
                source = ("constant", leaf)
            self._output_sources.append(source)
        self.num_outputs = len(leaves)
        for place, _ in self._argument_places:
            self._inputs[place] = None

    # Running

    def run(
        self, tensors: list[torch.Tensor], buffers: dict[str, torch.Tensor]
    ) -> tuple[Any, torch.Tensor | None]:
        """The outputs for a mini-batch, which share no memory with anything, and the loss when training.

        Args:
            tensors: The arguments' tensors.
            buffers: The device's copies of the model's buffers, by name.
        """
        inputs = list(self._inputs)
        for place, argument in self._argument_places:
            inputs[place] = tensors[argument]
        for name, place in self.buffer_places.items():
            inputs[place] = buffers[name]
        try:
            # A compiled step sets gradients itself where it can; autograd would only hand them on.
            results = getattr(self._compiled, "run", self._compiled)(*inputs)
        except (RuntimeError, IndexError) as error:
            if "out of bounds" in str(error) or "out of range" in str(error):
                self._explain_index(inputs)
            raise
        leaves = []
        for kind, value in self._output_sources:
            if kind == "result":
                leaves.append(results[value])
            elif kind == "shared":
                leaves.append(results[value].clone())
            elif kind == "argument":
                leaves.append(tensors[value].clone())
            else:
                leaves.append((buffers[value] if kind == "buffer" else value).clone())
        outputs = rebuild(self._output_template, iter(leaves))
        return outputs, (results[-1] if self._training else None)

    def _explain_index(self, inputs: list) -> None:
        """Raise what `check` says of an index beyond the size that it indexes."""
        from ..porting.experiments import value_findings

        findings = value_findings(self._checked, inputs)
        if findings:
            raise Error(str(StaticGraphError(findings)), findings) from None


def _copied(graph_module: torch.fx.GraphModule) -> torch.fx.GraphModule:
    graph = torch.fx.Graph()
    result = graph.graph_copy(graph_module.graph, {})
    graph.output(result)
    return torch.fx.GraphModule(graph_module, graph)


def _memory(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def _require_returnable(outputs: Any) -> None:
    """Raise if the model returns an object whose tensors a compiled graph cannot fill in."""
    for _, leaf in leaves_of(Flat(outputs).structure):
        if leaf is not torch.Tensor and not isinstance(leaf, (bool, int, float, str, type(None))):
            raise Error(
                f"The model returns a {type(leaf).__name__}: return tensors, or tuples, lists and dicts of "
                "them."
            )


def _return_loss_last(graph_module: torch.fx.GraphModule) -> None:
    """Have the graph return its loss behind the outputs, which no longer take part in the backward pass."""
    graph = graph_module.graph
    found = find_loss(graph).node
    assert found is not None  # the tracer refuses a graph without one
    loss = strip_marks(graph, found)
    (output,) = [node for node in graph.nodes if node.op == "output"]
    returned = output.args[0] if isinstance(output.args[0], (tuple, list)) else [output.args[0]]
    with graph.inserting_before(output):
        detached = [
            graph.call_method("detach", (node,)) if isinstance(node, torch.fx.Node) else node
            for node in returned
        ]
    output.args = ((*detached, loss),)
    graph_module.recompile()


# The model around a compilation


def shallow_copy(model: torch.nn.Module) -> torch.nn.Module:
    """A copy that shares parts, parameters and buffers with `model` but keeps attributes such as the mode of
    its own, as PopTorch wraps one."""
    duplicate = model.__class__.__new__(model.__class__)
    duplicate.__dict__ = copy.copy(model.__dict__)
    return duplicate


@contextlib.contextmanager
def unchanged(model: torch.nn.Module) -> Iterator[set[str]]:
    """Put the model's buffers and gradients and the random state back as they were.

    Yields:
        A set that holds the names of the buffers written inside, once it is over.
    """
    random_state = torch.get_rng_state()
    owners = [(prefix, module, dict(module._buffers)) for prefix, module in model.named_modules()]
    buffers = {
        name: (buffer, buffer._version, buffer.detach().clone()) for name, buffer in model.named_buffers()
    }
    gradients = [(parameter, parameter.grad) for parameter in model.parameters()]
    written: set[str] = set()
    try:
        yield written
        for prefix, module, before in owners:
            for name, held in before.items():
                place = f"{prefix}.{name}" if prefix else name
                if name not in module._buffers:
                    raise Error(f"Buffer {place} is removed from the model when calling the forward method.")
                # `self.buffer += 1` puts another object in its place, with the same memory.
                if held is not None and _memory(module._buffers[name]) != _memory(held):
                    raise Error(
                        f"Buffer {place} is reassigned within the model when calling the forward method. "
                        f"This is not supported. Consider using self.{place}.copy_(src) to copy data from a "
                        "source tensor, where src is the name of the source tensor."
                    )
    finally:
        for _, module, before in owners:
            module._buffers.clear()
            module._buffers.update(before)
        with torch.no_grad():
            for name, (buffer, version, value) in buffers.items():
                if buffer._version != version:
                    written.add(name)
                    buffer.copy_(value)
        for parameter, gradient in gradients:
            parameter.grad = gradient
        torch.set_rng_state(random_state)


class ModelWatch:
    """Notices that a model is no longer the one that was compiled; cheap enough to ask before every call."""

    def __init__(self, model: torch.nn.Module) -> None:
        self._modules = [(module._modules, dict(module._modules)) for module in model.modules()]
        self._owners = []
        self._tensors = []
        for prefix, module in model.named_modules():
            for kind, owner in (("parameter", module._parameters), ("buffer", module._buffers)):
                self._owners.append((f"{kind} {prefix}." if prefix else f"{kind} ", owner, len(owner)))
                for name, tensor in owner.items():
                    if tensor is not None:
                        place = f"{kind} {prefix}.{name}" if prefix else f"{kind} {name}"
                        self._tensors.append((place, owner, name, tensor, _traits(tensor)))
        self._parameters = list(model.parameters())
        self.note_weights()

    def note_weights(self) -> None:
        """What the weights are now is what the device has."""
        self._versions = [parameter._version for parameter in self._parameters]

    def weights_were_written(self) -> bool:
        """Whether the host has written into the weights since they were noted."""
        return self._versions != [parameter._version for parameter in self._parameters]

    def check(self) -> None:
        """Raise if parameters or buffers were added, removed, replaced or frozen, or modules exchanged."""
        for place, owner, name, tensor, traits in self._tensors:
            now = owner.get(name)
            if now is not tensor:
                raise _changed(f"the {place} was {'removed' if now is None else 'replaced'}")
            if _traits(tensor) != traits:
                raise _changed(f"the {place} was {_in_words(traits)} and is {_in_words(_traits(tensor))}")
        for prefix, owner, count in self._owners:
            if len(owner) > count:
                raise _changed(f"the {prefix}{list(owner)[-1]} was added")
        for current, before in self._modules:
            if current != before:
                names = [name for name in {**before, **current} if current.get(name) is not before.get(name)]
                raise _changed(f"the module {', '.join(names)} was added, removed or replaced")


def _traits(tensor: torch.Tensor) -> tuple:
    return (tensor.shape, tensor.dtype, tensor.requires_grad)


def _in_words(traits: tuple) -> str:
    shape, dtype, requires_grad = traits
    return f"{list(shape)} {dtype} {'with' if requires_grad else 'without'} a gradient"


def _changed(what: str) -> Error:
    return Error(
        f"The model changed after it was compiled: {what}. A compiled graph keeps the model it was made "
        "from: change the model before wrapping it, or call destroy() on the wrapped model to have the "
        "next call compile anew."
    )
