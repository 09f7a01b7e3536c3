"""Drafters by name. To add one: write its file, and give it a line here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeGuard

import torch
from torch import Tensor

from specmon.core.drafters.base import Drafter
from specmon.core.drafters.block import BlockDrafter, stream_block
from specmon.core.drafters.block_file import is_block_drafter, load_block_drafter
from specmon.core.drafters.chain import ChainDrafter
from specmon.core.drafters.draft_model import DraftModelStepper
from specmon.core.drafters.eagle3 import Eagle3Stepper, stream_eagle3
from specmon.core.drafters.eagle3_file import HeadFile, PublishedHead, is_eagle3, load_eagle3
from specmon.core.drafters.hybrid import HybridDrafter
from specmon.core.drafters.ngram import NgramDrafter
from specmon.core.drafters.script_words import parse_script
from specmon.core.drafters.scripted import AccuracyPlan, ScriptedDrafter
from specmon.core.drafters.suffix import SuffixDrafter
from specmon.core.drafters.tree import TreeDrafter, tree_width
from specmon.core.errors import SpecmonError, UsageError
from specmon.core.models.build import Builder, build_transformer
from specmon.core.models.config import ModelConfig
from specmon.core.models.fetch import SMOLLM2
from specmon.core.models.hf_folder import HfFolder
from specmon.core.models.kv import KvCache
from specmon.core.models.pool import Progress, open_passes, stream, unwatched
from specmon.core.models.random_weights import RandomHead, RandomTensors
from specmon.core.models.recipe import Recipe, draft_recipe, resolve_recipe
from specmon.core.models.source import EMBEDDED, Source, open_model
from specmon.core.models.tensors import TensorFile
from specmon.core.models.vocabulary import FirstRows, same_by_rows, same_tokens

SHIPPED_DRAFT = "smollm2-draft-17m"
SHIPPED_EAGLE3 = "smollm2-eagle3"


@dataclass(frozen=True, kw_only=True)
class DrafterSpec:
    """All a worker process needs to build a drafter: plain, picklable.

    `n_branches` and `draft_len` size the scratch slots. `draft_nodes`: of a tree, 0 for chains.
    """

    name: str
    target: str
    recipe: str
    backend: str = "auto"
    device: str
    draft_len: int
    n_branches: int
    cache_dir: Path
    seed: int = 0
    graphs: bool = True
    draft_nodes: int = 0

    @property
    def n_scratch(self) -> int:
        """Slots past the context: the last draft and its branches, or all nodes that a tree is chosen from."""
        return (
            self.draft_len * (self.n_branches + 2)
            + 2
            + self.draft_len * tree_width(self.draft_nodes, self.draft_len)
        )


def resolve_name(draft: str, target: str) -> str:
    """What "auto" and "eagle3" mean for `target`.

    Raises: UsageError where there is no shipped head for it.
    """
    embedded = target == EMBEDDED or Path(target).name == SMOLLM2.filename
    if draft == "auto":
        return SHIPPED_DRAFT if embedded else "ngram"
    if draft == "eagle3":
        if not embedded:
            raise UsageError(
                f"No EAGLE-3 head ships for {target}.", "Give the folder of one that was trained for it."
            )
        return SHIPPED_EAGLE3
    return draft


def check_drafter(draft: str, name: str, target: Source, *, branches: bool = False) -> None:
    """Open what `draft` names, for a target that `name` names, without reading weights. `branches`: SSD's are asked of it.

    Raises: SpecmonError where the draft has another vocabulary; UsageError where there is no such model, or it cannot do
    what it is to do.
    """
    whole = resolve_name(draft, name)
    model = model_of(whole, name)
    if model is None:
        return
    source = open_model(model, target.cache_dir)
    if is_block(source.file) and model != whole:
        raise UsageError(
            f"{source.label} is a block drafter, which works in no other drafter.",
            f"Give it alone: --draft {model}.",
        )
    if is_block(source.file) and branches:
        raise UsageError(
            f"{source.label} is a block drafter: it drafts from features that are not known before a round's outcome, so "
            "SSD can prepare nothing.",
            "Use --decoder sd.",
        )
    _of_same_vocabulary(source, target)


def refuse_drafter(target: Source) -> None:
    """Raises: UsageError where `target` is no model by itself, but a head or a block drafter."""
    if is_head(target.file) or is_block(target.file):
        kind = "an EAGLE-3 head" if is_head(target.file) else "a block drafter"
        raise UsageError(f"{target.label} is {kind}, no model by itself.", "Give it with --draft.")


def drafts_blocks(draft: str, target: str, cache_dir: Path) -> bool:
    """Whether a block drafter is what `draft` names. Raises: SpecmonError or UsageError, as `open_model`."""
    model = model_of(resolve_name(draft, target), target)
    return model is not None and is_block(open_model(model, cache_dir).file)


def draft_words(draft: str, target: str, cache_dir: Path) -> str:
    """What tells one draft from another: its name, where it is a model the fingerprint, or both.

    Raises: UsageError where there is no such draft.
    """
    name = resolve_name(draft, target)
    model = model_of(name, target)
    if model is None:
        return name
    mark = open_model(model, cache_dir).fingerprint()
    return mark if model == name else f"{name.partition('@')[0]}@{mark}"


def build_drafter(spec: DrafterSpec, progress: Progress = unwatched) -> Drafter:
    """Build the drafter `spec` names, on its device. `progress` is told what loading does.

    Raises: SpecmonError where it does not fit the target; UsageError where there is none of that name.
    """
    kind, _, rest = spec.name.partition(":")
    build = _BY_KIND.get(kind, _build_named)
    return build(spec, rest, progress)


def _build_ngram(spec: DrafterSpec, rest: str, progress: Progress) -> Drafter:
    return NgramDrafter()


def _build_suffix(spec: DrafterSpec, rest: str, progress: Progress) -> Drafter:
    return SuffixDrafter()


def _build_hybrid(spec: DrafterSpec, rest: str, progress: Progress) -> Drafter:
    name = model_of(spec.name, spec.target)
    assert name is not None
    return HybridDrafter(_build_model(replace(spec, name=name), "", progress))


def _build_scripted(spec: DrafterSpec, rest: str, progress: Progress) -> Drafter:
    script = parse_script(rest)
    plan = AccuracyPlan(script.alpha, coverage=script.coverage, seed=spec.seed)
    target = open_model(spec.target, spec.cache_dir)
    label, inner = script.label, None
    name = model_of(spec.name, spec.target)
    if name is not None:
        inner = _build_model(replace(spec, name=name), "", progress)
        label += f" + {inner.info.label}"
    return ScriptedDrafter(plan, target.file.config.vocab_size, label=label, inner=inner)


def _build_named(spec: DrafterSpec, rest: str, progress: Progress) -> Drafter:
    """A model's folder, file or hub id."""
    if is_block(open_model(spec.name, spec.cache_dir).file):
        return _build_block(spec, progress)
    return _build_model(spec, "", progress)


