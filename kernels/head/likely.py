"""The likeliest tokens of rows of logits, best first, and their probabilities (Triton).

A tile leaves its best logits b_t,1 ≥ b_t,2 ≥ … with their tokens, and its mass m_t = Σ exp(logit − b_t,1). The best of all
tiles' are the row's; a token's probability is exp(logit − b) ÷ Σ_t m_t · exp(b_t,1 − b), b being the best of all. Ties go
to the lower token. What `reference.top_rows` says in torch, whose search takes many launches.
Source: the merge is that of online softmax, Milakov and Gimelshein 2018.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from specmon.kernels.stream.launch import launch_options
from specmon.kernels.stream.overlap import await_previous, let_next_start
from specmon.kernels.stream.scaled import ROWS

#: Most tokens it finds of a row: each is one more look at all that is left.
MOST = 32

_TILE = 2048
_NO_TOKEN = tl.constexpr(2147483647)


@triton.jit
def likely_tiles_kernel(
    logits_ptr, value_ptr, token_ptr, mass_ptr, V: tl.constexpr, COUNT: tl.constexpr, BN: tl.constexpr, PDL: tl.constexpr
):  # fmt: skip
    """The best of each tile of BN logits. Grid: (tiles, rows).

    Shapes: logits [rows, V] fp32; value [rows, tiles, COUNT] fp32 and token alike, int32; mass [rows, tiles] fp32.
    """
    tile, row = tl.program_id(0), tl.program_id(1)
    rn = tile * BN + tl.arange(0, BN)
    at = row * tl.num_programs(0) + tile
    await_previous(PDL)
    x = tl.load(logits_ptr + row.to(tl.int64) * V + rn, mask=rn < V, other=float("-inf"))
    let_next_start(PDL)
    tl.store(mass_ptr + at, tl.sum(tl.exp(x - tl.max(x, axis=0)), axis=0))
    for i in range(COUNT):
        best = tl.max(x, axis=0)
        token = tl.min(tl.where(x == best, rn, _NO_TOKEN), axis=0)
        tl.store(value_ptr + at * COUNT + i, best)
        tl.store(token_ptr + at * COUNT + i, token)
        x = tl.where(rn == token, float("-inf"), x)


@triton.jit
def likely_kernel(
    value_ptr, token_ptr, mass_ptr, name_ptr, found_ptr, found_here_ptr, prob_here_ptr,
    V: tl.constexpr, TILES: tl.constexpr, COUNT: tl.constexpr, NAMED: tl.constexpr, PDL: tl.constexpr,
):  # fmt: skip
    """The best of all tiles' best. NAMED: found[i] = name[that token]. Grid: rows.

    Shapes: value, token, mass as `likely_tiles_kernel` leaves them; name [V] int64; found, found_here [rows, COUNT] int64,
    prob_here alike, fp32.
    """
    row = tl.program_id(0)
    rt = tl.arange(0, triton.next_power_of_2(TILES))
    rc = tl.arange(0, triton.next_power_of_2(TILES * COUNT))
    let_next_start(PDL)
    await_previous(PDL)
    first = tl.load(value_ptr + (row * TILES + rt) * COUNT, mask=rt < TILES, other=float("-inf"))
    mass = tl.load(mass_ptr + row * TILES + rt, mask=rt < TILES, other=0.0)
    top = tl.max(first, axis=0)
    whole = tl.sum(mass * tl.exp(first - top), axis=0)
    inside = rc < TILES * COUNT
    x = tl.load(value_ptr + row * TILES * COUNT + rc, mask=inside, other=float("-inf"))
    tokens = tl.load(token_ptr + row * TILES * COUNT + rc, mask=inside, other=_NO_TOKEN)
    for i in range(COUNT):
        best = tl.max(x, axis=0)
        token = tl.min(tl.where(x == best, tokens, _NO_TOKEN), axis=0)
        x = tl.where(tokens == token, float("-inf"), x)
        known = tl.minimum(token, V - 1)  # logits that are no numbers have no best
        named = tl.load(name_ptr + known) if NAMED else known.to(tl.int64)
        at = row * COUNT + i
        tl.store(found_ptr + at, named)
        tl.store(found_here_ptr + at, named)
        tl.store(prob_here_ptr + at, tl.exp(best - top) / whole)


class LikelyRows:
    """Finds the `count` likeliest of `n_tokens` tokens of up to 16 rows.

    Args:
        names: token ids of the logits [n_tokens] int64; without it a logit's number is its token.
    Raises: ValueError for more than 32 tokens, or more than there are.
    """

    def __init__(self, n_tokens: int, count: int, device: torch.device, names: Tensor | None = None) -> None:
        if not 0 < count <= min(MOST, n_tokens):
            raise ValueError(f"{count} likely tokens of {n_tokens}: at most {MOST} can be found")
        self._n_tokens, self._count, self._names = n_tokens, count, names
        tiles = -(-n_tokens // _TILE)
        self._values = torch.zeros(ROWS, tiles, count, device=device)
        self._tokens = torch.zeros(ROWS, tiles, count, dtype=torch.int32, device=device)
        self._masses = torch.zeros(ROWS, tiles, device=device)
        self._found = torch.zeros(ROWS, count, dtype=torch.int64, device=device)

    def __call__(self, logits: Tensor, n_rows: int, found_here: Tensor, prob_here: Tensor) -> Tensor:
        """Queue it for the first `n_rows` rows.

        Shapes: logits [≥ n_rows, n_tokens] fp32, contiguous; found_here [≥ n_rows, count] int64 and prob_here alike, fp32,
        where the device reaches them, get what is found too. Returns: the tokens [n_rows, count] int64.
        """
        names, options = self._names, launch_options(logits.device)
        tiles, count = self._values.shape[1], self._count
        parts = self._values, self._tokens, self._masses
        likely_tiles_kernel[(tiles, n_rows)](
            logits, *parts, V=self._n_tokens, COUNT=count, BN=_TILE, num_warps=4, **options
        )
        likely_kernel[(n_rows,)](
            *parts,
            self._tokens if names is None else names,
            self._found,
            found_here,
            prob_here,
            V=self._n_tokens,
            TILES=tiles,
            COUNT=count,
            NAMED=names is not None,
            num_warps=8,
            **options,
        )
        return self._found[:n_rows]
