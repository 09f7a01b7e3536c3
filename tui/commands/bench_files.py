"""Where a benchmark's report goes: the shared options `--out`, `--name` and `--force`."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Annotated

import typer

from specmon.core.errors import UsageError
from specmon.tui.commands.output import say, write_json, write_line

if TYPE_CHECKING:
    import msgspec


def folder(text: str, option: str = "--out") -> Path:
    """The folder that `option` names. Raises: UsageError."""
    if not text.strip():
        raise UsageError(f"{option} is empty, but it takes a folder.")
    return Path(text)


Out = Annotated[
    Path | None,
    typer.Option(metavar="FOLDER", parser=folder, help="Write the report there, as JSON and as Markdown."),
]
Name = Annotated[
    str,
    typer.Option(
        metavar="NAME", help="With --out: the files are called DATE-NAME; else after the benchmark."
    ),
]
Json = Annotated[bool, typer.Option("--json", help="One JSON object to stdout, not a table.")]

Files = tuple[Path, Path]


def report_files(out: Path | None, name: str, force: bool, *, benchmark: str) -> Files | None:
    """The JSON and the Markdown file, called after `benchmark` where no name is given. Raises: UsageError."""
    from specmon.core.bench.provenance import today

    if out is None:
        if name:
            raise UsageError("--name goes with --out.")
        return None
    name = name or benchmark
    if out.exists() and not out.is_dir():
        raise UsageError(f"--out is {out}, which is no folder.")
    if "/" in name:
        raise UsageError(f"--name is {name!r}, but it takes a part of a file's name.")
    files = out / f"{today()}-{name}.json", out / f"{today()}-{name}.md"
    for file in files:
        if file.exists() and not force:
            raise UsageError(f"{file} exists.", "Give another --name, or --force.")
    return files


def make_folder(files: Files | None) -> None:
    """Make --out, and try to write there: once nothing else is refused, before anything is measured. Raises: UsageError."""
    if files is None:
        return
    out = files[0].parent
    try:
        out.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=out):
            pass
    except OSError as refused:
        raise UsageError(f"--out is {out}, where nothing can be written: {refused.strerror}.") from refused


def give_report(
    report: msgspec.Struct, markdown: str, files: Files | None, *, json: bool, whole: bool = True
) -> None:
    """Write both files, where there are any to write, then print the report, as JSON or for people.

    A report that is not `whole`, of a run that was broken off, goes into new files beside them.
    """
    import msgspec

    if files is not None:
        as_json, as_markdown = files if whole else _beside(files)
        as_json.write_bytes(msgspec.json.format(msgspec.json.encode(report), indent=1) + b"\n")
        as_markdown.write_text(markdown, "utf-8")
        say(f"Written to {as_json} and {as_markdown.name}.")
    if json:
        write_json(msgspec.to_builtins(report))
    else:
        write_line(markdown.rstrip())


def _beside(files: Files) -> Files:
    """DATE-NAME-interrupted, numbered from the second on."""
    for n in count(1):
        suffix = "-interrupted" if n == 1 else f"-interrupted-{n}"
        as_json, as_markdown = (file.with_stem(file.stem + suffix) for file in files)
        if not (as_json.exists() or as_markdown.exists()):
            break
    return as_json, as_markdown
