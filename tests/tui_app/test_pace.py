"""How often the screen draws: figures four times a second, text at once, but not for every one of many rounds."""

from __future__ import annotations

from collections.abc import Callable

from specmon.tui.app import SpecmonApp
from specmon.tui.screens.monitor import MonitorScreen

from .conftest import FakeClock, FakeEngine, turn_events
from .test_monitor import decoding, press, settle


class Draws:
    """Counts what a monitor's text and acceptance panels are shown."""

    def __init__(self, monitor: MonitorScreen) -> None:
        self.text = self.numbers = 0
        show_text, show_numbers = monitor.panels["text"].show, monitor.panels["acceptance"].show

        def text(view: object) -> None:
            self.text += 1
            show_text(view)  # type: ignore[arg-type]

        def numbers(view: object) -> None:
            self.numbers += 1
            show_numbers(view)  # type: ignore[arg-type]

        monitor.panels["text"].show = text  # type: ignore[method-assign]
        monitor.panels["acceptance"].show = numbers  # type: ignore[method-assign]


async def drawn_in_two_seconds(
    live_app: Callable[..., SpecmonApp], engine: FakeEngine, clock: FakeClock, rounds_a_tick: int
) -> Draws:
    """What 32 ticks of 1/16 s draw while so many rounds come with each."""
    app = live_app()
    async with app.run_test(size=(80, 24)) as pilot:
        monitor = await decoding(pilot, engine, rounds=1)
        rounds = turn_events(0, 2 + 40 * rounds_a_tick, end=False)[3:]
        engine.give(*rounds[: 8 * rounds_a_tick])
        await settle(pilot)
        draws = Draws(monitor)
        for tick in range(32):
            engine.give(*rounds[(8 + tick) * rounds_a_tick : (9 + tick) * rounds_a_tick])
            clock.advance(1 / 16)
            app.tick()
        if rounds_a_tick > 8:
            before = draws.text
            await press(pilot, "t")
            assert draws.text == before + 1
    return draws


async def test_few_rounds_are_each_shown_at_once(
    live_app: Callable[..., SpecmonApp], engine: FakeEngine, clock: FakeClock
) -> None:
    draws = await drawn_in_two_seconds(live_app, engine, clock, 1)
    assert draws.numbers == 8
    assert draws.text == 32


async def test_text_of_many_rounds_is_drawn_a_few_times_a_second_and_after_a_key_at_once(
    live_app: Callable[..., SpecmonApp], engine: FakeEngine, clock: FakeClock
) -> None:
    draws = await drawn_in_two_seconds(live_app, engine, clock, 25)
    assert draws.numbers == 9
    assert 8 <= draws.text <= 12
