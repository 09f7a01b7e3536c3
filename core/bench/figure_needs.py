"""The figures that `specmon bench` may write, and what a run must be for its figure to be the one the name says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from specmon.core.bench.prompts import BenchPrompt, bench_prompts
from specmon.core.events import Decoder

if TYPE_CHECKING:
    from specmon.core.decoders.settle import Settled

BEST_OF, TAU_K = 10, 4  # K up to which the best is looked for; K of figures of τ


@dataclass(frozen=True, kw_only=True)
class Planned:
    """What is going to be measured. `lanes`: those a figure is of, the faster one of a ratio first."""

    lanes: Sequence[Settled]
    draft_lens: Sequence[int]
    prompts: Sequence[BenchPrompt]
    sweep_only: bool = False


@dataclass(frozen=True, kw_only=True)
class Needs:
    """What must hold. `decoders` are those of `Planned.lanes`, `gpus` words in the names of their devices.

    `at_k`: the K it is of, which a run that evaluates has alone; None: several, of which each decoder's own best counts.
    """

    decoders: tuple[Decoder, ...]
    target: str
    draft: str
    recipe: str | None = None
    gpus: tuple[str, ...] = ()
    sweep_only: bool = False
    at_k: int | None = None

    def held_by(self, planned: Planned) -> bool:
        """Whether the figure of that run may have the name."""
        every = {prompt.name for prompt in bench_prompts() if prompt.set == "evaluation"}
        return (
            tuple(lane.config.decoder for lane in planned.lanes) == self.decoders
            and all(self._is_of(lane) for lane in planned.lanes)
            and planned.sweep_only == self.sweep_only
            and self._tries(planned.draft_lens)
            and {prompt.name for prompt in planned.prompts} == every
        )

    @property
    def words(self) -> str:
        """What must hold, for a sentence."""
        names = " over ".join(decoder.upper() for decoder in self.decoders)
        best = f"each at its own best of several K up to {BEST_OF}"
        tried = best if self.at_k is None else f"at K {self.at_k}" + ("" if self.sweep_only else " alone")
        of = f"--target {self.target} --draft {self.draft}"
        recipe = f" in {self.recipe}" if self.recipe else ""
        gpus = f" on {len(self.gpus)} {self.gpus[0]}s" if self.gpus else ""
        alone = ", with --sweep-only" if self.sweep_only else ""
        return f"{names} {tried}, {of}{recipe}{gpus}, on all evaluation prompts{alone}"

    def _is_of(self, lane: Settled) -> bool:
        return (
            (lane.config.target, lane.config.draft) == (self.target, self.draft)
            and self.recipe in (None, lane.recipe)
            and (not self.gpus or len(lane.models) == len(self.gpus))
            and all(gpu in model for gpu, model in zip(self.gpus, lane.models, strict=False))
        )

    def _tries(self, draft_lens: Sequence[int]) -> bool:
        if self.at_k is not None:
            return self.at_k in draft_lens and (self.sweep_only or len(draft_lens) == 1)
        return len(draft_lens) > 1 and max(draft_lens) <= BEST_OF


_SSD_OVER_SD = Needs(
    decoders=("ssd", "sd"),
    target="random:qwen2.5-7b",
    draft="scripted:0.78@random:qwen2.5-0.5b",
    recipe="bf16",
    gpus=("H200", "H200"),
)

_TAU = Needs(decoders=("sd",), target="smollm2", draft="auto", sweep_only=True, at_k=TAU_K)

#: By goal. `bench paired` writes those of PAIRED, `bench draft-len` all.
NEEDS: dict[str, Needs] = {
    "h200x2.ssd.over.sd.bf16": _SSD_OVER_SD,
    "h200x2.ssd.model_fraction": _SSD_OVER_SD,
    "h200x2.fp8.eagle3.scripted.tokens_per_s": replace(
        _SSD_OVER_SD,
        draft="scripted:0.66:coverage=0.8/0.9/0.95@random:qwen2.5-7b-eagle3",
        recipe="fp8",
        at_k=4,  # where its draws give a τ of 2.57 in answers of 256 tokens
    ),
    "embedded.draft.tau_k4": _TAU,
    "embedded.eagle3.tau_k4": replace(_TAU, draft="eagle3"),
}
PAIRED = ("h200x2.ssd.over.sd.bf16",)
