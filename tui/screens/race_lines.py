"""The rows around a race's panels: what is raced, why it is fair, whether the outputs agree."""

from __future__ import annotations

from typing import TYPE_CHECKING

from specmon.core.metrics.race import Race, Standing
from specmon.tui.widgets.cells import clip, safe_text
from specmon.tui.widgets.lines import Line, spread
from specmon.tui.widgets.numbers import size

if TYPE_CHECKING:
    from specmon.tui.screens.race import RaceScreen


def title_line(screen: RaceScreen) -> Line:
    """What is raced, on what, and whether it is recorded."""
    request, ledger = screen.request, screen.pump.ledger
    lane = next(iter(ledger.lanes.values()), None)
    how = "greedy" if request.sampling.temperature == 0 else f"temperature {request.sampling.temperature:g}"
    fields = [f"{how} · max {request.max_new_tokens:,}"]
    if not _narrow(screen):
        fields.append(clip(safe_text(request.messages[-1][1], screen.setup.ascii, newline=" "), 48))
    if lane is not None:
        devices = max((lane.lane.devices for lane in ledger.lanes.values()), key=len)
        fields += [f"{safe_text(lane.lane.target)} {lane.lane.recipe}", " + ".join(devices)]
    left: Line = [(" ", "text"), ("RACE", "accent")]
    left += [(" ▌▌ frozen", "warning")] if screen.pump.frozen else []
    for text in fields:
        left += [(" │ ", "border"), (text, "text")]
    return spread(left, _recording(screen), screen.app.size.width)


def _narrow(screen: RaceScreen) -> bool:
    return screen.app.size.width < 120


def _recording(screen: RaceScreen) -> Line:
    recording = screen.pump.recording
    if recording is None or recording.path is None:
        return []
    if _narrow(screen):
        return [("● REC ", "rejected")]
    return [("● REC ", "rejected"), (f"{recording.seconds:,.1f} s {size(recording.bytes)} ", "muted")]


def fair_line(screen: RaceScreen) -> Line:
    """How the clocks run, and what the race costs beside them."""
    if screen.phase == "loading":
        progress = screen.pump.progress
        what = safe_text(progress.what) if progress else "loading the lanes"
        return [(" LOADING ", "accent"), (what, "text")]
    race = screen.standings
    if _narrow(screen):
        return [
            (" FAIR ", "title"),
            ("clocks count own rounds only, prefill apart · turns ≥ 8 rounds, 50 ms", "text"),
        ]
    said = "turns of ≥ 8 rounds and ≥ 50 ms; each clock counts its own rounds, prefill apart."
    line: Line = [(" FAIR ", "title"), (said, "text")]
    if race.wall_ns:
        wall_s, switching_s = race.wall_ns / 1e9, race.switching_ns / 1e9
        parts = f"{wall_s - switching_s:.2f} lanes + {switching_s:.2f} switching"
        line.append((f"  Wall {wall_s:.2f} s = {parts}.", "muted"))
    if short := [row.letter for row in race.standings if row.turns_too_short]:
        line.append((f"  Turns too short: {', '.join(short)}.", "warning"))
    return line


def why_line(screen: RaceScreen) -> Line:
    """Who is ahead of whom, at equal lane clock."""
    race = screen.standings
    running = [row for row in race.standings if row.n_tokens]
    if len(running) < 2:
        return [(" WHY ", "title"), ("waiting for two lanes to decode", "muted")]
    first, second = (race.standings[i] for i in race.ranking[:2])
    return [(" WHY ", "title"), (_lead(race, first, second, _narrow(screen)), "text")]


def _lead(race: Race, first: Standing, second: Standing, narrow: bool) -> str:
    ahead = first.tokens_at_horizon - second.tokens_at_horizon
    names = (
        f"{first.letter} leads {second.letter}" if ahead else f"{first.letter} and {second.letter} are level"
    )
    tokens = f"{first.tokens_at_horizon} to {second.tokens_at_horizon} tokens"
    if narrow:
        return f"{names}: {tokens} at {race.horizon_ns / 1e6:,.0f} ms lane clock."
    details = [f"{row.letter} {_round_parts(row)}" for row in (first, second) if row.verify_ms is not None]
    return f"{names}: {tokens} at {race.horizon_ns / 1e6:,.0f} ms. A round: {'; '.join(details)}."


def _round_parts(row: Standing) -> str:
    drafting = f" + draft {row.draft_ms:.2f}" if row.draft_ms else ""
    return f"verify {row.verify_ms:.2f}{drafting} + {row.other_ms:.2f} ms"


def output_line(screen: RaceScreen) -> Line:
    """Whether the outputs are equal, in words."""
    rows = screen.standings.standings
    line: Line = [(" OUTPUT ", "title")]
    for row in rows[1:]:
        wrong = row.verdict.equal is False or row.failed
        line.append((f"{row.letter} {row.verdict.output}  ", "error" if wrong else "text"))
    provisional = any(row.verdict.provisional for row in rows)
    return [*line, (" ~ until all finish", "muted")] if provisional else line
