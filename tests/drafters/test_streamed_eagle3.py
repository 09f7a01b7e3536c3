"""A draft of an EAGLE-3 head in one piece on the streaming kernels, against the same head stepped in torch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tests.tiny_models import HIDDEN, TinyModels
from torch import Tensor

from specmon.core.drafters.base import Outcome
from specmon.core.drafters.chain import ChainDrafter
from specmon.core.drafters.eagle3 import Eagle3Head, Eagle3Stepper
from specmon.core.drafters.eagle3_file import load_eagle3
from specmon.core.drafters.line import Line
from specmon.core.drafters.streamed_eagle3 import StreamedEagle3
from specmon.core.models.config import ModelConfig
from specmon.core.models.hf_folder import HfFolder
from specmon.core.models.kv import KvCache
from specmon.core.models.passes import BranchStart
from specmon.core.models.placement import Rows
from specmon.core.models.random_weights import PREFIX, SHAPES, RandomFile, RandomHead
from specmon.core.models.recipe import resolve_recipe

from .conftest import FP32, N_SLOTS, target_embedding
from .published_heads import changed, random_norms

DEVICE = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")

TEXT = [9, 8, 7, 30, 31, 60, 12, 5, 77, 41, 3, 90, 21, 8, 14, 66, 70, 33, 2, 19]
Features = Callable[[Sequence[int], int, int], Tensor]


@pytest.fixture(scope="module", params=["llama", "qwen3", "llama-tied"])
def head(request: pytest.FixtureRequest, tiny: TinyModels) -> Eagle3Head:
    target, file = HfFolder(tiny.target(request.param)), HfFolder(tiny.eagle3(request.param))
    embedding = target_embedding(tiny.target(request.param)).to(DEVICE)
    return load_eagle3(file, target.config, embedding, FP32, str(DEVICE), max_positions=N_SLOTS)


def cache(config: ModelConfig, dtype: torch.dtype = torch.float32) -> KvCache:
    return KvCache.of(config, n_slots=N_SLOTS, dtype=dtype, device=DEVICE, n_layers=1)


def steppers(head: Eagle3Head) -> tuple[Eagle3Stepper, Eagle3Stepper]:
    """One that drafts at once and one that steps, on a cache each whose unused slots are poisoned."""
    whole, stepped = cache(head.config), cache(head.config)
    for kv in (whole, stepped):
        kv.poison(0)
    return Eagle3Stepper(head, whole, "tiny", StreamedEagle3(head, whole)), Eagle3Stepper(
        head, stepped, "tiny"
    )


def assert_same(found: Line, wanted: Line, count: int) -> None:
    assert found.tokens == wanted.tokens
    assert len(found.tokens) == count
    assert found.probs == pytest.approx(wanted.probs, rel=1e-3)
    assert (found.fed, found.source) == (wanted.fed, "real")
    assert len(found.logits) == len(wanted.logits)
    for a, b in zip(found.logits, wanted.logits, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-3)
    for a, b in zip(found.carries, wanted.carries, strict=True):
        assert a is not None
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(("n_rows", "count"), [(1, 1), (1, 5), (3, 4), (5, 4), (16, 2)])
def test_whole_draft_is_what_steps_draft(
    head: Eagle3Head, features_of: Features, n_rows: int, count: int
) -> None:
    whole, stepped = steppers(head)
    before = len(TEXT) - n_rows
    features = features_of(TEXT, 0, len(TEXT) - 1)
    drafted: list[Line] = []
    for stepper in (whole, stepped):
        if before > 1:
            stepper.take_in(TEXT[1:before], 1, features[: before - 1])
        drafted.append(stepper.draft(TEXT[before:], before, features[before - 1 :], count, guesses=True))

    assert_same(*drafted, count)
    fed = len(TEXT) - 1 + count - 1
    for mine, theirs in ((whole.kv.keys(0), stepped.kv.keys(0)), (whole.kv.values(0), stepped.kv.values(0))):
        torch.testing.assert_close(mine[:fed], theirs[:fed], rtol=1e-3, atol=1e-3)
        assert bool(mine[fed:].isnan().all())


def test_kernels_honour_norms_that_only_some_heads_have(
    tiny: TinyModels, features_of: Features, tmp_path: Path
) -> None:
    target, file = HfFolder(tiny.target()), HfFolder(changed(tiny, tmp_path / "normed", random_norms))
    embedding = target_embedding(tiny.target()).to(DEVICE)
    head = load_eagle3(file, target.config, embedding, FP32, str(DEVICE), max_positions=N_SLOTS)
    features = features_of(TEXT[:3], 0, 2)

    drafted = [stepper.draft(TEXT[1:3], 1, features, 4, guesses=True) for stepper in steppers(head)]

    assert_same(*drafted, 4)


def test_real_features_take_the_place_of_predicted_ones(head: Eagle3Head, features_of: Features) -> None:
    """Round after round: what was drafted is fed again with real features, and buffers hold nothing of before."""
    whole, stepped = steppers(head)
    drafters = [ChainDrafter(stepper) for stepper in (whole, stepped)]
    text = list(TEXT[:6])
    for drafter in drafters:
        drafter.begin(text, features_of(text, 0, len(text) - 1), 0)
    for accepted, count in ((2, 4), (0, 4), (4, 4), (1, 2), (0, 1)):
        found, wanted = (drafter.draft(count) for drafter in drafters)
        assert found.tokens == wanted.tokens
        assert found.probs == pytest.approx(wanted.probs, rel=1e-3)
        first = len(text) - 1
        text += [*found.tokens[:accepted], (7 * len(text)) % 90]
        outcome = Outcome(
            accepted=found.tokens[:accepted],
            bonus=text[-1],
            features_AF=features_of(text, first, len(text) - 1),
        )
        for drafter in drafters:
            drafter.commit(outcome)

    slots = slice(len(TEXT[:6]) - 1, len(text) - 2)
    torch.testing.assert_close(whole.kv.keys(0)[slots], stepped.kv.keys(0)[slots], rtol=1e-3, atol=1e-3)


def test_more_tokens_than_a_pass_has_rows_are_fed_ahead(head: Eagle3Head, features_of: Features) -> None:
    features = features_of(TEXT, 0, len(TEXT) - 1)
    found, wanted = (s.draft(TEXT[1:], 1, features, 3, guesses=True) for s in steppers(head))

    assert len(TEXT) - 1 > 16
    assert_same(found, wanted, 3)


@pytest.mark.parametrize("head", ["qwen3"], indirect=True)  # buffers, the same for every head
def test_without_guesses_nothing_is_kept_and_the_draft_is_the_same(
    head: Eagle3Head, features_of: Features
) -> None:
    features = features_of(TEXT, 0, 4)
    whole, again = (steppers(head)[0] for _ in range(2))
    kept = whole.draft(TEXT[1:5], 1, features, 4, guesses=True)
    bare = again.draft(TEXT[1:5], 1, features, 4, guesses=False)

    assert (bare.tokens, bare.probs) == (kept.tokens, kept.probs)
    assert (bare.logits, bare.carries) == ([], [])


@pytest.mark.parametrize("count", [0, 1, 3])
def test_likely_tokens_are_those_of_single_steps(head: Eagle3Head, features_of: Features, count: int) -> None:
    """Its last token fed, then again with nothing to feed."""
    features, found = features_of(TEXT, 0, 3), []
    for stepper in steppers(head):
        line = stepper.draft(TEXT[1:4], 1, features, count, guesses=True)
        found.append([stepper.likely(line, 4, 4), stepper.likely(line, 4, 2)])
        assert (line.fed, len(line.logits), len(line.carries)) == (count, count + 1, count + 1)

    for mine, theirs in zip(*found, strict=True):
        assert mine.tokens == theirs.tokens
        for a, b in zip(mine.probs, theirs.probs, strict=True):
            assert a == pytest.approx(b, rel=1e-3)


def test_a_branch_drafts_what_the_line_would_with_its_carry(head: Eagle3Head, features_of: Features) -> None:
    """Branches of the place after the draft's second token, in slots of no order; of two batches each keeps its own."""
    whole, _ = steppers(head)
    line = whole.draft(TEXT[1:4], 1, features_of(TEXT, 0, 3), 3, guesses=True)
    whole.likely(line, 4, 3)
    slots = [[20, 12, 17], [13, 25, 11]]
    starts = [
        BranchStart(prefix=5, token=token, slots=own) for token, own in ((60, slots[0]), (12, slots[1]))
    ]
    carry = line.carries[2]
    first = whole.branches(starts, [carry, carry], 3, 0)
    second = whole.branches(starts[1:], [carry], 3, 1)
    assert first is not None
    assert second is not None
    both, again = [first.line(j) for j in range(2)], [second.line(0)]

    for drafted, start in zip(both, starts, strict=True):
        tokens, feature = [start.token], carry
        for i, named in enumerate(drafted.tokens):
            assert feature is not None
            logits, feature = whole.step(torch.tensor(tokens[-1:], device=DEVICE), feature, Rows(5 + i, 1))
            torch.testing.assert_close(drafted.logits[i], logits, rtol=1e-3, atol=1e-3)
            torch.testing.assert_close(drafted.carries[i], feature, rtol=1e-3, atol=1e-3)
            assert named == int(head.to_target[int(logits.argmax())])
            tokens.append(named)
        assert (drafted.fed, drafted.source) == (2, "predicted")
    assert (again[0].tokens, again[0].probs) == (both[1].tokens, both[1].probs)
    assert all(torch.equal(a, b) for a, b in zip(again[0].logits, both[1].logits, strict=True))
    assert again[0].logits[0].data_ptr() != both[0].logits[0].data_ptr()


