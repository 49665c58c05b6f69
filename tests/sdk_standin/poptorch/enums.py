"""PopTorch's enumerations."""

import enum

from ._names import ENUMERATIONS

for _name, _members in ENUMERATIONS.items():
    globals()[_name] = enum.Enum(_name, _members, module=__name__, start=0)
