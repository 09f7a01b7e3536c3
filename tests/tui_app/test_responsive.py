"""What keeps keys quick: they go before drawing, what comes fast is taken in by slices, collections wait for rest."""

from __future__ import annotations

import gc
from collections.abc import Callable

import pytest

from specmon.tui.app import KEY_FIRST_AT_MOST_S, KEY_FIRST_S, SpecmonApp
from specmon.tui.feeds import live
from specmon.tui.garbage import AT_REST_EVERY_S, LATEST_S, Garbage

from .conftest import FakeClock, FakeEngine, turn_events
from .test_monitor import decoding, press


async def test_a_key_goes_before_drawing_but_not_for_long(
    live_app: Callable[..., SpecmonApp], engine: FakeEngine, clock: FakeClock
) -> None:
    app, ticks = live_app(), []
    async with app.run_test(size=(80, 24)) as pilot:
        await decoding(pilot, engine, rounds=1)
        app.tick = lambda: ticks.append(clock())  # type: ignore[method-assign]
        clock.advance(1.0)
        app._tick_after_keys()
        assert len(ticks) == 1
        await press(pilot, "t")
        app._tick_after_keys()
        assert len(ticks) == 1
        clock.advance(KEY_FIRST_S * 1.1)
        app._tick_after_keys()
        assert len(ticks) == 2
        steps = 0
        while len(ticks) == 2:  # a key held down
            clock.advance(KEY_FIRST_S / 2)
            await press(pilot, "t")
            app._tick_after_keys()
            steps += 1
        assert steps <= 2 * KEY_FIRST_AT_MOST_S / KEY_FIRST_S + 2


async def test_what_a_slice_leaves_comes_without_a_tick(
    live_app: Callable[..., SpecmonApp], engine: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "POLL_BUDGET_S", 0.0)
    monkeypatch.setattr(live, "BATCH", 4)
    app = live_app()
    async with app.run_test(size=(80, 24)) as pilot:
        monitor = await decoding(pilot, engine, rounds=1)
        engine.give(*turn_events(0, 60, end=False)[3:])
        app.tick()
        few = len(monitor.rounds)
        while app.feed.more:  # type: ignore[attr-defined]
            await pilot.pause(0.01)
        assert few < 10 < len(monitor.rounds) == 60


def test_full_collections_wait_for_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    collected: list[int] = []
    monkeypatch.setattr(gc, "collect", lambda: collected.append(1))
    monkeypatch.setattr(gc, "freeze", lambda: None)
    monkeypatch.setattr(gc, "set_threshold", lambda *thresholds: None)
    waits = Garbage()
    waits.drawn(1e9, at_rest=True)
    assert not collected  # Python's own until it takes over
    waits.take_over(0.0)
    waits.drawn(AT_REST_EVERY_S, at_rest=False)
    waits.drawn(AT_REST_EVERY_S - 1, at_rest=True)
    assert len(collected) == 1
    waits.drawn(AT_REST_EVERY_S, at_rest=True)
    waits.drawn(AT_REST_EVERY_S + LATEST_S, at_rest=False)
    assert len(collected) == 3
