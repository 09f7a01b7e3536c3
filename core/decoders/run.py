"""One turn in progress: verification, acceptance and what is emitted. The decoders only say where drafts come from."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from msgspec.structs import replace

from specmon.core.decoders.choose import Chooser
from specmon.core.decoders.sheet import Sheet
from specmon.core.decoders.target import Target, Verified
from specmon.core.decoders.text_out import TextOut
from specmon.core.device_clock import DeviceClock
from specmon.core.drafters.base import Outcome, Proposal, both
from specmon.core.events import Event, StopReason, TurnEnd, Vocabulary

_TOKEN_BYTES = 8


@dataclass(frozen=True, kw_only=True)
class Limits:
    """When a turn ends. `context_length` counts prompt and generated tokens."""

    max_new_tokens: int
    eos_ids: frozenset[int]
    context_length: int


class Run:
    """Shared state of a turn's round loop.

    Args:
        pending: token one, emitted by prefill; its KV is not in the cache yet.
        started: when token one was known (ns); the first round starts there.
        taps: target layers whose input the drafter needs.
        draft_device: index of the draft's device in the lane (0: the target's own).
        drafter: kind of the drafter, None for AR.
        device_clock: the target device's, where its passes are stamped.
    """

    def __init__(
        self,
        *,
        target: Target,
        text: TextOut,
        chooser: Chooser,
        limits: Limits,
        clock: Callable[[], int],
        cancelled: Callable[[], bool],
        lane: int,
        turn: int,
        pending: int,
        started: int,
        taps: tuple[int, ...] = (),
        draft_device: int = 0,
        drafter: str | None = None,
        device_clock: DeviceClock | None = None,
    ) -> None:
        self.target, self.text, self.clock = target, text, clock
        self.stop_reason: StopReason | None = None
        self.n_tokens = 1
        self.pausing = False
        self._chooser, self._limits, self._cancelled = chooser, limits, cancelled
        self._lane, self._turn = lane, turn
        self._pending, self._now = pending, started
        self._taps, self._draft_device, self._drafter = taps, draft_device, drafter
        self._device_clock = device_clock
        self._n_rounds = 0
        self._stop_after(pending)
        self._stop_when_full(0)

    def going(self) -> bool:
        """Whether another round is to be run."""
        if self.stop_reason is None and self._cancelled():
            self.stop_reason = "cancelled"
        return self.stop_reason is None

    def open_round(self, draft_len: int = 0) -> Sheet:
        """Start the next round where the last one ended; the draft is shortened where the context would run out."""
        return Sheet(
            index=self._n_rounds,
            t0=self._now,
            requested_k=max(0, min(draft_len, self.room)),
            draft_device=self._draft_device,
            drafter=self._drafter,
        )

    def drain(self, sheet: Sheet) -> bool:
        """When the run is to pause: count the time since the outcome to this round, and say so."""
        if self.pausing:
            now = self.clock()
            sheet.span(0, "wait", sheet.t1, now)
            sheet.t1 = self._now = now
        return self.pausing

    def resume(self) -> None:
        """Go on after a pause: the next round starts now."""
        self.pausing, self._now = False, self.clock()

    @property
    def pending(self) -> int:
        """The last token emitted, which is in no cache yet."""
        return self._pending

    @property
    def room(self) -> int:
        """Tokens a draft may have now, so that the text cannot outgrow the context."""
        return self._limits.context_length - len(self.target.held) - 2

    @property
    def left(self) -> int:
        """Tokens that may still be emitted."""
        return self._limits.max_new_tokens - self.n_tokens

    @property
    def is_greedy(self) -> bool:
        return self._chooser.is_greedy

    @property
    def eos_ids(self) -> frozenset[int]:
        return self._limits.eos_ids

    @property
    def clock_is_due(self) -> bool:
        """Whether the device's clock is to be measured."""
        return self._device_clock is not None and self._device_clock.is_due(self._now)

    def host_time(self, stamp: int) -> int | None:
        """When the target's device stamped (ns), None where its clock is not known."""
        return None if self._device_clock is None else self._device_clock.host(stamp)

    def sync_clock(self) -> Iterator[Event]:
        """Measure the device's clock when that is due; the device must be idle."""
        clock = self._device_clock
        if clock is not None and self.clock_is_due:
            yield clock.measure(t=self.clock(), lane=self._lane, turn=self._turn)

    def begin(self, sheet: Sheet, proposal: Proposal) -> None:
        """Start the target on the pending token and the draft."""
        sheet.proposal, sheet.begun = proposal, self.clock()
        self.target.begin([self._pending, *proposal.tokens], self._chooser, self._taps, proposal.parents)

    def verify(self, sheet: Sheet) -> Outcome:
        """Wait for the rows begun, accept, and move the cursor.

        Returns: the tokens that stay and the features of their rows, as the drafter needs to know them.
        """
        t0 = sheet.begun if self.target.runs_ahead else self.clock()
        verified = self.target.end(self._chooser)
        return self.accept(sheet, verified, t0, self.clock())

    def accept(
        self, sheet: Sheet, verified: Verified, t0: int, t1: int, settled: int | None = None
    ) -> Outcome:
        """Take in what a verification between t0 and t1 chose, as `verify` does.

        `settled`: when the device itself did so (host time); else the host does now.
        """
        proposal = sheet.proposal
        nodes = proposal.accepted(verified.choices)
        rows = [0, *(node + 1 for node in nodes)]
        accepted = [proposal.tokens[node] for node in nodes]
        emitted = self._emit(sheet, [*accepted, verified.choices[rows[-1]]])
        self._fill(sheet, verified, nodes)
        rows = rows[: len(emitted)]
        moved = self.target.keep([self._pending, *accepted][: len(emitted)], rows)
        self._pending, self._n_rounds = emitted[-1], self._n_rounds + 1
        sheet.t1 = self._now = self.clock() if settled is None else settled
        sheet.kv_len = len(self.target.held)
        clock = self._device_clock
        began, ended = clock.within(verified.rows.ran, t0, t1) if clock is not None else (t0, t1)
        for device in range(self.target.model.n_devices):
            sheet.span(device, "verify", began, ended)
        sheet.span(0, "accept", t1 if settled is None else ended, sheet.t1)
        features, copies = verified.rows.features_RF, 0
        if features is not None:
            features, copies = torch.stack([features[row] for row in rows]), 1
        sheet.target_launches = both(verified.launches, both(moved, copies))
        sheet.draft_handoff_bytes = _TOKEN_BYTES * len(emitted) + (
            features.nbytes if features is not None else 0
        )
        sheet.target_handoff_bytes = _TOKEN_BYTES * len(proposal.tokens)
        return Outcome(accepted=tuple(emitted[:-1]), bonus=emitted[-1], features_AF=features)

    def close(self, sheet: Sheet) -> Iterator[Event]:
        """The finished round as events, the text of new token ids before it."""
        if not self.text.may_stop:
            sheet.text = tuple(map(self.text.push, sheet.emitted))
        ids = [*sheet.proposal.tokens, *sheet.emitted]
        for branch in sheet.prepared:
            ids += [branch.bonus, *(branch.proposal.tokens if branch.proposal else ())]
        if pieces := self.text.new_pieces(ids):
            yield Vocabulary(t=sheet.t1, lane=self._lane, turn=self._turn, pieces=pieces)
        for measured in sheet.clocks:
            yield replace(measured, lane=self._lane, turn=self._turn)
        yield sheet.event(lane=self._lane, turn=self._turn)

    def end(self) -> TurnEnd:
        """The turn's end, with the text still held back."""
        return TurnEnd(
            t=self.clock(),
            lane=self._lane,
            turn=self._turn,
            stop_reason=self.stop_reason or "cancelled",
            n_tokens=self.n_tokens,
            rounds=self._n_rounds,
            text=self.text.finish(),
        )

    def _fill(self, sheet: Sheet, verified: Verified, nodes: Sequence[int]) -> None:
        sheet.accepted_len = len(nodes)
        if sheet.proposal.parents is not None:
            sheet.accepted_path = tuple(nodes)
        last_row = nodes[-1] + 1 if nodes else 0
        sheet.bonus = verified.choices[last_row] if len(sheet.emitted) > len(nodes) else None
        sheet.margin = verified.rows.margin(last_row)
        sheet.target_weight_bytes = self.target.model.weight_bytes_by_device
        positions = len(self.target.held) + len(verified.choices)
        sheet.target_kv_bytes = positions * self.target.kv.bytes_per_token

    def _emit(self, sheet: Sheet, candidates: list[int]) -> tuple[int, ...]:
        """Of the tokens that stand, those up to the first stop.

        Their text is known now where it may stop generation; else it can wait until the round is told.
        """
        emitted: list[int] = []
        text: list[str] = []
        for token in candidates:
            emitted.append(token)
            if self.text.may_stop:
                text.append(self.text.push(token))
            self.n_tokens += 1
            self._stop_after(token)
            if self.stop_reason is not None:
                break
        self._stop_when_full(len(emitted))
        sheet.emitted, sheet.text = tuple(emitted), tuple(text)
        return sheet.emitted

    def _stop_when_full(self, emitted: int) -> None:
        """The text, its pending token included, may not outgrow the context."""
        full = len(self.target.held) + 1 + emitted >= self._limits.context_length
        if full and self.stop_reason is None:
            self.stop_reason = "context"

    def _stop_after(self, token: int) -> None:
        if token in self._limits.eos_ids:
            self.stop_reason = "eos"
        elif self.text.stopped:
            self.stop_reason = "stop"
        elif self.n_tokens >= self._limits.max_new_tokens:
            self.stop_reason = "length"
