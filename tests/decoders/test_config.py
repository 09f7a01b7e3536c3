"""Configurations that cannot work are refused in a sentence, before anything is loaded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.tiny_models import TinyModels

from specmon.core.decoders.check import MAX_DRAFT_LEN, check_config
from specmon.core.decoders.settle import settle
from specmon.core.engine.messages import LaneConfig
from specmon.core.errors import SpecmonError, UsageError
from specmon.core.hardware import survey
from specmon.core.models.passes import MAX_ROWS
from specmon.core.models.reference_passes import ReferencePasses

from .harness import Bench


@pytest.mark.parametrize("draft_len", [0, -1, 16, 1000])
@pytest.mark.parametrize("decoder", ["sd", "ssd"])
def test_draft_len_out_of_range_is_refused(decoder: Any, draft_len: int) -> None:
    with pytest.raises(UsageError, match=rf"^draft_len {draft_len} cannot work\. Choose 1 to 15\.$"):
        check_config(LaneConfig(decoder=decoder, draft_len=draft_len))


def test_the_longest_draft_and_the_token_before_it_fill_a_pass() -> None:
    assert MAX_DRAFT_LEN + 1 == MAX_ROWS


@pytest.mark.parametrize(
    ("config", "found"),
    [
        ({"recipe": "q5"}, r"^There is no recipe 'q5'\. Choose auto, q4"),
        ({"backend": "cuda"}, r"^There is no backend 'cuda'; choose auto, reference, triton\."),
        ({"draft": "scripted:x"}, "scripted:x gives no accuracy"),
        ({"draft": "ngram:5"}, "ngram takes nothing after it"),
        ({"draft": "suffix:5"}, "suffix takes nothing after it"),
        ({"draft": "hybrid:"}, r"names no model\. Write hybrid:MODEL"),
    ],
)
def test_names_that_nothing_has_are_refused(config: dict[str, Any], found: str) -> None:
    with pytest.raises(UsageError, match=found):
        check_config(LaneConfig(decoder="sd", **config))


@pytest.mark.parametrize("fan_out", [(), (1, 1), (1,) * 4, (1,) * 6])
def test_fan_out_of_the_wrong_length_is_refused(fan_out: tuple[int, ...]) -> None:
    with pytest.raises(UsageError, match=rf"^fan_out has {len(fan_out)} entries for draft_len 4\."):
        check_config(LaneConfig(decoder="ssd", draft_len=4, fan_out=fan_out))


@pytest.mark.parametrize("fan_out", [(0,), (-1,), (0, 0, 0, 0, 0), (1, 1, -1, 1, 1)])
def test_fan_out_without_branches_is_refused(fan_out: tuple[int, ...]) -> None:
    with pytest.raises(UsageError, match="fan_out must be 0 or more"):
        check_config(LaneConfig(decoder="ssd", draft_len=4, fan_out=fan_out))


@pytest.mark.parametrize(
    ("config", "found"),
    [
        ({"branch_budget": 0}, "A budget of 0 branches"),
        ({"branch_budget": 257}, "A budget of 257 branches"),
        ({"fan_out": (52,)}, "fan_out 52 makes 260 branches a round"),
        ({"fan_out": (253, 1, 1, 1, 1)}, "makes 257 branches a round for draft_len 4"),
    ],
)
def test_more_branches_than_a_round_can_prepare_are_refused(config: dict[str, Any], found: str) -> None:
    with pytest.raises(UsageError, match=found) as refused:
        check_config(LaneConfig(decoder="ssd", **config))
    assert "256" in str(refused.value)


def test_the_most_branches_are_taken() -> None:
    check_config(LaneConfig(decoder="ssd", branch_budget=256))
    check_config(LaneConfig(decoder="ssd", fan_out=(252, 1, 1, 1, 1)))


def test_numbers_a_decoder_does_not_use_are_ignored() -> None:
    check_config(LaneConfig(decoder="ar", draft_len=0, fan_out=()))
    check_config(LaneConfig(decoder="sd", draft_len=4, fan_out=(1, 1)))


@pytest.mark.parametrize("draft", ["wordy", "stranger-folder"])
def test_draft_that_does_not_fit_is_refused(tiny: TinyModels, bench: Bench, draft: str) -> None:
    wordy = tiny.with_words(tiny.padded(tiny.draft(), 310))
    name = str(wordy) if draft == "wordy" else "/no/such/draft"

    with pytest.raises(SpecmonError, match=r"has 310 tokens, the target|There is no model '/no/such/draft'"):
        bench.raw_lane(tiny.target(), "sd", draft=name)


def test_lane_says_what_it_is(tiny: TinyModels, bench: Bench) -> None:
    lane = bench.raw_lane(tiny.target(), "ssd", draft=str(tiny.draft()), recipe="bf16")

    found = lane.describe(3, 7)

    assert (found.lane, found.t, found.decoder, found.devices) == (3, 7, "ssd", ("cpu:0",))
    assert (found.target, found.drafter, found.drafter_kind) == (
        "llama-default",
        "llama-draft",
        "draft_model",
    )
    assert (found.recipe, found.context_length) == ("bf16", 640)
    layers, kv_heads, head_dim, fp32 = 3, 1, 16, 4
    assert found.kv_bytes_per_token == 2 * layers * kv_heads * head_dim * fp32
    assert lane.notes == ("SSD on one device prepares branches before each verification: nothing overlaps.",)


def test_ar_lane_has_no_draft(tiny: TinyModels, bench: Bench) -> None:
    found = bench.raw_lane(tiny.target(), "ar", devices="cpu:0,cpu:1").describe(0, 0)

    assert (found.drafter, found.drafter_kind, found.draft_weight_bytes) == (None, None, None)
    assert found.devices == ("cpu:0",)


def test_lanes_share_a_target_s_weights(tiny: TinyModels, bench: Bench) -> None:
    def load(recipe: str, device: str) -> object:
        return bench.pool.target(str(tiny.target()), recipe, device, lambda what, fraction: None).model

    assert load("fp32", "cpu:0") is load("fp32", "cpu:1")
    assert load("fp32", "cpu:0") is not load("bf16", "cpu:0")


def test_a_lane_runs_short_prompts_before_its_first_turn(
    tiny: TinyModels, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a backend that captures asks for; a chunk longer than the context is cut."""
    monkeypatch.setattr(ReferencePasses, "first_chunks", (64, 1000))
    monkeypatch.setattr(ReferencePasses, "captures", True)
    said: list[tuple[str, float | None]] = []
    wanted = bench.lane(tiny.target(), "ar").decode().tokens
    lane = bench.lane(tiny.target(), "ar", progress=lambda what, part: said.append((what, part)))

    assert said[-3:] == [
        ("capturing graphs: prompt 64", 0.0),
        ("capturing graphs: prompt 1000", 1 / 3),
        ("capturing graphs: verify 1 row", 2 / 3),
    ]
    assert lane.decode().tokens == wanted


