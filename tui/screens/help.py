"""The help: every key of the screen below, from its bindings."""

from __future__ import annotations

from itertools import groupby

from textual.binding import Binding

from specmon.tui.screens.keys import entries
from specmon.tui.screens.sheet import Sheet
from specmon.tui.screens.stage import Setup
from specmon.tui.widgets.cells import pad
from specmon.tui.widgets.lines import Line

GENERAL: tuple[tuple[str, str], ...] = (
    ("ctrl+c", "cancel the request; again within 2 s quits with exit code 130"),
    ("ctrl+p", "command palette"),
    ("T I", "next theme · save the screen as an SVG picture"),
)
GLYPHS = (
    ("◆ ◇", "the draft of this round was ready (branch hit) · it had to be made anew (miss)"),
    ("· + ▸", "accepted drafted token · bonus, the target's own token · token one, from the prefill"),
    ("✓ ✗ –", "drafted token accepted · rejected · never reached"),
    ("a/K", "accepted_len of draft_len; τ tokens per round, α acceptance rate"),
)


class HelpScreen(Sheet):
    """Keys by section, then what the glyphs mean."""

    def __init__(self, setup: Setup, bindings: list[Binding]) -> None:
        super().__init__(setup, "HELP")
        self._keys = bindings

    def sheet_lines(self, width: int) -> list[Line]:
        lines: list[Line] = []
        order = {b.group: i for i, b in reversed(list(enumerate(self._keys)))}
        ordered = sorted(entries(self._keys), key=lambda b: order[b.group])
        for group, members in groupby(ordered, key=lambda b: b.group):
            lines += [[(group.description if group else "", "title")]]
            lines += [_entry(b.key_display or b.key, b.tooltip) for b in members]
        lines += [_entry(*entry) for entry in GENERAL]
        lines += [[("Signs", "title")], *(_entry(*sign) for sign in GLYPHS)]
        return lines


def _entry(keys: str, text: str) -> Line:
    return [("  ", "text"), (pad(keys, 10), "accent"), (text, "text")]
