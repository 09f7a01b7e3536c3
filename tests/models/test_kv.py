"""The KV cache, and how prompts are cut into chunks."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from specmon.core.models.kv import KvCache
from specmon.core.models.placement import Rows, branch_visibility
from specmon.core.models.prefill import CHUNK, chunk_plan


@given(st.integers(0, 3000), st.integers(1, 3000))
def test_chunks_tile_the_prompt_at_absolute_borders(start: int, length: int) -> None:
    plan = chunk_plan(start, length)

    assert [first for first, _ in plan] == [start, *(first + n for first, n in plan)][:-1]
    assert sum(n for _, n in plan) == length
    assert all(first % CHUNK == 0 for first, _ in plan[1:])
    assert all(1 <= n <= CHUNK and first // CHUNK == (first + n - 1) // CHUNK for first, n in plan)


def test_empty_prompt_has_no_plan() -> None:
    with pytest.raises(ValueError, match="a prompt of 0 tokens"):
        chunk_plan(0, 0)


@pytest.fixture
def kv() -> KvCache:
    """Two layers of one head; slot s holds s in K and -s in V."""
    made = KvCache(n_layers=2, n_kv_heads=1, head_dim=4, n_slots=8, dtype=torch.float32, device="cpu")
    for layer in range(2):
        made.keys(layer).copy_(torch.arange(8.0)[:, None, None].expand(8, 1, 4))
        made.values(layer).copy_(-torch.arange(8.0)[:, None, None].expand(8, 1, 4))
    return made


def slots(kv: KvCache, layer: int) -> list[tuple[float, float]]:
    return list(zip(kv.keys(layer)[:, 0, 0].tolist(), kv.values(layer)[:, 0, 0].tolist(), strict=True))


@pytest.mark.parametrize("source", [[5, 6, 7], [3, 4, 5], [7, 2, 7]])
def test_moved_slots_land_in_order_in_every_layer(kv: KvCache, source: list[int]) -> None:
    """Source and destination may overlap."""
    kv.move(torch.tensor(source), torch.tensor([2, 3, 4]))

    expected = [0, 1, *source, 5, 6, 7]
    for layer in range(2):
        assert slots(kv, layer) == [(s, -s) for s in expected]


def test_poison_spares_what_is_valid(kv: KvCache) -> None:
    kv.poison(3)

    for layer in range(2):
        assert torch.isfinite(kv.keys(layer)).flatten(1).all(1).tolist() == [True] * 3 + [False] * 5
        assert torch.isfinite(kv.values(layer)).flatten(1).all(1).tolist() == [True] * 3 + [False] * 5


def test_bytes_per_token_count_both_halves_of_every_layer(kv: KvCache) -> None:
    assert kv.bytes_per_token == 2 * 2 * 1 * 4 * 4


def test_rows_past_the_cache_are_a_bad_call(kv: KvCache) -> None:
    rows = torch.zeros(3, 1, 4)

    with pytest.raises(ValueError, match=r"slots 6\.\.9 in a cache of 8"):
        Rows(6, 3).attend(kv, 0, rows, rows, rows)


def test_branches_see_their_prefix_and_themselves() -> None:
    visible = branch_visibility(
        prefix_lengths=[2, 3], own_slots=[[4], [5, 6]], n_slots=7, device=torch.device("cpu")
    )

    assert visible.int().tolist() == [[1, 1, 0, 0, 1, 0, 0], [1, 1, 1, 0, 0, 1, 1]]
