"""Acceptance on text kept out of training, as a draft along it would have it.

On an answer the target chose greedily a draft is accepted just as far as it repeats the text, so reading along the text
tells where each draft ends: no decoding is needed. The figures are the training form's; `specmon bench draft-len` decodes.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import torch
from torch import Tensor

from specmon.core.training.corpus import Batch
from specmon.core.training.forms import Decoder
from specmon.core.training.learner import Learner


class Acceptance(msgspec.Struct, frozen=True, kw_only=True):
    """`by_position`: the i-th drafted token's acceptance where those before it were accepted (None: no draft came so far).

    `simulated_tau`: tokens per round of greedy chain SD of that length along the answers, as they were written.
    """

    by_position: tuple[float | None, ...]
    simulated_tau: float | None


class _Counts:
    """Sums over batches."""

    def __init__(self, draft_len: int) -> None:
        self._reached = torch.zeros(draft_len, dtype=torch.long)
        self._accepted = torch.zeros(draft_len, dtype=torch.long)
        self._emitted, self._rounds = 0, 0

    def add(self, right_BTK: Tensor, batch: Batch) -> None:
        """`right_BTK`: see `Learner.agreement`."""
        length, draft_len = right_BTK.shape[1:]
        left_BT = _left(batch.greedy, batch.segments)
        within_BTK = left_BT[..., None] > torch.arange(draft_len, device=left_BT.device)
        accepted_BTK = (right_BTK & within_BTK).long().cumprod(dim=-1)
        anchors_BT = batch.greedy
        before_BTK = torch.cat([torch.ones_like(accepted_BTK[..., :1]), accepted_BTK[..., :-1]], dim=-1)
        reached_BTK = before_BTK.bool() & within_BTK & anchors_BT[..., None]
        self._reached += reached_BTK.sum(dim=(0, 1)).cpu()
        self._accepted += (accepted_BTK.bool() & anchors_BT[..., None]).sum(dim=(0, 1)).cpu()
        rows = zip(accepted_BTK.sum(dim=-1).tolist(), left_BT.tolist(), batch.greedy.tolist(), strict=True)
        for accepted, left, greedy in rows:
            at = 0
            while at < length:
                if not (greedy[at] and left[at]):
                    at += 1
                    continue
                emitted = min(accepted[at] + 1, left[at])
                self._emitted, self._rounds, at = self._emitted + emitted, self._rounds + 1, at + emitted

    def acceptance(self) -> Acceptance:
        pairs = zip(self._accepted.tolist(), self._reached.tolist(), strict=True)
        return Acceptance(
            by_position=tuple(accepted / reached if reached else None for accepted, reached in pairs),
            simulated_tau=self._emitted / self._rounds if self._rounds else None,
        )


def in_words(held_out: Acceptance) -> str:
    """In one line."""
    parts = "/".join("n/a" if share is None else f"{100 * share:.0f}" for share in held_out.by_position)
    tau = "n/a" if held_out.simulated_tau is None else f"{held_out.simulated_tau:.2f}"
    return f"accepted {parts} % by position, simulated τ {tau} at K {len(held_out.by_position)}"


@torch.no_grad()
def measure(learner: Learner, target: Decoder, batches: Sequence[Batch], draft_len: int) -> Acceptance:
    """Acceptance along the greedy answers of `batches`."""
    counts = _Counts(draft_len)
    for batch in batches:
        counts.add(learner.agreement(target, batch, draft_len), batch)
    return counts.acceptance()


def _left(greedy_BT: Tensor, segments_BT: Tensor) -> Tensor:
    """How many tokens of the same greedy answer follow each token of one [B, T]."""
    goes_on = greedy_BT[:, :-1] & greedy_BT[:, 1:] & (segments_BT[:, :-1] == segments_BT[:, 1:])
    length = greedy_BT.shape[1]
    places = torch.arange(length, device=greedy_BT.device)
    stops = torch.ones_like(greedy_BT)
    stops[:, :-1] = ~goes_on
    last = torch.where(stops, places, length).flip(1).cummin(dim=1).values.flip(1)
    return last - places
