"""A race: one prompt on several lanes, side by side on fair clocks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.geometry import Size

from specmon.core import paths
from specmon.core.engine.messages import (
    Cancel,
    Idle,
    LaneConfig,
    Load,
    Mark,
    Race,
    Ready,
    Record,
    Refused,
    Request,
)
from specmon.core.metrics.race import standings
from specmon.tui.feeds.feed import Died, FeedItem
from specmon.tui.feeds.live import LiveFeed
from specmon.tui.screens.arrangement import Places
from specmon.tui.screens.deck import Deck
from specmon.tui.screens.help import HelpScreen
from specmon.tui.screens.keys import hint_line, key
from specmon.tui.screens.lines_view import LinesView
from specmon.tui.screens.race_arrangement import arrange_race
from specmon.tui.screens.race_lines import fair_line, output_line, title_line, why_line
from specmon.tui.screens.stage import Setup, Stage
from specmon.tui.view import View
from specmon.tui.widgets.panel import Panel
from specmon.tui.widgets.race_chart_panel import RaceChartPanel
from specmon.tui.widgets.race_lane_panel import RaceLanePanel
from specmon.tui.widgets.standings_panel import StandingsPanel


class RaceScreen(Stage):
    """Loads every lane, runs the race, and shows it; Esc leaves once it is over."""

    AUTO_FOCUS = ""
    BINDINGS: ClassVar[list[BindingType]] = [
        key(
            "space",
            "freeze",
            "freeze",
            "freeze the view, never the race",
            section="Race",
            shown="Space",
            hint=True,
        ),
        key("x", "cancel", "stop", "stop the race", section="Race", hint=True),
        key(
            "N", "again", "run again", "run the race again, starting order rotated", section="Race", hint=True
        ),
        key("r", "record", "keep", "keep the recording, or keep it no longer", section="Race", hint=True),
        key("m", "mark", "mark", "put a mark into the recording", section="Race", hint=True),
        key(
            "escape",
            "leave",
            "leave",
            "back; to the monitor once the race is over",
            section="Race",
            shown="Esc",
            hint=True,
        ),
        key("?", "help", "help", "this help", section="General", hint=True),
        key("q", "app.quit", "quit", "quit; the engine ends with it", section="General", hint=True),
    ]

    def __init__(
        self, setup: Setup, feed: LiveFeed, request: Request, lanes: tuple[LaneConfig, ...], recordings: Path
    ) -> None:
        super().__init__(setup)
        self.feed = feed
        self.request = request
        self.lanes = lanes
        self.phase = "loading"
        self._recordings = recordings
        self.zoomed: int | None = None
        self._leaving = False
        self._before = self.pump.start_over()
        self._loading = 0
        self.standings = standings(self.pump.ledger)
        self.panels: list[Panel] = [
            *(RaceLanePanel(i, palette=setup.palette, id=f"lane-{i}") for i in range(len(lanes))),
            StandingsPanel(palette=setup.palette, id="standings"),
            RaceChartPanel(palette=setup.palette, id="chart"),
        ]
        ids = ("title", "fair", "race-why", "output", "hints", "too-small")
        self.lines = {name: LinesView(setup.palette, ascii=setup.ascii, id=name) for name in ids}
        self.deck = Deck([*self.panels, *self.lines.values()], self.places)

    def compose(self) -> ComposeResult:
        yield self.deck

    def on_mount(self) -> None:
        self._load(0)

    def places(self, size: Size) -> Places:
        """Where everything goes."""
        return arrange_race(size.width, size.height, len(self.lanes), self.zoomed)

    def view(self) -> View:
        """The moment of all lanes."""
        metrics = self.pump.ledger.lanes.get(0)
        _, seconds = self.pump.behind
        return View(
            ledger=self.pump.ledger,
            turn=max(len(metrics.turns) - 1, 0) if metrics else 0,
            mode="FROZEN" if self.pump.frozen else "LIVE",
            ascii=self.setup.ascii,
            recording=self.pump.recording,
            behind_ns=round(seconds * 1e9),
            lost=self.pump.lost,
            race=self.standings,
        )

    def draw(self) -> None:
        self.standings = standings(self.pump.ledger)
        view, places = self.view(), self.deck.places
        with self.app.batch_update():
            for panel in self.panels:
                if panel.id in places:
                    panel.show(view)
            self.lines["title"].put([title_line(self)])
            self.lines["fair"].put([fair_line(self)])
            self.lines["race-why"].put([why_line(self)])
            self.lines["output"].put([output_line(self)])
            self.lines["hints"].put([self.said or hint_line(self._keys, self.app.size.width)])

    @property
    def _keys(self) -> list[Binding]:
        return self.keys

    # --- the race -------------------------------------------------------------------------------------------

    def _load(self, lane: int) -> None:
        self._loading = lane
        self.feed.send(Load(lane=lane, config=self.lanes[lane]))

    def on_items(self, items: Sequence[FeedItem]) -> None:
        for item in items:
            match item:
                case Ready():
                    for note in item.notes:
                        self.say(note, "warning")
                case Idle(of="Load"):
                    self._loaded()
                case Idle(of="Race"):
                    self._over()
                case Refused():
                    self._refused(item)
                case Died():
                    self.say(f"{item.reason} Esc leaves.", "error")
                    self.phase = "over"

    def _loaded(self) -> None:
        if self.phase != "loading":
            return
        if self._leaving:
            self._over()
        elif self._loading + 1 < len(self.lanes):
            self._load(self._loading + 1)
        else:
            self._run()

    def _run(self) -> None:
        self.phase = "racing"
        self.feed.send(Race(request=self.request))

    def _over(self) -> None:
        self.phase = "over"
        self.draw_now()
        if self._leaving:
            self.zoomed = None
            self.action_leave()

    def _refused(self, refused: Refused) -> None:
        self.say(f"{refused.message} {refused.hint}".strip(), "error")
        if refused.of in ("Load", "Race"):
            self._over()

    def cancel(self) -> bool:
        if self.phase != "racing":
            return False
        self.feed.send(Cancel())
        return True

    def action_cancel(self) -> None:
        self.say("stopping" if self.cancel() else "no race is running")

    def action_again(self) -> None:
        if self.phase == "over":
            self.pump.thaw()
            self._run()

    def action_freeze(self) -> None:
        if self.pump.frozen:
            self.pump.thaw()
        else:
            self.pump.freeze()
        self.draw_now()

    def action_record(self) -> None:
        kept = self.pump.recording is not None and self.pump.recording.path is not None
        self.feed.send(Record(path=None if kept else str(paths.private_dir(self._recordings))))

    def action_mark(self) -> None:
        self.feed.send(Mark(label="mark"))
        self.say("marked")

    def action_help(self) -> None:
        self.app.push_screen(HelpScreen(self.setup, self._keys))

    def action_zoom(self, lane: int) -> None:
        self.zoomed = lane if lane < len(self.lanes) and self.zoomed != lane else None
        self.deck.rearrange()
        self.call_after_refresh(self.draw_now)

    def action_leave(self) -> None:
        if self.zoomed is not None:
            self.action_zoom(self.zoomed)
        elif self.phase == "over":
            self.pump.thaw()
            self.pump.ledger = self._before
            self.dismiss(None)
        else:
            self._leaving = True
            self.cancel()
            self.say("leaving as soon as the engine is at rest")
