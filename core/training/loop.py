"""The training loop: batches, schedule, checkpoints and held-out acceptance."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor

from specmon.core.errors import SpecmonError
from specmon.core.training.checkpoint import CurvePoint, Sums, Written, load_checkpoint, save_checkpoint
from specmon.core.training.config import TrainSettings, Watcher
from specmon.core.training.corpus import Corpus
from specmon.core.training.forms import Decoder
from specmon.core.training.held_out import Acceptance, in_words, measure
from specmon.core.training.learner import Learner
from specmon.core.training.ranks import Ranks
from specmon.core.training.stopping import Stop

DRAFT_LEN = 4

_BETAS, _WEIGHT_DECAY, _CLIP = (0.9, 0.95), 0.01, 1.0
_WARMUP_SHARE, _LAST_RATE = 0.03, 0.02
_MEASUREMENTS = 20  # of a run
_CHECKPOINT_S = 60.0
_HELD_OUT_TOKENS = 16_384  # read at once


@dataclass
class Training:
    """One run on one of its devices; only the one that leads measures and saves.

    `checkpoint`: where the state is kept, and found if the run was begun before; `saved`: the steps that are done in it.
    """

    learner: Learner
    target: Decoder
    corpus: Corpus
    settings: TrainSettings
    checkpoint: Path
    ranks: Ranks
    watcher: Watcher
    step: int = 0
    saved: int = 0
    curve: list[CurvePoint] = field(default_factory=list)

    def __post_init__(self) -> None:
        on_cuda = self.ranks.device.type == "cuda"
        self._parameters = list(self.learner.module.parameters())
        self._optimiser = torch.optim.AdamW(
            self._parameters,
            lr=self.settings.learning_rate,
            betas=_BETAS,
            weight_decay=_WEIGHT_DECAY,
            fused=on_cuda,
        )
        self._since = _Since(Sums())
        if self.checkpoint.exists():
            written = load_checkpoint(self.checkpoint, self.learner.module, self._optimiser)
            self.step, self.curve, self._since = written.step, written.curve, _Since(written.sums)
        self._saved_at, self.saved = time.monotonic(), self.step

    def run(self, stop: Stop) -> None:
        """Train to the last step, or until `stop` is asked for; either way the state is saved then.

        Raises: SpecmonError where the loss is no number any more, or a checkpoint cannot be written.
        """
        last = self.settings.steps
        self.watcher.begin("training", last, "steps", done=self.step)
        self._measure_if_due()
        while self.step < last:
            stopped = self._one_step(stop)
            if not stopped:
                self._measure_if_due()
            if stopped or self.step == last or time.monotonic() - self._saved_at >= _CHECKPOINT_S:
                self._save()
            if stopped:
                return
            self.watcher.done()

    def held_out(self, learner: Learner) -> Acceptance:
        """Acceptance of `learner` on the rows kept out of this training."""
        with _autocast(self.ranks.device):
            return measure(learner, self.target, self.corpus.held_out(_HELD_OUT_TOKENS), DRAFT_LEN)

    def _one_step(self, stop: Stop) -> bool:
        """One step on all devices; whether one of them was asked to stop."""
        batch = self.corpus.batch(self.step, self.settings.batch_tokens, self.settings.seed, self.ranks)
        with _autocast(self.ranks.device):
            loss = self.learner.loss(self.target, batch)
        loss.total.backward()  # type: ignore[no-untyped-call]
        sums = self._add_up([loss.total.detach(), loss.n_places, loss.total.new_tensor(float(stop.asked))])
        total, count, stops = sums.tolist()
        for parameter in self._parameters:
            assert parameter.grad is not None
            parameter.grad /= max(count, 1.0)
        norm = torch.nn.utils.clip_grad_norm_(self._parameters, _CLIP)
        if not (math.isfinite(total) and math.isfinite(float(norm))):
            raise SpecmonError(
                f"The loss is no number any more at step {self.step}; {self._last_good()}.",
                "Give a smaller --learning-rate and another --out.",
            )
        for group in self._optimiser.param_groups:
            group["lr"] = self.settings.learning_rate * rate(self.step, self.settings.steps)
        self._optimiser.step()
        self._optimiser.zero_grad()
        self.step += 1
        self._since.add(total, count, self.settings.batch_tokens)
        return bool(stops > 0)

    def _add_up(self, scalars: Sequence[Tensor]) -> Tensor:
        """Sum gradients and `scalars` over devices; the sums of the scalars."""
        sums = torch.stack(list(scalars))
        if self.ranks.world == 1:
            return sums
        grads = [parameter.grad for parameter in self._parameters if parameter.grad is not None]
        values = torch.cat([*(grad.flatten() for grad in grads), sums])
        with self._saying_what_is_left():
            self.ranks.add_up(values)
        *parts, sums = torch.split(values, [*(grad.numel() for grad in grads), len(sums)])
        for grad, part in zip(grads, parts, strict=True):
            grad.copy_(part.view_as(grad))
        return sums

    def _measure_if_due(self) -> None:
        """Add to the curve, at the first step, the last, and some between."""
        last = self.settings.steps
        due = self.step % max(1, last // _MEASUREMENTS) == 0 or self.step == last
        if not self.ranks.leads or not due or (self.curve and self.curve[-1].step == self.step):
            return
        loss, tokens_per_s = self._since.means()
        held_out = self.held_out(self.learner)
        point = CurvePoint(step=self.step, loss=loss, tokens_per_s=tokens_per_s, held_out=held_out)
        self.curve.append(point)
        self.watcher.say(_in_words(point))
        self._since = _Since(Sums())

    def _save(self) -> None:
        if self.ranks.leads:
            with self._saying_what_is_left():
                training = Written(step=self.step, curve=self.curve, sums=self._since.sums())
                save_checkpoint(self.checkpoint, self.learner.module, self._optimiser, training)
        self._saved_at, self.saved = time.monotonic(), self.step

    @contextmanager
    def _saying_what_is_left(self) -> Iterator[None]:
        """A failure within it says where the last good state is."""
        try:
            yield
        except SpecmonError as failed:
            raise SpecmonError(f"{failed.message.rstrip('.')}; {self._last_good()}.") from failed

    def _last_good(self) -> str:
        if not self.checkpoint.exists():
            return "nothing was saved before"
        return f"{self.checkpoint} is as it was saved before and can be resumed"


class _Since:
    """Sums since the last measurement, `before` of them from before the run was left."""

    def __init__(self, before: Sums) -> None:
        self._loss, self._places, self._tokens = before.loss, before.places, before.tokens
        self._began = time.monotonic() - before.took_s

    def add(self, loss: float, places: float, tokens: int) -> None:
        self._loss += loss
        self._places += places
        self._tokens += tokens

    def sums(self) -> Sums:
        took_s = time.monotonic() - self._began
        return Sums(loss=self._loss, places=self._places, tokens=self._tokens, took_s=took_s)

    def means(self) -> tuple[float | None, float | None]:
        """Loss a place, and tokens a second."""
        if not self._places:
            return None, None
        sums = self.sums()
        return sums.loss / sums.places, sums.tokens / max(sums.took_s, 1e-9)


def rate(step: int, steps: int) -> float:
    """The share of the learning rate at `step`: a linear start, then half a cosine."""
    warmup = max(1, round(steps * _WARMUP_SHARE))
    if step < warmup:
        return (step + 1) / warmup
    along = (step - warmup) / max(1, steps - warmup)
    return _LAST_RATE + (1 - _LAST_RATE) * 0.5 * (1 + math.cos(math.pi * along))


def _in_words(point: CurvePoint) -> str:
    """A point of the curve in one line."""
    learnt = "" if point.loss is None else f"loss {point.loss:.3f}, {point.tokens_per_s:,.0f} tokens/s, "
    return f"step {point.step}: {learnt}held out: {in_words(point.held_out)}"


def _autocast(device: torch.device) -> torch.autocast | nullcontext[None]:
    """bf16 matmuls on a GPU; master weights stay fp32."""
    return torch.autocast("cuda", torch.bfloat16) if device.type == "cuda" else nullcontext()