def test_ssd_on_kernels_proposes_what_ssd_in_steps_does(head: Eagle3Head, features_of: Features) -> None:
    """Hits and misses in turn: guesses, branches, and what follows an adopted branch."""
    drafters = [ChainDrafter(stepper) for stepper in steppers(head)]
    for drafter in drafters:
        for kv in (drafter.stepper.kv.keys(0), drafter.stepper.kv.values(0)):
            kv.zero_()  # steps multiply what a branch may not see by zero
    text = list(TEXT[:6])
    for drafter in drafters:
        drafter.begin(text, features_of(text, 0, len(text) - 1), 0)
    proposals = [drafter.draft(3) for drafter in drafters]
    for accepted, hit in ((1, True), (3, True), (0, False), (2, True)):
        found, wanted = (d.prepare((2, 1, 1, 2), 3, lambda: 1, lambda: None) for d in drafters)
        assert [b.key for b in found] == [b.key for b in wanted]
        assert [b.proposal.tokens for b in found if b.proposal] == [
            b.proposal.tokens for b in wanted if b.proposal
        ]
        first, kept = len(text) - 1, proposals[0].tokens[:accepted]
        at = next(i for i, b in enumerate(found) if b.accepted_len == accepted)
        text += [*kept, found[at].bonus if hit else (7 * len(text)) % 90]
        features = features_of(text, first, len(text) - 1)
        outcome = Outcome(accepted=kept, bonus=text[-1], features_AF=features)
        for i, (drafter, branch) in enumerate(zip(drafters, (found[at], wanted[at]), strict=True)):
            if hit and branch.proposal is not None:
                drafter.adopt(outcome, branch)
                proposals[i] = branch.proposal
            else:
                drafter.commit(outcome)
                proposals[i] = drafter.draft(3)
        assert proposals[0].tokens == proposals[1].tokens


