"""The draft worker's loop over a real pipe, in this process; and what its user sees when it is gone."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from specmon.core.drafters.base import Branches, Drafted, Outcome, Settled
from specmon.core.drafters.desk import Desk
from specmon.core.drafters.link import WorkerLink, death_of_worker, receive
from specmon.core.drafters.ngram import NgramDrafter
from specmon.core.drafters.registry import DrafterSpec, build_drafter
from specmon.core.drafters.scripted import PatternPlan, ScriptedDrafter, Step
from specmon.core.drafters.worker import Worker, run_worker
from specmon.core.errors import SpecmonError, UsageError

Pipe = tuple[Connection, Connection]


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    ours, theirs = multiprocessing.Pipe()
    yield ours, theirs
    ours.close()
    theirs.close()


def serve(pipe: Pipe, drafter: Any, *messages: tuple[Any, ...]) -> list[Any]:
    """Send everything at once, let the worker serve it, and return its answers, those to the last context begun."""
    ours, theirs = pipe
    for message in messages:
        ours.send(message)
    worker = Worker(theirs, Desk(drafter, lambda: 0), 0)
    while worker.has_mail:
        worker.answer()
    answers = []
    while ours.poll(0):
        answers.append(ours.recv())
    last = sum(kind == "begin" for kind, *_ in messages)
    return [answer for begun, answer in answers if begun == last]


REPEATS = [1, 2, 3, 1, 2, 4, 1, 2]
BEGIN = ("begin", REPEATS, None, 0)


def test_a_turn_given_up_while_branches_are_prepared_makes_room_for_the_next(pipe: Pipe) -> None:
    given_up = BEGIN, ("draft", 2), ("prepare", (1, 1, 1), 2)

    (drafted,) = serve(pipe, NgramDrafter(), *given_up, BEGIN, ("draft", 2))

    assert isinstance(drafted, Drafted)
    assert drafted.proposal.tokens == (4, 1)


def test_worker_drafts_and_settles_a_hit(pipe: Pipe) -> None:
    drafted, branches, settled, after = serve(
        pipe,
        NgramDrafter(),
        BEGIN,
        ("draft", 2),
        ("prepare", (1, 0, 0), 2),
        ("outcome", (), 3, None),
        ("draft", 2),
    )

    assert isinstance(drafted, Drafted)
    assert drafted.proposal.tokens == (4, 1)
    assert isinstance(branches, Branches)
    assert branches.hit(Outcome(accepted=(), bonus=3)) == 0
    assert isinstance(settled, Settled)
    assert after.proposal.tokens == (1, 2)


def test_outcome_without_branches_asked_for_gets_no_answer(pipe: Pipe) -> None:
    answers = serve(pipe, NgramDrafter(), BEGIN, ("draft", 2), ("outcome", (4,), 1, None), ("draft", 1))

    assert [type(answer) for answer in answers] == [Drafted, Drafted]


class Looking(NgramDrafter):
    """Looks for the outcome before it prepares anything, as a model drafter does."""

    def prepare(self, fan_out: Any, draft_len: int, clock: Any, arrived: Callable[[], Any]) -> Any:
        self.seen = arrived()
        return [] if self.seen is not None else super().prepare(fan_out, draft_len, clock, arrived)


def test_early_outcome_is_seen_while_preparing_and_late(pipe: Pipe) -> None:
    drafter = Looking()

    _, branches, _ = serve(
        pipe, drafter, BEGIN, ("draft", 2), ("prepare", (1, 1, 1), 2), ("outcome", (4,), 9, None)
    )

    assert drafter.seen.key == (1, 9)
    assert (branches.hit(drafter.seen), branches.miss(drafter.seen)) == (None, "late")
    assert drafter.draft(1).tokens == ()  # 4 and 9 are in the text: 9 is new


def test_features_travel_as_floats(pipe: Pipe) -> None:
    class Keeps(NgramDrafter):
        def begin(self, tokens: list[int], features_NF: torch.Tensor | None, first: int) -> None:
            self.features = features_NF

    drafter = Keeps()
    sent = torch.randn(3, 4).bfloat16()

    serve(pipe, drafter, ("begin", REPEATS, sent.float().numpy(), 0))

    assert drafter.features is not None
    assert torch.equal(drafter.features, sent.float())


def test_unknown_message_is_a_bad_call(pipe: Pipe) -> None:
    with pytest.raises(ValueError, match="unknown message 'dance'"):
        serve(pipe, NgramDrafter(), ("dance",))


# --- the user's side --------------------------------------------------------------------------------------------


def gone() -> SpecmonError:
    return SpecmonError("The draft worker died.")


def test_closed_pipe_is_a_death(pipe: Pipe) -> None:
    ours, theirs = pipe
    theirs.close()

    with pytest.raises(SpecmonError, match="died"):
        receive(ours, 5.0, lambda: True, gone)


def test_dead_worker_is_noticed_without_waiting_for_the_limit(pipe: Pipe) -> None:
    with pytest.raises(SpecmonError, match="died"):
        receive(pipe[0], 3600.0, lambda: False, gone)


def test_last_answer_of_a_dead_worker_is_still_read(pipe: Pipe) -> None:
    pipe[1].send("done")

    assert receive(pipe[0], 5.0, lambda: False, gone) == "done"


@pytest.mark.parametrize(
    ("exitcode", "said"),
    [
        (-9, "The draft worker was ended by SIGKILL: it was killed from outside."),
        (-50, "The draft worker was ended by signal 50."),
        (1, "The draft worker ended with code 1."),
        (None, "The draft worker hung up and does not end."),
    ],
)
def test_death_says_what_is_known(exitcode: int | None, said: str) -> None:
    death = death_of_worker(exitcode)
    assert death.message == said
    assert "log" not in death.hint  # a process that was killed leaves no words


def test_silent_worker_is_given_up(pipe: Pipe) -> None:
    with pytest.raises(SpecmonError, match="gave no answer for 0 s"):
        receive(pipe[0], 0.0, lambda: True, gone)


@pytest.mark.parametrize("error", [SpecmonError("No.", "Do this."), UsageError("No.", "Do this.")])
def test_refusal_crosses_the_pipe_whole(pipe: Pipe, error: SpecmonError) -> None:
    pipe[1].send(error)

    with pytest.raises(type(error)) as caught:
        receive(pipe[0], 5.0, lambda: True, gone)

    assert (caught.value.message, caught.value.hint) == ("No.", "Do this.")
    assert caught.value.exit_code == error.exit_code


def test_worker_that_cannot_build_says_why(pipe: Pipe, tmp_path: Path) -> None:
    ours, theirs = pipe
    spec = DrafterSpec(
        name=str(tmp_path),
        target=str(tmp_path),
        recipe="fp32",
        device="cpu:1",
        draft_len=4,
        n_branches=1,
        cache_dir=tmp_path,
    )

    run_worker(theirs, build_drafter, (spec,), "cpu:1", None, 0)

    with pytest.raises(SpecmonError, match=r"has no config\.json"):
        receive(ours, 5.0, lambda: True, gone)


def test_a_worker_leaves_what_it_loaded_out_of_garbage_collections(
    pipe: Pipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, theirs = pipe
    done: list[str] = []

    def build() -> NgramDrafter:
        done.append("built")
        return NgramDrafter()

    def set_aside() -> None:
        done.append("set aside")
        ours.close()

    monkeypatch.setattr("specmon.core.drafters.worker.set_aside", set_aside)
    run_worker(theirs, build, (), "cpu:1", None, 0)

    assert done == ["built", "set aside"]


def gone_worker(pipe: Pipe, *said: Any) -> WorkerLink:
    """The user's side of a worker that said this and ended."""
    ours, theirs = pipe
    for answer in said:
        theirs.send(answer)
    theirs.close()
    link = WorkerLink.__new__(WorkerLink)
    link._pipe = ours
    link._process = SimpleNamespace(is_alive=lambda: False, join=lambda timeout: None, exitcode=1)  # type: ignore[assignment]
    return link


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ((), "The draft worker ended with code 1."),
        (((1, Settled(received=1)), SpecmonError("Out of memory.")), "Out of memory."),
    ],
)
def test_a_worker_that_is_gone_is_told_of_in_its_own_words(
    pipe: Pipe, said: tuple[Any, ...], message: str
) -> None:
    with pytest.raises(SpecmonError) as caught:
        gone_worker(pipe, *said).check()
    assert caught.value.message == message


