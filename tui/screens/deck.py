"""The container of a cockpit: lays its children out where `arrange` says."""

from __future__ import annotations

from collections.abc import Callable

from textual.geometry import NULL_OFFSET, NULL_SPACING, Size
from textual.layout import ArrangeResult, Layout, WidgetPlacement
from textual.widget import Widget

from specmon.tui.screens.arrangement import Places


class DeckLayout(Layout):
    """Places each child at the region its id has; a child without one is not shown."""

    name = "deck"

    def __init__(self, places: Callable[[Size], Places]) -> None:
        self._places = places
        self.placed: Places = {}

    def arrange(
        self, parent: Widget, children: list[Widget], size: Size, greedy: bool = True
    ) -> ArrangeResult:
        parent.pre_layout(self)
        places = self.placed = self._places(size)
        return [
            WidgetPlacement(places[child.id], NULL_OFFSET, NULL_SPACING, child)
            for child in children
            if child.id in places
        ]


class Deck(Widget):
    """All of a cockpit's parts. `places` is what is on screen now, by id."""

    DEFAULT_CSS = "Deck { width: 1fr; height: 1fr; }"

    def __init__(self, parts: list[Widget], arrange: Callable[[Size], Places]) -> None:
        super().__init__(*parts)
        self._places = arrange
        self._deck_layout = DeckLayout(arrange)

    @property
    def layout(self) -> Layout:
        """The deck's own layout; a stylesheet cannot name it."""
        return self._deck_layout

    @property
    def places(self) -> Places:
        """Where each visible part is."""
        return self._places(self.size)

    @property
    def stale(self) -> bool:
        """Whether what should be where is no longer what is laid out."""
        return self._deck_layout.placed != self.places

    def rearrange(self) -> None:
        """Lay out again, after a zoom or a change of the prompt's height."""
        self.children[0].refresh(layout=True)  # a widget forgets its arrangement only when a child asks
