"""Whether an EAGLE-3 head is taken as it was trained: its acceptance on a short text, as loaded and in other readings.

A head that gets other features than it was trained on drafts without an error and is hardly ever accepted. Published heads
count the layers they take by their input or by their output, and cards forget or mistake RoPE's base. What is measured is
the share of tokens of the target's own greedy text that the head's first draft token names.
Shapes: N tokens, L layers of the target, D its hidden size.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from specmon.core.drafters.eagle3 import Eagle3Head
from specmon.core.drafters.eagle3_file import HeadFile, PublishedHead, load_eagle3, usual_layers
from specmon.core.models.build import rope_table
from specmon.core.models.config import ModelConfig
from specmon.core.models.kv import KvCache
from specmon.core.models.placement import Chunk, Rows
from specmon.core.models.pool import LoadedModel
from specmon.core.models.recipe import draft_recipe
from specmon.core.models.transformer import Transformer
from specmon.kernels.rmsnorm.reference import rmsnorm

PROMPT = "Write a Python function that merges two sorted lists."
N_NEW = 48
_LEAST_GAIN = 0.1  # of the judged tokens: a reading that accepts so many more is better


@dataclass(frozen=True, kw_only=True)
class Sample:
    """The target's greedy text after a prompt, and what each of its layers takes in, the last one's output behind it.

    Shapes: tokens [N]; states_LND [L + 1, N, D] fp32.
    """

    tokens: list[int]
    n_prompt: int
    states_LND: Tensor


@dataclass(frozen=True, kw_only=True)
class Reading:
    """One way to take a head. `what` names it; `mend` says how to make it the one that is loaded."""

    what: str
    mend: str
    head: Eagle3Head
    taps: tuple[int, ...]
    normed: bool = False


@dataclass(frozen=True, kw_only=True)
class Trial:
    """How many of `judged` tokens a reading's first draft token named."""

    reading: Reading
    accepted: int
    judged: int

    @property
    def share(self) -> float:
        return self.accepted / self.judged


@dataclass(frozen=True, kw_only=True)
class HeadReport:
    """`trials`: the head as it is loaded, then in other readings."""

    trials: tuple[Trial, ...]

    @property
    def better(self) -> Trial | None:
        """The best reading where it is clearly better than the one that is loaded."""
        best, loaded = max(self.trials, key=lambda trial: trial.accepted), self.trials[0]
        return best if best.share >= loaded.share + _LEAST_GAIN else None

    @property
    def warning(self) -> str | None:
        """One sentence naming the better reading, or that none accepts anything; None where all is well."""
        better, loaded = self.better, self.trials[0]
        if not any(trial.accepted for trial in self.trials):
            return (
                f"The EAGLE-3 head is right about none of {loaded.judged} tokens in any reading: it was trained for "
                "another target, or not at all."
            )
        if better is None:
            return None
        return (
            f"The EAGLE-3 head is accepted {loaded.share:.0%} of the time with {loaded.reading.what}, and "
            f"{better.share:.0%} with {better.reading.what}: {better.reading.mend}."
        )


def doubts(file: HeadFile, target: ModelConfig) -> list[str]:
    """What of a head's card and tensors may be read in two ways; the self-test tells which is right."""
    head = PublishedHead(file)
    found = []
    usual, named = usual_layers(target.n_layers), head.named_layers
    if named == tuple(i - 1 for i in usual):
        found.append(f"its layers {list(named)} may be counted by their output: {list(usual)} by their input")
    if target.n_layers in head.tap_layers(target):
        found.append("it takes the last layer's output, which some take after the norm")
    if head.config.rope.theta != target.rope.theta:
        found.append(f"its RoPE base is {head.config.rope.theta:g}, the target's {target.rope.theta:g}")
    if len(head.token_readings(target.vocab_size)) > 1:
        found.append("its d2t may hold differences or token ids")
    return found


def check_head(file: HeadFile, target: LoadedModel) -> HeadReport:
    """Try the head as it is loaded and in other readings.

    Raises: SpecmonError where it does not fit the target.
    """
    with torch.inference_mode():
        sample = greedy_sample(target)
        trials = [_try(reading, sample, target.model) for reading in _readings(file, target)]
    return HeadReport(trials=tuple(trials))