def test_worker_reports_what_loading_does_until_its_answer(pipe: Pipe) -> None:
    ours, theirs = pipe

    def build(progress: Callable[[str, float | None], None]) -> NgramDrafter:
        progress("loading weights", 0.5)
        progress("capturing graphs", None)
        raise UsageError("No.")

    run_worker(theirs, build, (), "cpu:1", None, 0, reports=True)

    assert [ours.recv(), ours.recv()] == [("loading weights", 0.5), ("capturing graphs", None)]
    assert isinstance(ours.recv(), UsageError)


def test_worker_that_fails_says_so_without_a_traceback(
    pipe: Pipe, capsys: pytest.CaptureFixture[str]
) -> None:
    ours, theirs = pipe

    run_worker(theirs, divmod, (1, 0), "cpu:1", None, 0)  # type: ignore[arg-type]

    with pytest.raises(SpecmonError, match=r"^The draft worker failed: .*zero"):
        receive(ours, 5.0, lambda: True, gone)
    assert "ZeroDivisionError" in capsys.readouterr().err  # the log has it whole


def test_scripted_drafter_takes_its_script_through_the_pipe(pipe: Pipe) -> None:
    drafter = partial(ScriptedDrafter, label="scripted")(PatternPlan([Step(2, True)]), 300)

    (drafted,) = serve(pipe, drafter, ("begin", [1, 2], None, 0), ("script", [1, 2, 3, 4, 5]), ("draft", 2))

    assert drafted.proposal.tokens == (3, 4)


def test_only_a_scripted_drafter_takes_a_script(pipe: Pipe) -> None:
    with pytest.raises(ValueError, match="only a scripted drafter"):
        serve(pipe, NgramDrafter(), BEGIN, ("script", [1]))
