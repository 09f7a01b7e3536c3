"""Acceptance on the device against a plain walk: chains, trees, and what a graph replays."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from hypothesis import given, seed, settings
from hypothesis import strategies as st

from specmon.kernels.accept.launch import Accepted, accept_chain, accept_tree
from specmon.kernels.accept.reference import accept_length, accept_path

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
MOST = 15
START = 1000
Outcome = tuple[list[int], list[int]]  # accepted nodes, emitted tokens
few_tokens = st.integers(0, 3)  # so that many agree
examples = settings(max_examples=150, deadline=None, database=None)


@st.composite
def trees(draw: st.DrawFn) -> tuple[list[int], list[int], list[int]]:
    """Parents, tokens (siblings differ) and the target's choices."""
    parents: list[int] = []
    tokens: list[int] = []
    for node in range(draw(st.integers(0, MOST))):
        parent = draw(st.integers(-1, node - 1))
        taken = {t for p, t in zip(parents, tokens, strict=True) if p == parent}
        parents.append(parent)
        tokens.append(draw(st.sampled_from([t for t in range(20) if t not in taken][:4])))
    n = len(parents)
    return parents, tokens, draw(st.lists(few_tokens, min_size=n + 1, max_size=n + 1))


def walk(parents: Sequence[int], tokens: Sequence[int], choices: Sequence[int]) -> Outcome:
    """Descend from the root as long as some child is what the target chose."""
    path: list[int] = []
    emitted = [choices[0]]
    while True:
        at = path[-1] if path else -1
        children = [i for i, p in enumerate(parents) if p == at and tokens[i] == emitted[-1]]
        if not children:
            return path, emitted
        path.append(children[0])
        emitted.append(choices[children[0] + 1])


def on_device(values: Sequence[int], dtype: torch.dtype = torch.int64, room: int = 16) -> torch.Tensor:
    """`values` and what a buffer may hold past them: numbers that would agree, were they looked at."""
    return torch.tensor([*values, *[1] * (room - len(values))], dtype=dtype, device=DEVICE)


def one(value: int) -> torch.Tensor:
    return torch.tensor([value], dtype=torch.int32, device=DEVICE)


def chain_outcome(draft: Sequence[int], choices: Sequence[int]) -> Accepted:
    out, cursor = Accepted.empty(DEVICE), one(START)
    accept_chain(on_device(draft, room=15), on_device(choices), one(len(draft)), cursor, out)
    assert cursor.tolist() == [START + int(out.accepted_len) + 1]
    return out


def tree_outcome(parents: Sequence[int], tokens: Sequence[int], choices: Sequence[int]) -> Accepted:
    out, cursor = Accepted.empty(DEVICE), one(START)
    accept_tree(
        on_device(parents, torch.int32, 15), on_device(tokens, room=15), on_device(choices), one(len(parents)),
        cursor, out,
    )  # fmt: skip
    assert cursor.tolist() == [START + int(out.accepted_len) + 1]
    return out


def assert_is(out: Accepted, emitted: Sequence[int]) -> None:
    assert out.accepted_len.tolist() == [len(emitted) - 1]
    assert out.bonus.tolist() == [emitted[-1]]
    assert out.emitted.tolist() == [*emitted, *[-1] * (16 - len(emitted))]


@seed(0)
@examples
@given(st.data())
def test_chain_is_the_walk_of_a_tree_without_branches(data: st.DataObject) -> None:
    draft = data.draw(st.lists(few_tokens, max_size=MOST))
    choices = data.draw(st.lists(few_tokens, min_size=len(draft) + 1, max_size=len(draft) + 1))
    parents = list(range(-1, len(draft) - 1))
    path, emitted = walk(parents, draft, choices)

    assert accept_length(torch.tensor(draft, dtype=torch.int64), torch.tensor(choices)) == len(path)
    assert_is(chain_outcome(draft, choices), emitted)
    assert_is(tree_outcome(parents, draft, choices), emitted)


@seed(1)
@examples
@given(trees())
def test_tree_descends_as_a_plain_walk_does(tree: tuple[list[int], list[int], list[int]]) -> None:
    parents, tokens, choices = tree
    path, emitted = walk(parents, tokens, choices)
    as_tensors = (torch.tensor(values, dtype=torch.int64) for values in tree)

    assert accept_path(*as_tensors).tolist() == path
    out = tree_outcome(parents, tokens, choices)
    assert_is(out, emitted)
    assert out.path.tolist() == [*path, *[-1] * (16 - len(path))]


@pytest.mark.parametrize("k", [1, 4, MOST])
def test_every_accepted_length_of_a_chain(k: int) -> None:
    choices = list(range(100, 101 + k))
    for accepted in range(k + 1):
        draft = [token if i != accepted else 7 for i, token in enumerate(choices[:k])]
        assert_is(chain_outcome(draft, choices), choices[: accepted + 1])


def test_tokens_beyond_32_bits_stay_whole() -> None:
    big = 1 << 40
    assert_is(chain_outcome([big, big + 1], [big, big + 1, big + 2]), [big, big + 1, big + 2])
    assert_is(chain_outcome([big], [0, 3]), [0])


def test_rounds_move_one_cursor_on() -> None:
    out, cursor = Accepted.empty(DEVICE), one(10)
    for draft, choices, then in [([5, 6], [5, 6, 7], 13), ([8, 8], [8, 9, 9], 15), ([], [3], 16)]:
        accept_chain(on_device(draft), on_device(choices), one(len(draft)), cursor, out)
        assert cursor.tolist() == [then]
    assert_is(out, [3])


@pytest.mark.parametrize(
    ("parents", "tokens", "target"),
    [([-1], [1, 2], [0, 0]), ([-1], [1], [0]), ([1, -1], [1, 1], [0] * 3), ([0], [1], [0, 0])],
)
def test_accept_path_refuses_what_is_no_tree(
    parents: list[int], tokens: list[int], target: list[int]
) -> None:
    with pytest.raises(ValueError):
        accept_path(torch.tensor(parents), torch.tensor(tokens), torch.tensor(target))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_graph_accepts_what_its_buffers_hold_when_it_runs() -> None:
    draft, choices, length, cursor = on_device([]), on_device([]), one(0), one(START)
    out, graph = Accepted.empty(DEVICE), torch.cuda.CUDAGraph()
    accept_chain(draft, choices, length, cursor, out)
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        accept_chain(draft, choices, length, cursor, out)
    cursor.fill_(START)
    for tokens, target, then in [([4, 5, 6], [4, 5, 9, 9], 3), ([4] * 15, [4] * 15 + [2], 19)]:
        draft.copy_(on_device(tokens))
        choices.copy_(on_device(target))
        length.fill_(len(tokens))
        graph.replay()
        assert cursor.tolist() == [START + then]
        assert_is(out, target[: int(out.accepted_len) + 1])
