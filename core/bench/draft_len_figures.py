"""The figures that `bench draft-len` measures, read off its report."""

from __future__ import annotations

from collections.abc import Callable

from specmon.core.bench.draft_len_report import DraftLenReport
from specmon.core.bench.figure_needs import TAU_K


def _ratio(report: DraftLenReport) -> float | None:
    found = report.summary.evaluation
    return None if found is None or found.measured is None else found.measured.median


def _model_fraction(report: DraftLenReport) -> float | None:
    found = report.summary.evaluation
    return None if found is None else found.measured_over_predicted


def _ssd_speed(report: DraftLenReport) -> float | None:
    rows = report.evaluation.rows if report.evaluation is not None else ()
    return next((row.tokens_per_s for row in rows if row.decoder == "ssd" and row.equal), None)


def _tau(report: DraftLenReport) -> float | None:
    rows = (row for row in report.sweep.rows if (row.decoder, row.draft_len) == ("sd", TAU_K))
    return next((row.tokens_per_round for row in rows if row.equal), None)


#: On the evaluation prompts; all others are τ of a sweep.
_OF_EVALUATION: dict[str, Callable[[DraftLenReport], float | None]] = {
    "h200x2.ssd.over.sd.bf16": _ratio,
    "h200x2.ssd.model_fraction": _model_fraction,
    "h200x2.fp8.eagle3.scripted.tokens_per_s": _ssd_speed,
}


def figure_of(report: DraftLenReport, goal: str) -> float | None:
    """The figure of `goal`, None where the report does not hold it."""
    return _OF_EVALUATION.get(goal, _tau)(report)