@pytest.mark.parametrize(("weights", "recipe"), [("gguf", "q4"), ("folder", "bf16")])
def test_auto_recipe_follows_the_weights(tiny: TinyModels, bench: Bench, weights: str, recipe: str) -> None:
    target = tiny.gguf("qwen2", "Q4_1") if weights == "gguf" else tiny.target("qwen2")

    assert bench.raw_lane(target, "ar", recipe="auto").describe(0, 0).recipe == recipe


@pytest.mark.parametrize("decoder", ["sd", "ssd"])
def test_a_turn_may_draft_less_than_its_lane_is_loaded_for(
    tiny: TinyModels, bench: Bench, decoder: str
) -> None:
    config = {"draft": str(tiny.draft()), "fan_out": (2,)}
    lane = bench.lane(tiny.target(), decoder, draft_len=6, **config)

    short, whole = lane.decode(draft_len=2), lane.decode("the rat ran")

    assert short.tokens == bench.lane(tiny.target(), decoder, draft_len=2, **config).decode().tokens
    assert (short.turn.draft_len, whole.turn.draft_len) == (2, 6)
    assert short.turn.fan_out == ((2, 2, 2) if decoder == "ssd" else None)
    assert {len(r.draft) for r in short.rounds} == {2}
    assert {len(r.draft) for r in whole.rounds} == {6}


def test_a_turn_cannot_draft_more_than_its_lane_is_loaded_for(tiny: TinyModels, bench: Bench) -> None:
    lane = bench.lane(tiny.target(), "sd", draft_len=2)
    with pytest.raises(UsageError, match="asks for draft_len 3, the lane is loaded for 2"):
        lane.decode(draft_len=3)
    with pytest.raises(UsageError, match="draft_len 0 cannot work"):
        lane.decode(draft_len=0)
    several = bench.lane(tiny.target(), "ssd", draft_len=2, fan_out=(3, 2, 1))
    with pytest.raises(UsageError, match="fan_out has 3 entries"):
        several.decode(draft_len=1)


def test_head_as_a_target_is_refused_before_anything_is_loaded(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="smollm2-eagle3 is an EAGLE-3 head, no model by itself"):
        settle(LaneConfig(target="smollm2-eagle3", decoder="ar", devices="cpu:0"), survey(), tmp_path)


def settled(tiny: TinyModels, **config: Any) -> None:
    settle(LaneConfig(**{"target": str(tiny.target()), "devices": "cpu:0", **config}), survey(), tiny.root)


def test_trees_of_a_drafter_that_auto_stands_for_are_refused(tiny: TinyModels) -> None:
    settled(tiny, decoder="sd", draft="auto")

    with pytest.raises(UsageError, match="--draft ngram drafts chains, not trees"):
        settled(tiny, decoder="sd", draft="auto", draft_nodes=9)


def test_block_drafter_is_refused_where_it_cannot_work(tiny: TinyModels) -> None:
    block = str(tiny.block())
    settled(tiny, decoder="sd", draft=block, draft_nodes=9)

    with pytest.raises(UsageError, match=r"block-llama-6 is a block drafter, no model by itself\."):
        settled(tiny, target=block, decoder="ar")
    with pytest.raises(UsageError, match=r"is a block drafter: it drafts from .* Use --decoder sd\.$"):
        settled(tiny, decoder="ssd", draft=block)
    for other in (f"hybrid:{block}", f"scripted:0.7@{block}"):
        with pytest.raises(UsageError, match="is a block drafter, which works in no other drafter"):
            settled(tiny, decoder="sd", draft=other)
