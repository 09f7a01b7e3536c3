"""A redacted recording holds times, counts and outcomes, and nothing that was said or where."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

import specmon.core.session.writer as writer_module
from specmon.core.errors import SpecmonError, UsageError
from specmon.core.events import (
    AnyEvent,
    Branch,
    DeviceInfo,
    Event,
    Gap,
    Header,
    Lane,
    Log,
    Marker,
    Prefill,
    Round,
    Sample,
    Telemetry,
    Turn,
    TurnEnd,
    Vocabulary,
)
from specmon.core.session.codec import Unknown, encode
from specmon.core.session.dump import dump_lines
from specmon.core.session.reader import SessionReader
from specmon.core.session.redact import redact, redact_event

SECRET = "/home/alice/secret"
TOKEN = 31_337

SECRETS: list[Event] = [
    Header(
        t=0,
        host="alice-laptop",
        versions={"specmon": SECRET},
        devices=(DeviceInfo(name="cuda:0", model="NVIDIA GPU-3f2a9c1e-77aa-secret"),),
        link=SECRET,
        ceiling_source=SECRET,
    ),
    Lane(
        t=1,
        decoder="ssd",
        target="alice/secret-7b",
        drafter="~/secret",
        recipe=SECRET,
        backend=SECRET,
        devices=("http://alice:8000",),
        url="http://alice:secret@host",
        server="vLLM at https://alice",
    ),
    Lane(t=1, decoder="ar", target="secret.gguf"),
    Vocabulary(t=2, pieces={TOKEN: "secret"}),
    Turn(t=3, prompt="secret", prompt_tokens=7, stop_strings=("secret",)),
    Prefill(t=4, t0=3, chunks=(), token_one=TOKEN, text="secret"),
    Round(
        t=9,
        index=0,
        t0=4,
        t1=8,
        requested_k=2,
        drafter=SECRET,
        draft=(TOKEN, TOKEN),
        accepted_len=1,
        bonus=TOKEN,
        emitted=(TOKEN, TOKEN),
        text=("secret", "secret"),
        branches=(Branch(0, TOKEN, 1, 0.5, (TOKEN,), 6),),
        fallback=SECRET,
    ),
    TurnEnd(t=10, stop_reason="error", n_tokens=3, rounds=1, text="secret", error="No such file: secret"),
    Telemetry(t=11, device="cuda:0", note="serial 1652922000123: secret"),
    Sample(t=12, values={'requests{model="/home/alice/secret"}': 1.0, 'requests{model="b/secret"}': 2.0}),
    Log(t=13, level="INFO", text="secret"),
    Marker(t=14, label="secret"),
    Gap(t=15, count=1, reason=f"{SECRET} is full"),
    Unknown(t=0, kind="secret", raw=b'{"type":"secret"}'),
]


@pytest.mark.parametrize("event", SECRETS, ids=lambda event: type(event).__name__)
def test_redaction_removes_every_secret(event: Event) -> None:
    kept = redact_event(event)
    if kept is not None:
        line = encode(kept)
        assert b"secret" not in line
        assert b"alice" not in line
        assert str(TOKEN).encode() not in line


def test_secrets_cover_every_event_that_can_hold_text() -> None:
    silent = {"ClockSync", "Snapshot", "ArStep"}
    assert {kind.__name__ for kind in AnyEvent.__args__} - silent <= {
        type(event).__name__ for event in SECRETS
    }


def test_redaction_keeps_counts_outcomes_times_and_bytes(stream: Callable[..., Any]) -> None:
    for event in stream(1, fan_out=2).rounds(20):
        kept = redact_event(event)
        assert isinstance(kept, Round)
        same = (
            "t",
            "index",
            "t0",
            "t1",
            "requested_k",
            "drafter",
            "draft_probs",
            "accepted_len",
            "margin",
            "kv_len",
            "fan_out",
            "hit",
            "miss",
            "fallback",
            "spans",
            "bytes",
            "host_launches",
        )
        assert all(getattr(kept, name) == getattr(event, name) for name in same)
        assert (len(kept.draft), len(kept.emitted), len(kept.text)) == (
            4,
            len(event.emitted),
            len(event.text),
        )
        assert [(b.accepted_len, b.rank, b.probability, b.ready_at) for b in kept.branches] == [
            (b.accepted_len, b.rank, b.probability, b.ready_at) for b in event.branches
        ]


def test_harmless_names_stay() -> None:
    lane = Lane(
        t=1, decoder="ssd", target="Qwen2.5-7B", drafter="scripted α=0.78", devices=("cuda:0", "cuda:1")
    )
    assert redact_event(lane) == lane
    header = redact_event(Header(t=0, versions={"torch": "2.13.0+cpu"}, link="NV18"))
    assert isinstance(header, Header)
    assert (header.versions, header.link, header.redacted) == ({"torch": "2.13.0+cpu"}, "NV18", True)


def test_redact_writes_a_whole_readable_copy(
    write: Callable[..., Path], events: list[Event], tmp_path: Path
) -> None:
    source = write([SECRETS[0], *events[1:], *SECRETS[1:13]])
    done = redact(source, tmp_path / "out.session")
    with SessionReader.open(done.path) as reader:
        found = list(reader.events())
        assert reader.header.redacted
        assert reader.warnings == ()
    assert len(found) == done.events
    assert done.dropped == 1
    text = "\n".join(dump_lines(found))
    assert "secret" not in text
    assert "alice" not in text
    assert [type(event) for event in found if isinstance(event, Round)] == [Round] * 13


def test_redact_onto_itself_is_refused(write: Callable[..., Path], events: list[Event]) -> None:
    path = write(events)
    before = path.read_bytes()
    with pytest.raises(UsageError, match="itself"):
        redact(path, path, force=True)
    assert path.read_bytes() == before


def test_redact_refuses_an_existing_target(write: Callable[..., Path], events: list[Event]) -> None:
    path, other = write(events), write(events, "b.session")
    with pytest.raises(UsageError, match="exists"):
        redact(path, other)


def test_failed_redaction_keeps_what_force_would_replace(
    write: Callable[..., Path], events: list[Event], monkeypatch: pytest.MonkeyPatch
) -> None:
    path, other = write(events), write(events, "b.session")
    before = other.read_bytes()

    def full(fd: int, chunk: bytes, offset: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(writer_module, "write_all", full)
        with pytest.raises(SpecmonError):
            redact(path, other, force=True)
    assert other.read_bytes() == before
    assert redact(path, other, force=True).path == other
    assert other.read_bytes() != before
    assert [p.name for p in other.parent.glob("*.part")] == []


def test_redacting_twice_changes_nothing(stream: Callable[..., Any], events: list[Event]) -> None:
    for event in [*SECRETS, *events]:
        once = redact_event(event)
        if once is not None:
            assert msgspec.json.encode(redact_event(once)) == msgspec.json.encode(once)
