"""Likely tokens after each place of a line in one piece: what single rows give, bit for bit, and the library's top-k."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from specmon.core.drafters.base import Outcome
from specmon.core.drafters.chain import ChainDrafter
from specmon.core.drafters.draft_model import DraftModelStepper
from specmon.core.models.build import build_transformer
from specmon.core.models.hf_folder import HfFolder
from specmon.core.models.kv import KvCache
from specmon.core.models.likely import LikelyTokens, Picks
from specmon.core.models.passes import BranchesOut, BranchStart, LikelyOut, Pick
from specmon.core.models.recipe import Recipe
from specmon.core.models.reference_passes import ReferencePasses, likely_then_branches
from specmon.core.models.streamed import StreamedModel, StreamedPasses
from specmon.kernels.head.reference import pick_reference, top_rows
from specmon.kernels.stream.launch import gather
from specmon.kernels.stream.reference import gather as gather_reference

DEVICE = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
FP32 = Recipe(name="fp32", activation=torch.float32, kv=torch.float32, quantised=False)
TEXT = [5, 9, 23]
K = 2


@pytest.fixture(scope="module")
def streamed(tiny: Any) -> StreamedModel:
    file = HfFolder(tiny.two_layers("qwen3"))
    return StreamedModel(
        build_transformer(file, FP32, str(DEVICE), max_positions=700, progress=lambda what, part: None)
    )


def cache(model: StreamedModel) -> KvCache:
    made = KvCache.of(model.reference.config, n_slots=200, dtype=torch.float32, device=DEVICE)
    made.poison(0)
    return made


class Stepwise(StreamedPasses):
    """The same rows, with likely tokens found one launch after the other."""

    def likely(self, seen: Sequence[Tensor], token: int | None, position: int, count: int) -> LikelyOut:
        rows = [row.clone() for row in seen]
        if token is not None:
            logits = self.rows([token], position, (), logits=True).logits_RV
            assert logits is not None
            rows.append(logits.clone())
        found = LikelyTokens(rows[0].shape[1], DEVICE)
        found.rows[: len(rows)] = torch.cat(rows)
        found.start_at([], count)
        found.enqueue(0, len(rows))
        if DEVICE.type == "cuda":
            torch.cuda.synchronize()
        tokens, probs = found.here(len(rows), count)
        return LikelyOut(tokens=tokens, probs=probs, logits_PV=torch.cat(rows), launches=None)

    def likely_branches(
        self,
        seen: Sequence[Tensor],
        token: int | None,
        position: int,
        count: int,
        picks: Sequence[Pick],
        steps: int,
    ) -> tuple[LikelyOut, BranchesOut]:
        return likely_then_branches(self, seen, token, position, count, picks, steps)


def begun(passes: StreamedPasses) -> StreamedPasses:
    passes.rows(TEXT, 0, (), logits=False)
    return passes


def test_rows_are_gathered_from_wherever_they_lie() -> None:
    width = 5000  # more than one program takes, and no multiple of it
    out = torch.zeros(16, width, device=DEVICE)
    source = torch.randn(3, 7, width, device=DEVICE)
    rows = [source[2, 4], source[0, 6], out[2]]
    out[2] = 7.0
    wanted = gather_reference(rows)
    addresses = torch.tensor([row.data_ptr() for row in rows] + [0] * 13)
    gather(addresses.pin_memory() if DEVICE.type == "cuda" else addresses, out, 3)

    assert torch.equal(out[:3], wanted)
    assert not out[3:].any()


@pytest.mark.parametrize("named", [False, True])
@pytest.mark.parametrize(
    ("n_tokens", "count", "n_rows"), [(7, 7, 1), (2048, 1, 3), (2049, 17, 16), (5000, 32, 5), (300, 40, 2)]
)
def test_likely_tokens_are_the_librarys(n_tokens: int, count: int, n_rows: int, named: bool) -> None:
    """Over a tile's border, as many as there are, more than the kernel finds; some logits far away from the others."""
    torch.manual_seed(n_tokens)
    names = torch.randperm(n_tokens).to(DEVICE) if named else None
    likely = LikelyTokens(n_tokens, DEVICE, names)
    likely.rows[:n_rows] = 9 * torch.randn(n_rows, n_tokens, device=DEVICE)
    likely.rows[0, n_tokens // 2] = 200.0
    index, wanted = top_rows(likely.rows[:n_rows], count)
    likely.start_at([], count)

    there = likely.enqueue(0, n_rows)

    if DEVICE.type == "cuda":
        torch.cuda.synchronize()
    tokens, probs = likely.here(n_rows, count)
    assert tokens == (index if names is None else names[index]).tolist()
    assert there.tolist() == tokens
    torch.testing.assert_close(torch.tensor(probs), wanted.cpu(), rtol=1e-5, atol=1e-9)


def test_of_equal_logits_the_lower_token_comes_first() -> None:
    likely = LikelyTokens(4100, DEVICE)
    likely.rows[0] = 0.0
    likely.rows[0, [5, 2047, 2048, 4099]] = 1.0
    likely.start_at([], 6)

    assert likely.enqueue(0, 1).tolist() == [[5, 2047, 2048, 4099, 0, 1]]


def test_logits_that_are_no_numbers_name_tokens_there_are() -> None:
    likely = LikelyTokens(300, DEVICE)
    likely.rows[0] = float("nan")
    likely.start_at([], 3)

    found = likely.enqueue(0, 1)

    assert bool(((found >= 0) & (found < 300)).all())


def test_likely_tokens_are_those_of_single_rows(streamed: StreamedModel) -> None:
    """After a draft, after each batch of branches, and with nothing left to feed."""
    whole, stepwise = (
        begun(StreamedPasses(streamed, cache(streamed))),
        begun(Stepwise(streamed, cache(streamed))),
    )
    n = len(TEXT)
    starts = [
        [BranchStart(prefix=n, token=token, slots=range(first, first + K))]
        for token, first in ((40, n + 10), (41, n + 20))
    ]
    found = []
    for passes in (whole, stepwise):
        drafted = passes.chain([31], n, K, logits=True)
        assert drafted.logits_SV is not None
        line = torch.split(drafted.logits_SV.clone(), 1)  # steps write where they lie
        outs = [passes.likely(line, drafted.tokens[-1], n + K, count) for count in (3, 6)]
        outs.append(passes.likely(torch.split(outs[-1].logits_PV, 1), None, n + K, 4))
        kept = [passes.branches(own, K, batch) for batch, own in enumerate(starts)]
        for out, (own,) in zip(kept, starts, strict=True):
            passes.move(own.slots, n)
            seen = [step[:1] for step in out.logits_KBV]
            outs.append(passes.likely(seen, out.tokens[0][-1], n + K, 3))
        found.append([(out.tokens, out.probs) for out in outs])

    assert found[0] == found[1]
    assert [len(tokens) for tokens, _ in found[0]] == [K + 1] * 5
    assert found[0][-1] != found[0][-2]


@pytest.mark.parametrize("count", [2, 7, 17])
def test_picked_tokens_leave_out_what_was_proposed(count: int) -> None:
    torch.manual_seed(count)
    likely = torch.stack([torch.randperm(40)[:count] for _ in range(16)]).to(DEVICE)
    chosen = [(place, 1 + place % (count - 1), int(likely[place, place % count])) for place in range(15)]
    chosen.append((15, count, -1))
    picks = Picks(DEVICE)
    picks.start_at([Pick(place=p, rank=r, proposed=t, prefix=0, slots=()) for p, r, t in chosen])
    picks.enqueue(likely, 16)

    assert picks.tokens.tolist() == pick_reference(likely, chosen)


def test_branches_begun_where_likely_tokens_are_found_are_those_of_two_pieces(
    streamed: StreamedModel,
) -> None:
    n = len(TEXT)
    found = []
    for kind in (StreamedPasses, Stepwise):
        passes = begun(kind(streamed, cache(streamed)))
        drafted = passes.chain([31], n, K, logits=True)
        assert drafted.logits_SV is not None
        line = torch.split(drafted.logits_SV.clone(), 1)
        proposed = [*drafted.tokens, -1]
        places = [(0, 1), (0, 3), (1, 2), (K, 1)]
        for again in range(2):  # captured, and replayed with other tables
            picks = [
                Pick(
                    place=place,
                    rank=rank + again,
                    proposed=proposed[place],
                    prefix=n + 1 + place,
                    slots=range(n + 20 + j * K, n + 20 + (j + 1) * K),
                )
                for j, (place, rank) in enumerate(places)
            ]
            likely, branches = passes.likely_branches(line, drafted.tokens[-1], n + K, 6, picks, K)
            found.append((likely.tokens, likely.probs, branches.tokens, branches.probs))
            found.append(branches.logits_KBV.clone())
    for one, other in zip(found[:4], found[4:], strict=True):
        same = torch.equal(one, other) if isinstance(one, Tensor) else one == other
        assert same


def test_no_more_tokens_are_found_than_there_are() -> None:
    likely = LikelyTokens(5, DEVICE)
    likely.rows[:2] = torch.randn(2, 5, device=DEVICE)
    likely.start_at([], 9)
    likely.enqueue(0, 2)

    tokens, probs = likely.here(2, 9)

    assert [sorted(row) for row in tokens] == [[0, 1, 2, 3, 4]] * 2
    assert [sum(row) for row in probs] == pytest.approx([1.0, 1.0])


def test_drafts_and_branches_are_those_of_single_steps(streamed: StreamedModel) -> None:
    """Round after round, on hits and misses: tokens, probabilities and guesses."""
    drafters = []
    for kind in (StreamedPasses, Stepwise):
        kv = cache(streamed)
        drafters.append(ChainDrafter(DraftModelStepper(streamed.reference, kv, kind(streamed, kv), "tiny")))
    for drafter in drafters:
        drafter.begin(TEXT, None, 0)
    proposals = [drafter.draft(K) for drafter in drafters]
    for accepted_len, hit in ((K, True), (1, False)):
        assert proposals[0] == proposals[1]
        prepared = [drafter.prepare((2, 0, 1), K, lambda: 1, lambda: None) for drafter in drafters]
        assert prepared[0] == prepared[1]
        accepted = proposals[0].tokens[:accepted_len]
        for i, drafter in enumerate(drafters):
            branch = next((b for b in prepared[i] if b.accepted_len == accepted_len), None)
            if hit and branch is not None and branch.proposal is not None:
                drafter.adopt(Outcome(accepted=accepted, bonus=branch.bonus), branch)
                proposals[i] = branch.proposal
            else:
                drafter.commit(Outcome(accepted=accepted, bonus=88))
                proposals[i] = drafter.draft(K)
    assert proposals[0] == proposals[1]


@pytest.mark.parametrize(("n_seen", "token"), [(0, None), (16, 3), (17, None)])
def test_places_that_cannot_be_are_refused(streamed: StreamedModel, n_seen: int, token: int | None) -> None:
    seen = [torch.zeros(1, streamed.reference.config.vocab_size, device=DEVICE)] * n_seen
    for passes in (
        StreamedPasses(streamed, cache(streamed)),
        ReferencePasses(streamed.reference, cache(streamed)),
    ):
        with pytest.raises(ValueError, match="places of a line cannot be: 1 to 16"):
            passes.likely(seen, token, 0, 2)


@pytest.mark.gpu
@pytest.mark.skipif(DEVICE.type == "cpu", reason="needs a CUDA device")
def test_likely_tokens_and_a_move_are_a_graph_each(streamed: StreamedModel) -> None:
    passes = begun(StreamedPasses(streamed, cache(streamed)))
    for _ in range(2):
        drafted = passes.chain([31], len(TEXT), K, logits=True)
        assert drafted.logits_SV is not None
        likely = passes.likely(torch.split(drafted.logits_SV, 1), drafted.tokens[-1], len(TEXT) + K, 3)
        moved = passes.move([100, 101], len(TEXT))

    assert (drafted.launches, likely.launches, moved) == (1, 1, 1)
