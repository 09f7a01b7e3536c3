"""How a process ended, in words."""

from __future__ import annotations

import signal

_WHY = {
    signal.SIGKILL: "it was killed from outside",
    signal.SIGTERM: "it was asked to end from outside",
    signal.SIGSEGV: "it reached for memory that is not its own",
    signal.SIGBUS: "memory behind a mapping was gone: a full /dev/shm, or a model file that shrank",
    signal.SIGILL: "this processor lacks an instruction the installed torch uses",
    signal.SIGABRT: "a library gave up",
    signal.SIGFPE: "an arithmetic fault in a library",
}


def ended_by(number: int, *, out_of_memory: bool = False) -> str:
    """The end of a process by signal `number`, e.g. "was ended by SIGKILL: it was killed from outside".

    Args:
        out_of_memory: the system ended processes for want of memory while it ran.
    """
    try:
        name = signal.Signals(number).name
    except ValueError:
        return f"was ended by signal {number}"
    if number == signal.SIGKILL and out_of_memory:
        return f"was ended by {name}: the system ran out of memory"
    why = _WHY.get(signal.Signals(number))
    return f"was ended by {name}" + (f": {why}" if why else "")
