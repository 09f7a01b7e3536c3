"""What a live race and a recorded one have in common: lanes, standings, curves, and the keys to look closer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding
from textual.geometry import Size

from specmon.core.engine.messages import Request
from specmon.core.metrics.race import Race, Unlike, standings
from specmon.core.metrics.race_tokens import difference_at
from specmon.core.metrics.race_why import race_why
from specmon.tui.screens.arrangement import Places, too_small
from specmon.tui.screens.deck import Deck
from specmon.tui.screens.help import HelpScreen
from specmon.tui.screens.keys import hint_line, key
from specmon.tui.screens.lines_view import LinesView
from specmon.tui.screens.race_arrangement import arrange_race
from specmon.tui.screens.race_lines import fair_line, output_line, title_line, why_line
from specmon.tui.screens.race_sheets import DifferenceSheet, RaceWhySheet
from specmon.tui.screens.stage import Setup, Stage
from specmon.tui.view import View
from specmon.tui.widgets.lines import Line
from specmon.tui.widgets.panel import Panel
from specmon.tui.widgets.race_chart_panel import RaceChartPanel
from specmon.tui.widgets.race_lane_panel import RaceLanePanel
from specmon.tui.widgets.standings_panel import StandingsPanel

MAX_LANES = 4


def _lane_key(number: int) -> Binding:
    help = "a lane as a full monitor; Esc comes back"
    return key(
        str(number), f"lane({number - 1})", "lane", help, section="Race", shown="1-4", hint=number == 1
    )


LOOK_KEYS: list[Binding] = [
    *map(_lane_key, range(1, MAX_LANES + 1)),
    key(
        "=",
        "difference",
        "difference",
        "where the outputs first differ, token by token",
        section="Race",
        hint=True,
    ),
    key(
        "c",
        "clock",
        "prefill",
        "let the clocks start with the prefill, or leave it apart",
        section="Race",
        hint=True,
    ),
    key("e", "formulas", "formulas", "the formulas behind the WHY line", section="Race"),
]
END_KEYS: list[Binding] = [
    key("?", "help", "help", "this help", section="General", hint=True),
    key("q", "app.quit", "quit", "quit; the engine ends with it", section="General", hint=True),
]


class RaceBoard(Stage):
    """Shows the newest race of the ledger.

    Args:
        lanes: how many there are room for.
        planned: what each will be, to name those that have not started.
    """

    AUTO_FOCUS = ""
    LINE_IDS: ClassVar[tuple[str, ...]] = ("title", "fair", "race-why", "output", "hints", "too-small")

    def __init__(self, setup: Setup, lanes: int, *, planned: Sequence[str] = (), strip_rows: int = 0) -> None:
        super().__init__(setup)
        self.n_lanes = lanes
        self.with_prefill = False
        self._strip_rows = strip_rows
        self.standings = self._worked_out()
        self.panels: list[Panel] = [
            *(
                RaceLanePanel(i, planned="".join(planned[i : i + 1]), palette=setup.palette, id=f"lane-{i}")
                for i in range(lanes)
            ),
            StandingsPanel(palette=setup.palette, id="standings"),
            RaceChartPanel(palette=setup.palette, id="chart"),
        ]
        ids = (*self.LINE_IDS, "strip") if strip_rows else self.LINE_IDS
        self.lines = {name: LinesView(setup.palette, ascii=setup.ascii, id=name) for name in ids}
        self.deck = Deck([*self.panels, *self.lines.values()], self.places)

    def compose(self) -> ComposeResult:
        yield self.deck

    def places(self, size: Size) -> Places:
        """Where everything goes."""
        return arrange_race(size.width, size.height, self.n_lanes, strip_rows=self._strip_rows)

    # --- what a live and a recorded race say differently ---------------------------------------------------

    @property
    def state(self) -> str:
        """The word in front of the title: RACE, or REPLAY with its sign."""
        return "RACE"

    @property
    def asked(self) -> Request | None:
        """What is raced, known before the first lane starts."""
        return None

    @property
    def file(self) -> str | None:
        """The recording's name; None for a race that is none."""
        return None

    @property
    def side_by_side(self) -> bool:
        """Whether the lanes are recordings made apart."""
        return False

    @property
    def unlike(self) -> Unlike:
        """In what the lanes' recordings differ that cannot be compared for it."""
        return {}

    @property
    def unpaired(self) -> str:
        """What is left out because recordings hold different numbers of turns; empty where nothing is."""
        return ""

    def title_right(self, narrow: bool) -> Line:
        """What stands at the right of the title."""
        raise NotImplementedError

    @property
    def waits_for(self) -> str | None:
        """What is being loaded before there is a race; None where nothing is."""
        return None

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

    def _worked_out(self) -> Race:
        return standings(self.pump.ledger, with_prefill=self.with_prefill, unlike=self.unlike)

    def on_screen_resume(self) -> None:
        """Back from a lane or a sheet."""
        self.draw_now()

    def draw(self) -> None:
        self.standings = self._worked_out()
        view, places = self.view(), self.deck.places
        with self.app.batch_update():
            for panel in self.panels:
                if panel.id in places:
                    panel.show(view)
            self.draw_lines(places)

    def draw_lines(self, places: Places) -> None:
        """Fill the rows around the panels."""
        self.lines["title"].put([title_line(self)])
        self.lines["fair"].put([fair_line(self)])
        self.lines["race-why"].put([why_line(self)])
        self.lines["output"].put([output_line(self)])
        self.lines["hints"].put([self.said or hint_line(self.keys, self.app.size.width)])
        if "too-small" in places:
            self.lines["too-small"].put([[(text, "warning")] for text in too_small(*self.app.size)])

    # --- looking closer -------------------------------------------------------------------------------------

    def action_lane(self, place: int) -> None:
        letter = "ABCD"[place]
        row = next((row for row in self.standings.standings if row.letter == letter), None)
        if row is None:
            known = place < self.n_lanes
            self.say(f"lane {letter} has not started" if known else "there is no such lane")
            return
        self.open_lane(row.lane)

    def open_lane(self, lane: int) -> None:
        """Show one lane as a full monitor."""
        raise NotImplementedError

    def action_difference(self) -> None:
        if difference_at(self.standings) is None:
            said = [f"{row.letter} {row.verdict.output}" for row in self.standings.compared]
            self.say(" · ".join(said) or "no two lanes to compare yet")
            return
        self.app.push_screen(DifferenceSheet(self.setup, self.standings))

    def action_clock(self) -> None:
        self.with_prefill = not self.with_prefill
        self.say("clocks start with the prefill" if self.with_prefill else "prefill apart from the clocks")

    def action_formulas(self) -> None:
        self.app.push_screen(RaceWhySheet(self.setup, race_why(self.standings)))

    def action_help(self) -> None:
        self.app.push_screen(HelpScreen(self.setup, self.keys))
