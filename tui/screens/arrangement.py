"""Where each part of a cockpit goes, for every terminal size: arithmetic only."""

from __future__ import annotations

from dataclasses import dataclass
from textwrap import wrap

from textual.geometry import Region

MIN_WIDTH, MIN_HEIGHT = 80, 24
WIDE = 140  #: columns from which all eight panels show, if there are TALL rows
TALL = 40

#: panel ids by their number on screen
PANELS = ("text", "rounds", "round", "shares", "timeline", "bandwidth", "ms-per-token", "acceptance")

Places = dict[str, Region]


@dataclass(frozen=True)
class Chrome:
    """Rows around the panels: the top lines by id, and how many the prompt takes (0: no prompt)."""

    top: tuple[tuple[str, int], ...] = (("status", 1), ("why", 1))
    prompt_rows: int = 1


def arrange(width: int, height: int, chrome: Chrome, zoom: str | None = None) -> Places:
    """Place status, WHY, panels, prompt and hints; `zoom` names the one panel that gets all the room.

    Below 80×24 there is only "too-small".
    """
    if width < MIN_WIDTH or height < MIN_HEIGHT:
        return {"too-small": Region(0, 0, width, height)}
    places: Places = {}
    y = 0
    for name, rows in chrome.top:
        places[name] = Region(0, y, width, rows)
        y += rows
    bottom = height - 1
    places["hints"] = Region(0, bottom, width, 1)
    if chrome.prompt_rows:
        bottom -= chrome.prompt_rows
        places["prompt"] = Region(0, bottom, width, chrome.prompt_rows)
    body = Region(0, y, width, bottom - y)
    if zoom is not None:
        places[zoom] = body
    elif width >= WIDE and height >= TALL:
        places |= _full(body)
    elif height >= 32:
        places |= _medium(body)
    else:
        places |= _compact(body)
    return places


def too_small(width: int, height: int) -> list[str]:
    """What a terminal that is too small says instead, in lines that fit it."""
    said = f"specmon needs {MIN_WIDTH}×{MIN_HEIGHT}; this terminal has {width}×{height}."
    return [f" {line}" for text in (said, "q quits") for line in wrap(text, max(width - 1, 1))]


def _full(body: Region) -> Places:
    """All eight panels in four rows, as many text rows as are left."""
    detail, timeline, charts = 10, 6, 11
    text = body.height - detail - timeline - charts
    return _rows(
        body,
        (text, {"text": 72, "rounds": 88}),
        (detail, {"round": 84, "shares": 76}),
        (timeline, {"timeline": 1}),
        (charts, {"bandwidth": 54, "ms-per-token": 58, "acceptance": 48}),
    )


def _medium(body: Region) -> Places:
    """More rows than the smallest cockpit: taller charts, and the rounds where they fit."""
    timeline, detail, charts, acceptance = 5, 5, 6, 4
    text = body.height - timeline - detail - charts - acceptance
    rows: list[tuple[int, dict[str, int]]]
    if body.width >= 120:
        rows = [(text, {"text": 1, "rounds": 1})]
    elif text >= 16:
        rows = [(text - 8, {"text": 1}), (8, {"rounds": 1})]
    else:
        rows = [(text, {"text": 1})]
    return _rows(
        body,
        *rows,
        (timeline, {"timeline": 1}),
        (detail, {"round": 1}),
        (charts, {"bandwidth": 1, "ms-per-token": 1}),
        (acceptance, {"acceptance": 1}),
    )


def _compact(body: Region) -> Places:
    """The whole cockpit in 80×24; a few rows more show the newest rounds too."""
    timeline, detail, charts, acceptance = 4, 3, 4, 2
    text = body.height - timeline - detail - charts - acceptance
    rounds = 5 if text >= 12 else 0
    return _rows(
        body,
        (text - rounds, {"text": 1}),
        *([(rounds, {"rounds": 1})] if rounds else []),
        (timeline, {"timeline": 1}),
        (detail, {"round": 1}),
        (charts, {"bandwidth": 1, "ms-per-token": 1}),
        (acceptance, {"acceptance": 1}),
    )


def _rows(body: Region, *rows: tuple[int, dict[str, int]]) -> Places:
    """Stack rows of the given heights, each shared out by weight."""
    places: Places = {}
    y = body.y
    for height, weights in rows:
        x, weight_left, width_left = body.x, sum(weights.values()), body.width
        for name, weight in weights.items():
            width = round(width_left * weight / weight_left)
            places[name] = Region(x, y, width, height)
            x, width_left, weight_left = x + width, width_left - width, weight_left - weight
        y += height
    return places
