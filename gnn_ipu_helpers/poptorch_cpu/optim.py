"""PopTorch's optimisers, torch's own underneath, and how the device runs an optimiser.

An IPU does not run an optimiser's Python. It knows five algorithms, and holds a copy of their settings: a
scheduler's change reaches it with `setOptimizer` and not before, and a setting that was not passed to the
constructor is compiled in as a constant. `DeviceOptimizer` holds to both.
"""

from __future__ import annotations

import inspect
import logging
from typing import Any, Callable, Iterable, Iterator

import torch

from .errors import Error, InvalidSetting

_LOG = logging.getLogger("poptorch")
# What PopTorch's optimisers take besides torch's arguments, with the default.
_OF_IPU = {
    "loss_scaling": 1.0,
    "velocity_scaling": 1.0,
    "max_grad_norm": float("inf"),
    "bias_correction": True,
    "use_combined_accum": False,
    "use_tf_variant": False,
    "accum_type": torch.float32,
    "velocity_accum_type": torch.float32,
    "first_order_momentum_accum_type": torch.float32,
    "second_order_momentum_accum_type": torch.float32,
}
_ACCUMULATORS = "accum_type first_order_momentum_accum_type second_order_momentum_accum_type"


class VariableAttributes:
    """Which settings of an optimiser may change once the model is compiled: those given to its
    constructor."""

    def __init__(self, variable_attributes: list[str], allowed_attributes: list[str]) -> None:
        self._variable_attributes = list(variable_attributes)
        self._allowed_attributes = list(allowed_attributes)

    def isConstant(self, attr: str) -> bool:
        """Whether the setting is compiled in as a constant."""
        return attr not in self._variable_attributes

    def markAsConstant(self, attr: str) -> None:
        """Have the setting compiled in."""
        if attr not in self._allowed_attributes:
            known = ", ".join(self._allowed_attributes)
            raise InvalidSetting(f"Unknown attribute {attr!r}; known are {known}.")
        self._variable_attributes = [name for name in self._variable_attributes if name != attr]

    def markAsVariable(self, attr: str) -> None:
        """Let the setting change later, though it was not given to the constructor."""
        self.markAsConstant(attr)
        self._variable_attributes.append(attr)


class Optimizer(torch.optim.Optimizer):
    """What PopTorch's optimisers share. Their state dictionary holds `ipu_state` and `ipu_param` beside
    torch's entries; both are None until a model has been compiled with the optimiser."""

    bias_correction: bool
    use_tf_variant: bool
    _is_on_device = False
    _kept: list[str]

    def has_state(self) -> bool:
        """Whether there is a state yet: once a model is compiled with it, or one was loaded."""
        return self._is_on_device

    def state_dict(self) -> dict:
        """The state, with what the device holds beside torch's entries."""
        own = super().state_dict()
        if not self._is_on_device:
            return {"ipu_state": None, "ipu_param": None, **own}

        def numbered(entries: Iterable[tuple[Any, dict]]) -> dict[str, torch.Tensor]:
            items = [(name, number, value) for number, entry in entries for name, value in entry.items()]
            return {
                f"{name}___{n}": torch.as_tensor(v)
                for name, n, v in items
                if name != "params" and v is not None
            }

        groups = enumerate(own["param_groups"])
        return {"ipu_state": numbered(own["state"].items()), "ipu_param": numbered(groups), **own}

    def load_state_dict(self, state: dict) -> None:
        """Restore the state of one of PopTorch's optimisers."""
        if not state:
            raise RuntimeError("Cannot load optimizer state dictionary because it is empty.")
        if not ("ipu_state" in state and "ipu_param" in state):
            raise RuntimeError(
                "Only IPU optimizer states can be loaded onto the IPU: this one lacks ipu_state and "
                "ipu_param, as one of torch.optim's does. Load it into an optimiser of torch.optim."
            )
        super().load_state_dict(state)
        self._is_on_device = state["ipu_state"] is not None

    def get_state_dict(self) -> dict:
        """The state, as `state_dict`."""
        return self.state_dict()

    def set_state_dict(self, state: dict) -> None:
        """Restore the state, as `load_state_dict`."""
        self.load_state_dict(state)

    def __getstate__(self) -> dict:
        return {**super().__getstate__(), **{name: getattr(self, name) for name in self._kept}}


