"""Rotary frequencies against Hugging Face's own, for every kind that is supported."""

from typing import Any

import pytest
import torch

from specmon.kernels.rope.frequencies import inverse_frequencies

SCALINGS: dict[str, dict[str, Any]] = {
    "default": {},
    "linear": {"factor": 4.0},
    "llama3": {
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
    },
    "yarn": {"factor": 4.0, "original_max_position_embeddings": 32768},
    "yarn tuned": {
        "factor": 40.0,
        "original_max_position_embeddings": 4096,
        "beta_fast": 16.0,
        "beta_slow": 2.0,
        "mscale": 1.0,
        "mscale_all_dim": 0.8,
    },
}


@pytest.mark.parametrize("name", SCALINGS)
def test_frequencies_match_hugging_face(name: str) -> None:
    transformers = pytest.importorskip("transformers")
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    kind, parameters = name.split()[0], SCALINGS[name]
    config = transformers.LlamaConfig(
        hidden_size=512,
        num_attention_heads=4,
        max_position_embeddings=131072,
        rope_parameters={"rope_type": kind, "rope_theta": 5e5, **parameters},
    )
    if kind == "default":
        expected, factor = 1 / 5e5 ** (torch.arange(0, 128, 2) / 128), 1.0
    else:
        expected, factor = ROPE_INIT_FUNCTIONS[kind](config, torch.device("cpu"))
    found, found_factor = inverse_frequencies(128, 5e5, {"rope_type": kind, **parameters}, 131072)
    torch.testing.assert_close(found, expected, rtol=2e-6, atol=0)
    assert found_factor == pytest.approx(factor)


def test_frequencies_without_scaling_are_the_default() -> None:
    plain, factor = inverse_frequencies(64, 1e5)
    assert torch.equal(plain, inverse_frequencies(64, 1e5, {"rope_type": "default"})[0])
    assert factor == 1.0


def test_frequencies_read_the_older_spelling() -> None:
    assert torch.equal(
        inverse_frequencies(64, 1e4, {"type": "linear", "factor": 2})[0], inverse_frequencies(64, 1e4)[0] / 2
    )


def test_frequencies_refuse_an_unknown_kind() -> None:
    with pytest.raises(ValueError, match="longrope"):
        inverse_frequencies(64, 1e4, {"rope_type": "longrope"})


def test_yarn_frequencies_need_the_original_length() -> None:
    with pytest.raises(ValueError, match="original_max_position_embeddings"):
        inverse_frequencies(64, 1e4, {"rope_type": "yarn", "factor": 2.0})
