"""The user's config file: how the monitor looks, its keys, and defaults of the options. Missing is fine."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from specmon.core import paths
from specmon.core.errors import UsageError

FILE_NAME = "config.toml"
#: what stands at the top of the file, and the type it has to have
LOOKS: dict[str, type] = {"theme": str, "ascii": bool, "mouse": bool, "refresh_hz": float}
#: the table [run]: defaults of options, by their names with _ for -
RUN_OPTIONS: dict[str, type] = {
    "decoder": str,
    "target": str,
    "draft": str,
    "draft_len": int,
    "draft_nodes": int,
    "fan_out": str,
    "recipe": str,
    "devices": str,
    "max_new_tokens": int,
    "temperature": float,
    "top_p": float,
    "top_k": int,
    "seed": int,
}
RACE_OPTIONS = RUN_OPTIONS.keys() - {"decoder"}
_WORDS = {str: "a text in quotes", bool: "true or false", int: "a whole number", float: "a number"}


@dataclass(frozen=True, kw_only=True)
class Config:
    """What the file says: `looks`, defaults for `run`, `keys` by action; `unknown` names what nothing reads."""

    path: Path
    looks: Mapping[str, Any] = field(default_factory=dict)
    run: Mapping[str, Any] = field(default_factory=dict)
    keys: Mapping[str, str] = field(default_factory=dict)
    unknown: tuple[str, ...] = ()

    @property
    def notes(self) -> tuple[str, ...]:
        """What the user should know about the file."""
        if not self.unknown:
            return ()
        return (f"{FILE_NAME}: nothing reads {', '.join(self.unknown)} (in {self.path.parent}).",)

    def defaults(self) -> dict[str, dict[str, Any]]:
        """Options of the sub-commands that open a monitor, as given in the file."""
        look = {name: self.looks[name] for name in ("theme", "ascii") if name in self.looks}
        if "mouse" in self.looks:
            look["no_mouse"] = not self.looks["mouse"]
        race = {name: value for name, value in self.run.items() if name in RACE_OPTIONS}
        return {"run": {**self.run, **look}, "race": {**race, **look}, "replay": look}


def read_config(folder: Path | None = None) -> Config:
    """The config in `folder`, the user's config folder if None.

    Raises: UsageError for a file that cannot be read, is not TOML, or gives a value of the wrong kind.
    """
    path = (folder or paths.config_dir()) / FILE_NAME
    try:
        table = tomllib.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return Config(path=path)
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"The config {path} cannot be read: {error}.") from error
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"The config {path} is not valid TOML: {error}.") from error
    run, keys = _table(path, table, "run"), _table(path, table, "keys")
    unknown = [name for name in table if name not in LOOKS and name not in ("run", "keys")]
    unknown += [f"run.{name}" for name in run if name not in RUN_OPTIONS]
    return Config(
        path=path,
        looks=_checked(path, "", table, LOOKS),
        run=_checked(path, "run.", run, RUN_OPTIONS),
        keys=_checked(path, "keys.", keys, dict.fromkeys(keys, str)),
        unknown=tuple(unknown),
    )


def _table(path: Path, table: Mapping[str, Any], name: str) -> dict[str, Any]:
    inner = table.get(name, {})
    if not isinstance(inner, dict):
        raise UsageError(f"The config {path} gives {name} a value, but it is a table: [{name}].")
    return inner


def _checked(path: Path, prefix: str, table: Mapping[str, Any], kinds: Mapping[str, type]) -> dict[str, Any]:
    """The known entries of a table. Raises: UsageError for a value of the wrong kind."""
    checked = {}
    for name in table.keys() & kinds.keys():
        value, kind = table[name], kinds[name]
        if kind is float and type(value) is int:
            value = float(value)
        if type(value) is not kind:
            raise UsageError(
                f"The config {path} gives {prefix}{name} {value!r}, but it takes {_WORDS[kind]}."
            )
        checked[name] = value
    return checked
