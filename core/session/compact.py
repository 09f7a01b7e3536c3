"""Rewriting a recording's small frames as large ones; its lines stay as they are."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from specmon.core.errors import SpecmonError
from specmon.core.events import Vocabulary
from specmon.core.session.build import CLOSED_LEVEL, FrameBuilder
from specmon.core.session.codec import decode, encode
from specmon.core.session.frames import DamagedFrame, FrameInfo, pack_end
from specmon.core.session.index import FrameIndex
from specmon.core.session.outline import pack_outline
from specmon.core.session.skim import Skim, skim
from specmon.core.session.target import reason_of

#: A closed frame holds a quarter of the events before it, within these bounds, so that a cut costs a part.
LEAST_FRAME_EVENTS, FRAME_EVENTS = 16, 1_000
FRAME_RAW_BYTES = 1 << 20

_VOCABULARY = b'{"type":"Vocabulary",'
_LEADING = (b'{"type":"Header",', b'{"type":"Lane",')


def compact(path: Path) -> int:
    """Rewrite a closed recording with larger frames and one `Vocabulary`, near its start.

    The new file takes the old one's place only when it is whole and on the disk; until then, and after any
    failure, the old one is untouched. A damaged file is left alone.

    Returns: the file's size (bytes).
    Raises: SpecmonError where it is damaged or cannot be rewritten.
    """
    try:
        fd, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
        temporary = Path(name)
        try:
            with os.fdopen(fd, "wb") as out, path.open("rb", buffering=0) as source:
                size = _rewrite(source.fileno(), out.write)
                out.flush()
                size += _put(out.write, _outline(out.fileno()))
                out.flush()
                os.fsync(out.fileno())
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        _sync_folder(path.parent)
    except (OSError, ValueError) as error:
        raise SpecmonError(f"{path} was not compacted: {reason_of(error)}.") from None
    return size


def _rewrite(fd: int, write: Callable[[bytes], object]) -> int:
    index = FrameIndex.build(fd)
    if index.damage or index.end is None:
        raise DamagedFrame("it is damaged or was not closed")
    merged, pieces = _merge_vocabularies(fd, index)
    builder, size = FrameBuilder(level=CLOSED_LEVEL), 0
    for info, lines in _without(fd, index, merged, pieces):
        if builder.events and _overflows(builder, info, len(lines)):
            size += _put(write, builder.pack())
        if lines:
            builder.add_lines(lines, t=info.t, rounds=info.rounds, turn=info.turn, round_index=info.round)
    size += _put(write, builder.pack())
    return size + _put(write, pack_end(builder.events_packed, builder.rounds_packed, index.end.t))


def _outline(fd: int) -> bytes:
    """The outline of the new file; nothing where its numbers do not fit into one."""
    try:
        return b"".join(pack_outline(_skimmed(fd)))
    except OverflowError:
        return b""


def _skimmed(fd: int) -> Iterator[tuple[Skim, list[bytes]]]:
    """Every frame of the new file, skimmed, and its lines."""
    index = FrameIndex.build(fd)
    for info in index.frames:
        raw = index.raw(fd, info)
        yield skim(raw), raw.split(b"\n")[:-1]


def _put(write: Callable[[bytes], object], chunk: bytes) -> int:
    write(chunk)
    return len(chunk)


def _overflows(builder: FrameBuilder, info: FrameInfo, n_lines: int) -> bool:
    most = min(FRAME_EVENTS, max(LEAST_FRAME_EVENTS, builder.events_packed // 4))
    return builder.events + n_lines > most or builder.raw_bytes + info.raw_bytes > FRAME_RAW_BYTES


def _merge_vocabularies(fd: int, index: FrameIndex) -> tuple[set[bytes], dict[int, str]]:
    """Give the `Vocabulary` lines that agree with all before them, and their pieces together.

    One that contradicts an earlier one (two tokenizers in one file) stays where it is.
    """
    merged: set[bytes] = set()
    pieces: dict[int, str] = {}
    for info in index.frames:
        for line in index.lines(fd, info):
            event = decode(line) if line.startswith(_VOCABULARY) else None
            if isinstance(event, Vocabulary) and _agrees(event, pieces):
                pieces |= event.pieces
                merged.add(line)
    return merged, pieces


def _agrees(vocabulary: Vocabulary, pieces: dict[int, str]) -> bool:
    return all(pieces.get(token, text) == text for token, text in vocabulary.pieces.items())


def _without(
    fd: int, index: FrameIndex, merged: set[bytes], pieces: dict[int, str]
) -> Iterator[tuple[FrameInfo, list[bytes]]]:
    """Every frame's lines without the merged vocabularies, whose union follows the leading headers."""
    t = (
        0 if pieces else None
    )  # of the last leading event; None once the vocabulary is in, or where there is none
    for info in index.frames:
        lines = [line for line in index.lines(fd, info) if line not in merged]
        if t is not None:
            body = _body_start(lines)
            t = decode(lines[body - 1]).t if body else t
            if body < len(lines):
                lines.insert(body, _vocabulary(t, pieces))
                t = None
        yield info, lines
    if t is not None:
        yield index.frames[-1], [_vocabulary(t, pieces)]


def _vocabulary(t: int, pieces: dict[int, str]) -> bytes:
    return encode(Vocabulary(t=t, pieces=dict(sorted(pieces.items()))))


def _body_start(lines: list[bytes]) -> int:
    return next((i for i, line in enumerate(lines) if not line.startswith(_LEADING)), len(lines))


def _sync_folder(folder: Path) -> None:
    with contextlib.suppress(OSError):
        fd = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
