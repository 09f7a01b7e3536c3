"""The subject of a lane that can work on this machine."""

from __future__ import annotations

from pathlib import Path

from specmon.core.bench.provenance import code_state
from specmon.core.checks.subject import Subject, device_kinds
from specmon.core.decoders.settle import Settled
from specmon.core.drafters.registry import draft_words
from specmon.core.models.recipe import resolve_recipe
from specmon.core.models.source import open_model


def subject_of(lane: Settled, cache_dir: Path) -> Subject:
    """What a check has to be of to speak for `lane`; no more of the weights is read than their fingerprint takes."""
    config, names = lane.config, lane.devices.names
    target = open_model(config.target, cache_dir)
    recipe = resolve_recipe(config.recipe, names[0], target.file, config.backend)
    subject = Subject(
        target=target.fingerprint(),
        draft=None if config.decoder == "ar" else draft_words(config.draft, config.target, cache_dir),
        recipe=recipe.name,
        backend=recipe.backend,
        devices=device_kinds(names),
        code=code_state(),
        trees=config.draft_nodes > 0,
    )
    return subject.of_target if config.decoder == "ar" else subject
