"""Where a benchmark's report goes: the shared options `--out`, `--name` and `--force`."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Annotated

import typer

from specmon.core.errors import UsageError
from specmon.tui.commands.output import say, write_json, write_line

if TYPE_CHECKING:
    import msgspec

Out = Annotated[
    Path | None, typer.Option(metavar="FOLDER", help="Write the report there, as JSON and as Markdown.")
]
Name = Annotated[str, typer.Option(metavar="NAME", help="With --out: the files are called DATE-NAME.")]
Json = Annotated[bool, typer.Option("--json", help="One JSON object to stdout, not a table.")]

Files = tuple[Path, Path]


def report_files(out: Path | None, name: str, force: bool) -> Files | None:
    """The JSON and the Markdown file; asked for before anything is measured. Raises: UsageError."""
    from specmon.core.bench.provenance import today

    if out is None:
        return None
    if out.exists() and not out.is_dir():
        raise UsageError(f"--out is {out}, which is no folder.")
    if not name or "/" in name:
        raise UsageError(f"--name is {name!r}, but it takes a part of a file's name.")
    files = out / f"{today()}-{name}.json", out / f"{today()}-{name}.md"
    for file in files:
        if file.exists() and not force:
            raise UsageError(f"{file} exists.", "Give another --name, or --force.")
    try:
        out.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=out):
            pass
    except OSError as refused:
        raise UsageError(f"--out is {out}, where nothing can be written: {refused.strerror}.") from refused
    return files


def give_report(report: msgspec.Struct, markdown: str, files: Files | None, *, json: bool) -> None:
    """Write both files, where there are any to write, then print the report, as JSON or for people."""
    import msgspec

    if files is not None:
        as_json, as_markdown = files
        as_json.write_bytes(msgspec.json.format(msgspec.json.encode(report), indent=1) + b"\n")
        as_markdown.write_text(markdown, "utf-8")
        say(f"Written to {as_json} and {as_markdown.name}.")
    if json:
        write_json(msgspec.to_builtins(report))
    else:
        write_line(markdown.rstrip())
