"""What holds for all panels: exact size, no control characters, only known roles, ASCII when asked."""

from __future__ import annotations

import unicodedata
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specmon.core.events import AnyEvent, Log, Round, Vocabulary
from specmon.core.metrics.ledger import Ledger
from specmon.themes import load_theme
from specmon.tui.view import ReplayStatus, View
from specmon.tui.widgets.lines import in_ascii, line_width, plain
from specmon.tui.widgets.palette import Palette

from .conftest import RENDERERS, Render, fed
from .streams import WORDS, StreamBuilder, race_stream, ssd_stream

HOSTILE = [
    "\x1b[31m",
    "\x1b]0;pwned\x07",
    "漢字",
    "\u202e",
    "e\u0301\u0301",
    "\r\n",
    "👩\u200d💻",
    "\x9b2J",
    "\t",
    "\x00",
    "",
    "\u0301",
    "x" * 40,
    "\U000e0041",
    " ",
    "ｶ",
]


def stripped(events: list[AnyEvent]) -> list[AnyEvent]:
    """The stream with its words removed, as a redacted recording has it."""
    kept: list[AnyEvent] = []
    for event in events:
        if isinstance(event, Vocabulary | Log):
            continue
        if isinstance(event, Round):
            fields = {name: getattr(event, name) for name in event.__struct_fields__}
            fields |= {"draft": (None,) * len(event.draft), "bonus": None, "branches": ()}
            fields |= {"emitted": (None,) * len(event.emitted), "text": ("",) * len(event.emitted)}
            event = Round(**fields)
        kept.append(event)
    return kept


LEDGERS = {
    "nothing": fed([]),
    "header alone": fed(StreamBuilder().header().events),
    "prefilled": fed(StreamBuilder().header().turn().events),
    "ssd": fed(ssd_stream(40)),
    "sd": fed(StreamBuilder("sd").header().turn().rounds(9).telemetry(None).end().events),
    "ar": fed(StreamBuilder("ar").header(ceiling=None).turn().rounds(70).end().events),
    "race": fed(race_stream(20)),
    "hostile": fed(ssd_stream(40, words=HOSTILE)),
    "redacted": fed(stripped(ssd_stream(20))),
    "long": fed(ssd_stream(700)),
}
REPLAY = ReplayStatus(name="a\x1b[2J.session", paused=True, t=0, t_end=10**9, speed=5.0)


@pytest.mark.parametrize("ledger", LEDGERS.values(), ids=LEDGERS)
@given(
    width=st.integers(1, 200),
    height=st.integers(1, 60),
    selected=st.none() | st.integers(0, 800),
    ascii=st.booleans(),
    fates=st.booleans(),
)
@settings(max_examples=12, deadline=None)
def test_panels_are_exactly_their_size(
    ledger: Ledger, width: int, height: int, selected: int | None, ascii: bool, fates: bool
) -> None:
    view = View(ledger=ledger, selected=selected, ascii=ascii, fates=fates, window=16)
    for name, render in RENDERERS.items():
        lines = render(view, width, height)
        assert [line_width(line) for line in lines] == [width] * height, name


@pytest.mark.parametrize("replay", [None, REPLAY], ids=["live", "replay"])
def test_panels_draw_no_control_character(render: Render, replay: ReplayStatus | None) -> None:
    builder = StreamBuilder(words=HOSTILE).header().turn("\x1b[2Jgo\x07\u202e").rounds(40).telemetry()
    view = View(ledger=fed(builder.events), replay=replay)
    for width, height in ((160, 24), (80, 3), (48, 11)):
        for line in render(view, width, height):
            assert not [c for c in plain(line) if unicodedata.category(c) in ("Cc", "Cf", "Zl", "Zp")]


def test_panels_use_only_roles_of_the_theme(render: Render) -> None:
    palette = Palette(load_theme("specmon-dark"))
    for ledger in LEDGERS.values():
        for selected in (None, 3):
            for line in render(View(ledger=ledger, selected=selected), 160, 24):
                for _, role in line:
                    palette.style(role)


def test_panels_are_ascii_when_asked(render: Render) -> None:
    words = [word for word in WORDS if word != "\n"]
    view = View(ledger=fed(ssd_stream(40, words=words)), selected=30, ascii=True, window=16)
    for width, height in ((160, 24), (80, 3)):
        for line in render(view, width, height):
            assert plain(in_ascii(line)).isascii()
            assert line_width(in_ascii(line)) == width


def test_panels_do_not_change_with_the_way_the_events_came(render: Render) -> None:
    events = ssd_stream(30)
    early = fed(events[:20])
    for event in events[20:]:
        early.feed(event)
    view = View(ledger=early, window=16)
    assert render(view, 120, 20) == render(replace(view, ledger=fed(events)), 120, 20)
