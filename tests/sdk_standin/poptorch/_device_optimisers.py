"""One step of an optimiser on the device, from the settings that reached it."""

import logging

import torch

from . import optim

_logger = logging.getLogger("poptorch::python")

# The kinds that a device knows, most special first: torch's AdamW may derive from its Adam.
_KINDS = [
    ("LAMB", optim.LAMB),
    ("SGD", torch.optim.SGD),
    ("AdamW", torch.optim.AdamW),
    ("Adam", torch.optim.Adam),
    ("RMSprop", torch.optim.RMSprop),
]
_KNOWN = {kind for _, kind in _KINDS} | {optim.SGD, optim.Adam, optim.AdamW, optim.RMSprop}

_GROUP_SETTINGS = (
    "lr",
    "weight_decay",
    "momentum",
    "dampening",
    "nesterov",
    "betas",
    "eps",
    "alpha",
    "centered",
) + ("amsgrad", "max_weight_norm")
_OWN_SETTINGS = {
    "loss_scaling": 1.0,
    "max_grad_norm": float("inf"),
    "bias_correction": True,
    "use_tf_variant": False,
}
# Without PopTorch's record of what was passed: a setting with this value is a constant. The last are always.
_CONSTANT_AT = {
    "weight_decay": 0.0,
    "momentum": 0.0,
    "dampening": 0.0,
    "eps": 1e-8,
    "max_weight_norm": 65500.0,
}
_ALWAYS_CONSTANT = {
    "alpha",
    "nesterov",
    "betas",
    "centered",
    "max_grad_norm",
    "bias_correction",
    "use_tf_variant",
}


def read_settings(optimizer):
    """What a device is told: the kind, and for each group `{name: (value, is_constant)}`."""
    if type(optimizer) not in _KNOWN:
        bases = type(optimizer).__bases__
        if torch.optim.Optimizer not in bases and optim.Optimizer not in bases:
            _logger.warning(
                "Optimizer `%s`: PopTorch does not run Python optimizer code.", type(optimizer).__name__
            )
    kind = next((name for name, cls in _KINDS if isinstance(optimizer, cls)), None)
    assert kind is not None, (
        f"Unsupported optimizer type. Types supported {', '.join(name for name, _ in _KINDS)}"
    )
    groups = []
    for group in optimizer.param_groups:
        if group.get("amsgrad"):
            raise ValueError("Only non-amsgrad Adam/AdamW optimizers are supported.")
        values = {name: group[name] for name in _GROUP_SETTINGS if name in group}
        values.update({name: getattr(optimizer, name, default) for name, default in _OWN_SETTINGS.items()})
        groups.append(
            {name: (value, _is_constant(optimizer, kind, name, value)) for name, value in values.items()}
        )
    return kind, groups


def _is_constant(optimizer, kind, name, value):
    variable = getattr(optimizer, "variable_attrs", None)
    if variable is not None:
        return variable.isConstant(name)
    constant = 1e-2 if kind == "AdamW" and name == "weight_decay" else _CONSTANT_AT.get(name)
    return name in _ALWAYS_CONSTANT or value == constant


def changed_constants(old, new):
    """Names of constants that differ: the program on the device has them built in."""
    if old[0] != new[0]:
        return ["the type of the optimizer"]
    return [
        name
        for one, other in zip(old[1], new[1])
        for name, (value, is_constant) in one.items()
        if name in other and other[name][0] != value and (is_constant or other[name][1])
    ]


@torch.no_grad()
def step(kind, groups, gradients, states):
    """Update the tensors of `groups`, pairs of settings and tensors, by `gradients`, keyed by tensor."""
    for settings, members in groups:
        s = {name: value for name, (value, _) in settings.items()}
        members = [member for member in members if member in gradients]
        norm = torch.stack([gradients[m].square().sum() for m in members]).sum().sqrt() if members else 0.0
        factor = min(1.0, s["max_grad_norm"] / max(float(norm), 1e-30))
        for member in members:
            _RULES[kind](member, gradients[member] * factor, s, states.setdefault(member, {}))


def _sgd(w, g, s, state):
    g = g + s["weight_decay"] * w
    if s["momentum"]:
        first = "v" not in state
        state["v"] = g.clone() if first else s["momentum"] * state["v"] + (1 - s["dampening"]) * g
        g = g + s["momentum"] * state["v"] if s["nesterov"] else state["v"]
    w.sub_(s["lr"] * g)


def _moments(g, s, state):
    """The two moving averages of Adam, corrected or not."""
    beta1, beta2 = s["betas"]
    state["t"] = state.get("t", 0) + 1
    state["m"] = beta1 * state.get("m", torch.zeros_like(g)) + (1 - beta1) * g
    state["v"] = beta2 * state.get("v", torch.zeros_like(g)) + (1 - beta2) * g * g
    if not s["bias_correction"]:
        return state["m"], state["v"]
    return state["m"] / (1 - beta1 ** state["t"]), state["v"] / (1 - beta2 ** state["t"])


def _adam(w, g, s, state):
    m, v = _moments(g + s["weight_decay"] * w, s, state)
    w.sub_(s["lr"] * m / (v.sqrt() + s["eps"]))


def _adamw(w, g, s, state):
    m, v = _moments(g, s, state)
    w.sub_(s["lr"] * (m / (v.sqrt() + s["eps"]) + s["weight_decay"] * w))


def _lamb(w, g, s, state):
    m, v = _moments(g, s, state)
    update = m / (v.sqrt() + s["eps"]) + s["weight_decay"] * w
    weight_norm, update_norm = w.norm().clamp(max=s["max_weight_norm"]), update.norm()
    ratio = torch.where((weight_norm > 0) & (update_norm > 0), weight_norm / update_norm, torch.ones(()))
    w.sub_(s["lr"] * ratio * update)


def _rmsprop(w, g, s, state):
    g = g + s["weight_decay"] * w
    start = torch.ones_like(g) if s["use_tf_variant"] else torch.zeros_like(g)
    state["v"] = s["alpha"] * state.get("v", start) + (1 - s["alpha"]) * g * g
    variance = state["v"]
    if s["centered"]:
        state["m"] = s["alpha"] * state.get("m", torch.zeros_like(g)) + (1 - s["alpha"]) * g
        variance = variance - state["m"] ** 2
    root = (variance + s["eps"]).sqrt() if s["use_tf_variant"] else variance.sqrt() + s["eps"]
    g = g / root
    if s["momentum"]:
        g = state["b"] = s["momentum"] * state.get("b", torch.zeros_like(g)) + g
    w.sub_(s["lr"] * g)


_RULES = {"SGD": _sgd, "Adam": _adam, "AdamW": _adamw, "LAMB": _lamb, "RMSprop": _rmsprop}
