"""Frames: everything comes back as it went, however the bytes are cut; nothing else comes through."""

from __future__ import annotations

import socket

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specmon.core.engine import channel
from specmon.core.engine.channel import (
    MAX_FRAME_BYTES,
    ChannelError,
    FrameParser,
    frame_command,
    frame_event,
    frame_notice,
    receive,
)
from specmon.core.engine.messages import Cancel, Dropped, Generate, Mark, Progress, Request
from specmon.core.events import Branch, Log, Round, Span

ROUND = Round(
    t=20,
    index=0,
    t0=10,
    t1=20,
    requested_k=2,
    drafter="ngram",
    draft=(7, 8),
    draft_probs=(0.1, None),
    accepted_len=1,
    bonus=9,
    emitted=(7, 9),
    text=("\x1b[2J", "é\ud7ff\U0001f600"),
    branches=(Branch(1, 9, 1, 0.3, (4, 5), None),),
    hit=0,
    spans=(Span(0, "main", "verify", 11, 19, 0),),
)
MESSAGES = [
    (frame_event(ROUND), ROUND),
    (frame_event(Log(t=1, level="info", text="x" * 3000)), Log(t=1, level="info", text="x" * 3000)),
    (frame_notice(Progress(what="loading", fraction=None)), Progress(what="loading")),
    (frame_notice(Dropped(count=3, whole=False)), Dropped(count=3, whole=False)),
    (frame_command(Cancel()), Cancel()),
    (frame_command(Mark(label="")), Mark(label="")),
]


def parse(parser: FrameParser) -> list[object]:
    return list(iter(parser.next, None))


@given(st.lists(st.sampled_from(MESSAGES)), st.lists(st.integers(1, 500), min_size=1))
def test_frames_come_back_in_order_however_they_are_cut(messages, cuts):
    data = b"".join(frame for frame, _ in messages)
    parser = FrameParser()
    got: list[object] = []
    at = 0
    for size in cuts * (len(data) // sum(cuts) + 1):
        parser.feed(data[at : at + size])
        got += parse(parser)
        at += size
    assert got == [message for _, message in messages]


@pytest.mark.parametrize(
    "data",
    [
        (MAX_FRAME_BYTES + 1).to_bytes(4, "big") + b"E",
        b"\x00\x00\x00\x02?{}",
        b"\x00\x00\x00\x02E{}",
        b"\x00\x00\x00\x00N",
        b'\x00\x00\x00\x0fN{"type":"Nope"}',
        b'\x00\x00\x00\x13N{"type":"Progress"}',
        b"\x00\x00\x00\x02N\xff\xfe",
    ],
)
def test_bytes_that_are_no_frame_are_an_error(data):
    parser = FrameParser()
    parser.feed(data)
    with pytest.raises(ChannelError):
        parser.next()


def test_a_message_over_the_limit_is_not_framed(monkeypatch):
    monkeypatch.setattr(channel, "MAX_FRAME_BYTES", 100)
    with pytest.raises(ChannelError, match="over the limit of 100"):
        frame_command(Generate(request=Request(messages=(("user", "x" * 100),))))


def test_a_frame_is_the_json_of_its_message():
    assert frame_event(ROUND)[5:] == msgspec.json.encode(ROUND)


def test_receive_tells_nothing_waiting_from_closed():
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    with ours:
        parser = FrameParser()
        with theirs:
            assert receive(ours, parser) == 0
            theirs.sendall(frame_command(Cancel()))
            assert receive(ours, parser) == len(frame_command(Cancel()))
        assert receive(ours, parser) is None
        assert parser.next() == Cancel()
