"""The Triton backend: decode rows through streaming kernels, one CUDA graph a row count, a whole draft, a tree or branches.

Prompts run through library matmuls on the same weights (`prompt.py`); up to 16 rows of decode through fused kernels
whose sums have one order for every row count. A graph holds a whole pass, or all passes of a draft with each winner fed to
the next on the device, from token ids in pinned memory to winning tokens there: one launch, nothing waited for inside.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from specmon.core.models.cursors import REACH, BranchShape, BranchTables, Cursors, TreeTable
from specmon.core.models.kv import KvCache
from specmon.core.models.likely import LikelyShape, LikelyTokens, Picks
from specmon.core.models.matmuls import matmuls_of
from specmon.core.models.moves import SlotMoves
from specmon.core.models.passes import (
    MAX_ROWS,
    BranchesOut,
    BranchStart,
    ChainOut,
    LikelyOut,
    Pick,
    RowsOut,
    TreeOut,
    check_branches,
    check_chain,
    check_places,
)
from specmon.core.models.placement import tree_paths
from specmon.core.models.prompt import PromptPasses
from specmon.core.models.queued import QueuedRounds
from specmon.core.models.replays import Replays
from specmon.core.models.streamed_layer import Place, Rotation, StreamedLayer, buffers, parts
from specmon.core.models.taps import TapBuffers, Taps
from specmon.core.models.transformer import Transformer
from specmon.core.models.trees import GrownTrees, TreeShape
from specmon.kernels.attention.split import UNTILED, Branched, Merge, SplitAttention, merge_for
from specmon.kernels.quantise.reference import FP8
from specmon.kernels.relay.board import Board
from specmon.kernels.stream.launch import HeadMatmul, embed
from specmon.kernels.stream.scaled import ROWS, Scaled
from specmon.kernels.stream.schedule import Schedule
from specmon.kernels.stream.winners import Winners, WinnersOfPasses


class StreamedModel:
    """A reference model's weights behind streaming kernels, with the buffers rows pass through.

    Raises: ValueError where a weight is neither dense nor fp8, or has a bias the kernels do not take.
    """

    def __init__(self, reference: Transformer) -> None:
        config = reference.config
        self.reference = reference
        self.rotation = Rotation.of(reference.rope, config.head_dim)
        norms = [layer.input_norm for layer in reference.layers[1:]] + [reference.norm]
        schedules = self._schedules(parts(reference.layers[0].attention.qkv)[0])
        self.layers = [
            StreamedLayer(
                config,
                layer.attention,
                layer.post_norm,
                layer.mlp,
                norm,
                schedules,
                entering_eps=config.norm_eps,
            )
            for layer, norm in zip(reference.layers, norms, strict=True)
        ]
        head, _ = parts(reference.head)
        self.head = HeadMatmul(head, self._schedules(head)["head"], config.norm_eps)
        dtype = reference.embedding_VD.dtype
        self.stream, self.between = buffers(config, self.layers[0], dtype)
        self.to_head = self.stream.rounded_to(dtype if head.scale is None else FP8)

    def _schedules(self, weight: Scaled) -> dict[str, Schedule]:
        """How each op is cut up where weights have the format of `weight`."""
        matmuls = matmuls_of(self.reference.config, weight.format)
        return {matmul.op: matmul.schedule for matmul in matmuls}

    def enqueue(
        self,
        tokens: Tensor,
        rows: Tensor | Branched,
        kv: KvCache,
        attention: SplitAttention,
        n_rows: int,
        winners: Winners,
        *,
        taps: Taps | None = None,
        logits: Tensor | None = None,
        first: int = 0,
        merge: Merge = UNTILED,
    ) -> None:
        """Queue a pass of `n_rows` rows, embedding to the winners of rows first … n_rows-1.

        Shapes: tokens [16] int64, where the device reaches them; rows: positions [16] int32 on the device, set before
        the pass begins, or where branches stand; logits [n_rows, V] fp32 or longer.
        """
        stream, model = self.stream, self.reference
        embed(tokens, model.embedding_VD, model.layers[0].input_norm, stream, n_rows, winners.stamps)
        for i, layer in enumerate(self.layers):
            if taps is not None:
                taps.keep(i, stream.residual)
            leaving = stream if i + 1 < len(self.layers) else self.to_head
            place = Place(rows, kv.keys(i), kv.values(i), attention, merge)
            layer(stream, stream, leaving, self.between, self.rotation, place, n_rows)
        if taps is not None:
            taps.keep(len(self.layers), stream.residual)
        self.head(self.to_head, winners, n_rows, logits, first=first)


@dataclass(frozen=True)
class _Rows:
    """A pass: what a graph of it is captured for."""

    n_rows: int
    taps: tuple[int, ...]
    logits: bool
    merge: Merge = UNTILED
    is_tree: bool = False


@dataclass(frozen=True)
class _Chain:
    """A whole draft: what a graph of it is captured for."""

    n_rows: int
    steps: int
    logits: bool
    merge: Merge = UNTILED


@dataclass(frozen=True)
class _LikelyBranches:
    """Both in one piece."""

    likely: LikelyShape
    branches: BranchShape


class StreamedPasses:
    """Passes of one sequence through a `StreamedModel`.

    Args:
        graphs: capture each kind of pass once and replay it; False queues the same kernels one by one.
    """

    chunk, first_chunks = PromptPasses.chunk, PromptPasses.first_chunks
    whole_branches = True

    def __init__(self, model: StreamedModel, kv: KvCache, *, graphs: bool = True) -> None:
        config = model.reference.config
        device = model.reference.device
        self._model, self._kv = model, kv
        self._prompt = PromptPasses(
            model.reference, model.rotation.cos, model.rotation.sin, kv, graphs=graphs
        )
        self._attention = SplitAttention(
            config.n_heads,
            config.n_kv_heads,
            config.head_dim,
            kv.n_slots,
            device,
        )
        self._replays = Replays(device, graphs=graphs)
        self.captures = self._replays.captures
        pinned = self.runs_ahead = device.type == "cuda"
        self._tokens = torch.zeros(ROWS, dtype=torch.int64, pin_memory=pinned)
        self._tokens_here = self._tokens.numpy()
        self._cursors, self._branch_tables, self._tree = (
            Cursors(device),
            BranchTables(device),
            TreeTable(device),
        )
        self._won = WinnersOfPasses(MAX_ROWS, device)
        self._fed = WinnersOfPasses(1, device)  # of the pass that feeds a line's last token
        self._picks = Picks(device)
        self._device = device
        self._taps = TapBuffers(config.hidden_size, ROWS, device)
        self._logits: Tensor | None = None
        self._branch_logits: dict[tuple[int, int], Tensor] = {}
        self._likely: LikelyTokens | None = None
        self._trees = GrownTrees(config.vocab_size, device)
        self.move = SlotMoves(kv, device, graphs=graphs)
        self._begun: tuple[_Rows, int | None] | None = None

    def prefill(self, ids_N: Tensor, start: int, taps: Sequence[int]) -> tuple[Tensor, Tensor | None]:
        return self._prompt(ids_N, start, taps)

    def rows(
        self,
        tokens: Sequence[int],
        start: int,
        taps: Sequence[int],
        *,
        logits: bool,
        parents: Sequence[int] | None = None,
    ) -> RowsOut:
        self.begin_rows(tokens, start, taps, logits=logits, parents=parents)
        return self.end_rows()

    def begin_rows(
        self,
        tokens: Sequence[int],
        start: int,
        taps: Sequence[int],
        *,
        logits: bool,
        parents: Sequence[int] | None = None,
    ) -> None:
        merge, is_tree = merge_for(start + len(tokens)), parents is not None
        shape = _Rows(len(tokens), tuple(taps), logits, merge, is_tree)
        if parents is not None:
            self._tree.start_at(start, tree_paths(parents))
        self._begun = shape, self._start_at(shape, tokens, start)

    def end_rows(self) -> RowsOut:
        assert self._begun is not None
        (shape, launches), self._begun = self._begun, None
        self._replays.wait()
        n_rows, logits, won, taps = shape.n_rows, shape.logits, self._won.won, self._taps.of(shape.taps)
        return RowsOut.of(
            won,
            n_rows,
            launches,
            logits_RV=self._logits[:n_rows] if logits and self._logits is not None else None,
            features_RF=taps.features[:n_rows] if taps is not None else None,
        )

    def chain(self, tokens: Sequence[int], start: int, steps: int, *, logits: bool) -> ChainOut:
        check_chain(len(tokens), steps)
        end = start + len(tokens) + steps - 1
        launches = self._start_at(_Chain(len(tokens), steps, logits, merge_for(end)), tokens, start)
        self._replays.wait()
        won = self._won.won
        return ChainOut(
            tokens=won.tokens[:steps, 0].tolist(),
            probs=won.probs[:steps, 0].tolist(),
            margins=won.margins[:steps, 0].tolist(),
            logits_SV=self._logit_buffer()[len(tokens) - 1 :][:steps] if logits else None,
            launches=launches,
            ran=won.ran(steps),
        )

    def tree(self, tokens: Sequence[int], start: int, depth: int, width: int) -> TreeOut:
        shape = self._trees.start_at(len(tokens), start, depth, width, self._kv.n_slots)
        launches = self._start_at(shape, tokens, start)
        self._replays.wait()
        return self._trees.out(shape, launches)

    def branches(self, starts: Sequence[BranchStart], steps: int, batch: int = 0) -> BranchesOut:
        shape = self._start_branches(starts, steps, batch)
        self._tokens_here[: len(starts)] = [start.token for start in starts]
        launches = self._replays.run(shape, partial(self._enqueue_branches, shape, self._tokens))
        self._replays.wait()
        return self._branches_out(shape, launches)

    def _start_branches(self, starts: Sequence[BranchStart | Pick], steps: int, batch: int) -> BranchShape:
        check_branches(starts, steps, self._kv.n_slots)
        if (steps, batch) not in self._branch_logits:  # made before anything is counted or captured
            vocabulary = self._model.reference.config.vocab_size
            self._branch_logits[steps, batch] = torch.zeros(steps, ROWS, vocabulary, device=self._device)
        return self._branch_tables.start_at(starts, steps, batch)

    def _branches_out(self, shape: BranchShape, launches: int | None) -> BranchesOut:
        won, steps, n_rows = self._won.won, shape.steps, shape.n_rows
        return BranchesOut(
            tokens=won.tokens[:steps, :n_rows].T.tolist(),
            probs=won.probs[:steps, :n_rows].T.tolist(),
            logits_KBV=self._branch_logits[steps, shape.batch][:, :n_rows],
            launches=launches,
            ran=won.ran(steps),
        )

    def likely(self, seen: Sequence[Tensor], token: int | None, position: int, count: int) -> LikelyOut:
        shape, likely = self._start_likely(seen, token, position, count)
        launches = self._replays.run(shape, partial(self._enqueue_likely, shape, likely))
        self._replays.wait()
        return self._likely_out(shape, likely, count, launches)

    def likely_branches(
        self,
        seen: Sequence[Tensor],
        token: int | None,
        position: int,
        count: int,
        picks: Sequence[Pick],
        steps: int,
    ) -> tuple[LikelyOut, BranchesOut]:
        likely_shape, likely = self._start_likely(seen, token, position, count)
        self._picks.start_at(picks)
        shape = _LikelyBranches(likely_shape, self._start_branches(picks, steps, 0))
        launches = self._replays.run(shape, partial(self._enqueue_likely_branches, shape, likely))
        self._replays.wait()
        out = self._likely_out(likely_shape, likely, count, launches)
        return out, self._branches_out(shape.branches, None if launches is None else 0)

    def _start_likely(
        self, seen: Sequence[Tensor], token: int | None, position: int, count: int
    ) -> tuple[LikelyShape, LikelyTokens]:
        check_places(seen, token)
        if self._likely is None:
            self._likely = LikelyTokens(self._model.reference.config.vocab_size, self._device)
        if token is not None:
            self._tokens_here[0] = token
            self._cursors.start_at(position)
        return self._likely.start_at(seen, count, None if token is None else position), self._likely

    def _likely_out(
        self, shape: LikelyShape, likely: LikelyTokens, count: int, launches: int | None
    ) -> LikelyOut:
        tokens, probs = likely.here(shape.n_places, count)
        return LikelyOut(
            tokens=tokens,
            probs=probs,
            logits_PV=likely.rows[: shape.n_places],
            launches=launches,
            ran=self._fed.won.ran(1) if shape.feeds else None,
        )

    def queued_rounds(self, board: Board, memory: Tensor, taps: Sequence[int]) -> QueuedRounds:
        """Rounds of this sequence on a board; no other pass runs while one of them is under way."""
        kept = self._taps.of(tuple(taps))

        def enqueue(tokens: Tensor, positions: Tensor, n_rows: int, won: Winners, merge: Merge) -> None:
            self._model.enqueue(
                tokens, positions, self._kv, self._attention, n_rows, won, taps=kept, merge=merge
            )

        features = None if kept is None else kept.features
        return QueuedRounds(board, memory, enqueue, features, self._device, graphs=self.captures)

    def queue(self, n_rows: int) -> None:
        """Queue a pass over whatever the buffers hold and wait for nothing (benchmarks)."""
        self._queue(_Rows(n_rows, (), False))

    def queue_chain(self, n_rows: int, steps: int) -> None:
        """Queue a draft from whatever the buffers hold and wait for nothing (benchmarks)."""
        self._queue(_Chain(n_rows, steps, False))

    def _start_at(self, shape: _Rows | _Chain | TreeShape, tokens: Sequence[int], start: int) -> int | None:
        """Queue it for `tokens` from position `start`. Returns: the host's launches."""
        self._tokens_here[: len(tokens)] = tokens
        self._cursors.start_at(start)
        return self._queue(shape)

    def _queue(self, shape: _Rows | _Chain | TreeShape) -> int | None:
        if isinstance(shape, TreeShape) or shape.logits:
            self._logit_buffer()  # made before anything is counted or captured
        if isinstance(shape, TreeShape):
            return self._replays.run(shape, partial(self._enqueue_tree, shape))
        if isinstance(shape, _Chain):
            return self._replays.run(shape, partial(self._enqueue_chain, shape))
        self._taps.of(shape.taps)  # likewise
        return self._replays.run(shape, partial(self._enqueue_rows, shape))

    def _enqueue_rows(self, shape: _Rows) -> None:
        if shape.is_tree:
            rows: Tensor | Branched = self._tree.begin()
        else:
            self._cursors.begin()
            rows = self._cursors.first
        self._model.enqueue(
            self._tokens,
            rows,
            self._kv,
            self._attention,
            shape.n_rows,
            self._won.here(0),
            taps=self._taps.of(shape.taps),
            logits=self._logit_buffer() if shape.logits else None,
            merge=shape.merge,
        )

    def _enqueue_chain(self, shape: _Chain) -> None:
        self._cursors.begin_all()
        tokens, n_rows, at = self._tokens, shape.n_rows, 0
        for step in range(shape.steps):
            won = self._won.near(step)
            self._model.enqueue(
                tokens,
                self._cursors[at],
                self._kv,
                self._attention,
                n_rows,
                won,
                logits=self._logit_buffer()[at:] if shape.logits else None,
                first=n_rows - 1,
                merge=shape.merge,
            )
            tokens, n_rows, at = won.tokens, 1, at + n_rows
        self._won.bring(shape.steps)

    def _enqueue_tree(self, shape: TreeShape) -> None:
        logits = self._logit_buffer()

        def feed(tokens: Tensor, rows: Tensor | Branched, n_rows: int, won: Winners) -> tuple[Tensor, None]:
            self._model.enqueue(
                tokens,
                rows,
                self._kv,
                self._attention,
                n_rows,
                won,
                logits=logits,
                first=n_rows - 1,
                merge=shape.merge,
            )
            return logits[:n_rows], None

        self._cursors.begin()
        self._trees.enqueue(shape, self._tokens, self._cursors.first, feed)

    def _enqueue_branches(self, shape: BranchShape, tokens: Tensor) -> None:
        self._branch_tables.begin()
        for step in range(shape.steps):
            won = self._won.near(step)
            self._model.enqueue(
                tokens,
                self._branch_tables[step],
                self._kv,
                self._attention,
                shape.n_rows,
                won,
                logits=self._branch_logits[shape.steps, shape.batch][step],
                merge=shape.merge,
            )
            tokens = won.tokens
        self._won.bring(shape.steps)

    def _enqueue_likely_branches(self, shape: _LikelyBranches, likely: LikelyTokens) -> None:
        found = self._enqueue_likely(shape.likely, likely)
        self._picks.enqueue(found, shape.branches.n_rows)
        self._enqueue_branches(shape.branches, self._picks.tokens)

    def _enqueue_likely(self, shape: LikelyShape, likely: LikelyTokens) -> Tensor:
        if shape.feeds:
            self._cursors.begin()
            self._model.enqueue(
                self._tokens,
                self._cursors.first,
                self._kv,
                self._attention,
                1,
                self._fed.here(0),
                logits=likely.rows[shape.n_seen :],
                merge=shape.merge,
            )
        return likely.enqueue(shape.n_seen, shape.n_places)

    def _logit_buffer(self) -> Tensor:
        """Logits by position after the first row's, fp32; rows of a pass lie one after the other."""
        if self._logits is None:
            vocabulary = self._model.reference.config.vocab_size
            self._logits = torch.zeros(REACH, vocabulary, device=self._device)
        return self._logits
