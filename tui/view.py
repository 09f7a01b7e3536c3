"""What the screens hand to the panels: one frozen value a refresh."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from specmon.core.engine.messages import Recording
from specmon.core.metrics.ledger import Ledger
from specmon.core.metrics.race import Race
from specmon.core.metrics.round_filter import RoundFilter

Mode = Literal["LIVE", "FROZEN", "ALL", "GONE"]  #: GONE: the engine that fed the view has ended


@dataclass(frozen=True, kw_only=True)
class ReplayStatus:
    """Where a replay stands. `speed` is rounds/s, or times real time if `real_time`; times in ns."""

    name: str
    paused: bool
    t: int
    t_end: int
    speed: float
    turn: int = 0  # in the whole file, from 1
    round: int = 0  # of the turn, from 1; 0 before its first
    rounds: int = 0  # rounds of the turn in the whole file
    left_out: int = 0  # rounds of the turn before those its figures are of
    turns: int = 0
    real_time: bool = False


@dataclass(frozen=True, kw_only=True)
class View:
    """A moment of one lane's turn.

    `turn` indexes the lane's turns (0 = the first). `selected` is the round the user pinned, as a position
    in the turn's rounds; None follows the newest. `hovered` is the round under the mouse, shown instead of it.
    `window` is the ms/token window in tokens, chosen by the user if `window_chosen`, else fitting the text;
    `last_rounds` the rounds that shares and bandwidth look back.
    `behind_ns` is how far a frozen or slow view is behind the engine, `lost` the events it never got.
    `ghosts` shows rejected proposals beside the text. Scrolling, pan and zoom belong to their panels.
    `race` is the race as it stands, worked out once for all its panels; None lets each work it out.
    `cut_lanes` are those whose recording ends here though their turn does not. `filter` chooses the rounds listed.
    """

    ledger: Ledger
    lane: int = 0
    turn: int = 0
    selected: int | None = None
    hovered: int | None = None
    mode: Mode = "LIVE"
    window: int = 64
    window_chosen: bool = True
    last_rounds: int = 64
    ascii: bool = False
    fates: bool = True
    ghosts: bool = False
    recording: Recording | None = None
    behind_ns: int = 0
    lost: int = 0
    replay: ReplayStatus | None = None
    race: Race | None = None
    cut_lanes: frozenset[int] = frozenset()
    filter: RoundFilter | None = None

    @property
    def pointed_at(self) -> int | None:
        """The round under the mouse, else the selected one; None follows the newest."""
        return self.selected if self.hovered is None else self.hovered

    @property
    def pointing(self) -> str:
        """How the round that is pointed at was chosen, empty where none is."""
        if self.hovered is not None:
            return "under the mouse"
        return "" if self.selected is None else "pinned"
