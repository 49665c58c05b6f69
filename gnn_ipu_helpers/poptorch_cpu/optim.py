"""PopTorch's optimisers: torch's own, with the arguments that only an IPU uses kept beside them."""

from __future__ import annotations

from typing import Any, Callable, Iterable

import torch


class Optimizer:
    """What PopTorch's optimisers share: reading and restoring their state.

    ``loss_scaling`` cancels out in float32; it and the types of accumulators are kept and have no effect
    here.
    """

    loss_scaling = 1.0
    max_grad_norm: float | None = None

    def _keep(self, loss_scaling: float | None, max_grad_norm: float | None = None, **ipu_only: Any) -> None:
        self.loss_scaling = 1.0 if loss_scaling is None else loss_scaling
        self.max_grad_norm = max_grad_norm
        for name, value in ipu_only.items():
            setattr(self, name, value)

    def get_state_dict(self) -> dict:
        """The state, as ``state_dict``."""
        return self.state_dict()

    def set_state_dict(self, state: dict) -> None:
        """Restore the state, as ``load_state_dict``."""
        self.load_state_dict(state)

    def has_state(self) -> bool:
        """Whether there is a state yet: after the first step."""
        return len(self.state) > 0


def _given(**arguments: Any) -> dict[str, Any]:
    """The arguments that were given: ``None`` means torch's default."""
    return {name: value for name, value in arguments.items() if value is not None}


def _listed(params: Iterable) -> list:
    """Parameters, or groups of them, that can be gone over more than once."""
    return [
        {**item, "params": list(item["params"])}
        if isinstance(item, dict) and not isinstance(item["params"], torch.Tensor)
        else item
        for item in params
    ]


def _fused_if_possible(params: list, given: dict[str, Any]) -> dict[str, Any]:
    """``given``, with torch's step in one kernel where it has one for all the parameters, for speed."""
    tensors = []
    for item in params:
        tensors.extend(item["params"] if isinstance(item, dict) else [item])
    is_plain = all(
        isinstance(tensor, torch.nn.Parameter) and tensor.is_floating_point() and tensor.device.type == "cpu"
        for tensor in tensors
    )
    has_other_kind = any(given.get(name) for name in ("foreach", "capturable", "differentiable"))
    is_new_enough = hasattr(getattr(torch, "compiler", None), "set_stance")
    if is_plain and is_new_enough and not has_other_kind:
        return {"fused": True, **given}
    return given


class SGD(Optimizer, torch.optim.SGD):
    """Stochastic gradient descent, as ``torch.optim.SGD``."""

    def __init__(
        self,
        params: Iterable,
        lr: float,
        momentum: float | None = None,
        dampening: float | None = None,
        weight_decay: float | None = None,
        nesterov: bool | None = None,
        maximize: bool | None = None,
        foreach: bool | None = None,
        differentiable: bool | None = None,
        loss_scaling: float | None = None,
        velocity_scaling: float | None = None,
        use_combined_accum: bool | None = None,
        accum_type: torch.dtype | None = None,
        velocity_accum_type: torch.dtype | None = None,
        max_grad_norm: float | None = None,
    ) -> None:
        given = _given(
            momentum=momentum,
            dampening=dampening,
            weight_decay=weight_decay,
            nesterov=nesterov,
            maximize=maximize,
            foreach=foreach,
            differentiable=differentiable,
        )
        params = _listed(params)
        torch.optim.SGD.__init__(self, params, lr, **_fused_if_possible(params, given))
        self._keep(
            loss_scaling,
            max_grad_norm,
            velocity_scaling=velocity_scaling,
            use_combined_accum=bool(use_combined_accum),
            accum_type=accum_type,
            velocity_accum_type=velocity_accum_type,
        )


