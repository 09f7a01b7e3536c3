"""Which matrix instructions a kernel runs, and on which number format.

PTX names both, but for tcgen05, whose kinds cover several formats each: there Triton's last IR says which.
Source: PTX ISA, "mma.sync", "wgmma.mma_async", "tcgen05.mma".
"""

from __future__ import annotations

import re

_WGMMA = re.compile(r"\bwgmma\.mma_async(?:\.sp)?\.sync\.aligned\.m\d+n\d+k\d+\.\w+\.(\w+)\.")
_MMA = re.compile(
    r"\bmma(?:\.sp\S*)?\.sync\.aligned\.m\d+n\d+k\d+\.row\.col(?:\.kind::\w+|\.block_scale\S*?)*\.\w+\.(\w+)\."
)
_TCGEN05 = re.compile(r"\btcgen05\.mma\b")
_TCGEN05_OPERAND = re.compile(r"tc_gen5_mma\w* .*?: !ttg\.memdesc<[\dx]+x(\w+)")
_DOT = re.compile(r"= tt\.dot ")
_FORMATS = {"f16": "fp16", "f32": "tf32", "f8E4M3FN": "e4m3", "f8E5M2": "e5m2"}


def families(ptx: str, ttgir: str) -> tuple[str, ...]:
    """Sorted, such as ("tcgen05 bf16", "wgmma e4m3"); "ffma" where a product runs without the tensor cores."""
    found = {f"wgmma {_format(kind)}" for kind in _WGMMA.findall(ptx)}
    found |= {f"mma.sync {_format(kind)}" for kind in _MMA.findall(ptx)}
    if _TCGEN05.search(ptx):
        found |= {f"tcgen05 {_format(kind)}" for kind in _TCGEN05_OPERAND.findall(ttgir)} or {"tcgen05 ?"}
    if _DOT.search(ttgir) and not _MMA.search(ptx):
        found.add("ffma")
    return tuple(sorted(found))


def _format(kind: str) -> str:
    return _FORMATS.get(kind, kind)
