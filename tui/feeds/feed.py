"""What a screen asks of a source of events, and the three things a feed itself can say."""

from __future__ import annotations

from typing import Protocol

import msgspec

from specmon.core.engine.messages import Notice
from specmon.core.events import Event


class Rewound(msgspec.Struct, frozen=True):
    """Forget every event seen so far: what follows starts over from the first one."""


class Died(msgspec.Struct, frozen=True, kw_only=True):
    """The engine is gone. `recording` is where what it recorded can be opened; None: nothing was kept."""

    reason: str
    log_tail: tuple[str, ...] = ()
    recording: str | None = None


class Warned(msgspec.Struct, frozen=True):
    """A sentence the user should read: a torn tail, events of an unknown kind, a lost recording."""

    text: str


FeedItem = Event | Notice | Rewound | Died | Warned


class Feed(Protocol):
    """A source of events. None of its methods blocks."""

    def start(self) -> None:
        """Begin; raises SpecmonError where there is nothing to begin with."""

    def poll(self) -> list[FeedItem]:
        """Everything that came since the last call, in order; empty when there is nothing."""

    def close(self, *, patient: bool = True) -> None:
        """Let go of processes and files, at once unless `patient`; may be called twice."""
