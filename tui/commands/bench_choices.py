"""What `specmon bench` is asked to measure: draft lengths and prompts. Checked before anything is loaded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from specmon.core.errors import UsageError
from specmon.tui.commands.numbers import whole_number

if TYPE_CHECKING:
    from specmon.core.bench.prompts import BenchPrompt
    from specmon.core.engine.messages import LaneConfig


def parse_draft_lens(text: str, configs: Sequence[LaneConfig]) -> list[int]:
    """Read 1..10 or 2,4,6; [] where empty. Raises: UsageError where that, or a lane, cannot be tuned so."""
    if not text:
        return []
    from msgspec.structs import replace

    from specmon.core.decoders.check import check_config

    found = draft_len_range(text, "--choose-k")
    if all(config.decoder == "ar" for config in configs):
        raise UsageError("--choose-k has no lane that drafts.", "Add one with --lane sd.")
    if any(len(config.fan_out) > 1 for config in configs):
        raise UsageError("--choose-k needs a fan-out that fits every K.", "Give one number to --fan-out.")
    for config in configs:
        check_config(replace(config, draft_len=found[-1]))
    return found


def draft_len_range(text: str, option: str) -> list[int]:
    """Read 1..10 or 2,4,6. Raises: UsageError naming `option`."""
    from specmon.core.decoders.check import MAX_DRAFT_LEN

    low, dots, high = text.partition("..")
    words = [low, high] if dots else text.split(",")
    numbers = [number for word in words if (number := whole_number(word)) is not None]
    if len(numbers) < len(words):
        raise UsageError(f"{option} is {text!r}, but it takes a range like 1..10, or numbers like 2,4,6.")
    ordered = numbers if dots else sorted(set(numbers))
    if ordered[0] > ordered[-1]:
        raise UsageError(f"{option} is {text!r}, but a range goes from the smaller number to the greater.")
    if not 1 <= ordered[0] <= ordered[-1] <= MAX_DRAFT_LEN:
        raise UsageError(f"{option} is {text!r}, but a draft has 1 to {MAX_DRAFT_LEN} tokens.")
    return list(range(ordered[0], ordered[-1] + 1)) if dots else ordered


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
