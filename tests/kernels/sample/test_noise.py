"""Random words: the published answers, the same integers from torch and Triton, a function of seed, position and token."""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl
from torch import Tensor

from specmon.kernels.sample.draw import gumbel as triton_gumbel
from specmon.kernels.sample.draw import token_words as triton_token_words
from specmon.kernels.sample.reference import gumbel, philox, token_words

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
#: Random123's kat_vectors for "philox4x32 10": counter, key, answer.
KNOWN = [
    ("00000000 00000000 00000000 00000000", "00000000 00000000", "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    ("ffffffff ffffffff ffffffff ffffffff", "ffffffff ffffffff", "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    ("243f6a88 85a308d3 13198a2e 03707344", "a4093822 299f31d0", "d16cfe09 94fdcceb 5001e420 24126ea1"),
]
SEEDS = [0, 1, -7, 2**31, 2**40 + 3, -(2**63), 2**63 - 1]


def numbers(text: str) -> list[int]:
    return [int(word, 16) for word in text.split()]


@triton.jit
def _philox_kernel(counter_ptr, key_ptr, out_ptr):
    one = tl.arange(0, 1)
    c0, c1, c2, c3 = (
        tl.load(counter_ptr + one).to(tl.uint32),
        tl.load(counter_ptr + 1 + one).to(tl.uint32),
        tl.load(counter_ptr + 2 + one).to(tl.uint32),
        tl.load(counter_ptr + 3 + one).to(tl.uint32),
    )
    a, b, c, d = tl.philox(tl.load(key_ptr), c0, c1, c2, c3)
    tl.store(out_ptr + one, a.to(tl.int64))
    tl.store(out_ptr + 1 + one, b.to(tl.int64))
    tl.store(out_ptr + 2 + one, c.to(tl.int64))
    tl.store(out_ptr + 3 + one, d.to(tl.int64))


@triton.jit
def _noise_kernel(seed_ptr, position_ptr, words_ptr, gumbel_ptr, V: tl.constexpr, BLOCK: tl.constexpr):
    first = tl.program_id(0) * BLOCK
    token = first + tl.arange(0, BLOCK)
    words = triton_token_words(tl.load(seed_ptr), tl.load(position_ptr), first, BLOCK)
    tl.store(words_ptr + token, words.to(tl.int64), mask=token < V)
    tl.store(gumbel_ptr + token, triton_gumbel(words), mask=token < V)


@triton.jit
def _gumbel_kernel(words_ptr, out_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(out_ptr + at, triton_gumbel(tl.load(words_ptr + at).to(tl.uint32)))


def triton_noise(seed: int, position: int, n_tokens: int) -> tuple[Tensor, Tensor]:
    """Words and variates of each token, from the kernel's own functions."""
    words = torch.zeros(n_tokens, dtype=torch.int64, device=DEVICE)
    noise = torch.zeros(n_tokens, device=DEVICE)
    _noise_kernel[(-(-n_tokens // 64),)](
        torch.tensor([seed], device=DEVICE), torch.tensor([position], dtype=torch.int32, device=DEVICE),
        words, noise, V=n_tokens, BLOCK=64,
    )  # fmt: skip
    return words.cpu(), noise.cpu()


@pytest.mark.parametrize(("counter", "key", "answer"), KNOWN)
def test_philox_gives_the_published_answers(counter: str, key: str, answer: str) -> None:
    c0, c1, c2, c3 = (torch.tensor([word]) for word in numbers(counter))
    k0, k1 = numbers(key)

    assert [int(word) for word in philox((c0, c1, c2, c3), (k0, k1))] == numbers(answer)


@pytest.mark.parametrize(("counter", "key", "answer"), KNOWN)
def test_tritons_philox_gives_the_published_answers(counter: str, key: str, answer: str) -> None:
    k0, k1 = numbers(key)
    signed = ((k1 << 32 | k0) + 2**63) % 2**64 - 2**63
    out = torch.zeros(4, dtype=torch.int64, device=DEVICE)
    _philox_kernel[(1,)](
        torch.tensor(numbers(counter), device=DEVICE), torch.tensor([signed], device=DEVICE), out
    )

    assert out.tolist() == numbers(answer)


@pytest.mark.parametrize("n_tokens", [1, 6, 301])
@pytest.mark.parametrize("seed", SEEDS)
def test_torch_and_triton_draw_the_same_words(seed: int, n_tokens: int) -> None:
    for position in (0, 1, 77, 2**31 - 1):
        words, noise = triton_noise(seed, position, n_tokens)
        expected = token_words(seed, torch.tensor([position]), n_tokens)[0]

        assert torch.equal(words, expected)
        torch.testing.assert_close(noise, gumbel(expected), rtol=1e-6, atol=1e-6)


def test_a_word_depends_on_seed_position_and_token_alone() -> None:
    few = token_words(5, torch.tensor([3, 9]), 10)
    many = token_words(5, torch.tensor([8, 9, 3]), 4000)

    assert torch.equal(many[[2, 1], :10], few)
    assert not torch.equal(many[0], many[1])
    assert not torch.equal(token_words(6, torch.tensor([3, 9]), 10), few)
    assert not torch.equal(token_words(5 + 2**32, torch.tensor([3, 9]), 10), few)
    assert many.unique().numel() == many.numel()


def test_the_extreme_words_give_finite_variates() -> None:
    words = torch.tensor([0, 1, 127, 128, 2**31, 2**32 - 2, 2**32 - 1, 5])
    out = torch.zeros(8, device=DEVICE)
    _gumbel_kernel[(1,)](words.to(DEVICE), out, N=8)
    exact = -torch.log(-torch.log1p(-((words.double() + 0.5) * 2.0**-32).clamp(max=1 - 2.0**-24)))

    for found in (gumbel(words), out.cpu()):
        assert bool(torch.isfinite(found).all())
        torch.testing.assert_close(found.double(), exact, rtol=1e-6, atol=1e-6)
    assert float(gumbel(words).max()) > 22


def test_variates_have_the_gumbel_distribution() -> None:
    noise = gumbel(token_words(1, torch.arange(25), 4000)).double().flatten().sort().values
    n = len(noise)
    distance = ((-(-noise).exp()).exp() - (torch.arange(n) + 0.5) / n).abs().max() + 0.5 / n

    assert float(distance) * n**0.5 < 1.95  # Kolmogorov and Smirnov: exceeded once in a thousand
    assert float(noise.mean()) == pytest.approx(0.57722, abs=0.02)
