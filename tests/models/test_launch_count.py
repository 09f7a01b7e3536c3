"""What the host launches is counted: Triton's kernels as its hook sees them, torch's ops but for views."""

from __future__ import annotations

import contextlib

import pytest
import torch
from triton import knobs

from specmon.core.models.replays import Replays, count_launches


def a_kernel() -> None:
    """What Triton does at a launch, without one."""
    knobs.runtime.launch_enter_hook(None)


def test_kernels_copies_and_arithmetic_count_and_views_do_not() -> None:
    a, b, out = torch.zeros(3, 4), torch.ones(4, 3), torch.empty(3, 4)

    def queue() -> None:
        a_kernel()
        a[:, 1:3] = b.T[:, 1:3]
        torch.add(a, b.T, out=out)
        out.copy_(a, non_blocking=True)
        a.view(torch.int32)[0].select(0, 1)
        a.topk(2)
        a_kernel()

    assert count_launches(queue) == 6
    assert count_launches(lambda: None) == 0


def test_counting_ends_with_the_work_and_with_its_failure() -> None:
    def fails() -> None:
        raise RuntimeError

    for queue in (a_kernel, fails):
        with contextlib.suppress(RuntimeError):
            count_launches(queue)
        assert not knobs.runtime.launch_enter_hook.calls


def test_work_without_a_gpu_is_queued_each_time_and_not_counted() -> None:
    replays, runs = Replays(torch.device("cpu"), graphs=True), []

    assert replays.run("shape", lambda: runs.append(1)) is None
    assert replays.run("shape", lambda: runs.append(2)) is None
    replays.wait()

    assert runs == [1, 2]
    assert not replays.captures


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("repeat", [True, False])
def test_work_is_done_twice_when_it_is_captured_only_where_it_may_be(repeat: bool) -> None:
    device = torch.device("cuda:0")
    done = torch.zeros(1, device=device)
    replays = Replays(device, graphs=True, repeat=repeat)

    launches = [replays.run("shape", lambda: done.add_(1)) for _ in range(2)]  # type: ignore[arg-type, return-value]

    assert (launches, int(done)) == (([2, 1], 3) if repeat else ([1, 1], 2))
