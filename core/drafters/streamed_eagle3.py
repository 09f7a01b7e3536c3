"""An EAGLE-3 head behind streaming kernels: a draft, a tree, or all branches, is one CUDA graph, and nothing is waited for.

A draft begins with rows that have real features, which `fc` widens to the head's size; each further step is one row, fed
with the winner before it and paired with the residual it left, its carry. Tokens, features and the first slot are read from
static addresses, and a draft's rows lie one after the other: the residual after row i is in place i, so that features are
never copied. A branch begins with a carry of the line it leaves and a likely token that the same graph has found; tokens
of an adopted branch are fed again, with real features, before it looks for those. A tree's nodes begin with their parents'.
Shapes: R rows, B branches, K steps, P places of a line, D hidden size, F features (taps · D), V' the head's vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from specmon.core.drafters.eagle3 import Eagle3Head
from specmon.core.models.cursors import REACH, BranchShape, BranchTables, Cursors
from specmon.core.models.kv import KvCache
from specmon.core.models.likely import LikelyShape, LikelyTokens, Picks
from specmon.core.models.matmuls import eagle3_matmuls
from specmon.core.models.moves import SlotMoves
from specmon.core.models.passes import (
    MAX_ROWS,
    BranchesOut,
    BranchStart,
    LikelyOut,
    Pick,
    TreeOut,
    check_branches,
    check_chain,
    check_places,
)
from specmon.core.models.replays import Replays
from specmon.core.models.streamed_layer import Place, Rotation, StreamedLayer, buffers, parts
from specmon.core.models.trees import GrownTrees, TreeShape
from specmon.kernels.attention.split import UNTILED, Branched, Merge, SplitAttention, merge_for
from specmon.kernels.eagle3.launch import collect, pair
from specmon.kernels.quantise.reference import FP8
from specmon.kernels.stream.launch import HeadMatmul, Normed, gather
from specmon.kernels.stream.scaled import ROWS, Scaled
from specmon.kernels.stream.schedule import Schedule, pair_group
from specmon.kernels.stream.winners import Winners, WinnersOfPasses


@dataclass(frozen=True, kw_only=True)
class Drafted:
    """Target tokens and their probabilities in the head's vocabulary; `launches`: the host's, where they are counted.

    Where asked for, `logits` [steps, V'] are those each token was chosen from and `carries` [steps, D] the features
    that came with them; they stay until the next draft.
    """

    tokens: list[int]
    probs: list[float]
    logits: Tensor | None
    carries: Tensor | None
    launches: int | None


@dataclass(frozen=True)
class _Draft:
    """A whole draft: what a graph of it is captured for."""

    n_rows: int
    steps: int
    guesses: bool
    merge: Merge


@dataclass(frozen=True)
class _Whole:
    """Rows fed again (0: none), likely tokens and the branches that begin with them."""

    n_again: int
    again_merge: Merge
    likely: LikelyShape
    branches: BranchShape


class StreamedEagle3:
    """Drafts and branches of one sequence.

    Args:
        graphs: capture each kind of draft once and replay it; False queues the same kernels one by one.
    Raises: ValueError where a weight is neither dense nor fp8, or has a bias the kernels do not take.
    """

    def __init__(self, head: Eagle3Head, kv: KvCache, *, graphs: bool = True) -> None:
        config, table = head.config, head.embedding_VD
        device, width = table.device, head.config.hidden_size
        self._head, self._kv, self._device = head, kv, device
        qkv, _ = parts(head.attention.qkv)
        self._layer = StreamedLayer(
            config,
            head.attention,
            head.post_norm,
            head.mlp,
            head.norm,
            self._schedules(qkv),
            entering_eps=0.0,
        )
        weight, _ = parts(head.head)
        schedule = self._schedules(weight)["head"]
        self._to_winners = HeadMatmul(weight, schedule, config.norm_eps, head.to_target)
        self._rotation = Rotation.of(head.rope, config.head_dim)
        self._entering = Normed(
            2 * width, pair_group(width), table.dtype if qkv.scale is None else FP8, device
        )
        self._stream, self._between = buffers(config, self._layer, table.dtype)
        self._to_head = self._stream.rounded_to(table.dtype if weight.scale is None else FP8)
        self._attention = SplitAttention(
            config.n_heads, config.n_kv_heads, config.head_dim, kv.n_slots, device
        )
        self._replays = Replays(device, graphs=graphs)
        self.captures = self._replays.captures
        pinned = device.type == "cuda"
        self._tokens = torch.zeros(ROWS, dtype=torch.int64, pin_memory=pinned)
        self._tokens_here = self._tokens.numpy()
        self._address = torch.zeros(1, dtype=torch.int64, pin_memory=pinned)
        self._address_here = self._address.numpy()
        self._features = torch.zeros(ROWS, head.fc.in_features, dtype=head.fc.dtype, device=device)
        self._residual = torch.zeros(REACH, width, device=device)
        self._cursors = Cursors(device)
        self._won = WinnersOfPasses(MAX_ROWS, device)
        self._logits: Tensor | None = None
        self.move = SlotMoves(kv, device, graphs=graphs)
        self._likely: LikelyTokens | None = None
        self._trees = GrownTrees(head.head.out_features, device, head.to_target)
        self._line = torch.zeros(ROWS, width, device=device)  # the carries of a line's places
        self._branch_tables = BranchTables(device)
        self._entered = torch.zeros(ROWS, width, device=device)  # carries that branches and nodes begin with
        self._carry_addresses = torch.zeros(ROWS, dtype=torch.int64, pin_memory=pinned)
        self._carry_addresses_here = self._carry_addresses.numpy()
        self._entry_addresses = torch.zeros(ROWS, dtype=torch.int64, pin_memory=pinned)
        self._entry_addresses_here = self._entry_addresses.numpy()
        self._picks = Picks(device)
        self._again_tokens = torch.zeros(ROWS, dtype=torch.int64, pin_memory=pinned)
        self._again_tokens_here = self._again_tokens.numpy()
        self._again_cursors = Cursors(device)
        self._branch_logits: dict[tuple[int, int], Tensor] = {}
        self._branch_carries: dict[tuple[int, int], Tensor] = {}

    def _schedules(self, weight: Scaled) -> dict[str, Schedule]:
        """How each op is cut up where weights have the format of `weight`."""
        matmuls = eagle3_matmuls(self._head.config, self._head.head.out_features, weight.format)
        return {matmul.op: matmul.schedule for matmul in matmuls}

    def __call__(
        self, tokens: list[int], slot: int, features_RF: Tensor, steps: int, *, guesses: bool
    ) -> Drafted:
        """Feed up to 16 tokens from `slot` on with the features before each, and name `steps` (1 … 16) tokens after them.

        The last one named is not fed. `guesses`: keep logits and carries. Waits for the result.
        Raises: ValueError for rows or steps that cannot be.
        """
        n_rows = len(tokens)
        check_chain(n_rows, steps)
        near = self._near(features_RF, n_rows)  # alive until the result is there
        self._tokens_here[:n_rows] = tokens
        self._cursors.start_at(slot)
        if guesses:
            self._logit_buffer()  # made before anything is counted or captured
        shape = _Draft(n_rows, steps, guesses, merge_for(slot + n_rows + steps - 1))
        launches = self._replays.run(shape, partial(self._enqueue, shape))
        self._replays.wait()
        if launches is not None:
            launches += near is not features_RF  # its copy
        named = slice(n_rows - 1, n_rows - 1 + steps)
        won = self._won.won
        return Drafted(
            tokens=won.tokens[:steps, 0].tolist(),
            probs=won.probs[:steps, 0].tolist(),
            logits=self._logit_buffer()[named] if guesses else None,
            carries=self._residual[named] if guesses else None,
            launches=launches,
        )

    def tree(self, tokens: list[int], slot: int, features_RF: Tensor, depth: int, width: int) -> TreeOut:
        """Feed up to 16 tokens as a draft does, then draft a tree after the last as `Passes.tree` does.

        Raises: ValueError for a tree that cannot be.
        """
        n_rows = len(tokens)
        shape = self._trees.start_at(n_rows, slot, depth, width, self._kv.n_slots)
        near = self._near(features_RF, n_rows)  # alive until the result is there
        self._tokens_here[:n_rows] = tokens
        self._cursors.start_at(slot)
        self._logit_buffer()  # made before anything is counted or captured
        launches = self._replays.run(shape, partial(self._enqueue_tree, shape))
        self._replays.wait()
        if launches is not None:
            launches += near is not features_RF  # its copy
        return self._trees.out(shape, launches)

    def likely(
        self, seen: Sequence[Tensor], carries: Sequence[Tensor], token: int | None, slot: int, count: int
    ) -> tuple[LikelyOut, Tensor]:
        """Feed a line's last token in `slot`, and name the `count` likeliest target tokens after each place.

        Shapes: seen [1, V'] and carries [1, D] each, what earlier passes gave, in order. Returns: also the carries [P, D]
        of all places, which stay until likely tokens are next asked for.
        Raises: ValueError for no place or more than 16.
        """
        shape, likely = self._start_likely(seen, carries, token, slot, count)
        launches = self._replays.run(shape, partial(self._enqueue_likely, shape, likely))
        self._replays.wait()
        return self._likely_out(shape, likely, count, launches)

    def branches(
        self, starts: Sequence[BranchStart], carries: Sequence[Tensor], steps: int, batch: int
    ) -> tuple[BranchesOut, Tensor]:
        """Draft up to 16 branches as `Passes.branches` does, each from a carry [1, D] of the line it leaves.

        Returns: also the carries [K, B, D] that came with the logits.
        Raises: ValueError for branches or steps that cannot be.
        """
        shape = self._start_branches(starts, steps, batch)
        self._tokens_here[: len(starts)] = [start.token for start in starts]
        self._entry_addresses_here[: len(starts)] = [carry.data_ptr() for carry in carries]
        launches = self._replays.run(shape, partial(self._enqueue_branches, shape, self._tokens))
        self._replays.wait()
        return self._branches_out(shape, launches)

    def likely_branches(
        self,
        seen: Sequence[Tensor],
        carries: Sequence[Tensor],
        token: int | None,
        slot: int,
        count: int,
        picks: Sequence[Pick],
        steps: int,
        again: tuple[list[int], int, Tensor] | None = None,
    ) -> tuple[LikelyOut, Tensor, BranchesOut, Tensor]:
        """`likely`, then `branches` that begin with tokens it found: one piece of work.

        `again`: up to 16 tokens, the slot of the first and the features [R, F] before each, fed before all that; the
        line's first place is then `after_again`. Returns and raises: as those two.
        """
        likely_shape, likely = self._start_likely(seen, carries, token, slot, count)
        self._picks.start_at(picks)
        row_bytes = self._line.stride(0) * self._line.element_size()
        self._entry_addresses_here[: len(picks)] = [
            self._line.data_ptr() + pick.place * row_bytes for pick in picks
        ]
        n_again, merge, copied = 0, UNTILED, False
        if again is not None:
            tokens, first, features_RF = again
            n_again, merge = len(tokens), merge_for(first + len(tokens))
            check_chain(n_again, 1)
            near = self._near(features_RF, n_again)  # alive until the result is there
            copied = near is not features_RF
            self._again_tokens_here[:n_again] = tokens
            self._again_cursors.start_at(first)
            self._logit_buffer()
        shape = _Whole(n_again, merge, likely_shape, self._start_branches(picks, steps, 0))
        launches = self._replays.run(shape, partial(self._enqueue_whole, shape, likely))
        self._replays.wait()
        out, line = self._likely_out(
            likely_shape, likely, count, None if launches is None else launches + copied
        )
        return out, line, *self._branches_out(shape.branches, None if launches is None else 0)

    def after_again(self, n_rows: int) -> tuple[Tensor, Tensor]:
        """Where `n_rows` rows that are fed again leave the logits [1, V'] after the last, and its carry [1, D]."""
        last = slice(n_rows - 1, n_rows)
        return self._logit_buffer()[last], self._residual[last]

    def _near(self, features_RF: Tensor, n_rows: int) -> Tensor:
        """Features where the device reads them, from an address that it is told. Raises: ValueError for another shape."""
        if features_RF.shape != (n_rows, self._features.shape[1]):
            raise ValueError(
                f"{n_rows} tokens need features [{n_rows}, {self._features.shape[1]}], not {list(features_RF.shape)}"
            )
        near = features_RF.to(self._device, torch.float32).contiguous()
        self._address_here[0] = near.data_ptr()
        return near

    def _start_likely(
        self, seen: Sequence[Tensor], carries: Sequence[Tensor], token: int | None, slot: int, count: int
    ) -> tuple[LikelyShape, LikelyTokens]:
        check_places(seen, token)
        if self._likely is None:
            head = self._head
            self._likely = LikelyTokens(head.head.out_features, self._device, head.to_target)
        self._carry_addresses_here[: len(carries)] = [carry.data_ptr() for carry in carries]
        if token is not None:
            self._tokens_here[0] = token
            self._cursors.start_at(slot)
        return self._likely.start_at(seen, count, None if token is None else slot), self._likely

    def _likely_out(
        self, shape: LikelyShape, likely: LikelyTokens, count: int, launches: int | None
    ) -> tuple[LikelyOut, Tensor]:
        tokens, probs = likely.here(shape.n_places, count)
        rows = likely.rows[: shape.n_places]
        out = LikelyOut(tokens=tokens, probs=probs, logits_PV=rows, launches=launches)
        return out, self._line[: shape.n_places]

    def _start_branches(self, starts: Sequence[BranchStart | Pick], steps: int, batch: int) -> BranchShape:
        check_branches(starts, steps, self._kv.n_slots)
        key = steps, batch
        if key not in self._branch_logits:  # made before anything is counted or captured
            n_tokens, width = self._head.head.out_features, self._residual.shape[1]
            self._branch_logits[key] = torch.zeros(steps, ROWS, n_tokens, device=self._device)
            self._branch_carries[key] = torch.zeros(steps, ROWS, width, device=self._device)
        return self._branch_tables.start_at(starts, steps, batch)

    def _branches_out(self, shape: BranchShape, launches: int | None) -> tuple[BranchesOut, Tensor]:
        won, steps, n_rows = self._won.won, shape.steps, shape.n_rows
        key = steps, shape.batch
        out = BranchesOut(
            tokens=won.tokens[:steps, :n_rows].T.tolist(),
            probs=won.probs[:steps, :n_rows].T.tolist(),
            logits_KBV=self._branch_logits[key][:, :n_rows],
            launches=launches,
            ran=None,
        )
        return out, self._branch_carries[key][:, :n_rows]

    def _enqueue(self, shape: _Draft) -> None:
        head = self._head
        self._cursors.begin_all()
        collect(self._address, self._features, shape.n_rows)
        features = head.widen(self._features)  # all 16 rows: the library's bits follow from their number
        tokens, n_rows, at = self._tokens, shape.n_rows, 0
        for step in range(shape.steps):
            won, residual = self._won.near(step), self._residual[at:]
            logits = self._logit_buffer()[at:] if shape.guesses else None
            rows = self._cursors[at]
            self._pass(tokens, features, residual, rows, n_rows, won, logits, shape.merge, first=n_rows - 1)
            tokens, features, n_rows, at = won.tokens, residual[n_rows - 1 :], 1, at + n_rows
        self._won.bring(shape.steps)

    def _enqueue_tree(self, shape: TreeShape) -> None:
        logits, residual = self._logit_buffer(), self._residual

        def feed(tokens: Tensor, rows: Tensor | Branched, n_rows: int, won: Winners) -> tuple[Tensor, Tensor]:
            if isinstance(rows, Branched):
                gather(self._trees.addresses, self._entered, n_rows)
                features = self._entered
            else:
                collect(self._address, self._features, n_rows)
                features = self._head.widen(self._features)  # all 16 rows, as in a draft
            first = n_rows - 1
            self._pass(tokens, features, residual, rows, n_rows, won, logits, shape.merge, first=first)
            return logits[:n_rows], residual[:n_rows]

        self._cursors.begin()
        self._trees.enqueue(shape, self._tokens, self._cursors.first, feed)

    def _enqueue_whole(self, shape: _Whole, likely: LikelyTokens) -> None:
        if shape.n_again:
            self._enqueue_again(shape.n_again, shape.again_merge)
        self._picks.enqueue(self._enqueue_likely(shape.likely, likely), shape.branches.n_rows)
        self._enqueue_branches(shape.branches, self._picks.tokens)

    def _enqueue_again(self, n_rows: int, merge: Merge) -> None:
        self._again_cursors.begin()
        collect(self._address, self._features, n_rows)
        features, rows, won = self._head.widen(self._features), self._again_cursors.first, self._won.near(0)
        logits = self._logit_buffer()
        self._pass(
            self._again_tokens, features, self._residual, rows, n_rows, won, logits, merge, first=n_rows - 1
        )

    def _enqueue_likely(self, shape: LikelyShape, likely: LikelyTokens) -> Tensor:
        n_seen, line = shape.n_seen, self._line
        if shape.feeds:
            self._cursors.begin()
        gather(self._carry_addresses, line, n_seen)
        if shape.feeds:
            rows, won, logits = self._cursors.first, self._won.here(0), likely.rows[n_seen:]
            self._pass(self._tokens, line[n_seen - 1 :], line[n_seen:], rows, 1, won, logits, shape.merge)
        return likely.enqueue(n_seen, shape.n_places)

    def _enqueue_branches(self, shape: BranchShape, tokens: Tensor) -> None:
        self._branch_tables.begin()
        gather(self._entry_addresses, self._entered, shape.n_rows)
        features, key = self._entered, (shape.steps, shape.batch)
        for step in range(shape.steps):
            won, residual = self._won.near(step), self._branch_carries[key][step]
            rows, logits = self._branch_tables[step], self._branch_logits[key][step]
            self._pass(tokens, features, residual, rows, shape.n_rows, won, logits, shape.merge)
            tokens, features = won.tokens, residual
        self._won.bring(shape.steps)

    def _pass(
        self,
        tokens: Tensor,
        features: Tensor,
        residual: Tensor,
        rows: Tensor | Branched,
        n_rows: int,
        won: Winners,
        logits: Tensor | None,
        merge: Merge,
        *,
        first: int = 0,
    ) -> None:
        """Queue a pass over `n_rows` rows, tokens to the winners of rows first … n_rows-1.

        Shapes: tokens [16] int64; features [n_rows, D] or longer, what the tokens are paired with; residual alike, which
        becomes the carries; logits [n_rows, V'] fp32 or longer. `rows` as `StreamedModel.enqueue` takes them.
        """
        head, kv = self._head, self._kv
        pair(
            tokens,
            head.embedding_VD,
            head.input_norm,
            features,
            head.hidden_norm,
            residual,
            self._entering,
            n_rows,
            head.config.norm_eps,
            normed_residual=head.normed_residual,
        )
        stream, to_head = self._stream.over(residual), self._to_head.over(residual)
        place = Place(rows, kv.keys(0), kv.values(0), self._attention, merge)
        self._layer(self._entering, stream, to_head, self._between, self._rotation, place, n_rows)
        self._to_winners(to_head, won, n_rows, logits, first=first)

    def _logit_buffer(self) -> Tensor:
        """Logits of every row fed, in the residual's order, fp32."""
        if self._logits is None:
            self._logits = torch.zeros(REACH, self._head.head.out_features, device=self._device)
        return self._logits
