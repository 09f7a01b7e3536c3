"""Every kernel launch the Triton backend makes for a model, recorded from the classes that launch: no GPU, no weights."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from specmon.core.drafters.tree import MAX_NODES
from specmon.core.models.build import build_transformer
from specmon.core.models.config import ModelConfig
from specmon.core.models.kv import KvCache
from specmon.core.models.passes import MAX_ROWS, BranchStart
from specmon.core.models.random_weights import HEADS, PREFIX, SHAPES, head_config, head_shapes, tensor_shapes
from specmon.core.models.recipe import Recipe, resolve_recipe
from specmon.core.models.tensors import Stored
from specmon.kernels.attention.split import TILED_FROM
from specmon.kernels.offline.launches import Launch, record_launches
from specmon.kernels.registry import TRITON

ROW_COUNTS = (1, 5, 16)  # the kinds of integer that Triton specialises unless told not to
_FEATURES = 3 * 576  # a row's, of an EAGLE-3 head for a small target
_LIKELY = 17  # tokens after a place, where one outcome may get all of 16 branches
#: Depths and widths of trees of 15 nodes; of all trees the first has the widest levels of many rows.
_TREES = ((2, 9), (4, 5))
_LAYERS = 2  # the first, and one that looks like all others
_BLOCK_LEN, _BLOCK_INNER = 8, 2  # a block drafter's masks, and its inner size by its hidden size


def model_launches(shape: str, arch: int) -> list[Launch]:
    """What the Triton backend launches for a shape of `random_weights.SHAPES` on compute capability `arch`.

    Every recipe it computes: a prompt, and rows and drafts with and without logits, for row counts of each kind, and trees;
    drafts of an EAGLE-3 head and a block drafter where `HEADS` has a vocabulary for them; then what settles a round,
    sampling and acceptance, and what a target writes text with that drafters learn from. Run it in a process of
    `kernels.offline.workers`.
    """
    config = replace(SHAPES[shape], n_layers=_LAYERS)
    file = _Shapes(PREFIX + shape, config, tensor_shapes(config))
    launches: dict[Launch, None] = {}
    for name in TRITON.recipes["cuda"]:
        recipe = resolve_recipe(name, "cuda:0", file, TRITON.name)
        launches |= dict.fromkeys(record_launches(partial(_run, file, recipe), arch))
        if shape in HEADS:
            launches |= dict.fromkeys(record_launches(partial(_draft, shape, recipe), arch))
            launches |= dict.fromkeys(record_launches(partial(_fill, shape, recipe), arch))
    launches |= dict.fromkeys(record_launches(partial(_settle, file.config.vocab_size), arch))
    launches |= dict.fromkeys(record_launches(partial(_write, file.config), arch))
    return list(launches)


class _Shapes:
    """A model file whose tensors have shapes and no values."""

    def __init__(
        self,
        where: str,
        config: ModelConfig,
        shapes: dict[str, tuple[int, ...]],
        raw_config: dict[str, Any] | None = None,
    ) -> None:
        self.where, self.config, self._shapes = where, config, shapes
        self.raw_config = raw_config or {}

    def names(self) -> frozenset[str]:
        return frozenset(self._shapes)

    def shape(self, name: str) -> tuple[int, ...]:
        return self._shapes[name]

    def read(self, name: str) -> Stored:
        if name == "d2t":  # it is looked at
            return Stored(name=name, kind="dense", data=torch.zeros(self._shapes[name], dtype=torch.int64))
        return Stored(
            name=name, kind="dense", data=torch.empty(self._shapes[name], dtype=torch.bfloat16, device="meta")
        )


class _Valueless(TorchFunctionMode):
    """Lets code that looks at values run on meta tensors: what is read from one is zeros, and a check holds."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is Tensor.copy_ and args[1].is_meta and not args[0].is_meta:
            return args[0]
        if func is Tensor.cpu and args[0].is_meta:
            return torch.zeros(args[0].shape, dtype=args[0].dtype)
        if func is Tensor.__bool__ and args[0].is_meta:
            return True
        return func(*args, **(kwargs or {}))


def _run(file: _Shapes, recipe: Recipe) -> None:
    """Load a model and run passes of every kind, on tensors without values."""
    from specmon.core.models.streamed import StreamedModel, StreamedPasses

    with _Valueless(), torch.inference_mode():
        model = build_transformer(
            file, recipe, "meta", max_positions=MAX_ROWS, progress=lambda what, part: None
        )
        passes = StreamedPasses(StreamedModel(model), _cache(model.config, recipe))
        passes.prefill(torch.zeros(1, dtype=torch.int64, device="meta"), 0, ())
        for start in (0, TILED_FROM):  # chunks are merged untiled, tiled
            for n_rows in ROW_COUNTS:
                passes.branches(_branches(n_rows, start), 2)
                drafted = passes.chain([0] * n_rows, start, 2, logits=True)
                assert drafted.logits_SV is not None
                passes.likely(torch.split(drafted.logits_SV, 1), 0, start, _LIKELY)
                for depth, width in _TREES:
                    passes.tree([0] * n_rows, start, depth, width)
                for logits in (False, True):
                    passes.rows([0] * n_rows, start, (), logits=logits)
                    passes.chain([0] * n_rows, start, 2, logits=logits)


