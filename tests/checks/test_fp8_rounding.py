"""What rounding to e4m3 costs by itself: Hugging Face in fp32 on rounded numbers, no kernel of ours.

The bounds that `check quality` holds fp8 to rest on it.
"""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from specmon.core.checks.hugging_face import HuggingFace
from specmon.core.checks.quality import BOUNDS
from specmon.core.checks.text import text_ids
from specmon.core.models.source import open_model
from specmon.core.paths import cache_dir
from specmon.kernels.quantise.reference import quantise_channels, quantise_groups, widen_groups

GROUP = 128  # inputs that share a scale


@pytest.mark.embedded
def test_bounds_of_fp8_are_what_its_rounding_costs_and_little_more() -> None:
    source = open_model("smollm2", cache_dir())
    ids = text_ids(source.tokenizer(), 4096)
    following_N = torch.tensor(ids[1:])
    runner = HuggingFace(source, "cpu")
    exact_NV = runner.logits(ids, torch.float32)[:-1]
    linears = {name: part for name, part in runner._model.named_modules() if isinstance(part, nn.Linear)}
    head = linears.pop("lm_head")

    for recipe, further in (("fp8-bf16-head", list(linears.values())), ("fp8", [head])):
        for linear in further:
            round_to_e4m3(linear)
        rounded_NV = runner.logits(ids, torch.float32)[:-1]

        over_fp32 = math.exp(loss(rounded_NV, following_N) - loss(exact_NV, following_N))
        top1 = (rounded_NV.argmax(-1) == exact_NV.argmax(-1)).float().mean().item()
        bound = BOUNDS[recipe]
        assert over_fp32 <= bound.perplexity
        assert bound.top1 <= top1 <= bound.top1 + 0.03


def round_to_e4m3(linear: nn.Linear) -> None:
    """Round its weights a channel, and what it is given a row and group, as the kernels do."""
    rounded_NK, scale_N = quantise_channels(linear.weight.data)
    linear.weight = nn.Parameter(rounded_NK.float() * scale_N[:, None])  # its own: a tied embedding stays
    linear.register_forward_pre_hook(lambda _, inputs: (rounded(inputs[0]),))


def rounded(x_BTK: Tensor) -> Tensor:
    flat_RK = x_BTK.reshape(-1, x_BTK.shape[-1])
    return widen_groups(*quantise_groups(flat_RK, GROUP), GROUP).view_as(x_BTK)


def loss(logits_NV: Tensor, following_N: Tensor) -> float:
    return nn.functional.cross_entropy(logits_NV, following_N).item()