def greedy_sample(target: LoadedModel) -> Sample:
    """The target's own text; its tokens are decoded one by one, then run again to keep every layer's input."""
    model, device = target.model, target.model.device
    prompt = target.tokenizer.encode_chat((("user", PROMPT),))
    tokens, every = list(prompt), tuple(range(model.config.n_layers + 1))
    kv = KvCache.of(model.config, n_slots=len(prompt) + N_NEW, dtype=target.recipe.kv, device=device)
    hidden, _ = model.hidden(torch.tensor(prompt, device=device), kv, Chunk(0, len(prompt)))
    for at in range(len(prompt), len(prompt) + N_NEW):
        tokens.append(int(model.logits(hidden[-1:]).argmax()))
        hidden, _ = model.hidden(torch.tensor(tokens[-1:], device=device), kv, Rows(at, 1))
    _, features = model.hidden(torch.tensor(tokens, device=device), kv, Chunk(0, len(tokens)), every)
    assert features is not None
    states = features.view(len(tokens), len(every), -1).transpose(0, 1)
    return Sample(tokens=tokens, n_prompt=len(prompt), states_LND=states)


def features_of(sample: Sample, model: Transformer, taps: tuple[int, ...], *, normed: bool = False) -> Tensor:
    """The features [N, taps · D] of some layers, as they are or after the norm of the layer that they enter."""
    parts = [sample.states_LND[i] for i in taps]
    if normed:
        norms = [*(layer.input_norm for layer in model.layers), model.norm]
        parts = [rmsnorm(part, norms[i], model.config.norm_eps) for i, part in zip(taps, parts, strict=True)]
    return torch.cat(parts, dim=-1)


def run_head(head: Eagle3Head, sample: Sample, features_NF: Tensor) -> tuple[Tensor, Tensor]:
    """Logits and output features of every token but the first and the last, each paired with the feature before it."""
    device, n_rows = head.embedding_VD.device, len(sample.tokens) - 2
    kv = KvCache.of(head.config, n_slots=n_rows, dtype=torch.float32, device=device)
    ids = torch.tensor(sample.tokens[1:-1], device=device)
    return head.layer(ids, head.widen(features_NF[:n_rows]), kv, Chunk(0, n_rows))


def _try(reading: Reading, sample: Sample, model: Transformer) -> Trial:
    features = features_of(sample, model, reading.taps, normed=reading.normed)
    logits, _ = run_head(reading.head, sample, features)
    drafted = reading.head.to_target[logits.argmax(dim=-1)].tolist()
    judged = list(zip(drafted, sample.tokens[2:], strict=True))[sample.n_prompt - 2 :]
    return Trial(reading=reading, accepted=sum(a == b for a, b in judged), judged=len(judged))


def _readings(file: HeadFile, target: LoadedModel) -> Iterator[Reading]:
    """The head as it is loaded, and each thing that may be otherwise, one at a time."""
    model = target.model
    config, device = model.config, str(model.device)
    recipe = draft_recipe(target.recipe, device)
    positions = len(target.tokenizer.encode_chat((("user", PROMPT),))) + N_NEW
    head = load_eagle3(file, config, model.embedding_VD, recipe, device, max_positions=positions)
    own = head.tap_layers
    yield Reading(what=f"features of layers {list(own)}", mend="", head=head, taps=own)
    moved = [tuple(i + step for i in own) for step in (-1, 1)]
    for taps in dict.fromkeys([*moved, usual_layers(config.n_layers)]):
        if len(taps) == len(own) and taps != own and all(0 <= i <= config.n_layers for i in taps):
            yield Reading(
                what=f"features of layers {list(taps)}",
                mend=f"write eagle_aux_hidden_state_layer_ids {list(taps)} into its config.json",
                head=head,
                taps=taps,
            )
    yield Reading(
        what="features taken after the norm",
        mend="it was trained on features that specmon does not take, and must be trained anew",
        head=head,
        taps=own,
        normed=True,
    )
    theta = config.rope.theta
    if head.config.rope.theta != theta:
        turned = replace(head.config, rope=replace(head.config.rope, theta=theta))
        rope = rope_table(turned, model.device, positions)
        mend = f"write rope_theta {theta:g} into its config.json"
        yield Reading(
            what=f"the target's RoPE base {theta:g}", mend=mend, head=replace(head, rope=rope), taps=own
        )
    for ids in PublishedHead(file).token_readings(config.vocab_size)[1:]:
        yield Reading(
            what="d2t read as token ids",
            mend="store in d2t what is to be added to each index, or a t2d beside it",
            head=replace(head, to_target=ids.to(model.device)),
            taps=own,
        )
