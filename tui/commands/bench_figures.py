"""`--figure` of the benchmarks: which goals a run may write, refused before anything is measured."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from specmon.core.errors import UsageError

if TYPE_CHECKING:
    from specmon.core.bench.figure_needs import Planned


def parse_figures(text: str, out: Path | None) -> list[str]:
    """Read "GOAL,GOAL" for `bench draft-len`; [] where empty. Raises: UsageError."""
    from specmon.core.bench.figure_needs import NEEDS

    goals = [goal.strip() for goal in text.split(",")] if text else []
    for goal in goals:
        _check_name(goal, list(NEEDS), out)
    return goals


def parse_figure(text: str, letters: Sequence[str], out: Path | None) -> tuple[str, str, str]:
    """Read "GOAL=B/A" for `bench paired`: the goal, and the letters of both lanes. Raises: UsageError."""
    from specmon.core.bench.figure_needs import PAIRED

    goal, _, lanes = text.partition("=")
    faster, _, slower = (lanes or "B/A").partition("/")
    _check_name(goal, PAIRED, out)
    if faster not in letters or slower not in letters or letters.index(faster) <= letters.index(slower):
        raise UsageError(f"--figure has {lanes!r}, but it takes a later lane over an earlier one, like B/A.")
    return goal, faster, slower


def check_figure(goal: str, planned: Planned) -> None:
    """Raises: UsageError where what is going to be measured is not what the figure's name says."""
    from specmon.core.bench.figure_needs import NEEDS

    if not NEEDS[goal].held_by(planned):
        raise UsageError(f"--figure {goal} needs {NEEDS[goal].words}.")


def _check_name(goal: str, known: Sequence[str], out: Path | None) -> None:
    if goal not in known:
        raise UsageError(f"--figure has {goal!r}, but it takes {', '.join(known)}.")
    if out is None:
        raise UsageError("--figure needs --out, the folder of figures.json.")
