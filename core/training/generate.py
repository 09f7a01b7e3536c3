"""A target writes rows of conversations, hundreds at once, with nothing on the host but the count of steps.

Shapes: B rows, V vocabulary, H query heads, G KV heads, F head size. All rows stand at the same position, so one step is
one pass of B tokens: a row that has a prompt to read is given its tokens one by one, which costs a tenth of the steps and
saves padding, ragged prompts and refilling. Where a conversation ends the next begins in the next slot and sees none before
it. On CUDA a step is one graph, whatever the position.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from specmon.core.training.forms import Attention, Decoder, Heads, rotations
from specmon.core.training.scripts import SHORTEST_QUESTION, Script
from specmon.kernels.attention import reference

#: What a token is: read, of the target's own question, of its answer; whether it begins a conversation; chosen greedily.
READ, QUESTION, ANSWER = 0, 1, 2
WHAT = 3  # the bits that say which of the three
FIRST, GREEDY = 4, 8

QUESTION_TEMPERATURE, ANSWER_TEMPERATURE = 0.9, 0.7
_REPORT_STEPS = 64  # between looks at the device, so that progress says what is done


class Rows(NamedTuple):
    """What was written: tokens [B, T] int32, and what each is, kinds [B, T] uint8."""

    tokens: Tensor
    kinds: Tensor


class RowWriter:
    """Writes B rows at a time, always into the same memory."""

    def __init__(self, target: Decoder, script: Script, n_rows: int) -> None:
        self._target, self._script, self._n_rows = target, script, n_rows
        config = target.config
        self._device = target.head_VD.device
        self._random = torch.Generator(self._device)
        self._tables = _Tables(script, self._device)
        self._cos, self._sin = rotations(config, script.row_tokens, self._device)
        shape = (config.n_layers, 2, n_rows, config.n_kv_heads, script.row_tokens, config.head_dim)
        self._kv = torch.zeros(shape, dtype=target.head_VD.dtype, device=self._device)
        self._state = _State.of(n_rows, script.row_tokens, self._device)
        self._graph: torch.cuda.CUDAGraph | None = None
        self._attend_apart = _attention_on(self._device)

    def write(self, seed: int, step_done: Callable[[int], None]) -> Rows:
        """The rows of `seed`. `step_done` is told of each step."""
        self._random.manual_seed(seed)
        self._begin()
        row_tokens, on_cuda = self._script.row_tokens, self._device.type == "cuda"
        for step in range(row_tokens - 1):
            self._step()
            if on_cuda and step % _REPORT_STEPS == 0:
                torch.cuda.synchronize(self._device)
            step_done(1)
        s = self._state
        return Rows(s.tokens.clone(), s.kinds.clone())

    def _begin(self) -> None:
        s = self._state
        s.start.zero_()
        s.position.zero_()
        s.n_chosen.zero_()
        self._new_conversations(torch.ones_like(s.asking), first=True)
        s.token.copy_(self._tables.ids[s.script, 0])
        s.at.fill_(1)
        s.tokens[:, 0] = s.token
        s.kinds[:, 0] = READ | FIRST

    def _step(self) -> None:
        if self._device.type != "cuda":
            self._pass()
            return
        if self._graph is None:
            self._graph = self._capture()
        self._graph.replay()

    def _capture(self) -> torch.cuda.CUDAGraph:
        """A graph of one step; what warming it up changes is put back."""
        before = [tensor.clone() for tensor in self._state]
        random = self._random.get_state()
        stream = torch.cuda.Stream(self._device)  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream(self._device))
        with torch.cuda.stream(stream):
            self._pass()
        torch.cuda.current_stream(self._device).wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        graph.register_generator_state(self._random)
        with torch.cuda.graph(graph):
            self._pass()
        for tensor, old in zip(self._state, before, strict=True):
            tensor.copy_(old)
        self._random.set_state(random)
        return graph

    def _pass(self) -> None:
        """One token more in every row: feed the last, then read the next or choose it."""
        s, script, tables = self._state, self._script, self._tables
        chosen = self._choose()
        reading = s.at < tables.lengths[s.script]
        is_end = torch.isin(chosen, tables.ends)
        limit = torch.where(s.asking, s.least + script.slack, script.most_answer)
        ended = ~reading & (is_end | (s.n_chosen + 1 >= limit))
        asked, answered = ended & s.asking, ended & ~s.asking

        read = tables.ids[s.script, s.at.clamp(max=tables.ids.shape[1] - 1)]
        token = torch.where(reading, read, chosen)
        token = torch.where(asked, tables.closes_question, token)
        token = torch.where(answered & ~is_end, tables.closes_answer, token)
        own = torch.where(s.asking, QUESTION, ANSWER + GREEDY * (s.temperature == 0))
        forced = reading | asked | (answered & ~is_end)
        kind = torch.where(forced, READ, own) + FIRST * (reading & (s.at == 0))

        s.position.add_(1)
        s.tokens.index_copy_(1, s.position, token[:, None].int())
        s.kinds.index_copy_(1, s.position, kind[:, None].to(torch.uint8))
        s.token.copy_(token)
        s.at.copy_(torch.where(asked, 1, s.at + reading.long()))
        s.n_chosen.copy_(torch.where(reading | ended, 0, s.n_chosen + 1))
        s.script.copy_(torch.where(asked, tables.suffix, s.script))
        s.asking.copy_(s.asking & ~asked)
        self._new_conversations(answered, first=False)

    def _choose(self) -> Tensor:
        """A token of each row [B], drawn at its temperature by Gumbel noise; a question does not end too early."""
        s, ends = self._state, self._tables.ends
        logits = self._logits()
        early = s.asking & (s.n_chosen < s.least)
        logits[:, ends] = logits[:, ends].masked_fill(early[:, None], -math.inf)
        noise = torch.empty_like(logits).exponential_(generator=self._random).clamp_min_(1e-20).log_().neg_()
        temperature = torch.where(s.asking, QUESTION_TEMPERATURE, s.temperature)
        return torch.addcmul(logits, noise, temperature[:, None]).argmax(dim=-1)

    def _logits(self) -> Tensor:
        """fp32 logits [B, V] of the tokens at the present position."""
        s, model = self._state, self._target.model
        rotation = self._cos[s.position], self._sin[s.position]
        x = model.embed_tokens(s.token[:, None]).float()
        for i, layer in enumerate(model.layers):
            heads = layer.self_attn.heads(layer.input_layernorm(x), rotation)
            x = x + self._attend(layer.self_attn, heads, i)
            x = x + layer.mlp(layer.post_attention_layernorm(x))
        return F.linear(model.norm(x[:, 0]).to(self._target.head_VD.dtype), self._target.head_VD).float()

    def _attend(self, attention: Attention, heads: Heads, layer: int) -> Tensor:
        (q, k, v), s = (part[:, 0] for part in heads), self._state
        mixed = self._attend_apart(q, k, v, self._kv[layer, 0], self._kv[layer, 1], s.start, s.position)
        return attention.mix(mixed[:, None])

    def _new_conversations(self, which: Tensor, *, first: bool) -> None:
        """Begin one in the rows of `which` [B] bool, in the slot after the next; at a row's start in its first."""
        s, script, tables = self._state, self._script, self._tables
        low, high = (0, len(script.first)) if first else (len(script.first), tables.suffix)
        shape = (self._n_rows,)
        begins = torch.randint(low, high, shape, generator=self._random, device=self._device)
        low, high = script.least if first else (SHORTEST_QUESTION, SHORTEST_QUESTION)
        least = torch.randint(low, high + 1, shape, generator=self._random, device=self._device)
        greedy = torch.rand(shape, generator=self._random, device=self._device) < 0.5
        s.script.copy_(torch.where(which, begins, s.script))
        s.at.copy_(torch.where(which, 0, s.at))
        s.least.copy_(torch.where(which, least, s.least))
        s.temperature.copy_(torch.where(which, torch.where(greedy, 0.0, ANSWER_TEMPERATURE), s.temperature))
        s.asking.copy_(torch.where(which, script.asks, s.asking))
        if not first:
            s.start.copy_(torch.where(which, s.position + 1, s.start))


