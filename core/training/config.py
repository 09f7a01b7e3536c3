"""What decides a training run; two runs of equal settings are the same run, whatever machine goes on with it."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Literal, Protocol, TypeVar

import msgspec

from specmon.core.errors import SpecmonError, UsageError
from specmon.core.training.atomic import write_whole

Kind = Literal["draft", "eagle3", "block"]

#: A run's settings in its folder, and those of text in the text's.
RUN, TEXT = "run.json", "text.json"

#: Settings that only say where something lies.
_PLACES = {"prompts", "data"}

#: Rows of long questions have so many times as many tokens as others.
LONG_ROWS = 3


class TextSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The text a target writes. `row_tokens`: of a row; `prompts`: a file of them, "" for the target's own.

    `prompts_sha256` is of what they say, which alone makes other text; where the file lies does not.
    """

    target: str
    row_tokens: int
    prompts: str = ""
    prompts_sha256: str = ""
    seed: int = 0


class TrainSettings(msgspec.Struct, frozen=True, kw_only=True):
    """A run on `tokens` of text. `accept_weight`: of 1 − Σ min(p, q) beside the cross-entropy to the target's distribution.

    Of a draft model: `hidden`, `layers`. Of an EAGLE-3 head: `draft_vocab`, `unroll` (steps of training-time test), `taps`
    (target layers whose input it reads; none: the published choice). Of a block drafter: `block_len`, `layers`,
    `draft_vocab`, `taps`. `start`: the folder of a drafter whose weights, and vocabulary, it begins with; "" for none.
    `data`: the folder of its text; "" for the one in its own.
    """

    kind: Kind
    text: TextSettings
    tokens: int
    steps: int
    batch_tokens: int
    learning_rate: float
    accept_weight: float
    seed: int = 0
    hidden: int = 256
    layers: int = 4
    draft_vocab: int = 8192
    unroll: int = 4
    taps: tuple[int, ...] = ()
    block_len: int = 8
    start: str = ""
    data: str = ""


_Settings = TypeVar("_Settings", bound=msgspec.Struct)


class Watcher(Protocol):
    """Whoever looks at how far a run is."""

    def begin(self, what: str, total: int, things: str, *, done: int = 0) -> None:
        """A stretch of work starts, `done` of `total` finished before."""
        ...

    def done(self, count: int = 1) -> None: ...

    def say(self, line: str) -> None: ...


class Unwatched:
    """Nobody does."""

    def begin(self, what: str, total: int, things: str, *, done: int = 0) -> None: ...

    def done(self, count: int = 1) -> None: ...

    def say(self, line: str) -> None: ...


def check_settings(path: Path, settings: TrainSettings | TextSettings, *, kept: str) -> None:
    """Hold `settings` to those at `path`. `kept`: what else lies there (a glob) belongs to settings, too.

    Raises: UsageError where they differ, or are gone; SpecmonError where they cannot be read.
    """
    if path.exists():
        found = read_settings(path, type(settings))
        if difference := _difference(found, settings):
            longer = f" To train longer, begin another run with --from {path.parent}/int8."
            raise UsageError(
                f"{path.parent} belongs to a run with other settings ({difference}).",
                "Give another folder, or the settings it was begun with."
                + (longer if difference.startswith("steps ") else ""),
            )
    elif left := next(path.parent.glob(kept), None):
        raise UsageError(
            f"{path.parent} holds {left.name} but no {path.name}, which says what it is of.",
            "Give another folder.",
        )


def keep_settings(path: Path, settings: TrainSettings | TextSettings) -> None:
    """Write `settings` to `path`. Raises: UsageError where that cannot be."""
    text = msgspec.json.format(msgspec.json.encode(settings), indent=1) + b"\n"
    try:
        write_whole(path, partial(Path.write_bytes, data=text))
    except SpecmonError as refused:
        raise UsageError(refused.message, "Give another folder.") from refused


def read_settings(path: Path, kind: type[_Settings]) -> _Settings:
    """Raises: SpecmonError where they cannot be read."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except (OSError, msgspec.MsgspecError) as bad:
        raise SpecmonError(f"{path} cannot be read: {bad}.") from bad


def _difference(found: TrainSettings | TextSettings, wanted: TrainSettings | TextSettings) -> str:
    """The first setting that differs, e.g. "steps 400, not 500"; "" where none does."""
    for name in wanted.__struct_fields__:
        theirs, ours = getattr(found, name), getattr(wanted, name)
        if theirs == ours or name in _PLACES:
            continue
        if isinstance(theirs, TextSettings) and isinstance(ours, TextSettings):
            if difference := _difference(theirs, ours):
                return difference
            continue
        if isinstance(found, TextSettings) and isinstance(wanted, TextSettings) and name == "prompts_sha256":
            return f"prompts {_prompts(found)}, not {_prompts(wanted)}"
        return f"{name} {theirs!r}, not {ours!r}"
    return ""


def _prompts(text: TextSettings) -> str:
    """Which ones, in words."""
    said = f" of SHA-256 {text.prompts_sha256[:12]}…" if text.prompts_sha256 else ""
    return f"{text.prompts}{said}" if text.prompts else "of the target's own"
