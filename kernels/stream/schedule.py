"""How each streaming matmul is cut up: tile sizes, splits of K, pipeline stages, warps.

A schedule fixes the order of every sum, so it is part of the backend's version: change one, and bits may change.
"""

from __future__ import annotations

import tomllib
from dataclasses import asdict, dataclass, fields
from functools import cache
from pathlib import Path

SCHEDULES = Path(__file__).with_name("schedules.toml")
_HEADER = """\
# How each streaming matmul is cut up, by weight format and "op NxK" (outputs x inputs): winners of `specmon kernels tune`
# on an H200. A shape that is not here gets `default_schedule`; a field that is not said has `Schedule`'s default.
#
# A schedule fixes the order of every sum: raise `version`, the Triton backend's, when a change may change a bit.
"""
_SM_COUNT = 132  # programs that fill an H100 or H200 once
_RESIDUAL_BN = 64
WEIGHTS = {"bf16": 2, "fp8": 1}  # formats of W, bytes a number
GROUP = 128  # inputs that share a scale in fp8


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """bn weight rows and bk inputs a program and step, K in `split` parts, `stages` steps in flight, `warps` a program.

    `parts` programs share a tile, whose outputs end together.
    """

    bn: int
    bk: int
    parts: int = 1
    split: int = 1
    stages: int = 4
    warps: int = 4

    @property
    def tile(self) -> int:
        """Outputs that end together (of each of gate and up)."""
        return self.bn * self.parts

    def k_part(self, k: int) -> int:
        """Inputs of each part of K but the last, which may have fewer."""
        return cdiv(k, self.bk * self.split) * self.bk

    def __str__(self) -> str:
        return " ".join(f"{name}={value}" for name, value in asdict(self).items())


def cdiv(a: int, b: int) -> int:
    return -(-a // b)


def pair_group(width: int) -> int:
    """Inputs that share a scale in fp8 where a row is two halves of `width` numbers: no group is of both."""
    return min(GROUP, width & -width)


@dataclass(frozen=True, kw_only=True)
class ScheduleTable:
    """Tuned schedules by weight format ("bf16") and shape ("qkv 4608x3584"), and the backend version they make up."""

    version: int
    tuned: dict[str, dict[str, Schedule]]

    @classmethod
    def read(cls, path: Path) -> ScheduleTable:
        """Raises: OSError, ValueError or TypeError for a file that is no table of schedules."""
        raw = tomllib.loads(path.read_text())
        version = int(raw.pop("version"))
        return cls(
            version=version,
            tuned={
                weights: {shape: Schedule(**fields) for shape, fields in rows.items()}
                for weights, rows in raw.items()
            },
        )

    def with_changes(self, changes: dict[str, Schedule], *, weights: str, new_version: bool) -> ScheduleTable:
        """This table with other schedules for some shapes, as the next version where a bit may have changed."""
        tuned = self.tuned | {weights: self.tuned.get(weights, {}) | changes}
        return ScheduleTable(version=self.version + new_version, tuned=tuned)

    def text(self) -> str:
        """The file that `read` reads."""
        lines = [_HEADER, f"version = {self.version}"]
        for weights, rows in self.tuned.items():
            lines += ["", f"[{weights}]"]
            lines += [f'"{shape}" = {{ {_fields(schedule)} }}' for shape, schedule in rows.items()]
        return "\n".join(lines) + "\n"

    def write(self, path: Path) -> None:
        """Put the table at `path`, whole or not at all. Raises: OSError."""
        partial = path.with_suffix(".partial")
        try:
            partial.write_text(self.text())
            partial.replace(path)
        finally:
            partial.unlink(missing_ok=True)


def _fields(schedule: Schedule) -> str:
    """What differs from a schedule's defaults."""
    said = [f for f in fields(schedule) if getattr(schedule, f.name) != f.default]
    return ", ".join(f"{f.name} = {getattr(schedule, f.name)}" for f in said)


@cache
def shipped_table() -> ScheduleTable:
    """The table beside this file."""
    return ScheduleTable.read(SCHEDULES)


def shape_key(op: str, n: int, k: int) -> str:
    return f"{op} {n}x{k}"


def schedule_for(
    op: str, n: int, k: int, *, bn: int | None = None, group: int = GROUP, weights: str = "bf16"
) -> Schedule:
    """The schedule of `op` ("qkv", "o", "gate_up", "down", "head") for N outputs and K inputs; qkv's bn is the head size.

    o and down share bn, since both leave sums of squares by tile. `weights` is the format W is stored in. In fp8 `group`
    inputs share a scale: a tile has so many inputs, and what ends in fp8 so many outputs.
    """
    tuned = shipped_table().tuned.get(weights, {}).get(shape_key(op, n, k))
    if tuned is not None:
        return tuned
    may_split = op in ("qkv", "o", "down")
    if weights == "fp8":
        # 256 bytes of a row at a time are faster to read than 128; gate and up together would not fit shared memory.
        wide = 2 * group if op != "gate_up" and k % (2 * group) == 0 else group
        return default_schedule(n, k, bn=bn or GROUP, bk=wide, may_split=may_split)
    rows = bn or (_RESIDUAL_BN if op in ("o", "down") else None)
    return default_schedule(n, k, bn=rows, may_split=may_split)


def default_schedule(
    n: int, k: int, *, bn: int | None = None, bk: int | None = None, may_split: bool = True
) -> Schedule:
    """A schedule for a shape nobody tuned: enough programs to fill the chip, K split evenly in whole tiles."""
    rows = bn or (128 if n >= 128 * _SM_COUNT * 2 else 64)
    split = 1
    while may_split and cdiv(n, rows) * split < _SM_COUNT and split < 8 and k % (split * 2 * (bk or 64)) == 0:
        split *= 2
    wide = bk or (128 if k >= 1024 and k % (128 * split) == 0 else min(64, k // split))
    return Schedule(bn=rows, bk=wide, split=split)