def _attention_on(device: torch.device) -> Callable[..., Tensor]:
    if device.type != "cuda":
        return reference.attend_apart
    from specmon.kernels.attention.apart import attend_apart  # Triton is imported only where it is used

    return attend_apart


class _Tables:
    """A script on the device: each thing to read as a padded row of `ids`, first, later, and what precedes answers."""

    def __init__(self, script: Script, device: torch.device) -> None:
        texts = [*script.first, *script.later, script.before_answer or script.ends[:1]]
        ids = torch.zeros(len(texts), max(map(len, texts)), dtype=torch.long)
        for row, text in zip(ids, texts, strict=True):
            row[: len(text)] = torch.tensor(text)
        self.ids = ids.to(device)
        self.lengths = torch.tensor([len(text) for text in texts], device=device)
        self.suffix = len(texts) - 1
        closes = script.before_answer[:1] or script.ends[:1]
        self.ends = torch.tensor(sorted({*script.ends, *closes}), device=device)
        self.closes_question, self.closes_answer = closes[0], script.ends[0]


class _State(NamedTuple):
    """What changes from step to step, on the device; [B] but for `position` [1] and the rows written so far.

    `token` is fed next. Of what is read, `script` is the row of the tables and `at` the place in it. `asking`: what comes
    after it is the question. `n_chosen` tokens of that, or of the answer, are written. The conversation began at `start`.
    """

    token: Tensor
    script: Tensor
    at: Tensor
    asking: Tensor
    n_chosen: Tensor
    least: Tensor
    start: Tensor
    temperature: Tensor
    position: Tensor
    tokens: Tensor
    kinds: Tensor

    @classmethod
    def of(cls, n_rows: int, row_tokens: int, device: torch.device) -> _State:
        def whole() -> Tensor:
            return torch.zeros(n_rows, dtype=torch.long, device=device)

        return cls(
            token=whole(),
            script=whole(),
            at=whole(),
            asking=whole().bool(),
            n_chosen=whole(),
            least=whole(),
            start=whole(),
            temperature=whole().float(),
            position=torch.zeros(1, dtype=torch.long, device=device),
            tokens=torch.zeros(n_rows, row_tokens, dtype=torch.int32, device=device),
            kinds=torch.zeros(n_rows, row_tokens, dtype=torch.uint8, device=device),
        )
