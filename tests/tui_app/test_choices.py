"""What the settings offer, and why not."""

from __future__ import annotations

import pytest

from specmon.core.engine.messages import LaneConfig, Request
from specmon.core.events import Sampling
from specmon.tui.screens.choices import Plan, Setting, plan_label, plan_of
from specmon.tui.screens.settings import WIDTH, _row
from specmon.tui.widgets.lines import plain

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
        "devices": "auto",
        "temperature": "0",
        "seed": "0",
        "max_new_tokens": "64",
    }


def test_a_value_outside_the_list_is_kept() -> None:
    plan = Plan(LaneConfig(draft="/models/head", fan_out=(5, 4, 3, 2, 2)), 100)
    assert setting(plan, "draft").choices[0].value == "/models/head"
    assert setting(plan, "fan_out").choices[0].value == "5·4·3·2·2"
    assert plan.changed("draft", 1, CPU).changed("draft", -1, CPU).config.draft == "auto"


@pytest.mark.parametrize(
    ("decoder", "idle"),
    [("ar", {"draft", "draft_len", "fan_out", "seed"}), ("sd", {"fan_out", "seed"}), ("ssd", {"seed"})],
)
def test_settings_without_effect_say_so_and_do_not_change(decoder: str, idle: set[str]) -> None:
    plan = Plan(LaneConfig(decoder=decoder), 64)  # type: ignore[arg-type]
    assert {s.name for s in plan.settings(CPU) if s.idle} == idle
    for name in idle:
        assert plan.changed(name, 1, CPU) == plan


def test_impossible_recipe_is_skipped_with_its_reason() -> None:
    plan = Plan(LaneConfig(recipe="auto"), 64)
    assert plan.changed("recipe", 1, CPU).config.recipe == "q4"
    assert plan.changed("recipe", 1, CPU).changed("recipe", 1, CPU).config.recipe == "bf16"
    assert plan.changed("recipe", 1, CUDA).config.recipe == "fp8"
    assert setting(plan, "recipe", CUDA).choices[1].reason
    assert setting(plan, "recipe", CPU).choices[2].reason


def test_recipe_depends_on_the_planned_devices() -> None:
    plan = Plan(LaneConfig(devices="cpu:0"), 64)
    assert plan.changed("recipe", 1, CUDA).config.recipe == "q4"


def test_devices_are_offered_alone_and_as_target_and_draft() -> None:
    offered = [choice.value for choice in setting(Plan(LaneConfig(), 64), "devices", CUDA).choices]
    assert offered == ["auto", "cuda:0", "cuda:1", "cuda:0,cuda:1", "cuda:1,cuda:0", "cpu:0"]


def test_seed_matters_once_something_is_drawn() -> None:
    plan = Plan(LaneConfig(), 64).changed("seed", 1, CPU)
    assert plan.seed == 0
    plan = plan.changed("temperature", 2, CPU).changed("seed", 3, CPU)
    assert (plan.temperature, plan.seed) == (0.6, 3)


def test_plan_changes_a_request_but_keeps_what_it_does_not_plan() -> None:
    template = Request(messages=(), sampling=Sampling(top_p=0.9), stop_strings=("x",))
    request = Plan(LaneConfig(), 64, temperature=0.6, seed=3).request(template)
    assert request == Request(
        messages=(),
        max_new_tokens=64,
        sampling=Sampling(temperature=0.6, top_p=0.9),
        seed=3,
        stop_strings=("x",),
    )
    assert plan_of(LaneConfig(), request) == Plan(LaneConfig(), 64, 0.6, 3)


def test_eagle3_needs_the_embedded_target() -> None:
    assert Plan(LaneConfig(), 64).changed("draft", 1, CPU).config.draft == "eagle3"
    assert Plan(LaneConfig(target="other"), 64).changed("draft", 1, CPU).config.draft == "ngram"


def test_ends_stay() -> None:
    plan = Plan(LaneConfig(decoder="ar"), 32)
    assert plan.changed("decoder", -1, CPU) == plan
    assert plan.changed("max_new_tokens", -1, CPU) == plan


def test_a_fan_out_may_be_auto_and_given_again() -> None:
    plan = Plan(LaneConfig(fan_out=(8,)), 64).changed("fan_out", 1, CPU)
    assert (plan.config.branch_budget, setting(plan, "fan_out").choices[-1].value) == (16, "auto:16")
    assert plan_label(plan) == "SSD K4 fan auto:16, max 64"

    back = plan.changed("fan_out", -1, CPU).config
    assert (back.fan_out, back.branch_budget) == ((8,), None)


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


def test_chosen_value_is_in_sight_however_many_come_before_it() -> None:
    plan = Plan(LaneConfig(devices="cpu:0"), 64)
    shown = plain(_row(setting(plan, "devices", CUDA), selected=True))
    assert "[cpu:0]" in shown
    assert "…" in shown
    assert len(shown) == WIDTH
