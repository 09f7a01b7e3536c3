"""Whether a long session keeps its size: a million rounds, in turns of 20,000, through pump, ledger and all panels.

    python tests/benchmarks/ui_memory.py

Events are decoded from the engine's channel as in the monitor; every 5,000 rounds all panels draw at 160×48. Writes a note.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from ui_engine import FloodLane
from ui_view import rss_mb

from specmon.core.bench.provenance import provenance
from specmon.core.engine.channel import FrameParser, frame_event
from specmon.core.engine.messages import LaneConfig, Request
from specmon.core.events import DeviceInfo, Event, Header
from specmon.core.hardware import cpu_model
from specmon.tui.feeds.feed import FeedItem
from specmon.tui.feeds.pump import Pump
from specmon.tui.screens.arrangement import Chrome, arrange
from specmon.tui.screens.cockpit import PANEL_CLASSES
from specmon.tui.view import View

DOCS = Path(__file__).resolve().parents[2] / "docs" / "benchmarks"
ROUNDS_A_TURN, DRAW_EVERY = 20_000, 5_000


class Passing:
    """A feed that gives what it is handed."""

    def __init__(self) -> None:
        self.items: list[FeedItem] = []

    def start(self) -> None: ...

    def poll(self) -> list[FeedItem]:
        items, self.items = self.items, []
        return items

    def close(self, *, patient: bool = True) -> None: ...


def stream() -> Iterator[Event]:
    """Turn after turn."""
    lane = FloodLane(LaneConfig(decoder="sd", devices="cuda:0"), clock=time.monotonic_ns)
    yield Header(t=0, devices=(DeviceInfo(name="cuda:0", model="synthetic", read_ceiling=4e12),))
    yield lane.describe(0, 0)
    request = Request(messages=(("user", f"flood 1e12 1e9 {ROUNDS_A_TURN}"),))
    yield from lane.generate(request, lane=0, turn=0, cancelled=lambda: False)


def run(rounds: int) -> list[float]:
    """Memory in MB after every tenth of the rounds."""
    feed, parser, memory = Passing(), FrameParser(), []
    pump = Pump(feed)
    panels = {name: make() for name, make in PANEL_CLASSES.items()}
    places = arrange(160, 48, Chrome())
    events = stream()
    while pump.rounds < rounds:
        for event in (next(events) for _ in range(DRAW_EVERY)):
            parser.feed(frame_event(event))
            feed.items.append(parser.next())  # type: ignore[arg-type]
        pump.poll()
        turns = len(pump.ledger.lanes[0].turns)
        view = View(ledger=pump.ledger, turn=max(turns - 1, 0))
        for name, panel in panels.items():
            panel.draw(view, places[name].width, places[name].height)
        if pump.rounds >= rounds * (len(memory) + 1) / 10:
            gc.collect()
            memory.append(round(rss_mb(), 1))
            print(f"{pump.rounds:,} rounds: {memory[-1]:.0f} MB", flush=True)
    return memory


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=1_000_000)
    rounds = parser.parse_args().rounds
    memory = run(rounds)
    spread = (max(memory) - min(memory)) / 2
    taken = provenance(f"{cpu_model()}, {os.cpu_count()} cores", ("textual", "msgspec"))
    path = DOCS / f"{taken.date}-ui-memory.md"
    path.write_text(
        f"# Memory over {rounds:,} rounds\n\n`python tests/benchmarks/ui_memory.py`: MB of the view's process after "
        f"each tenth: {', '.join(f'{m:.0f}' for m in memory)}.\n±{spread:.0f} MB; goal ±20. Turns of "
        f"{ROUNDS_A_TURN:,} rounds; a lane keeps its newest turn and some 50,000 rounds before it.\n\n"
        f"Hardware: {taken.hardware}. Commit {taken.commit}, {taken.date}. Versions: {taken.versions}.\n"
    )
    result: dict[str, Any] = {"rounds": rounds, "mb": memory, "commit": taken.commit}
    path.with_suffix(".json").write_text(json.dumps(result) + "\n")


if __name__ == "__main__":
    main()
