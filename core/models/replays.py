"""Work on a device, queued again and again: captured as a CUDA graph once and replayed, or queued kernel by kernel.

Either way it is known what the host launches: a replay is one launch, otherwise every kernel and copy is one, counted
while the work is queued for the first time.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode


class Replays:
    """Runs pieces of work by their shape, on static addresses.

    What the work itself allocates is memory that all its graphs share: they never run at the same time.

    Args:
        graphs: capture each shape on its first use; False, or a device without CUDA, queues it anew every time.
        repeat: replay a graph once when it is captured, so that its first use in earnest has nothing to upload; False for
            work that may not be done twice, or takes long.
    """

    def __init__(self, device: torch.device, *, graphs: bool, repeat: bool = True) -> None:
        self._device, self._repeat = device, repeat
        self._on_gpu = device.type == "cuda"
        self.captures = graphs and self._on_gpu
        self._graphs: dict[Hashable, torch.cuda.CUDAGraph] = {}
        self._launches: dict[Hashable, int] = {}

    def run(self, shape: Hashable, queue: Callable[[], object]) -> int | None:
        """Queue the work of `shape` and wait for nothing. Returns: the host's launches, None where there are none to count.

        `queue` must queue the same launches whenever the shape is the same.
        """
        if not self._on_gpu:
            queue()
            return None
        if self.captures:
            return self._replay(shape, queue)
        if shape in self._launches:
            queue()
        else:
            self._launches[shape] = count_launches(queue)
        return self._launches[shape]

    def wait(self) -> None:
        """Wait until the device has done all that was queued."""
        wait_for(self._device)

    def _replay(self, shape: Hashable, queue: Callable[[], object]) -> int:
        first = 0
        if shape not in self._graphs:
            first = count_launches(queue)  # kernels compile and buffers are made before anything is captured
            self._graphs[shape] = self._capture(queue)
            if not self._repeat:
                return first
        self._graphs[shape].replay()
        return first + 1

    def _capture(self, queue: Callable[[], object]) -> torch.cuda.CUDAGraph:
        """Record the work, which ran just before."""
        torch.cuda.synchronize(self._device)
        graph = torch.cuda.CUDAGraph()
        shared = next((captured.pool() for captured in self._graphs.values()), None)
        with torch.cuda.graph(graph, pool=shared):
            queue()
        return graph


_meanwhile: list[Callable[[], object]] = []


def while_waiting(do: Callable[[], object]) -> None:
    """Let this process do something, again and again, while it waits for a device: that costs nothing then."""
    _meanwhile[:] = [do]


def wait_for(device: torch.device) -> None:
    """Wait until a device has done all that was queued."""
    if device.type == "cuda":
        stream = torch.cuda.current_stream(device)
        while _meanwhile and not stream.query():
            _meanwhile[0]()
        stream.synchronize()


class Mark:
    """A place in what is queued on a device: it is reached once all before it is done."""

    def __init__(self, device: torch.device) -> None:
        self._event: Any = None
        if device.type == "cuda":
            self._event = torch.cuda.Event()  # type: ignore[no-untyped-call]
            self._event.record(torch.cuda.current_stream(device))

    @property
    def reached(self) -> bool:
        return self._event is None or bool(self._event.query())

    def wait(self) -> None:
        if self._event is not None:
            self._event.synchronize()


def count_launches(queue: Callable[[], object]) -> int:
    """Run `queue` and count what it launches: Triton's kernels, and torch's ops that are no views.

    An op of torch counts once: the elementwise ops and copies that stand between Triton's kernels are one launch each.
    """
    from triton import knobs

    ops, kernels = _Ops(), 0

    def one_more(_: Any) -> None:
        nonlocal kernels
        kernels += 1

    knobs.runtime.launch_enter_hook.add(one_more)
    try:
        with ops:
            queue()
    finally:
        knobs.runtime.launch_enter_hook.remove(one_more)
    return ops.count + kernels


class _Ops(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts ops that do something with memory: neither views nor allocations."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        empties = func.name().startswith("aten::empty")
        if isinstance(out, Tensor | tuple) and not (func.is_view or empties):
            self.count += 1
        return out
