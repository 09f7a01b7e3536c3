"""Turn roles into terminal styles.

Panels draw (text, role) segments and never name a colour. A role may carry a second one for the ground behind
it, as in "accepted@selected". Where the terminal chooses the colours, the selection is shown reversed, since no
colour is sure to be readable on another.
"""

from __future__ import annotations

from rich.color import Color
from rich.style import Style
from textual.theme import Theme as TextualTheme

from specmon.themes import Theme

_BOLD = frozenset(("title", "accent", "error"))
_DIM_WITHOUT_COLOR = frozenset(("muted", "border", "idle", "wait"))


class Palette:
    """Styles of one theme; with `no_color` only bold, dim and reverse are used.

    All panels of an app share one palette, so that `use` changes them together at the next paint.
    """

    def __init__(self, theme: Theme, no_color: bool = False) -> None:
        self.theme = theme
        self.no_color = no_color
        self._styles: dict[str, Style] = {}

    def use(self, theme: Theme) -> None:
        """Give every role the colour of another theme."""
        self.theme = theme
        self._styles.clear()

    def style(self, role: str) -> Style:
        """The style of "role" or "role@ground".

        Raises: KeyError for a role no theme has.
        """
        if (style := self._styles.get(role)) is None:
            style = self._styles[role] = self._build(*role.partition("@")[::2])
        return style

    def _build(self, role: str, ground: str) -> Style:
        colors = self.theme.colors
        color, behind = colors[role], colors[ground or "background"]
        if self.theme.ansi and ground == "selected" and not self.no_color:
            return Style(color=Color.parse(color), bold=role in _BOLD, reverse=True)
        if self.no_color:
            return Style(bold=role in _BOLD, dim=role in _DIM_WITHOUT_COLOR, reverse=ground == "selected")
        return Style(color=Color.parse(color), bgcolor=Color.parse(behind), bold=role in _BOLD)


def textual_theme(theme: Theme) -> TextualTheme:
    """The same colours for Textual's own widgets (inputs, scrollbars, the command palette)."""

    def color(role: str) -> str:
        value = theme.colors[role]
        return value if value.startswith("#") else f"ansi_{value}"

    return TextualTheme(
        name=theme.name,
        dark=theme.dark,
        primary=color("accent"),
        secondary=color("draft"),
        accent=color("accent"),
        foreground=color("text"),
        background=color("background"),
        surface=color("surface"),
        panel=color("surface"),
        success=color("accepted"),
        warning=color("warning"),
        error=color("error"),
        boost=color("surface"),
        variables={"border": color("border"), "text-muted": color("muted"), "selected": color("selected")},
    )
