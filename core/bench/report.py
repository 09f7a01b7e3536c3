"""What `bench paired` found, as data: lanes, pairs, and every request behind them."""

from __future__ import annotations

import msgspec

from specmon.core.bench.choose_k import TunedK
from specmon.core.bench.lanes import CONTROL
from specmon.core.bench.provenance import Provenance
from specmon.core.bench.statistics import Estimate
from specmon.core.checks.subject import Kind
from specmon.core.engine.messages import LaneConfig
from specmon.core.events import StopReason


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """The first token, counted from 0, at which two outputs for one prompt are not the same; None past an end."""

    prompt: str
    repeat: int
    index: int
    a: int | None
    b: int | None
    a_text: str | None
    b_text: str | None


class Pair(msgspec.Struct, frozen=True, kw_only=True):
    """Lane `b` over lane `a`: how many times as fast it is, request by request. Above 1 it is faster.

    `decode`: ms/token of a ÷ b after token one; `request`: tokens/s of b ÷ a, prefill included; `prefill`: time to token
    one of a ÷ b. All are None where `equal` is False. `equal` is None where outputs cannot be compared, as `output` says.
    """

    a: str
    b: str
    equal: bool | None
    output: str
    first_difference: Difference | None
    decode: Estimate | None
    request: Estimate | None
    prefill: Estimate | None

    @property
    def fault(self) -> str | None:
        """Where the outputs first differ, as a sentence; None where they do not."""
        if self.first_difference is None:
            return None
        return f"Lanes {self.a} and {self.b} differ on {_place(self.first_difference)}."


class LaneFigures(msgspec.Struct, frozen=True, kw_only=True):
    """One lane over all of its requests: medians with intervals, and figures of all rounds together.

    `draft_ms` and `verify_ms` are means a round, of drafting only what nothing of the target's hides. `first_change`: where
    a repeat gave other tokens than the first did; a greedy lane has none. `checks`: those of `specmon check` that have
    passed and speak for it; without agreement it is not `verified`.
    """

    letter: str
    label: str
    config: LaneConfig
    target: str
    drafter: str | None
    recipe: str
    backend: str
    devices: tuple[str, ...]
    n_requests: int
    ms_per_token: Estimate | None
    tokens_per_s: Estimate | None
    request_tokens_per_s: Estimate | None
    prefill_ms: Estimate | None
    n_tokens: int
    rounds: int
    tokens_per_round: float | None
    acceptance_rate: float | None
    branch_hit_rate: float | None
    draft_ms: float | None
    verify_ms: float | None
    sol_fraction: float | None
    first_change: Difference | None
    host_launches_per_round: float | None
    checks: tuple[Kind, ...]
    verified: bool


class LaneTuning(msgspec.Struct, frozen=True, kw_only=True):
    """What each draft_len tried gave one lane, and the one chosen; None where the run was broken off before."""

    letter: str
    label: str
    chosen: int | None
    tried: tuple[TunedK, ...]


class RequestRow(msgspec.Struct, frozen=True, kw_only=True):
    """One request as measured. `place`: which of the lanes it was for that prompt and repeat, from 0."""

    lane: str
    prompt: str
    repeat: int
    place: int
    prompt_tokens: int
    reused_tokens: int
    n_tokens: int
    rounds: int
    prefill_ms: float | None
    decode_ms: float
    ms_per_token: float | None
    request_tokens_per_s: float | None
    tokens_per_round: float | None
    acceptance_rate: float | None
    branch_hit_rate: float | None
    sol_fraction: float | None
    stop_reason: StopReason | None


class DeviceCeilings(msgspec.Struct, frozen=True, kw_only=True):
    """A device, and how fast its memory can be read, and copied (both directions counted), in bytes/s."""

    name: str
    model: str
    read: float | None
    copy: float | None


class PairedReport(msgspec.Struct, frozen=True, kw_only=True):
    """The whole result. `interrupted`: fewer than `n_planned` requests were measured, and figures rest on those."""

    command: str
    provenance: Provenance
    devices: tuple[DeviceCeilings, ...]
    ceiling_source: str | None
    prompts: tuple[str, ...]
    repeats: int
    max_new_tokens: int
    bootstrap_seed: int
    n_planned: int
    interrupted: bool
    tuning: tuple[LaneTuning, ...]
    lanes: tuple[LaneFigures, ...]
    pairs: tuple[Pair, ...]
    requests: tuple[RequestRow, ...]

    @property
    def control(self) -> Pair | None:
        """Lane A against itself."""
        return next((pair for pair in self.pairs if pair.b == CONTROL), None)

    @property
    def faults(self) -> list[str]:
        """What forbids to trust the result, a sentence each."""
        found = [fault for pair in self.pairs if (fault := pair.fault) is not None]
        return found + [
            f"Lane {lane.letter} gives other tokens from one repeat to another on {_place(lane.first_change)}."
            for lane in self.lanes
            if lane.first_change is not None
        ]


def _place(difference: Difference) -> str:
    found = " and ".join(
        "no token" if token is None else f"{token} {text!r}"
        for token, text in ((difference.a, difference.a_text), (difference.b, difference.b_text))
    )
    return f"prompt {difference.prompt}, repeat {difference.repeat + 1}, from token {difference.index} on: {found}"
