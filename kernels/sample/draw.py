"""Gumbel-max over a vocabulary: every tile of a row names its winner, and a second kernel the winner of those (Triton).

The formula, and how noise follows from seed, position and token, stand in `reference`: the same random words bit for bit,
the same token but where two scores differ by the rounding of a logarithm.
"""

from __future__ import annotations

import triton
import triton.language as tl

from specmon.kernels.stream.head import leader
from specmon.kernels.stream.overlap import await_previous, let_next_start


@triton.jit
def token_words(seed, position, first, BLOCK: tl.constexpr):
    """The random words of tokens first … first + BLOCK − 1, [BLOCK] uint32; first a multiple of 4."""
    four = first // 4 + tl.arange(0, BLOCK // 4)
    zero = four * 0
    a, b, c, d = tl.philox(seed, four, zero + position, zero, zero)
    return tl.interleave(tl.interleave(a, c), tl.interleave(b, d))


@triton.jit
def gumbel(words):
    """A standard Gumbel variate of each word: −log(−log(1 − u)).

    log(1 − u) = log(w) u / (1 − w) with w = 1 − u as rounded is right to the last bits for the smallest u too.
    Source: Kahan, in the HP-15C Advanced Functions Handbook, 1982.
    """
    uniform = tl.minimum((words.to(tl.float32) + 0.5) * 2.3283064365386963e-10, 1 - 5.960464477539063e-08)
    rest = 1 - uniform
    lost = tl.where(rest == 1, 1.0, 1 - rest)
    waited = tl.where(rest == 1, uniform, -tl.log(rest) * (uniform / lost))
    return -tl.log(waited)


@triton.jit
def draw_kernel(
    logits_ptr, logits_row, floor_ptr, position_ptr, seed_ptr, inverse_ptr, best_ptr, second_ptr, index_ptr,
    V: tl.constexpr, BLOCK: tl.constexpr, PDL: tl.constexpr,
):  # fmt: skip
    """The best and second-best score of a tile, and the token of the best; ties go to the lower one. Grid: (tiles, rows).

    Shapes: logits [R, V] fp32, rows `logits_row` apart; floor [R] fp32; position [R] int32; seed [1] int64; inverse [1]
    fp32, 1 / temperature; best, second, index [tiles, 16].
    """
    tile, row = tl.program_id(0), tl.program_id(1)
    first = tile * BLOCK
    token = first + tl.arange(0, BLOCK)
    await_previous(PDL)
    seed, position = tl.load(seed_ptr), tl.load(position_ptr + row)
    floor, inverse = tl.load(floor_ptr + row), tl.load(inverse_ptr)
    logit = tl.load(logits_ptr + row.to(tl.int64) * logits_row + token, mask=token < V, other=float("-inf"))
    let_next_start(PDL)
    score = logit * inverse + gumbel(token_words(seed, position, first, BLOCK))
    score = tl.where((token < V) & (logit >= floor), score, float("-inf"))
    best = tl.max(score, axis=0)
    index = tl.min(tl.where((score == best) & (token < V), token, V), axis=0)
    at = tile * 16 + row
    tl.store(best_ptr + at, best)
    tl.store(second_ptr + at, tl.max(tl.where(token == index, float("-inf"), score), axis=0))
    tl.store(index_ptr + at, index)


@triton.jit
def drawn_kernel(
    best_ptr, second_ptr, index_ptr, token_ptr, margin_ptr, TILES: tl.constexpr, PDL: tl.constexpr
):
    """token[row] = the lowest token of the row's best score; margin[row] = best − second best, over all tiles.

    Grid: (rows,). Shapes: best, second, index as in `draw_kernel`; token [rows] int64; margin [rows] fp32.
    """
    row = tl.program_id(0)
    let_next_start(PDL)
    await_previous(PDL)
    rt = tl.arange(0, triton.next_power_of_2(TILES))
    _, top, token, runner_up = leader(best_ptr, second_ptr, index_ptr, rt * 16 + row, rt < TILES)
    tl.store(token_ptr + row, token.to(tl.int64))
    tl.store(margin_ptr + row, top - runner_up)