def _build_block(spec: DrafterSpec, progress: Progress) -> BlockDrafter:
    source, target = open_model(spec.name, spec.cache_dir), open_model(spec.target, spec.cache_dir)
    recipe, wanted = _recipe(spec, target), target.file.config
    file = _of_same_vocabulary(source, target)
    assert is_block(file)
    embedding, positions = _embedding(target, recipe, spec.device), wanted.served_context
    model = load_block_drafter(file, wanted, embedding, recipe, spec.device, max_positions=positions)
    n_slots = positions + model.block_len + 1
    kv = KvCache.of(model.config, n_slots=n_slots, dtype=recipe.kv, device=embedding.device)
    drafts = stream_block(model, kv, recipe, spec.draft_nodes, graphs=spec.graphs)
    drafter = BlockDrafter(model, kv, source.label, spec.draft_nodes, drafts)
    drafter.warm(spec.draft_len, progress)
    return drafter


def _build_model(spec: DrafterSpec, rest: str, progress: Progress) -> ChainDrafter:
    source, target = open_model(spec.name, spec.cache_dir), open_model(spec.target, spec.cache_dir)
    recipe, wanted = _recipe(spec, target), target.file.config
    device = torch.device("cpu" if spec.device.startswith("cpu") else spec.device)
    n_slots = wanted.served_context + spec.n_scratch
    file = _of_same_vocabulary(source, target)

    def cache(config: ModelConfig) -> KvCache:
        return KvCache.of(config, n_slots=n_slots, dtype=recipe.kv, device=device)

    if is_head(file):
        embedding = _embedding(target, recipe, spec.device)
        head = load_eagle3(file, wanted, embedding, recipe, spec.device, max_positions=n_slots)
        kv = cache(head.config)
        drafts = stream_eagle3(head, kv, recipe, graphs=spec.graphs)
        stepper: Eagle3Stepper | DraftModelStepper = Eagle3Stepper(head, kv, source.label, drafts)
    else:
        model = build_transformer(file, recipe, spec.device, max_positions=n_slots, progress=progress)
        kv = cache(file.config)
        passes = open_passes(model, stream(model, recipe), kv, graphs=spec.graphs)
        stepper = DraftModelStepper(model, kv, passes, source.label)
    if spec.draft_nodes:
        stepper.warm_tree(spec.draft_len, tree_width(spec.draft_nodes, spec.draft_len), progress)
        return TreeDrafter(stepper, spec.draft_nodes)
    branches = spec.n_branches > 0
    stepper.warm(spec.draft_len, guesses=branches, progress=progress, n_branches=spec.n_branches)
    return ChainDrafter(stepper, branches=branches)


