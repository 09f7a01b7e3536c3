"""How the round loop reaches a drafter: in its own process, or here.

Every wait is bounded: a worker that died is noticed and said.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import time
from collections import deque
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any, Protocol, TypeVar

from torch import Tensor

from specmon.core.device_clock import DeviceClock
from specmon.core.drafters.base import Answer, Branches, Drafted, Drafter, DrafterInfo, Outcome, Settled
from specmon.core.drafters.desk import Desk
from specmon.core.drafters.shared_board import SharedBoard
from specmon.core.endings import ended_by
from specmon.core.errors import SpecmonError
from specmon.core.models.pool import Progress, unwatched

Clock = Callable[[], int]
A = TypeVar("A", bound=Answer)
_POLL_S = 0.25
_LOAD_LIMIT_S = 600.0
_ANSWER_LIMIT_S = 120.0


class DraftLink(Protocol):
    """The round loop's side of a drafter. `apart`: it runs on a device of its own, at the same time as the target."""

    apart: bool

    @property
    def info(self) -> DrafterInfo:
        """Waits for the drafter to be loaded. Raises: SpecmonError where it could not be."""
        ...

    def revive(self) -> bool:
        """Before a turn: start the drafter again if it died. True: its context is empty now."""
        ...

    def timed_by(self, device_clock: DeviceClock | None) -> None:
        """Give a drafter on the target's device the target's clock of it, where its passes are stamped."""
        ...

    def begin(self, tokens: list[int], features_NF: Tensor | None, first: int) -> None: ...

    def script(self, truth: list[int]) -> None:
        """Hand a scripted drafter the true text."""
        ...

    def draft(self, draft_len: int) -> Drafted:
        """Draft after the confirmed context and wait for it."""
        ...

    def prepare(self, fan_out: tuple[int, ...], draft_len: int) -> None:
        """Start preparing branches for the last proposal's outcomes."""
        ...

    def outcome(self, outcome: Outcome) -> None:
        """Say what verification decided. Where a branch was finished for it, that is the last proposal now."""
        ...

    def branches(self) -> Branches:
        """After `prepare`: what is prepared, once it is; when `outcome` was said it may be that outcome's alone."""
        ...

    def settled(self) -> Settled:
        """After `prepare`, `outcome` and `branches`, at any time later: how the drafter took the outcome in."""
        ...

    def close(self) -> None: ...


class InlineLink:
    """The drafter runs here, one thing after the other: both roles on one device."""

    apart = False

    def __init__(self, drafter: Drafter, clock: Clock) -> None:
        self.info = drafter.info
        self._drafter, self._clock = drafter, clock
        self._desk = Desk(drafter, clock)
        self._branches: Branches | None = None
        self._settled: deque[Settled] = deque()

    def revive(self) -> bool:
        return False

    def timed_by(self, device_clock: DeviceClock | None) -> None:
        self._desk = Desk(self._drafter, self._clock, device_clock, measured=True)

    def begin(self, tokens: list[int], features_NF: Tensor | None, first: int) -> None:
        self._settled.clear()
        self._desk.begin(tokens, features_NF, first)

    def script(self, truth: list[int]) -> None:
        self._desk.script(truth)

    def draft(self, draft_len: int) -> Drafted:
        return self._desk.draft(draft_len)

    def prepare(self, fan_out: tuple[int, ...], draft_len: int) -> None:
        self._branches = self._desk.prepare(fan_out, draft_len, lambda: None)

    def outcome(self, outcome: Outcome) -> None:
        settled = self._desk.settle(outcome)
        if settled is not None:
            self._settled.append(settled)

    def branches(self) -> Branches:
        assert self._branches is not None
        branches, self._branches = self._branches, None
        return branches

    def settled(self) -> Settled:
        return self._settled.popleft()

    def close(self) -> None:
        pass


