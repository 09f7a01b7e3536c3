"""Drafters by name, and names that cannot work."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.tiny_models import TinyModels

from specmon.core.drafters.base import Drafter
from specmon.core.drafters.registry import DrafterSpec, build_drafter, check_drafter, resolve_name
from specmon.core.errors import SpecmonError, UsageError
from specmon.core.models.random_weights import RandomTensors
from specmon.core.models.source import open_model


def build(tiny: TinyModels, name: str | Path, *, target: str | None = None) -> Drafter:
    return build_drafter(
        DrafterSpec(
            name=str(name),
            target=target or str(tiny.target()),
            recipe="fp32",
            device="cpu:0",
            draft_len=4,
            n_branches=5,
            cache_dir=tiny.root,
        )
    )


def check(tiny: TinyModels, draft: str, *, target: str) -> None:
    check_drafter(draft, target, open_model(target, tiny.root))


@pytest.mark.parametrize(
    ("draft", "target", "expected"),
    [
        ("auto", "smollm2", "smollm2-draft-17m"),
        ("auto", "/some/folder", "ngram"),
        ("eagle3", "smollm2", "smollm2-eagle3"),
        ("eagle3", "/models/SmolLM2-135M-Instruct.Q4_1.gguf", "smollm2-eagle3"),
        ("scripted:0.5", "smollm2", "scripted:0.5"),
    ],
)
def test_names_resolve_for_their_target(draft: str, target: str, expected: str) -> None:
    assert resolve_name(draft, target) == expected


def test_no_head_ships_for_other_targets() -> None:
    with pytest.raises(UsageError, match=r"^No EAGLE-3 head ships for /some/folder\."):
        resolve_name("eagle3", "/some/folder")


@pytest.mark.parametrize(
    ("name", "kind", "label"),
    [
        ("ngram", "ngram", "n-gram"),
        ("suffix", "suffix", "suffix tree"),
        ("scripted:0.78", "scripted", "scripted α=0.78 (0.6/0.72/0.8)"),
    ],
)
def test_model_free_drafters_say_what_they_are(tiny: TinyModels, name: str, kind: str, label: str) -> None:
    info = build(tiny, name).info

    assert (info.kind, info.label, info.weight_bytes) == (kind, label, 0)


def test_model_drafters_count_their_bytes(tiny: TinyModels) -> None:
    draft, head = build(tiny, tiny.draft()).info, build(tiny, tiny.eagle3()).info

    assert (draft.kind, draft.tap_layers) == ("draft_model", ())
    assert (head.kind, head.tap_layers) == ("eagle3", (0, 1, 2))
    assert min(draft.weight_bytes, draft.kv_bytes_per_token, head.weight_bytes, head.kv_bytes_per_token) > 0


@pytest.mark.parametrize("accuracy", ["", "x", "1.5", "-0.1", "nan"])
def test_scripted_needs_an_accuracy(tiny: TinyModels, accuracy: str) -> None:
    with pytest.raises(UsageError, match="gives no accuracy"):
        build(tiny, f"scripted:{accuracy}")


@pytest.mark.parametrize("n_rows", [290, 310])
def test_draft_of_another_vocabulary_is_refused(tiny: TinyModels, n_rows: int) -> None:
    other = tiny.with_words(tiny.padded(tiny.draft(), n_rows))

    with pytest.raises(SpecmonError, match=rf"has {n_rows} tokens, the target .* {tiny.vocab_size}\."):
        build(tiny, other)


def test_draft_of_the_same_tokens_may_have_other_rows(tiny: TinyModels) -> None:
    whole = build(tiny, tiny.draft()).info.weight_bytes

    assert build(tiny, tiny.padded(tiny.draft(), 310)).info.weight_bytes == whole  # cut to the target's
    assert build(tiny, tiny.padded(tiny.draft(), 290)).info.weight_bytes < whole


def test_head_for_another_vocabulary_is_refused(tiny: TinyModels) -> None:
    with pytest.raises(SpecmonError, match=rf"has 310 tokens, the target .* {tiny.vocab_size}\."):
        build(tiny, tiny.eagle3(vocab_size=310))


def test_draft_whose_tables_are_not_what_it_says_is_refused(tiny: TinyModels) -> None:
    other = tiny.variant(tiny.draft(), "wordy", vocab_size=999)

    with pytest.raises(SpecmonError, match="with 300 rows where its configuration says 999"):
        build(tiny, other)


def test_draft_that_is_nowhere_is_refused(tiny: TinyModels, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="There is no model"):
        build(tiny, tmp_path / "nothing")


@pytest.mark.parametrize("model", ["ngram", "suffix", "hybrid", "scripted:0.5", "auto"])
def test_script_takes_no_drafter_that_is_no_model(tiny: TinyModels, model: str) -> None:
    with pytest.raises(UsageError, match="after the @, which is no model"):
        build(tiny, f"scripted:0.78@{model}")


@pytest.mark.parametrize("name", ["hybrid", "hybrid:auto", "hybrid:suffix"])
def test_hybrid_needs_a_model(tiny: TinyModels, name: str) -> None:
    with pytest.raises(UsageError, match="after the :, which is no model"):
        check(tiny, name, target=str(tiny.target()))


def test_hybrid_is_what_its_model_costs(tiny: TinyModels) -> None:
    inner, info = build(tiny, tiny.eagle3()).info, build(tiny, f"hybrid:{tiny.eagle3()}").info

    assert (info.kind, info.label) == ("hybrid", f"suffix tree + {inner.label}")
    assert (info.weight_bytes, info.tap_layers) == (inner.weight_bytes, inner.tap_layers)
    assert info.may_fall_short
    assert not inner.may_fall_short


def test_script_with_a_model_counts_its_bytes(tiny: TinyModels) -> None:
    inner, info = build(tiny, tiny.draft()).info, build(tiny, f"scripted:0.78@{tiny.draft()}").info

    assert (info.kind, info.label) == ("scripted", f"scripted α=0.78 (0.6/0.72/0.8) + {inner.label}")
    assert (info.weight_bytes, info.kv_bytes_per_token) == (inner.weight_bytes, inner.kv_bytes_per_token)


def test_random_shape_has_a_head_too(tiny: TinyModels) -> None:
    shape = "random:smollm2-135m"
    head = build(tiny, f"scripted:0.78@{shape}-eagle3", target=shape).info

    assert head.label == "scripted α=0.78 (0.6/0.72/0.8) + smollm2-135m-eagle3 (random)"
    assert head.tap_layers == (2, 15, 27)


@pytest.mark.parametrize("name", ["random:qwen2.5-0.5b", "scripted:0.78@random:qwen2.5-0.5b"])
def test_random_weights_of_another_vocabulary_are_refused_before_any_are_made(
    tiny: TinyModels, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(RandomTensors, "read", lambda self, tensor: pytest.fail(f"{tensor} was made"))

    with pytest.raises(SpecmonError, match=r"has 151936 tokens, the target smollm2-135m \(random\) 49152\."):
        check(tiny, name, target="random:smollm2-135m")


def test_random_weights_of_one_vocabulary_may_be_padded_differently(tiny: TinyModels) -> None:
    check(tiny, "random:qwen2.5-0.5b", target="random:qwen2.5-7b")
    check(tiny, "random:qwen2.5-7b", target="random:qwen3-0.6b")


def test_shape_without_a_head_is_refused(tiny: TinyModels) -> None:
    with pytest.raises(UsageError, match=r"There is no head 'random:qwen3-0\.6b-eagle3'\. Choose one for"):
        build(tiny, "random:qwen3-0.6b-eagle3")
