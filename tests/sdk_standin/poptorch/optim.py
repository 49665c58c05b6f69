"""PopTorch's optimisers on the host: they hold settings, the device does the arithmetic."""

import torch

from ._names import OPTIMISERS, method


class VariableAttributes:
    """Which settings of an optimiser may change after compilation: those given to its constructor."""

    def __init__(self, variable_attributes, allowed_attributes):
        self._variable, self._allowed = list(variable_attributes), allowed_attributes

    def isConstant(self, attr):
        return attr not in self._variable

    def _check(self, attr):
        assert attr in self._allowed, f"Unknown attribute {attr}, allowed values: {self._allowed}"

    def markAsConstant(self, attr):
        self._check(attr)
        self._variable = [name for name in self._variable if name != attr]

    def markAsVariable(self, attr):
        self._check(attr)
        self._variable.append(attr)


class Optimizer:
    def __init__(self):
        self._ipu_state = {"ipu_state": None, "ipu_param": None}

    def state_dict(self):
        return self.get_state_dict()

    def load_state_dict(self, state):
        torch.optim.Optimizer.load_state_dict(self, state)
        self.set_state_dict(state)

    def get_state_dict(self):
        return {**self._ipu_state, **torch.optim.Optimizer.state_dict(self)}

    def set_state_dict(self, state):
        if not state:
            raise RuntimeError("Cannot load optimizer state dictionary because it is empty.")
        if "ipu_state" not in state or "ipu_param" not in state:
            raise RuntimeError("Only IPU optimizer states can be loaded onto the IPU.")
        self._ipu_state = {name: state[name] for name in ("ipu_state", "ipu_param")}

    def has_state(self):
        return None not in self._ipu_state.values()

    def _setup(self, given, own):
        """`given`: what the constructor got. `own`: the settings that torch does not know, and defaults."""
        given = {name: value for name, value in given.items() if name not in ("self", "params", "to")}
        passed = {name: value for name, value in given.items() if value is not None}
        for name, default in own.items():
            setattr(self, name, passed.get(name, default))
        self.variable_attrs = VariableAttributes(passed, list(given))
        return {name: value for name, value in passed.items() if name not in own}


_FLOAT = torch.float32
_ACCUMULATION = {"loss_scaling": 1.0, "accum_type": _FLOAT}
_MOMENTS = {
    **_ACCUMULATION,
    "first_order_momentum_accum_type": _FLOAT,
    "second_order_momentum_accum_type": _FLOAT,
}
_VELOCITY = {"velocity_scaling": 1.0, "use_combined_accum": False, "velocity_accum_type": _FLOAT}
_CLIPPING = {"max_grad_norm": float("inf")}
_LAMB = {"lr": 1e-3, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.0, "max_weight_norm": 65500.0}


class _Lamb(torch.optim.Optimizer):
    """What torch has no class for: settings and groups."""

    def __init__(self, params, **settings):
        super().__init__(params, {**_LAMB, **settings})

    def step(self, closure=None):
        raise RuntimeError("LAMB steps on the device: call the wrapped model.")


def _optimiser(name, base, own):
    def make(self, _, given):
        Optimizer.__init__(self)
        base.__init__(self, given["params"], **self._setup(given, own))

    members = {"__init__": method("__init__", OPTIMISERS[name][0], {}, make), "__module__": __name__}
    return type(name, (Optimizer, base), members)


SGD = _optimiser("SGD", torch.optim.SGD, {**_ACCUMULATION, **_VELOCITY, **_CLIPPING})
Adam = _optimiser("Adam", torch.optim.Adam, {**_MOMENTS, **_CLIPPING})
AdamW = _optimiser("AdamW", torch.optim.AdamW, {**_MOMENTS, **_CLIPPING, "bias_correction": True})
RMSprop = _optimiser("RMSprop", torch.optim.RMSprop, {**_MOMENTS, "use_tf_variant": False})
LAMB = _optimiser("LAMB", _Lamb, {**_MOMENTS, "bias_correction": True})
