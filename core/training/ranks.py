"""One process a device: each takes its share of the rows, and gradients are summed between them.

The process that was called leads: it alone says and writes anything, and it alone hears ctrl+c, also while it waits for
the others. A drafter fits into any device many times over, so data-parallel training is all there is.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from multiprocessing import resource_tracker
from multiprocessing.process import BaseProcess
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor

from specmon.core.errors import SpecmonError
from specmon.core.training.stopping import ENDING

_PATIENCE = timedelta(minutes=10)
_JOIN_S = 30.0
_LOOK_S = 5e-4  # between looks at what is waited for; signals are heard there


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
        try:
            work = dist.all_reduce(values, async_op=True)
            _until(work.is_completed, self.others)
            work.wait()
        except RuntimeError as failed:
            raise _gone(self.others) from failed

    def wait(self) -> None:
        """Until all processes are here. Raises: SpecmonError where one of them is gone."""
        self.add_up(torch.ones(1, device=self.device))

    def part(self) -> None:
        """Leave the others, who have come as far and leave as well. A process that does not can hang as it exits."""
        if dist.is_initialized():
            dist.destroy_process_group()
        for other in self.others:
            other.join(_JOIN_S)


@contextmanager
def ranks_on(devices: tuple[str, ...], follow: Callable[[Ranks], None]) -> Iterator[Ranks]:
    """This process on the first device, and one on each further device that runs `follow` (picklable)."""
    if len(devices) == 1:
        yield Ranks(0, 1, _device(devices[0]))
        return
    with tempfile.TemporaryDirectory() as folder:
        meeting = Path(folder) / "meeting"
        spawn = multiprocessing.get_context("spawn")
        others = tuple(
            spawn.Process(
                name=devices[rank], target=_follow, args=(rank, devices, meeting, follow), daemon=True
            )
            for rank in range(1, len(devices))
        )
        ranks = Ranks(0, len(devices), _device(devices[0]), others)
        try:
            with _signals_held_back():
                for other in others:
                    other.start()
            _until(lambda: all(_here(meeting, rank).exists() for rank in range(1, ranks.world)), others)
            _meet(ranks, meeting)
            yield ranks
            ranks.part()
        finally:
            for other in others:
                if other.pid is not None:
                    other.kill()
            if together := dist.group.WORLD:
                with suppress(RuntimeError):  # a backend that cannot has nothing to break off
                    together.abort()
                    dist.destroy_process_group()


@contextmanager
def _signals_held_back() -> Iterator[None]:
    """Signals that end a run come when it is over; a process that is started within never hears them."""
    resource_tracker.ensure_running()  # else the first start does, which lets signals through again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _follow(rank: int, devices: tuple[str, ...], meeting: Path, follow: Callable[[Ranks], None]) -> None:
    ranks = Ranks(rank, len(devices), _device(devices[rank]))
    _here(meeting, rank).touch()
    _meet(ranks, meeting)
    follow(ranks)
    ranks.part()


def _here(meeting: Path, rank: int) -> Path:
    """What a process leaves behind before it meets the others, where nobody hears or says anything."""
    return meeting.with_name(f"{meeting.name}.{rank}")


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
    # NCCL connects processes at the first collective, deaf to anything: later, one that is gone would not be noticed
    dist.all_reduce(torch.ones(1, device=ranks.device))
    if ranks.device.type == "cuda":
        torch.cuda.synchronize(ranks.device)


def _until(done: Callable[[], bool], others: tuple[BaseProcess, ...]) -> None:
    """Wait until `done`. Raises: SpecmonError where one of `others` is gone before."""
    while not done():
        if not all(other.is_alive() for other in others) and not done():
            raise _gone(others)
        time.sleep(_LOOK_S)


def _gone(others: tuple[BaseProcess, ...]) -> SpecmonError:
    """What to say of a process that ended; a further device's process has nobody to say it to."""
    for other in others:
        other.join(1.0)
        if other.exitcode is not None:
            how = f"was killed by signal {-other.exitcode}" if other.exitcode < 0 else "failed, see above"
            return SpecmonError(f"The process on {other.name} {how}.")
    return SpecmonError("The process on another device has ended.")


def _device(name: str) -> torch.device:
    if name.startswith("cpu"):
        return torch.device("cpu")
    device = torch.device(name)
    torch.cuda.set_device(device)
    return device
