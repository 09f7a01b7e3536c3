"""The configurations a benchmark compares: their letters, and labels that say in what they differ."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from specmon.core.engine.messages import LaneConfig

LETTERS = "ABCDEFGH"
CONTROL = "A′"


class BenchLane(msgspec.Struct, frozen=True, kw_only=True):
    """One configuration. `letter` is "A", "B", …, or "A′" for lane A once more, as a control."""

    letter: str
    label: str
    config: LaneConfig


def bench_lanes(configs: Sequence[LaneConfig], *, control: bool) -> tuple[BenchLane, ...]:
    """`configs` with letters and labels; `control` adds the first one a second time."""
    lanes = [
        BenchLane(letter=letter, label=label, config=config)
        for letter, label, config in zip(LETTERS, labels(configs), configs, strict=False)
    ]
    if control:
        lanes.append(msgspec.structs.replace(lanes[0], letter=CONTROL))
    return tuple(lanes)


def labels(configs: Sequence[LaneConfig]) -> list[str]:
    """ "AR", "SD K4", "SSD K4 fan 2 · recipe bf16": the decoder, and what is not the same in all of `configs`."""
    shown = [tell for tell in _TELLS if len({text for config in configs if (text := tell(config))}) > 1]
    return [" · ".join([decoder_words(c), *(text for tell in shown if (text := tell(c)))]) for c in configs]


def decoder_words(config: LaneConfig) -> str:
    """The decoder with the numbers it takes."""
    name = config.decoder.upper()
    if config.decoder == "ar":
        return name
    if config.decoder == "sd":
        return f"{name} K{config.draft_len}" + (f" tree {config.draft_nodes}" if config.draft_nodes else "")
    return f"{name} K{config.draft_len} fan {config.fan_out_words}"


def _draft(config: LaneConfig) -> str:
    return "" if config.decoder == "ar" else f"draft {config.draft}"


_TELLS: tuple[Callable[[LaneConfig], str], ...] = (
    lambda config: config.target,
    _draft,
    lambda config: f"recipe {config.recipe}",
    lambda config: f"backend {config.backend}",
    lambda config: f"on {config.devices}",
    lambda config: f"graphs {'on' if config.graphs else 'off'}",
)
