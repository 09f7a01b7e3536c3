"""The page on metrics states the rules as the code has them."""

import re
from pathlib import Path
from typing import get_args

import pytest

from specmon.core.metrics import causes, slots, throttle
from specmon.core.metrics.causes import CauseName
from specmon.core.metrics.summary import Summary

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "metrics.md").read_text()
RULES = dict(re.findall(r"^\| ([\w -]+) \| (.*) \|$", PAGE.partition("## WHY")[2], re.MULTILINE))


def share(fraction):
    return f"{100 * fraction:.0f} %"


STATED = {
    "throttling": [
        share(throttle.HELD_SHARE),
        share(throttle.LOW_CLOCK),
        share(throttle.RATE_FALL),
        share(throttle.CLOCK_FALL),
        f"{throttle.LOOK_BACK:,}",
        f"≥ {throttle.LEAST_ROUNDS}",
    ],
    "launch-bound": [share(causes.IDLE_SHARE)],
    "no overlap": [share(causes.HIDDEN_SHARE), f"{causes.LEAST_GAIN:.2f}"],
    "slow branches": [f"{causes.LEAST_GAIN:.2f}"],
    "empty slots": [
        f"≥ {slots.LEAST_ROUNDS} rounds",
        share(slots.EMPTY_SHARE),
        share(slots.FLAT),
        f"≥ {slots.LEAST_GROUP} rounds",
        f"{slots.ABOVE_AR:.2f} AR steps",
        share(causes.NEAR_CEILING),
        f"{causes.LEAST_GAIN:.2f}",
    ],
    "weak drafter": [share(causes.WEAK_ACCEPTANCE), f"{causes.LEAST_GAIN:.2f}"],
    "K too deep": [f"{causes.LEAST_GAIN:.2f}×", f"≥ {causes.LEAST_DEEP_ROUNDS} rounds"],
    "verify-bound": [share(causes.VERIFY_SHARE), share(causes.NEAR_CEILING)],
}


@pytest.mark.parametrize("cause", get_args(CauseName))
def test_page_states_every_threshold_of_a_cause(cause):
    missing = [figure for figure in STATED[cause] if figure not in RULES[cause]]
    assert missing == []


def test_page_defines_the_figures_of_the_json():
    plain = {"decoder", "draft", "recipe", "backend", "devices", "tokens", "text", "stop_reason", "session"}
    named = {"branch_hit_rate": "hit rate", "overlap_ms": "overlap", "prefill_ms": "prefill"}
    for name in Summary.__struct_fields__:
        if name not in plain:
            assert named.get(name, name) in PAGE, name
