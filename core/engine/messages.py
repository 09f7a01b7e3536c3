"""What a view and the engine say to each other besides events.

Both directions are length-prefixed frames on a Unix socket pair (see `channel`). The view sends a `Command`;
the engine sends a `Notice` or an event. `Load`, `Generate`, `Race` and `MeasureAr` are done one after another
and each ends with exactly one `Idle` or `Refused`; the other commands act at once. Torch-free.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from specmon.core.events import Decoder, Sampling, fan_out_words


class LaneConfig(msgspec.Struct, frozen=True, kw_only=True):
    """How to decode: what `specmon run` options and the settings panel fill in.

    target / draft: a folder, a hub id, a .gguf, "smollm2" (the embedded pair), and for `draft` also "eagle3", "ngram",
    "suffix", "hybrid[:MODEL]", "scripted:0.78" or "auto". `recipe` and `devices` may be "auto". `fan_out` has one entry for
    all accepted_lens, or draft_len + 1 entries; with a `branch_budget` it is chosen each round instead.
    """

    decoder: Decoder = "ssd"
    target: str = "smollm2"
    draft: str = "auto"
    recipe: str = "auto"
    devices: str = "auto"  # comma-separated
    backend: str = "auto"  # of the kernels: "reference" or "triton"
    draft_len: int = 4
    fan_out: tuple[int, ...] = (1,)
    branch_budget: int | None = None
    graphs: bool = True  # False: kernels that a CUDA graph could hold are launched one by one
    draft_nodes: int = 0  # SD: of a drafted tree that is draft_len deep; 0: a chain

    @property
    def fan_out_words(self) -> str:
        """ "2", "5·4·3·2·2" or "auto:16"."""
        return fan_out_words(self.fan_out, self.branch_budget)


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """One turn. `messages` is the whole conversation as (role, content), the new user message last.

    `draft_len`: draft fewer tokens a round than the lane is loaded for, in this turn; None: as many. `eos_ids`: tokens
    that end the turn besides the model's own.
    """

    messages: tuple[tuple[str, str], ...]
    max_new_tokens: int = 256
    sampling: Sampling = Sampling()
    seed: int = 0
    stop_strings: tuple[str, ...] = ()
    raw: bool = False  # True: no chat template, the contents are concatenated
    draft_len: int | None = None
    eos_ids: tuple[int, ...] = ()


# --- commands (view -> engine) -----------------------------------------------------------------------------


class Load(msgspec.Struct, frozen=True, kw_only=True, tag="Load"):
    """Make lane `lane` ready. Sent again with another config it changes the lane; weights are shared."""

    lane: int = 0
    config: LaneConfig


class Generate(msgspec.Struct, frozen=True, kw_only=True, tag="Generate"):
    """Decode one turn on one lane."""

    lane: int = 0
    request: Request


class Race(msgspec.Struct, frozen=True, kw_only=True, tag="Race"):
    """Decode one request on every loaded lane, in turns on fair clocks."""

    request: Request


class Cancel(msgspec.Struct, frozen=True, kw_only=True, tag="Cancel"):
    """Stop the running request at the next round border; what it emitted stays."""


class Record(msgspec.Struct, frozen=True, kw_only=True, tag="Record"):
    """Keep this stream's recording at `path` (a file or a folder); None: no longer keep it."""

    path: str | None
    force: bool = False


class Mark(msgspec.Struct, frozen=True, kw_only=True, tag="Mark"):
    """Put a `Marker` into the stream."""

    label: str


class MeasureAr(msgspec.Struct, frozen=True, kw_only=True, tag="MeasureAr"):
    """Time `steps` AR steps at the present KV length, without changing the conversation."""

    lane: int = 0
    steps: int = 32


class Shutdown(msgspec.Struct, frozen=True, kw_only=True, tag="Shutdown"):
    """Close the recording and exit."""


Command = Load | Generate | Race | Cancel | Record | Mark | MeasureAr | Shutdown


# --- notices (engine -> view) ------------------------------------------------------------------------------


class Hello(msgspec.Struct, frozen=True, kw_only=True, tag="Hello"):
    """First notice: the engine's pid, and where its spool and log are."""

    pid: int
    spool: str | None
    log: str


class Progress(msgspec.Struct, frozen=True, kw_only=True, tag="Progress"):
    """What loading does now; `fraction` is None where it cannot be known."""

    what: str
    fraction: float | None = None


class Ready(msgspec.Struct, frozen=True, kw_only=True, tag="Ready"):
    """Lane `lane` can decode. `notes` are things to tell the user: skipped devices, roles sharing one, …"""

    lane: int
    notes: tuple[str, ...] = ()


class Idle(msgspec.Struct, frozen=True, kw_only=True, tag="Idle"):
    """The command `of` is done and all its events have been sent."""

    of: str


class Refused(msgspec.Struct, frozen=True, kw_only=True, tag="Refused"):
    """The command `of` could not be carried out; nothing is lost."""

    of: str
    message: str
    hint: str = ""
    exit_code: int = 1


class Recording(msgspec.Struct, frozen=True, kw_only=True, tag="Recording"):
    """Where the recording is kept (None: not kept), how long and large it is; on change and once a second.

    `whole`: no event is missing from the spool for good.
    """

    path: str | None
    seconds: float
    bytes: int
    error: str | None = (
        None  # set when spool or file cannot be written: decoding goes on, a Gap says what is missing
    )
    whole: bool = True

    @property
    def incomplete(self) -> bool:
        """Whether a recording is kept that lacks events."""
        return self.path is not None and not (self.whole and self.error is None)


class Dropped(msgspec.Struct, frozen=True, kw_only=True, tag="Dropped"):
    """The view was too slow and `count` events were not sent here; the client reads them from the spool.

    `whole`: the spool lacks no event before them, so that an event's place in it is its place in the stream.
    """

    count: int
    whole: bool = True


class ArMeasured(msgspec.Struct, frozen=True, kw_only=True, tag="ArMeasured"):
    """Answer to MeasureAr: median ns of an AR step at this KV length."""

    lane: int
    steps: int
    kv_len: int
    step_ns: int


Notice = Hello | Progress | Ready | Idle | Refused | Recording | Dropped | ArMeasured

Role = Literal["user", "assistant", "system"]
