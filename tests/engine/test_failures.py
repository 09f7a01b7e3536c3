"""Exceptions and exit statuses in words."""

from __future__ import annotations

from pathlib import Path

import pytest

from specmon.core.engine.death import explain, log_tail
from specmon.core.engine.failures import refusal, sentence
from specmon.core.engine.messages import Refused
from specmon.core.errors import UsageError

LOG = Path("/nowhere/engine.log")


class OutOfMemoryError(RuntimeError):
    """As torch.cuda names it."""


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB"),
        RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate"),
    ],
)
def test_every_kind_of_memory_exhaustion_reads_the_same(error):
    assert sentence(error) == "Memory ran out."


def test_user_errors_keep_message_hint_and_code():
    error = UsageError("No such device.", "Use cpu:0.")
    assert refusal("Load", error, log=LOG) == Refused(
        of="Load", message="No such device.", hint="Use cpu:0.", exit_code=2
    )


def test_unexpected_errors_are_one_bounded_line_and_point_at_the_log():
    refused = refusal("Generate", ValueError("a\nb" * 1000), log=LOG)
    assert "\n" not in refused.message
    assert len(refused.message) < 400
    assert str(LOG) in refused.hint


@pytest.mark.parametrize(
    ("returncode", "oom_kills", "said"),
    [
        (-9, 1, "ran out of memory"),
        (-9, 0, "killed from outside"),
        (-15, 0, "was ended by SIGTERM: it was asked to end from outside."),
        (143, 0, "was ended by SIGTERM: it was asked to end from outside."),
        (-64, 0, "SIGRTMAX"),
        (-200, 0, "signal 200"),
        (None, 0, "does not end"),
        (0, 0, "by itself"),
        (7, 0, "code 7."),
    ],
)
def test_exit_status_in_words(returncode, oom_kills, said):
    assert said in explain(returncode, log=LOG, oom_kills=oom_kills).reason


def test_log_tail_is_short_even_of_a_huge_line(tmp_path):
    path = tmp_path / "engine.log"
    path.write_bytes(b"x" * 100_000 + b"\n" + b"\xff\x00 end\n\n")
    tail = log_tail(path, lines=2)
    assert len(tail) == 2
    assert tail[-1].endswith(" end")
    assert all(character.isprintable() for line in tail for character in line)
    assert sum(map(len, tail)) < 20_000
