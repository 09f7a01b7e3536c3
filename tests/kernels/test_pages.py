"""Moving weights into huge pages changes where they lie and nothing else."""

import mmap
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from specmon.kernels.linear import DenseLinear, Int4Linear, Int8Head, Int8Linear, Linear, into_huge_pages

needs_huge_pages = pytest.mark.skipif(not hasattr(mmap, "MADV_HUGEPAGE"), reason="needs Linux")


def linears() -> list[Linear]:
    codes = torch.randint(0, 16, (48, 64), dtype=torch.int32)
    int8 = torch.randint(-127, 128, (33, 64), dtype=torch.int8)
    return [
        Int4Linear(codes, torch.rand(48, 2), torch.randn(48, 2), torch.randn(48)),
        Int8Linear(int8, torch.rand(33)),
        Int8Head(int8, torch.rand(33) * 0.01),
        DenseLinear(torch.randn(40, 64), torch.randn(40)),
        DenseLinear(torch.randn(40, 64).bfloat16()),
    ]


def places(linear: Linear) -> list[int]:
    found: list[int] = []

    def note(tensor: Tensor) -> Tensor:
        found.append(tensor.data_ptr())
        return tensor

    move: Callable[[Callable[[Tensor], Tensor]], None] = linear.move  # type: ignore[attr-defined]
    move(note)
    return found


@needs_huge_pages
def test_moved_linears_give_the_same_bits() -> None:
    moved = linears()
    x = torch.randn(5, 64)
    before = [linear(x) for linear in moved]
    into_huge_pages(moved)
    assert all(torch.equal(linear(x), y) for linear, y in zip(moved, before, strict=True))


@needs_huge_pages
def test_moved_weights_lie_side_by_side_on_cache_lines() -> None:
    moved = linears()
    before = {place for linear in moved for place in places(linear)}
    into_huge_pages(moved)
    after = [place for linear in moved for place in places(linear)]
    assert not before & set(after)
    assert after == sorted(after)
    assert all(place % 64 == 0 for place in after)
    assert after[-1] - after[0] < 20_000


@needs_huge_pages
def test_moved_weights_outlive_the_call() -> None:
    (linear,) = into_and_forget()
    x = torch.randn(2, 64)
    assert torch.equal(linear(x), linear(x.clone()))


def into_and_forget() -> list[Linear]:
    only = linears()[:1]
    into_huge_pages(only)
    return only


def test_moving_nothing_is_no_error() -> None:
    into_huge_pages([])
    into_huge_pages([object()])


def test_moving_leaves_linears_alone_where_there_are_no_huge_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(mmap, "MADV_HUGEPAGE", raising=False)
    kept = linears()
    before = [places(linear) for linear in kept]
    into_huge_pages(kept)
    assert [places(linear) for linear in kept] == before
