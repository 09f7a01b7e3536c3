"""Length-prefixed frames over a stream socket: what the engine and the view speak.

A frame is a four-byte big-endian length, one kind byte and the payload as JSON. Both ends are always one
release, so events travel as they are; the `.session` codec, which must outlive releases, is for files.
"""

from __future__ import annotations

import socket
import struct

import msgspec

from specmon.core.engine.messages import Command, Notice
from specmon.core.events import AnyEvent, Event

#: Larger frames are refused on both sides: a prompt of a million tokens fits, a corrupt length does not.
MAX_FRAME_BYTES = 32 << 20

_HEAD = struct.Struct(">IB")
_COMMAND, _NOTICE, _EVENT = ord("C"), ord("N"), ord("E")

_event_decoder: msgspec.json.Decoder[Event] = msgspec.json.Decoder(AnyEvent)
_command_decoder: msgspec.json.Decoder[Command] = msgspec.json.Decoder(Command)
_notice_decoder: msgspec.json.Decoder[Notice] = msgspec.json.Decoder(Notice)


class ChannelError(Exception):
    """The bytes on the channel are not frames; nothing after them can be trusted."""


def frame_command(command: Command) -> bytes:
    """One command as a frame."""
    return _frame(_COMMAND, msgspec.json.encode(command))


def frame_notice(notice: Notice) -> bytes:
    """One notice as a frame."""
    return _frame(_NOTICE, msgspec.json.encode(notice))


def frame_event(event: Event) -> bytes:
    """One event as a frame."""
    return _frame(_EVENT, msgspec.json.encode(event))


def _frame(kind: int, payload: bytes) -> bytes:
    if len(payload) > MAX_FRAME_BYTES:
        raise ChannelError(f"a message of {len(payload):,} bytes is over the limit of {MAX_FRAME_BYTES:,}")
    return _HEAD.pack(len(payload), kind) + payload


class FrameParser:
    """Turns received bytes into messages; bytes of an unfinished frame wait for the rest."""

    def __init__(self) -> None:
        self._data = bytearray()
        self._start = 0  # where the next frame begins

    def feed(self, data: bytes) -> None:
        """Add received bytes."""
        del self._data[: self._start]
        self._start = 0
        self._data += data

    def next(self) -> Event | Command | Notice | None:
        """The oldest whole message, or None until more bytes come.

        Raises: ChannelError for a length over the limit, an unknown kind or a payload that does not parse.
        """
        body = self._start + _HEAD.size
        if len(self._data) < body:
            return None
        length, kind = _HEAD.unpack_from(self._data, self._start)
        if length > MAX_FRAME_BYTES:
            raise ChannelError(f"a frame claims {length:,} bytes")
        if len(self._data) < body + length:
            return None
        self._start = body + length
        return _decode(kind, bytes(self._data[body : self._start]))


def _decode(kind: int, payload: bytes) -> Event | Command | Notice:
    try:
        if kind == _EVENT:
            return _event_decoder.decode(payload)
        if kind == _NOTICE:
            return _notice_decoder.decode(payload)
        if kind == _COMMAND:
            return _command_decoder.decode(payload)
    except msgspec.MsgspecError as error:
        raise ChannelError(f"a message does not parse: {error}") from error
    raise ChannelError(f"unknown kind of frame: {kind}")


def receive(sock: socket.socket, parser: FrameParser) -> int | None:
    """Move bytes that wait on a non-blocking socket into `parser`.

    Returns: how many bytes came, 0 if none wait, None if the other side has closed the channel.
    """
    try:
        data = sock.recv(1 << 18)
    except (BlockingIOError, InterruptedError):
        return 0
    except OSError:
        return None
    parser.feed(data)
    return len(data) or None
