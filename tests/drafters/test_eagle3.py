"""The EAGLE-3 head against a plain, cacheless restatement of the published computation."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from tests.tiny_models import TinyModels, hf_model
from torch import Tensor
from torch.nn import functional as F

from specmon.core.drafters.chain import ChainDrafter
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
