"""The EAGLE-3 head against a plain, cacheless restatement of the published computation."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from tests.tiny_models import HIDDEN, LAYERS, TinyModels, hf_model
from torch import Tensor
from torch.nn import functional as F

from specmon.core.drafters.chain import ChainDrafter
from specmon.core.drafters.eagle3 import tap_layers
from specmon.core.drafters.registry import DrafterSpec, build_drafter
from specmon.core.errors import SpecmonError
from specmon.core.models.kv import KvCache
from specmon.core.models.placement import Chunk
from specmon.core.models.pool import ModelPool

TEXT = [9, 8, 7, 30, 31, 60]
K = 4
Make = Callable[[], ChainDrafter]


def norm(x: Tensor, weight: Tensor) -> Tensor:
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * weight


def rotate(x_RHD: Tensor, positions: Tensor) -> Tensor:
    half = x_RHD.shape[-1] // 2
    angle = positions[:, None] * 10_000.0 ** (-torch.arange(half) / half)
    cos, sin = angle.cos()[:, None], angle.sin()[:, None]
    x1, x2 = x_RHD[..., :half], x_RHD[..., half:]
    return torch.cat([x1 * cos - x2 * sin, x2 * cos + x1 * sin], dim=-1)


class Restated:
    """The head as one pass over the whole sequence, from its tensors alone."""

    def __init__(self, folder: Path, embedding: Tensor) -> None:
        self.w = load_file(folder / "model.safetensors")
        config = json.loads((folder / "config.json").read_text())
        self.heads, self.kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
        self.embedding = embedding

    def layer(self, tokens: Sequence[int], features_RD: Tensor) -> tuple[Tensor, Tensor]:
        """Row i pairs token i with the feature before it, at position i. Returns: last logits, last feature."""
        w, rows = self.w, len(tokens)
        embedded = norm(self.embedding[torch.tensor(tokens)], w["midlayer.input_layernorm.weight"])
        both = torch.cat([embedded, norm(features_RD, w["midlayer.hidden_norm.weight"])], dim=-1)
        q, k, v = (
            (both @ w[f"midlayer.self_attn.{p}_proj.weight"].T).view(rows, n, -1)
            for p, n in (("q", self.heads), ("k", self.kv_heads), ("v", self.kv_heads))
        )
        at = torch.arange(rows)
        q, k = rotate(q, at), rotate(k, at)
        mixed = F.scaled_dot_product_attention(
            *(x.transpose(0, 1)[None] for x in (q, k, v)), is_causal=True, enable_gqa=True
        )
        attended = mixed[0].transpose(0, 1).reshape(rows, -1)
        x = features_RD + attended @ w["midlayer.self_attn.o_proj.weight"].T
        h = norm(x, w["midlayer.post_attention_layernorm.weight"])
        gate, up = (h @ w[f"midlayer.mlp.{p}_proj.weight"].T for p in ("gate", "up"))
        x = x + (F.silu(gate) * up) @ w["midlayer.mlp.down_proj.weight"].T
        return norm(x[-1:], w["norm.weight"]) @ w["lm_head.weight"].T, x[-1:]

    def chain(self, text: Sequence[int], features_NF: Tensor, length: int) -> tuple[list[int], list[float]]:
        """Draft `length` tokens after `text`, whose features but the last position's are given."""
        tokens, features = list(text[1:]), features_NF @ self.w["fc.weight"].T
        drafted, probs = [], []
        for _ in range(length):
            logits, feature = self.layer(tokens, features)
            index = int(logits.argmax())
            drafted.append(index + int(self.w["d2t"][index]))
            probs.append(float(logits.softmax(-1).max()))
            tokens, features = [*tokens, drafted[-1]], torch.cat([features, feature])
        return drafted, probs


@pytest.fixture
def restated(tiny: TinyModels) -> Restated:
    weights = load_file(tiny.target() / "model.safetensors")
    return Restated(tiny.eagle3(), weights["model.embed_tokens.weight"])


@pytest.fixture
def hf_states(tiny: TinyModels) -> tuple[Tensor, ...]:
    """transformers' hidden states of TEXT: entry i is the input of layer i."""
    model = hf_model(tiny.target())
    states: tuple[Tensor, ...] = model(torch.tensor([TEXT]), output_hidden_states=True).hidden_states
    return states


def test_drafts_match_the_restated_head(
    new_eagle3: Make, restated: Restated, hf_states: tuple[Tensor, ...]
) -> None:
    features = torch.cat([hf_states[i][0, :-1] for i in (0, 1, 2)], dim=-1)
    drafter = new_eagle3()
    drafter.begin(TEXT, features, 0)

    found = drafter.draft(K)

    tokens, probs = restated.chain(TEXT, features, K)
    assert list(found.tokens) == tokens
    assert found.probs == pytest.approx(probs, rel=1e-3)
    assert found.features == "real"


