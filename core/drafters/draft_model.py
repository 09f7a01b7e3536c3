"""An independent draft model: a smaller model with the target's vocabulary, or the first rows of it.

Source: Leviathan et al. 2023; Chen et al. 2023.
"""

from __future__ import annotations

import msgspec
import torch
from torch import Tensor

from specmon.core.drafters.base import DrafterInfo
from specmon.core.drafters.line import Again, Likely, Line, Lines
from specmon.core.models.kv import KvCache
from specmon.core.models.passes import (
    MAX_ROWS,
    BranchesOut,
    BranchStart,
    LikelyOut,
    Passes,
    Pick,
    TreeOut,
    warming_branches,
    warming_picks,
)
from specmon.core.models.placement import Placement, Rows
from specmon.core.models.pool import Progress
from specmon.core.models.prefill import chunk_plan
from specmon.core.models.replays import wait_for
from specmon.core.models.transformer import Transformer


class DraftModelStepper:
    """Steps a draft model on its own KV cache.

    A target's token past the rows of its vocabulary is fed as the last of them.
    """

    lag = 0
    corrects = False

    def __init__(self, model: Transformer, kv: KvCache, passes: Passes, label: str) -> None:
        self.model = model
        self.kv = kv
        self._passes = passes
        self._last_row = model.config.vocab_size - 1
        self.info = DrafterInfo(
            kind="draft_model",
            label=label,
            weight_bytes=model.weight_bytes,
            kv_bytes_per_token=kv.bytes_per_token,
        )

    def warm(self, draft_len: int, *, guesses: bool, progress: Progress, n_branches: int = 0) -> None:
        """Draft once after each number of tokens a round may confirm, so that nothing is compiled or captured in a turn.

        Short prompts are run too; a longer one is captured when there is one of its size. `n_branches`: those of a round,
        drafted once too; they need `guesses`.
        """
        self._warm_prompts(progress)
        shapes = [(1, draft_len)] if guesses else [(1, draft_len), (2, draft_len)]
        for done, (n_rows, steps) in enumerate(shapes):
            if self._passes.captures:
                after = "1 token" if n_rows == 1 else f"{n_rows} tokens"
                progress(f"capturing graphs: draft {steps} after {after}", done / len(shapes))
            line = self.draft([0] * n_rows, 0, None, steps, guesses=guesses)
        if not guesses:
            return
        count = n_branches + 1  # one outcome may get all branches
        if self.one_piece and 0 < n_branches <= MAX_ROWS:
            self._say(progress, n_branches, draft_len)
            self.likely_branches(line, 1, count, warming_picks(n_branches, draft_len), draft_len)
            self.move(list(range(1, 1 + draft_len)), 1)
            return
        if self._passes.captures:
            progress(f"capturing graphs: likely tokens after {draft_len}", 1.0)
        self.likely(line, 1, count)
        self.move(list(range(1, 1 + draft_len)), 1)
        for batch, done in enumerate(range(0, n_branches if self.one_piece else 0, MAX_ROWS)):
            n_rows = min(n_branches - done, MAX_ROWS)
            self._say(progress, n_rows, draft_len)
            self._passes.branches(warming_branches(n_rows, draft_len), draft_len, batch)

    def warm_tree(self, depth: int, width: int, progress: Progress) -> None:
        """Draft a tree once after each number of tokens a round may confirm, and run short prompts, as `warm` does."""
        self._warm_prompts(progress)
        most = min(depth + 1, MAX_ROWS)
        for n_rows in range(1, most + 1):
            if self._passes.captures:
                progress(f"capturing graphs: trees of {depth} levels", (n_rows - 1) / most)
            if self.tree([0] * n_rows, 0, None, depth, width) is None:
                self.draft([0] * n_rows, 0, None, 0, guesses=True)

    def _warm_prompts(self, progress: Progress) -> None:
        for size in self._passes.first_chunks:
            if self._passes.captures:
                progress(f"capturing graphs: draft prompt {size}", None)
            self.take_in([0] * min(size, self.kv.n_slots), 0, None)

    def _say(self, progress: Progress, n_branches: int, draft_len: int) -> None:
        if self._passes.captures:
            progress(f"capturing graphs: {n_branches} branch{'es' * (n_branches > 1)} of {draft_len}", 1.0)

    @property
    def one_piece(self) -> bool:
        return self._passes.whole_branches

    def take_in(self, tokens: list[int], first: int, features_ND: Tensor | None) -> None:
        """Append confirmed tokens at positions first …, any number of them: a prompt's graphs serve all."""
        ids = torch.tensor(self._known(tokens), device=self.model.device)
        for start, length in chunk_plan(first, len(tokens), self._passes.chunk):
            self._passes.prefill(ids[start - first : start - first + length], start, ())
        wait_for(self.model.device)

    def draft(
        self, tokens: list[int], first: int, features_ND: Tensor | None, count: int, *, guesses: bool
    ) -> Line:
        """Append confirmed tokens and propose `count` after them: one chain, read from the device once."""
        tokens = self._known(tokens)
        if len(tokens) > MAX_ROWS:
            self.take_in(tokens[:-1], first, None)
            tokens, first = tokens[-1:], first + len(tokens) - 1
        out = self._passes.chain(tokens, first, max(count, 1), logits=guesses)
        seen = out.logits_SV
        logits = list(torch.split(seen, 1)) if seen is not None else []
        return Line(
            tokens=out.tokens[:count],
            probs=out.probs[:count],
            logits=logits,
            carries=[None] * len(logits),
            fed=max(count - 1, 0),
            launches=out.launches,
            ran=out.ran,
        )

    def tree(
        self, tokens: list[int], first: int, features_ND: Tensor | None, depth: int, width: int
    ) -> TreeOut | None:
        """Append up to 16 confirmed tokens and draft a tree after them, on a backend that does so in one piece."""
        return self._passes.tree(self._known(tokens), first, depth, width)

    def step(self, ids_R: Tensor, carry_RD: Tensor | None, placement: Placement) -> tuple[Tensor, None]:
        """Feed one proposed token in each of R rows; logits [R, V]."""
        ids_R = ids_R.clamp(max=self._last_row)
        if isinstance(placement, Rows):
            return self._rows(ids_R.tolist(), placement.start), None
        hidden, _ = self.model.hidden(ids_R, self.kv, placement)
        return self.model.logits(hidden), None

    def likely(self, line: Line, n_context: int, count: int) -> Likely:
        """The likeliest tokens after each place of a line, its last token fed where that has no slot yet."""
        return _found(line, self._passes.likely(line.logits, *self._unfed(line, n_context), count))

    def likely_branches(
        self,
        line: Line,
        n_context: int,
        count: int,
        picks: list[Pick],
        steps: int,
        again: Again | None = None,
    ) -> tuple[Likely, Lines] | None:
        """Likely tokens, and branches that begin with them, where one batch holds those; None where it does not."""
        if not 0 < len(picks) <= MAX_ROWS or count > self._last_row + 1:
            return None
        likely, out = self._passes.likely_branches(
            line.logits, *self._unfed(line, n_context), count, picks, steps
        )
        return _found(line, likely), _lines(out)

    def move(self, slots: list[int], first: int) -> int | None:
        """Move a branch's slots to the main line."""
        return self._passes.move(slots, first)

    def branches(
        self, starts: list[BranchStart], carries: list[Tensor | None], count: int, batch: int
    ) -> Lines | None:
        """Draft `count` tokens along each branch, on a backend that does so in one piece."""
        if not self.one_piece:
            return None
        if any(start.token > self._last_row for start in starts):
            starts = [msgspec.structs.replace(s, token=min(s.token, self._last_row)) for s in starts]
        return _lines(self._passes.branches(starts, count, batch))

    def _unfed(self, line: Line, n_context: int) -> tuple[int | None, int]:
        """The line's last token where that has no slot yet, and its position."""
        token = self._known(line.tokens[-1:])[0] if line.fed < len(line.tokens) else None
        return token, n_context + len(line.tokens) - 1

    def _known(self, tokens: list[int]) -> list[int]:
        return [min(token, self._last_row) for token in tokens]

    def _rows(self, tokens: list[int], start: int) -> Tensor:
        logits = self._passes.rows(tokens, start, (), logits=True).logits_RV
        assert logits is not None
        return logits.clone()

    def token_ids(self, indices: Tensor) -> Tensor:
        return indices


def _found(line: Line, out: LikelyOut) -> Likely:
    """The likely tokens; the line's last token is fed now."""
    line.logits, line.carries = list(torch.split(out.logits_PV, 1)), [None] * len(out.logits_PV)
    line.fed = len(line.tokens)
    return Likely(tokens=out.tokens, probs=out.probs, launches=out.launches, ran=out.ran)


def _lines(out: BranchesOut) -> Lines:
    return Lines(
        tokens=out.tokens,
        probs=out.probs,
        logits_KBV=out.logits_KBV,
        carries_KBD=None,
        launches=out.launches,
        ran=out.ran,
    )
