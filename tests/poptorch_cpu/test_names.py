"""Every public name of PopTorch is there with its parameters and defaults, and no other name is."""

import inspect

import pytest

from gnn_ipu_helpers import poptorch_cpu as poptorch
from gnn_ipu_helpers.poptorch_cpu import options
from tests.sdk_standin import names

# What PopTorch has besides the listed calls.
ALSO_PUBLIC = {
    *("Error", "RecoverableError", "UnrecoverableError", "isRunningOnIpu", "module_repr"),
    *("enums", "optim", "options", "poptorch_core", "profiling"),
}
# What PopTorch's sources let one read from settings and strategies without documenting it.
ALSO_READABLE = {
    *("checkIsFrozen", "exists", "options", "toDict"),
    *("phase", "stage", "stages", "useSeparateBackwardPhase"),
}
FUNCTIONS = sorted(names.FUNCTIONS.items())
CLASSES = sorted(names.CLASSES.items())
METHODS = [(owner, *method) for owner, (_, methods) in CLASSES for method in sorted(methods.items())]
OPTIMISERS = sorted(names.OPTIMISERS.items())


def _find(name):
    return getattr(poptorch, name) if name in poptorch.__all__ else getattr(options, name)


def _parameters_of(function, skip_self=False):
    """A function's parameters, each with its kind and default."""
    parameters = list(inspect.signature(function).parameters.values())[skip_self:]
    return [(parameter.name, parameter.kind, parameter.default) for parameter in parameters]


def _listed(text):
    return _parameters_of(eval(f"lambda {text[1:-1]}: None", vars(poptorch)))


@pytest.mark.parametrize(("name", "signature"), FUNCTIONS)
def test_function_has_the_listed_parameters_of(name, signature):
    assert _parameters_of(getattr(poptorch, name)) == _listed(signature)


@pytest.mark.parametrize(("name", "signature"), [(name, entry[0]) for name, entry in CLASSES])
def test_class_is_made_with_the_listed_parameters_of(name, signature):
    made = _find(name)
    if signature:
        assert _parameters_of(made.__init__, skip_self=True) == _listed(signature)


@pytest.mark.parametrize(("owner", "name", "signature"), METHODS)
def test_method_has_the_listed_parameters_of(owner, name, signature):
    method = inspect.getattr_static(_find(owner), name)
    if signature == "property":
        assert isinstance(method, property)
    else:
        is_static = isinstance(method, staticmethod)
        assert _parameters_of(getattr(_find(owner), name), skip_self=not is_static) == _listed(signature)


@pytest.mark.parametrize(("name", "entry"), OPTIMISERS)
def test_optimiser_has_the_listed_parameters_and_methods(name, entry):
    optimiser = getattr(poptorch.optim, name)
    signature, methods = entry
    if name != "Optimizer":
        assert _parameters_of(optimiser.__init__, skip_self=True) == _listed(signature)
        assert all(callable(getattr(optimiser, method)) for method in methods)


@pytest.mark.parametrize(("name", "members"), sorted(names.ENUMERATIONS.items()))
def test_enumeration_has_the_listed_members(name, members):
    assert [member.name for member in getattr(poptorch, name)] == members


def test_no_other_name_is_public():
    listed = {*names.FUNCTIONS, *names.CLASSES, *names.ENUMERATIONS, *ALSO_PUBLIC}
    assert set(poptorch.__all__) <= listed
    assert {name for name in listed if not name.startswith("_")} <= set(poptorch.__all__)


@pytest.mark.parametrize(
    "name", [name for name, entry in CLASSES if entry[1] and name not in ("DataLoader", "Block")]
)
def test_class_has_no_other_public_name(name):
    public = {member for member in dir(_find(name)) if not member.startswith("_")}
    assert public <= {*names.CLASSES[name][1], *ALSO_READABLE}


def test_unknown_name_raises_and_names_the_closest():
    with pytest.raises(AttributeError, match="has no name 'identityLoss'.*Did you mean identity_loss"):
        _ = poptorch.identityLoss
