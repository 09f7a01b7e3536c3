"""The draft worker: a process of its own that owns the draft device."""

from __future__ import annotations

import contextlib
import os
import time
import traceback
from collections import deque
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

import torch

from specmon.core.device_clock import open_clock
from specmon.core.drafters.base import Answer, Branches, Drafter, Outcome
from specmon.core.drafters.desk import Desk
from specmon.core.drafters.passage import Passage
from specmon.core.drafters.shared_board import SharedBoard
from specmon.core.errors import SpecmonError
from specmon.core.garbage import set_aside
from specmon.core.models.replays import while_waiting
from specmon.kernels.relay.board import Board, key_of


def run_worker(
    pipe: Connection,
    build: Callable[..., Drafter],
    arguments: tuple[Any, ...],
    device: str,
    core: int | None,
    clock_zero: int,
    reports: bool = False,
) -> None:
    """Build the drafter, say what it is, then serve until the pipe closes.

    `reports`: `build` takes a `progress`, and what it is told crosses the pipe before the drafter's info.
    """

    def clock() -> int:
        return time.monotonic_ns() - clock_zero

    claim_device(device, core)
    with contextlib.suppress(EOFError, OSError, KeyboardInterrupt), torch.inference_mode():
        try:
            tell = {"progress": lambda what, part: pipe.send((what, part))} if reports else {}
            drafter = build(*arguments, **tell)
            pipe.send(drafter.info)
            device_clock = open_clock(device, clock)
            if device_clock is not None:
                device_clock.measure(t=clock(), lane=0, turn=0)  # compiles
            home = device if device.startswith("cuda") else "cpu"
            set_aside()
            Worker(pipe, Desk(drafter, clock, device_clock), clock_zero, home).serve()
        except (EOFError, OSError, KeyboardInterrupt):
            raise
        except SpecmonError as refused:
            pipe.send(refused)
        except Exception as failed:
            traceback.print_exc()
            pipe.send(SpecmonError(f"The draft worker failed: {failed}."))


def claim_device(device: str, core: int | None) -> None:
    """Take one core for a CPU device, or make the CUDA device current. One thread either way."""
    torch.set_num_threads(1)
    if device.startswith("cuda"):
        torch.cuda.set_device(device)
    elif core is not None:
        os.sched_setaffinity(0, {core})


