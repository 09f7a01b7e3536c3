"""A run learns, goes on where it was left, and loses nothing when it is broken off."""

from __future__ import annotations

import errno
import multiprocessing
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import pytest
import torch
from safetensors.torch import load_file
from tests.tiny_models import TinyModels

from specmon.core.drafters.registry import DrafterSpec, build_drafter
from specmon.core.errors import SpecmonError, UsageError
from specmon.core.training import checkpoint, loop
from specmon.core.training.checkpoint import CurvePoint
from specmon.core.training.config import TrainSettings, Unwatched
from specmon.core.training.draft import DraftLearner
from specmon.core.training.learner import Loss
from specmon.core.training.loop import rate
from specmon.core.training.run import Place, train

NewSettings, NewPlace = Callable[..., TrainSettings], Callable[..., Place]
ONE = ("cpu",)

#: A process with a run in the folder it is given, until its input ends.
GOES_ON = """
import sys
from pathlib import Path
from specmon.core.training.alone import alone_in
with alone_in(Path(sys.argv[1])):
    print("in it", flush=True)
    sys.stdin.read()
"""


@dataclass
class Interrupting(Unwatched):
    """Presses ctrl+c once so many steps of training are done, and `twice` as soon as that is answered."""

    after: int
    twice: bool = False
    lines: list[str] = field(default_factory=list)
    n_done: int | None = None

    def begin(self, what: str, total: int, things: str, *, done: int = 0) -> None:
        self.n_done = done if what == "training" else None

    def done(self, count: int = 1) -> None:
        if self.n_done is not None:
            self.n_done += count
            if self.n_done == self.after:
                signal.raise_signal(signal.SIGINT)

    def say(self, line: str) -> None:
        self.lines.append(line)
        if self.twice and line.startswith("Finishing this step"):
            signal.raise_signal(signal.SIGINT)


def curve(place: Place) -> list[CurvePoint]:
    return msgspec.json.decode((place.out / "curve.json").read_bytes(), type=list[CurvePoint])


@pytest.mark.parametrize("kind", ["draft", "eagle3", "block"])
def test_run_learns_and_its_folders_load(
    tiny: TinyModels, new_settings: NewSettings, new_place: NewPlace, kind: str
) -> None:
    place = new_place()

    results = train(new_settings(kind, steps=8), place, ONE, Unwatched())

    losses = [point.loss for point in curve(place) if point.loss is not None]
    assert losses[-1] < losses[0]
    assert [result.folder.name for result in results] == ["bf16", "int8"]
    for result in results:
        spec = DrafterSpec(
            name=str(result.folder),
            target=str(tiny.target()),
            recipe="fp32",
            device="cpu:0",
            draft_len=2,
            n_branches=1,
            cache_dir=tiny.root,
        )
        assert build_drafter(spec).info.kind == {"draft": "draft_model"}.get(kind, kind)


@pytest.mark.parametrize("kind", ["draft", "eagle3", "block"])
def test_resumed_run_ends_with_the_same_bits(
    new_settings: NewSettings, new_place: NewPlace, kind: str
) -> None:
    settings, whole, broken = new_settings(kind, steps=5), new_place("whole"), new_place("broken")
    train(settings, whole, ONE, Unwatched())
    watcher = Interrupting(after=2)

    with pytest.raises(KeyboardInterrupt):
        train(settings, broken, ONE, watcher)
    assert not (broken.out / "int8").exists()
    train(settings, broken, ONE, Unwatched())

    one, other = load_file(whole.checkpoint), load_file(broken.checkpoint)
    assert one.keys() == other.keys()
    assert all(torch.equal(one[name], other[name]) for name in one)
    assert [(p.step, p.loss, p.held_out) for p in curve(whole)] == [
        (p.step, p.loss, p.held_out) for p in curve(broken)
    ]


def test_ctrl_c_is_answered_at_once(new_settings: NewSettings, new_place: NewPlace) -> None:
    watcher = Interrupting(after=1)

    with pytest.raises(KeyboardInterrupt) as ended:
        train(new_settings(), new_place(), ONE, watcher)

    assert watcher.lines[-1].startswith("Finishing this step, then saving; once more ends at once")
    assert not str(ended.value)


def test_second_ctrl_c_says_what_was_saved(new_settings: NewSettings, new_place: NewPlace) -> None:
    settings, place = new_settings(steps=50), new_place()

    with pytest.raises(KeyboardInterrupt, match="Ended at once; nothing is saved"):
        train(settings, place, ONE, Interrupting(after=1, twice=True))
    assert not place.checkpoint.exists()
    with pytest.raises(KeyboardInterrupt):
        train(settings, place, ONE, Interrupting(after=1))
    with pytest.raises(KeyboardInterrupt, match="Ended at once; 2 of 50 steps are saved"):
        train(settings, place, ONE, Interrupting(after=4, twice=True))


def test_two_processes_learn_what_one_does(new_settings: NewSettings, new_place: NewPlace) -> None:
    settings, alone, together = new_settings(steps=3), new_place("alone"), new_place("together")
    train(settings, alone, ONE, Unwatched())

    train(settings, together, ("cpu:0", "cpu:1"), Unwatched())

    one, other = load_file(alone.checkpoint), load_file(together.checkpoint)
    for name in (name for name in one if name.startswith("weight.")):
        torch.testing.assert_close(one[name], other[name], rtol=0, atol=2e-4)  # the order of sums differs


