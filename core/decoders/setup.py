"""A lane's drafter is opened, and a turn's own configuration made."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec
import torch

from specmon.core.decoders.check import check_config, fan_out_of
from specmon.core.drafters.head_check import check_head, doubts
from specmon.core.drafters.link import DraftLink, InlineLink, WorkerLink
from specmon.core.drafters.registry import DrafterSpec, build_drafter, is_head, model_of, resolve_name
from specmon.core.engine.messages import LaneConfig, Request
from specmon.core.errors import UsageError
from specmon.core.models.hf_folder import HfFolder
from specmon.core.models.pool import LoadedModel, Progress
from specmon.core.models.source import open_model


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
    spec, device = drafter_spec(config, devices[-1], cache_dir), devices[-1]
    if len(devices) == 1:
        with torch.inference_mode():
            return InlineLink(build_drafter(spec, progress), clock)
    return WorkerLink(
        build_drafter, (spec,), device=device, core=cores.get(device), clock=clock, progress=progress
    )


def drafter_spec(config: LaneConfig, device: str, cache_dir: Path) -> DrafterSpec:
    """What is to be built on `device` for the drafter that `config` names. Raises: UsageError where there is none."""
    return DrafterSpec(
        name=resolve_name(config.draft, config.target),
        target=config.target,
        recipe=config.recipe,
        backend=config.backend,
        device=device,
        draft_len=config.draft_len,
        n_branches=sum(fan_out_of(config).widths()) if config.decoder == "ssd" else 0,
        cache_dir=cache_dir,
        graphs=config.graphs,
        draft_nodes=config.draft_nodes,
    )


def doubtful_head(config: LaneConfig, target: LoadedModel, cache_dir: Path, progress: Progress) -> str | None:
    """Why the EAGLE-3 head that `config` names should be taken otherwise; None where it is fine.

    The head is tried on a short text where its card and tensors leave a doubt (`head_check.doubts`).
    """
    name = model_of(resolve_name(config.draft, config.target), config.target)
    file = open_model(name, cache_dir).file if name else None
    if not isinstance(file, HfFolder) or not is_head(file):
        return None
    found = doubts(file, target.model.config)
    if not found:
        return None
    progress(f"trying the head: {found[0]}", None)
    return check_head(file, target).warning


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
