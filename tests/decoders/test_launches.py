"""A round knows what the host launched for it, or that nobody counted."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.tiny_models import TinyModels

from specmon.core.events import Sampling
from specmon.core.models.reference_passes import ReferencePasses

from .harness import Bench


@pytest.mark.parametrize(
    ("decoder", "draft", "launches"),
    [
        ("ar", "ngram", 1),
        ("sd", "ngram", 1),
        ("sd", "draft_model", 3),
        ("sd", "eagle3", None),
        ("ssd", "ngram", 1),
    ],
)
def test_round_adds_the_hosts_launches_of_target_and_draft(
    tiny: TinyModels,
    bench: Bench,
    monkeypatch: pytest.MonkeyPatch,
    decoder: str,
    draft: str,
    launches: int | None,
) -> None:
    """As if a pass were one launch and a draft two; what nobody counts makes the round's unknown."""
    rows, chain = ReferencePasses.rows, ReferencePasses.chain
    monkeypatch.setattr(ReferencePasses, "rows", lambda *a, **o: replace(rows(*a, **o), launches=1))
    monkeypatch.setattr(ReferencePasses, "chain", lambda *a, **o: replace(chain(*a, **o), launches=2))
    drafts = {"draft_model": str(tiny.draft()), "eagle3": str(tiny.eagle3())}
    lane = bench.lane(tiny.target(), decoder, draft=drafts.get(draft, draft))

    assert {r.host_launches for r in lane.decode().rounds} == {launches}
    assert {r.host_launches for r in lane.decode(sampling=Sampling(temperature=1.0)).rounds} == {None}


def test_a_cpu_has_no_launches_to_count(tiny: TinyModels, bench: Bench) -> None:
    for decoder in ("ar", "sd", "ssd"):
        decoded = bench.lane(tiny.target(), decoder, draft=str(tiny.draft())).decode()
        assert {r.host_launches for r in decoded.rounds} == {None}
