"""The recordings at hand: those that come with specmon and the user's own."""

from __future__ import annotations

from pathlib import Path

from specmon.core.errors import SpecmonError
from specmon.tui.commands.output import write_line

SUFFIX = ".session"


def shipped_dir() -> Path:
    """The folder of the recordings that come with specmon."""
    import specmon.core

    return Path(specmon.core.__path__[0]).resolve().parent / "sessions"


def find_recording(name: Path) -> Path:
    """`name` if it is there, else a shipped recording or one of the user's called so, else `name`."""
    from specmon.core.paths import recordings_dir

    if name.exists() or name.is_absolute() or ".." in name.parts:
        return name
    for folder in (shipped_dir(), recordings_dir()):
        for candidate in (folder / name, folder / f"{name}{SUFFIX}"):
            if candidate.is_file():
                return candidate
    return name


def list_recordings() -> None:
    """Print both folders' recordings, one line each."""
    from specmon.core.paths import recordings_dir, state_dir
    from specmon.core.session.recover import list_recoverable

    for title, folder in (("Shipped with specmon", shipped_dir()), ("Yours", recordings_dir())):
        write_line(f"{title} ({folder})")
        files = (
            sorted(folder.rglob(f"*{SUFFIX}"), key=lambda file: (len(file.parts), file))
            if folder.is_dir()
            else []
        )
        for file in files:
            name = file.relative_to(folder).with_suffix("").as_posix()
            write_line(f"  {name:<40} {file.stat().st_size / 1e6:8.2f} MB  {describe(file)}")
        if not files:
            write_line("  none")
    write_line("Play one with: specmon replay NAME")
    if left := list_recoverable(state_dir()):
        write_line(f"{len(left)} more left behind by a crash. Keep them with: specmon replay --recover")


def recover_all() -> None:
    """Turn what crashed engines left behind into recordings of the user's, and print where they are."""
    from specmon.core.paths import private_dir, recordings_dir, state_dir
    from specmon.core.session.recover import list_recoverable, recover

    left = list_recoverable(state_dir())
    for spool in left:
        write_line(str(recover(spool.path, private_dir(recordings_dir()))))
    if not left:
        write_line("Nothing was left behind.")


def describe(path: Path) -> str:
    """A recording's date and devices, or why it cannot be opened."""
    from specmon.core.session.reader import SessionReader

    try:
        with SessionReader.open(path) as reader:
            header = reader.header
    except SpecmonError as error:
        return error.message
    devices = ", ".join(dict.fromkeys(device.model for device in header.devices)) or "devices not named"
    return f"{header.utc_start[:10] or 'no date':<10}  {devices}"
