"""The first line of a recording, which says whether the rest can be read here."""

from __future__ import annotations

import msgspec

from specmon.core.errors import SpecmonError, UsageError
from specmon.core.events import SCHEMA, Header
from specmon.core.session.codec import Unknown, decode, parse_schema


def not_a_session(name: str) -> UsageError:
    """Give the error for a file of another kind."""
    return UsageError(f"{name} is not a .session recording.")


def check_schema(name: str, header: Header) -> None:
    """Refuse a recording of another major version. Raises SpecmonError."""
    try:
        major, _ = parse_schema(header.schema)
    except ValueError:
        raise SpecmonError(f"{name} is damaged: it has no schema version.") from None
    ours, _ = parse_schema(SCHEMA)
    if major > ours:
        writer = plain_name(header.versions.get("specmon", ""))
        wanted = f"specmon {writer} or newer" if writer else "a newer specmon"
        raise SpecmonError(
            f"{name} has schema {header.schema}, this specmon reads {ours}.x.",
            f"Install {wanted} to open it.",
        )
    if major < ours:
        raise SpecmonError(f"{name} has schema {header.schema}, which no release wrote.")


def parse_header(name: str, line: bytes) -> Header:
    """Read a recording's first line. Raises SpecmonError, which for a newer major says what to install."""
    try:
        event = decode(line)
        if isinstance(event, Unknown) and event.kind == "Header":
            event = msgspec.json.decode(line, type=_AnyHeader).plain()
    except ValueError:
        raise SpecmonError(f"{name} is damaged: its header cannot be read.") from None
    if not isinstance(event, Header):
        raise SpecmonError(f"{name} is damaged: it does not start with a header.")
    check_schema(name, event)
    return event


class _AnyHeader(msgspec.Struct):
    """What a header of any version is expected to keep."""

    schema: str
    versions: dict[str, str] = {}

    def plain(self) -> Header:
        return Header(t=0, schema=self.schema, versions=self.versions)


def plain_name(text: str) -> str:
    """A name from a file, cut down to what is safe to show."""
    return "".join(c for c in text[:40] if c.isascii() and (c.isalnum() or c in "._+-"))
