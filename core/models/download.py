"""Fetch one file of a package index over HTTP, picking up where an earlier attempt stopped.

Only the standard library: this runs in environments without pip, and before the engine extra is there.
"""

from __future__ import annotations

import base64
import errno
import http.client
import json
import ssl
import time
import urllib.error
import urllib.parse
import urllib.request
import urllib.response
from collections.abc import Callable
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path

from specmon.core.errors import SpecmonError

#: Called with what is being done, how many bytes are done and how many there will be (None: not known).
Progress = Callable[[str, int, int | None], None]

Answer = http.client.HTTPResponse | urllib.response.addinfourl  # the latter for file: URLs

CHUNK_BYTES = 1 << 18
ATTEMPTS = 5  # in a row without a single new byte
_DISK_ERRNOS = {errno.EACCES, errno.ENOSPC, errno.EROFS, errno.EDQUOT}
_SIMPLE_TYPES = "application/vnd.pypi.simple.v1+json, text/html;q=0.2"


@dataclass(frozen=True, kw_only=True)
class PackageIndex:
    """Where packages come from. `urls` are simple-API roots, asked in order, user:password@ included."""

    urls: tuple[str, ...] = ("https://pypi.org/simple",)
    cert_file: str | None = None  # PEM bundle; None: what the system and SSL_CERT_FILE name
    timeout_s: float = 30.0
    retry_wait_s: float = 1.0


class _Links(HTMLParser):
    """Collects the href of every anchor."""

    def __init__(self) -> None:
        super().__init__()
        self.hrefs: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "a":
            self.hrefs += [value for name, value in attrs if name == "href" and value]


def without_password(url: str) -> str:
    """`url` as it may be shown: no user, no password."""
    parts = urllib.parse.urlsplit(url)
    return urllib.parse.urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


def find_file_url(index: PackageIndex, project: str, filename: str) -> str:
    """URL of `filename` among the files the index lists for `project`.

    Raises: SpecmonError if no index lists it or none answers; the message names every index and its reason.
    Source: the simple repository API, packaging.python.org/specifications/simple-repository-api.
    """
    reasons = []
    for root in index.urls:
        page = f"{root.rstrip('/')}/{project}/"
        if page.startswith("file:"):
            page += "index.html"
        try:
            hrefs = _listed_files(index, page)
        except (OSError, http.client.HTTPException, ValueError) as error:
            reasons.append(f"{without_password(root)} ({_reason(error)})")
            continue
        for href in hrefs:
            url = urllib.parse.urljoin(page, href)
            if urllib.parse.unquote(urllib.parse.urlsplit(url).path).endswith(f"/{filename}"):
                return url
        reasons.append(f"{without_password(root)} (does not list {filename})")
    raise SpecmonError(f"No package index gave {filename}: {'; '.join(reasons) or 'no index is configured'}.")


def download(index: PackageIndex, url: str, part: Path, total_bytes: int, progress: Progress) -> None:
    """Bring `part` up to `total_bytes` from `url`; what it already holds is kept and asked for no more.

    Raises: SpecmonError after ATTEMPTS tries in a row that brought nothing; `part` stays for the next call.
    """
    if part.exists() and part.stat().st_size > total_bytes:
        part.unlink()
    idle_attempts = 0
    while (done := _size(part)) < total_bytes:
        try:
            _append_rest(index, url, part, done, total_bytes, progress)
            reason = "the connection closed early"
        except (OSError, http.client.HTTPException) as error:
            if isinstance(error, OSError) and error.errno in _DISK_ERRNOS:
                raise SpecmonError(f"Cannot write {part}: {error.strerror}.") from error
            reason = _reason(error)
        idle_attempts = 0 if _size(part) > done else idle_attempts + 1
        if idle_attempts >= ATTEMPTS:
            where = f"{_size(part):,} of {total_bytes:,} bytes"
            raise SpecmonError(
                f"Downloading {without_password(url)} stopped at {where}: {reason}.",
                "Run the command again to go on from there.",
            )
        if idle_attempts:
            time.sleep(index.retry_wait_s * idle_attempts)


def _size(part: Path) -> int:
    return part.stat().st_size if part.exists() else 0


def _append_rest(
    index: PackageIndex, url: str, part: Path, done: int, total_bytes: int, progress: Progress
) -> None:
    """One request for what is missing. A server that ignores Range sends everything: then start over."""
    headers = {"Range": f"bytes={done}-", "Accept-Encoding": "identity"} if done else {}
    with _open(index, url, headers) as answer:
        resumes = answer.status == 206 and _range_start(answer) == done
        with part.open("ab" if resumes else "wb") as out:
            done = done if resumes else 0
            while done < total_bytes and (chunk := answer.read(min(CHUNK_BYTES, total_bytes - done))):
                out.write(chunk)
                done += len(chunk)
                progress("downloading", done, total_bytes)


def _range_start(answer: Answer) -> int:
    """First byte position a 206 answer holds, -1 if it does not say."""
    start = str(answer.headers.get("Content-Range", "")).removeprefix("bytes ").partition("-")[0]
    return int(start) if start.isdigit() else -1


def _listed_files(index: PackageIndex, page: str) -> list[str]:
    with _open(index, page, {"Accept": _SIMPLE_TYPES}) as answer:
        body = answer.read(16 << 20)
        if "json" in str(answer.headers.get("Content-Type", "")):
            return [str(file["url"]) for file in json.loads(body)["files"]]
    links = _Links()
    links.feed(body.decode("utf-8", "replace"))
    return links.hrefs


def _open(index: PackageIndex, url: str, headers: dict[str, str]) -> Answer:
    """Open `url`, sending the user:password of the index it belongs to, and to no other host."""
    request = urllib.request.Request(without_password(url), headers={"User-Agent": "specmon", **headers})
    host = urllib.parse.urlsplit(request.full_url).netloc
    for known in (url, *index.urls):
        parts = urllib.parse.urlsplit(known)
        if parts.username and parts.netloc.rpartition("@")[2] == host:
            pair = f"{urllib.parse.unquote(parts.username)}:{urllib.parse.unquote(parts.password or '')}"
            request.add_unredirected_header(
                "Authorization", "Basic " + base64.b64encode(pair.encode()).decode()
            )
            break
    context = ssl.create_default_context(cafile=index.cert_file) if url.startswith("https:") else None
    answer: Answer = urllib.request.urlopen(request, timeout=index.timeout_s, context=context)
    return answer


def _reason(error: Exception) -> str:
    if isinstance(error, urllib.error.HTTPError):
        return f"HTTP {error.code}"
    if isinstance(error, urllib.error.URLError):
        return str(error.reason)
    return str(error) or type(error).__name__
