"""χ² of many sampled tokens: chain SD, tree SD and SSD draw what AR draws, and that is what the target says.

The round loops and acceptance are the real ones; the target is a table of logits by the last token, and its draws at all
positions are made at once, so that 100,000 tokens a decoder take seconds. That whole lanes draw AR's very tokens where
the seed is the same is held in test_agreement.py and test_trees.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, cast

import pytest
import torch
from torch import Tensor

from specmon.core.decoders.fan_out import Given
from specmon.core.decoders.rounds import ar_rounds, sd_rounds, ssd_rounds
from specmon.core.decoders.run import Run
from specmon.core.decoders.sheet import Sheet
from specmon.core.drafters.base import Branches, Outcome, Prepared, Proposal, Settled, Work
from specmon.core.drafters.link import DraftLink
from specmon.core.metrics.acceptance import node_depths
from specmon.kernels.sample.filters import floors
from specmon.kernels.sample.reference import draw_rows, gumbel, inverse_temperature, token_words

N_TOKENS, N_DRAWS, K = 8, 100_000, 3
LOGITS_VV = 1.5 * torch.randn(N_TOKENS, N_TOKENS, generator=torch.Generator().manual_seed(1))
SAMPLINGS = [(0.9, 0, 1.0), (0.7, 5, 1.0), (1.3, 0, 0.8), (0.9, 6, 0.9)]
TREE = (-1, -1, 0, 0, 1, 2)

Sampling = tuple[float, int, float]
Lane = Callable[["TableRun"], Iterator[Any]]


def scores(logits_RV: Tensor, temperature: float, top_k: int, top_p: float) -> Tensor:
    """Logits at the temperature, −inf where the filters leave a token out."""
    inverse = inverse_temperature(temperature)
    outside = logits_RV < floors(logits_RV, inverse, top_k, top_p)[:, None]
    return (logits_RV * inverse).masked_fill(outside, -torch.inf)


@cache
def drawn(sampling: Sampling, seed: int) -> list[list[int]]:
    """The token drawn after each last token, at each position: what `draw_rows` draws, all at once."""
    noise_NV = gumbel(token_words(seed, torch.arange(N_DRAWS + 2 * K), N_TOKENS))
    table = [(noise_NV + row).argmax(dim=1) for row in scores(LOGITS_VV, *sampling)]
    temperature, top_k, top_p = sampling
    few = draw_rows(LOGITS_VV[3].expand(50, -1), range(50), seed, temperature, top_k=top_k, top_p=top_p)
    assert torch.equal(table[3][:50], few)
    return [row.tolist() for row in table]


class TableRun:
    """What the loops ask of a turn, on a target that is a table."""

    pausing, stop_reason = False, None

    def __init__(self, sampling: Sampling, seed: int) -> None:
        self._drawn = drawn(sampling, seed)
        self.tokens, self.accepted = [0], 0

    def going(self) -> bool:
        return len(self.tokens) <= N_DRAWS

    def sync_clock(self) -> tuple[()]:
        return ()

    def open_round(self, draft_len: int = 0) -> Sheet:
        return Sheet(index=0, t0=0, requested_k=draft_len, draft_device=0)

    def begin(self, sheet: Sheet, proposal: Proposal) -> None:
        sheet.proposal = proposal

    def verify(self, sheet: Sheet) -> Outcome:
        proposal, at = sheet.proposal, len(self.tokens)
        parents = proposal.parents or range(-1, len(proposal.tokens) - 1)
        rows = zip((self.tokens[-1], *proposal.tokens), (0, *node_depths(tuple(parents))), strict=True)
        choices = [self._drawn[token][at + depth] for token, depth in rows]
        nodes = proposal.accepted(choices)
        sheet.accepted_len, sheet.bonus = len(nodes), choices[nodes[-1] + 1 if nodes else 0]
        outcome = Outcome(accepted=tuple(proposal.tokens[node] for node in nodes), bonus=sheet.bonus)
        self.tokens += [*outcome.accepted, outcome.bonus]
        self.accepted += len(nodes)
        return outcome

    def close(self, sheet: Sheet) -> tuple[()]:
        return ()

    def drain(self, sheet: Sheet) -> bool:
        return True


class TableLink:
    """A draft model that knows the target's two likeliest tokens after each: chains or trees, and branches."""

    def __init__(self, *, tree: bool = False) -> None:
        self._guesses = LOGITS_VV.topk(2).indices.tolist()
        self._after = [self._tree(last) if tree else self._chain(last) for last in range(N_TOKENS)]
        self._last, self._prepared = 0, Branches(prepared=(), cut_short=False, t0=0, t1=0)

    def draft(self, draft_len: int) -> Proposal:
        return self._after[self._last]

    def prepare(self, widths: tuple[int, ...], draft_len: int) -> None:
        before = (self._last, *self._after[self._last].tokens)
        prepared = [
            Prepared(
                accepted_len=n,
                bonus=bonus,
                rank=rank,
                probability=None,
                proposal=self._after[bonus],
                ready_at=0,
            )
            for n, width in enumerate(widths)
            for rank, bonus in enumerate(self._guesses[before[n]][:width], start=1)
        ]
        self._prepared = Branches(prepared=tuple(prepared), cut_short=False, t0=0, t1=0)

    def outcome(self, outcome: Outcome) -> None:
        self._last = outcome.bonus

    def branches(self) -> Branches:
        return self._prepared

    def settled(self) -> Settled:
        return Settled(received=0, work=Work())

    def _chain(self, last: int) -> Proposal:
        tokens = [last]
        for _ in range(K):
            tokens.append(self._guesses[tokens[-1]][0])
        return Proposal(tokens=tuple(tokens[1:]))

    def _tree(self, last: int) -> Proposal:
        tokens: list[int] = []
        for node, parent in enumerate(TREE):
            above = last if parent < 0 else tokens[parent]
            tokens.append(self._guesses[above][TREE[:node].count(parent)])
        return Proposal(tokens=tuple(tokens), parents=TREE)


