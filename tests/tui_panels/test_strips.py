from __future__ import annotations

import gc
from collections.abc import Callable

from rich.segment import Segment
from textual.app import App, ComposeResult
from textual.strip import Strip

from specmon.tui.view import View
from specmon.tui.widgets.acceptance_panel import AcceptancePanel
from specmon.tui.widgets.strips import without_cycles

from .conftest import fed
from .streams import ssd_stream


def garbage_of(work: Callable[[], object]) -> int:
    """Objects that only a collection frees after `work`."""
    gc.collect()
    gc.disable()
    try:
        work()
        return gc.collect()
    finally:
        gc.enable()


def test_an_uncut_strip_does_not_hold_itself() -> None:
    def cut(strip: Strip) -> None:
        assert strip.divide([3]) == [strip]
        assert [part.text for part in strip.divide([1, 3])] == ["a", "bc"]

    assert garbage_of(lambda: cut(Strip([Segment("abc")]))) > 0  # else the workaround can go
    assert garbage_of(lambda: cut(without_cycles([Strip([Segment("abc")])])[0])) == 0


async def test_a_panel_that_is_painted_over_leaves_no_garbage() -> None:
    views = [View(ledger=fed(ssd_stream(rounds))) for rounds in range(3, 40)]

    class Shown(App[None]):
        def compose(self) -> ComposeResult:
            yield AcceptancePanel()

    app = Shown()
    async with app.run_test(size=(80, 24)) as pilot:
        panel = app.query_one(AcceptancePanel)
        for view in views[:4]:
            panel.show(view)
            await pilot.pause()
        gc.collect()
        gc.disable()
        try:
            for view in views[4:]:
                panel.show(view)
                await pilot.pause()
            before = sum(isinstance(kept, Strip) for kept in gc.get_objects())
            gc.collect()
            after = sum(isinstance(kept, Strip) for kept in gc.get_objects())
        finally:
            gc.enable()
    assert before - after < 10
