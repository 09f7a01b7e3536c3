"""The pump: what a frozen view keeps, and what the answer is."""

from __future__ import annotations

from specmon.core.engine.messages import Dropped, Idle
from specmon.core.events import AnyEvent, Gap, Round, Turn, TurnEnd
from specmon.core.metrics.ledger import Ledger
from specmon.tui.feeds.feed import FeedItem, Rewound
from specmon.tui.feeds.pump import Pump


class ListFeed:
    """Hands out what it is given, all at once."""

    def __init__(self, items: list[FeedItem]) -> None:
        self.items = items

    def start(self) -> None: ...

    def close(self) -> None: ...

    def poll(self) -> list[FeedItem]:
        items, self.items = self.items, []
        return items


def test_frozen_pump_catches_up_to_the_same_figures(two_turns: list[AnyEvent]) -> None:
    feed = ListFeed([*two_turns[:6]])
    pump, straight = Pump(feed), Ledger()
    for event in two_turns:
        straight.feed(event)
    pump.poll()
    pump.freeze()
    feed.items = [*two_turns[6:]]
    pump.poll()
    assert len(pump.ledger.lanes[0].turns) == 1
    assert pump.behind[0] == sum(isinstance(e, Round) for e in two_turns[6:])
    assert pump.behind[1] > 3
    pump.thaw()
    assert pump.behind == (0, 0.0)
    for mine, theirs in zip(pump.ledger.lanes[0].turns, straight.lanes[0].turns, strict=True):
        assert mine.text == theirs.text
        assert mine.tokens_per_s == theirs.tokens_per_s


def test_answer_is_the_newest_turn_even_while_frozen(two_turns: list[AnyEvent]) -> None:
    pump, straight = Pump(ListFeed([*two_turns])), Ledger()
    for event in two_turns:
        straight.feed(event)
    pump.freeze()
    pump.poll()
    assert pump.answer == straight.lanes[0].turns[-1].text


def test_poll_tells_notices_and_the_borders_of_turns(two_turns: list[AnyEvent]) -> None:
    told = Pump(ListFeed([*two_turns, Dropped(count=3), Idle(of="Generate")])).poll()
    assert [type(item) for item in told] == [Turn, TurnEnd, Turn, TurnEnd, Dropped, Idle]


def test_lost_events_are_those_of_gaps() -> None:
    pump = Pump(
        ListFeed([Dropped(count=9), Gap(t=1, count=3, reason="disk"), Gap(t=2, count=4, reason="disk")])
    )
    pump.poll()
    assert pump.lost == 7


def test_rewound_forgets(two_turns: list[AnyEvent]) -> None:
    pump = Pump(ListFeed([*two_turns, Rewound(), *two_turns[:4]]))
    pump.poll()
    assert len(pump.ledger.lanes[0].turns) == 1
    assert len(pump.ledger.lanes[0].turns[0].rounds) == 0


def test_start_over_keeps_the_machine_and_gives_back_the_figures(two_turns: list[AnyEvent]) -> None:
    pump = Pump(ListFeed([*two_turns]))
    pump.poll()
    before = pump.start_over()
    assert len(before.lanes[0].turns) == 2
    assert pump.ledger.lanes == {}
    assert pump.ledger.header == before.header