class WorkerLink:
    """The drafter runs in a process of its own, pinned to its device.

    Args:
        build: makes the drafter in the worker; must be importable by name, with picklable arguments.
        core: the CPU core to run on, None for any. clock: the lane clock.
        progress: told what the first loading does, as `build` tells its own `progress`; without it `build` takes none.
    """

    apart = True

    def __init__(
        self,
        build: Callable[..., Drafter],
        arguments: tuple[Any, ...],
        *,
        device: str,
        core: int | None,
        clock: Clock,
        progress: Progress | None = None,
    ) -> None:
        self._device = device
        self._progress = progress or unwatched
        self._board: SharedBoard | None = None
        self._work = (build, arguments, device, core, time.monotonic_ns() - clock(), progress is not None)
        self._start()

    def _start(self) -> None:
        from specmon.core.drafters.worker import run_worker

        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(
            target=run_worker, args=(theirs, *self._work), name=f"specmon draft {self._device}", daemon=True
        )
        self._process.start()
        theirs.close()
        self._info: DrafterInfo | None = None
        self._begun = 0
        self._settled: deque[Settled] = deque()
        if self._board is not None:
            if self._board.passage is not None:
                self._board.passage.reset()
            self._send("board", self._board.memory, self._board.n_features)

    @property
    def info(self) -> DrafterInfo:
        while self._info is None:
            told = self._receive(_LOAD_LIMIT_S)
            if isinstance(told, DrafterInfo):
                self._info, self._progress = told, unwatched
            else:
                self._progress(*told)
        return self._info

    def revive(self) -> bool:
        if self._process.is_alive():
            return False
        self._end()
        self._start()
        return self.info is not None

    def timed_by(self, device_clock: DeviceClock | None) -> None:
        """Nothing: the worker measures its own device's clock."""

    def begin(self, tokens: list[int], features_NF: Tensor | None, first: int) -> None:
        self._begun += 1
        self._settled.clear()
        passage = self._board.passage if self._board is not None else None
        if features_NF is None or passage is None:
            self._send("begin", tokens, _on_host(features_NF), first)
        else:
            self._send("begin", tokens, len(features_NF), first)
            passage.put(features_NF, self.check)

    def script(self, truth: list[int]) -> None:
        self._send("script", truth)

    def draft(self, draft_len: int) -> Drafted:
        self._send("draft", draft_len)
        return self._answer(Drafted)

    def prepare(self, fan_out: tuple[int, ...], draft_len: int) -> None:
        self._send("prepare", fan_out, draft_len)

    def outcome(self, outcome: Outcome) -> None:
        self._send("outcome", outcome.accepted, outcome.bonus, _on_host(outcome.features_AF))

    def branches(self) -> Branches:
        return self._answer(Branches)

    def settled(self) -> Settled:
        return self._settled.popleft() if self._settled else self._answer(Settled)

    # --- rounds that the target's device runs one after another -----------------------------------------------

    def board(self, n_features: int = 0) -> SharedBoard:
        """The board on which the worker and the target's device hand over, features of `n_features` numbers a row too."""
        if self._board is None:
            self._board = SharedBoard(n_features)
            self._send("board", self._board.memory, n_features)
        return self._board

    def round(self, serial: int, fan_out: tuple[int, ...] | None, draft_len: int) -> None:
        """A round is queued: let its branches be prepared, and drafted after it where none is for its outcome.

        `branches` and `settled` are answered, and after a miss `drafted`; without a `fan_out` there are no branches, and
        `drafted` alone is. The outcome is the device's to tell.
        """
        self._send("round", serial, fan_out, draft_len)

    def drafted(self) -> Drafted:
        """After `branches` and `settled` of a round that missed: the draft made after it."""
        return self._answer(Drafted)

    def check(self) -> None:
        """Raises: SpecmonError where the worker is gone, as it said itself if it could."""
        if self._process.is_alive():
            return
        while True:
            self._receive(_ANSWER_LIMIT_S)  # an answer of before, or what it failed at; at the end its death

    def close(self) -> None:
        """End the worker; its board is gone with it, so nothing may be queued that looks there."""
        self._end()
        if self._board is not None:
            self._board.unpin()

    def _end(self) -> None:
        with contextlib.suppress(OSError):
            self._pipe.close()
        self._process.join(timeout=2)
        if self._process.is_alive():
            self._process.terminate()
            self._process.join(timeout=2)

    def _send(self, *message: Any) -> None:
        try:
            self._pipe.send(message)
        except OSError as broken:
            raise self._death() from broken

    def _answer(self, kind: type[A]) -> A:
        """The next answer of `kind`. A `Settled` before it is kept; what earlier turns asked for is dropped."""
        while True:
            begun, answer = self._receive(_ANSWER_LIMIT_S)
            if begun != self._begun:
                continue
            if isinstance(answer, kind):
                return answer
            assert isinstance(answer, Settled)
            self._settled.append(answer)

    def _receive(self, limit_s: float) -> Any:
        return receive(self._pipe, limit_s, self._process.is_alive, self._death)

    def _death(self) -> SpecmonError:
        self._process.join(timeout=2)
        return death_of_worker(self._process.exitcode)


def death_of_worker(exitcode: int | None) -> SpecmonError:
    """Why the draft worker is gone. Args: exitcode: negative for a signal, None if it hung up but still runs."""
    if exitcode is None:
        how = "hung up and does not end"
    else:
        how = ended_by(-exitcode) if exitcode < 0 else f"ended with code {exitcode}"
    return SpecmonError(f"The draft worker {how}.")


def receive(
    pipe: Connection, limit_s: float, alive: Callable[[], bool], death: Callable[[], SpecmonError]
) -> Any:
    """Wait for one answer, at most `limit_s`; an answer that is an exception is raised.

    Raises: SpecmonError if the other side is gone, silent, or reports one.
    """
    deadline = time.monotonic() + limit_s
    while not pipe.poll(_POLL_S):
        if not alive() and not pipe.poll(0):
            raise death()
        if time.monotonic() > deadline:
            raise SpecmonError(f"The draft worker gave no answer for {limit_s:.0f} s.")
    try:
        answer = pipe.recv()
    except (EOFError, OSError) as broken:
        raise death() from broken
    if isinstance(answer, BaseException):
        raise answer
    return answer


def _on_host(tensor: Tensor | None) -> Any:
    """A tensor as something a pipe carries cheaply (NumPy has no bf16, so fp32)."""
    return None if tensor is None else tensor.detach().float().cpu().numpy()
