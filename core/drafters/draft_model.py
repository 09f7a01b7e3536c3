"""An independent draft model: a smaller model with the target's vocabulary, or the first rows of it.

Source: Leviathan et al. 2023; Chen et al. 2023.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from specmon.core.drafters.base import DrafterInfo
from specmon.core.drafters.line import Line
from specmon.core.models.kv import KvCache
from specmon.core.models.passes import MAX_ROWS, BranchStart, Passes
from specmon.core.models.placement import Placement, Rows
from specmon.core.models.pool import Progress
from specmon.core.models.prefill import chunk_plan
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

        `n_branches`: those of a round, drafted once too; they need `guesses`.
        """
        shapes = [(1, draft_len)] if guesses else [(1, draft_len), (2, draft_len)]
        for done, (n_rows, steps) in enumerate(shapes):
            if self._passes.captures:
                after = "1 token" if n_rows == 1 else f"{n_rows} tokens"
                progress(f"capturing graphs: draft {steps} after {after}", done / len(shapes))
            self._passes.chain([0] * n_rows, 0, steps, logits=guesses)
        if guesses:
            self._rows([0], 0)  # feeds a draft's last token
        if not self._passes.whole_branches:
            return
        for count in sorted({min(n_branches, MAX_ROWS), n_branches % MAX_ROWS} - {0}):
            if self._passes.captures:
                progress(f"capturing graphs: {count} branch{'es' * (count > 1)} of {draft_len}", 1.0)
            slots = range(1, 1 + count * draft_len)
            own = [slots[j * draft_len : (j + 1) * draft_len] for j in range(count)]
            self._passes.branches([BranchStart(prefix=1, token=0, slots=s) for s in own], draft_len)

    def feed(self, tokens: list[int], first: int, features_ND: Tensor | None) -> tuple[Tensor, None]:
        """Append confirmed tokens at positions first …; logits [1, V] after the last one."""
        tokens = self._known(tokens)
        if len(tokens) <= MAX_ROWS:
            return self._rows(tokens, first)[-1:], None
        ids = torch.tensor(tokens, device=self.model.device)
        logits: Tensor | None = None
        for start, length in chunk_plan(first, len(tokens), self._passes.chunk):
            logits, _ = self._passes.prefill(ids[start - first : start - first + length], start, ())
        assert logits is not None
        return logits, None

    def draft(
        self, tokens: list[int], first: int, features_ND: Tensor | None, count: int, *, guesses: bool
    ) -> Line:
        """Append confirmed tokens and propose `count` after them: one chain, read from the device once."""
        tokens = self._known(tokens)
        if len(tokens) > MAX_ROWS:
            self.feed(tokens[:-1], first, None)
            tokens, first = tokens[-1:], first + len(tokens) - 1
        out = self._passes.chain(tokens, first, max(count, 1), logits=guesses)
        seen = out.logits_SV
        logits = [seen[i : i + 1] for i in range(len(seen))] if seen is not None else []
        return Line(
            tokens=out.tokens[:count],
            probs=out.probs[:count],
            logits=logits,
            carries=[None] * len(logits),
            fed=max(count - 1, 0),
            launches=out.launches,
        )

    def step(self, ids_R: Tensor, carry_RD: Tensor | None, placement: Placement) -> tuple[Tensor, None]:
        """Feed one proposed token in each of R rows; logits [R, V]."""
        ids_R = ids_R.clamp(max=self._last_row)
        if isinstance(placement, Rows):
            return self._rows(ids_R.tolist(), placement.start), None
        hidden, _ = self.model.hidden(ids_R, self.kv, placement)
        return self.model.logits(hidden), None

    def branches(self, starts: list[BranchStart], count: int) -> list[Line] | None:
        """Draft `count` tokens along each branch, on a backend that does so in one piece."""
        if not self._passes.whole_branches:
            return None
        known = [replace(start, token=min(start.token, self._last_row)) for start in starts]
        out = self._passes.branches(known, count)
        return [
            Line(
                tokens=tokens,
                probs=probs,
                logits=[step[j : j + 1] for step in out.logits_KBV],
                carries=[None] * count,
                fed=count - 1,
                launches=out.launches if j == 0 else 0,
            )
            for j, (tokens, probs) in enumerate(zip(out.tokens, out.probs, strict=True))
        ]

    def _known(self, tokens: list[int]) -> list[int]:
        return [min(token, self._last_row) for token in tokens]

    def _rows(self, tokens: list[int], start: int) -> Tensor:
        logits = self._passes.rows(tokens, start, (), logits=True).logits_RV
        assert logits is not None
        return logits.clone()

    def token_ids(self, indices: Tensor) -> Tensor:
        return indices