class Adam(Optimizer, torch.optim.Adam):
    """Adam, as ``torch.optim.Adam``."""

    def __init__(
        self,
        params: Iterable,
        lr: float | None = None,
        betas: tuple[float, float] | None = None,
        eps: float | None = None,
        weight_decay: float | None = None,
        amsgrad: bool | None = None,
        foreach: bool | None = None,
        maximize: bool | None = None,
        capturable: bool | None = None,
        differentiable: bool | None = None,
        fused: bool | None = None,
        loss_scaling: float | None = None,
        accum_type: torch.dtype | None = None,
        first_order_momentum_accum_type: torch.dtype | None = None,
        second_order_momentum_accum_type: torch.dtype | None = None,
        max_grad_norm: float | None = None,
    ) -> None:
        given = _given(
            lr=lr,
            betas=betas,
            eps=eps,
            weight_decay=weight_decay,
            amsgrad=amsgrad,
            foreach=foreach,
            maximize=maximize,
            capturable=capturable,
            differentiable=differentiable,
            fused=fused,
        )
        params = _listed(params)
        torch.optim.Adam.__init__(self, params, **_fused_if_possible(params, given))
        self._keep(
            loss_scaling,
            max_grad_norm,
            accum_type=accum_type,
            first_order_momentum_accum_type=first_order_momentum_accum_type,
            second_order_momentum_accum_type=second_order_momentum_accum_type,
        )


class AdamW(Optimizer, torch.optim.AdamW):
    """AdamW, as ``torch.optim.AdamW``; without ``bias_correction`` the moments are used as they are."""

    def __init__(
        self,
        params: Iterable,
        lr: float | None = None,
        betas: tuple[float, float] | None = None,
        eps: float | None = None,
        weight_decay: float | None = None,
        amsgrad: bool | None = None,
        maximize: bool | None = None,
        foreach: bool | None = None,
        capturable: bool | None = None,
        differentiable: bool | None = None,
        fused: bool | None = None,
        loss_scaling: float | None = None,
        bias_correction: bool | None = None,
        accum_type: torch.dtype | None = None,
        first_order_momentum_accum_type: torch.dtype | None = None,
        second_order_momentum_accum_type: torch.dtype | None = None,
        max_grad_norm: float | None = None,
    ) -> None:
        given = _given(
            lr=lr,
            betas=betas,
            eps=eps,
            weight_decay=weight_decay,
            amsgrad=amsgrad,
            maximize=maximize,
            foreach=foreach,
            capturable=capturable,
            differentiable=differentiable,
            fused=fused,
        )
        params = _listed(params)
        torch.optim.AdamW.__init__(self, params, **_fused_if_possible(params, given))
        self._keep(
            loss_scaling,
            max_grad_norm,
            bias_correction=True if bias_correction is None else bias_correction,
            accum_type=accum_type,
            first_order_momentum_accum_type=first_order_momentum_accum_type,
            second_order_momentum_accum_type=second_order_momentum_accum_type,
        )

    @torch.no_grad()
    def step(self, closure: Callable | None = None) -> Any:
        """Update the parameters."""
        if self.bias_correction:
            return torch.optim.AdamW.step(self, closure)
        loss = _evaluate(closure)
        for group, parameter, state in _with_moments(self):
            _update_moments(state, parameter.grad, group["betas"])
            parameter.mul_(1 - group["lr"] * group["weight_decay"])
            denominator = state["exp_avg_sq"].sqrt().add_(group["eps"])
            parameter.addcdiv_(state["exp_avg"], denominator, value=-group["lr"])
        return loss


class RMSprop(Optimizer, torch.optim.RMSprop):
    """RMSprop, as ``torch.optim.RMSprop``; ``use_tf_variant`` puts epsilon inside the square root."""

    def __init__(
        self,
        params: Iterable,
        lr: float | None = None,
        alpha: float | None = None,
        eps: float | None = None,
        weight_decay: float | None = None,
        momentum: float | None = None,
        centered: bool | None = None,
        foreach: bool | None = None,
        maximize: bool | None = None,
        differentiable: bool | None = None,
        loss_scaling: float | None = None,
        accum_type: torch.dtype | None = None,
        first_order_momentum_accum_type: torch.dtype | None = None,
        second_order_momentum_accum_type: torch.dtype | None = None,
        use_tf_variant: bool | None = None,
    ) -> None:
        given = _given(
            lr=lr,
            alpha=alpha,
            eps=eps,
            weight_decay=weight_decay,
            momentum=momentum,
            centered=centered,
            foreach=foreach,
            maximize=maximize,
            differentiable=differentiable,
        )
        torch.optim.RMSprop.__init__(self, params, **given)
        self._keep(
            loss_scaling,
            accum_type=accum_type,
            first_order_momentum_accum_type=first_order_momentum_accum_type,
            second_order_momentum_accum_type=second_order_momentum_accum_type,
            use_tf_variant=bool(use_tf_variant),
        )
        if use_tf_variant:
            raise NotImplementedError(
                "RMSprop(use_tf_variant=True) is not available without an IPU: use torch's variant, the "
                "default."
            )


