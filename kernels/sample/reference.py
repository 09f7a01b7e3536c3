"""Sampling by the Gumbel-max trick, with noise that is a pure function of (seed, position, token).

    token = argmax over the kept tokens v of  logit_v / temperature + g_v,   g_v = −log(−log(1 − u_v))

draws from the softmax of the kept logits, since the g_v are independent Gumbel variates. u_v comes from word v mod 4 of
the counter-based generator Philox-4x32-10 at counter (v div 4, position, 0, 0) under the seed as its key: no state, so AR,
SD and SSD draw the same token at a position, and a drafted token is accepted just when it is the one drawn.

With word w, u = min((w + ½) 2⁻³², 1 − 2⁻²⁴) in fp32: the same bits on every device, never 0 or 1, and fine-grained near 0,
where the winners are (probabilities below 2⁻³² are not told apart). Logarithms may differ in their last bits between
devices, and with them the token where two scores are that near.

Legend: R rows, V tokens.
Source: Gumbel 1954 (the maximum trick); Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3" (Philox).
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from specmon.kernels.sample.filters import floors

_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_KEY_STEPS = (0x9E3779B9, 0xBB67AE85)
_ROUNDS = 10
_LOW = 0xFFFF_FFFF
_LARGEST_INVERSE = 1e30  # keeps scaled logits finite; at such temperatures the noise decides nothing

Words = tuple[Tensor, Tensor, Tensor, Tensor]


def philox(counter: Words, key: tuple[int, int]) -> Words:
    """Philox-4x32-10: four random words of each counter.

    Shapes: four words [...] int64 below 2³², as is the result. key: two words below 2³².
    Source: Salmon et al. 2011, section 4.3; known answers in Random123's `kat_vectors`.
    """
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(_ROUNDS):
        # The products take all 64 bits: their sign bit is a digit, which the mask keeps as one.
        low, high = c0 * _MULTIPLIERS[0], c2 * _MULTIPLIERS[1]
        c0 = (high >> 32).bitwise_and_(_LOW).bitwise_xor_(c1).bitwise_xor_(k0)
        c2 = (low >> 32).bitwise_and_(_LOW).bitwise_xor_(c3).bitwise_xor_(k1)
        c1, c3 = high.bitwise_and_(_LOW), low.bitwise_and_(_LOW)
        k0, k1 = (k0 + _KEY_STEPS[0]) & _LOW, (k1 + _KEY_STEPS[1]) & _LOW
    return c0, c1, c2, c3


def token_words(seed: int, positions_R: Tensor, n_tokens: int) -> Tensor:
    """The random word of each token at each position.

    Args:
        seed: any integer; its lowest 64 bits count.
    Shapes: positions_R [R] int64, below 2³². Returns: [R, n_tokens] int64, below 2³².
    """
    four_C = torch.arange(-(-n_tokens // 4), device=positions_R.device)
    position_RC = positions_R[:, None].expand(-1, len(four_C))
    zero = torch.zeros_like(position_RC)
    words = philox((four_C.expand_as(zero), position_RC, zero, zero), (seed & _LOW, (seed >> 32) & _LOW))
    return torch.stack(words, dim=-1).flatten(1)[:, :n_tokens]


def gumbel(words: Tensor) -> Tensor:
    """A standard Gumbel variate, fp32, of each random word."""
    uniform = words.float().add_(0.5).mul_(2.0**-32).clamp_(max=1 - 2.0**-24)
    return uniform.neg_().log1p_().neg_().log_().neg_()


def inverse_temperature(temperature: float) -> float:
    """What logits are multiplied by. Raises: ValueError at temperature 0, which is greedy and draws nothing."""
    if temperature <= 0:
        raise ValueError(f"nothing is drawn at temperature {temperature}")
    return min(1 / temperature, _LARGEST_INVERSE)


def draw_rows(
    logits_RV: Tensor,
    positions: Sequence[int],
    seed: int,
    temperature: float,
    *,
    top_k: int = 0,
    top_p: float = 1.0,
) -> Tensor:
    """Draw one token a row; of equal scores the lower token. Rows are worked on one by one: a row's bits stand alone.

    Args:
        positions: R ints, where each token will stand in the text. top_k, top_p: as `filters.floors` takes them.
    Shapes: logits_RV [R, V] fp32. Returns: [R] int64.
    Raises: ValueError at temperature 0, which is greedy and draws nothing.
    """
    inverse = inverse_temperature(temperature)
    words_RV = token_words(seed, torch.tensor(positions, device=logits_RV.device), logits_RV.shape[1])
    drawn = []
    for row, words_V in zip(torch.split(logits_RV, 1), words_RV, strict=True):
        score_V = gumbel(words_V).add_(row[0] * inverse)
        outside_V = row[0] < floors(row, inverse, top_k, top_p)
        drawn.append(score_V.masked_fill_(outside_V, -torch.inf).argmax())
    return torch.stack(drawn)
