"""The table of PopTorch's public names, and how the stand-in makes methods of it."""

import os
import runpy

_PATH = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "names.py")
_table = runpy.run_path(_PATH)
FUNCTIONS, CLASSES = _table["FUNCTIONS"], _table["CLASSES"]
OPTIMISERS, ENUMERATIONS, MODULE = _table["OPTIMISERS"], _table["ENUMERATIONS"], _table["MODULE"]


def method(name, parameters, namespace, to):
    """A method `name` with the listed parameters that calls `to(self, name, {parameter: value})`."""
    scope = {**namespace, "to": to}
    comma = ", " if parameters != "()" else ""
    exec(f"def {name}(self{comma}{parameters[1:]}:\n    return to(self, {name!r}, locals())", scope)
    return scope[name]
