"""What `specmon bench` is asked to measure: draft lengths, prompts, a figure. Checked before anything is loaded."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from specmon.core.errors import UsageError

if TYPE_CHECKING:
    from specmon.core.bench.prompts import BenchPrompt
    from specmon.core.engine.messages import LaneConfig

MAX_DRAFT_LEN = 15


def parse_draft_lens(text: str, configs: Sequence[LaneConfig]) -> list[int]:
    """Read 1..10 or 2,4,6; [] where empty. Raises: UsageError where that, or a lane, cannot be tuned so."""
    if not text:
        return []
    found = draft_len_range(text, "--choose-k")
    if all(config.decoder == "ar" for config in configs):
        raise UsageError("--choose-k has no lane that drafts.", "Add one with --lane sd.")
    if any(len(config.fan_out) > 1 for config in configs):
        raise UsageError("--choose-k needs a fan-out that fits every K.", "Give one number to --fan-out.")
    return found


def draft_len_range(text: str, option: str) -> list[int]:
    """Read 1..10 or 2,4,6. Raises: UsageError naming `option`."""
    low, dots, high = text.partition("..")
    words = [low, high] if dots else text.split(",")
    if not all(word.strip().isdecimal() for word in words):
        raise UsageError(f"{option} is {text!r}, but it takes a range like 1..10, or numbers like 2,4,6.")
    numbers = [int(word) for word in words]
    found = list(range(numbers[0], numbers[1] + 1)) if dots else sorted(set(numbers))
    if not found or found[0] < 1 or found[-1] > MAX_DRAFT_LEN:
        raise UsageError(f"{option} is {text!r}, but a draft has 1 to {MAX_DRAFT_LEN} tokens.")
    return found


def chosen_prompts(text: str) -> list[BenchPrompt]:
    """The evaluation prompts that `text` names; all where it is empty. Raises: UsageError."""
    from specmon.core.bench.prompts import bench_prompts

    all_of_them = [prompt for prompt in bench_prompts() if prompt.set == "evaluation"]
    words = [word.strip() for word in text.split(",")] if text else []
    for word in words:
        if not any(word in (prompt.name, prompt.kind, prompt.length) for prompt in all_of_them):
            names = ", ".join(prompt.name for prompt in all_of_them)
            raise UsageError(f"--prompts has {word!r}, but it takes {names}, a kind or a length.")
    return [p for p in all_of_them if not words or {p.name, p.kind, p.length} & set(words)]


def parse_figure(text: str, letters: Sequence[str], out: Path | None) -> tuple[str, str, str]:
    """Read "GOAL=B/A": the goal, and the letters of both lanes. Raises: UsageError."""
    from specmon.core.bench.figures import GOALS

    goal, _, lanes = text.partition("=")
    faster, _, slower = (lanes or "B/A").partition("/")
    speed_ups = [
        name for name, known in GOALS.items() if known.unit == "ratio" and known.text.startswith("≥")
    ]
    if goal not in speed_ups:
        raise UsageError(
            f"--figure is {goal!r}, but it takes a goal that is a speed-up: {', '.join(speed_ups)}."
        )
    if out is None:
        raise UsageError("--figure needs --out, the folder of figures.json.")
    if faster not in letters or slower not in letters or letters.index(faster) <= letters.index(slower):
        raise UsageError(f"--figure has {lanes!r}, but it takes a later lane over an earlier one, like B/A.")
    return goal, faster, slower


def at_least_one(number: int, option: str) -> int:
    """`number`. Raises: UsageError if it is less than 1."""
    if number < 1:
        raise UsageError(f"{option} is {number}, but it must be 1 or more.")
    return number