@pytest.mark.parametrize("head", ["qwen3"], indirect=True)  # buffers, the same for every head
def test_features_may_be_laid_out_otherwise(head: Eagle3Head, features_of: Features) -> None:
    features = features_of(TEXT, 0, 3)
    scattered = torch.zeros(3, 6 * HIDDEN).T[::2].T.copy_(features)
    lines = [steppers(head)[0].draft(TEXT[1:4], 1, f, 3, guesses=False) for f in (features, scattered)]

    assert not scattered.is_contiguous()
    assert lines[0].tokens == lines[1].tokens
    assert lines[0].probs == lines[1].probs


@pytest.mark.parametrize(
    ("n_rows", "n_features", "steps", "message"),
    [
        (0, 0, 1, "cannot be: 1 to 16 each"),
        (17, 17, 1, "cannot be: 1 to 16 each"),
        (1, 1, 0, "cannot be: 1 to 16 each"),
        (1, 1, 17, "cannot be: 1 to 16 each"),
        (3, 2, 4, r"3 tokens need features \[3, 192\], not \[2, 192\]"),
    ],
)
def test_draft_that_cannot_be_is_refused(
    head: Eagle3Head, n_rows: int, n_features: int, steps: int, message: str
) -> None:
    drafts = StreamedEagle3(head, cache(head.config))
    with pytest.raises(ValueError, match=message):
        drafts([1] * n_rows, 0, torch.zeros(n_features, 3 * HIDDEN, device=DEVICE), steps, guesses=False)


