"""What the settings offer, and why not."""

from __future__ import annotations

import pytest

from specmon.core.engine.messages import LaneConfig
from specmon.tui.screens.choices import Plan, Setting, plan_label

CPU, CUDA = ("cpu:0", "cpu:1"), ("cuda:0", "cuda:1")


def setting(plan: Plan, name: str, devices: tuple[str, ...] = CPU) -> Setting:
    return next(s for s in plan.settings(devices) if s.name == name)


def test_each_setting_shows_the_present_value_as_chosen() -> None:
    plan = Plan(LaneConfig(decoder="sd", draft="ngram", draft_len=7, recipe="fp32"), 64)
    chosen = {s.name: s.choices[s.chosen].value for s in plan.settings(CPU)}
    assert chosen == {
        "decoder": "sd",
        "draft": "ngram",
        "draft_len": "7",
        "fan_out": "1",
        "recipe": "fp32",
        "max_new_tokens": "64",
    }


def test_a_value_outside_the_list_is_kept() -> None:
    plan = Plan(LaneConfig(draft="/models/head", fan_out=(5, 4, 3, 2, 2)), 100)
    assert setting(plan, "draft").choices[0].value == "/models/head"
    assert setting(plan, "fan_out").choices[0].value == "5·4·3·2·2"
    assert plan.changed("draft", 1, CPU).changed("draft", -1, CPU).config.draft == "auto"


@pytest.mark.parametrize(
    ("decoder", "idle"), [("ar", {"draft", "draft_len", "fan_out"}), ("sd", {"fan_out"}), ("ssd", set())]
)
def test_settings_without_effect_say_so_and_do_not_change(decoder: str, idle: set[str]) -> None:
    plan = Plan(LaneConfig(decoder=decoder), 64)  # type: ignore[arg-type]
    assert {s.name for s in plan.settings(CPU) if s.idle} == idle
    for name in idle:
        assert plan.changed(name, 1, CPU) == plan


def test_impossible_recipe_is_skipped_with_its_reason() -> None:
    plan = Plan(LaneConfig(recipe="auto"), 64)
    assert plan.changed("recipe", 1, CPU).config.recipe == "q4"
    assert plan.changed("recipe", 1, CUDA).config.recipe == "bf16"
    assert setting(plan, "recipe", CUDA).choices[1].reason


def test_eagle3_needs_the_embedded_target() -> None:
    assert Plan(LaneConfig(), 64).changed("draft", 1, CPU).config.draft == "eagle3"
    assert Plan(LaneConfig(target="other"), 64).changed("draft", 1, CPU).config.draft == "ngram"


def test_ends_stay() -> None:
    plan = Plan(LaneConfig(decoder="ar"), 32)
    assert plan.changed("decoder", -1, CPU) == plan
    assert plan.changed("max_new_tokens", -1, CPU) == plan


def test_new_draft_len_drops_a_fan_out_made_for_another() -> None:
    plan = Plan(LaneConfig(draft_len=4, fan_out=(5, 4, 3, 2, 2)), 64)
    assert plan.changed("draft_len", 1, CPU).config.fan_out == (5,)
    assert Plan(LaneConfig(), 64).changed("draft_len", 1, CPU).config.fan_out == (1,)


@pytest.mark.parametrize(
    ("config", "label"),
    [
        (LaneConfig(decoder="ar"), "AR, max 1,024"),
        (LaneConfig(decoder="sd", draft="ngram"), "SD K4 ngram, max 1,024"),
        (LaneConfig(fan_out=(2,)), "SSD K4 fan 2, max 1,024"),
    ],
)
def test_plan_label(config: LaneConfig, label: str) -> None:
    assert plan_label(Plan(config, 1024)) == label
