"""The file's frames: a mark (a zstd skippable frame) in front of each compressed block of lines.

    mark: magic 0x184D2A5E, payload length | "SPMN", crc32 of the mark without itself, FrameInfo's numbers
    data: one zstd frame with content size and checksum, holding whole lines, readable without any other frame

Marks let a reader hop over the file without decompressing, and say what is missing where one is damaged. A
mark without data ends a file that was closed.
Source: RFC 8878 (skippable frames, content checksum).
"""

from __future__ import annotations

import struct
import zlib

import msgspec
import zstandard

#: Largest block of lines one frame may hold, uncompressed (bytes).
MAX_RAW_BYTES = 16 << 20
#: Most bytes a mark takes; ours are shorter, a newer minor's may be longer.
MAX_MARK_BYTES = 256

_HEAD = struct.Struct("<II4sI")  # skippable magic, payload length, signature, crc32
_NUMBERS = struct.Struct("<IIIIQQqqq")
_MAGIC = 0x184D2A5E
_SIGNATURE = b"SPMN"
MARK_BYTES = _HEAD.size + _NUMBERS.size


class DamagedFrame(ValueError):
    """Bytes that are not the frame they should be; the message is a clause for a sentence to the user."""


class FrameInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What a mark says of the frame behind it; -1 where it holds no round."""

    data_bytes: int  # compressed
    raw_bytes: int  # uncompressed
    events: int
    rounds: int
    first_event: int  # events before this frame
    rounds_before: int
    t: int  # ns, of the first event
    turn: int = -1  # of the first round
    round: int = -1  # index of the first round
    offset: int = 0  # of the mark in the file (bytes)
    mark_bytes: int = MARK_BYTES

    @property
    def data_offset(self) -> int:
        """Where the compressed data start in the file (bytes)."""
        return self.offset + self.mark_bytes

    @property
    def end(self) -> int:
        """Where the next mark starts in the file (bytes)."""
        return self.data_offset + self.data_bytes

    @property
    def is_end(self) -> bool:
        """Say whether this is the mark that closes a file."""
        return self.data_bytes == 0


def pack_mark(info: FrameInfo) -> bytes:
    """Give the bytes of a mark."""
    numbers = _NUMBERS.pack(
        info.data_bytes,
        info.raw_bytes,
        info.events,
        info.rounds,
        info.first_event,
        info.rounds_before,
        info.t,
        info.turn,
        info.round,
    )
    length = MARK_BYTES - 8
    crc = _mark_crc(_HEAD.pack(_MAGIC, length, _SIGNATURE, 0)[:12], numbers)
    return _HEAD.pack(_MAGIC, length, _SIGNATURE, crc) + numbers


def pack_end(first_event: int, rounds_before: int, t: int) -> bytes:
    """Give the mark that closes a file of so many events and rounds, the last at `t`."""
    return pack_mark(
        FrameInfo(
            data_bytes=0,
            raw_bytes=0,
            events=0,
            rounds=0,
            first_event=first_event,
            rounds_before=rounds_before,
            t=t,
        )
    )


def parse_mark(buffer: bytes, offset: int) -> FrameInfo | None:
    """Read the mark at the start of `buffer`, which lies at `offset` in the file.

    Returns: None where `buffer` may be a mark cut short.
    Raises: DamagedFrame where it cannot be one.
    """
    if (
        buffer[:4] != struct.pack("<I", _MAGIC)[: len(buffer)]
        or buffer[8:12] != _SIGNATURE[: max(0, len(buffer) - 8)]
    ):
        raise DamagedFrame("no frame starts there")
    if len(buffer) < _HEAD.size:
        return None
    _, length, _, crc = _HEAD.unpack_from(buffer)
    mark_bytes = length + 8
    if not MARK_BYTES <= mark_bytes <= MAX_MARK_BYTES:
        raise DamagedFrame("a frame's mark has a wrong length")
    if len(buffer) < mark_bytes:
        return None
    if _mark_crc(buffer[:12], buffer[_HEAD.size : mark_bytes]) != crc:
        raise DamagedFrame("a frame's mark is altered")
    numbers = dict(zip(FrameInfo.__struct_fields__, _NUMBERS.unpack_from(buffer, _HEAD.size), strict=False))
    if max(numbers["data_bytes"], numbers["raw_bytes"]) > MAX_RAW_BYTES:
        raise DamagedFrame("a frame claims to be larger than any is")
    return FrameInfo(**numbers, offset=offset, mark_bytes=mark_bytes)


def find_mark(buffer: bytes | bytearray, start: int) -> int:
    """Give the first position from `start` on where a mark may begin, or -1."""
    magic = struct.pack("<I", _MAGIC)
    position = buffer.find(magic, start)
    while position >= 0 and buffer[position + 8 : position + 12] != _SIGNATURE:
        position = buffer.find(magic, position + 1)
    return position


def compress(raw: bytes, level: int) -> bytes:
    """Give `raw` as one zstd frame with content size and checksum."""
    return zstandard.ZstdCompressor(level=level, write_checksum=True, write_content_size=True).compress(raw)


def decompress(data: bytes, raw_bytes: int) -> bytes:
    """Give back what `compress` got, never more than it should be.

    Raises: DamagedFrame where the frame is not intact, or is or claims to be larger than `raw_bytes` or the
    limit.
    """
    try:
        claims = zstandard.get_frame_parameters(data)
        if raw_bytes > MAX_RAW_BYTES or claims.content_size != raw_bytes or not claims.has_checksum:
            raise DamagedFrame("a frame is not as large as its mark says")
        return zstandard.ZstdDecompressor(max_window_size=MAX_RAW_BYTES).decompress(
            data, allow_extra_data=False
        )
    except zstandard.ZstdError:
        raise DamagedFrame("a frame's checksum does not match") from None


def _mark_crc(head: bytes, payload: bytes) -> int:
    return zlib.crc32(payload, zlib.crc32(head))
