"""What `specmon bench draft-len` is asked to measure, checked before anything is loaded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
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

    @property
    def configs(self) -> list[LaneConfig]:
        """The lane of each of `all_decoders`."""
        from msgspec.structs import replace

        return [replace(self.config, decoder=decoder) for decoder in self.all_decoders]


def parse_decoders(text: str) -> tuple[Decoder, ...]:
    """Read "sd,ssd"; both where empty. Raises: UsageError."""
    words = tuple(dict.fromkeys(word.strip() for word in text.split(","))) if text else BOTH
    for word in words:
        if word not in BOTH:
            raise UsageError(
                f"--decoder has {word!r}, but it takes sd, ssd or sd,ssd; AR is always measured."
            )
    return cast("tuple[Decoder, ...]", words)


def decoders_of_machine(devices: str) -> tuple[Decoder, ...]:
    """SD, and SSD where `devices` are two. Raises: UsageError for devices that are not here."""
    from specmon.core.ceilings import cuda_uuids
    from specmon.core.hardware import resolve_devices, survey

    if len(resolve_devices(devices, survey(cuda_uuids())).names) == 2:
        return BOTH
    say("SSD is left out: it needs two devices. --decoder sd,ssd measures it on one all the same.")
    return ("sd",)
