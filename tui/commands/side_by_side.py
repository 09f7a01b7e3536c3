"""Recordings side by side as JSON or as a table: `specmon replay` with several of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from specmon.core.errors import SpecmonError
from specmon.tui.commands.output import say, write_json, write_line

if TYPE_CHECKING:
    from specmon.core.metrics.comparison import Comparison, PairSummary


def compare_recordings(paths: Sequence[Path], json: bool) -> None:
    """Print what can be said about recordings side by side.

    Raises: SpecmonError where one cannot be read, or where outputs differ that must be equal; UsageError where
    there are not two to four lanes.
    """
    import msgspec

    from specmon.core.metrics.comparison import comparison
    from specmon.tui.feeds.side_by_side import read_side_by_side

    race = read_side_by_side(paths, say)
    figures = comparison(race, [str(path.absolute()) for path in paths])
    if json:
        write_json(msgspec.to_builtins(figures))
    else:
        write_line("\n".join(_lines(figures)))
    if race.unpaired:
        say(f"The recordings hold {race.unpaired}.")
    _check_equal(figures)


def _lines(figures: Comparison) -> list[str]:
    """The lanes' recordings, and every turn's standings."""
    from specmon.tui.commands.report import race_lines

    lines = [f"{'ABCD'[number]}  {lane.session}" for number, lane in enumerate(figures.lanes)]
    for turn, pair in enumerate(figures.pairs, start=1):
        lines += ["", f"turn {turn}"] if figures.earlier else [""]
        lines += race_lines(pair)
        lines += [f"No ratio: different {', '.join(pair.differs)}."] if pair.differs else []
        lines += _unfinished(pair)
    return lines


def _unfinished(pair: PairSummary) -> list[str]:
    cut = ["ABCD"[n] for n, lane in enumerate(pair.lanes) if lane.stop_reason in {None, "cancelled", "error"}]
    return [f"Not whole: {' and '.join(cut)}."] if cut else []


def _check_equal(figures: Comparison) -> None:
    """Raises: SpecmonError where lanes that must agree do not."""
    for turn, pair in enumerate(figures.pairs, start=1):
        if pair.equal is False:
            where = f" of turn {turn}" if figures.earlier else ""
            raise SpecmonError(f"The recordings' tokens differ from token {pair.first_difference}{where} on.")
