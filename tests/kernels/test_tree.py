"""Levels of a drafted tree on the device: the nodes, slots and carries that the reference says."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from specmon.kernels.tree.levels import TreeLevels
from specmon.kernels.tree.reference import Level, descend, grow

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
CURSOR, BEHIND = 300, 3


def some_level(n_rows: int, count: int, seed: int, *, ties: bool) -> tuple[Tensor, Tensor]:
    """Likely tokens and probabilities [R, C], falling along a row. `ties`: many are equal, some are nothing."""
    generator = torch.Generator().manual_seed(seed)
    probs = torch.rand(n_rows, count, generator=generator)
    if ties:
        probs = (4 * probs).floor() / 4
    likely = torch.stack([torch.randperm(1000, generator=generator)[:count] for _ in range(n_rows)])
    return likely, probs.sort(dim=1, descending=True).values


def grown(levels: list[tuple[Tensor, Tensor]], width: int) -> tuple[TreeLevels, list[Level]]:
    """A tree of levels with these likely tokens, on the device and on the host."""
    tree = TreeLevels(16, DEVICE)
    cursor = torch.tensor([CURSOR], dtype=torch.int32, device=DEVICE)
    for depth, (likely, probs) in enumerate(levels, start=1):
        tree.grow(depth, likely.to(DEVICE), probs.to(DEVICE), width, cursor, BEHIND)
    tree.bring(len(levels))
    if DEVICE.type == "cuda":
        torch.cuda.synchronize()
    return tree, tree.here(len(levels), width)


def wanted(levels: list[tuple[Tensor, Tensor]], width: int) -> list[Level]:
    found: list[Level] = []
    for likely, probs in levels:
        found.append(grow(likely, probs, found[-1].chances if found else [1.0], width))
    return found


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize(
    ("width", "count", "depth"), [(1, 1, 3), (2, 2, 16), (5, 5, 4), (9, 9, 2), (5, 7, 3), (16, 16, 2)]
)
def test_a_level_has_the_likeliest_paths(width: int, count: int, depth: int, ties: bool) -> None:
    for seed in range(4):
        rows = [1] + [width] * (depth - 1)
        levels = [some_level(n, count, 100 * seed + i, ties=ties) for i, n in enumerate(rows)]
        assert grown(levels, width)[1] == wanted(levels, width)


def test_equal_chances_go_to_the_lower_row_and_then_the_better_rank() -> None:
    first = torch.tensor([[10, 11, 12]]), torch.full((1, 3), 0.25)
    second = torch.arange(20, 29).view(3, 3), torch.full((3, 3), 0.5)

    level = grown([first, second], 3)[1][1]

    assert (level.tokens, level.parents) == ([20, 21, 22], [0, 0, 0])


def test_fewer_candidates_than_a_level_may_have_are_all_taken() -> None:
    likely, probs = some_level(1, 3, 0, ties=False)

    [level] = grown([(likely, probs)], 5)[1]

    assert level.tokens[:3] == likely[0].tolist()
    assert level.tokens[3:] == [0, 0]  # as nothing was there before


def test_rows_stand_behind_the_text_beside_their_ancestors() -> None:
    width, depth = 4, 5
    levels = [some_level(n, width, i, ties=False) for i, n in enumerate([1] + [width] * (depth - 1))]
    tree, found = grown(levels, width)
    base = CURSOR + BEHIND
    paths: list[list[int]] = [[]]
    for i, level in enumerate(found):
        paths, rows = descend(paths, level.parents, base + i * width), tree.rows(i + 1)
        assert rows.prefixes[:width].tolist() == [base] * width
        assert rows.positions[:width].tolist() == [base + i] * width
        assert rows.slots[:width].tolist() == [path[-1] for path in paths]
        assert rows.own[: i + 1, :width].T.tolist() == paths
        assert tree.tokens(i + 1)[:width].tolist() == level.tokens


def test_each_node_knows_where_its_parents_carry_lies() -> None:
    tree, carries = TreeLevels(2, DEVICE), torch.randn(5, 24, device=DEVICE)
    cursor = torch.tensor([CURSOR], dtype=torch.int32, device=DEVICE)
    likely, probs = some_level(1, 5, 0, ties=False)
    tree.grow(1, likely.to(DEVICE), probs.to(DEVICE), 5, cursor, BEHIND, carries[3:])
    assert tree.addresses[:5].tolist() == [carries[3].data_ptr()] * 5

    likely, probs = some_level(5, 5, 1, ties=False)
    tree.grow(2, likely.to(DEVICE), probs.to(DEVICE), 5, cursor, BEHIND, carries)
    tree.bring(2)
    if DEVICE.type == "cuda":
        torch.cuda.synchronize()

    parents = tree.here(2, 5)[1].parents
    assert len(set(parents)) > 1
    assert tree.addresses[:5].tolist() == [carries[parent].data_ptr() for parent in parents]


def test_chances_that_are_no_numbers_come_last() -> None:
    likely, probs = some_level(1, 5, 0, ties=False)
    probs[0, 1] = torch.nan

    [level] = grown([(likely, probs)], 4)[1]

    assert level.tokens == likely[0, [0, 2, 3, 4]].tolist()
