"""A lane's configuration: what cannot work is refused, and its drafter is opened."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec
import torch

from specmon.core.decoders.fan_out import MAX_BRANCHES, FanOut, Given, Learned
from specmon.core.drafters.link import DraftLink, InlineLink, WorkerLink
from specmon.core.drafters.registry import DrafterSpec, build_drafter, resolve_name
from specmon.core.engine.messages import LaneConfig, Request
from specmon.core.errors import UsageError
from specmon.core.models.passes import MAX_ROWS
from specmon.core.models.pool import Progress


def fan_out_of(config: LaneConfig) -> FanOut:
    """How many branches each accepted_len 0 … draft_len gets; one number serves all."""
    if config.branch_budget is not None:
        return Learned(config.draft_len, config.branch_budget)
    widths = config.fan_out
    return Given(widths * (config.draft_len + 1) if len(widths) == 1 else widths)


def open_link(
    config: LaneConfig,
    devices: tuple[str, ...],
    cache_dir: Path,
    clock: Callable[[], int],
    cores: Mapping[str, int],
    progress: Progress,
) -> DraftLink:
    """The drafter `config` names, on the last of `devices`: a worker, which starts loading at once, or here.

    `progress` is told what loading does.

    Raises: UsageError or SpecmonError where there is no such drafter (a worker says so when it is first asked).
    """
    device = devices[-1]
    spec = DrafterSpec(
        name=resolve_name(config.draft, config.target),
        target=config.target,
        recipe=config.recipe,
        backend=config.backend,
        device=device,
        draft_len=config.draft_len,
        n_branches=sum(fan_out_of(config).widths()) if config.decoder == "ssd" else 0,
        cache_dir=cache_dir,
        graphs=config.graphs,
    )
    if len(devices) == 1:
        with torch.inference_mode():
            return InlineLink(build_drafter(spec, progress), clock)
    return WorkerLink(
        build_drafter, (spec,), device=device, core=cores.get(device), clock=clock, progress=progress
    )


def turn_config(config: LaneConfig, request: Request) -> LaneConfig:
    """`config` as one turn uses it: with the draft_len its request asks for.

    Raises: UsageError where that is more than the lane is loaded for, or the fan-out does not fit it.
    """
    if request.draft_len is None or config.decoder == "ar":
        return config
    if request.draft_len > config.draft_len:
        raise UsageError(
            f"A turn asks for draft_len {request.draft_len}, the lane is loaded for {config.draft_len}.",
            "Load it with as many.",
        )
    changed = msgspec.structs.replace(config, draft_len=request.draft_len)
    check_config(changed)
    return changed


def check_config(config: LaneConfig) -> None:
    """Raises: UsageError where numbers cannot work, whatever the model."""
    if config.decoder == "ar":
        return
    if not 1 <= config.draft_len < MAX_ROWS:
        raise UsageError(f"draft_len {config.draft_len} cannot work.", f"Choose 1 to {MAX_ROWS - 1}.")
    if config.decoder != "ssd":
        return
    if config.branch_budget is not None:
        if not 1 <= config.branch_budget <= MAX_BRANCHES:
            raise UsageError(
                f"A budget of {config.branch_budget} branches cannot work.", f"Choose 1 to {MAX_BRANCHES}."
            )
        return
    if len(config.fan_out) not in (1, config.draft_len + 1):
        raise UsageError(
            f"fan_out has {len(config.fan_out)} entries for draft_len {config.draft_len}.",
            f"Give one for all, or {config.draft_len + 1}.",
        )
    if min(config.fan_out) < 0 or sum(config.fan_out) < 1:
        raise UsageError("fan_out must be 0 or more for each accepted_len, and more than 0 for one.")
    if (total := sum(fan_out_of(config).widths())) > MAX_BRANCHES:
        raise UsageError(
            f"fan_out {config.fan_out_words} makes {total} branches a round for draft_len {config.draft_len}.",
            f"Choose at most {MAX_BRANCHES} in all.",
        )