class Worker:
    """Serves one link. While it prepares branches it looks for the outcome between steps.

    An answer says how many contexts were begun before it: what a turn asked for that was given up is known by that.
    """

    def __init__(self, pipe: Connection, desk: Desk, clock_zero: int, device: str = "cpu") -> None:
        self._pipe = pipe
        self._desk = desk
        self._zero = clock_zero
        self._device = device
        self._early: tuple[Outcome, int] | None = None
        self._unread: deque[tuple[str, list[Any]]] = deque()
        self._begun = 0
        self._board: Board | None = None
        self._passage: Passage | None = None
        self._in_passing: deque[tuple[int, Answer]] = deque()
        while_waiting(self._go_through_mail)

    def serve(self) -> None:
        while True:
            self.answer()

    def answer(self) -> None:
        """Wait for the next message and do what it asks."""
        kind, body = self._unread.popleft() if self._unread else self._read()
        self._handle(kind, body)

    @property
    def has_mail(self) -> bool:
        return bool(self._unread) or self._pipe.poll(0)

    def _read(self) -> tuple[str, list[Any]]:
        if not self._pipe.poll(0):
            self._send_in_passing()
        kind, *body = self._pipe.recv()
        return kind, body

    def _handle(self, kind: str, body: list[Any]) -> None:
        if kind == "begin":
            tokens, features, first = body
            self._begun += 1
            if isinstance(features, int):  # so many rows of them, through the passage
                assert self._passage is not None
                self._desk.begin(tokens, self._passage.take(features, self._device, lambda: None), first)
            else:
                self._desk.begin(tokens, _tensor(features), first)
        elif kind == "script":
            self._desk.script(body[0])
        elif kind == "draft":
            self._answer(self._desk.draft(body[0]))
        elif kind == "prepare":
            self._answer(self._desk.prepare(body[0], body[1], self._arrived))
            if self._early is not None:
                (outcome, received), self._early = self._early, None
                self._settle(outcome, received)
        elif kind == "board":
            memory, n_features = body
            shared = SharedBoard(n_features, memory)
            if n_features and self._device != "cpu":
                shared.pin()  # copies of a prompt's features need not be cut up
            self._board, self._passage = shared.board, shared.passage
        elif kind == "round":
            self._round(*body)
        elif kind == "outcome":
            self._settle(_outcome(body), time.monotonic_ns() - self._zero)
        else:
            raise ValueError(f"unknown message {kind!r}")

    def _settle(self, outcome: Outcome, received: int) -> None:
        settled = self._desk.settle(outcome, received)
        if settled is not None:
            self._answer(settled)

    def _answer(self, answer: Answer) -> None:
        self._send_in_passing()
        self._pipe.send((self._begun, answer))

    def _send_in_passing(self) -> None:
        """Send the answers that nobody waits for."""
        while self._in_passing:
            self._pipe.send(self._in_passing.popleft())

    def _arrived(self) -> Outcome | None:
        """The outcome, if it came while branches are being prepared; a turn that was given up has none: another begins."""
        self._read_mail()
        if self._early is None and self._unread and self._unread[0][0] == "outcome":
            _, body = self._unread.popleft()
            self._early = _outcome(body), time.monotonic_ns() - self._zero
        return self._early[0] if self._early else None

    def _go_through_mail(self) -> None:
        """What there is time for while the device works: tell the engine, and read what it asks for next."""
        self._send_in_passing()
        self._read_mail()

    def _read_mail(self) -> None:
        while self._pipe.poll(0):
            self._unread.append(self._read())

    # --- rounds that the target's device runs one after another -----------------------------------------------

    def _round(self, serial: int, fan_out: tuple[int, ...] | None, draft_len: int) -> None:
        """Prepare branches for a queued round, wait for its outcome, and draft where no branch was for it.

        Each goes to the board at once, since the target's device waits for it; the engine is told in passing.
        """
        assert self._board is not None
        branches: Branches | None = None
        if fan_out is None:
            self._board.put_branches(serial, [], [])
        else:
            branches = self._desk.prepare(fan_out, draft_len, lambda: self._told(serial))
            finished = [(key_of(*b.key), b.proposal.tokens) for b in branches.prepared if b.proposal]
            self._board.put_branches(serial, [key for key, _ in finished], [tokens for _, tokens in finished])
            self._in_passing.append((self._begun, branches))
        outcome = self._await_outcome(serial)
        if outcome is None:
            return
        hit = None if branches is None else branches.hit(outcome)
        settled = self._desk.settle(outcome, time.monotonic_ns() - self._zero)
        if settled is not None:
            self._in_passing.append((self._begun, settled))
        if hit is None:
            drafted = self._desk.draft(draft_len)
            self._board.put_draft(serial, drafted.proposal.tokens)
            self._in_passing.append((self._begun, drafted))

    def _told(self, serial: int) -> Outcome | None:
        """A queued round's outcome, if the target's device has told it."""
        assert self._board is not None
        if not self._board.has_record(serial):
            return None
        record = self._board.record(serial)
        features = self._board.features(serial, record.accepted_len + 1)
        return Outcome(
            accepted=tuple(record.draft[: record.accepted_len]),
            bonus=record.bonus,
            features_AF=_tensor(features),
        )

    def _await_outcome(self, serial: int) -> Outcome | None:
        """Wait for it; None where the round is discarded, or the engine goes on to other things than rounds."""
        assert self._board is not None
        while not self._board.has_record(serial):
            self._go_through_mail()
            if any(kind != "round" for kind, _ in self._unread):
                return None
        return None if self._board.record(serial).discarded else self._told(serial)


def _outcome(body: list[Any]) -> Outcome:
    accepted, bonus, features = body
    return Outcome(accepted=tuple(accepted), bonus=bonus, features_AF=_tensor(features))


def _tensor(array: Any) -> torch.Tensor | None:
    return None if array is None else torch.from_numpy(array)
