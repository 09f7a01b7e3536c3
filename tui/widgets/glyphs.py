"""The signs the panels draw with, once in Unicode and once in ASCII (`--ascii`).

Within one family (fates, span kinds, overlap, outcomes) no two signs are the same: nothing depends on colour.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Glyphs:
    """One set of signs; every sign is one cell wide except `arrow` and `ellipsis` in ASCII."""

    ascii: bool
    # fates of tokens
    first: str
    hit: str
    miss: str
    accepted: str
    bonus: str
    selected: str
    # verdicts on drafted tokens
    kept: str
    rejected: str
    unreached: str
    # span kinds
    spans: dict[str, str]
    used: str
    wasted: str
    # lines, bars and frames
    full: str
    eighths: str  # a bar's last cell, 1/8 … 7/8
    levels: str  # a column's top cell, 1/8 … 8/8
    rest: str
    here: str
    dashes: str
    mean: str
    rule: str
    axis: str
    tick: str
    corner: str
    frame: tuple[
        str, str, str, str, str, str
    ]  # top left, top right, bottom left, bottom right, horizontal, vertical
    bar: str  # between fields of one line
    arrow: str
    pointer: str
    cursor: str
    dot: str
    series: str  # one point sign for each race lane
    record: str
    times: str
    ellipsis: str
    space: str


UNICODE = Glyphs(
    ascii=False,
    first="▸",
    hit="◆",
    miss="◇",
    accepted="·",
    bonus="+",
    selected="▲",
    kept="✓",
    rejected="✗",
    unreached="–",
    spans={
        "prefill": "▒",
        "verify": "▓",
        "branch_draft": "░",
        "draft": "d",
        "accept": "a",
        "handoff": "h",
        "collective": "c",
        "wait": "·",
    },
    used="═",
    wasted="×",
    full="█",
    eighths="▏▎▍▌▋▊▉",
    levels="▁▂▃▄▅▆▇█",
    rest="·",
    here="▲",
    dashes="┄",
    mean="━",
    rule="─",
    axis="┤",
    tick="┬",
    corner="└",
    frame=("┌", "┐", "└", "┘", "─", "│"),
    bar="│",
    arrow="→",
    pointer="▶",
    cursor="▌",
    dot="·",
    series="·○●◆",
    record="●",
    times="×",
    ellipsis="…",
    space="␣",
)

ASCII = Glyphs(
    ascii=True,
    first="1",
    hit="*",
    miss="o",
    accepted=".",
    bonus="+",
    selected="^",
    kept="y",
    rejected="x",
    unreached="-",
    spans={
        "prefill": "p",
        "verify": "#",
        "branch_draft": ":",
        "draft": "d",
        "accept": "a",
        "handoff": "h",
        "collective": "c",
        "wait": ".",
    },
    used="=",
    wasted="x",
    full="#",
    eighths="",
    levels="_.:-=+*#",
    rest=".",
    here="^",
    dashes="-",
    mean="~",
    rule="-",
    axis="|",
    tick="+",
    corner="+",
    frame=("+", "+", "+", "+", "-", "|"),
    bar="|",
    arrow="->",
    pointer=">",
    cursor="_",
    dot="-",
    series=".o*#",
    record="*",
    times="x",
    ellipsis="...",
    space="_",
)


def can_carry_signs(encoding: str | None) -> bool:
    """Whether text in this encoding can hold the Unicode signs; None, a stream that encodes nothing, can."""
    try:
        str(UNICODE).encode(encoding or "utf-8")
    except UnicodeEncodeError:
        return False
    return True


def glyphs(ascii: bool) -> Glyphs:
    """The set to draw with."""
    return ASCII if ascii else UNICODE
