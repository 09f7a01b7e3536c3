"""How `--lane`, `--choose-k`, `--prompts` and `--figure` are read."""

from __future__ import annotations

from pathlib import Path

import pytest

from specmon.core.engine.messages import LaneConfig
from specmon.core.errors import UsageError
from specmon.tui.commands.bench_choices import chosen_prompts, parse_draft_lens
from specmon.tui.commands.bench_figures import parse_figure
from specmon.tui.commands.bench_progress import eta
from specmon.tui.commands.lane_words import lane_configs, parse_values
from specmon.tui.commands.option_groups import LaneOptions

RATIO = "h200x2.ssd.over.sd.bf16"
SHARED = LaneOptions()


def test_long_and_short_forms_say_the_same() -> None:
    long = "decoder=ssd,draft-len=2,fan-out=3,2,1,devices=cuda:0,cuda:1,graphs=off,target=random:qwen2.5-7b"
    short = "ssd:2,fan_out=3,2,1,devices=cuda:0,cuda:1,graphs=off,target=random:qwen2.5-7b"
    first, second = lane_configs([long, short], SHARED)
    assert first == second
    assert first == LaneConfig(
        decoder="ssd",
        draft_len=2,
        fan_out=(3, 2, 1),
        devices="cuda:0,cuda:1",
        graphs=False,
        target="random:qwen2.5-7b",
    )


def test_a_lane_is_filled_up_from_the_other_options() -> None:
    ar, sd = lane_configs(["ar", "sd,recipe=fp32"], LaneOptions(draft_len=7, recipe="bf16"))
    assert (ar.decoder, ar.recipe) == ("ar", "bf16")
    assert (sd.draft_len, sd.recipe) == (7, "fp32")


def test_without_lanes_the_three_decoders_are_compared() -> None:
    assert [config.decoder for config in lane_configs(None, SHARED)] == ["ar", "sd", "ssd"]


@pytest.mark.parametrize(
    ("lanes", "message"),
    [
        (["ar"], "names 1 lane, but"),
        (["ar"] * 9, "names 9 lanes"),
        (["ar", "x"], "no decoder 'x'"),
        (["ar", "sd:six"], "like sd:6"),
        (["ar", "sd,draft-len=four"], "takes a whole number"),
        (["ar", "sd,colour=blue"], "'colour', which is none of decoder"),
        (["ar", "decoder=sd,decoder=ar"], "decoder twice"),
        (["ar", "sd,draft-len=0"], "--draft-len is 0"),
        (["ar", "sd:4,draft-len=5"], "draft-len twice: 'sd:4,draft-len=5'"),
        (["ar", "sd,decoder=ssd"], "decoder twice"),
        (["ar", "sd:99"], "draft_len 99 cannot work. Choose 1 to 15"),
        (["ar", "sd:" + "9" * 5000], "like sd:6"),
        (["ar", "sd,draft-len=" + "9" * 5000], "takes a whole number"),
        (["ar", "ssd,fan-out=auto:999"], "budget of 999 branches"),
        (["ar", "ssd,fan-out=" + "9" * 5000], "whole numbers of 1 or more"),
        (["ar", "sd,draft=ngram:5"], "ngram takes nothing after it"),
        (["ar", "sd,draft=scripted:2"], "gives no accuracy"),
        (["ar", "ar,recipe=q5"], "no recipe 'q5'"),
        (["ar", "ar,backend=cuda"], "no backend 'cuda'"),
        (["ar", "ssd:2,fan-out=1,2"], "takes 1 or 3"),
        (["ar", "sd,graphs=maybe"], "takes on or off"),
        (["ar", ""], "no decoder ''"),
        (["ar", "sd,recipe="], "--recipe is empty"),
    ],
)
def test_lanes_that_cannot_be_are_refused_in_one_sentence(lanes: list[str], message: str) -> None:
    with pytest.raises(UsageError, match=message) as refused:
        lane_configs(lanes, SHARED)
    assert refused.value.exit_code == 2


def test_values_may_hold_commas() -> None:
    assert parse_values("devices=cpu:0,cpu:1,fan-out=1,2") == {"devices": "cpu:0,cpu:1", "fan-out": "1,2"}


@pytest.mark.parametrize(
    ("text", "found"), [("1..4", [1, 2, 3, 4]), ("6,2,2", [2, 6]), ("3..3", [3]), ("", [])]
)
def test_draft_lens_are_a_range_or_a_list(text: str, found: list[int]) -> None:
    assert parse_draft_lens(text, [LaneConfig(decoder="sd")]) == found


@pytest.mark.parametrize(
    "text",
    ["0..3", "1..16", "4..2", "a..b", "1..", "..", "1,x", "-1..2", "1..99999999999", "1.." + "9" * 5000],
)
def test_draft_lens_that_cannot_be_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--choose-k is"):
        parse_draft_lens(text, [LaneConfig(decoder="sd")])


def test_choosing_k_needs_a_lane_that_drafts_and_a_fan_out_for_every_k() -> None:
    with pytest.raises(UsageError, match="no lane that drafts"):
        parse_draft_lens("1..4", [LaneConfig(decoder="ar")] * 2)
    with pytest.raises(UsageError, match="makes 272 branches a round for draft_len 7"):
        parse_draft_lens("1..7", [LaneConfig(decoder="ssd", fan_out=(34,))])
    with pytest.raises(UsageError, match="fits every K"):
        parse_draft_lens("1..4", [LaneConfig(decoder="ssd", fan_out=(2, 1, 1, 1, 1))])


def test_prompts_are_chosen_by_name_kind_or_length_and_never_from_the_tuning_set() -> None:
    assert len(chosen_prompts("")) == 8
    assert [prompt.name for prompt in chosen_prompts("merge,rainbow")] == ["merge", "rainbow"]
    assert {prompt.length for prompt in chosen_prompts("long")} == {"long"}
    assert {prompt.kind for prompt in chosen_prompts("math")} == {"math"}
    with pytest.raises(UsageError, match="'queue', but it takes merge"):
        chosen_prompts("queue")


def test_a_figure_is_one_that_lanes_measure_of_a_later_lane_over_an_earlier_one() -> None:
    out = Path("docs")
    assert parse_figure(RATIO, ["A", "B"], out) == (RATIO, "B", "A")
    assert parse_figure(f"{RATIO}=C/B", ["A", "B", "C"], out) == (RATIO, "C", "B")
    for lanes in ("A/B", "B/C", "B"):
        with pytest.raises(UsageError, match="later lane over an earlier"):
            parse_figure(f"{RATIO}={lanes}", ["A", "B"], out)
    for text in ("no.such.goal", "ui.cpu_share", "cpu.ar.over.llamacpp", "cpu.ar.over.hf"):
        with pytest.raises(UsageError, match=f"^--figure has '{text}', but it takes {RATIO}\\.$"):
            parse_figure(text, ["A", "B"], out)
    with pytest.raises(UsageError, match="needs --out"):
        parse_figure(RATIO, ["A", "B"], None)


def test_time_left_is_told_only_where_it_is_known() -> None:
    assert eta(10.0, 0, 4) == ""
    assert eta(10.0, 4, 4) == ""
    assert eta(10.0, 1, 4) == ", about 30 s left"
    assert eta(100.0, 1, 4) == ", about 5 min left"
