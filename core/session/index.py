"""Where a file's frames are: found by hopping from mark to mark, without decompressing anything."""

from __future__ import annotations

import os
import struct
from typing import Self

import msgspec

from specmon.core.session.frames import (
    MAX_MARK_BYTES,
    DamagedFrame,
    FrameInfo,
    decompress,
    find_mark,
    parse_mark,
)

MAGIC = struct.pack("<I", 0x184D2A5D)  #: an outline's first bytes

_SCAN_BYTES = 1 << 20


class FrameIndex(msgspec.Struct, frozen=True, kw_only=True):
    """The frames of a file as it was when indexed. An outline follows its end mark, if there is one.

    `end` is its closing mark, None where the recording was not closed; `torn` says that its last frame is
    cut; `damage` holds the offsets of marks that are altered.
    """

    frames: tuple[FrameInfo, ...]
    end: FrameInfo | None
    torn: bool
    damage: tuple[int, ...]

    @classmethod
    def build(cls, fd: int) -> Self:
        """Index the open file `fd`. Raises OSError."""
        size = os.fstat(fd).st_size
        frames: list[FrameInfo] = []
        damage: list[int] = []
        end, offset, torn = None, 0, False
        while offset < size:
            try:
                info = parse_mark(os.pread(fd, MAX_MARK_BYTES, offset), offset)
            except DamagedFrame:
                damage.append(offset)
                offset = _next_mark(fd, offset + 1, size)
                continue
            torn = info is None or info.end > size
            if info is None or torn:
                break
            offset = info.end
            if not info.is_end:
                frames.append(info)
                continue
            end = info
            if MAGIC.startswith(os.pread(fd, len(MAGIC), offset)):
                break  # what follows is the outline, whole or cut
        return cls(frames=tuple(frames), end=end, torn=torn, damage=tuple(damage))

    @staticmethod
    def raw(fd: int, info: FrameInfo) -> bytes:
        """Read one frame's lines, each with its newline. Raises DamagedFrame where it is not intact; OSError."""
        return decompress(os.pread(fd, info.data_bytes, info.data_offset), info.raw_bytes)

    @classmethod
    def lines(cls, fd: int, info: FrameInfo) -> list[bytes]:
        """Read one frame's lines, newlines excluded. Raises DamagedFrame where it is not intact; OSError."""
        return cls.raw(fd, info).split(b"\n")[:-1]


def _next_mark(fd: int, start: int, size: int) -> int:
    """Give the offset of the next intact mark from `start` on, or the file's size."""
    while start < size:
        buffer = os.pread(fd, _SCAN_BYTES + MAX_MARK_BYTES, start)
        position = find_mark(buffer, 0)
        while 0 <= position < _SCAN_BYTES:
            try:
                if parse_mark(buffer[position : position + MAX_MARK_BYTES], 0) is not None:
                    return start + position
            except DamagedFrame:
                pass
            position = find_mark(buffer, position + 1)
        start += _SCAN_BYTES
    return size
