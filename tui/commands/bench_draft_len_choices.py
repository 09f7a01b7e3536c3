"""What `specmon bench draft-len` is asked to measure, checked before anything is loaded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

from specmon.core.errors import UsageError
from specmon.tui.commands.output import say

if TYPE_CHECKING:
    from specmon.core.bench.prompts import BenchPrompt
    from specmon.core.engine.messages import LaneConfig
    from specmon.core.events import Decoder

BOTH: tuple[Decoder, ...] = ("sd", "ssd")


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """The checked options. `config` is loaded for the longest of `draft_lens`, once a decoder."""

    config: LaneConfig
    decoders: Sequence[Decoder]
    draft_lens: Sequence[int]
    prompts: Sequence[BenchPrompt]
    repeats: int
    max_new_tokens: int
    sweep_only: bool

    @property
    def all_decoders(self) -> tuple[Decoder, ...]:
        """AR before the others: the lanes in their order."""
        return ("ar", *self.decoders)


def parse_decoders(text: str) -> tuple[Decoder, ...]:
    """Read "sd,ssd"; both where empty. Raises: UsageError."""
    words = tuple(dict.fromkeys(word.strip() for word in text.split(","))) if text else BOTH
    for word in words:
        if word not in BOTH:
            raise UsageError(
                f"--decoder has {word!r}, but it takes sd, ssd or sd,ssd; AR is always measured."
            )
    return cast("tuple[Decoder, ...]", words)


def parse_figures(text: str, wanted: Wanted, out: Path | None) -> list[str]:
    """Read "GOAL,GOAL"; [] where empty. Raises: UsageError for a goal that this run does not measure."""
    from specmon.core.bench.draft_len_figures import RATIO_GOALS, TAU_GOALS, TAU_K

    goals = [goal.strip() for goal in text.split(",")] if text else []
    for goal in goals:
        if goal not in RATIO_GOALS and goal not in TAU_GOALS:
            raise UsageError(f"--figure has {goal!r}, but it takes {', '.join([*RATIO_GOALS, *TAU_GOALS])}.")
        if goal in RATIO_GOALS and (wanted.sweep_only or set(wanted.decoders) != set(BOTH)):
            raise UsageError(
                f"--figure {goal} needs SD and SSD on the evaluation prompts, without --sweep-only."
            )
        if goal in TAU_GOALS and not _measures_tau(wanted, TAU_GOALS[goal], TAU_K):
            raise UsageError(
                f"--figure {goal} needs --target smollm2 --draft {TAU_GOALS[goal]} --sweep-only, SD at K {TAU_K}, and all "
                "evaluation prompts."
            )
    if goals and out is None:
        raise UsageError("--figure needs --out, the folder of figures.json.")
    return goals


def decoders_of_machine(devices: str) -> tuple[Decoder, ...]:
    """SD, and SSD where `devices` are two. Raises: UsageError for devices that are not here."""
    from specmon.core.ceilings import cuda_uuids
    from specmon.core.hardware import resolve_devices, survey

    if len(resolve_devices(devices, survey(cuda_uuids())).names) == 2:
        return BOTH
    say("SSD is left out: it needs two devices. --decoder sd,ssd measures it on one all the same.")
    return ("sd",)


def _measures_tau(wanted: Wanted, draft: str, draft_len: int) -> bool:
    from specmon.core.bench.prompts import bench_prompts

    everything = {prompt.name for prompt in bench_prompts() if prompt.set == "evaluation"}
    return (
        (wanted.config.target, wanted.config.draft) == ("smollm2", draft)
        and wanted.sweep_only
        and "sd" in wanted.decoders
        and draft_len in wanted.draft_lens
        and {prompt.name for prompt in wanted.prompts} == everything
    )
