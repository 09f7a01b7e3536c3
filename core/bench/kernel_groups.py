"""What a pass spends its time on: its kernels in groups, so that groups and gaps add up to the pass. Torch-free."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

LINEARS = ("qkv", "o", "gate_up", "down", "head")
GROUPS = ("qkv", "attention", "o", "gate_up", "down", "head", "norm", "other")

# Names of the streaming kernels. `residual_kernel` is "o" after attention and "down" after gate and up: see `grouped`.
_STREAMED = {
    "qkv_kernel": "qkv",
    "attend_kernel": "attention",
    "attend_branches_kernel": "attention",
    "merge_kernel": "attention",
    "swiglu_kernel": "gate_up",
    "head_kernel": "head",
    "winner_kernel": "head",
    "embed_kernel": "other",
    "collect_kernel": "other",
    "pair_kernel": "norm",
}
_RESIDUAL = "residual_kernel"
# What library kernels and torch's ops have in their names.
_WORDS = (
    ("rms_norm", "norm"),
    ("rmsnorm", "norm"),
    ("layer_norm", "norm"),
    ("layernorm", "norm"),
    ("scaled_dot_product", "attention"),
    ("attention", "attention"),
    ("flash", "attention"),
    ("fmha", "attention"),
)


class Stretch(NamedTuple):
    """One kernel, or on a CPU one op, that ran from `start` to `end` (ns)."""

    name: str
    start: int
    end: int


class PassTime(NamedTuple):
    """One pass. Times in ns; `groups` and `gaps` add up to `span`, from the first kernel's start to the last one's end."""

    groups: dict[str, int]
    counts: dict[str, int]
    gaps: int
    span: int


def grouped(kernels: Iterable[Stretch], ranges: Sequence[Stretch] = ()) -> list[tuple[str, Stretch]]:
    """The kernels of one pass by start, each with its group.

    `ranges` are stretches named after groups: a kernel that starts within one belongs to it. Else its name decides, and for
    the residual matmul what ran before it.
    """
    found = []
    after = ""  # the newest group that says which residual matmul comes next
    for kernel in sorted(kernels, key=lambda kernel: kernel.start):
        group = next((r.name for r in ranges if r.start <= kernel.start < r.end), "") or group_of(
            kernel.name, after
        )
        if group in ("attention", "gate_up"):
            after = group
        found.append((group, kernel))
    return found


def group_of(name: str, after: str) -> str:
    """A kernel's group by its name; `after` is the newest of attention and gate_up before it."""
    if _RESIDUAL in name:
        return "down" if after == "gate_up" else "o"
    streamed = next((group for word, group in _STREAMED.items() if word in name), None)
    if streamed is not None:
        return streamed
    lower = name.lower()
    return next((group for word, group in _WORDS if word in lower), "other")


def pass_time(kernels: Iterable[tuple[str, Stretch]]) -> PassTime:
    """Share a pass's time out among its kernels, given by start.

    Kernels may overlap (a dependent launch starts before its predecessor ends, and waits): each instant counts for the one
    that started first of those that run.
    """
    groups, counts = dict.fromkeys(GROUPS, 0), dict.fromkeys(GROUPS, 0)
    begin = covered = gaps = 0
    for number, (group, kernel) in enumerate(kernels):
        if number == 0:
            begin = covered = kernel.start
        gaps += max(0, kernel.start - covered)
        groups[group] += max(0, kernel.end - max(covered, kernel.start))
        counts[group] += 1
        covered = max(covered, kernel.end)
    return PassTime(groups=groups, counts=counts, gaps=gaps, span=covered - begin)


def outermost(ops: Iterable[Stretch]) -> list[Stretch]:
    """Of ops that contain others, the outer ones alone."""
    found: list[Stretch] = []
    for op in sorted(ops, key=lambda op: (op.start, -op.end)):
        if not found or op.start >= found[-1].end:
            found.append(op)
    return found
