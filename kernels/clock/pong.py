"""A device that answers with its time: N questions of the host in one launch (Triton).

The host notes its own time before it asks and after it sees the answer; the device's time was read between the two. A
kernel that is there already answers within two trips over the bus, where a launch would add several µs of its own.
Reference: `reference.pong`.
"""

from __future__ import annotations

import triton
import triton.language as tl
from triton.language.extra.cuda import globaltimer


@triton.jit
def pong_kernel(ping_ptr, time_ptr, N: tl.constexpr, PATIENCE: tl.constexpr):
    """For i = 1 … N: wait until ping is i or more, then leave the device's time (ns) in time[i − 1]. Grid: (1,).

    Every wait is bounded: after PATIENCE looks it answers unasked, so that a host that went away cannot hang the device.
    Shapes: ping [1] int32 and time [N] int64, both in pinned host memory.
    """
    for i in range(1, N + 1):
        looks = 0
        asked = tl.load(ping_ptr, volatile=True)
        while (asked < i) & (looks < PATIENCE):
            asked = tl.load(ping_ptr, volatile=True)
            looks += 1
        tl.store(time_ptr + i - 1, globaltimer(), cache_modifier=".wt")
