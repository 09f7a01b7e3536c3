"""The monitor as the benchmarks run it: on the terminal it is given, over `ui_engine.py`, leaving when the flood is over.

    python ui_view.py REPORT RECORDING "flood 20000 60 20000" [STALL_AT STALL_S]

Writes to REPORT as JSON what this process used and what it knows of every turn. With a stall the whole process sleeps
for STALL_S seconds, STALL_AT seconds after its first event.
"""

from __future__ import annotations

import hashlib
import json
import resource
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from specmon.core.engine.client import EngineClient
from specmon.core.engine.messages import LaneConfig, Request
from specmon.core.events import TurnEnd
from specmon.core.metrics.ledger import Ledger
from specmon.core.metrics.summary import summary
from specmon.tui.app import SpecmonApp, run_app
from specmon.tui.feeds.feed import FeedItem
from specmon.tui.feeds.live import LiveFeed
from specmon.tui.screens.monitor import MonitorScreen

ENGINE = ("-P", str(Path(__file__).with_name("ui_engine.py")))


def turn_digest(ledger: Ledger) -> str:
    """Every figure and character of the newest turn, as a hash of what `replay --json` prints of it."""
    figures = msgspec.to_builtins(summary(ledger, session=None))
    return hashlib.sha256(json.dumps(figures).encode()).hexdigest()


class WatchedFeed(LiveFeed):
    """Counts what comes and stops for a while where that is wanted."""

    def __init__(self, stall_at: float, stall_s: float) -> None:
        super().__init__(lambda: EngineClient.start(program=ENGINE))
        self.events = 0
        self.first = self.last = 0.0
        self.cpu = (0.0, 0.0)
        self.rss_mb: list[float] = []
        self._stall = (stall_at, stall_s)

    def poll(self) -> list[FeedItem]:
        items = super().poll()
        now = time.monotonic()
        counted = sum(hasattr(item, "turn") for item in items)
        if counted > 2:
            if not self.first:
                self.first, self.cpu = now, (time.process_time(), 0.0)
            self.last, self.cpu = now, (self.cpu[0], time.process_time())
        self.events += counted
        if self.first and now - self.first > 5 * len(self.rss_mb):
            self.rss_mb.append(rss_mb())
        if self.first and self._stall[1] and now - self.first > self._stall[0]:
            time.sleep(self._stall[1])
            self._stall = (0.0, 0.0)
        return items


class WatchedApp(SpecmonApp):
    """Notes every turn's figures as it ends, and leaves after the request."""

    digests: list[str]
    feed: WatchedFeed

    def tick(self) -> None:
        super().tick()
        stage = self.stage
        if isinstance(stage, MonitorScreen) and stage.at_end() and self.feed.events > 2:
            self.exit()


def rss_mb() -> float:
    """Memory of this process now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 1e6


def watch_turns(app: WatchedApp) -> None:
    """Take a digest of each turn when its end is fed to the ledger."""
    app.digests = []
    feed = app.pump.ledger.feed

    def fed(event: Any) -> None:
        feed(event)
        if isinstance(event, TurnEnd):
            app.digests.append(turn_digest(app.pump.ledger))

    app.pump.ledger.feed = fed  # type: ignore[method-assign]


def main(arguments: Sequence[str]) -> int:
    report, recording, prompt, *stall = arguments
    feed = WatchedFeed(*(float(number) for number in (stall or ("0", "0"))))
    request = Request(messages=(("user", prompt),))
    config = LaneConfig(decoder="sd", devices="cpu:0")
    app = WatchedApp(feed, initial_request=request, config=config, record=recording, force=True)
    watch_turns(app)
    code = run_app(app)
    seconds = feed.last - feed.first
    Path(report).write_text(
        json.dumps(
            {
                "events": feed.events,
                "seconds": seconds,
                "events_per_s": feed.events / seconds if seconds else 0.0,
                "cpu_share": (feed.cpu[1] - feed.cpu[0]) / seconds if seconds else 0.0,
                "lost": app.pump.lost,
                "rss_mb": feed.rss_mb,
                "digests": app.digests,
            }
        )
    )
    return code


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