def _constructor(parent: Any, required: str, optional: str) -> Any:
    """An `__init__` of these arguments that hands torch's on to `parent` and keeps those of `_OF_IPU`.

    None as an argument means the default, torch's or the device's.
    """

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        bound = signature.bind(self, *args, **kwargs).arguments
        given = {name: value for name, value in bound.items() if value is not None and name != "self"}
        kept = {**of_ipu, **{name: value for name, value in given.items() if name in of_ipu}}
        for name, value in kept.items():
            if name.endswith("accum_type") and value not in (torch.float32, torch.float16):
                raise InvalidSetting(f"{name} must be torch.float32 or torch.float16 (got {value!r}).")
        # Parameters, or groups of them, that can be gone over more than once.
        params = [
            {**item, "params": list(item["params"])}
            if isinstance(item, dict) and not isinstance(item["params"], torch.Tensor)
            else item
            for item in given.pop("params")
        ]
        of_parent = {name: value for name, value in given.items() if name not in of_ipu}
        if "fused" in parent_parameters and _may_be_fused(params, of_parent):
            of_parent = {"fused": True, **of_parent}
        parent.__init__(self, params, **of_parent)
        vars(self).update(kept, _is_on_device=False)
        self._kept = [*kept, "variable_attrs", "_kept", "_is_on_device"]
        self.variable_attrs = VariableAttributes([*given], [*self.defaults, *of_ipu])

    parent_parameters = inspect.signature(parent.__init__).parameters
    of_ipu = {name: _OF_IPU[name] for name in optional.split() if name in _OF_IPU}
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    signature = inspect.Signature(
        [inspect.Parameter(name, kind) for name in ("self", *required.split())]
        + [inspect.Parameter(name, kind, default=None) for name in optional.split()]
    )
    __init__.__signature__ = signature  # type: ignore[attr-defined]
    return __init__


def _may_be_fused(params: list, given: dict[str, Any]) -> bool:
    """Whether torch's step in one kernel, for speed, does the same. Not in half types: torch 2.13's skips
    whole blocks of them (pytorch#191763)."""
    tensors = [t for item in params for t in (item["params"] if isinstance(item, dict) else [item])]
    is_right = all(
        isinstance(t, torch.nn.Parameter) and t.dtype in (torch.float32, torch.float64) and t.is_cpu
        for t in tensors
    )
    has_other_kind = any(given.get(name) for name in ("foreach", "capturable", "differentiable"))
    return is_right and not has_other_kind and hasattr(getattr(torch, "compiler", None), "set_stance")


class SGD(Optimizer, torch.optim.SGD):
    """Stochastic gradient descent, as `torch.optim.SGD`."""

    __init__ = _constructor(
        torch.optim.SGD,
        "params lr",
        "momentum dampening weight_decay nesterov maximize foreach differentiable loss_scaling "
        "velocity_scaling use_combined_accum accum_type velocity_accum_type max_grad_norm",
    )


class Adam(Optimizer, torch.optim.Adam):
    """Adam, as `torch.optim.Adam`."""

    __init__ = _constructor(
        torch.optim.Adam,
        "params",
        "lr betas eps weight_decay amsgrad foreach maximize capturable differentiable fused loss_scaling "
        f"{_ACCUMULATORS} max_grad_norm",
    )


class AdamW(Optimizer, torch.optim.AdamW):
    """AdamW, as `torch.optim.AdamW`; without `bias_correction` the moments are used as they are."""

    __init__ = _constructor(
        torch.optim.AdamW,
        "params",
        "lr betas eps weight_decay amsgrad maximize foreach capturable differentiable fused loss_scaling "
        f"bias_correction {_ACCUMULATORS} max_grad_norm",
    )

    @torch.no_grad()
    def step(self, closure: Callable | None = None) -> Any:
        """Update the parameters."""
        if self.bias_correction:
            return torch.optim.AdamW.step(self, closure)
        loss = _evaluate(closure)
        for group, parameter, mean, square in _moments(self, corrected=False):
            parameter.mul_(1 - group["lr"] * group["weight_decay"])
            parameter.addcdiv_(mean, square.sqrt().add_(group["eps"]), value=-group["lr"])
        return loss


