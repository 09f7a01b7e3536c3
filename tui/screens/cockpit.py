"""The eight panels with their keys: what the monitor and the replay have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.widget import Widget

from specmon.core.errors import UsageError
from specmon.core.events import Round
from specmon.core.metrics.ledger import LaneMetrics
from specmon.core.metrics.round_filter import HELP as FILTER_HELP
from specmon.core.metrics.round_filter import RoundFilter, parse_filter
from specmon.core.metrics.turn import TurnMetrics
from specmon.core.metrics.windows import WINDOW_SIZES, fitting_window
from specmon.tui.screens.arrangement import Chrome, Places, arrange, too_small
from specmon.tui.screens.ask import AskScreen
from specmon.tui.screens.deck import Deck
from specmon.tui.screens.formulas import FormulasScreen
from specmon.tui.screens.help import HelpScreen
from specmon.tui.screens.keys import hint_line, key, panel_keys
from specmon.tui.screens.lines_view import LinesView
from specmon.tui.screens.log_pane import log_lines
from specmon.tui.screens.stage import Setup, Stage
from specmon.tui.view import View
from specmon.tui.widgets.acceptance_panel import AcceptancePanel
from specmon.tui.widgets.bandwidth_panel import BandwidthPanel
from specmon.tui.widgets.ms_per_token_panel import MsPerTokenPanel
from specmon.tui.widgets.panel import Panel
from specmon.tui.widgets.pointing import RoundHovered, RoundPicked
from specmon.tui.widgets.round_panel import RoundPanel
from specmon.tui.widgets.rounds_panel import RoundsPanel
from specmon.tui.widgets.shares_panel import SharesPanel
from specmon.tui.widgets.status_line import StatusLine
from specmon.tui.widgets.text_panel import TextPanel
from specmon.tui.widgets.timeline_panel import TimelinePanel
from specmon.tui.widgets.why_line import WhyLine

PANEL_CLASSES: dict[str, type[Panel]] = {
    "status": StatusLine,
    "why": WhyLine,
    "text": TextPanel,
    "rounds": RoundsPanel,
    "round": RoundPanel,
    "shares": SharesPanel,
    "timeline": TimelinePanel,
    "bandwidth": BandwidthPanel,
    "ms-per-token": MsPerTokenPanel,
    "acceptance": AcceptancePanel,
}

JUMP_KEYS: list[Binding] = [
    key("n", "next_miss", "miss", "next round whose outcome had no branch", section="Rounds", hint=True),
    key("0", "next_rejection", "a=0", "next round that accepted nothing", section="Rounds"),
    key("S", "slowest", "slowest", "slowest round of the turn", section="Rounds"),
]
_FILTER = f"list only some rounds: {FILTER_HELP}; nothing lists all"
FILTER_KEY = key("/", "filter", "filter", _FILTER, section="Rounds")
_STEP = "previous and next round; past the newest, follow again"
SELECT_KEYS: list[Binding] = [
    key(", up", "select(-1)", "round", _STEP, section="Rounds", shown=", .", hint=True),
    key(". down", "select(1)", "round", _STEP, section="Rounds", shown=", .", hint=True),
    FILTER_KEY,
    key("p", "pin", "pin", "pin the newest round, and let go", section="Rounds"),
    key(
        "enter",
        "detail",
        "detail",
        "the selected round alone, with all its branches",
        section="Rounds",
        shown="Enter",
    ),
]
ZOOM_KEYS: list[Binding] = [
    *panel_keys(),
    key("z", "zoom_again", "zoom", "zoom the last panel again, and back", section="Panels"),
]
_PAN, _SCALE = "timeline: earlier and later", "timeline: closer and wider"
_SCROLL = "text: a page up and down; new text never scrolls it back"
VIEW_KEYS: list[Binding] = [
    key(
        "t",
        "fates",
        "fates",
        "text: fates, fates and rejected proposals, neither",
        section="Panels",
        hint=True,
    ),
    key(
        "W",
        "window",
        "window",
        "ms/token: window of 16, 64, 256 or 1,024 tokens, or fitting",
        section="Panels",
    ),
    key("e", "formulas", "formulas", "the formulas behind the WHY line", section="Panels"),
    key("a", "pan(-1)", "pan", _PAN, section="Panels", shown="a d"),
    key("d", "pan(1)", "pan", _PAN, section="Panels", shown="a d"),
    key("w", "scale(1)", "zoom", _SCALE, section="Panels", shown="w s"),
    key("s", "scale(-1)", "zoom", _SCALE, section="Panels", shown="w s"),
    key("f", "fit", "fit", "timeline: fit, and follow", section="Panels"),
    key("pageup", "scroll_text(-1)", "scroll", _SCROLL, section="Panels", shown="PgUp PgDn"),
    key("pagedown", "scroll_text(1)", "scroll", _SCROLL, section="Panels", shown="PgUp PgDn"),
    key("end", "live", "live", "back to the newest: text, timeline and round", section="Panels", shown="End"),
    key("escape", "back", "back", "back out", section="Panels", shown="Esc"),
    key("v", "next_lane", "lane", "next lane, where there are several", section="Panels"),
    key("l", "log", "log", "the engine's log, and back", section="Panels"),
]
LAST_KEYS: list[Binding] = [
    key("?", "help", "help", "this help", section="General", hint=True),
    key("q", "app.quit", "quit", "quit; the engine ends with it", section="General", hint=True),
]


class Cockpit(Stage):
    """Panels, zoom, selection. A subclass adds what stands around the panels, and keys of its own."""

    BINDINGS: ClassVar[list[BindingType]] = []
    AUTO_FOCUS = ""
    CHROME: ClassVar[Chrome] = Chrome()

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self.lane = 0
        self.turn: int | None = None  # None follows the newest turn
        self._selected: int | None = None
        self.hovered: int | None = None  # the round under the mouse
        self._hover_waits = False  # to be drawn
        self.fates = True
        self.filter: RoundFilter | None = None
        self.ghosts = False
        self.window: int | None = None  # None fits the text's length
        self.zoomed: str | None = None
        self._last_zoomed = "text"
        self.panels = {name: make(palette=setup.palette, id=name) for name, make in PANEL_CLASSES.items()}
        self.lines = {
            name: LinesView(setup.palette, ascii=setup.ascii, id=name)
            for name in ("hints", "log", "too-small", *self.line_ids())
        }
        self.deck = Deck([*self.panels.values(), *self.lines.values(), *self.own_parts()], self.places)

    def line_ids(self) -> tuple[str, ...]:
        """Ids of further line views the subclass fills in `draw_lines`."""
        return ()

    def own_parts(self) -> list[Widget]:
        """Widgets of the subclass, placed by their ids."""
        return []

    def compose(self) -> ComposeResult:
        yield self.deck

    def chrome(self) -> Chrome:
        """What stands around the panels now."""
        return self.CHROME

    def places(self, size: Size) -> Places:
        """Where everything goes in a terminal of this size."""
        return arrange(size.width, size.height, self.chrome(), self.zoomed)

    # --- what is shown --------------------------------------------------------------------------------------

    def view(self) -> View:
        """The moment to draw; a subclass adds what only it knows."""
        pump = self.pump
        _, seconds_behind = pump.behind
        return View(
            ledger=pump.ledger,
            lane=self.lane,
            turn=self.turn_index,
            selected=self.selected,
            hovered=self.hovered,
            mode="FROZEN" if pump.frozen else "LIVE",
            ascii=self.setup.ascii,
            fates=self.fates,
            filter=self.filter,
            ghosts=self.ghosts,
            window=self.window_tokens,
            window_chosen=self.window is not None,
            recording=pump.recording,
            behind_ns=round(seconds_behind * 1e9),
            lost=pump.lost,
        )

    @property
    def selected(self) -> int | None:
        """The round that was picked, by its position in the turn; None follows the newest."""
        return self._selected

    @selected.setter
    def selected(self, position: int | None) -> None:
        self._selected = position
        self.hovered = None  # until the mouse comes to another round

    @property
    def pointed_at(self) -> int | None:
        """The round under the mouse, else the selected one."""
        return self.selected if self.hovered is None else self.hovered

    def tick(self, changed: bool) -> None:
        if self.deck.stale:
            self.rearrange()
        if self._hover_waits:
            self.draw_now()
        super().tick(changed)

    def draw(self) -> None:
        self._hover_waits = False
        view, places = self.view(), self.deck.places
        with self.app.batch_update():
            for name, panel in self.panels.items():
                if name in places and (name != "text" or self.text_due()):
                    panel.show(view)
            self.draw_lines(places)

    def draw_text(self) -> None:
        if "text" in self.deck.places:
            self.panels["text"].show(self.view())

    def draw_lines(self, places: Places) -> None:
        """Fill the line views; the subclass adds its own."""
        width, height = self.app.size
        self.lines["hints"].put([self.said or hint_line(self.hint_keys(), width)])
        if "log" in places:
            self.lines["log"].put(log_lines(self.pump, places["log"].width, places["log"].height))
        if "too-small" in places:
            self.lines["too-small"].put([[(text, "warning")] for text in too_small(width, height)])

    def hint_keys(self) -> list[Binding]:
        """The keys the hint row tells of."""
        return self.keys

    def help_keys(self) -> list[Binding]:
        """The keys the help lists."""
        return self.keys

    @property
    def window_tokens(self) -> int:
        """Tokens of an ms/token window: as chosen, else fitting the turn on screen."""
        turn = self.turn_metrics
        return self.window or fitting_window(turn.n_tokens if turn is not None else 0)

    @property
    def lane_metrics(self) -> LaneMetrics | None:
        """The lane on screen."""
        return self.pump.ledger.lanes.get(self.lane)

    @property
    def turn_index(self) -> int:
        """The turn on screen, 0 for the lane's first."""
        turns = len(self.lane_metrics.turns) if self.lane_metrics else 0
        return max(turns - 1, 0) if self.turn is None else min(self.turn, max(turns - 1, 0))

    @property
    def turn_metrics(self) -> TurnMetrics | None:
        """The turn on screen; None before the first."""
        lane = self.lane_metrics
        return lane.turns[self.turn_index] if lane is not None and lane.turns else None

    @property
    def rounds(self) -> list[Round]:
        """Its rounds."""
        return self.turn_metrics.rounds if self.turn_metrics else []

    # --- panels ---------------------------------------------------------------------------------------------

    def zoom(self, name: str | None) -> None:
        """Give one panel all the room; None shows all of them again."""
        self.zoomed = name
        if name is not None and name != "log":
            self._last_zoomed = name
        self.rearrange()

    def rearrange(self) -> None:
        """Lay out again and draw."""
        self.deck.rearrange()
        self.call_after_refresh(self.draw_now)

    def action_zoom(self, name: str) -> None:
        self.zoom(None if self.zoomed == name else name)

    def action_zoom_again(self) -> None:
        self.zoom(None if self.zoomed else self._last_zoomed)

    def action_log(self) -> None:
        self.zoom(None if self.zoomed == "log" else "log")

    def action_back(self) -> None:
        if self.zoomed is not None:
            self.zoom(None)
        elif self.selected is not None:
            self.selected = None
            self.draw_now()

    def action_fates(self) -> None:
        self.fates, self.ghosts = not (self.fates and self.ghosts), self.fates and not self.ghosts
        self.draw_now()

    def action_window(self) -> None:
        """The next ms/token window: fitting, then each size."""
        sizes = (None, *WINDOW_SIZES)
        self.window = sizes[(sizes.index(self.window) + 1) % len(sizes)]
        self.draw_now()

    def on_round_picked(self, message: RoundPicked) -> None:
        """A panel's round was clicked."""
        self.selected = message.position
        self.draw_now()

    def on_round_hovered(self, message: RoundHovered) -> None:
        """The mouse came to another round; of all that it passes between two ticks only the last is drawn."""
        self.hovered, self._hover_waits = message.position, True

    def action_pan(self, by: int) -> None:
        self._timeline.pan(by)

    def action_scale(self, by: int) -> None:
        self._timeline.zoom(by)

    def action_fit(self) -> None:
        self._timeline.fit()

    def action_scroll_text(self, by: int) -> None:
        self._text.scroll_page(by)

    def action_live(self) -> None:
        self.selected = self.turn = None
        self._text.follow()
        self._timeline.fit()
        self.draw_now()

    def action_next_lane(self) -> None:
        lanes = sorted(self.pump.ledger.lanes)
        if lanes:
            self.lane = next((lane for lane in lanes if lane > self.lane), lanes[0])
            self.selected = self.turn = None
            self.draw_now()

    def action_formulas(self) -> None:
        self.app.push_screen(FormulasScreen(self.setup, self.lane_metrics, self.turn_metrics))

    def action_help(self) -> None:
        self.app.push_screen(HelpScreen(self.setup, self.help_keys()))

    @property
    def _text(self) -> TextPanel:
        panel = self.panels["text"]
        assert isinstance(panel, TextPanel)
        return panel

    @property
    def _timeline(self) -> TimelinePanel:
        panel = self.panels["timeline"]
        assert isinstance(panel, TimelinePanel)
        return panel

    # --- rounds ---------------------------------------------------------------------------------------------

    def action_select(self, by: int) -> None:
        rounds, wanted = self.rounds, self.filter
        newest = len(rounds) - 1
        at = (newest if self.pointed_at is None else self.pointed_at) + by
        while wanted is not None and 0 <= at <= newest and not wanted(rounds[at]):
            at += by
        if at < 0 and wanted is not None:
            return
        self.selected = None if newest < 0 or at > newest else max(at, 0)
        self.draw_now()

    def action_filter(self) -> None:
        self.app.push_screen(AskScreen(FILTER_HELP), self._filter_by)

    def _filter_by(self, answer: str | None) -> None:
        if answer is None:
            return
        try:
            self.filter = parse_filter(answer) if answer else None
        except UsageError as error:
            self.say(f"{error.message} {error.hint or ''}".strip(), "warning")
            return
        self.draw_now()

    def action_pin(self) -> None:
        newest = len(self.rounds) - 1
        pinned = newest if self.hovered is None else self.hovered
        self.selected = pinned if self.selected is None and newest >= 0 else None
        self.draw_now()

    def action_detail(self) -> None:
        self.selected = self.pointed_at
        self.action_zoom("round")

    def action_next_miss(self) -> None:
        self.jump(is_miss, "no round of this turn missed")

    def action_next_rejection(self) -> None:
        self.jump(is_full_rejection, "no draft of this turn was rejected whole")

    def action_slowest(self) -> None:
        rounds = self.rounds
        if rounds:
            self.selected = max(range(len(rounds)), key=lambda i: rounds[i].t1 - rounds[i].t0)
            self.draw_now()

    def jump(self, wanted: Callable[[Round], bool], otherwise: str) -> None:
        """Select the next round that is wanted, past the newest from the first again."""
        rounds = self.rounds
        found = next((i for i in self._from_selected(len(rounds)) if wanted(rounds[i])), None)
        if found is None:
            self.say(otherwise)
        else:
            self.selected = found
            self.draw_now()

    def _from_selected(self, count: int) -> Iterator[int]:
        start = 0 if self.selected is None else self.selected + 1
        yield from range(start, count)
        yield from range(min(start, count))


def is_miss(round_: Round) -> bool:
    """Whether no branch served the round's outcome."""
    return round_.miss is not None


def is_full_rejection(round_: Round) -> bool:
    """Whether the target agreed with none of the draft."""
    return bool(round_.draft) and round_.accepted_len == 0
