"""Any exception in words for the user, as the answer to the command that failed."""

from __future__ import annotations

from pathlib import Path

from specmon.core.engine.messages import Refused
from specmon.core.errors import SpecmonError

LESS_MEMORY = "Use a smaller model, or free memory and try again."


def refusal(of: str, error: BaseException, *, log: Path) -> Refused:
    """The answer to a command that failed; what the user cannot mend points at the log."""
    if isinstance(error, SpecmonError):
        return Refused(of=of, message=error.message, hint=error.hint, exit_code=error.exit_code)
    if is_out_of_memory(error):
        return Refused(of=of, message=sentence(error), hint=LESS_MEMORY)
    return Refused(of=of, message=sentence(error), hint=f"The traceback is in {log}.")


def sentence(error: BaseException) -> str:
    """One sentence on what happened."""
    if isinstance(error, SpecmonError):
        return str(error)
    if is_out_of_memory(error):
        return "Memory ran out."
    said = " ".join(str(error).split())
    return (
        f"Something unexpected went wrong: {type(error).__name__}" + (f": {said[:300]}" if said else "") + "."
    )


def is_out_of_memory(error: BaseException) -> bool:
    """torch raises its own kind on a GPU, and a plain RuntimeError that names its allocator on a CPU."""
    return (
        isinstance(error, MemoryError)
        or type(error).__name__ == "OutOfMemoryError"
        or "DefaultCPUAllocator: can't allocate memory" in str(error)
    )