class RMSprop(Optimizer, torch.optim.RMSprop):
    """RMSprop, as `torch.optim.RMSprop`.

    With `use_tf_variant` as in TensorFlow: the mean of squares begins at one, `eps` stands inside the root,
    and the learning rate is part of the momentum.
    """

    __init__ = _constructor(
        torch.optim.RMSprop,
        "params",
        "lr alpha eps weight_decay momentum centered foreach maximize differentiable loss_scaling "
        f"{_ACCUMULATORS} use_tf_variant",
    )

    @torch.no_grad()
    def step(self, closure: Callable | None = None) -> Any:
        """Update the parameters."""
        if not self.use_tf_variant:
            return torch.optim.RMSprop.step(self, closure)
        loss = _evaluate(closure)
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                state = self.state[parameter]
                if not state:
                    state["square_avg"] = torch.ones_like(parameter)
                    state["grad_avg"] = torch.zeros_like(parameter)
                    state["momentum_buffer"] = torch.zeros_like(parameter)
                gradient = parameter.grad.add(parameter, alpha=group["weight_decay"])
                variance = state["square_avg"].lerp_(gradient.square(), 1 - group["alpha"])
                if group["centered"]:
                    variance = variance - state["grad_avg"].lerp_(gradient, 1 - group["alpha"]).square()
                step = group["lr"] * gradient / (variance + group["eps"]).sqrt()
                parameter.sub_(state["momentum_buffer"].mul_(group["momentum"]).add_(step))
        return loss


class _Lamb(torch.optim.Optimizer):
    def __init__(
        self,
        params: Iterable,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        max_weight_norm: float = 65500.0,
    ) -> None:
        defaults = dict(
            lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, max_weight_norm=max_weight_norm
        )
        torch.optim.Optimizer.__init__(self, params, defaults)


class LAMB(Optimizer, _Lamb):
    """LAMB: Adam's step for each layer, scaled by the norm of its weights over the norm of the step."""

    __init__ = _constructor(
        _Lamb,
        "params",
        f"lr betas eps weight_decay bias_correction loss_scaling max_weight_norm {_ACCUMULATORS}",
    )

    @torch.no_grad()
    def step(self, closure: Callable | None = None) -> Any:
        """Update the parameters."""
        loss = _evaluate(closure)
        for group, parameter, mean, square in _moments(self, corrected=self.bias_correction):
            update = mean / (square.sqrt() + group["eps"]) + group["weight_decay"] * parameter
            weight, step = parameter.norm().clamp(max=group["max_weight_norm"]), update.norm()
            trust = (weight / step).item() if weight > 0 and step > 0 else 1.0
            parameter.add_(update, alpha=-group["lr"] * trust)
        return loss


def _evaluate(closure: Callable | None) -> Any:
    if closure is None:
        return None
    with torch.enable_grad():
        return closure()


def _moments(optimizer: torch.optim.Optimizer, corrected: bool) -> Iterator[tuple]:
    """Each parameter with a gradient, with its group and the updated moments of its gradient."""
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            if parameter.grad is None:
                continue
            state = optimizer.state[parameter]
            if not state:
                state.update(
                    step=0, exp_avg=torch.zeros_like(parameter), exp_avg_sq=torch.zeros_like(parameter)
                )
            state["step"] += 1
            first, second = group["betas"]
            mean = state["exp_avg"].lerp_(parameter.grad, 1 - first)
            square = state["exp_avg_sq"].mul_(second)
            square.addcmul_(parameter.grad, parameter.grad, value=1 - second)
            if corrected:
                mean, square = mean / (1 - first ** state["step"]), square / (1 - second ** state["step"])
            yield group, parameter, mean, square


# An optimiser on the device

# The settings the device holds, by the value at which it takes a torch optimiser's for constant. A tuple is
# no value of any of them: never constant, or always.
_NEVER, _ALWAYS = ("never",), ("always",)
_CONSTANT_AT: dict[str, Any] = {
    "lr": _NEVER,
    "weight_decay": 0.0,
    "momentum": 0.0,
    "dampening": 0.0,
    "eps": 1e-8,
    "max_weight_norm": 65500.0,
    "alpha": _ALWAYS,
    "nesterov": _ALWAYS,
    "betas": _ALWAYS,
}
_KNOWN = (
    *(SGD, AdamW, Adam, RMSprop, LAMB),
    *(torch.optim.SGD, torch.optim.AdamW, torch.optim.Adam, torch.optim.RMSprop),
)


