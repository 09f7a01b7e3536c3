"""The rows around a race's panels: what is raced, why it is fair, what decides it, whether the outputs agree."""

from __future__ import annotations

from typing import TYPE_CHECKING

from specmon.core.events import Lane, Sampling, Turn
from specmon.core.metrics.race import DRAIN_LIMIT, Race
from specmon.core.metrics.race_why import race_why
from specmon.tui.widgets.cells import clip, safe_text
from specmon.tui.widgets.lines import Line, line_width, spread
from specmon.tui.widgets.status_line import short_devices

if TYPE_CHECKING:
    from specmon.tui.screens.race_board import RaceBoard

ROOMY = 120


def title_line(board: RaceBoard) -> Line:
    """What is raced, on what, and whether it is recorded."""
    narrow = _narrow(board)
    left: Line = [(" ", "text")] if narrow else [(" specmon", "title"), (" │ ", "border")]
    left += [(board.state, "accent")]
    left += [(" ▌▌ frozen", "warning")] if board.pump.frozen else []
    for text in _fields(board, narrow):
        left += [(" │ ", "border"), (text, "text")]
    return spread(left, board.title_right(narrow), board.app.size.width)


def _fields(board: RaceBoard, narrow: bool) -> list[str]:
    rows = board.standings.standings
    lane = next(iter(board.pump.ledger.lanes.values()), None)
    fields: list[str] = []
    if rows:
        turn = rows[0].turn.turn
        fields.append(_how(turn.sampling, turn.max_new_tokens))
        if not narrow:
            fields.append(_prompt(turn, board.setup.ascii) if board.file is None else board.file)
    elif (request := board.asked) is not None:
        fields.append(_how(request.sampling, request.max_new_tokens))
        fields += [] if narrow else [_quoted(request.messages[-1][1], board.setup.ascii)]
    if lane is not None:
        lanes = [row.turn.lane for row in rows] or [each.lane for each in board.pump.ledger.lanes.values()]
        fields += [_models(lanes, narrow), _devices(lanes, narrow)]
    return fields


def _how(sampling: Sampling, max_new_tokens: int) -> str:
    how = "greedy" if sampling.temperature == 0 else f"temperature {sampling.temperature:g}"
    return f"{how} · max {max_new_tokens:,}" if max_new_tokens else how


def _prompt(turn: Turn, ascii: bool) -> str:
    said = "" if turn.prompt is None else f" {_quoted(turn.prompt, ascii)}"
    return f"prompt {turn.prompt_tokens} tokens{said}"


def _quoted(prompt: str, ascii: bool) -> str:
    return f'"{clip(safe_text(prompt, ascii, newline=" "), 32)}"'


def _models(lanes: list[Lane], narrow: bool) -> str:
    """Each target with its recipe, once."""
    names = (
        f"{lane.target} {lane.recipe}" if narrow else f"{lane.target} {lane.recipe} {lane.backend}"
        for lane in lanes
    )
    return ", ".join(dict.fromkeys(safe_text(name.strip()) for name in names))


def _devices(lanes: list[Lane], narrow: bool) -> str:
    longest = max((lane.devices for lane in lanes), key=len)
    if not longest:
        return "devices not named"
    names = tuple(name.partition(" of ")[0] for name in longest)  # recordings may tell machines apart
    return safe_text(short_devices(names) if narrow else " + ".join(names))


def _narrow(board: RaceBoard) -> bool:
    return board.app.size.width < ROOMY


def fair_line(board: RaceBoard) -> Line:
    """How the clocks run, what the race costs beside them, and what makes it doubtful."""
    if board.waits_for is not None:
        return [(" LOADING ", "accent"), (board.waits_for, "text")]
    race = board.standings
    line: Line = [(" FAIR ", "title"), (_rules(board), "text")]
    warnings: Line = [(f" UNPAIRED {board.unpaired}.", "warning")] if board.unpaired else []
    if race.unlike:
        warnings = [(f" UNLIKE {_no_ratio(race)}.", "warning"), *warnings]
    if warnings:
        return [*warnings, *line]
    line += _drain(race, _narrow(board))
    wall = [] if board.side_by_side else _wall(race)
    return line + wall if line_width(line + wall) < board.app.size.width else line


def _wall(race: Race) -> Line:
    """The time the whole race took, in its parts."""
    if race.switching_ns < 0 or not race.wall_ns:
        return []
    wall_s, switching_s = race.wall_ns / 1e9, race.switching_ns / 1e9
    parts = f"{wall_s - switching_s:.2f} s lanes + {switching_s:.2f} s switching"
    return [(f"  Wall {wall_s:.2f} s = {parts}.", "muted")]


def _rules(board: RaceBoard) -> str:
    prefill = "prefill counted" if board.with_prefill else "prefill apart"
    if board.side_by_side:
        return f"recordings, each on its own clock from its first round on; {prefill}."
    if _narrow(board):
        return f"own clocks, {prefill} · turns ≥ 8 rounds, 50 ms"
    return f"lanes take turns of ≥ 8 rounds and ≥ 50 ms; each clock counts only its own rounds ({prefill})."


def _drain(race: Race, narrow: bool) -> Line:
    """Work that outlives a lane's turn, as a share of its clock; above the limit it spoils the race."""
    short = [row.letter for row in race.standings if row.turns_too_short]
    if short:
        lead = " · " if narrow else "  "
        said = "turns too short" if narrow else f"Turns too short: drain is over {100 * DRAIN_LIMIT:.0f} %"
        return [(f"{lead}{said}: {', '.join(short)}", "warning")]
    drains = [row.drain_fraction for row in race.standings if row.drain_fraction is not None]
    if not narrow or not drains:
        return []
    return [(f" · drain ≤ {100 * max(drains):.1f} %", "muted")]


def why_line(board: RaceBoard) -> Line:
    """Why the fastest lane is ahead of the next."""
    because = race_why(board.standings)
    hint: Line = [("  [e] ", "muted")] if _narrow(board) else [("  [e] formulas ", "muted")]
    left: Line = [(" WHY ", "title"), (because.short if _narrow(board) else because.text, "text")]
    return spread(left, hint if because.formulas else [], board.app.size.width)


def output_line(board: RaceBoard) -> Line:
    """Whether the outputs are equal, in words."""
    race = board.standings
    rows = race.standings
    line: Line = [(" OUTPUT ", "title")]
    no_banner = "fair" not in board.deck.places
    left_out: Line = [(f"  {board.unpaired}", "warning")] if board.unpaired and no_banner else []
    if all(row.unlike for row in race.compared) and race.unlike:
        return [*line, (_no_ratio(race), "warning"), *left_out]
    short = [row.letter for row in rows if row.turns_too_short]
    if short and no_banner:
        line.append((f"turns too short: {', '.join(short)}  ", "warning"))
    for row in race.compared:
        wrong = row.verdict.equal is False or row.failed
        line.append((f"{row.letter} {row.verdict.output}  ", "error" if wrong else "text"))
    if race.reference:
        line.append((f"{race.reference_letter} is the reference  ", "muted"))
    line += left_out
    provisional = any(row.verdict.provisional for row in rows)
    return [*line, (" ~ until all finish", "muted")] if provisional else line


def _no_ratio(race: Race) -> str:
    """Why lanes cannot be compared with the reference; which, where others can."""
    unlike = [row.letter for row in race.standings if row.unlike]
    which = "" if len(unlike) == len(race.compared) else f" for {' and '.join(unlike)}"
    return f"no ratio{which}: different {', '.join(race.unlike)}"
