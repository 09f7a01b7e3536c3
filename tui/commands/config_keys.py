"""The table [keys] of the config file, checked against the actions and keys there are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from specmon.core.errors import UsageError
from specmon.tui.commands.config import FILE_NAME, Config, read_config


@dataclass(frozen=True, kw_only=True)
class CheckedKeys:
    """`usable` keys by action, and `notes` about the whole config file: names nothing reads, keys there are not."""

    usable: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def config_notes() -> tuple[str, ...]:
    """What the user should know about the config file where no monitor opens, so that no key matters."""
    config = read_config()
    try:
        return check_keys(config).notes
    except UsageError as error:
        return (*config.notes, str(error))


def check_keys(config: Config) -> CheckedKeys:
    """Keep the keys that can be pressed. Raises: UsageError where one key would do two things."""
    if not config.keys:
        return CheckedKeys(notes=config.notes)
    from specmon.tui.screens.keys import is_key

    wrong = {
        action: name for action, names in config.keys.items() for name in names.split() if not is_key(name)
    }
    usable = {action: names for action, names in config.keys.items() if action not in wrong}
    known = set(_actions(config, usable))
    unknown = tuple(f"keys.{action}" for action in config.keys if action not in known)
    refused = tuple(
        f"{FILE_NAME}: keys.{action} is {name!r}, which is no key; {action} keeps its own (in {config.path.parent})."
        for action, name in wrong.items()
        if action in known
    )
    return CheckedKeys(
        usable=usable, notes=(*replace(config, unknown=config.unknown + unknown).notes, *refused)
    )


def _actions(config: Config, keys: Mapping[str, str]) -> Iterator[str]:
    """The actions of all screens. Raises: UsageError where `keys` gives two of one screen the same key."""
    from specmon.tui.screens.keys import remapped
    from specmon.tui.screens.monitor import MonitorScreen
    from specmon.tui.screens.race import RaceScreen
    from specmon.tui.screens.race_replay import RaceReplayScreen
    from specmon.tui.screens.replay import ReplayScreen
    from specmon.tui.screens.stage import own_bindings

    for screen in (MonitorScreen, RaceScreen, ReplayScreen, RaceReplayScreen):
        try:
            yield from (binding.id or "" for binding in remapped(own_bindings(screen), keys))
        except UsageError as error:
            raise UsageError(error.message, f"It is given in {config.path}, [keys].") from error