class DeviceOptimizer:
    """Steps an optimiser with the settings it had when it was handed over."""

    def __init__(
        self, optimizer: torch.optim.Optimizer, parameters: dict[str, torch.nn.Parameter], may_be_odd: bool
    ) -> None:
        self.optimizer = optimizer
        self._kind = _kind_of(optimizer, may_be_odd)
        _require_trainable(optimizer, parameters)
        self._settings = _settings(optimizer)
        self._constants = _constants(optimizer)
        self._may_be_odd = may_be_odd
        self._attributes = {"optimizer": {*vars(optimizer)}}
        for number, group in enumerate(optimizer.param_groups):
            self._attributes[f"group {number}"] = {*group}
        self._has_warned = False

    def note_compiled(self) -> None:
        """The optimiser is part of a compiled model now."""
        if isinstance(self.optimizer, Optimizer):
            self.optimizer._is_on_device = True

    def require_replaces(self, before: DeviceOptimizer) -> None:
        """Raise unless this optimiser fits the graph that was compiled with the one before."""
        is_other = self._kind.__name__ != before._kind.__name__
        if is_other or len(self._settings) != len(before._settings):
            raise Error(
                f"The model was compiled for {before._kind.__name__} with {len(before._settings)} group(s) "
                f"of parameters (got {self._kind.__name__} with {len(self._settings)}): wrap the model anew."
            )
        for owner, names in self._attributes.items():
            unknown = sorted(names - before._attributes[owner])
            if unknown and not self._may_be_odd:
                text = "Ignoring unexpected %s attribute in %s optimizer: %s"
                _LOG.warning(text, owner, self._kind.__name__, unknown)
        for old, new, was, now in zip(before._settings, self._settings, before._constants, self._constants):
            for name, value in new.items():
                if (name in was) != (name in now) or (name in was and old.get(name, value) != value):
                    raise Error(
                        f"The optimiser's {name} was compiled in as "
                        f"{'a constant' if name in was else 'a variable'}, {old.get(name)} (got {value}): "
                        f"give {name} to the optimiser's constructor, or call "
                        f"optimizer.variable_attrs.markAsVariable({name!r}), before the model is compiled."
                    )

    def step(self) -> None:
        """Clip the gradients if the optimiser asks for it, and update the weights."""
        limit = getattr(self.optimizer, "max_grad_norm", None)
        if limit is not None and limit != float("inf"):
            parameters = [parameter for group in self.optimizer.param_groups for parameter in group["params"]]
            torch.nn.utils.clip_grad_norm_(parameters, limit)
        now = _settings(self.optimizer)
        if now != self._settings and not self._has_warned:
            self._has_warned = True
            _LOG.warning(
                "The optimiser's settings changed, and the device still has the old ones: call "
                "setOptimizer(optimizer) on the wrapped model after every change, such as a scheduler's step."
            )
        try:
            if now != self._settings:
                self._apply(self._settings)
            if callable(vars(self.optimizer).get("step")):
                self.optimizer.step()  # as a scheduler has it, which counts the steps
            elif not _step_fused(self.optimizer):
                self._kind.step(self.optimizer)
        finally:
            if now != self._settings:
                self._apply(now)

    def _apply(self, settings: list[dict[str, Any]]) -> None:
        for group, values in zip(self.optimizer.param_groups, settings):
            group.update(values)


