"""What the command line writes: text for people or pipes on stdout, everything about it on stderr."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any

from specmon.core.errors import SpecmonError


class StdoutError(SpecmonError):
    """Nothing more can be written to stdout, for a reason other than that its reader left."""


@contextmanager
def on_stdout() -> Iterator[None]:
    """What is done here writes to stdout. Raises: StdoutError; BrokenPipeError where nobody reads any more."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        from specmon.core.session.target import reason_of

        raise StdoutError(f"Standard output cannot be written: {reason_of(error)}.") from error


def print_out(line: str) -> None:
    """A line on stdout as it is. Raises: StdoutError."""
    with on_stdout():
        print(line)


def visible(text: str) -> str:
    """`text` with everything a terminal would obey spelled out; newlines and tabs stay."""
    from specmon.tui.widgets.cells import safe_text

    return "\t".join(safe_text(part, newline="\n") for part in text.split("\t"))


def say(line: str) -> None:
    """One line for the user on stderr. Like every line there it may quote a file's or a model's text."""
    print(f"specmon: {visible(' '.join(line.split()))}", file=sys.stderr, flush=True)


def note(text: str) -> None:
    """Further lines for the user on stderr, without the program's name."""
    print(visible(text), file=sys.stderr, flush=True)


def write_line(text: str) -> None:
    """A line of a report on stdout."""
    print_out(visible(text) if sys.stdout.isatty() else text)


def write_json(value: Any) -> None:
    """One JSON object on one line; everything outside ASCII is escaped, so no terminal acts on it."""
    print_out(json.dumps(value, ensure_ascii=True, allow_nan=False))


class TextStream:
    """Streams a model's text to `out`: verbatim into a pipe or file, with escapes shown on a terminal.

    Where stderr goes to the same place the last line is ended, since more lines follow there.
    """

    def __init__(self, out: IO[str]) -> None:
        self._out = out
        self._terminal = out.isatty()
        self._ends_line = self._terminal or _same_file(out, sys.stderr)
        self._at_line_start = True

    def write(self, text: str) -> None:
        """Show the next piece at once. Raises: StdoutError."""
        if text:
            self._put(visible(text) if self._terminal else text)
            self._at_line_start = text.endswith("\n")

    def end_line(self) -> None:
        """End the line that was begun, where something else follows it."""
        if self._ends_line and not self._at_line_start:
            self._put("\n")
            self._at_line_start = True

    def _put(self, text: str) -> None:
        with on_stdout():
            self._out.write(text)
            self._out.flush()


def _same_file(one: IO[str], other: IO[str]) -> bool:
    try:
        return os.path.sameopenfile(one.fileno(), other.fileno())
    except (OSError, ValueError, AttributeError):  # a stream without a file, or none at all
        return False