def _draft(shape: str, recipe: Recipe) -> None:
    """Load an EAGLE-3 head and draft with it, on tensors without values."""
    from specmon.core.drafters.eagle3_file import load_eagle3
    from specmon.core.drafters.streamed_eagle3 import StreamedEagle3

    target, config = SHAPES[shape], head_config(SHAPES[shape])
    file = _Shapes(f"{PREFIX}{shape}-eagle3", config, head_shapes(config, HEADS[shape]))
    with _Valueless(), torch.inference_mode():
        embedding = torch.empty(target.vocab_size, target.hidden_size, dtype=recipe.activation, device="meta")
        head = load_eagle3(file, target, embedding, recipe, "meta", max_positions=MAX_ROWS)
        drafts = StreamedEagle3(head, _cache(config, recipe))
        for slot in (0, TILED_FROM):
            for n_rows in ROW_COUNTS:
                features = torch.zeros(n_rows, head.fc.in_features)
                for guesses in (False, True):
                    line = drafts([0] * n_rows, slot, features, 2, guesses=guesses)
                assert line.logits is not None
                assert line.carries is not None
                carries = torch.split(line.carries, 1)
                drafts.likely(torch.split(line.logits, 1), carries, 0, slot, _LIKELY)
                drafts.branches(_branches(n_rows, slot), carries[:1] * n_rows, 2, 0)
                for depth, width in _TREES:
                    drafts.tree([0] * n_rows, slot, features, depth, width)


def _fill(shape: str, recipe: Recipe) -> None:
    """Load a block drafter and fill blocks with it, on tensors without values."""
    from specmon.core.drafters.block_file import load_block_drafter
    from specmon.core.drafters.streamed_block import StreamedBlock

    target, taps = SHAPES[shape], [0, 1, 2]
    width, vocabulary = target.hidden_size, HEADS[shape]
    config = replace(head_config(target), n_layers=_LAYERS, intermediate_size=_BLOCK_INNER * width)
    shapes = tensor_shapes(config) | {
        "model.fc.weight": (width, len(taps) * width),
        "model.hidden_norm.weight": (width,),
        "model.masks.weight": (_BLOCK_LEN, width),
        "lm_head.weight": (vocabulary, width),
        "d2t": (vocabulary,),
    }
    file = _Shapes(f"{PREFIX}{shape}-block", config, shapes, {"block_config": {"target_layers": taps}})
    with _Valueless(), torch.inference_mode():
        embedding = torch.empty(target.vocab_size, width, dtype=recipe.activation, device="meta")
        model = load_block_drafter(file, target, embedding, recipe, "meta", max_positions=MAX_ROWS)
        kv = _cache(config, recipe)
        for n_best in (1, MAX_NODES):
            drafts = StreamedBlock(model, kv, n_best)
            for start in (0, TILED_FROM):
                drafts.keep(torch.zeros(1, model.fc.in_features), start)
                for n_kept in (0, *ROW_COUNTS):
                    drafts.draft(0, torch.zeros(n_kept, model.fc.in_features), start)


def _branches(n_rows: int, start: int) -> list[BranchStart]:
    """Some that `StreamedPasses.branches` takes; only their number and how far they reach choose kernels."""
    slots = range(start + 1, start + 1 + 2 * n_rows)
    return [BranchStart(prefix=start, token=0, slots=slots[2 * i : 2 * i + 2]) for i in range(n_rows)]


def _cache(config: ModelConfig, recipe: Recipe) -> KvCache:
    return KvCache.of(config, n_slots=config.served_context + MAX_ROWS, dtype=recipe.kv, device="meta")


def _write(config: ModelConfig) -> None:
    from specmon.kernels.attention.apart import attend_apart

    n_rows, n_slots, shape = 2, 64, (config.n_kv_heads, config.head_dim)
    q = torch.empty(n_rows, config.n_heads, config.head_dim, dtype=torch.bfloat16, device="meta")
    new, cache = q.new_empty(n_rows, *shape), q.new_empty(n_rows, shape[0], n_slots, shape[1])
    start, position = (torch.empty(n, dtype=torch.int64, device="meta") for n in (n_rows, 1))
    attend_apart(q, new, new, cache, cache, start, position)


def _settle(n_tokens: int) -> None:
    """What a turn launches beside its models, on tensors without values: a draw, acceptance, a round's end, the time."""
    from specmon.kernels.accept.launch import Accepted, accept_chain, accept_tree
    from specmon.kernels.clock.pong import pong_kernel
    from specmon.kernels.relay.board import words_of
    from specmon.kernels.relay.launch import Relay
    from specmon.kernels.sample.launch import Sampler
    from specmon.kernels.stream.launch import pick
    from specmon.kernels.stream.winners import WORDS

    def empty(dtype: torch.dtype, *shape: int) -> Tensor:
        return torch.empty(*shape, dtype=dtype, device="meta")

    meta = torch.device("meta")
    tokens, length, out = empty(torch.int64, MAX_ROWS), empty(torch.int32, 1), Accepted.empty(meta)
    nodes, logits = empty(torch.int32, MAX_ROWS), empty(torch.float32, MAX_ROWS, n_tokens)
    sampler = Sampler(n_tokens, meta)
    for n_rows in ROW_COUNTS:
        sampler(logits, nodes, tokens, empty(torch.float32, MAX_ROWS), n_rows)
    accept_chain(tokens, tokens, length, length, out)
    accept_tree(nodes, tokens, tokens, length, length, out)
    pick(empty(torch.int64, MAX_ROWS, 17), empty(torch.int64, 3, MAX_ROWS), tokens, MAX_ROWS)
    relay = Relay(empty(torch.int64, words_of(_FEATURES)), meta)
    relay.post(empty(torch.float32, MAX_ROWS, _FEATURES), MAX_ROWS)
    for draft_len in (0, 1, MAX_ROWS - 1):
        relay.settle(empty(torch.int64, WORDS), draft_len)
    pong_kernel[(1,)](length, tokens, N=8, PATIENCE=200_000, num_warps=1)
