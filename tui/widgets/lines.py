"""Lines of (text, role) segments: how every panel describes what it draws, before any colour is chosen."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from specmon.tui.widgets.cells import clip, width
from specmon.tui.widgets.glyphs import Glyphs

Segment = tuple[str, str]
Line = list[Segment]

#: From this height on a panel stands in a box; below, its title is a rule above it.
FRAMED_FROM = 8


@dataclass(frozen=True, kw_only=True)
class Title:
    """What stands in a panel's top border: `name` at the left, `note` at the right."""

    number: int | None
    name: str
    note: Line
    keep_case: bool = False  # a box writes its name in capitals unless this is set


def plain(line: Iterable[Segment]) -> str:
    """A line's text without roles."""
    return "".join(text for text, _ in line)


#: One ASCII sign for every other sign that figures and formulas use, so that nothing moves.
_ASCII_SIGNS = str.maketrans("τα÷·−×–µ±°≥…", "ta/.-x-u~ >.")


def in_ascii(line: Line) -> Line:
    """The line with the signs of figures and formulas in ASCII; text of models and files stays."""
    return [(text if text.isascii() else text.translate(_ASCII_SIGNS), role) for text, role in line]


def line_width(line: Iterable[Segment]) -> int:
    """A line's width in cells."""
    return sum(width(text) for text, _ in line)


def while_it_fits(parts: Iterable[Line], cells: int) -> Line:
    """The parts one after the other, as many as `cells` hold."""
    line: Line = []
    for part in parts:
        if line_width(line) + line_width(part) > cells:
            break
        line += part
    return line


def changed_cells(before: Line, after: Line) -> tuple[int, int]:
    """Where two lines of one width differ: cells from the first to before the second figure, by whole segments."""
    if before == after:
        return 0, 0
    shared = min(len(before), len(after))
    first = next((i for i in range(shared) if before[i] != after[i]), shared)
    last = next((i for i in range(shared - first) if before[-1 - i] != after[-1 - i]), shared - first)
    start = line_width(after[:first])
    end = line_width(after) - line_width(after[len(after) - last :])
    return start, max(end, line_width(before) - line_width(before[len(before) - last :]))


def runs(line: Iterable[Segment]) -> Line:
    """The same line in fewer segments, and so in fewer bytes: neighbours of one role are joined, and spaces, on
    which only the ground shows, join any neighbour on theirs.
    """
    out: Line = []
    for text, role in line:
        if out:
            before, before_role = out[-1]
            if before_role == role or (text.isspace() and _ground(role) == _ground(before_role)):
                out[-1] = (before + text, before_role)
                continue
            if before.isspace() and _ground(role) == _ground(before_role):
                out[-1] = (before + text, role)
                continue
        out.append((text, role))
    return out


def _ground(role: str) -> str:
    return role.partition("@")[2]


def fit(line: Line, cells: int, fill: str = " ", role: str = "text", ellipsis: str = "…") -> Line:
    """Cut or fill a line to exactly `cells` cells."""
    out: Line = []
    room = max(cells, 0)
    for text, segment_role in line:
        text_cells = width(text)
        if text_cells > room:
            text = clip(text, room, ellipsis)
            text_cells = width(text)
            if text:
                out.append((text, segment_role))
            room -= text_cells
            break
        if text:
            out.append((text, segment_role))
        room -= text_cells
    if room > 0:
        out.append((fill * room, role))
    return out


def spread(left: Line, right: Line, cells: int, fill: str = " ", role: str = "text") -> Line:
    """Left and right part on one line of `cells` cells; the right part goes if both do not fit."""
    gap = cells - line_width(left) - line_width(right)
    if gap < 1 or not right:
        return fit(left, cells, fill, role)
    return [*left, (fill * gap, role), *right]


def on_ground(line: Line, ground: str) -> Line:
    """The same line on another ground, e.g. "selected"."""
    return [(text, f"{role.partition('@')[0]}@{ground}") for text, role in line]


def in_panel(
    title: Title,
    body: Sequence[Line],
    width: int,
    height: int,
    glyphs: Glyphs,
    framed_from: int = FRAMED_FROM,
) -> list[Line]:
    """Put a title and, where the height allows, a box around a body: `height` lines of `width` cells."""
    if width <= 0 or height <= 0:
        return [[] for _ in range(max(height, 0))]
    framed = is_framed(width, height, framed_from)
    inner_height = height - (2 if framed else 1)
    rows = [
        fit(runs(line), body_width(width, height, framed_from), ellipsis=glyphs.ellipsis)
        for line in body[:inner_height]
    ]
    blank: Line = [(" " * body_width(width, height, framed_from), "text")]
    rows += [blank] * (inner_height - len(rows))
    if not framed:
        return [_rule(title, width, glyphs), *([(" ", "text"), *row] if width > 1 else row for row in rows)]
    top_left, top_right, bottom_left, bottom_right, across, down = glyphs.frame
    side: Segment = (down, "border")
    box = [[side, (" ", "text"), *row, side] for row in rows]
    inner = _title_bar(title, width - 2, glyphs, upper=True)
    return [
        [(top_left, "border"), *inner, (top_right, "border")],
        *box,
        [(bottom_left + across * (width - 2) + bottom_right, "border")],
    ]


def is_framed(width: int, height: int, framed_from: int = FRAMED_FROM) -> bool:
    """Whether a panel of this size has a box."""
    return height >= framed_from and width >= 8


def body_width(width: int, height: int, framed_from: int = FRAMED_FROM) -> int:
    """Cells a panel's body has on each line."""
    if is_framed(width, height, framed_from):
        return width - 3
    return width - 1 if width > 1 else width


def body_height(width: int, height: int, framed_from: int = FRAMED_FROM) -> int:
    """Lines a panel's body has."""
    return max(height - (2 if is_framed(width, height, framed_from) else 1), 0)


def _rule(title: Title, cells: int, glyphs: Glyphs) -> Line:
    return fit(_title_bar(title, cells, glyphs, upper=False), cells, glyphs.rule, "border")


def _title_bar(title: Title, cells: int, glyphs: Glyphs, *, upper: bool) -> Line:
    name = title.name.upper() if upper and not title.keep_case else title.name
    label = f"{title.number} {name}" if title.number is not None else name
    left: Line = [(glyphs.rule + " ", "border"), (label, "title"), (" ", "border")]
    right: Line = [(" ", "border"), *title.note, (" " + glyphs.rule, "border")] if title.note else []
    return spread(left, right, cells, glyphs.rule, "border")
