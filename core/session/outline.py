"""What skimming found, kept behind the end mark of a closed file, so that a long one opens without reading it.

    outline: magic 0x184D2A5D, payload length | "SPMO", crc32 of the data, data: one zstd frame

It only saves time: a file without one, or with one that is cut, altered or of other frames, is skimmed instead.
"""

from __future__ import annotations

import os
import struct
import zlib
from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, islice

import msgspec

from specmon.core.session.codec import decode
from specmon.core.session.frames import DamagedFrame, FrameInfo, compress, decompress
from specmon.core.session.index import MAGIC
from specmon.core.session.skim import Skim, is_passed_over

FRAMES = 64  #: of the file in one outline, so that it stays well below what a frame may hold

_HEAD = struct.Struct("<4sI4sII")  # magic, payload length, signature, crc32, uncompressed bytes
_SIGNATURE = b"SPMO"
_LEVEL = 3


class Outlined(msgspec.Struct, array_like=True):
    """One frame's `Skim`: columns as the bytes of 64-bit numbers, `gaps` before each round, other lines as they are."""

    n_lines: int
    lines: bytes
    lanes: bytes
    turns: bytes
    gaps: bytes
    ns: bytes
    missed: list[int]
    discarded: list[int]
    others: list[tuple[int, bytes]]

    def skim(self) -> Skim:
        """Give them back. Raises: ValueError where the columns do not fit together."""
        lines, lanes, turns, gaps, ns = map(
            _numbers, (self.lines, self.lanes, self.turns, self.gaps, self.ns)
        )
        if not len(lines) == len(lanes) == len(turns) == len(gaps) == len(ns):
            raise ValueError("columns of other lengths")
        others, bad_lines = [], 0
        for number, line in self.others:
            try:
                others.append((number, decode(line)))
            except ValueError:
                bad_lines += 1
        return Skim(
            n_lines=self.n_lines,
            lines=lines,
            lanes=lanes,
            turns=turns,
            t1=list(accumulate(map(int.__add__, gaps, ns))),
            ns=ns,
            missed=self.missed,
            discarded=self.discarded,
            others=others,
            bad_lines=bad_lines,
        )


_encode = msgspec.msgpack.encode
_decode = msgspec.msgpack.Decoder(list[Outlined]).decode


def pack_outline(skims: Iterable[tuple[Skim, Sequence[bytes]]]) -> Iterator[bytes]:
    """Give the outline of a file's frames, each skimmed and with its lines, in pieces."""
    rows = (_columns(skimmed, lines) for skimmed, lines in skims)
    while part := list(islice(rows, FRAMES)):
        raw = _encode(part)
        data = compress(raw, _LEVEL)
        yield _HEAD.pack(MAGIC, _HEAD.size - 8 + len(data), _SIGNATURE, zlib.crc32(data), len(raw)) + data


def read_outline(fd: int, offset: int, frames: Sequence[FrameInfo]) -> list[Outlined] | None:
    """Read what `pack_outline` gave for `frames` from `offset` on; None where that is not there. Raises OSError."""
    rows: list[Outlined] = []
    while len(rows) < len(frames):
        head = os.pread(fd, _HEAD.size, offset)
        if len(head) < _HEAD.size or not head.startswith(MAGIC):
            return None
        _, length, signature, crc, raw_bytes = _HEAD.unpack(head)
        data = os.pread(fd, length + 8 - _HEAD.size, offset + _HEAD.size)
        if signature != _SIGNATURE or zlib.crc32(data) != crc:
            return None
        try:
            rows += _decode(decompress(data, raw_bytes))
        except (DamagedFrame, msgspec.DecodeError):
            return None
        offset += length + 8
    return rows if [row.n_lines for row in rows] == [info.events for info in frames] else None


def _columns(skimmed: Skim, lines: Sequence[bytes]) -> Outlined:
    before = (end - ns for end, ns in zip(skimmed.t1, skimmed.ns, strict=True))
    gaps = [start - last for start, last in zip(before, [0, *skimmed.t1], strict=False)]
    others = [(n, line) for n, line in enumerate(lines) if line[:1] != b"[" and not is_passed_over(line)]
    return Outlined(
        skimmed.n_lines,
        _bytes(skimmed.lines),
        _bytes(skimmed.lanes),
        _bytes(skimmed.turns),
        _bytes(gaps),
        _bytes(skimmed.ns),
        list(skimmed.missed),
        list(skimmed.discarded),
        others,
    )


def _bytes(numbers: Sequence[int]) -> bytes:
    return array("q", numbers).tobytes()


def _numbers(column: bytes) -> array[int]:
    numbers = array("q")
    numbers.frombytes(column)
    return numbers
