"""Shared by the kernel tests: thread counts, and the check that a row's bits stand alone."""

from collections.abc import Callable, Iterator

import pytest
import torch
from torch import Tensor

ROW_COUNTS = {1: range(1, 17), 2: (1, 2, 3, 5, 11, 16)}  # by threads; two are slow where the cores are busy
Op = Callable[[Tensor], Tensor]


@pytest.fixture(params=[1, 2], ids=["1 thread", "2 threads"])
def threads(request: pytest.FixtureRequest) -> Iterator[int]:
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


@pytest.fixture(autouse=True)
def _inference() -> Iterator[None]:
    torch.manual_seed(0)
    with torch.inference_mode():
        yield


@pytest.fixture
def assert_rows_stand_alone() -> Callable[[Op, Tensor], None]:
    """Check that `op` gives `row` the bits it has alone, at any row count, index and companions."""

    def check(op: Op, row: Tensor) -> None:
        alone = op(row[None])[0]
        assert bool(torch.isfinite(alone).all())
        for count in ROW_COUNTS[min(2, torch.get_num_threads())]:
            for index in sorted({0, count // 2, count - 1}):
                for companions in _companions(count, row):
                    companions[index] = row
                    found = op(companions)[index]
                    assert torch.equal(found, alone), f"differs as row {index} of {count}"

    return check


def _companions(count: int, row: Tensor) -> list[Tensor]:
    shape = (count, *row.shape)
    broken = torch.full(shape, torch.nan, dtype=row.dtype)
    return [torch.randn(shape).to(row.dtype) * 100, broken]