LANES: dict[str, Lane] = {
    "ar": lambda run: ar_rounds(cast(Run, run)),
    "sd": lambda run: sd_rounds(cast(Run, run), cast(DraftLink, TableLink()), K),
    "tree": lambda run: sd_rounds(cast(Run, run), cast(DraftLink, TableLink(tree=True)), K),
    "ssd": lambda run: ssd_rounds(cast(Run, run), cast(DraftLink, TableLink()), K, Given((2, 1, 1, 2))),
}


@cache
def run(decoder: str, sampling: Sampling) -> TableRun:
    """A decoder's whole text, under a seed of its own."""
    made = TableRun(sampling, seed=100 + list(LANES).index(decoder))
    assert list(LANES[decoder](made)) == []
    return made


def transitions(decoder: str, sampling: Sampling) -> Tensor:
    """How often each token came after each [V, V], over N_DRAWS tokens."""
    tokens = torch.tensor(run(decoder, sampling).tokens[: N_DRAWS + 1])
    pairs = N_TOKENS * tokens[:-1] + tokens[1:]
    return torch.bincount(pairs, minlength=N_TOKENS**2).view(N_TOKENS, N_TOKENS).double()


def once_in_ten_thousand(degrees: int) -> float:
    """The χ² that so many degrees of freedom exceed once in ten thousand. Source: Wilson and Hilferty 1931."""
    part = 2 / (9 * degrees)
    return float(degrees * (1 - part + 3.719 * part**0.5) ** 3)


@pytest.mark.parametrize("sampling", SAMPLINGS, ids=str)
@pytest.mark.parametrize("decoder", LANES)
def test_tokens_follow_the_targets_distribution(decoder: str, sampling: Sampling) -> None:
    counts = transitions(decoder, sampling)
    chances = scores(LOGITS_VV, *sampling).double().softmax(dim=1)
    expected, kept = counts.sum(dim=1, keepdim=True) * chances, chances > 0

    assert counts[~kept].sum() == 0
    chi_square = float(((counts - expected) ** 2 / expected)[kept].sum())
    assert chi_square < once_in_ten_thousand(int(kept.sum()) - N_TOKENS)


@pytest.mark.parametrize("sampling", SAMPLINGS, ids=str)
@pytest.mark.parametrize("decoder", [name for name in LANES if name != "ar"])
def test_tokens_are_distributed_as_those_of_ar(decoder: str, sampling: Sampling) -> None:
    """Texts of different seeds, so that neither knows the other: do both come from one distribution?"""
    one, other = transitions("ar", sampling), transitions(decoder, sampling)
    both = one + other
    shares = [each.sum(dim=1, keepdim=True) / both.sum(dim=1, keepdim=True) for each in (one, other)]
    seen = both > 0

    chi_square = sum(
        float(((each - share * both) ** 2 / (share * both))[seen].sum())
        for each, share in zip((one, other), shares, strict=True)
    )
    assert chi_square < once_in_ten_thousand(int(seen.sum()) - N_TOKENS)
    assert run(decoder, sampling).accepted > N_DRAWS / 5  # drafts had their part in it
