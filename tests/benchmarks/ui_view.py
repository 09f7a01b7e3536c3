"""The monitor as the benchmarks run it: on the terminal it is given, over `ui_engine.py`, leaving when the flood is over.

    python ui_view.py REPORT RECORDING "flood 20000 60 20000" [--every-turn] [--stall AT SECONDS]

Writes to REPORT as JSON what this process used and what it knows of the turns it still holds at the end. With --every-turn
it looks at each turn as it ends, which takes as long as drawing does and so spoils what is timed. With a stall the whole
process sleeps for SECONDS, AT seconds after its first event.
"""

from __future__ import annotations

import argparse
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


def turn_digest(ledger: Ledger, turn: int = -1) -> str:
    """Every figure and character of a turn, as a hash of what `replay --json` prints of it."""
    figures = msgspec.to_builtins(summary(ledger, turn=turn, session=None))
    return hashlib.sha256(json.dumps(figures).encode()).hexdigest()


def held_digests(ledger: Ledger) -> dict[int, str]:
    """The digests of all turns that the ledger holds, by their numbers."""
    return {turn.turn.turn: turn_digest(ledger, at) for at, turn in enumerate(ledger.lanes[0].turns)}


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
    """Leaves after the request, once everything is shown."""

    digests: dict[int, str]
    feed: WatchedFeed

    def tick(self) -> None:
        super().tick()
        stage = self.stage
        busy = self.pump.frozen or self.pump.catching_up or self.feed.more
        if isinstance(stage, MonitorScreen) and stage.at_end() and self.feed.events > 2 and not busy:
            self.exit()


def rss_mb() -> float:
    """Memory of this process now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 1e6


def watch_turns(app: WatchedApp) -> None:
    """Take a digest of each turn when its end is fed to the ledger."""
    feed = app.pump.ledger.feed

    def fed(event: Any) -> None:
        feed(event)
        if isinstance(event, TurnEnd):
            app.digests[event.turn] = turn_digest(app.pump.ledger)

    app.pump.ledger.feed = fed  # type: ignore[method-assign]


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("report", type=Path)
    parser.add_argument("recording")
    parser.add_argument("prompt")
    parser.add_argument("--every-turn", action="store_true")
    parser.add_argument("--stall", type=float, nargs=2, default=(0.0, 0.0))
    given = parser.parse_args(arguments)
    feed = WatchedFeed(*given.stall)
    request = Request(messages=(("user", given.prompt),))
    config = LaneConfig(decoder="sd", devices="cpu:0")
    app = WatchedApp(feed, initial_request=request, config=config, record=given.recording, force=True)
    app.digests = {}
    if given.every_turn:
        watch_turns(app)
    code = run_app(app)
    app.digests |= held_digests(app.pump.ledger)
    seconds = feed.last - feed.first
    given.report.write_text(
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
