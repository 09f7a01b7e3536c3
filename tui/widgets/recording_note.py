"""How the recording stands, in a few words: kept, kept without all events, or not to be written."""

from __future__ import annotations

from specmon.core.engine.messages import Recording
from specmon.tui.widgets.cells import safe_text
from specmon.tui.widgets.glyphs import Glyphs
from specmon.tui.widgets.lines import Line
from specmon.tui.widgets.numbers import size


def recording_note(recording: Recording | None, signs: Glyphs, roomy: bool) -> Line:
    """ "● REC 4.1 s 0.3 MB"; `roomy`: with its length and size. Empty where nothing is kept and nothing is wrong."""
    if recording is None:
        return []
    if recording.error is not None:
        return [(f"{signs.record} {safe_text(recording.error, signs.ascii)}", "error")]
    if recording.path is None:
        return []
    line: Line = [(f"{signs.record} REC", "rejected")]
    if recording.incomplete:
        line.append((" incomplete", "error"))
    if roomy:
        line.append((f" {recording.seconds:,.1f} s {size(recording.bytes)}", "muted"))
    return line
