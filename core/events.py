"""The event stream: what the engine says, the recorder keeps and every view is computed from.

Times are int64 nanoseconds on one monotonic clock whose zero is the `Header`. Token ids are the target's.
Unknown is None, never 0. A device is an index into its `Lane.devices`. Field order is the file format's order:
new fields go to the end, with a default, and raise `SCHEMA`'s minor number.
"""

from __future__ import annotations

from typing import Literal

import msgspec

SCHEMA = "1.3"

Decoder = Literal["ar", "sd", "ssd"]
SpanKind = Literal["prefill", "draft", "branch_draft", "verify", "accept", "handoff", "collective", "wait"]
MissReason = Literal["rank", "late", "none"]
StopReason = Literal["eos", "length", "stop", "context", "cancelled", "error"]

#: The kinds that count as a device being busy; overlap is computed from these alone.
BUSY_KINDS: frozenset[str] = frozenset({"prefill", "draft", "branch_draft", "verify", "accept"})


class Event(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What every event carries: when it happened (ns), and the lane and turn it belongs to."""

    t: int
    lane: int = 0
    turn: int = 0


class DeviceInfo(msgspec.Struct, frozen=True, kw_only=True):
    """One device as found: `name` is "cuda:0" or "cpu:0", `model` what the vendor calls it."""

    name: str
    model: str
    memory_bytes: int | None = None
    llc_bytes: int | None = None  # last-level cache
    read_ceiling: float | None = None  # bytes/s, a plain read measured by this process
    sm_clock_mhz: int | None = None
    memory_clock_mhz: int | None = None
    power_cap_w: float | None = None
    other_processes: int | None = None  # other processes that use this GPU


class Header(Event, frozen=True, kw_only=True, tag="Header"):
    """What cannot change while a stream lasts. `t` is 0."""

    schema: str = SCHEMA
    versions: dict[str, str] = {}  # specmon, python, torch, triton, transformers, driver
    commit: str | None = None
    utc_start: str = ""  # ISO 8601
    host: str | None = None
    devices: tuple[DeviceInfo, ...] = ()
    link: str | None = None  # how the devices reach each other: "NV18", "PHB", "shared memory"
    ceiling_source: str | None = None  # e.g. "read of 1 GiB, median of 5, at 20:51 UTC"
    hashes: dict[str, str] = {}  # "target", "draft", "tokenizer" -> sha256 (first 16 hex)
    redacted: bool = False


class Lane(Event, frozen=True, kw_only=True, tag="Lane"):
    """One decoder as configured; a race has two to four, everything else has lane 0."""

    decoder: Decoder
    target: str
    drafter: str | None = None  # label shown everywhere: "smollm2-draft-17m", "n-gram", "scripted α=0.78"
    drafter_kind: str | None = None  # `DrafterInfo.kind`: "draft_model", "eagle3", "block", "ngram", …
    recipe: str = ""
    backend: str = ""  # with its version: "reference-1"
    devices: tuple[str, ...] = ()  # target's device first, draft's last; one entry when both share it
    target_weight_bytes: int | None = None  # read once by every target forward pass
    draft_weight_bytes: int | None = None
    kv_bytes_per_token: int | None = None  # target
    draft_kv_bytes_per_token: int | None = None
    context_length: int | None = None
    url: str | None = None
    server: str | None = None

    @property
    def n_target_devices(self) -> int:
        """The first so many of `devices` hold the target, in even shares where they are several."""
        drafting = self.decoder != "ar"
        return max(1, len(self.devices) - drafting)


class Vocabulary(Event, frozen=True, kw_only=True, tag="Vocabulary"):
    """Text of token ids used so far that no earlier `Vocabulary` gave; a closed file holds one, near its start."""

    pieces: dict[int, str]


class Sampling(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """How the next token is chosen; temperature 0 is greedy."""

    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 0


def fan_out_words(widths: tuple[int, ...], budget: int | None) -> str:
    """A fan-out in a label: "auto:16" under a budget, else "2" for all accepted_lens or "5·4·3·2·2"."""
    if budget is not None:
        return f"auto:{budget}"
    return "·".join(map(str, widths if len(set(widths)) > 1 else widths[:1]))


class Turn(Event, frozen=True, kw_only=True, tag="Turn"):
    """One request starts."""

    prompt: str | None  # the user's message, not the chat template around it
    prompt_tokens: int  # the whole context to prefill, template and earlier turns included
    reused_tokens: int = 0  # leading positions whose KV was kept from the turn before
    draft_len: int = 0
    fan_out: tuple[int, ...] | None = None  # branches per accepted_len 0..K; the first round's under a budget
    sampling: Sampling = Sampling()
    seed: int = 0
    max_new_tokens: int = 0
    stop_strings: tuple[str, ...] = ()
    fan_out_budget: int | None = None  # branches a round, shared out anew each time (schema 1.2)
    draft_nodes: int | None = None  # of a tree that is draft_len deep; None: a chain (schema 1.3)

    @property
    def fan_out_words(self) -> str | None:
        """The fan-out as `fan_out_words` tells it; None where there are no branches."""
        return None if self.fan_out is None else fan_out_words(self.fan_out, self.fan_out_budget)


class PrefillChunk(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """`length` prompt tokens from position `start`, and when the target ran them (ns)."""

    start: int
    length: int
    t0: int
    t1: int


class Span(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A stretch of one device's time (ns). `for_round` is the round it worked for, which may be the next one."""

    device: int
    stream: str
    kind: SpanKind
    start: int
    end: int
    for_round: int


class DeviceBytes(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Bytes a device had to read (weights, KV) or was sent (handoff) for one round, counted, not measured."""

    device: int
    weights: int
    kv: int
    handoff: int


class Prefill(Event, frozen=True, kw_only=True, tag="Prefill"):
    """The prompt is in the KV cache and token one is out. It is no round. `t` is when token one was known."""

    t0: int
    chunks: tuple[PrefillChunk, ...]
    token_one: int | None
    text: str = ""
    spans: tuple[Span, ...] = ()
    bytes: tuple[DeviceBytes, ...] = ()


class Branch(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A continuation prepared for the outcome (accepted_len, bonus).

    `rank` is the bonus's place (from 1) among the draft's guesses at that accepted_len; `tokens` is empty when
    only keys are kept; `ready_at` is None when the outcome came before the branch was finished.
    """

    accepted_len: int
    bonus: int | None
    rank: int
    probability: float | None
    tokens: tuple[int, ...]
    ready_at: int | None


class Round(Event, frozen=True, kw_only=True, tag="Round"):
    """One target forward pass and what led to it. Rounds tile the decode: t0 is the t1 of the round before.

    `branches` are those prepared while this round was verified, for its own outcome; `hit` indexes the one that
    came true and so drafts the next round; on a miss `miss` says why and `fallback` what drafts the next round.
    All three are None/empty in AR and SD, and `hit`/`miss` in a turn's last round, which has no successor.
    """

    index: int
    t0: int
    t1: int
    requested_k: int
    drafter: str | None  # kind that proposed this draft; None where there was none
    draft: tuple[int | None, ...]  # node token ids; a chain unless `parents` is given
    draft_probs: tuple[float | None, ...] = ()  # the draft's probability of each node, () where not cheap
    parents: tuple[int, ...] | None = None  # tree: parent node index, -1 for the root's children
    accepted_path: tuple[int, ...] | None = None  # tree: accepted node indices
    accepted_len: int
    bonus: int | None  # None after a kept drafted EOS
    emitted: tuple[int | None, ...]
    text: tuple[str, ...]  # one entry a emitted token; an entry may be "" while a character is incomplete
    margin: float | None = None  # target's top-1 minus top-2 logit at the bonus
    kv_len: tuple[int, ...] = ()  # valid positions per device after the round
    fan_out: tuple[int, ...] | None = None
    branches: tuple[Branch, ...] = ()
    hit: int | None = None
    miss: MissReason | None = None
    fallback: str | None = None
    features: Literal["real", "predicted"] | None = None  # EAGLE: what this draft continued from
    spans: tuple[Span, ...] = ()
    bytes: tuple[DeviceBytes, ...] = ()
    host_launches: int | None = None  # kernel or graph launches from the host
    discarded: bool = False  # overran a stop string; counts in no total


class TurnEnd(Event, frozen=True, kw_only=True, tag="TurnEnd"):
    """The request is over. `text` is what the detokeniser still held back; totals are the engine's own count."""

    stop_reason: StopReason
    n_tokens: int
    rounds: int
    text: str = ""
    error: str | None = None


class Telemetry(Event, frozen=True, kw_only=True, tag="Telemetry"):
    """One device's counters, about 5 a second. None: not available; `note` says why."""

    device: str
    sm_clock_mhz: int | None = None
    memory_clock_mhz: int | None = None
    power_w: float | None = None
    temperature_c: int | None = None
    throttle: tuple[str, ...] | None = None
    memory_used_bytes: int | None = None
    dram_fraction: float | None = None  # GPM DRAM bandwidth utilisation, 0..1, over the last sample window
    link_tx_bytes: int | None = None
    link_rx_bytes: int | None = None
    note: str | None = None


class Sample(Event, frozen=True, kw_only=True, tag="Sample"):
    """Counters scraped from a server, verbatim."""

    values: dict[str, float]


class ClockSync(Event, frozen=True, kw_only=True, tag="ClockSync"):
    """A device's clock is the host's plus `offset_ns`, within `bound_ns`."""

    device: str
    offset_ns: int
    bound_ns: int


class Log(Event, frozen=True, kw_only=True, tag="Log"):
    """A log line of the engine."""

    level: str
    text: str


class Marker(Event, frozen=True, kw_only=True, tag="Marker"):
    """The user's mark."""

    label: str


class Gap(Event, frozen=True, kw_only=True, tag="Gap"):
    """Events that could not be kept: how many, and why."""

    count: int
    reason: str


class Snapshot(Event, frozen=True, kw_only=True, tag="Snapshot"):
    """Cumulative counters of a lane, so that a reader can start in the middle of a file."""

    counters: dict[str, float]


class ArStep(Event, frozen=True, kw_only=True, tag="ArStep"):
    """How long an AR step of this lane's target takes: median `ns` of `steps` steps at `kv_len` (schema 1.1)."""

    kv_len: int
    steps: int
    ns: int


AnyEvent = (
    Header
    | Lane
    | Vocabulary
    | Turn
    | Prefill
    | Round
    | TurnEnd
    | Telemetry
    | Sample
    | ClockSync
    | Log
    | Marker
    | Gap
    | Snapshot
    | ArStep
)
