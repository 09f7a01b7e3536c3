"""The feed of a running engine."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress

from specmon.core.engine.client import EngineClient
from specmon.core.engine.messages import Command, Idle, Load, Recording, Refused
from specmon.core.errors import SpecmonError
from specmon.tui.feeds.feed import Died, FeedItem

PATIENCE_S = 20.0  #: for an engine that has a recording to close
LOADING_PATIENCE_S = 0.5
POLL_BUDGET_S, BATCH = (
    0.008,
    256,
)  #: what comes faster waits for the next poll, so that keys and painting never do


class LiveFeed:
    """Events and notices of one engine process, which can be started again after it died."""

    def __init__(self, connect: Callable[[], EngineClient] = EngineClient.start) -> None:
        self._connect = connect
        self._client: EngineClient | None = None
        self._recording: str | None = None
        self._mourned = False
        self._loading = False
        self.more = False  # whether the last poll left something

    def start(self) -> None:
        """Spawn the engine process."""
        self._client = self._connect()
        self._mourned = False

    def poll(self) -> list[FeedItem]:
        """What the engine sent, as much as POLL_BUDGET_S allows; once it has died and said everything, one `Died`."""
        client = self._client
        if client is None:
            return []
        items: list[FeedItem] = []
        stop_at = time.monotonic() + POLL_BUDGET_S
        self.more = False
        while not self.more and (batch := client.poll(BATCH)):
            items += batch
            self.more = time.monotonic() >= stop_at
        for item in items:
            if isinstance(item, Recording):
                self._recording = item.path
            elif isinstance(item, Idle | Refused) and item.of == "Load":
                self._loading = False
        if not self._mourned and not items and not client.alive and (death := client.death()) is not None:
            self._mourned = True
            items.append(Died(reason=death.reason, log_tail=death.log_tail, recording=self._recording))
        return items

    def send(self, command: Command) -> None:
        """Give the engine a command; one sent to a dead engine is lost, as `Died` tells."""
        if self._client is None or not self._client.alive:
            return
        self._loading = self._loading or isinstance(command, Load)
        with suppress(SpecmonError):
            self._client.send(command)

    def restart(self) -> None:
        """Replace a dead engine by a new one."""
        self.close()
        self._recording = None
        self.start()

    def close(self, *, patient: bool = True) -> None:
        """Shut the engine down; one that is loading cannot listen and is not waited for long."""
        if self._client is not None:
            self._client.close(PATIENCE_S if patient and not self._loading else LOADING_PATIENCE_S)
            self._client = None
        self._loading = False
