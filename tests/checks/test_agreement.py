"""`check agreement` on tiny models: green where decoders agree, and a difference named by round and position."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.tiny_models import CONTEXT, TinyModels

from specmon.core import paths
from specmon.core.checks.agreement import Agreement, PatternResult
from specmon.core.checks.decoded import Decoded, difference, off_script
from specmon.core.checks.patterns import Lane, long_prompt, suite
from specmon.core.decoders.target import Target, Verified
from specmon.core.drafters.scripted import Step
from specmon.core.engine.messages import LaneConfig
from specmon.core.events import Round
from specmon.core.models.pool import ModelPool, unwatched

Chosen = Callable[[list[Lane]], list[Lane]]


def run(
    config: LaneConfig, choose: Chosen = lambda lanes: lanes, cache: Path | None = None
) -> list[PatternResult]:
    pool = ModelPool(cache)
    loaded = pool.target(config.target, config.recipe, "cpu:0", unwatched)
    lanes = choose(suite(config, long_prompt(loaded.tokenizer, loaded.context_length)))
    return list(Agreement(config, pool=pool, clock=time.monotonic_ns, cores={}).run(lanes))


def tiny_config(tiny: TinyModels, draft: Path | str, **changes: Any) -> LaneConfig:
    settings = {"recipe": "fp32", "devices": "cpu:0", "draft_len": 3, "fan_out": (2,), **changes}
    return LaneConfig(target=str(tiny.target()), draft=str(draft), **settings)


def test_whole_suite_agrees_and_forced_hits_hit(tiny: TinyModels) -> None:
    found = run(tiny_config(tiny, tiny.draft()))

    assert [p for p in found if p.fault] == []
    hits = [p for p in found if p.decoder == "ssd" and p.pattern.startswith("hits after")]
    assert [p.hits for p in hits] == [p.rounds - 1 for p in hits]
    assert {p.lane for p in found} == {
        "SD K3, scripted",
        "SD K1, scripted",
        "SD K15, scripted",
        "SSD K3 fan 1, scripted",
        "SSD K1 fan 1, scripted",
        "SSD K15 fan 1, scripted",
        "SSD K3 fan 3·1·1·4, scripted",
        "SSD K3 fan 0·3·0·2, scripted",
        "SSD K3 fan auto:16, scripted",
        "SD K3",
        "SSD K3 fan 2",
        "SSD K3 fan auto:16",
    }


@pytest.mark.parametrize("draft", ["eagle3", "ngram", "scripted:0.7@"])
def test_other_drafters_agree(tiny: TinyModels, draft: str) -> None:
    name = {"eagle3": str(tiny.eagle3()), "scripted:0.7@": f"scripted:0.7@{tiny.draft()}"}.get(draft, draft)

    found = run(tiny_config(tiny, name), lambda lanes: [lanes[2], lanes[6]])

    assert [p for p in found if p.fault] == []


def test_block_drafter_agrees_in_sd_alone(tiny: TinyModels) -> None:
    found = run(tiny_config(tiny, tiny.block(), decoder="sd"))

    assert [p for p in found if p.fault] == []
    assert {p.lane for p in found} == {"SD K3, scripted", "SD K1, scripted", "SD K15, scripted", "SD K3"}


def test_a_wrong_token_is_named_by_round_and_position(
    tiny: TinyModels, monkeypatch: pytest.MonkeyPatch
) -> None:
    verify = Target.end

    def wrong(self: Target, chooser: Any) -> Verified:
        """Rows in company choose another token at position 20 of the text."""
        out = verify(self, chooser)
        row = 19 - len(self.held)
        if len(out.choices) > 1 and 0 <= row < len(out.choices):
            out.choices[row] = (out.choices[row] + 1) % tiny.vocab_size
        return out

    monkeypatch.setattr(Target, "end", wrong)
    config = tiny_config(tiny, tiny.draft())

    def one_token(lanes: list[Lane]) -> list[Lane]:
        return [Lane(config=lanes[5].config, scripted=False, patterns=(lanes[5].patterns[5],))]

    [found] = run(config, one_token)

    assert found.pattern == "a prompt of one token"
    assert found.fault is not None
    assert found.fault.startswith("round ")
    assert ", position 20: " in found.fault
    assert " where AR has " in found.fault


def decoded(tokens: tuple[int, ...], *rounds: tuple[int, ...], **changes: Any) -> Decoded:
    made = tuple(
        Round(
            t=0,
            index=i,
            t0=0,
            t1=0,
            requested_k=2,
            drafter="scripted",
            draft=(0, 0),
            accepted_len=len(emitted) - 1,
            bonus=emitted[-1],
            emitted=emitted,
            text=("",) * len(emitted),
        )
        for i, emitted in enumerate(rounds)
    )
    values = {"prompt_tokens": 10, "reused_tokens": 0, "text": "", "stop_reason": "length", **changes}
    return Decoded(tokens=tokens, rounds=made, **values)


def test_differences_are_said_in_words() -> None:
    ar = decoded((1, 2, 3, 4), (2,), (3,), (4,))

    def said(found: Decoded) -> str | None:
        return difference(found, ar, lambda token: f"<{token}>")

    assert said(decoded((1, 2, 3, 4), (2, 3), (4,))) is None
    assert said(decoded((9, 2, 3, 4), (2, 3), (4,))) == "token one, position 10: 9 '<9>' where AR has 1 '<1>'"
    assert said(decoded((1, 2, 3, 9), (2, 3), (9,))) == "round 1, position 13: 9 '<9>' where AR has 4 '<4>'"
    assert said(decoded((1, 2), (2,))) == "the end, position 12: no token where AR has 3 '<3>'"
    same = ((1, 2, 3, 4), (2, 3), (4,))
    assert said(decoded(*same, stop_reason="eos")) == "its stop reason is 'eos' where AR has 'length'"
    assert said(decoded(*same, text="x")) == "its text is 'x' where AR has ''"
    assert said(decoded(*same, reused_tokens=3)) == "its number of reused tokens is 3 where AR has 0"


def test_a_right_draft_that_is_rejected_is_a_fault_though_the_tokens_are_the_same() -> None:
    found = decoded((1, 2, 3, 4, 5), (2, 3), (4,), (5,))

    assert off_script(found, [Step(1, covered=True), Step(0, covered=True)]) is None
    assert off_script(found, [Step(2, covered=True)]) == (
        "round 0 accepts 1 tokens of a draft whose first 2 are AR's"
    )


def test_long_prompt_has_several_chunks_where_the_context_allows_it(tiny: TinyModels) -> None:
    tokenizer = ModelPool().target(str(tiny.target()), "fp32", "cpu:0", unwatched).tokenizer

    lengths = [len(tokenizer.encode(long_prompt(tokenizer, n))) for n in (CONTEXT, 8192, 8)]

    assert 256 < lengths[0] <= CONTEXT // 2
    assert 256 < lengths[1] <= 400
    assert lengths[2] > 0


@pytest.mark.embedded
def test_embedded_pair_agrees_on_two_devices() -> None:
    config = LaneConfig(target="smollm2", recipe="q4", devices="cpu:0,cpu:1")

    def few(lanes: list[Lane]) -> list[Lane]:
        forced = lanes[1]
        return [Lane(config=forced.config, scripted=True, patterns=forced.patterns[4:6])]

    found = run(config, few, paths.cache_dir())

    assert [p.fault for p in found] == [None] * 2
    assert found[0].hits
