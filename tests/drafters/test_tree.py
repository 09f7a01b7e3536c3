"""Trees in one piece on the streaming kernels, against the same trees drafted level by level in torch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pytest
import torch
from tests.gpus import needs_gpu
from tests.tiny_models import HIDDEN, TinyModels
from torch import Tensor

from specmon.core.drafters.base import Outcome, Proposal
from specmon.core.drafters.draft_model import DraftModelStepper
from specmon.core.drafters.eagle3 import Eagle3Stepper
from specmon.core.drafters.eagle3_file import load_eagle3
from specmon.core.drafters.streamed_eagle3 import StreamedEagle3
from specmon.core.drafters.tree import TreeDrafter
from specmon.core.models.build import build_transformer
from specmon.core.models.hf_folder import HfFolder
from specmon.core.models.kv import KvCache
from specmon.core.models.passes import Passes
from specmon.core.models.reference_passes import ReferencePasses
from specmon.core.models.streamed import StreamedModel, StreamedPasses

from .conftest import FP32, N_SLOTS, target_embedding

DEVICE = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
TEXT = [11, 18, 25, 32, 39, 46]  # after it no two of the best paths are nearly as likely
Features = Callable[[Sequence[int], int, int], Tensor]
Stepper = DraftModelStepper | Eagle3Stepper


@dataclass(frozen=True)
class Kind:
    """A draft of some kind: `open(whole)` gives it a cache; it drafts at once where `whole`, else it steps."""

    open: Callable[..., Stepper]

    def pair(self, n_nodes: int = 15) -> tuple[TreeDrafter, TreeDrafter]:
        return TreeDrafter(self.open(True), n_nodes), TreeDrafter(self.open(False), n_nodes)


@pytest.fixture(scope="module", params=["draft_model", "eagle3"])
def kind(request: pytest.FixtureRequest, tiny: TinyModels) -> Kind:
    return Kind({"draft_model": draft_models, "eagle3": heads}[request.param](tiny))


def draft_models(tiny: TinyModels) -> Callable[..., Stepper]:
    file = HfFolder(tiny.two_layers("qwen3"))
    model = build_transformer(
        file, FP32, str(DEVICE), max_positions=N_SLOTS, progress=lambda what, part: None
    )
    streamed = StreamedModel(model)

    def open_(whole: bool, graphs: bool = True) -> Stepper:
        kv = KvCache.of(file.config, n_slots=N_SLOTS, dtype=torch.float32, device=DEVICE)
        torch_passes: Passes = ReferencePasses(model, kv)
        passes: Passes = StreamedPasses(streamed, kv, graphs=graphs) if whole else torch_passes
        if whole and DEVICE.type == "cpu":  # prompts would take the interpreter long
            passes.prefill = torch_passes.prefill  # type: ignore[method-assign]
        return DraftModelStepper(model, kv, passes, "tiny")

    return open_


def heads(tiny: TinyModels) -> Callable[..., Stepper]:
    """With a vocabulary of its own, half of the target's."""
    target, file = HfFolder(tiny.target()), HfFolder(tiny.eagle3())
    embedding = target_embedding(tiny.target()).to(DEVICE)
    head = load_eagle3(file, target.config, embedding, FP32, str(DEVICE), max_positions=N_SLOTS)
    assert head.head.out_features < target.config.vocab_size

    def open_(whole: bool, graphs: bool = True) -> Stepper:
        kv = KvCache.of(head.config, n_slots=N_SLOTS, dtype=torch.float32, device=DEVICE, n_layers=1)
        return Eagle3Stepper(head, kv, "tiny", StreamedEagle3(head, kv, graphs=graphs) if whole else None)

    return open_


class Turn:
    """Drafters that follow one text."""

    def __init__(self, drafters: Sequence[TreeDrafter], features_of: Features, text: list[int]) -> None:
        self.drafters, self._features_of, self.text = drafters, features_of, list(text)
        for drafter in drafters:
            drafter.begin(self.text, self._features(0, len(text) - 1), 0)

    def draft(self, depth: int) -> list[Proposal]:
        return [drafter.draft(depth) for drafter in self.drafters]

    def commit(self, accepted: Sequence[int], bonus: int) -> None:
        first = len(self.text) - 1
        self.text += [*accepted, bonus]
        features = self._features(first, len(self.text) - 1)
        for drafter in self.drafters:
            drafter.commit(Outcome(accepted=tuple(accepted), bonus=bonus, features_AF=features))

    def _features(self, first: int, end: int) -> Tensor | None:
        return (
            self._features_of(self.text, first, end).to(DEVICE) if self.drafters[0].stepper.corrects else None
        )


def path_to(tree: Proposal, node: int) -> list[int]:
    """The tokens from the root down to a node."""
    assert tree.parents is not None
    return [*path_to(tree, tree.parents[node]), tree.tokens[node]] if node >= 0 else []


def assert_same(found: Proposal, wanted: Proposal) -> None:
    assert (found.tokens, found.parents, found.features) == (wanted.tokens, wanted.parents, wanted.features)
    assert found.probs == pytest.approx(wanted.probs, rel=1e-3)


