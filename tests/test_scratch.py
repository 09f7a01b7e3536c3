"""A folder that one process at a time works in."""

from __future__ import annotations

import threading
from pathlib import Path

from specmon.core.scratch import scratch_folder


def never() -> None:
    raise AssertionError("nobody holds the folder")


def test_a_scratch_folder_is_empty_at_first_and_gone_afterwards(tmp_path: Path) -> None:
    folder = tmp_path / "made" / "scratch"
    folder.mkdir(parents=True)
    (folder / "left by a killed process").touch()
    with scratch_folder(folder, never):
        assert list(folder.iterdir()) == []
        (folder / "new").touch()
    assert not folder.exists()


def test_a_scratch_folder_in_use_is_waited_for(tmp_path: Path) -> None:
    folder = tmp_path / "scratch"
    waits = threading.Event()

    def use() -> None:
        with scratch_folder(folder, waits.set):
            used.append(folder.exists())

    used: list[bool] = []
    with scratch_folder(folder, never):
        other = threading.Thread(target=use)
        other.start()
        assert waits.wait(60)
        assert not used
    other.join()
    assert used == [True]
