"""`specmon train` on the command line."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.tiny_models import TinyModels

Cli = Callable[..., Any]
SMALL = ("--tokens", "3000", "--row-tokens", "64", "--batch-tokens", "256", "--devices", "cpu")


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def test_draft_model_is_trained_resumed_and_told(cli: Cli, tiny: TinyModels, tmp_path: Path) -> None:
    out = tmp_path / "run"
    args = ("train", "draft", "--target", str(tiny.target()), "--out", str(out), "--steps", "2", *SMALL)

    code, told, err = cli(*args, "--hidden", "64", "--layers", "1")

    assert code == 0, err
    assert f"{out / 'bf16'}  " in told
    assert f"{out / 'int8'}  " in told
    assert "simulated τ" in told
    assert f"bench draft-len --target {tiny.target()} --draft {out / 'int8'}" in err
    assert json.loads((out / "run.json").read_text())["steps"] == 2


def test_finished_run_says_so_and_writes_nothing(cli: Cli, tiny: TinyModels, tmp_path: Path) -> None:
    out, data = tmp_path / "run", tmp_path / "text"
    base = ("train", "draft", "--out", str(out), "--devices", "cpu")
    small = ("--target", str(tiny.target()), "--data", str(data), "--hidden", "64", "--layers", "1", *SMALL)
    assert cli(*base, *small, "--steps", "2").code == 0
    shutil.rmtree(data)

    code, told, err = cli(*base, "--resume")

    assert code == 0
    assert f"The run in {out} is finished at step 2; its drafter is in {out / 'int8'}." in err
    assert f"{out / 'int8'}  " in told
    assert not data.exists()
    assert not (out / "data").exists()


def test_resumed_run_finds_its_text(
    cli: Cli, tiny: TinyModels, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, base = tmp_path / "run", ("train", "draft", "--devices", "cpu", "--out")
    monkeypatch.chdir(tmp_path)
    small = ("--target", str(tiny.target()), "--data", "text", "--hidden", "64", "--layers", "1", *SMALL)
    assert cli(*base, str(out), *small, "--steps", "2").code == 0
    shutil.rmtree(out / "int8")
    monkeypatch.chdir("/")

    code, _, err = cli(*base, str(out), "--resume")

    assert code == 0, err
    assert "the target writes text" not in err
    assert (out / "int8").exists()
    assert not (out / "data").exists()


def test_resume_refuses_options_that_contradict_the_run(cli: Cli, tiny: TinyModels, tmp_path: Path) -> None:
    out, (target, other) = tmp_path / "run", (str(tiny.target()), "nowhere.gguf")
    base = ("train", "draft", "--out", str(out), "--devices", "cpu")
    assert cli(*base, "--target", target, "--steps", "2", "--hidden", "64", "--layers", "1", *SMALL).code == 0
    before = (out / "run.json").read_bytes()

    for args, difference in (
        (("--steps", "3"), "steps 2, not 3"),
        (("--steps", "2", "--layers", "4"), "layers 1, not 4"),
        (("--target", other), f"target '{target}', not '{other}'"),
        (("--text-seed", "1"), "seed 0, not 1"),
        (("--prompts", __file__), f"prompts of the target's own, not {__file__} of SHA-256 "),
    ):
        code, _, err = cli(*base, "--resume", *args)
        assert code == 2
        assert f"{out} belongs to a run with other settings ({difference}" in err
        assert (f"begin another run with --from {out}/int8." in err) == difference.startswith("steps")

    assert (out / "run.json").read_bytes() == before
    assert cli(*base, "--resume", "--steps", "2", "--layers", "1").code == 0


def test_runs_of_other_seeds_share_text_of_one(cli: Cli, tiny: TinyModels, tmp_path: Path) -> None:
    data = ("--data", str(tmp_path / "text"), "--target", str(tiny.target()), "--steps", "1")
    small = (*data, "--hidden", "64", "--layers", "1", *SMALL)

    assert cli("train", "draft", "--out", str(tmp_path / "one"), *small).code == 0
    assert cli("train", "draft", "--out", str(tmp_path / "other"), *small, "--seed", "1").code == 0
    code, _, err = cli("train", "draft", "--out", str(tmp_path / "third"), *small, "--text-seed", "1")

    assert code == 2
    assert "(seed 0, not 1)" in err


def test_text_is_known_by_what_its_prompts_say(cli: Cli, tiny: TinyModels, tmp_path: Path) -> None:
    data = ("--data", str(tmp_path / "text"), "--target", str(tiny.target()), "--steps", "1")
    small = ("train", "draft", *data, "--hidden", "64", "--layers", "1", *SMALL)
    prompts, moved = tmp_path / "prompts.txt", tmp_path / "moved.txt"
    prompts.write_text("the cat\n")
    assert cli(*small, "--out", str(tmp_path / "one"), "--prompts", str(prompts)).code == 0
    prompts.rename(moved)
    assert cli(*small, "--out", str(tmp_path / "two"), "--prompts", str(moved)).code == 0
    prompts.write_text("the mat\n")

    code, _, err = cli(*small, "--out", str(tmp_path / "three"), "--prompts", str(prompts))

    assert code == 2
    assert f"{tmp_path / 'text'} belongs to a run with other settings (prompts {moved} of SHA-256 " in err
    assert f"…, not {prompts} of SHA-256 " in err


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        (("--target", "nowhere.gguf"), "There is no model 'nowhere.gguf' here."),
        (("--steps", "0"), "--steps is 0, but it must be 1 or more."),
        (("--learning-rate", "0"), "--learning-rate is 0.0, but it must be above 0."),
        (("--seed", "-1"), "--seed is -1, but it must be 0 to 2147483647."),
        (("--text-seed", "-1"), "--text-seed is -1, but it must be 0 to 2147483647."),
        (("--taps", "2,x"), "--taps is '2,x', but it takes layer numbers, like 3,15,27."),
        (("--taps", "1,2,99"), "names layers [1, 2, 99]; the target has 3."),
        (("--devices", "cuda:77"), "There is no cuda:77 here."),
        (("--devices", "tpu"), "--devices is 'tpu', but it takes auto, cpu, or cuda:0,cuda:1."),
        (("--prompts", "nowhere.txt"), "The prompts in nowhere.txt cannot be read"),
        (("--resume",), "where no run was begun."),
        (("--out", ""), "--out is empty, but it takes a folder."),
        (("--data", " "), "--data is empty, but it takes a folder."),
        (("--target", "smollm2-eagle3"), "smollm2-eagle3 is an EAGLE-3 head, no model by itself."),
        (("--out", "/proc/nowhere"), "cannot be written"),
    ],
)
def test_what_cannot_work_is_refused_in_one_sentence(
    cli: Cli, tiny: TinyModels, tmp_path: Path, args: tuple[str, ...], sentence: str
) -> None:
    base = ("--target", str(tiny.target()), "--out", str(tmp_path / "run"), *SMALL)

    code, _, err = cli("train", "eagle3", *base, *args)

    assert code in (1, 2)
    assert sentence in err
    assert err.count("\n") == 1
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        (("--block-len", "3"), "--block-len is 3, but it must be 4 to 15."),
        (("--block-len", "16"), "--block-len is 16, but it must be 4 to 15."),
        (("--layers", "0"), "--layers is 0, but it must be 1 or more."),
        (("--taps", "1,2,99"), "names layers [1, 2, 99]; the target has 3."),
    ],
)
def test_block_drafter_that_cannot_be_is_refused(
    cli: Cli, tiny: TinyModels, tmp_path: Path, args: tuple[str, ...], sentence: str
) -> None:
    code, _, err = cli(
        "train", "block", "--target", str(tiny.target()), "--out", str(tmp_path / "run"), *SMALL, *args
    )

    assert code == 2
    assert sentence in err
    assert not (tmp_path / "run").exists()


def test_block_drafter_is_trained_and_decodes(cli: Cli, tiny: TinyModels, tmp_path: Path) -> None:
    out, target = tmp_path / "run", ("--target", str(tiny.target()))
    assert (
        cli("train", "block", *target, "--out", str(out), "--steps", "2", "--layers", "1", *SMALL).code == 0
    )
    run = ("run", *target, "--devices", "cpu:0", "-p", "the cat", "--max-new-tokens", "12", "--json")

    ar, chain, tree = (
        json.loads(cli(*run, "--decoder", decoder, "--draft", str(out / "int8"), *more).out)
        for decoder, more in (("ar", ()), ("sd", ()), ("sd", ("--draft-nodes", "9")))
    )

    assert ar["tokens"] == chain["tokens"] == tree["tokens"]
    assert chain["draft"] == tree["draft"] == "run/int8"
    assert (chain["draft_nodes"], tree["draft_nodes"]) == (None, 9)


@pytest.mark.parametrize(
    ("ended", "sentence"),
    [
        (KeyboardInterrupt(), "Stopped."),
        (KeyboardInterrupt("Ended at once; nothing is saved."), "Ended at once; nothing is saved."),
    ],
)
def test_interrupted_run_says_how_to_go_on(
    cli: Cli,
    tiny: TinyModels,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    ended: KeyboardInterrupt,
    sentence: str,
) -> None:
    from specmon.core.training import run

    def interrupted(*args: object) -> None:
        raise ended

    monkeypatch.setattr(run, "train", interrupted)
    out = tmp_path / "a run"

    code, _, err = cli("train", "draft", "--target", str(tiny.target()), "--out", str(out), *SMALL)

    assert code == 130
    assert f"{sentence} Go on with: specmon train draft --out '{out}' --resume --devices cpu" in err