@pytest.mark.parametrize("n_nodes", [1, 15])
def test_trees_of_one_piece_are_those_of_single_levels(
    kind: Kind, features_of: Features, n_nodes: int
) -> None:
    """Round after round, each keeping the path to some node, with trees of different depths."""
    turn = Turn(kind.pair(n_nodes), features_of, TEXT)
    kept = []
    for depth, node in ((4, n_nodes - 1), (3, n_nodes // 2), (1, -1), (2, 0)):
        found, wanted = turn.draft(depth)
        assert_same(found, wanted)
        assert len(found.tokens) == n_nodes
        kept.append(path_to(found, node))
        turn.commit(kept[-1], (7 * len(turn.text)) % 90)

    assert max(map(len, kept)) > (1 if n_nodes > 1 else 0)
    n_fed = len(turn.text) - 1 - turn.drafters[0].stepper.lag
    keys, theirs = (drafter.stepper.kv.keys(0)[:n_fed] for drafter in turn.drafters)
    torch.testing.assert_close(keys[: n_fed - 4], theirs[: n_fed - 4], rtol=1e-3, atol=1e-3)


def test_a_tree_has_the_nodes_of_its_own_chains(kind: Kind, features_of: Features) -> None:
    """Across the border of a chunk of keys: where the likeliest tokens are nodes, they are the greedy chain."""
    text = [(37 * i + 11) % 90 for i in range(255)]
    tree, chain = kind.pair(15)[0], kind.pair(15)[0]
    (found,) = Turn([tree], features_of, text).draft(3)
    greedy = Turn([chain], features_of, text)
    tokens, features = greedy.drafters[0]._unfed()
    line = chain.stepper.draft(tokens, len(text) - len(tokens), features, 3, guesses=False)

    assert found.parents is not None
    node = -1
    for token, prob in zip(line.tokens, line.probs, strict=True):
        children = [i for i, parent in enumerate(found.parents) if parent == node]
        if not children:
            break
        node = max(children, key=lambda i: found.probs[i])
        assert found.tokens[node] == token
        assert found.probs[node] == pytest.approx(prob, rel=1e-5)
    assert node >= 0


def test_work_counts_what_level_by_level_would(kind: Kind, features_of: Features) -> None:
    turn = Turn(kind.pair(9), features_of, TEXT)
    for drafter in turn.drafters:
        drafter.take_work()
    turn.draft(3)

    found, wanted = (drafter.take_work() for drafter in turn.drafters)
    assert (found.forwards, found.weight_bytes, found.kv_bytes) == (
        wanted.forwards,
        wanted.weight_bytes,
        wanted.kv_bytes,
    )
    assert found.forwards == 3


def test_more_tokens_than_a_pass_has_rows_are_fed_ahead(kind: Kind, features_of: Features) -> None:
    text = [(7 * i) % 90 for i in range(24)]
    late, early = Turn(kind.pair()[:1], features_of, text[:3]), Turn(kind.pair()[:1], features_of, text)
    late.commit(text[3:-1], text[-1])

    assert_same(late.draft(3)[0], early.draft(3)[0])


def test_no_levels_are_no_tree_and_the_next_draft_is_whole(kind: Kind, features_of: Features) -> None:
    turn = Turn(kind.pair(), features_of, TEXT)

    assert [tree.tokens for tree in turn.draft(0)] == [(), ()]
    turn.commit([], 40)
    assert_same(*turn.draft(2))


def test_warming_leaves_nothing_that_a_turn_sees(kind: Kind, features_of: Features) -> None:
    drafters = [kind.pair()[0] for _ in range(2)]
    warmed = drafters[0].stepper
    assert isinstance(warmed, Stepper)
    warmed.warm_tree(2, 9, lambda what, part: None)

    first, second = Turn(drafters, features_of, TEXT).draft(2)
    assert first == second


@pytest.mark.parametrize(
    ("n_rows", "depth", "width", "slot", "message"),
    [
        (0, 2, 3, 1, "1 to 16 each"),
        (17, 2, 3, 1, "1 to 16 each"),
        (1, 0, 3, 1, "1 to 16 each"),
        (1, 17, 3, 1, "1 to 16 each"),
        (1, 2, 17, 1, "1 to 16 each"),
        (2, 4, 5, N_SLOTS - 10, f"needs slots up to {N_SLOTS + 7} in a cache of {N_SLOTS}"),
    ],
)
def test_a_tree_that_cannot_be_is_refused(
    kind: Kind, n_rows: int, depth: int, width: int, slot: int, message: str
) -> None:
    stepper = kind.open(True)
    features = torch.zeros(n_rows, 3 * HIDDEN, device=DEVICE) if stepper.corrects else None
    with pytest.raises(ValueError, match=message):
        stepper.tree([1] * n_rows, slot + stepper.lag, features, depth, width)


@pytest.mark.gpu
@needs_gpu
def test_a_tree_is_one_launch_once_it_is_captured_and_what_is_queued(
    kind: Kind, features_of: Features
) -> None:
    replaying, queueing = (TreeDrafter(kind.open(True, graphs), 15) for graphs in (True, False))
    stepper = replaying.stepper
    assert isinstance(stepper, Stepper)
    stepper.warm_tree(4, 5, lambda what, part: None)
    turn = Turn([replaying, queueing], features_of, TEXT)
    for node in (-1, 14, 3, 14, -1):
        replaying.take_work()
        found, queued = turn.draft(4)
        assert found == queued
        work = replaying.take_work()
        assert work.launches == 1
        assert (work.ran is None) == stepper.corrects
        turn.commit(path_to(found, node), (7 * len(turn.text)) % 90)
