"""The text a target writes is its own: greedy answers are its choices, conversations are whole and apart."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from tests.tiny_models import TinyModels
from torch.nn import functional as F

from specmon.core.errors import SpecmonError, UsageError
from specmon.core.models.source import open_model
from specmon.core.training.config import TextSettings
from specmon.core.training.corpus import Corpus
from specmon.core.training.data import read_text, without_loops
from specmon.core.training.forms import Decoder
from specmon.core.training.generate import ANSWER, FIRST, GREEDY, QUESTION, READ, WHAT, Rows, RowWriter
from specmon.core.training.prompts import read_prompts, sha256_of
from specmon.core.training.scripts import Script, scripts_of

CPU = torch.device("cpu")


@torch.no_grad()
def test_greedy_answers_are_the_targets_choices(target: Decoder, written: tuple[Rows, Rows]) -> None:
    n_checked = 0
    for rows in written:
        batch = Corpus([rows], CPU).held_out(10**6)[0]
        hidden, _ = target(batch.tokens, batch.mask_BTT())
        chosen = F.linear(hidden, target.head_VD).argmax(dim=-1)
        greedy = batch.greedy[:, 1:]
        assert (chosen[:, :-1] == batch.tokens[:, 1:])[greedy].all()
        n_checked += int(greedy.sum())
    assert n_checked > 50


def test_conversations_are_question_then_answer(
    scripts: tuple[Script, ...], written: tuple[Rows, Rows]
) -> None:
    for script, rows in zip(scripts, written, strict=True):
        for tokens, kinds in zip(rows.tokens.tolist(), rows.kinds.tolist(), strict=True):
            starts = [i for i, kind in enumerate(kinds) if kind & FIRST]
            assert starts[0] == 0
            assert tuple(tokens[: len(script.first[0])])[:1] == script.first[0][:1]
            order = [kind & WHAT for kind in kinds[: starts[1] if len(starts) > 1 else None]]
            spoken = [kind for kind in order if kind != READ]
            assert spoken == sorted(spoken)  # nothing is asked after the answer began
            assert spoken.count(QUESTION) >= min(script.least[0], len(spoken)) or ANSWER not in spoken


def test_long_rows_hold_long_questions(scripts: tuple[Script, ...], written: tuple[Rows, Rows]) -> None:
    lengths = ((written[1].kinds & WHAT) == QUESTION).sum(dim=1)
    assert int(lengths.min()) >= scripts[1].least[0] // 2


def test_same_seed_writes_the_same_text(target: Decoder, scripts: tuple[Script, ...]) -> None:
    writer = RowWriter(target, scripts[0], 3)
    with torch.no_grad():
        one, other, again = (writer.write(seed, lambda steps: None) for seed in (1, 2, 1))

    assert torch.equal(one.tokens, again.tokens)
    assert not torch.equal(one.tokens, other.tokens)


def test_given_prompts_are_answered_as_they_stand(target: Decoder, tiny: TinyModels, tmp_path: Path) -> None:
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text('"the cat sat"\n"on\\nthe mat"\n')
    tokenizer = open_model(str(tiny.target()), tiny.root).tokenizer()
    settings = TextSettings(target="t", row_tokens=64, prompts=str(prompts))
    (script,) = scripts_of(settings, tokenizer, 640)
    with torch.no_grad():
        rows = RowWriter(target, script, 8).write(0, lambda steps: None)

    given = {tuple(tokenizer.encode_chat([("user", text)])) for text in ("the cat sat", "on\nthe mat")}
    assert set(script.first) == given
    for tokens, kinds in zip(rows.tokens.tolist(), rows.kinds.tolist(), strict=True):
        n_read = next(i for i, kind in enumerate(kinds) if kind & WHAT == ANSWER)
        assert tuple(tokens[:n_read]) in given
        assert not any(kind & WHAT == QUESTION for kind in kinds)


@pytest.mark.parametrize(
    ("content", "message"),
    [("\n", "holds no prompts"), ("word " * 200, "leaves no room for an answer")],
)
def test_prompts_that_cannot_be_used_are_refused(
    tiny: TinyModels, tmp_path: Path, content: str, message: str
) -> None:
    prompts = tmp_path / "prompts.txt"
    prompts.write_text(content)
    settings = TextSettings(target="t", row_tokens=64, prompts=str(prompts))

    with pytest.raises(UsageError, match=message):
        scripts_of(settings, open_model(str(tiny.target()), tiny.root).tokenizer(), 640)


@pytest.mark.parametrize(("name", "quote"), [("prompts.txt", ""), ("prompts.jsonl", '"')])
def test_only_a_newline_ends_a_prompt(tmp_path: Path, name: str, quote: str) -> None:
    prompts = tmp_path / name
    prompts.write_bytes(f"{quote}one\u2028two\x85three{quote}\r\n{quote}four{quote}\n".encode())

    assert read_prompts(str(prompts)) == ["one\u2028two\x85three", "four"]


def test_prompts_that_changed_since_the_run_was_begun_are_refused(tiny: TinyModels, tmp_path: Path) -> None:
    prompts = tmp_path / "prompts.txt"
    prompts.write_text("the cat\n")
    before = sha256_of(read_prompts(str(prompts)))
    prompts.write_text("the mat\n")
    settings = TextSettings(target="t", row_tokens=64, prompts=str(prompts), prompts_sha256=before)

    with pytest.raises(UsageError, match=r"prompts\.txt are others than when the run was begun"):
        scripts_of(settings, open_model(str(tiny.target()), tiny.root).tokenizer(), 640)


def test_nothing_is_learnt_from_a_loop() -> None:
    once, loop = list(range(100, 120)), [1, 2, 3, 4] * 15
    tokens = torch.tensor([once + loop], dtype=torch.int32)
    kinds = torch.full_like(tokens, ANSWER | GREEDY, dtype=torch.uint8)

    kept = without_loops(Rows(tokens, kinds)).kinds[0] & WHAT

    assert kept[: len(once) + 12].eq(ANSWER).all()
    assert kept[len(once) + 40 :].eq(READ).all()


def test_text_that_is_no_whole_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "00000.safetensors").write_bytes(b"cut")

    with pytest.raises(SpecmonError, match=r"00000\.safetensors cannot be read"):
        read_text(tmp_path, 10)
