"""What the checks found, as data: what `--json` prints and `--out` writes."""

from __future__ import annotations

import msgspec

from specmon.core.bench.provenance import Provenance
from specmon.core.checks.agreement import PatternResult
from specmon.core.checks.distance import Along
from specmon.core.checks.quality import RecipeQuality
from specmon.core.checks.reference import Run
from specmon.core.engine.messages import LaneConfig


class CheckReport(msgspec.Struct, frozen=True, kw_only=True):
    """What every check says. `n_planned`: lines it was to have; with fewer it was broken off, and has not passed."""

    command: str
    provenance: Provenance
    target: str
    recipes: tuple[str, ...]
    backends: tuple[str, ...]
    devices: tuple[str, ...]
    n_planned: int
    passed: bool


class AgreementReport(CheckReport, frozen=True, kw_only=True):
    """SD and SSD against AR, a line a pattern."""

    config: LaneConfig
    patterns: tuple[PatternResult, ...]

    @property
    def faults(self) -> list[str]:
        """What differs, a sentence each."""
        return [f"{p.lane}, {p.pattern}: {p.fault}." for p in self.patterns if p.fault is not None]


class ReferenceReport(CheckReport, frozen=True, kw_only=True):
    """Logits against Hugging Face's. `rounding`: how far its own bf16 is from its fp32; None where nothing is bf16."""

    n_tokens: int
    rounding: Along | None
    runs: tuple[Run, ...]

    @property
    def faults(self) -> list[str]:
        """What is beyond its bound, a sentence each."""
        return [
            f"{run.recipe}, {run.path} at border {run.border}: {run.fault}."
            for run in self.runs
            if run.fault is not None
        ]


class QualityReport(CheckReport, frozen=True, kw_only=True):
    """Recipes against fp32 on `n_tokens` of the shipped text."""

    n_tokens: int
    found: tuple[RecipeQuality, ...]

    @property
    def faults(self) -> list[str]:
        """What is beyond its bound, a sentence each."""
        return [f"{q.recipe}: {q.fault}." for q in self.found if q.fault is not None]


Report = AgreementReport | ReferenceReport | QualityReport