def test_stepper_refuses_tokens_without_features(head: Eagle3Head) -> None:
    whole, _ = steppers(head)
    for features in (None, torch.zeros(1, 3 * HIDDEN)):
        with pytest.raises(ValueError, match="2 tokens need as many features"):
            whole.draft([1, 2], 1, features, 3, guesses=False)


@pytest.mark.parametrize("head", ["qwen3"], indirect=True)  # buffers, the same for every head
def test_warming_drafts_after_each_number_of_tokens(head: Eagle3Head, features_of: Features) -> None:
    """What it leaves in the cache is overwritten by the first turn."""
    warmed, fresh = (steppers(head)[0] for _ in range(2))
    warmed.warm(3, guesses=False, progress=lambda what, part: None)
    lines = [s.draft(TEXT[1:4], 1, features_of(TEXT, 0, 3), 3, guesses=False) for s in (warmed, fresh)]

    assert lines[0].tokens == lines[1].tokens
    assert lines[0].probs == lines[1].probs


def test_fp8_rounds_what_a_head_reads_and_keeps_logits_near(tiny: TinyModels, features_of: Features) -> None:
    target, file = HfFolder(tiny.target("qwen3")), HfFolder(tiny.eagle3("qwen3"))
    embedding = target_embedding(tiny.target("qwen3")).to(DEVICE)
    recipe = replace(FP32, name="fp8", fp8=True, fp8_head=True)
    head = load_eagle3(file, target.config, embedding, recipe, str(DEVICE), max_positions=N_SLOTS)
    features = features_of(TEXT, 0, 3)
    found, wanted = (s.draft(TEXT[1:4], 1, features, 1, guesses=True) for s in steppers(head))

    near = torch.nn.functional.cosine_similarity(found.logits[0], wanted.logits[0].float())
    assert not torch.equal(found.logits[0], wanted.logits[0].float())
    assert float(near) > (
        0.98 if DEVICE.type == "cuda" else 0.85
    )  # the interpreter drops a carry when it rounds


# --- sizes of real heads ----------------------------------------------------------------------------------------


