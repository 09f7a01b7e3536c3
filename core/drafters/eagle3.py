"""EAGLE-3: a one-layer head that drafts from the target's own features.

Shapes: R rows, D hidden size, V' the head's vocabulary. The layer's attention reads cat(norm(embedding), norm(feature))
[R, 2D]; its residual stream is the un-normed feature; its output, before the final norm, is the next step's feature.
The token at position p is paired with the feature at p-1 and rotated at p-1, which is also its slot.
Source: Li et al. 2025, "EAGLE-3".
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn import functional as F

from specmon.core.drafters.base import DrafterInfo
from specmon.core.drafters.line import Again, Likely, Line, Lines, likely_by_steps, propose_by_steps
from specmon.core.models.config import ModelConfig
from specmon.core.models.kv import KvCache
from specmon.core.models.passes import (
    MAX_ROWS,
    BranchesOut,
    BranchStart,
    LikelyOut,
    Pick,
    TreeOut,
    warming_branches,
    warming_picks,
)
from specmon.core.models.placement import Placement, Rows
from specmon.core.models.pool import Progress
from specmon.core.models.prefill import FEATURES_CHUNK, SIZES, chunk_plan, size_for
from specmon.core.models.recipe import Recipe
from specmon.core.models.replays import wait_for
from specmon.core.models.transformer import Attention, Mlp
from specmon.kernels.linear import Linear
from specmon.kernels.registry import TRITON
from specmon.kernels.rmsnorm.reference import rmsnorm
from specmon.kernels.rope.reference import RopeTable

if TYPE_CHECKING:
    from specmon.core.drafters.streamed_eagle3 import StreamedEagle3


@dataclass(frozen=True, kw_only=True)
class Eagle3Head:
    """The head's weights. `to_target` [V'] maps its indices to target token ids.

    `feature_norms`: what the target's features go through before `fc`: one norm over all, one a layer, or none.
    `normed_residual`: the residual stream begins after `hidden_norm`, not before it.
    """

    config: ModelConfig
    tap_layers: tuple[int, ...]
    embedding_VD: Tensor
    fc: Linear
    input_norm: Tensor
    hidden_norm: Tensor
    attention: Attention
    post_norm: Tensor
    mlp: Mlp
    norm: Tensor
    head: Linear
    to_target: Tensor
    rope: RopeTable
    feature_norms: tuple[Tensor, ...] = ()
    normed_residual: bool = False

    @property
    def weight_bytes(self) -> int:
        """Bytes one drafting step reads (`fc` is read only when real features arrive and is left out)."""
        linears = (self.attention.qkv, self.attention.o, self.mlp.gate_up, self.mlp.down, self.head)
        return sum(linear.weight_bytes for linear in linears)

    def widen(self, features_NF: Tensor) -> Tensor:
        """The target's features as the head's own [N, D]."""
        if self.feature_norms:
            parts = torch.chunk(features_NF, len(self.feature_norms), dim=-1)
            eps = self.config.norm_eps
            normed = [rmsnorm(part, norm, eps) for part, norm in zip(parts, self.feature_norms, strict=True)]
            features_NF = torch.cat(normed, dim=-1)
        return self.fc(features_NF)

    def layer(
        self, ids_R: Tensor, feature_RD: Tensor, kv: KvCache, placement: Placement
    ) -> tuple[Tensor, Tensor]:
        """One pass. Returns: logits [R, V'] and the output features [R, D]."""
        eps = self.config.norm_eps
        x_RD = feature_RD.to(torch.float32, copy=True)
        both = self._paired(ids_R, x_RD)
        if self.normed_residual:
            x_RD = both[:, self.config.hidden_size :].clone()
        rotation = self.rope.rows(placement.positions)
        x_RD += self.attention(both, self.config, rotation, kv, 0, placement)
        x_RD += self.mlp(rmsnorm(x_RD, self.post_norm, eps))
        return self.head(rmsnorm(x_RD, self.norm, eps)), x_RD

    def keep(self, ids_R: Tensor, features_RF: Tensor, kv: KvCache, start: int, *, padded_to: int) -> None:
        """Keys and values of confirmed rows in the slots from `start` on: with one layer they hang on no attention.

        `padded_to`: rows that matmuls are given, the others being zeros.
        """
        n_rows = len(ids_R)
        more = padded_to - n_rows
        features = self.widen(F.pad(features_RF, (0, 0, 0, more))).float()
        both = self._paired(F.pad(ids_R, (0, more)), features)
        cos, sin = (
            F.pad(part, (0, 0, 0, 0, 0, more)) for part in self.rope.rows(slice(start, start + n_rows))
        )
        self.attention.keep(both, self.config, (cos, sin), kv, 0, start, n_rows)

    def _paired(self, ids_R: Tensor, feature_RD: Tensor) -> Tensor:
        """What the layer's attention reads [R, 2D]."""
        eps = self.config.norm_eps
        embedded = rmsnorm(self.embedding_VD[ids_R], self.input_norm, eps)
        return torch.cat([embedded, rmsnorm(feature_RD, self.hidden_norm, eps)], dim=-1)


class Eagle3Stepper:
    """Steps an EAGLE-3 head on its own one-layer KV cache; `drafts` proposes a whole line at once where kernels can."""

    lag = 1
    corrects = True

    def __init__(
        self, head: Eagle3Head, kv: KvCache, label: str, drafts: StreamedEagle3 | None = None
    ) -> None:
        self.model = head
        self.kv = kv
        self._drafts = drafts
        self.info = DrafterInfo(
            kind="eagle3",
            label=label,
            tap_layers=head.tap_layers,
            weight_bytes=head.weight_bytes,
            kv_bytes_per_token=kv.bytes_per_token,
        )

    @property
    def one_piece(self) -> bool:
        return self._drafts is not None

    def take_in(self, tokens: list[int], first: int, features_ND: Tensor | None) -> None:
        """Append confirmed tokens at positions first … with the target's features one position before each."""
        features_ND = _as_many(features_ND, tokens)
        device, slot = self.kv.keys(0).device, first - self.lag
        ids = torch.tensor(tokens, device=device)
        for start, length in chunk_plan(slot, len(tokens), FEATURES_CHUNK):
            part = slice(start - slot, start - slot + length)
            # Libraries choose, and load, other kernels for other numbers of rows: those of SIZES are warm.
            rows = length if self._drafts is None else size_for(length)
            self.model.keep(ids[part], features_ND[part].to(device), self.kv, start, padded_to=rows)
        wait_for(device)

    def draft(
        self, tokens: list[int], first: int, features_ND: Tensor | None, count: int, *, guesses: bool
    ) -> Line:
        """Append confirmed tokens with their features and propose `count`; without kernels the logits are there anyway."""
        features_ND = _as_many(features_ND, tokens)
        fed_before = len(tokens) > MAX_ROWS
        if fed_before:
            self.take_in(tokens[:-1], first, features_ND[:-1])
            tokens, first, features_ND = tokens[-1:], first + len(tokens) - 1, features_ND[-1:]
        if self._drafts is None:
            return self._draft_by_steps(tokens, first, features_ND, count)
        out = self._drafts(tokens, first - self.lag, features_ND, max(count, 1), guesses=guesses)
        return Line(
            tokens=out.tokens[:count],
            probs=out.probs[:count],
            logits=list(torch.split(out.logits, 1)) if out.logits is not None else [],
            carries=list(torch.split(out.carries, 1)) if out.carries is not None else [],
            fed=max(count - 1, 0),
            source="real",
            launches=None if fed_before else out.launches,
        )

    def _draft_by_steps(self, tokens: list[int], first: int, features_ND: Tensor, count: int) -> Line:
        device = self.kv.keys(0).device
        ids, features = torch.tensor(tokens, device=device), self.model.widen(features_ND.to(device))
        logits, carry = self.model.layer(ids, features, self.kv, Rows(first - self.lag, len(tokens)))
        line = Line(logits=[logits[-1:]], carries=[carry[-1:]], source="real")
        propose_by_steps(self, line, first + len(tokens), count)
        return line

    def warm(self, draft_len: int, *, guesses: bool, progress: Progress, n_branches: int = 0) -> None:
        """Draft once after each number of tokens a round may confirm, so that nothing is compiled or captured in a turn.

        With `guesses` also what SSD does: draft the `n_branches` of a round, with tokens fed again before, and move one.
        """
        if self._drafts is None:
            return
        self._warm_prompts()
        most = min(draft_len + 1, MAX_ROWS)
        for n_rows in range(1, most + 1):
            if self._drafts.captures:
                after = "1 token" if n_rows == 1 else f"{n_rows} tokens"
                progress(f"capturing graphs: draft {draft_len} after {after}", (n_rows - 1) / most)
            nothing = self._no_features(n_rows)
            line = self.draft([0] * n_rows, self.lag, nothing, draft_len, guesses=guesses)
            again = Again(tokens=[0] * n_rows, first=self.lag, features_RF=nothing)
            if guesses and 0 < n_branches <= MAX_ROWS:
                self._warm_branches(line, draft_len, n_branches, again, progress)
            elif guesses:
                self.draft([0] * n_rows, self.lag, nothing, 0, guesses=True)
        if not guesses:
            return
        self.move(list(range(1, 1 + draft_len)), 1)
        if n_branches <= MAX_ROWS:
            return
        self.likely(line, self.lag + most, n_branches + 1)  # one outcome may get all branches
        for batch, done in enumerate(range(0, n_branches, MAX_ROWS)):
            starts = warming_branches(min(n_branches - done, MAX_ROWS), draft_len)
            self.branches(starts, line.carries[:1] * len(starts), draft_len, batch)

    def warm_tree(self, depth: int, width: int, progress: Progress) -> None:
        """Draft a tree once after each number of tokens a round may confirm, and run prompts, as `warm` does."""
        if self._drafts is None:
            return
        self._warm_prompts()
        most = min(depth + 1, MAX_ROWS)
        for n_rows in range(1, most + 1):
            if self._drafts.captures:
                progress(f"capturing graphs: trees of {depth} levels", (n_rows - 1) / most)
            self.tree([0] * n_rows, self.lag, self._no_features(n_rows), depth, width)

    def _warm_prompts(self) -> None:
        for size in (size for size in SIZES if size <= FEATURES_CHUNK):
            n_rows = min(size, self.kv.n_slots)
            self.take_in([0] * n_rows, self.lag, self._no_features(n_rows))

    def _no_features(self, n_rows: int) -> Tensor:
        return torch.zeros(n_rows, self.model.fc.in_features, device=self.model.embedding_VD.device)

    def _warm_branches(
        self, line: Line, draft_len: int, n_branches: int, again: Again, progress: Progress
    ) -> None:
        """Branches off a draft, and off an adopted branch whose tokens are fed again."""
        picks = warming_picks(n_branches, draft_len)
        for fed, at in ((None, "a draft"), (again, f"a branch and {len(again.tokens)} more")):
            if self._drafts is not None and self._drafts.captures:
                progress(f"capturing graphs: {n_branches} branches of {draft_len} off {at}", 1.0)
            off = replace(line, logits=list(line.logits), carries=list(line.carries))
            self.likely_branches(off, self.lag + 1, n_branches + 1, picks, draft_len, fed)

    def tree(
        self, tokens: list[int], first: int, features_ND: Tensor | None, depth: int, width: int
    ) -> TreeOut | None:
        """Append up to 16 confirmed tokens with their features and draft a tree after them, where kernels do so."""
        if self._drafts is None:
            return None
        features_ND = _as_many(features_ND, tokens)
        return self._drafts.tree(tokens, first - self.lag, features_ND, depth, width)

    def step(
        self, ids_R: Tensor, carry_RD: Tensor | None, placement: Placement
    ) -> tuple[Tensor, Tensor | None]:
        """Feed one proposed token in each of R rows, paired with the head's own feature."""
        assert carry_RD is not None
        return self.model.layer(ids_R, carry_RD, self.kv, placement)

    def likely(self, line: Line, n_context: int, count: int) -> Likely:
        """The likeliest tokens after each place of a line, its last token fed where that has no slot yet."""
        if self._drafts is None:
            return likely_by_steps(self, line, n_context, count)
        out, carries_PD = self._drafts.likely(
            line.logits, _known(line.carries), *self._unfed(line, n_context), count
        )
        return _found(line, out, carries_PD)

    def branches(
        self, starts: list[BranchStart], carries: list[Tensor | None], count: int, batch: int
    ) -> Lines | None:
        """Draft `count` tokens along each branch, where kernels do so in one piece."""
        if self._drafts is None:
            return None
        return _lines(*self._drafts.branches(starts, _known(carries), count, batch))

    def likely_branches(
        self, line: Line, n_context: int, count: int, picks: list[Pick], steps: int, again: Again | None
    ) -> tuple[Likely, Lines] | None:
        """Likely tokens and branches that begin with them, where one batch holds those; None where it does not."""
        if self._drafts is None or not 0 < len(picks) <= MAX_ROWS or count > self.model.head.out_features:
            return None
        fed = None if again is None else (again.tokens, again.first - self.lag, again.features_RF)
        if fed is not None:
            line.logits[0], line.carries[0] = self._drafts.after_again(len(fed[0]))
        likely, carries_PD, branches, carries_KBD = self._drafts.likely_branches(
            line.logits, _known(line.carries), *self._unfed(line, n_context), count, picks, steps, fed
        )
        return _found(line, likely, carries_PD), _lines(branches, carries_KBD)

    def move(self, slots: list[int], first: int) -> int | None:
        """Move a branch's slots to the main line."""
        if self._drafts is not None:
            return self._drafts.move(slots, first)
        device = self.model.embedding_VD.device
        into = torch.arange(first, first + len(slots), device=device)
        self.kv.move(torch.tensor(slots, device=device), into)
        return None

    def token_ids(self, indices: Tensor) -> Tensor:
        return self.model.to_target[indices]

    def _unfed(self, line: Line, n_context: int) -> tuple[int | None, int]:
        """The line's last token where that has no slot yet, and its slot."""
        token = line.tokens[-1] if line.fed < len(line.tokens) else None
        return token, n_context + len(line.tokens) - 1 - self.lag


def _as_many(features_ND: Tensor | None, tokens: list[int]) -> Tensor:
    """The features, one a token. Raises: ValueError."""
    if features_ND is None or len(features_ND) != len(tokens):
        raise ValueError(f"{len(tokens)} tokens need as many features")
    return features_ND


def _found(line: Line, out: LikelyOut, carries_PD: Tensor) -> Likely:
    """The likely tokens; the line's last token is fed now."""
    line.logits, line.carries = list(torch.split(out.logits_PV, 1)), list(torch.split(carries_PD, 1))
    line.fed = len(line.tokens)
    return Likely(tokens=out.tokens, probs=out.probs, launches=out.launches)


def _lines(out: BranchesOut, carries_KBD: Tensor) -> Lines:
    return Lines(
        tokens=out.tokens,
        probs=out.probs,
        logits_KBV=out.logits_KBV,
        carries_KBD=carries_KBD,
        launches=out.launches,
    )


def _known(carries: list[Tensor | None]) -> list[Tensor]:
    """A head's carries: each of its steps has one."""
    return [carry for carry in carries if carry is not None]


def stream_eagle3(head: Eagle3Head, kv: KvCache, recipe: Recipe, *, graphs: bool) -> StreamedEagle3 | None:
    """Whole drafts of `head` where the recipe's backend has streaming kernels (Triton is imported only then)."""
    if recipe.backend != TRITON.label:
        return None
    from specmon.core.drafters.streamed_eagle3 import StreamedEagle3

    return StreamedEagle3(head, kv, graphs=graphs)
