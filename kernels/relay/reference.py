"""What settling a round comes to, in plain Python."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from torch import Tensor

from specmon.kernels.accept.reference import agreeing


@dataclass(frozen=True, kw_only=True)
class Settlement:
    """How a round ended. `tokens`: the next round's, the pending one first; None where generation is over."""

    accepted_len: int
    emitted: tuple[int, ...]
    tokens: tuple[int, ...] | None


def settle(
    draft: Sequence[int],
    choices: Sequence[int],
    branches: Mapping[tuple[int, int], Sequence[int]],
    otherwise: Sequence[int],
    *,
    left: int,
    last: Sequence[int],
) -> Settlement:
    """Accept the longest prefix of `draft` that `choices` [K + 1] begins with, and find the next draft.

    Args:
        branches: drafts by outcome (accepted_len, bonus). otherwise: the draft made where there is none for it.
        left: tokens that may still be emitted. last: tokens that end generation.
    """
    accepted_len = agreeing(draft, choices)
    emitted = tuple(choices[: accepted_len + 1])
    if left <= len(emitted) or set(emitted) & set(last):
        return Settlement(accepted_len=accepted_len, emitted=emitted, tokens=None)
    following = branches.get((accepted_len, emitted[-1]), otherwise)
    return Settlement(accepted_len=accepted_len, emitted=emitted, tokens=(emitted[-1], *following))


def post(board_2RF: Tensor, features_RF: Tensor, serial: int) -> None:
    """Features of round `serial` go to its place, modulo 2. Shapes: board_2RF [2, 16, F]; features_RF [R, F], R ≤ 16."""
    board_2RF[serial % 2, : len(features_RF)] = features_RF
