"""Gathering events into one frame."""

from __future__ import annotations

from specmon.core.events import Event, Round
from specmon.core.session.codec import Encoder
from specmon.core.session.frames import MAX_RAW_BYTES, FrameInfo, compress, pack_mark

#: zstd levels: while recording, and for a closed file, which is written once and kept.
LIVE_LEVEL = 3
CLOSED_LEVEL = 9


class FrameBuilder:
    """Collects lines and packs them; knows how many events and rounds it has packed so far.

    `add` takes events, `add_lines` a run of lines that are encoded already and readable without those before.
    """

    def __init__(self, level: int = LIVE_LEVEL) -> None:
        self._encoder = Encoder()
        self._level = level
        self._lines: list[bytes] = []
        self._first: tuple[int, int, int] = (0, -1, -1)  # t, turn, round
        self._rounds = 0
        self.raw_bytes = 0
        self.events_packed = 0
        self.rounds_packed = 0
        self.last_t = 0

    @property
    def events(self) -> int:
        """Events collected and not yet packed."""
        return len(self._lines)

    def add(self, event: Event) -> None:
        """Collect one event. Raises ValueError where it cannot be written; nothing is collected then."""
        turn, index = (event.turn, event.index) if isinstance(event, Round) else (-1, -1)
        if not all(-(2**63) <= number < 2**63 for number in (event.t, turn, index)):
            raise ValueError("an event's time or place is no 64-bit number")
        line = self._encoder.encode(event)
        try:
            self.add_lines(
                [line], t=event.t, rounds=int(isinstance(event, Round)), turn=turn, round_index=index
            )
        except ValueError:
            self._encoder.reset()
            raise

    def add_lines(
        self, lines: list[bytes], *, t: int, rounds: int = 0, turn: int = -1, round_index: int = -1
    ) -> None:
        """Collect lines: `t` of the first, how many are rounds, and the first round's place.

        Raises: ValueError where they do not fit into a frame; nothing is collected then.
        """
        raw_bytes = sum(map(len, lines)) + len(lines)
        if self.raw_bytes + raw_bytes > MAX_RAW_BYTES:
            raise ValueError(f"{raw_bytes} bytes of events do not fit into a frame")
        if not self._lines:
            self._first = (t, -1, -1)
        if rounds and not self._rounds:
            self._first = (self._first[0], turn, round_index)
        self._lines += lines
        self._rounds += rounds
        self.raw_bytes += raw_bytes
        self.last_t = t

    def pack(self) -> bytes:
        """Give mark and data of what was collected, and start the next frame. Nothing collected gives b""."""
        if not self._lines:
            return b""
        raw = b"\n".join(self._lines) + b"\n"
        data = compress(raw, self._level)
        t, turn, round_index = self._first
        mark = pack_mark(
            FrameInfo(
                data_bytes=len(data),
                raw_bytes=len(raw),
                events=len(self._lines),
                rounds=self._rounds,
                first_event=self.events_packed,
                rounds_before=self.rounds_packed,
                t=t,
                turn=turn,
                round=round_index,
            )
        )
        self.events_packed += len(self._lines)
        self.rounds_packed += self._rounds
        self._encoder.reset()
        self._lines = []
        self._rounds = 0
        self.raw_bytes = 0
        return mark + data