@torch.no_grad()
def _step_fused(optimizer: torch.optim.Optimizer) -> bool:
    """Step Adam or AdamW by the kernel that torch's own step ends in, without the Python before it, which
    takes longer; returns whether that was possible. The first step, which makes the state, is torch's."""
    hooks = [getattr(optimizer, f"_optimizer_step_{when}_hooks", None) for when in ("pre", "post")]
    is_plain = isinstance(optimizer, torch.optim.Adam) and getattr(optimizer, "bias_correction", True)
    if not is_plain or any(hooks):
        return False
    calls: list[tuple[dict[str, Any], list[torch.Tensor], list[dict[str, Any]]]] = []
    for group in optimizer.param_groups:
        parameters = [parameter for parameter in group["params"] if parameter.grad is not None]
        states: list[Any] = [optimizer.state.get(parameter) for parameter in parameters]
        if not group.get("fused") or not all(states) or isinstance(group["lr"], torch.Tensor):
            return False
        if parameters:
            calls.append((group, parameters, states))
    for group, parameters, states in calls:
        is_decoupled = group.get("decoupled_weight_decay", isinstance(optimizer, torch.optim.AdamW))
        kernel: Any = torch._fused_adamw_ if is_decoupled else torch._fused_adam_
        means, squares, steps = (
            [state[name] for state in states] for name in ("exp_avg", "exp_avg_sq", "step")
        )
        torch._foreach_add_(steps, 1)
        kernel(
            *(parameters, [parameter.grad for parameter in parameters], means, squares, [], steps),
            **{name: group[name] for name in ("lr", "weight_decay", "eps", "maximize", "amsgrad")},
            **dict(zip(("beta1", "beta2"), group["betas"])),
        )
    return True


def _kind_of(optimizer: Any, may_be_odd: bool) -> Any:
    """The algorithm that the device runs for an optimiser."""
    kind = next((kind for kind in _KNOWN if isinstance(optimizer, kind)), None)
    if kind is None:
        raise InvalidSetting(
            f"Unsupported optimizer type {type(optimizer).__name__}: the device runs SGD, Adam, AdamW and "
            "RMSprop of torch.optim or poptorch.optim, and poptorch.optim.LAMB."
        )
    if type(optimizer) is not kind and not may_be_odd:
        _LOG.warning(
            "%s is a subclass of %s. Poptorch does not run Python optimizer code directly: the device runs "
            "%s instead.",
            *(type(optimizer).__name__, kind.__name__, kind.__name__),
        )
    for group in optimizer.param_groups:
        if group.get("amsgrad"):
            raise ValueError("The device runs Adam and AdamW without amsgrad: leave amsgrad=True out.")
        if group.get("maximize"):
            raise ValueError(
                "maximize=True has no meaning on the device, which would minimise: return the negative of "
                "what is to be maximised as the loss."
            )
        if group.get("centered") != optimizer.param_groups[0].get("centered"):
            raise InvalidSetting("All groups of RMSprop's parameters must agree on `centered`.")
    return kind


def _require_trainable(optimizer: torch.optim.Optimizer, parameters: dict[str, torch.nn.Parameter]) -> None:
    """Raise if the optimiser is another model's; warn if it leaves some of the parameters out."""
    held = {id(tensor) for group in optimizer.param_groups for tensor in group["params"]}
    missing = [name for name, p in parameters.items() if p.requires_grad and id(p) not in held]
    if missing and not held & {id(parameter) for parameter in parameters.values()}:
        raise Error(
            "The optimiser holds none of the model's parameters, so that nothing would be trained: it was "
            f"made for another model. Make it for this one: {type(optimizer).__name__}(model.parameters(), "
            "...)."
        )
    if missing:
        more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
        _LOG.warning(
            "The optimiser leaves out %s%s, which will not be trained. If that is meant, call "
            "requires_grad_(False) on them.",
            *(", ".join(missing[:3]), more),
        )


def _settings(optimizer: torch.optim.Optimizer) -> list[dict[str, Any]]:
    return [{n: group[n] for n in _CONSTANT_AT if n in group} for group in optimizer.param_groups]


def _constants(optimizer: torch.optim.Optimizer) -> list[set[str]]:
    """For each group of parameters the settings that are compiled in."""
    marked = getattr(optimizer, "variable_attrs", None)

    def is_constant(name: str, value: Any) -> bool:
        if marked is not None:
            return marked.isConstant(name)
        at = _CONSTANT_AT[name]
        if name == "weight_decay" and isinstance(optimizer, torch.optim.AdamW):
            at = 1e-2  # torch's default there
        return at is _ALWAYS or (at is not _NEVER and value == at)

    return [{n for n, value in group.items() if is_constant(n, value)} for group in _settings(optimizer)]
