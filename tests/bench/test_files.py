"""A report's folder is tried before anything is measured."""

from __future__ import annotations

from pathlib import Path

import pytest

from specmon.core.errors import UsageError
from specmon.tui.commands.bench_files import make_folder, report_files


def test_folder_is_made_and_left_empty(tmp_path: Path) -> None:
    files = report_files(tmp_path / "a" / "b", "run", force=False, benchmark="paired")
    assert not (tmp_path / "a").exists()
    make_folder(files)

    assert files is not None
    assert {file.parent for file in files} == {tmp_path / "a" / "b"}
    assert list((tmp_path / "a" / "b").iterdir()) == []


def test_folder_that_cannot_be_written_to_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    for folder in (Path("/proc/nowhere"), tmp_path / "file" / "below"):
        with pytest.raises(UsageError, match="where nothing can be written"):
            make_folder(report_files(folder, "", force=False, benchmark="paired"))


def test_name_without_a_folder_is_refused() -> None:
    with pytest.raises(UsageError, match="--name goes with --out"):
        report_files(None, "run", force=False, benchmark="paired")
