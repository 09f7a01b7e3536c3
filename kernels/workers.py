"""Processes that do what one Python cannot do alone: compile many kernels at once."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import active_children, get_context, parent_process
from threading import Thread
from typing import Any


@contextmanager
def workers(
    count: int, prepare: Callable[..., None] | None = None, *args: Any
) -> Iterator[ProcessPoolExecutor]:
    """`count` fresh processes, each of which runs `prepare(*args)` first.

    They do not hear ctrl+c. They end at once where the caller leaves by an exception or dies: what they are at is of no
    use then.
    """
    others = set(active_children())
    pool = ProcessPoolExecutor(
        count, mp_context=get_context("spawn"), initializer=_begin, initargs=(prepare, *args)
    )
    try:
        with _deaf_children():
            for _ in range(count):
                pool.submit(os.getpid)  # starts one
        yield pool
        pool.shutdown()
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)  # first: a broken pool complains of what waits in it
        ours = set(active_children()) - others
        for worker in ours:
            worker.terminate()
        for worker in ours:
            worker.join()
        raise


@contextmanager
def _deaf_children() -> Iterator[None]:
    """What is started here is never interrupted: a terminal's ctrl+c goes to every process of a command."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _begin(prepare: Callable[..., None] | None, *args: Any) -> None:
    Thread(target=_end_with_parent, daemon=True).start()
    if prepare is not None:
        prepare(*args)


def _end_with_parent() -> None:
    parent = parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)
