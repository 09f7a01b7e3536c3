"""Every pattern of acceptance, hit and miss, forced with a scripted drafter; stale slots hold NaN throughout."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from tests.tiny_models import TinyModels

from specmon.core.drafters.scripted import Step

from .harness import Bench, Decoded

pytestmark = pytest.mark.usefixtures("poisoned")

MANY = 24  # new tokens: the patterns below come round more than once


def whole_rounds(found: Decoded) -> list[tuple[int, ...]]:
    """(accepted_len, emitted) of all rounds but the last, which may have been cut by max_new_tokens."""
    return [(r.accepted_len, len(r.emitted)) for r in found.rounds[:-1]]


def run(
    tiny: TinyModels, bench: Bench, decoder: str, steps: Sequence[Step], draft_len: int, **config: object
) -> Decoded:
    """Decode as `steps` say, and check the tokens against AR's."""
    target = tiny.target("qwen3")
    lane = bench.scripted(target, decoder, steps, tiny.vocab_size, draft_len=draft_len, **config)
    found = lane.decode(max_new_tokens=MANY)
    assert found.tokens == bench.lane(target).decode(max_new_tokens=MANY).tokens
    return found


@pytest.mark.parametrize("decoder", ["sd", "ssd"])
@pytest.mark.parametrize("draft_len", [1, 4, 15])
def test_every_accepted_len_keeps_just_that_much(
    tiny: TinyModels, bench: Bench, decoder: str, draft_len: int
) -> None:
    lengths = [0, draft_len, *range(0, draft_len + 1, 1 if draft_len < 15 else 5)]

    found = run(tiny, bench, decoder, [Step(n, covered=False) for n in lengths], draft_len)

    expected = [lengths[i % len(lengths)] for i in range(len(found.rounds) - 1)]
    assert whole_rounds(found) == [(n, n + 1) for n in expected]


@pytest.mark.parametrize("accepted", range(5))
@pytest.mark.parametrize("after", range(5))
def test_hit_on_every_outcome_drafts_the_next_round(
    tiny: TinyModels, bench: Bench, accepted: int, after: int
) -> None:
    found = run(tiny, bench, "ssd", [Step(accepted, covered=True), Step(after, covered=True)], draft_len=4)

    assert [r.accepted_len for r in found.rounds[:-1]] == [
        (accepted, after)[i % 2] for i in range(len(found.rounds) - 1)
    ]
    assert all(r.hit is not None and r.miss is None for r in found.rounds[:-1])
    assert found.rounds[-1].hit is None  # nothing follows it


@pytest.mark.parametrize("accepted", range(5))
def test_miss_on_every_outcome_drafts_from_scratch(tiny: TinyModels, bench: Bench, accepted: int) -> None:
    steps = [Step(accepted, covered=False), Step(2, covered=True)]

    found = run(tiny, bench, "ssd", steps, draft_len=4)

    for round_, missed in zip(found.rounds[:-1], [True, False] * MANY, strict=False):
        assert (round_.miss, round_.hit is None) == (("rank", True) if missed else (None, False))
        assert round_.fallback == ("scripted" if missed else None)


@pytest.mark.parametrize(
    "fan_out", [(0, 0, 0, 0, 1), (1, 0, 0, 0, 0), (0, 3, 0, 2, 0), (8, 0, 8, 0, 8), (1, 1, 1, 1, 1)]
)
def test_accepted_len_without_branches_always_misses(
    tiny: TinyModels, bench: Bench, fan_out: tuple[int, ...]
) -> None:
    steps = [Step(n % 5, covered=True) for n in range(5)]

    found = run(tiny, bench, "ssd", steps, draft_len=4, fan_out=fan_out)

    for round_ in found.rounds[:-1]:
        covered = fan_out[round_.accepted_len] > 0
        assert (round_.hit is not None, round_.miss) == (covered, None if covered else "none")
        widths = [sum(b.accepted_len == n for b in round_.branches) for n in range(5)]
        assert tuple(widths) == fan_out == round_.fan_out


def test_branch_times_lie_inside_their_round(tiny: TinyModels, bench: Bench) -> None:
    found = run(tiny, bench, "ssd", [Step(1, covered=True), Step(3, covered=False)], draft_len=4)

    for round_ in found.rounds:
        assert all(round_.t0 <= b.ready_at <= round_.t1 for b in round_.branches if b.ready_at is not None)


@pytest.mark.parametrize("decoder", ["sd", "ssd"])
def test_rejected_round_rewinds_the_target_cursor(tiny: TinyModels, bench: Bench, decoder: str) -> None:
    found = run(tiny, bench, decoder, [Step(0, covered=False)], draft_len=8)

    lengths = [r.kv_len[0] for r in found.rounds]
    assert lengths == list(range(found.turn.prompt_tokens + 1, found.turn.prompt_tokens + MANY))
