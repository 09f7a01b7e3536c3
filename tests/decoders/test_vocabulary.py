"""A draft whose vocabulary has more or fewer rows than the target's drafts for it all the same."""

from __future__ import annotations

import pytest
from tests.tiny_models import TinyModels

from .harness import Bench

LAST = "t299 t298 t297 t296"  # the target's last tokens, which a cut draft has no rows for
CONFIG = {"fan_out": (3, 2, 1, 1, 2)}


@pytest.mark.parametrize("decoder", ["sd", "ssd"])
def test_draft_with_more_rows_drafts_as_if_it_had_the_target_s(
    tiny: TinyModels, bench: Bench, decoder: str
) -> None:
    target, draft = tiny.with_words(tiny.target()), tiny.with_words(tiny.draft())
    more = tiny.with_words(tiny.padded(tiny.draft(), 330))

    found, plain = (
        bench.lane(target, decoder, draft=str(name), **CONFIG).decode(LAST, raw=True)
        for name in (more, draft)
    )

    assert found.tokens == bench.lane(target).decode(LAST, raw=True).tokens
    assert [r.draft for r in found.rounds] == [r.draft for r in plain.rounds]


@pytest.mark.parametrize("decoder", ["sd", "ssd"])
@pytest.mark.parametrize("n_rows", [299, 120])
def test_draft_with_fewer_rows_is_fed_every_token_of_the_target(
    tiny: TinyModels, bench: Bench, decoder: str, n_rows: int
) -> None:
    target = tiny.with_words(tiny.target())
    fewer = tiny.with_words(tiny.padded(tiny.draft(), n_rows))
    lane = bench.lane(target, decoder, draft=str(fewer), **CONFIG)

    found = [lane.decode(f"{LAST} " * n, raw=True, max_new_tokens=40) for n in (1, 9)]

    ar = bench.lane(target)
    assert [f.tokens for f in found] == [
        ar.decode(f"{LAST} " * n, raw=True, max_new_tokens=40).tokens for n in (1, 9)
    ]
    assert max(max(r.draft, default=0) for f in found for r in f.rounds) < n_rows
    assert max(t for f in found for t in f.tokens) >= 120
