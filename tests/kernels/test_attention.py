"""Attention: exact rows, stale positions never read, and numbers against fp64."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from specmon.kernels.attention.reference import attend_masked, attend_prefill, attend_rows

Layout = Callable[[Tensor], Tensor]
# How a cache may lie in memory; each gives the same [S, G, D] view.
LAYOUTS: dict[str, Layout] = {
    "positions outermost": lambda x: x.contiguous(),
    "heads outermost": lambda x: x.transpose(0, 1).contiguous().transpose(0, 1),
    "part of a wider row": lambda x: torch.cat((x, torch.full_like(x, torch.nan)), dim=2)[:, :, : x.shape[2]],
}
HEADS = [(9, 3, 64), (4, 4, 16), (14, 2, 64), (4, 2, 24)]  # (query heads, KV heads, head dimension)


def exact(q: Tensor, k: Tensor, v: Tensor, visible: Tensor) -> Tensor:
    """softmax(q kᵀ / √D) v in fp64, one head at a time."""
    group = q.shape[1] // k.shape[1]
    heads = []
    for h in range(q.shape[1]):
        scores = q[:, h].double() @ k[:, h // group].double().t() / q.shape[2] ** 0.5
        heads.append(scores.masked_fill(~visible, -torch.inf).softmax(-1) @ v[:, h // group].double())
    return torch.stack(heads, dim=1)


def cache(positions: int, heads: tuple[int, int, int]) -> tuple[Tensor, Tensor]:
    return torch.randn(positions, heads[1], heads[2]), torch.randn(positions, heads[1], heads[2])


@pytest.mark.parametrize("length", [1, 31, 300, 700])
@pytest.mark.parametrize("heads", HEADS[:3], ids=str)
def test_attention_row_has_the_same_bits_in_any_batch(
    heads: tuple[int, int, int],
    length: int,
    threads: int,
    assert_rows_stand_alone: Callable[..., None],
) -> None:
    k, v = cache(720, heads)

    def attend(q: Tensor) -> Tensor:
        return attend_rows(q, k, v, [length] * len(q))

    assert_rows_stand_alone(attend, torch.randn(heads[0], heads[2]))


def test_attention_row_does_not_depend_on_the_other_rows_lengths(threads: int) -> None:
    k, v = cache(64, (9, 3, 64))
    q = torch.randn(5, 9, 64)
    together = attend_rows(q, k, v, [60, 3, 61, 64, 1])
    for row, length in enumerate([60, 3, 61, 64, 1]):
        assert torch.equal(together[row], attend_rows(q[row : row + 1], k, v, [length])[0])


@pytest.mark.parametrize("k_layout", LAYOUTS)
@pytest.mark.parametrize("v_layout", LAYOUTS)
@pytest.mark.parametrize("heads", HEADS, ids=str)
def test_attention_takes_keys_and_values_of_any_strides(
    heads: tuple[int, int, int], k_layout: str, v_layout: str
) -> None:
    k, v = cache(80, heads)
    q = torch.randn(4, heads[0], heads[2])
    lengths = torch.tensor([77, 78, 79, 80])
    mask = torch.arange(80) < lengths[:, None]
    laid_k, laid_v = LAYOUTS[k_layout](k), LAYOUTS[v_layout](v)
    expected = exact(q, k, v, mask)
    for found in (
        attend_rows(q, laid_k, laid_v, lengths.tolist()),
        attend_prefill(q, laid_k, laid_v, 76),
        attend_masked(q, laid_k, laid_v, mask),
    ):
        torch.testing.assert_close(found.double(), expected, rtol=1e-4, atol=2e-6)


@pytest.mark.parametrize("heads", HEADS, ids=str)
@pytest.mark.parametrize(("start", "rows"), [(0, 1), (0, 37), (1, 1), (5, 64), (300, 3)])
def test_prefill_chunk_matches_fp64(heads: tuple[int, int, int], start: int, rows: int) -> None:
    k, v = cache(start + rows, heads)
    q = torch.randn(rows, heads[0], heads[2])
    visible = torch.arange(start + rows) <= torch.arange(start, start + rows)[:, None]
    torch.testing.assert_close(
        attend_prefill(q, k, v, start).double(), exact(q, k, v, visible), rtol=1e-4, atol=2e-6
    )


def test_masked_rows_see_their_own_branch_only() -> None:
    k, v = cache(12, (9, 3, 64))
    q = torch.randn(3, 9, 64)
    mask = torch.zeros(3, 12, dtype=torch.bool)
    mask[:, :5] = True
    mask[0, 6], mask[1, 9] = True, True
    torch.testing.assert_close(
        attend_masked(q, k, v, mask).double(), exact(q, k, v, mask), rtol=1e-4, atol=2e-6
    )


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_attention_in_half_precision_matches_fp64(dtype: torch.dtype) -> None:
    k, v = (x.to(dtype) for x in cache(40, (9, 3, 64)))
    q = torch.randn(2, 9, 64).to(dtype)
    found = attend_rows(q, k, v, [39, 40])
    assert found.dtype == dtype
    visible = torch.arange(40) < torch.tensor([[39], [40]])
    torch.testing.assert_close(found.double(), exact(q, k, v, visible), rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize("form", ["rows", "prefill"])
def test_attention_never_reads_past_a_rows_length(form: str) -> None:
    k, v = cache(32, (9, 3, 64))
    q = torch.randn(4, 9, 64)
    poisoned_k, poisoned_v = k.clone(), v.clone()
    poisoned_k[14:], poisoned_v[14:] = torch.nan, torch.nan

    def attend(keys: Tensor, values: Tensor) -> Tensor:
        if form == "rows":
            return attend_rows(q, keys, values, [11, 12, 13, 14])
        return attend_prefill(q, keys, values, 10)

    assert torch.equal(attend(poisoned_k, poisoned_v), attend(k, v))


@pytest.mark.parametrize("lengths", [[], [1, 2, 3], [0, 1], [1, 33], [-1, 4]])
def test_attention_refuses_lengths_that_do_not_fit(lengths: list[int]) -> None:
    k, v = cache(32, (9, 3, 64))
    with pytest.raises(ValueError):
        attend_rows(torch.randn(2, 9, 64), k, v, lengths)


@pytest.mark.parametrize("start", [-1, 31, 100])
def test_prefill_refuses_a_chunk_outside_the_cache(start: int) -> None:
    k, v = cache(32, (9, 3, 64))
    with pytest.raises(ValueError):
        attend_prefill(torch.randn(2, 9, 64), k, v, start)
