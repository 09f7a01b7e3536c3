"""The race's table: every lane as far as it got, ranked at equal lane clock, and what may be said about its output."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from specmon.core.metrics.race import Race, Standing
from specmon.tui.view import View
from specmon.tui.widgets.cells import pad, safe_text
from specmon.tui.widgets.cells import width as cells_of
from specmon.tui.widgets.glyphs import Glyphs, glyphs
from specmon.tui.widgets.lines import Line, Title, body_width, in_panel
from specmon.tui.widgets.moment import race_of
from specmon.tui.widgets.numbers import ms, percent, short
from specmon.tui.widgets.panel import Panel
from specmon.tui.widgets.race_lane_panel import lane_role, lane_sign, ratio_text


@dataclass(frozen=True)
class _Column:
    """One column; of several that do not fit, the one with the largest `rank` goes first."""

    head: str
    cells: int
    rank: int
    figure: Callable[[Standing, Glyphs], str]
    left: bool = False


def render_standings(view: View, width: int, height: int) -> list[Line]:
    """Draw the race's table of whole lanes, best at equal lane clock first, with a note on what is provisional."""
    signs = glyphs(view.ascii)
    race = race_of(view)
    cells = body_width(width, height)
    basis = f"each lane's whole clock · ranked by tokens at equal lane clock, {ms(race.horizon_ns, 0)} ms"
    note: Line = [(f"{basis} · % of SOL, analytic", "muted")]
    columns = _columns_for(race, cells)
    head: Line = [(" ".join(_aligned(column.head, column) for column in columns), "muted")]
    rows = [_row(race.standings[place], columns, signs) for place in race.ranking]
    body = [head, *rows, *_remarks(race)] if rows else [[("no lane has started", "muted")]]
    return in_panel(Title(number=None, name="standings", note=note), body, width, height, signs)


def _row(standing: Standing, columns: list[_Column], signs: Glyphs) -> Line:
    line: Line = []
    for column in columns:
        text = _aligned(safe_text(column.figure(standing, signs), signs.ascii), column) + " "
        line.append((text, _role(standing, column)))
    return line


def _role(standing: Standing, column: _Column) -> str:
    if column.head in ("lane", "decoder"):
        return lane_role(standing)
    if column.head == "output":
        return {True: "accepted", False: "error", None: "warning"}[standing.verdict.equal]
    if column.head == "drain" and standing.turns_too_short:
        return "warning"
    return "title" if column.head == "ms/token" or column.figure is ratio_text else "text"


def _aligned(text: str, column: _Column) -> str:
    return pad(text, column.cells, "<" if column.left else ">")


def _columns_for(race: Race, cells: int) -> list[_Column]:
    columns = [*COLUMNS, *_verdict_columns(race)]
    n_devices = max((len(s.bandwidths) for s in race.standings), default=1)
    columns[-4:-4] = [_device_column(race, index) for index in range(n_devices)]
    while sum(column.cells + 1 for column in columns) > cells and len(columns) > 3:
        columns.remove(max(columns, key=lambda column: column.rank))
    return columns


def _device_column(race: Race, index: int) -> _Column:
    names = [s.bandwidths[index].device for s in race.standings if index < len(s.bandwidths)]
    head = safe_text(names[0]) if names else f"device {index}"

    def figure(standing: Standing, signs: Glyphs) -> str:
        if index >= len(standing.bandwidths):
            return signs.unreached
        return percent(standing.bandwidths[index].whole_fraction)

    return _Column(head, 8, 4 + index, figure)


def _two_digits(value: float | None) -> str:
    return "n/a" if value is None else f"{value:.2f}"


def _drain(standing: Standing, _: Glyphs) -> str:
    fraction = standing.drain_fraction
    return "n/a" if fraction is None else f"{100 * fraction:.1f} %"


COLUMNS = (
    _Column("lane", 4, 0, lambda s, signs: f"{s.letter} {lane_sign(s, signs)}", left=True),
    _Column("decoder", 22, 1, lambda s, _: s.label, left=True),
    _Column("tokens", 7, 2, lambda s, _: f"{s.n_tokens:,}"),
    _Column("rounds", 7, 9, lambda s, _: f"{s.turn.n_rounds:,}"),
    _Column("τ", 6, 3, lambda s, _: _two_digits(s.turn.tokens_per_round)),
    _Column("ms/round", 8, 6, lambda s, _: _two_digits(s.turn.ms_per_round)),
    _Column("verify", 7, 8, lambda s, _: _two_digits(s.verify_ms)),
    _Column("draft exposed", 13, 7, lambda s, _: _two_digits(s.draft_ms)),
    _Column("other", 6, 10, lambda s, _: _two_digits(s.other_ms)),
    _Column("ms/token", 8, 1, lambda s, _: _two_digits(s.turn.ms_per_token)),
    _Column("hit", 5, 5, lambda s, _: short(s.turn.branch_hit_rate)),
    _Column("drain", 6, 11, _drain),
)


def _verdict_columns(race: Race) -> list[_Column]:
    """The ratio to the reference and what is said of the output, as wide as that needs."""
    longest = max((cells_of(s.verdict.output) for s in race.standings), default=0)
    return [
        _Column(f"vs {race.reference_letter}", 9, 1, ratio_text),
        _Column("output", max(longest, 16), 2, lambda s, _: s.verdict.output, left=True),
    ]


def _remarks(race: Race) -> list[Line]:
    remarks: list[Line] = []
    if any(s.verdict.provisional for s in race.standings):
        said = (
            "~ provisional until both lanes finish; "
            f"only lanes whose tokens are all equal to {race.reference_letter}'s get a ratio"
        )
        remarks.append([(said, "muted")])
    if short_turns := [s.letter for s in race.standings if s.turns_too_short]:
        remarks.append([(f"turns too short: draining takes over 2 % of {', '.join(short_turns)}", "warning")])
    return remarks


class StandingsPanel(Panel):
    """The table of a race."""

    def draw(self, view: View, width: int, height: int) -> list[Line]:
        return render_standings(view, width, height)
