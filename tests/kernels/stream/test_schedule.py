"""The table of tuned schedules as a file, and the schedules of shapes nobody tuned."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from specmon.kernels.registry import TRITON
from specmon.kernels.stream.schedule import SCHEDULES, Schedule, ScheduleTable, schedule_for, shipped_table


def test_shipped_file_is_what_the_table_writes() -> None:
    assert shipped_table().text() == SCHEDULES.read_text()
    assert TRITON.version == shipped_table().version


def test_a_tuned_shape_is_taken_from_the_file() -> None:
    found = schedule_for("qkv", 4608, 3584, bn=128)
    assert found == shipped_table().tuned["bf16"]["qkv 4608x3584"]
    assert schedule_for("qkv", 4608, 3584, bn=128, weights="unknown") != found


@pytest.mark.parametrize(("new_version", "raised"), [(False, 0), (True, 1)])
def test_changes_survive_the_file(tmp_path: Path, new_version: bool, raised: int) -> None:
    before = shipped_table()
    better = {"o 3584x3584": Schedule(bn=64, bk=128, stages=6), "o 64x64": Schedule(bn=64, bk=64)}
    file = tmp_path / "schedules.toml"
    before.with_changes(better, weights="bf16", new_version=new_version).write(file)
    after = ScheduleTable.read(file)

    assert after.version == before.version + raised
    assert after.tuned["bf16"] == before.tuned["bf16"] | better
    assert before == ScheduleTable.read(SCHEDULES)


def test_a_table_that_cannot_be_written_leaves_the_file_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "schedules.toml"
    file.write_text("what was there")
    write_text = Path.write_text

    def full(path: Path, text: str) -> int:
        write_text(path, text[:20])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(OSError, match="No space left"):
        shipped_table().write(file)
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [(file.name, "what was there")]


@pytest.mark.parametrize(("n", "k"), [(960, 576), (4864, 896), (152_064, 5120), (100, 48)])
def test_an_untuned_shape_is_split_evenly(n: int, k: int) -> None:
    for op in ("o", "gate_up", "head"):
        found = schedule_for(op, n, k)
        assert k % found.split == 0
        assert found.bk <= max(64, k // found.split)
        assert op == "o" or found.split == 1
