"""Acceptance, the winning token and the backend registry."""

from collections.abc import Callable
from itertools import product

import pytest
import torch

from specmon.kernels.accept.reference import accept_length
from specmon.kernels.head.reference import argmax_rows, sharpen_top, top2_margin
from specmon.kernels.registry import TRITON, BackendUnavailableError, choose_backend


@pytest.mark.parametrize("agrees", list(product([True, False], repeat=4)), ids=str)
def test_accept_length_is_the_agreeing_prefix(agrees: tuple[bool, ...]) -> None:
    target = torch.tensor([10, 11, 12, 13, 14])
    draft = torch.where(torch.tensor(agrees), target[:-1], 99)
    expected = next((i for i, agree in enumerate(agrees) if not agree), 4)
    assert accept_length(draft, target) == expected


def test_accept_length_of_no_draft_is_zero() -> None:
    assert accept_length(torch.empty(0, dtype=torch.int64), torch.tensor([3])) == 0


@pytest.mark.parametrize(("draft", "target"), [(2, 2), (2, 4), (0, 0)])
def test_accept_length_refuses_lengths_that_do_not_match(draft: int, target: int) -> None:
    with pytest.raises(ValueError):
        accept_length(torch.zeros(draft, dtype=torch.int64), torch.zeros(target, dtype=torch.int64))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_argmax_takes_the_first_of_equal_logits(dtype: torch.dtype) -> None:
    logits = torch.zeros(3, 50000, dtype=dtype)
    logits[0, [7, 40000]], logits[1, 49999] = 1.0, 2.0
    assert argmax_rows(logits).tolist() == [7, 49999, 0]


def test_margin_is_the_gap_between_the_two_best() -> None:
    assert top2_margin(torch.tensor([1.0, 4.5, -2.0, 4.0])) == 0.5
    assert top2_margin(torch.tensor([3.0, 3.0])) == 0.0


def test_sharpen_top_gives_the_best_tokens_their_fp32_logits() -> None:
    weight, hidden = torch.randn(500, 64), torch.randn(4, 64)
    rounded = (hidden @ weight.t()).bfloat16()
    exact = (hidden.double() @ weight.double().t()).float()
    sharp = sharpen_top(rounded, hidden, weight, None)
    assert torch.equal(sharp.argmax(-1), exact.argmax(-1))
    best = exact.topk(3).indices
    torch.testing.assert_close(sharp.gather(1, best), exact.gather(1, best), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("vocabulary", [5, 3001])
def test_sharpen_top_row_has_the_same_bits_in_any_batch(
    vocabulary: int, threads: int, assert_rows_stand_alone: Callable[..., None]
) -> None:
    weight, scale = torch.randint(-127, 128, (vocabulary, 64), dtype=torch.int8), torch.rand(vocabulary)

    def sharpen(hidden: torch.Tensor) -> torch.Tensor:
        rounded = (hidden[:, None] * weight).sum(-1).bfloat16()
        return sharpen_top(rounded, hidden, weight, scale)

    assert_rows_stand_alone(sharpen, torch.randn(64))


@pytest.mark.parametrize(
    ("name", "recipe", "device_type", "label"),
    [
        ("auto", "bf16", "cuda", TRITON.label),
        ("auto", "fp32", "cuda", "reference-2"),
        ("auto", "q4", "cpu", "reference-2"),
        ("reference", "bf16", "cuda", "reference-2"),
    ],
)
def test_registry_chooses_a_backend(name: str, recipe: str, device_type: str, label: str) -> None:
    assert choose_backend(name, recipe, device_type).label == label


@pytest.mark.parametrize(
    ("name", "recipe", "device_type", "sentence"),
    [
        ("tensorrt", "bf16", "cuda", r"^There is no backend 'tensorrt'; choose auto, reference, triton\.$"),
        ("triton", "q4", "cpu", r"^The backend triton does not run recipe q4 on cpu\.$"),
    ],
)
def test_registry_refuses_what_is_not_there(name: str, recipe: str, device_type: str, sentence: str) -> None:
    with pytest.raises(BackendUnavailableError, match=sentence):
        choose_backend(name, recipe, device_type)
