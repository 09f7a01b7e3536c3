"""The top line: what decodes what, on what, and whether it is recorded; in a replay, where it stands."""

from __future__ import annotations

from dataclasses import dataclass

from specmon.core.events import Lane
from specmon.core.metrics import race
from specmon.core.metrics.turn import TurnMetrics
from specmon.tui.view import ReplayStatus, View
from specmon.tui.widgets.cells import safe_text
from specmon.tui.widgets.glyphs import Glyphs, glyphs
from specmon.tui.widgets.lines import Line, Segment, fit, line_width, spread
from specmon.tui.widgets.moment import lane_of, turn_of
from specmon.tui.widgets.numbers import clock
from specmon.tui.widgets.panel import Panel
from specmon.tui.widgets.recording_note import recording_note

ROOMY = 120  # columns from which nothing is abbreviated


@dataclass(frozen=True)
class _Field:
    """A field of the line; those with a small `rank` are the most needed."""

    rank: int
    line: Line


def render_status(view: View, width: int, height: int = 1) -> list[Line]:
    """Draw the status line; fields that do not fit are left out, the least needed first."""
    signs = glyphs(view.ascii)
    roomy = width >= ROOMY
    fields = _replay_fields(view, view.replay, signs) if view.replay else _live_fields(view, signs, roomy)
    right = _right(view)
    fields = _fitting(fields, width - line_width(right) - 2, signs)
    line = spread(_joined(fields, signs), [*right, (" ", "text")] if right else [], width)
    return [fit(line, width), *([[(" " * width, "text")]] * (height - 1))][:height]


def _fitting(fields: list[_Field], room: int, signs: Glyphs) -> list[_Field]:
    """The fields that go into `room` cells, in their order: the most needed first, a shorter one for one too long."""
    kept: list[_Field] = []
    for field in sorted(fields, key=lambda field: field.rank):
        more = [each for each in fields if each in kept or each is field]
        if not kept or line_width(_joined(more, signs)) <= room:
            kept = more
    return kept


def _joined(fields: list[_Field], signs: Glyphs) -> Line:
    line: Line = [(" ", "text")]
    for number, field in enumerate(fields):
        line += [(f" {signs.bar} ", "border")] if number else []
        line += field.line
    return line


def _live_fields(view: View, signs: Glyphs, roomy: bool) -> list[_Field]:
    lane, turn = lane_of(view), turn_of(view)
    fields = [_Field(9, [("specmon", "title")]), _Field(0, [_mode(view, turn)])]
    if lane is not None:
        fields += _lane_fields(turn.lane if turn else lane.lane, turn, signs, roomy)
    if lane is not None and turn is not None:
        fields.append(_Field(5, [("turn ", "muted"), (str(lane.forgotten + view.turn + 1), "text")]))
    recording = recording_note(view.recording, signs, roomy)
    return fields + [_Field(2, recording)] * bool(recording)


def _mode(view: View, turn: TurnMetrics | None) -> Segment:
    """LIVE, unless the engine is gone, the view stands still or the turn on screen failed."""
    failed = turn is not None and turn.end is not None and turn.end.stop_reason == "error"
    if view.mode == "GONE" or (view.mode == "LIVE" and failed):
        return ("FAILED" if view.mode == "LIVE" else view.mode), "error"
    return view.mode, "accent" if view.mode == "LIVE" else "warning"


def _lane_fields(lane: Lane, turn: TurnMetrics | None, signs: Glyphs, roomy: bool) -> list[_Field]:
    models = _target(lane, signs)
    backend: Line = [(safe_text(lane.backend, signs.ascii), "muted")]
    if lane.drafter:
        models += [(f" {signs.arrow} ", "muted"), (safe_text(lane.drafter, signs.ascii), "text")]
    fields = [_Field(1, [(decoder_label(lane, turn, fan_out=roomy), "title")]), _Field(3, models)]
    if lane.backend:
        fields.append(_Field(8, backend))
    if lane.devices:
        devices = " + ".join(lane.devices) if roomy else short_devices(lane.devices)
        fields.append(_Field(6, [(safe_text(devices, signs.ascii), "text")]))
    return fields


def _target(lane: Lane, signs: Glyphs) -> Line:
    return [(safe_text(lane.target, signs.ascii), "text"), (f" {safe_text(lane.recipe)}", "muted")]


def short_devices(devices: tuple[str, ...]) -> str:
    """("cuda:0", "cuda:1") as "cuda:0+1"."""
    kind = devices[0].partition(":")[0]
    numbers = [device.removeprefix(f"{kind}:") for device in devices[1:]]
    return "+".join([devices[0], *numbers])


def decoder_label(lane: Lane, turn: TurnMetrics | None, *, fan_out: bool = False) -> str:
    """The turn's label, before the first turn the lane's decoder alone."""
    return lane.decoder.upper() if turn is None else race.decoder_label(turn, fan_out=fan_out)


def _replay_fields(view: View, replay: ReplayStatus, signs: Glyphs) -> list[_Field]:
    lane, turn = lane_of(view), turn_of(view)
    pause = ("||" if signs.ascii else "▌▌") if replay.paused else signs.pointer
    fields = [_Field(9, [("specmon", "title")]), _Field(0, [("REPLAY ", "accent"), (pause, "accent")])]
    fields.append(_Field(3, [(safe_text(replay.name, signs.ascii), "text")]))
    if lane is not None:
        here = replay.turn or view.turn + 1
        number = f"turn {here:,}/{max(replay.turns, here):,} "
        label = decoder_label(turn.lane if turn else lane.lane, turn)
        fields.append(_Field(4, _target(lane.lane, signs)))
        if lane.lane.devices:
            fields.append(_Field(8, [(safe_text(" + ".join(lane.lane.devices), signs.ascii), "muted")]))
        fields.append(_Field(2, [(number, "muted"), (label, "text")]))
    fields.append(_Field(5, [(clock(replay.t), "title"), (f"/{clock(replay.t_end)}", "muted")]))
    if turn is not None:
        so_far = replay.round or turn.n_rounds
        rounds = f"{so_far:,}/{max(replay.rounds, so_far):,}"
        fields.append(_Field(1, [("round ", "muted"), (rounds, "text")]))
    speed = f"{replay.speed:g}{signs.times} real time" if replay.real_time else f"{replay.speed:g} rounds/s"
    return [*fields, _Field(6, [(speed, "muted")])]


def _right(view: View) -> Line:
    """What is wrong with the view, else the speed."""
    if view.lost or view.behind_ns >= 1_000_000_000:
        return [(f"behind {view.behind_ns / 1e9:.1f} s · lost {view.lost:,}", "warning")]
    turn = turn_of(view)
    if turn is None or turn.tokens_per_s is None:
        return []
    return [(f"{turn.tokens_per_s:,.0f}", "title"), (" tok/s", "muted")]


class StatusLine(Panel):
    """One line, at the top of the screen."""

    DEFAULT_CSS = "StatusLine { height: 1; }"

    def draw(self, view: View, width: int, height: int) -> list[Line]:
        return render_status(view, width, height)
