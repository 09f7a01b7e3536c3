"""A whole run: the target writes text, the drafter learns from it, what comes out is written as a folder.

OUT/run.json                 the settings, by which a run is known again
OUT/data/                    the text, unless it lies elsewhere
OUT/checkpoint.safetensors   the state, replaced as it goes on
OUT/curve.json               what was measured
OUT/bf16/, OUT/int8/         the drafter
OUT/.lock                    held while the run is going on
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import torch

from specmon.core.drafters.eagle3_file import usual_layers
from specmon.core.drafters.registry import refuse_drafter
from specmon.core.errors import UsageError
from specmon.core.models.hf_folder import TRAINED_FORMS
from specmon.core.models.source import open_model
from specmon.core.models.tensors import TensorFile
from specmon.core.training.alone import alone_in
from specmon.core.training.atomic import write_whole
from specmon.core.training.block import BlockLearner
from specmon.core.training.checkpoint import steps_done
from specmon.core.training.config import (
    RUN,
    TEXT,
    TrainSettings,
    Unwatched,
    Watcher,
    check_settings,
    keep_settings,
)
from specmon.core.training.corpus import Corpus
from specmon.core.training.data import read_text, write_text
from specmon.core.training.draft import DraftLearner, draft_config
from specmon.core.training.eagle3 import Eagle3Learner
from specmon.core.training.export import WEIGHTS, as_stored, export, folder_bytes
from specmon.core.training.forms import Decoder, frozen_decoder
from specmon.core.training.held_out import Acceptance
from specmon.core.training.learner import Learner
from specmon.core.training.loop import Training
from specmon.core.training.own_vocabulary import commonest
from specmon.core.training.ranks import Ranks, ranks_on
from specmon.core.training.scripts import Script, scripts_of
from specmon.core.training.start import Start
from specmon.core.training.stopping import Stop, stop_on_signals

_SAMPLE_TOKENS = 16_384  # of text, by which features are measured


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Where a run keeps its files, and where models lie."""

    out: Path
    data: Path
    cache_dir: Path

    @property
    def checkpoint(self) -> Path:
        return self.out / "checkpoint.safetensors"


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """A folder that was written, its size, and its acceptance on held-out text (None: measured when it was written)."""

    folder: Path
    n_bytes: int
    held_out: Acceptance | None


def train(
    settings: TrainSettings, place: Place, devices: tuple[str, ...], watcher: Watcher
) -> tuple[Result, ...]:
    """Train on `devices` to the last step, going on where the run was left, and write what comes out.

    A run that has done all that already is left as it is.

    Raises: UsageError for a folder of another run, or settings the target does not fit; SpecmonError for what fails on the
    way; KeyboardInterrupt where a signal ends it, the training's state being saved, and where a second one ends it at once,
    with a sentence on what was saved before.
    """
    check_settings(place.out / RUN, settings, kept=place.checkpoint.name)
    if _is_finished(settings, place):
        folders = [place.out / form for form in TRAINED_FORMS]
        watcher.say(
            f"The run in {place.out} is finished at step {settings.steps}; its drafter is in {folders[-1]}."
        )
        return tuple(Result(folder=folder, n_bytes=folder_bytes(folder), held_out=None) for folder in folders)
    plan = _plan(settings, place)
    check_settings(place.data / TEXT, settings.text, kept="[0-9]*.safetensors")
    keep_settings(place.data / TEXT, settings.text)
    with alone_in(place.out):
        keep_settings(place.out / RUN, settings)
        with ranks_on(devices, partial(_follow, settings, place)) as ranks:
            training = _prepare(plan, place, ranks, watcher)
            _run(training, ranks, watcher)
            return _finish(training, place)


def _run(training: Training, ranks: Ranks, watcher: Watcher) -> None:
    """Train to the last step.

    Raises: KeyboardInterrupt where a signal ends it; where a second one does, at once, it says what is saved.
    """
    with stop_on_signals(watcher.say) as stop:
        try:
            training.run(stop)
        except KeyboardInterrupt as at_once:
            done, steps = training.saved, training.settings.steps
            saved = f"{done} of {steps} steps are" if done else "nothing is"
            raise KeyboardInterrupt(f"Ended at once; {saved} saved.") from at_once
        if stop.asked:
            ranks.part()


