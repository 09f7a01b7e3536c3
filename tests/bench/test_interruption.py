"""ctrl+c pressed more than once: what a benchmark measured is kept all the same."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from specmon.tui.ending import interrupted_later, interrupted_once

#: `specmon bench paired` on a scripted engine; where a signal is to come it says so, and waits for a line.
COMMAND = """
import sys
from tests.bench.fake_engine import FakeEngine, settled_on
from tests.bench.turns import make_turn
from specmon.core import ceilings
from specmon.tui.commands import bench_engine, bench_paired
from specmon.tui.commands.main import main

def stop_at(place):
    print(place, flush=True)
    sys.stdin.readline()

def script(config, text, n):
    if n == 10:
        stop_at("measuring")
    return make_turn(draft_len=0 if config.decoder == "ar" else config.draft_len)

class Engine(FakeEngine):
    def __exit__(self, *_):
        stop_at("closing")

def measure_copies(names, machine):
    stop_at("reporting")
    return dict.fromkeys(names, 2e10)

FakeEngine.script, FakeEngine.loaded = staticmethod(script), []
bench_engine.BenchEngine = Engine
bench_paired.prepare = lambda configs: None
bench_paired.settle_lanes = settled_on("a GPU", "a GPU")
ceilings.measure_copies = measure_copies
sys.exit(main())
"""
ARGS = ("bench", "paired", "--prompts", "merge,rainbow", "--lane", "ar", "--lane", "sd:1", "--no-control")


@pytest.mark.parametrize("first", ["measuring", "reporting"])
def test_interruptions_one_after_the_other_lose_nothing(tmp_path: Path, first: str) -> None:
    root = Path(__file__).parents[2]
    with subprocess.Popen(
        [sys.executable, "-c", COMMAND, *ARGS, "--repeats", "3", "--out", str(tmp_path)],
        cwd=root,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdin is not None
            interrupted = False
            for place in ("measuring", "closing", "reporting"):
                assert process.stdout.readline() == f"{place}\n"
                interrupted = interrupted or place == first
                if interrupted:
                    process.send_signal(signal.SIGINT)
                process.stdin.write("\n")
                process.stdin.flush()
            out, err = process.communicate(timeout=60)
        finally:
            process.kill()
    [written] = tmp_path.glob("*.json")
    report = json.loads(written.read_text())
    assert process.returncode == 130, err
    assert report["interrupted"] is (first == "measuring")
    assert len(report["requests"]) == (3 if first == "measuring" else 12)
    assert written.with_suffix(".md").read_text().strip() in out


def test_a_further_interruption_is_heard_when_patience_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    with interrupted_once():
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        monkeypatch.setattr("specmon.tui.ending.PATIENCE_S", 0)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


def test_what_is_held_back_is_heard_at_the_end() -> None:
    done: list[int] = []
    with pytest.raises(KeyboardInterrupt):
        held_back(1, done)
    assert done == [1]


def test_what_is_held_back_is_broken_off_when_patience_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("specmon.tui.ending.PATIENCE_S", 0)
    done: list[int] = []
    with pytest.raises(KeyboardInterrupt):
        held_back(2, done)
    assert done == [1]


def held_back(interruptions: int, done: list[int]) -> None:
    """Interrupts itself; `done` gets each interruption that did not break off."""
    with interrupted_later():
        for number in range(interruptions):
            signal.raise_signal(signal.SIGINT)
            done.append(number + 1)
