"""Where the parts of a race go, for every terminal size."""

from __future__ import annotations

from textual.geometry import Region

from specmon.tui.screens.arrangement import MIN_HEIGHT, MIN_WIDTH, TALL, WIDE, Places
from specmon.tui.widgets.lines import FRAMED_FROM

LOW_STRIP_ROWS = 2
CHART_ROWS = 16  # no more than these


def arrange_race(width: int, height: int, lanes: int, *, strip_rows: int = 0) -> Places:
    """Title, fairness, lanes (side by side where there is room), standings, chart, WHY, hints.

    A recorded race has its file's strip of `strip_rows` above the lanes, which in a low terminal takes the place of
    the fairness.
    """
    if width < MIN_WIDTH or height < MIN_HEIGHT:
        return {"too-small": Region(0, 0, width, height)}
    wide = width >= WIDE and height >= TALL
    places: Places = {
        "title": Region(0, 0, width, 1),
        "race-why": Region(0, height - 2, width, 1),
        "hints": Region(0, height - 1, width, 1),
    }
    y = 1
    if wide or not strip_rows:
        places["fair"] = Region(0, y, width, 1)
        y += 1
    if strip_rows:
        rows = strip_rows if wide else LOW_STRIP_ROWS
        places["strip"] = Region(0, y, width, rows)
        y += rows
    body = Region(0, y, width, height - y - 2)
    return places | (_wide(body, lanes) if wide else _narrow(body, lanes))


def _wide(body: Region, lanes: int) -> Places:
    chart = min(CHART_ROWS, body.height // 4)
    standings = max(lanes + 5, FRAMED_FROM)
    tall = body.height - chart - standings
    places: Places = {}
    for lane in range(lanes):
        x0, x1 = (body.width * lane // lanes, body.width * (lane + 1) // lanes)
        places[f"lane-{lane}"] = Region(x0, body.y, x1 - x0, tall)
    places["standings"] = Region(0, body.y + tall, body.width, standings)
    places["chart"] = Region(0, body.y + tall + standings, body.width, chart)
    return places


def _narrow(body: Region, lanes: int) -> Places:
    """Lanes one under the other, with their figures inside them; the chart gets what is left."""
    each = 4 if lanes * 4 + 5 <= body.height else 3
    places: Places = {}
    for lane in range(lanes):
        places[f"lane-{lane}"] = Region(0, body.y + lane * each, body.width, each)
    used = lanes * each
    output = 1
    places["output"] = Region(0, body.bottom - output, body.width, output)
    places["chart"] = Region(0, body.y + used, body.width, body.height - used - output)
    return places