@pytest.mark.gpu
@pytest.mark.skipif(DEVICE.type == "cpu", reason="needs a CUDA device")
@pytest.mark.parametrize("recipe_name", ["bf16", "fp8"])
@pytest.mark.parametrize("shape", ["smollm2-135m", "qwen2.5-7b"])
def test_graphs_of_real_sizes_draft_what_single_steps_would(shape: str, recipe_name: str) -> None:
    """Each step from where the draft stood, in torch: near in its own format, the same token unless it nearly ties."""
    target = RandomFile(PREFIX + shape)
    recipe = resolve_recipe(recipe_name, str(DEVICE), target)
    embedding = target.read("model.embed_tokens.weight").data.to(DEVICE)
    head = load_eagle3(
        RandomHead(shape), SHAPES[shape], embedding, recipe, str(DEVICE), max_positions=N_SLOTS
    )
    generator = torch.Generator(DEVICE).manual_seed(1)
    features = torch.randn(300, head.fc.in_features, device=DEVICE, generator=generator)
    text = [(37 * i + 11) % 1000 for i in range(301)]
    graphs, queued, stepped = (cache(head.config, torch.bfloat16) for _ in range(3))
    replaying = Eagle3Stepper(head, graphs, "random", StreamedEagle3(head, graphs))
    queueing = Eagle3Stepper(head, queued, "random", StreamedEagle3(head, queued, graphs=False))
    stepping = Eagle3Stepper(head, stepped, "random")
    bound, tie = (0.999, 0.1) if recipe_name == "bf16" else (0.98, 0.5)
    end = 1
    for n_rows, count in ((200, 4), (1, 4), (5, 4), (1, 4), (16, 5), (60, 1)):  # past a chunk of keys
        fed, their_features = text[end : end + n_rows], features[end - 1 : end - 1 + n_rows]
        found = replaying.draft(fed, end, their_features, count, guesses=True)
        same = queueing.draft(fed, end, their_features, count, guesses=True)
        assert (found.tokens, found.probs) == (same.tokens, same.probs)
        assert all(torch.equal(a, b) for a, b in zip(found.logits, same.logits, strict=True))

        stepping.take_in(fed[:-1], end, their_features[:-1]) if n_rows > 1 else None
        line = stepping.draft(fed[-1:], end + n_rows - 1, their_features[-1:], 0, guesses=True)
        logits, carry = line.logits[0], line.carries[0]
        assert carry is not None
        end += n_rows
        for i in range(count):
            mine, kept = found.logits[i], found.carries[i]
            assert kept is not None
            for a, b in ((mine, logits.float()), (kept, carry)):
                assert float(torch.nn.functional.cosine_similarity(a, b).min()) > bound, (n_rows, i)
            best = int(mine.argmax())
            assert found.tokens[i] == int(head.to_target[best])
            assert found.probs[i] == pytest.approx(float(mine.softmax(dim=1).max()), rel=1e-4)
            assert float(logits.max() - logits[0, best]) <= tie * float(logits.float().std())
            ids = torch.tensor(found.tokens[i : i + 1], device=DEVICE)
            if i + 1 < count:
                logits, carry = stepping.step(ids, kept, Rows(end + i - 1, 1))


@pytest.mark.gpu
@pytest.mark.skipif(DEVICE.type == "cpu", reason="needs a CUDA device")
def test_a_draft_is_one_launch_once_it_is_captured(head: Eagle3Head, features_of: Features) -> None:
    kv = cache(head.config)
    stepper = Eagle3Stepper(head, kv, "tiny", StreamedEagle3(head, kv))
    stepper.warm(3, guesses=False, progress=lambda what, part: None)
    near = features_of(TEXT, 0, 4).to(DEVICE)
    for n_rows in (1, 2, 4):
        assert stepper.draft(TEXT[1 : 1 + n_rows], 1, near[:n_rows], 3, guesses=False).launches == 1
    far = stepper.draft(TEXT[1:3], 1, near[:2].cpu(), 3, guesses=False)
    assert far.launches == 2  # the features' copy


@pytest.mark.gpu
@pytest.mark.skipif(DEVICE.type == "cpu", reason="needs a CUDA device")
def test_branches_are_one_graph_with_all_that_comes_before_them(
    head: Eagle3Head, features_of: Features
) -> None:
    """Likely tokens and branches; after a hit the move, then the accepted tokens fed again with those."""
    kv = cache(head.config)
    stepper = Eagle3Stepper(head, kv, "tiny", StreamedEagle3(head, kv))
    stepper.warm(3, guesses=True, progress=lambda what, part: None, n_branches=4)
    drafter, text = ChainDrafter(stepper), list(TEXT[:6])
    drafter.begin(text, features_of(text, 0, 5).to(DEVICE), 0)
    drafter.draft(3)
    drafter.take_work()

    branch = drafter.prepare((1, 1, 1, 1), 3, lambda: 1, lambda: None)[0]
    launches = [drafter.take_work().launches]
    text.append(branch.bonus)
    near = features_of(text, 5, 6).to(DEVICE)
    drafter.adopt(Outcome(accepted=(), bonus=branch.bonus, features_AF=near), branch)
    launches.append(drafter.take_work().launches)
    drafter.prepare((1, 1, 1, 1), 3, lambda: 1, lambda: None)
    launches.append(drafter.take_work().launches)

    assert launches == [1, 1, 1]