def test_interrupted_processes_part_and_end(new_settings: NewSettings, new_place: NewPlace) -> None:
    place, before = new_place(), set(multiprocessing.active_children())
    with pytest.raises(KeyboardInterrupt):
        train(new_settings(steps=50), place, ("cpu:0", "cpu:1"), Interrupting(after=1))

    assert not torch.distributed.is_initialized()
    assert set(multiprocessing.active_children()) <= before
    assert place.checkpoint.exists()


def test_full_disk_leaves_the_last_checkpoint(
    new_settings: NewSettings, new_place: NewPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = new_place()
    with pytest.raises(KeyboardInterrupt):
        train(new_settings(), place, ONE, Interrupting(after=1))
    before = place.checkpoint.read_bytes()

    def fill(tensors: object, path: Path, metadata: object) -> None:
        path.write_bytes(b"half")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(checkpoint, "save_file", fill)
    with pytest.raises(SpecmonError, match=r"cannot be written: No space left on device; .* can be resumed"):
        train(new_settings(), place, ONE, Unwatched())

    assert place.checkpoint.read_bytes() == before
    assert {path.name for path in place.out.iterdir()} == {"run.json", ".lock", "checkpoint.safetensors"}


def test_loss_that_is_no_number_stops_before_it_does_harm(
    new_settings: NewSettings, new_place: NewPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, learnt = new_place(), DraftLearner.loss
    monkeypatch.setattr(loop, "_CHECKPOINT_S", 0.0)
    steps = iter((1.0, 1.0, float("nan")))

    def loss(self: DraftLearner, *args: object) -> Loss:
        found = learnt(self, *args)  # type: ignore[arg-type]
        return Loss(found.total * next(steps), found.n_places)

    monkeypatch.setattr(DraftLearner, "loss", loss)
    with pytest.raises(SpecmonError, match=r"no number any more at step 2; .* can be resumed"):
        train(new_settings(), place, ONE, Unwatched())

    assert all(bool(torch.isfinite(tensor).all()) for tensor in load_file(place.checkpoint).values())


def test_cut_checkpoint_is_named(new_settings: NewSettings, new_place: NewPlace) -> None:
    place = new_place()
    with pytest.raises(KeyboardInterrupt):
        train(new_settings(), place, ONE, Interrupting(after=1))
    place.checkpoint.write_bytes(place.checkpoint.read_bytes()[:500])

    with pytest.raises(SpecmonError, match=r"checkpoint\.safetensors is no checkpoint of this run"):
        train(new_settings(), place, ONE, Unwatched())


def test_folder_of_another_run_is_refused(new_settings: NewSettings, new_place: NewPlace) -> None:
    place = new_place()
    train(new_settings(steps=1), place, ONE, Unwatched())

    with pytest.raises(UsageError, match=r"with other settings \(steps 1, not 2\)"):
        train(new_settings(steps=2), place, ONE, Unwatched())


def test_second_run_in_a_folder_is_refused_while_the_first_lives(
    new_settings: NewSettings, new_place: NewPlace
) -> None:
    settings, place = new_settings(steps=1), new_place()
    first = [sys.executable, "-c", GOES_ON, str(place.out)]
    with subprocess.Popen(first, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        with pytest.raises(UsageError, match=rf"Another run is going on in {place.out}\."):
            train(settings, place, ONE, Unwatched())
        assert not (place.out / "run.json").exists()
        process.kill()

    train(settings, place, ONE, Unwatched())


def test_wrong_data_folder_begins_no_run(new_settings: NewSettings, new_place: NewPlace) -> None:
    written = new_place("written")
    train(new_settings(steps=1), written, ONE, Unwatched())
    place = new_place("other", written.data)
    wider = msgspec.structs.replace(new_settings().text, row_tokens=96)

    with pytest.raises(UsageError, match=r"belongs to a run with other settings \(row_tokens 64, not 96\)"):
        train(new_settings(text=wider), place, ONE, Unwatched())

    assert not place.out.exists()


def test_text_of_which_nothing_says_who_wrote_it_is_refused(
    new_settings: NewSettings, new_place: NewPlace, tmp_path: Path
) -> None:
    place = new_place("out", tmp_path / "text")
    train(new_settings(steps=1), place, ONE, Unwatched())
    (place.data / "text.json").unlink()

    with pytest.raises(UsageError, match=r"holds 0000\d\.safetensors but no text\.json"):
        train(new_settings(steps=1), new_place("other", place.data), ONE, Unwatched())


def test_what_a_killed_run_left_half_written_is_removed(
    new_settings: NewSettings, new_place: NewPlace
) -> None:
    place, gone = new_place(), subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    place.out.mkdir(parents=True)
    half, own = (place.out / f".checkpoint.safetensors.{pid}.part" for pid in (gone.pid, os.getppid()))
    half.write_bytes(b"half")
    own.write_bytes(b"of a process that is there")

    train(new_settings(steps=1), place, ONE, Unwatched())

    assert not half.exists()
    assert own.exists()


def test_later_run_has_more_text_written(
    new_settings: NewSettings, new_place: NewPlace, tmp_path: Path
) -> None:
    data = tmp_path / "text"
    train(new_settings(steps=1), new_place("short", data), ONE, Unwatched())
    first = {path: path.read_bytes() for path in data.glob("*.safetensors")}

    train(new_settings(steps=1, tokens=6000), new_place("longer", data), ONE, Unwatched())

    assert len(list(data.glob("*.safetensors"))) > len(first)
    assert all(path.read_bytes() == written for path, written in first.items())


def test_learning_rate_rises_then_falls() -> None:
    rates = [rate(step, 100) for step in range(100)]

    assert max(rates) == 1.0
    assert rates.index(1.0) < 5
    assert rates[5:] == sorted(rates[5:], reverse=True)
    assert rates[-1] < 0.03