@pytest.mark.parametrize("wrong", ["layer", "order", "position"])
def test_wrong_features_give_other_drafts(
    new_eagle3: Make, restated: Restated, hf_states: tuple[Tensor, ...], wrong: str
) -> None:
    """The comparison above could not pass by luck: features taken elsewhere change the draft."""
    right = torch.cat([hf_states[i][0, :-1] for i in (0, 1, 2)], dim=-1)
    features = {
        "layer": torch.cat([hf_states[i][0, :-1] for i in (0, 1, 1)], dim=-1),
        "order": torch.cat([hf_states[i][0, :-1] for i in (2, 1, 0)], dim=-1),
        "position": torch.cat([hf_states[i][0, 1:] for i in (0, 1, 2)], dim=-1),
    }[wrong]
    drafter = new_eagle3()
    drafter.begin(TEXT, features, 0)

    assert drafter.draft(K).probs != pytest.approx(restated.chain(TEXT, right, K)[1], rel=1e-2)


def test_target_taps_are_the_inputs_of_their_layers(tiny: TinyModels, hf_states: tuple[Tensor, ...]) -> None:
    loaded = ModelPool(tiny.root).target(str(tiny.target()), "fp32", "cpu:0", lambda what, fraction: None)
    config = loaded.model.config
    kv = KvCache.of(config, n_slots=16, dtype=torch.float32, device="cpu")

    _, features = loaded.model.hidden(torch.tensor(TEXT), kv, Chunk(0, len(TEXT)), (2, 0, 1))

    assert features is not None
    expected = torch.cat([hf_states[i][0] for i in (2, 0, 1)], dim=-1)
    torch.testing.assert_close(features, expected, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(
    ("raw", "n_layers", "taps"),
    [
        ({}, 30, (2, 15, 27)),
        ({"eagle_config": {"eagle_aux_hidden_state_layer_ids": [3, 15, 27]}}, 30, (3, 15, 27)),
        ({"eagle_config": {"eagle_aux_hidden_state_layer_ids": [1, 3]}}, 3, (1, 3)),
    ],
)
def test_tap_layers_come_from_the_configuration(
    raw: dict[str, object], n_layers: int, taps: tuple[int, ...]
) -> None:
    assert tap_layers(raw, n_layers) == taps


# --- heads that do not fit --------------------------------------------------------------------------------------


def build(tiny: TinyModels, head: Path, target: Path | None = None) -> None:
    build_drafter(
        DrafterSpec(
            name=str(head),
            target=str(target or tiny.target()),
            recipe="fp32",
            device="cpu:0",
            draft_len=4,
            n_branches=5,
            cache_dir=tiny.root,
        )
    )


def with_tensors(tiny: TinyModels, folder: Path, **tensors: Tensor | None) -> Path:
    """A copy of the head with some tensors replaced (None: left out)."""
    weights = load_file(tiny.eagle3() / "model.safetensors")
    for name, tensor in tensors.items():
        key = name.replace("__", ".")
        weights.pop(key, None)
        if tensor is not None:
            weights[key] = tensor
    folder.mkdir()
    (folder / "config.json").write_text((tiny.eagle3() / "config.json").read_text())
    save_file(weights, folder / "model.safetensors")
    return folder


def test_head_for_another_target_is_refused(tiny: TinyModels) -> None:
    narrow = tiny.variant(tiny.eagle3(), "narrow", hidden_size=32)

    with pytest.raises(
        SpecmonError, match=rf"is for a target of hidden size 32 and {tiny.vocab_size} tokens"
    ):
        build(tiny, narrow)


def test_head_of_another_vocabulary_is_refused(tiny: TinyModels) -> None:
    with pytest.raises(SpecmonError, match="has 999 tokens, the target"):
        build(tiny, tiny.variant(tiny.eagle3(), "wordy", vocab_size=999))


def test_head_that_taps_a_missing_layer_is_refused(tiny: TinyModels) -> None:
    deep = tiny.variant(
        tiny.eagle3(), "deep", eagle_config={"eagle_aux_hidden_state_layer_ids": [0, 1, LAYERS + 1]}
    )

    with pytest.raises(
        SpecmonError, match=rf"wants features of layers \[0, 1, 4\]; the target has {LAYERS}\."
    ):
        build(tiny, deep)


def test_head_that_maps_outside_the_vocabulary_is_refused(tiny: TinyModels, tmp_path: Path) -> None:
    far = with_tensors(tiny, tmp_path / "far", d2t=torch.full((tiny.vocab_size // 2,), 500))

    with pytest.raises(SpecmonError, match=r"maps its vocabulary \(d2t\) outside the target's"):
        build(tiny, far)


def test_head_with_its_own_vocabulary_needs_a_map(tiny: TinyModels, tmp_path: Path) -> None:
    with pytest.raises(SpecmonError, match="has a vocabulary of its own but no d2t"):
        build(tiny, with_tensors(tiny, tmp_path / "unmapped", d2t=None))


def test_head_of_another_shape_is_refused(tiny: TinyModels, tmp_path: Path) -> None:
    thin = with_tensors(tiny, tmp_path / "thin", fc__weight=torch.zeros(HIDDEN, 2 * HIDDEN))

    with pytest.raises(SpecmonError, match=r"stores fc\.weight as \[64, 128\] where .* says \[64, 192\]"):
        build(tiny, thin)


def test_head_without_a_tensor_is_refused(tiny: TinyModels, tmp_path: Path) -> None:
    with pytest.raises(SpecmonError, match=r"has no tensor norm\.weight"):
        build(tiny, with_tensors(tiny, tmp_path / "bare", norm__weight=None))
