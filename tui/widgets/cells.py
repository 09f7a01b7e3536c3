"""Text that came from a model or a file, made safe to draw and measured in terminal cells.

A terminal obeys control characters, and terminals disagree about the width of joined emoji. Everything not
ours therefore goes through `safe_text`, after which every character is visible, obeyed by nobody and as
wide as `width` says.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator

from rich.cells import cell_len as width

__all__ = ["clip", "clusters", "pad", "safe_text", "width", "wrapped"]

_NEWLINE = {False: "↵", True: "\\n"}
_DROPPED = frozenset(range(0xFE00, 0xFE10)) | {0x200D}  # variation selectors and the emoji joiner
_UNSAFE_CATEGORIES = frozenset(("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"))
_JOINING_MARK = 0x200C  # zero width and meaningful in Persian and Indic text


def safe_text(text: str, ascii: bool = False, newline: str | None = None) -> str:
    """Replace what a terminal would obey or misplace by something visible.

    ESC becomes ␛ (`^[` with ascii), a newline ↵, another control character its control picture, and invisible
    format characters (bidirectional overrides, tags, zero-width spaces) their code point as <202e>.
    `newline` replaces newlines instead of ↵; a tab becomes one space.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(_visible(char, ascii, newline) for char in text)


def _visible(char: str, ascii: bool, newline: str | None) -> str:
    code = ord(char)
    if char == "\n":
        return _NEWLINE[ascii] if newline is None else newline
    if char == "\t":
        return " "
    if code in _DROPPED:
        return ""
    if code < 0x20 or code == 0x7F:
        if ascii:
            return "^" + chr(code ^ 0x40)
        return "␡" if code == 0x7F else chr(0x2400 + code)
    if code != _JOINING_MARK and unicodedata.category(char) in _UNSAFE_CATEGORIES:
        return f"<{code:x}>"
    return char


def clusters(text: str) -> Iterator[tuple[str, int]]:
    """Split safe text into what may not be halved: each character with its combining marks, and its width."""
    base, cells = "", 0
    for char in text:
        char_cells = width(char)
        if base and char_cells == 0:
            base += char
            continue
        if base:
            yield base, cells
        base, cells = (char, char_cells) if char_cells else (" " + char, 1)
    if base:
        yield base, cells


def clip(text: str, cells: int, ellipsis: str = "…") -> str:
    """Cut text to at most `cells` cells, ending in the ellipsis where something was lost."""
    if cells <= 0:
        return ""
    if width(text) <= cells:
        return text
    room = cells - width(ellipsis)
    if room < 0:
        return ""
    kept, used = [], 0
    for cluster, cluster_cells in clusters(text):
        if used + cluster_cells > room:
            break
        kept.append(cluster)
        used += cluster_cells
    return "".join(kept) + ellipsis


def wrapped(text: str, cells: int, rows: int, ellipsis: str = "…") -> list[str]:
    """At most `rows` rows of `cells` cells, the last one cut; broken at spaces but for words over half a row."""
    lines, used = [""], 0
    for cluster, cluster_cells in clusters(text):
        if used + cluster_cells > cells:
            if len(lines) == rows:
                lines[-1] = clip(lines[-1] + cluster * 2, cells, ellipsis)
                break
            before, _, word = ("", "", "") if cluster == " " else lines[-1].rpartition(" ")
            if before and width(word) <= cells // 2:
                lines[-1] = before
            else:
                word = ""
            lines.append(word)
            used = width(word)
            if cluster == " ":
                continue
        lines[-1] += cluster
        used += cluster_cells
    return lines


def pad(text: str, cells: int, align: str = "<") -> str:
    """Clip or fill text to exactly `cells` cells; `align` is "<" or ">"."""
    text = clip(text, cells)
    space = " " * (max(cells, 0) - width(text))
    return space + text if align == ">" else text + space
