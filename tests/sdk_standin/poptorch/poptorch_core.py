"""The errors of PopTorch's compiled half."""


class Error(Exception):
    """What PopTorch raises itself: `message` is the text without the `type` in front of it."""

    def __init__(self, message="", type="poptorch_py_error", location=""):
        super().__init__(f"'{type}': {message}")
        self.message, self.type, self.location = message, type, location


class RecoverableError(Error):
    pass


class UnrecoverableError(Error):
    pass
