"""Which passed check speaks for which lane."""

from __future__ import annotations

import stat
from pathlib import Path

import msgspec
import pytest

from specmon.core.checks.records import Passed, Records, verifies
from specmon.core.checks.subject import Kind, Subject
from specmon.core.errors import SpecmonError

SSD = Subject(
    target="t1", draft="d1", recipe="bf16", backend="triton-3", devices=("cuda", "cuda"), code="0.1.0 abc"
)
AR = SSD.of_target


@pytest.fixture
def records(tmp_path: Path) -> Records:
    return Records(tmp_path / "checks")


def keep(records: Records, kind: Kind, subject: Subject) -> None:
    records.keep(Passed(kind=kind, subject=subject, date="2026-11-30", command=f"specmon check {kind}"))


def test_nothing_has_passed_where_nothing_was_checked(records: Records) -> None:
    assert records.passed(SSD) == ()


def test_checks_of_the_target_speak_for_every_lane_of_it_and_agreement_for_its_draft(
    records: Records,
) -> None:
    keep(records, "agreement", SSD)
    keep(records, "quality", AR)

    assert records.passed(SSD) == records.passed(AR) == ("agreement", "quality")
    assert records.passed(msgspec.structs.replace(SSD, draft="d2")) == ("quality",)


@pytest.mark.parametrize(
    "changes",
    [
        {"target": "t2"},
        {"recipe": "fp8"},
        {"backend": "triton-4"},
        {"devices": ("cuda",)},
        {"code": "0.1.0 abc 12345678"},
    ],
)
def test_what_decides_the_numbers_must_be_the_same(records: Records, changes: dict[str, object]) -> None:
    keep(records, "agreement", SSD)

    assert records.passed(msgspec.structs.replace(SSD, **changes)) == ()


def test_a_check_that_fails_later_is_forgotten(records: Records) -> None:
    keep(records, "agreement", SSD)
    records.drop("agreement", SSD)
    records.drop("agreement", SSD)

    assert records.passed(SSD) == ()


def test_quality_alone_verifies_no_speed() -> None:
    assert verifies(("agreement", "quality"))
    assert not verifies(("quality",))


def test_a_damaged_file_says_nothing(records: Records, tmp_path: Path) -> None:
    keep(records, "quality", AR)
    (tmp_path / "checks" / "agreement-0.json").write_text("{")

    assert records.passed(SSD) == ("quality",)


def test_folder_is_private_and_a_full_one_is_said_in_a_sentence(records: Records, tmp_path: Path) -> None:
    keep(records, "quality", AR)
    assert stat.S_IMODE((tmp_path / "checks").stat().st_mode) == 0o700

    for file in (tmp_path / "checks").iterdir():
        file.unlink()
        file.mkdir()
    with pytest.raises(SpecmonError, match=r"^The check passed, but .* cannot keep that: "):
        keep(records, "quality", AR)
