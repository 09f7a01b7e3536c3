"""What a user types to go somewhere in a recording."""

from __future__ import annotations

import re

from specmon.tui.feeds.playback import Playback

_ROUND = re.compile(r"(?:(\d+)\s*/\s*)?(\d+)")
_TIME = re.compile(r"(?:(\d+):)?(\d+(?:\.\d+)?)\s*(s|ms)?")


def go_to(playback: Playback, place: str) -> bool:
    """Go to a round ("97"), a turn's round ("2/97") or a time ("0:01.5", "250ms"); False if it is none."""
    place = place.strip()
    if match := _ROUND.fullmatch(place):
        turn, index = match.groups()
        moved = playback.go_round(int(index), int(turn) if turn else None)
    elif (match := _TIME.fullmatch(place)) and playback.stops:
        minutes, number, unit = match.groups()
        seconds = int(minutes or 0) * 60 + float(number) * (1e-3 if unit == "ms" else 1.0)
        playback.go_time(round(seconds * 1e9))
        moved = True
    else:
        moved = False
    if moved:
        playback.playing = False
    return moved
