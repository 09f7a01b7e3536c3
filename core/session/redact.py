"""Making a recording fit to be shown: what was said goes, how long it took stays.

Names and notes are kept only where they cannot hold a path, a URL or a user; in doubt they go.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from specmon.core.errors import UsageError
from specmon.core.events import (
    Branch,
    Event,
    Gap,
    Header,
    Lane,
    Log,
    Marker,
    Prefill,
    Round,
    Sample,
    Telemetry,
    Turn,
    TurnEnd,
    Vocabulary,
)
from specmon.core.session.codec import Unknown
from specmon.core.session.reader import SessionReader
from specmon.core.session.writer import SessionWriter

REDACTED = "redacted"

_PATHLIKE = re.compile(r"[/\\~@]|\.(gguf|safetensors|bin|json|session)\b", re.IGNORECASE)
_SERIAL = re.compile(r"\b(GPU|MIG)-[0-9a-f-]{8,}|\b[0-9a-f]{12,}\b|\b\d{10,}\b", re.IGNORECASE)


class Redaction(msgspec.Struct, frozen=True, kw_only=True):
    """What `redact` did: events written, events left out whole, and what the reader warned of."""

    path: Path
    events: int
    dropped: int
    warnings: tuple[str, ...]


def redact(
    in_path: str | os.PathLike[str], out_path: str | os.PathLike[str], *, force: bool = False
) -> Redaction:
    """Write a copy of a recording without what identifies anything or anybody.

    Prompt, text, token ids, log lines, paths, host, user, serials and URLs go.

    Raises: UsageError, SpecmonError as reading and writing do; then no part of a copy stays, and what `force` would have
    replaced is as it was.
    """
    if Path(out_path).exists() and Path(in_path).exists() and Path(out_path).samefile(in_path):
        raise UsageError("A recording cannot be redacted onto itself.", "Name another file.")
    written = dropped = 0
    replaced = Path(out_path) if force and Path(out_path).is_file() else None
    with SessionReader.open(in_path) as reader:
        writer = SessionWriter(f"{out_path}.part" if replaced else out_path, force=force)
        try:
            with writer:
                for event in reader.events():
                    kept = redact_event(event)
                    if kept is None:
                        dropped += 1
                    else:
                        writer.write(kept)
                        written += 1
        except BaseException:
            if writer.path.is_file():
                writer.path.unlink()
            raise
        warnings = reader.warnings
    path = writer.path.replace(replaced) if replaced else writer.path
    return Redaction(path=path, events=written, dropped=dropped, warnings=warnings)


def redact_event(event: Event) -> Event | None:
    """Give the event without what identifies anything or anybody; None where nothing of it may stay."""
    if isinstance(event, Vocabulary | Unknown):
        return None
    rule = _RULES.get(type(event))
    return event if rule is None else rule(event)


def _header(event: Header) -> Header:
    return replace(
        event,
        versions={_note(name): _note(version) for name, version in event.versions.items()},
        host=None,
        devices=tuple(replace(d, name=_note(d.name), model=_note(d.model)) for d in event.devices),
        link=_optional_note(event.link),
        ceiling_source=_optional_note(event.ceiling_source),
        redacted=True,
    )


def _lane(event: Lane) -> Lane:
    return replace(
        event,
        target=_note(event.target),
        drafter=_optional_note(event.drafter),
        drafter_kind=_optional_note(event.drafter_kind),
        recipe=_note(event.recipe),
        backend=_note(event.backend),
        devices=tuple(map(_note, event.devices)),
        url=None,
        server=_optional_note(event.server),
    )


def _turn(event: Turn) -> Turn:
    return replace(event, prompt=None, stop_strings=())


def _prefill(event: Prefill) -> Prefill:
    return replace(event, token_one=None, text="")


def _round(event: Round) -> Round:
    return replace(
        event,
        drafter=_optional_note(event.drafter),
        draft=(None,) * len(event.draft),
        bonus=None,
        emitted=(None,) * len(event.emitted),
        text=("",) * len(event.text),
        branches=tuple([_branch(branch) for branch in event.branches]),
        fallback=_optional_note(event.fallback),
    )


def _branch(branch: Branch) -> Branch:
    return replace(branch, bonus=None, tokens=())


def _turn_end(event: TurnEnd) -> TurnEnd:
    return replace(event, text="", error=None if event.error is None else REDACTED)


def _telemetry(event: Telemetry) -> Telemetry:
    return replace(event, device=_note(event.device), note=_optional_note(event.note))


def _sample(event: Sample) -> Sample:
    values: dict[str, float] = {}
    for number, (name, value) in enumerate(event.values.items()):
        family = _note(name.partition("{")[0])
        values[family if family not in values else f"{family}#{number}"] = value
    return replace(event, values=values)


def _log(event: Log) -> Log:
    return replace(event, text="")


def _marker(event: Marker) -> Marker:
    return replace(event, label="")


def _gap(event: Gap) -> Gap:
    return replace(event, reason=_note(event.reason))


_RULES: dict[type[Event], Any] = {
    Header: _header,
    Lane: _lane,
    Turn: _turn,
    Prefill: _prefill,
    Round: _round,
    TurnEnd: _turn_end,
    Telemetry: _telemetry,
    Sample: _sample,
    Log: _log,
    Marker: _marker,
    Gap: _gap,
}


def _note(text: str) -> str:
    return REDACTED if _PATHLIKE.search(text) or _SERIAL.search(text) else text


def _optional_note(text: str | None) -> str | None:
    return None if text is None else _note(text)
