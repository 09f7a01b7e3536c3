"""The help: every key of the screen below, from its bindings."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby, zip_longest
from textwrap import wrap

from textual.binding import Binding

from specmon.tui.screens.keys import entries
from specmon.tui.screens.sheet import Sheet
from specmon.tui.screens.stage import Setup
from specmon.tui.widgets.cells import pad
from specmon.tui.widgets.glyphs import Glyphs, glyphs
from specmon.tui.widgets.lines import Line

KEY_CELLS = 10
GENERAL: tuple[tuple[str, str], ...] = (
    ("ctrl+c", "cancel the request; again within 2 s quits with exit code 130"),
    ("ctrl+p", "command palette"),
    ("T I", "next theme · save the screen as an SVG picture"),
)
MOUSE = (
    ("over", "a round's text or its row in the list: that round everywhere, until the mouse leaves"),
    ("click", "keep that round selected; Esc follows the newest again"),
    ("wheel", "scroll the text"),
)


def signs_explained(signs: Glyphs) -> list[tuple[str, str]]:
    """Each group of signs with what they mean."""
    spans = signs.spans
    return [
        (
            f"{signs.hit} {signs.miss}",
            "the draft of this round was ready (branch hit) · it had to be made anew (miss)",
        ),
        (
            f"{signs.accepted} {signs.bonus} {signs.first}",
            "accepted drafted token · bonus, the target's own token · token one, from the prefill",
        ),
        (
            f"{signs.kept} {signs.rejected} {signs.unreached}",
            "drafted token accepted · rejected · never reached",
        ),
        ("a/K", "accepted_len of draft_len; τ tokens per round, α acceptance rate"),
        (
            " ".join(spans[kind] for kind in ("verify", "branch_draft", "draft")),
            "timeline: target verifies · draft device prepares branches · drafts, with the target waiting",
        ),
        (
            " ".join(spans[kind] for kind in ("accept", "handoff", "wait")),
            "timeline: accept and emit · tokens between the devices · waiting",
        ),
        (
            " ".join(spans[kind] for kind in ("prefill", "collective")),
            "timeline: the prompt goes in · devices put a result together",
        ),
        (f"{signs.used} {signs.wasted}", "both devices at work: the branch was used · was not"),
    ]


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
            lines += _entries(((b.key_display or b.key, b.tooltip) for b in members), width)
        lines += _entries(GENERAL, width)
        lines += [[("Mouse", "title")], *_entries(MOUSE, width)]
        signs = signs_explained(glyphs(self.setup.ascii))
        return [*lines, [("Signs", "title")], *_entries(signs, width)]


def _entries(entries: Iterable[tuple[str, str]], width: int) -> list[Line]:
    """Keys or signs at the left, beside them what they mean, wrapped."""
    lines: list[Line] = []
    for keys, text in entries:
        for name, part in zip_longest([keys], wrap(text, max(width - KEY_CELLS - 2, 1)), fillvalue=""):
            lines.append([("  ", "text"), (pad(name, KEY_CELLS), "accent"), (part, "text")])
    return lines