def _recipe(spec: DrafterSpec, target: Source) -> Recipe:
    return draft_recipe(resolve_recipe(spec.recipe, spec.device, target.file, spec.backend), spec.device)


def _embedding(target: Source, recipe: Recipe, device: str) -> Tensor:
    """The target's [V, D], for drafters that read its features."""
    wanted = target.file.config
    builder = Builder(target.file, recipe, device)
    return builder.dense("model.embed_tokens.weight", (wanted.vocab_size, wanted.hidden_size))


def model_of(name: str, target: str) -> str | None:
    """The model that the drafter `name` runs, None for none.

    Raises: UsageError for a script that cannot be read, or a drafter that is no model where there must be one.
    """
    kind, _, rest = name.partition(":")
    if kind not in _BY_KIND:
        return name
    inside = parse_script(rest).model if kind == "scripted" else None
    if kind == "hybrid":
        inside = rest or "auto"
    if inside is None:
        return None
    model = resolve_name(inside, target)
    if model.partition(":")[0] in _BY_KIND:
        sign = "@" if kind == "scripted" else ":"
        raise UsageError(
            f"{name} names {model} after the {sign}, which is no model.", "Give one as --draft takes it."
        )
    return model


def _of_same_vocabulary(draft: Source, target: Source) -> TensorFile:
    """The draft's file, with no more vocabulary rows than the target has: what it proposes is a token of the target.

    Raises: SpecmonError where their tokens are not the same. What reads the target's features has the target's own, so its
    rows must be as many.
    """
    file, wanted = draft.file, target.file.config.vocab_size
    own = (PublishedHead(file) if is_head(file) else file).config.vocab_size
    if own == wanted:
        return draft.file
    if is_head(file) or is_block(file) or not _same_tokens(draft, target):
        raise SpecmonError(
            f"The draft {draft.label} has {own} tokens, the target {target.label} {wanted}.",
            "Both must use the same vocabulary.",
        )
    return draft.file if own < wanted else FirstRows(draft.file, wanted)


def _same_tokens(draft: Source, target: Source) -> bool:
    if isinstance(draft.file, RandomTensors) or isinstance(target.file, RandomTensors):
        return same_by_rows(draft.file.config.vocab_size, target.file.config.vocab_size)
    return same_tokens(draft.tokenizer(), target.tokenizer())


def is_head(file: TensorFile) -> TypeGuard[HeadFile]:
    """Whether it is an EAGLE-3 head's, which drafts and is no model by itself."""
    return isinstance(file, HfFolder | RandomHead) and is_eagle3(file.raw_config)


def is_block(file: TensorFile) -> TypeGuard[HeadFile]:
    """Whether it is a block drafter's, which is no model by itself either."""
    return isinstance(file, HfFolder) and is_block_drafter(file.raw_config)


_BY_KIND: dict[str, Callable[[DrafterSpec, str, Progress], Drafter]] = {
    "ngram": _build_ngram,
    "suffix": _build_suffix,
    "hybrid": _build_hybrid,
    "scripted": _build_scripted,
}
