"""Inverse frequencies of rotary embeddings, with the context extensions of published models."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor


def inverse_frequencies(
    head_dim: int, theta: float, scaling: Mapping[str, Any] | None = None, max_len: int | None = None
) -> tuple[Tensor, float]:
    """Inverse frequencies [head_dim/2] fp32, and the factor that multiplies cos and sin.

    Args:
        scaling: a model config's `rope_scaling` (or `rope_parameters`): None or type "default", "linear",
            "llama3" or "yarn".
        max_len: the config's `max_position_embeddings`; YaRN needs it where `factor` is missing.
    Raises: ValueError for another type.
    """
    exponent = torch.arange(0, head_dim, 2, dtype=torch.float64) / head_dim
    inverse = theta**-exponent
    scaling = scaling or {}
    kind = scaling.get("rope_type", scaling.get("type", "default"))
    if kind == "default":
        return inverse.float(), 1.0
    if kind == "linear":
        return (inverse / float(scaling["factor"])).float(), 1.0
    if kind == "llama3":
        return _llama3(inverse, scaling).float(), 1.0
    if kind == "yarn":
        scaled, attention_factor = _yarn(inverse, head_dim, theta, scaling, max_len)
        return scaled.float(), attention_factor
    raise ValueError(f"RoPE scaling {kind!r} is not supported")


def _llama3(inverse: Tensor, scaling: Mapping[str, Any]) -> Tensor:
    """Stretch long wavelengths by `factor`, keep short ones, blend between. Source: Llama 3.1's release."""
    factor, original = float(scaling["factor"]), float(scaling["original_max_position_embeddings"])
    low, high = float(scaling["low_freq_factor"]), float(scaling["high_freq_factor"])
    turns = original * inverse / (2 * math.pi)  # rotations within the original context
    keep = ((turns - low) / (high - low)).clamp(0, 1)
    return inverse * (keep + (1 - keep) / factor)


def _yarn(
    inverse: Tensor, head_dim: int, theta: float, scaling: Mapping[str, Any], max_len: int | None
) -> tuple[Tensor, float]:
    """Interpolate slow dimensions, keep fast ones, ramp between. Source: Peng et al. 2023, section 3.2."""
    original = float(scaling.get("original_max_position_embeddings") or max_len or 0)
    if original <= 0:
        raise ValueError("YaRN needs original_max_position_embeddings")
    factor = float(scaling.get("factor") or (max_len or original) / original)

    def dimension(turns: float) -> float:
        return head_dim * math.log(original / (turns * 2 * math.pi)) / (2 * math.log(theta))

    low, high = (
        dimension(float(scaling.get("beta_fast") or 32)),
        dimension(float(scaling.get("beta_slow") or 1)),
    )
    if scaling.get("truncate", True):
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, head_dim - 1)
    ramp = ((torch.arange(len(inverse), dtype=torch.float64) - low) / max(high - low, 0.001)).clamp(0, 1)
    return inverse * (1 - ramp) + inverse / factor * ramp, _yarn_attention_factor(factor, scaling)


def _yarn_attention_factor(factor: float, scaling: Mapping[str, Any]) -> float:
    """The magnitude correction of cos and sin, 0.1·ln(factor) + 1 unless the config says otherwise."""

    def magnitude(weight: float) -> float:
        return 0.1 * weight * math.log(factor) + 1.0 if factor > 1 else 1.0

    if scaling.get("attention_factor") is not None:
        return float(scaling["attention_factor"])
    if scaling.get("mscale") and scaling.get("mscale_all_dim"):
        return magnitude(float(scaling["mscale"])) / magnitude(float(scaling["mscale_all_dim"]))
    return magnitude(1.0)
