"""One process a device: each takes its share of the rows, and gradients are summed between them.

The process that was called leads: it alone says and writes anything. A drafter fits into any device many times over, so
data-parallel training is all there is.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from multiprocessing.process import BaseProcess
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor

from specmon.core.errors import SpecmonError

_PATIENCE = timedelta(minutes=10)
_JOIN_S = 30.0


@dataclass(frozen=True)
class Ranks:
    """This process among `world`; `others` are those it has started."""

    rank: int
    world: int
    device: torch.device
    others: tuple[BaseProcess, ...] = ()

    @property
    def leads(self) -> bool:
        return self.rank == 0

    def add_up(self, values: Tensor) -> None:
        """Sum `values` over all processes, in place. Raises: SpecmonError where one of them is gone."""
        if self.world == 1:
            return
        gone = SpecmonError("The process of another device has ended; what it said stands above.")
        if not all(other.is_alive() for other in self.others):
            raise gone
        try:
            dist.all_reduce(values)
        except RuntimeError as failed:
            raise gone from failed

    def wait(self) -> None:
        """Until all processes are here."""
        here = torch.ones(1, device=self.device)
        self.add_up(here)
        here.item()

    def part(self) -> None:
        """Leave the others, who have come as far and leave as well. A process that does not can hang as it exits."""
        if dist.is_initialized():
            dist.destroy_process_group()
        for other in self.others:
            other.join(_JOIN_S)


@contextmanager
def ranks_on(devices: tuple[str, ...], follow: Callable[[Ranks], None]) -> Iterator[Ranks]:
    """This process on the first device, and one on each further device that runs `follow` (picklable)."""
    first = Ranks(0, len(devices), _device(devices[0]))
    if len(devices) == 1:
        yield first
        return
    with tempfile.TemporaryDirectory() as folder:
        meeting = Path(folder) / "meeting"
        spawn = multiprocessing.get_context("spawn")
        others = tuple(
            spawn.Process(target=_follow, args=(rank, devices, meeting, follow), daemon=True)
            for rank in range(1, len(devices))
        )
        for other in others:
            other.start()
        try:
            _meet(first, meeting)
            ranks = Ranks(first.rank, first.world, first.device, others)
            yield ranks
            ranks.part()
        finally:
            for other in others:
                other.kill()


def _follow(rank: int, devices: tuple[str, ...], meeting: Path, follow: Callable[[Ranks], None]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that leads hears it and tells
    ranks = Ranks(rank, len(devices), _device(devices[rank]))
    _meet(ranks, meeting)
    follow(ranks)
    ranks.part()


def _meet(ranks: Ranks, meeting: Path) -> None:
    if ranks.device.type == "cpu":
        torch.set_num_threads(max(1, (os.cpu_count() or 1) // ranks.world))
    dist.init_process_group(
        "nccl" if ranks.device.type == "cuda" else "gloo",
        init_method=f"file://{meeting}",
        rank=ranks.rank,
        world_size=ranks.world,
        timeout=_PATIENCE,
        device_id=ranks.device if ranks.device.type == "cuda" else None,
    )


def _device(name: str) -> torch.device:
    if name.startswith("cpu"):
        return torch.device("cpu")
    device = torch.device(name)
    torch.cuda.set_device(device)
    return device
