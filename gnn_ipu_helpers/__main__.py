"""`python -m gnn_ipu_helpers script.py …`: runs a script written for the Poplar SDK where there is none."""

from __future__ import annotations

import atexit
import importlib.machinery
import os
import signal
import sys
import types
from typing import Any

from .sdk_scripts import stand_in_for_the_sdk

_USAGE = """\
usage: python -m gnn_ipu_helpers script.py [arguments of the script]

Runs a script that imports poptorch and poptorch_geometric as 'python script.py' would, with this package
standing for both where they are not installed."""


def main(arguments: list[str]) -> None:
    """Run the script `arguments[0]` as `__main__`, with `arguments` as `sys.argv`."""
    if not arguments or arguments[0] in ("-h", "--help"):
        print(_USAGE, file=sys.stdout if arguments else sys.stderr)
        sys.exit(0 if arguments else 2)
    script = os.path.abspath(arguments[0])
    try:
        with open(script, "rb") as file:
            source = file.read()
    except OSError as error:
        print(
            f"{sys.executable}: can't open file {script!r}: [Errno {error.errno}] {error.strerror}",
            file=sys.stderr,
        )
        sys.exit(2)

    sys.argv[:] = arguments
    if not getattr(sys.flags, "safe_path", False):  # with -P there is no folder of the script in it
        sys.path[0] = os.path.dirname(os.path.realpath(script))
    print(stand_in_for_the_sdk(), file=sys.stderr)
    # Not runpy, which takes the module away when the script ends: threads and exit handlers still need it.
    module = types.ModuleType("__main__")
    module.__dict__.update(
        __annotations__={},
        __file__=script,
        __builtins__=__builtins__,
        __cached__=None,
        __loader__=importlib.machinery.SourceFileLoader("__main__", script),
    )
    sys.modules["__main__"] = module
    interrupted: list[BaseException] = []
    # Registered first, so that it runs after all that the script registers.
    atexit.register(_die_if_interrupted, interrupted)
    try:
        exec(compile(source, script, "exec", dont_inherit=True), module.__dict__)
    except BaseException as error:
        interrupted += [error] if isinstance(error, KeyboardInterrupt) else []
        _hide_frames_before(script)
        raise


def _die_if_interrupted(interrupted: list[BaseException]) -> None:
    """Ends the process as Python ends for Ctrl-C in a script; for one in a module, its exit code is 1."""
    if interrupted:
        sys.stdout.flush()
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)


def _hide_frames_before(script: str) -> None:
    """Makes the traceback that Python is about to print begin in the script."""
    show = sys.excepthook

    def show_from_script(kind: Any, error: Any, traceback: Any) -> None:
        while traceback is not None and traceback.tb_frame.f_code.co_filename != script:
            traceback = traceback.tb_next
        error.__traceback__ = traceback  # which Python's own hook looks at
        show(kind, error, traceback)

    sys.excepthook = show_from_script


if __name__ == "__main__":
    main(sys.argv[1:])
