"""Published heads: every layout, cards that say other than the tensors, and heads that do not fit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from tests.tiny_models import HIDDEN, LAYERS, TinyModels
from torch import Tensor
from torch.nn.functional import silu

from specmon.core.drafters.eagle3 import Eagle3Head
from specmon.core.drafters.eagle3_file import load_eagle3
from specmon.core.drafters.registry import DrafterSpec, build_drafter, check_drafter
from specmon.core.errors import SpecmonError
from specmon.core.models.hf_folder import HfFolder
from specmon.core.models.kv import KvCache
from specmon.core.models.placement import Chunk
from specmon.core.models.source import open_model

from .conftest import FP32, N_SLOTS, target_embedding
from .published_heads import LAYOUTS, Card, Weights, changed, in_layout, random_norms

IDS = torch.tensor([9, 8, 7, 30, 31])


def load(tiny: TinyModels, folder: Path) -> Eagle3Head:
    target = tiny.target()
    return load_eagle3(
        HfFolder(folder),
        HfFolder(target).config,
        target_embedding(target),
        FP32,
        "cpu:0",
        max_positions=N_SLOTS,
    )


def logits(head: Eagle3Head) -> Tensor:
    """What the head says after a few tokens with made-up features."""
    features = torch.randn(len(IDS), 3 * HIDDEN, generator=torch.Generator().manual_seed(2))
    kv = KvCache.of(head.config, n_slots=len(IDS), dtype=torch.float32, device="cpu")
    return head.layer(IDS, head.widen(features), kv, Chunk(0, len(IDS)))[0]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_head_is_the_same_in_every_layout(tiny: TinyModels, tmp_path: Path, layout: str) -> None:
    source = tiny.eagle3(eagle_config={"eagle_aux_hidden_state_layer_ids": [2, 1, 0]})  # the usual ones of 3

    head, plain = load(tiny, in_layout(source, tmp_path / layout, layout)), load(tiny, source)

    assert head.tap_layers == plain.tap_layers == (2, 1, 0)
    assert head.config == plain.config
    assert torch.equal(head.to_target, plain.to_target)
    assert torch.equal(logits(head), logits(plain))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_drafts_by_name(tiny: TinyModels, tmp_path: Path, layout: str) -> None:
    folder = in_layout(tiny.eagle3(), tmp_path / layout, layout)

    check_drafter(str(folder), str(tiny.target()), open_model(str(tiny.target()), tiny.root))

    assert build(tiny, folder).info.kind == "eagle3"


def test_head_may_bring_norms_and_an_embedding(tiny: TinyModels, tmp_path: Path) -> None:
    """One row, restated: a norm over all features before `fc`, and a residual stream that begins normed."""
    folder = changed(tiny, tmp_path / "normed", random_norms)
    head, w = load(tiny, folder), load_file(folder / "model.safetensors")
    features, token = torch.randn(1, 3 * HIDDEN), IDS[:1]

    def norm(x: Tensor, name: str) -> Tensor:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * w[f"{name}.weight"]

    def times(x: Tensor, name: str) -> Tensor:
        return x @ w[f"{name}.weight"].T

    x = norm(times(norm(features, "input_norm"), "fc"), "midlayer.hidden_norm")
    both = torch.cat([norm(w["embed_tokens.weight"][token], "midlayer.input_layernorm"), x], -1)
    one_value = times(both, "midlayer.self_attn.v_proj").repeat(
        1, head.config.n_heads
    )  # one row, one KV head
    x = x + times(one_value, "midlayer.self_attn.o_proj")
    h = norm(x, "midlayer.post_attention_layernorm")
    inner = silu(times(h, "midlayer.mlp.gate_proj")) * times(h, "midlayer.mlp.up_proj")
    x = x + times(inner, "midlayer.mlp.down_proj")

    kv = KvCache.of(head.config, n_slots=1, dtype=torch.float32, device="cpu")
    found, out = head.layer(token, head.widen(features), kv, Chunk(0, 1))
    torch.testing.assert_close(out, x, rtol=1e-3, atol=1e-3)
    torch.testing.assert_close(found, times(norm(x, "norm"), "lm_head"), rtol=1e-3, atol=1e-3)


def test_norms_of_single_layers_go_by_either_name(tiny: TinyModels, tmp_path: Path) -> None:
    norms = [1 + 0.2 * torch.randn(HIDDEN) for _ in range(3)]

    def named(*names: str) -> Any:
        return lambda w, card: w.update(
            {f"{name}.weight": norm for name, norm in zip(names, norms, strict=True)}
        )

    new = load(tiny, changed(tiny, tmp_path / "new", named("fc_norm.0", "fc_norm.1", "fc_norm.2")))
    old = load(tiny, changed(tiny, tmp_path / "old", named("aux_norm_low", "aux_norm_mid", "aux_norm_high")))

    features = torch.randn(2, 3 * HIDDEN)
    each = [
        torch.rms_norm(part, (HIDDEN,), norm, 1e-6)
        for part, norm in zip(features.chunk(3, -1), norms, strict=True)
    ]
    expected = torch.cat(each, -1) @ load_file(tiny.eagle3() / "model.safetensors")["fc.weight"].T
    torch.testing.assert_close(new.widen(features), expected, rtol=1e-4, atol=1e-4)
    assert torch.equal(new.widen(features), old.widen(features))


# --- where card and tensors disagree, the tensors are right ------------------------------------------------------


@pytest.mark.parametrize(
    "lie",
    [
        {"intermediate_size": 999},
        {"num_key_value_heads": 4},
        {"attention_bias": True},
        {"vocab_size": 150},  # the head's own vocabulary, where the target's should stand
        {"num_hidden_layers": 2},
        {"draft_vocab_size": 7},
        {"tie_word_embeddings": True},
    ],
    ids=lambda lie: next(iter(lie)),
)
def test_tensors_are_believed_before_the_card(tiny: TinyModels, tmp_path: Path, lie: Card) -> None:
    lied = load(tiny, changed(tiny, tmp_path / "lied", lambda w, card: card.update(lie)))

    plain = load(tiny, tiny.eagle3())
    assert lied.config == plain.config
    assert torch.equal(logits(lied), logits(plain))


def ids_for_differences(weights: Weights, card: Card) -> None:
    weights["d2t"] = weights["d2t"] + torch.arange(len(weights["d2t"]))


def map_missing(weights: Weights, card: Card) -> None:
    del weights["d2t"]


@pytest.mark.parametrize("edit", [ids_for_differences, map_missing])
def test_map_to_the_target_is_read_by_what_t2d_marks(tiny: TinyModels, tmp_path: Path, edit: Any) -> None:
    assert torch.equal(
        load(tiny, changed(tiny, tmp_path / "head", edit)).to_target, load(tiny, tiny.eagle3()).to_target
    )


def test_map_that_leads_outside_as_differences_is_read_as_ids(tiny: TinyModels, tmp_path: Path) -> None:
    def edit(weights: Weights, card: Card) -> None:
        ids_for_differences(weights, card)
        del weights["t2d"]

    found = load(tiny, changed(tiny, tmp_path / "head", edit)).to_target

    assert torch.equal(found, load(tiny, tiny.eagle3()).to_target)


# --- heads that do not fit ---------------------------------------------------------------------------------------


def build(tiny: TinyModels, head: Path) -> Any:
    return build_drafter(
        DrafterSpec(
            name=str(head),
            target=str(tiny.target()),
            recipe="fp32",
            device="cpu:0",
            draft_len=4,
            n_branches=5,
            cache_dir=tiny.root,
        )
    )


def narrow(weights: Weights, card: Card) -> None:
    for name, w in weights.items():
        if w.dtype == torch.float32:
            weights[name] = w[..., : w.shape[-1] // 2]
    for name in ("fc.weight", "midlayer.self_attn.o_proj.weight", "midlayer.mlp.down_proj.weight"):
        weights[name] = weights[name][: HIDDEN // 2]
    card["hidden_size"] = HIDDEN // 2


def set_to(**changes: Any) -> Any:
    def edit(weights: Weights, card: Card) -> None:
        for key, value in changes.items():
            name = key.replace("__", ".")
            if value is None:
                weights.pop(name)
            elif isinstance(value, Tensor):
                weights[name] = value
            else:
                card[name] = value

    return edit


def taps(*layers: int | str) -> Any:
    return set_to(eagle_config={"eagle_aux_hidden_state_layer_ids": list(layers)})


def not_finite(weights: Weights, card: Card) -> None:
    weights["fc.weight"][3, 5] = torch.nan


def in_int8(scale: Tensor) -> Any:
    def edit(weights: Weights, card: Card) -> None:
        weights["fc.weight"] = torch.ones_like(weights["fc.weight"], dtype=torch.int8)
        weights["fc.weight_scale"] = scale

    return edit


REFUSED: dict[str, tuple[Any, str]] = {
    "another hidden size": (
        narrow,
        r"is for a target of hidden size 32 and 300 tokens, this one has 64 and 300\.",
    ),
    "a layer that is missing": (
        taps(0, 1, LAYERS + 1),
        rf"wants features of layers \[0, 1, 4\]; the target has {LAYERS}\.",
    ),
    "another number of layers": (
        taps(0, 1),
        r"asks for features of layers \[0, 1\]; its fc reads 3 layers\.",
    ),
    "a map outside": (
        set_to(d2t=torch.full((150,), 500)),
        r"maps its vocabulary \(d2t\) outside the target's",
    ),
    "a map twice to one": (
        set_to(d2t=-torch.arange(150), t2d=None),
        r"maps its vocabulary \(d2t\) outside the target's 300 tokens, or twice to one",
    ),
    "no map": (set_to(d2t=None, t2d=None), "has a vocabulary of its own but no d2t"),
    "layers that are no numbers": (
        taps("low", "mid", "high"),
        r"has 'low' as 'eagle_aux_hidden_state_layer_ids', which is not a number",
    ),
    "a card that is no object": (
        set_to(eagle_config=[0, 1, 2]),
        r"has \[0, 1, 2\] as 'eagle_config', which is not an object",
    ),
    "a matrix without columns": (
        set_to(fc__weight=torch.ones(7)),
        r"stores fc\.weight as \[7\], which is no shape of a head's",
    ),
    "features of another size": (
        set_to(fc__weight=torch.ones(64, 100)),
        r"an fc that reads 100 numbers, which are no features of a target of hidden size 64",
    ),
    "no norm": (set_to(norm__weight=None), r"has no tensor norm\.weight"),
    "several layers": (
        set_to(layers__1__mlp__up_proj__weight=torch.zeros(2, 2)),
        "is a head of several layers",
    ),
    "normed output": (
        set_to(norm_output=True),
        r"normed features on .* \(norm_output\), which is not supported",
    ),
    "values not finite": (not_finite, r"holds values in fc\.weight that are not finite"),
    "a scale not finite": (
        in_int8(torch.ones(64, 1).index_fill(0, torch.tensor(3), torch.inf)),
        r"holds values in fc\.weight that are not finite",
    ),
    "scales for other rows": (
        in_int8(torch.ones(10, 1)),
        r"stores fc\.weight as 64 rows with 10 scales\.",
    ),
    "a map of another length": (
        set_to(d2t=torch.arange(70), t2d=None),
        r"has 150 tokens of its own, but maps 70 \(d2t, t2d\)\.",
    ),
    "another RoPE": (
        set_to(rope_scaling={"rope_type": "dynamic"}),
        "asks for the RoPE kind 'dynamic'",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_head_that_cannot_work_is_refused(tiny: TinyModels, tmp_path: Path, case: str) -> None:
    edit, message = REFUSED[case]
    head = changed(tiny, tmp_path / "head", edit)

    with pytest.raises(SpecmonError, match=message) as refused:
        build(tiny, head)

    assert "\n" not in str(refused.value)


def test_head_of_another_vocabulary_is_refused(tiny: TinyModels) -> None:
    with pytest.raises(SpecmonError, match="has 999 tokens, the target"):
        build(tiny, tiny.eagle3(vocab_size=999))


def test_truncated_head_is_refused(tiny: TinyModels, tmp_path: Path) -> None:
    head = changed(tiny, tmp_path / "head", lambda w, card: None)
    file = head / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-1000])

    with pytest.raises(SpecmonError, match="is not a whole safetensors file"):
        build(tiny, head)


def test_pickled_head_is_refused(tiny: TinyModels, tmp_path: Path) -> None:
    head = changed(tiny, tmp_path / "head", lambda w, card: None)
    (head / "model.safetensors").rename(head / "pytorch_model.bin")

    with pytest.raises(SpecmonError, match="holds pickled weights only"):
        build(tiny, head)