def _is_finished(settings: TrainSettings, place: Place) -> bool:
    """Whether its last step is done and all that comes out is written. Raises: SpecmonError."""
    written = all((place.out / form / WEIGHTS).exists() for form in TRAINED_FORMS)
    return written and place.checkpoint.exists() and steps_done(place.checkpoint) == settings.steps


def _follow(settings: TrainSettings, place: Place, ranks: Ranks) -> None:
    """What a further device's process does."""
    _prepare(_plan(settings, place), place, ranks, Unwatched()).run(Stop())


@dataclass(frozen=True)
class _Plan:
    """What can be known, and refused, before weights are read."""

    settings: TrainSettings
    file: TensorFile
    scripts: tuple[Script, ...]
    taps: tuple[int, ...]
    start: Start | None


def _plan(settings: TrainSettings, place: Place) -> _Plan:
    source = open_model(settings.text.target, place.cache_dir)
    refuse_drafter(source)
    config = source.file.config
    taps = () if settings.kind == "draft" else settings.taps or usual_layers(config.n_layers)
    if not all(0 <= tap <= config.n_layers for tap in taps):
        asked = "--taps names" if settings.taps else "Without --taps it would be"
        raise UsageError(
            f"{asked} layers {list(taps)}; the target has {config.n_layers}.", "Name layers that it has."
        )
    return _Plan(
        settings=settings,
        file=source.file,
        scripts=scripts_of(settings.text, source.tokenizer(), config.served_context),
        taps=taps,
        start=Start(Path(settings.start), settings.kind) if settings.start else None,
    )


def _prepare(plan: _Plan, place: Place, ranks: Ranks, watcher: Watcher) -> Training:
    """The text written, and the drafter as it begins or was left."""
    settings, device = plan.settings, ranks.device
    target = frozen_decoder(plan.file, device, torch.bfloat16 if device.type == "cuda" else torch.float32)
    with torch.no_grad():
        write_text(target, plan.scripts, settings.tokens, settings.text.seed, place.data, ranks, watcher)
    corpus = Corpus(read_text(place.data, settings.tokens), device)
    return Training(
        learner=_learner(plan, target, corpus, device),
        target=target,
        corpus=corpus,
        settings=settings,
        checkpoint=place.checkpoint,
        ranks=ranks,
        watcher=watcher,
    )


def _learner(plan: _Plan, target: Decoder, corpus: Corpus, device: torch.device) -> Learner:
    settings, start, vocab_size = plan.settings, plan.start, target.config.vocab_size
    learner: DraftLearner | Eagle3Learner | BlockLearner
    if settings.kind == "draft":
        config = draft_config(target.config, settings.hidden, settings.layers)
        learner = DraftLearner(config, settings.accept_weight, device)
    else:
        common: dict[str, Any] = {
            "taps": plan.taps,
            "draft_ids": start.draft_ids(vocab_size)
            if start
            else commonest(corpus.counts(vocab_size), settings.draft_vocab),
            "accept_weight": settings.accept_weight,
            "device": device,
        }
        if settings.kind == "eagle3":
            learner = Eagle3Learner(target.config, unroll=settings.unroll, **common)
        else:
            learner = BlockLearner(
                target.config, block_len=settings.block_len, layers=settings.layers, **common
            )
    learner.begin(target, settings.seed, corpus.held_out(_SAMPLE_TOKENS)[0])
    if start:
        start.put_into(learner)
    return learner


def _finish(training: Training, place: Place) -> tuple[Result, ...]:
    """Write and measure both forms, and the curve."""
    curve = msgspec.json.format(msgspec.json.encode(training.curve), indent=1) + b"\n"
    write_whole(place.out / "curve.json", partial(Path.write_bytes, data=curve))
    results = []
    for form in TRAINED_FORMS:
        folder, int8 = place.out / form, form == "int8"
        export(training.learner, folder, int8=int8)
        held_out = training.held_out(as_stored(training.learner, int8=int8))
        results.append(Result(folder=folder, n_bytes=folder_bytes(folder), held_out=held_out))
    return tuple(results)
