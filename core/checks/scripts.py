"""The scripted drafter of the agreement suite: each turn has its own pattern."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from specmon.core.drafters.base import Drafter
from specmon.core.drafters.chain import ChainDrafter
from specmon.core.drafters.registry import DrafterSpec, build_drafter, drafts_blocks, model_of
from specmon.core.drafters.scripted import PatternPlan, ScriptedDrafter, Step
from specmon.core.models.pool import Progress, unwatched
from specmon.core.models.source import open_model


class TurnByTurnDrafter(ScriptedDrafter):
    """Follows the next of `patterns` in each turn, from its first step on."""

    def __init__(
        self, patterns: Sequence[Sequence[Step]], vocab_size: int, inner: ChainDrafter | None
    ) -> None:
        super().__init__(PatternPlan(patterns[0]), vocab_size, label="scripted patterns", inner=inner)
        self._patterns = iter(patterns)

    def script(self, truth: list[int]) -> None:
        """A turn begins, of which this is the whole text."""
        self._plan, self._round = PatternPlan(next(self._patterns)), 0
        super().script(truth)


def build_turn_by_turn(
    spec: DrafterSpec, patterns: Sequence[Sequence[Step]], progress: Progress = unwatched
) -> Drafter:
    """The scripted drafter on its device, with the model that the drafter of `spec` runs inside; a block drafter is not.

    Raises: SpecmonError or UsageError, as `build_drafter`.
    """
    name = model_of(spec.name, spec.target)
    inner: ChainDrafter | None = None
    if name is not None and not drafts_blocks(spec.name, spec.target, spec.cache_dir):
        built = build_drafter(replace(spec, name=name), progress)
        assert isinstance(built, ChainDrafter)
        inner = built
    vocab_size = open_model(spec.target, spec.cache_dir).file.config.vocab_size
    return TurnByTurnDrafter(patterns, vocab_size, inner)
