"""The one error a user is meant to read."""


class SpecmonError(Exception):
    """Something the user can mend, said in one sentence.

    Args:
        message: what is wrong and where, one sentence without a final newline.
        hint: how to mend it; empty where there is nothing to do.
        exit_code: 1 for a failure at run time, 2 for a wrong call (usage).
    """

    def __init__(self, message: str, hint: str = "", *, exit_code: int = 1) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.exit_code = exit_code

    def __str__(self) -> str:
        return f"{self.message} {self.hint}".strip()


class UsageError(SpecmonError):
    """A wrong call: an option, a path or a file that cannot be used as given (exit code 2)."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message, hint, exit_code=2)
