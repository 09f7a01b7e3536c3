"""What a lane comes to on this machine, found before anything is loaded."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from specmon.core.decoders.check import check_config, check_tree_drafter
from specmon.core.drafters.registry import check_drafter, refuse_drafter, resolve_name
from specmon.core.engine.messages import LaneConfig
from specmon.core.hardware import Machine, ResolvedDevices, resolve_devices, target_devices
from specmon.core.models.recipe import resolve_recipe
from specmon.core.models.source import open_model


@dataclass(frozen=True, kw_only=True)
class Settled:
    """A lane that can work here. `models`: what each of `devices` is; `context_length` in tokens."""

    config: LaneConfig
    devices: ResolvedDevices
    models: tuple[str, ...]
    recipe: str
    context_length: int


def settle(config: LaneConfig, machine: Machine, cache_dir: Path) -> Settled:
    """Find the devices, the recipe and the models that `config` names; no weights are read.

    Raises: UsageError or SpecmonError where one of them is not here, or they do not go together.
    """
    check_config(config)
    devices = resolve_devices(config.devices, machine)
    target = open_model(config.target, cache_dir)
    refuse_drafter(target)
    n_devices = len(target_devices(devices.names))
    recipe = resolve_recipe(config.recipe, devices.names[0], target.file, config.backend, n_devices=n_devices)
    if config.decoder != "ar":
        if config.draft_nodes:
            check_tree_drafter(resolve_name(config.draft, config.target))
        check_drafter(config.draft, config.target, target, branches=config.decoder == "ssd")
    return Settled(
        config=config,
        devices=devices,
        models=tuple(machine.devices[name].model for name in devices.names),
        recipe=recipe.name,
        context_length=target.file.config.served_context,
    )