class LAMB(Optimizer, torch.optim.Optimizer):
    """LAMB: Adam's step for each layer, scaled by the norm of its weights over the norm of the step."""

    def __init__(
        self,
        params: Iterable,
        lr: float | None = None,
        betas: tuple[float, float] | None = None,
        eps: float | None = None,
        weight_decay: float | None = None,
        bias_correction: bool | None = None,
        loss_scaling: float | None = None,
        max_weight_norm: float | None = None,
        accum_type: torch.dtype | None = None,
        first_order_momentum_accum_type: torch.dtype | None = None,
        second_order_momentum_accum_type: torch.dtype | None = None,
    ) -> None:
        defaults = {"lr": 1e-3, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 1e-2}
        defaults.update(_given(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay))
        defaults["bias_correction"] = True if bias_correction is None else bias_correction
        torch.optim.Optimizer.__init__(self, params, defaults)
        self._keep(
            loss_scaling,
            max_weight_norm=max_weight_norm,
            accum_type=accum_type,
            first_order_momentum_accum_type=first_order_momentum_accum_type,
            second_order_momentum_accum_type=second_order_momentum_accum_type,
        )

    @torch.no_grad()
    def step(self, closure: Callable | None = None) -> Any:
        """Update the parameters."""
        loss = _evaluate(closure)
        for group, parameter, state in _with_moments(self):
            _update_moments(state, parameter.grad, group["betas"])
            mean, square = _corrected(state, group) if group["bias_correction"] else _moments(state)
            update = mean / (square.sqrt() + group["eps"]) + group["weight_decay"] * parameter
            parameter.add_(update, alpha=-group["lr"] * self._trust(parameter, update))
        return loss

    def _trust(self, parameter: torch.Tensor, update: torch.Tensor) -> float:
        weight_norm, update_norm = parameter.norm().item(), update.norm().item()
        if self.max_weight_norm is not None:
            weight_norm = min(weight_norm, self.max_weight_norm)
        return weight_norm / update_norm if weight_norm > 0 and update_norm > 0 else 1.0


def _evaluate(closure: Callable | None) -> Any:
    if closure is None:
        return None
    with torch.enable_grad():
        return closure()


def _with_moments(optimizer: torch.optim.Optimizer) -> Iterable[tuple[dict, torch.Tensor, dict]]:
    """Each parameter with a gradient, with its group and its state, made at the first step."""
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            if parameter.grad is None:
                continue
            state = optimizer.state[parameter]
            if not state:
                state["step"] = 0
                state["exp_avg"] = torch.zeros_like(parameter)
                state["exp_avg_sq"] = torch.zeros_like(parameter)
            yield group, parameter, state


def _update_moments(state: dict, gradient: torch.Tensor, betas: tuple[float, float]) -> None:
    state["step"] += 1
    state["exp_avg"].lerp_(gradient, 1 - betas[0])
    state["exp_avg_sq"].mul_(betas[1]).addcmul_(gradient, gradient, value=1 - betas[1])


def _moments(state: dict) -> tuple[torch.Tensor, torch.Tensor]:
    return state["exp_avg"], state["exp_avg_sq"]


def _corrected(state: dict, group: dict) -> tuple[torch.Tensor, torch.Tensor]:
    first, second = (1 - beta ** state["step"] for beta in group["betas"])
    return state["exp_avg"] / first, state["exp_avg_sq"] / second
