"""The goals whose figures `bench draft-len` measures."""

from __future__ import annotations

from collections.abc import Callable

from specmon.core.bench.draft_len_report import DraftLenReport

TAU_K = 4


def _ratio(report: DraftLenReport) -> float | None:
    found = report.summary.evaluation
    if found is None or found.measured is None or len(report.devices) < 2:
        return None
    return found.measured.median


def _model_fraction(report: DraftLenReport) -> float | None:
    found = report.summary.evaluation
    return None if found is None else found.measured_over_predicted


def _tau(report: DraftLenReport) -> float | None:
    rows = (row for row in report.sweep.rows if (row.decoder, row.draft_len) == ("sd", TAU_K))
    return next((row.tokens_per_round for row in rows if row.equal), None)


#: SSD over SD on the evaluation prompts and two devices, each at its own best draft_len.
RATIO_GOALS: dict[str, Callable[[DraftLenReport], float | None]] = {
    "h200x2.ssd.over.sd.bf16": _ratio,
    "h200x2.ssd.model_fraction": _model_fraction,
}

#: τ of SD at K 4 in a sweep over the evaluation prompts, by the `--draft` it is a goal of.
TAU_GOALS: dict[str, str] = {"embedded.draft.tau_k4": "auto", "embedded.eagle3.tau_k4": "eagle3"}


def figure_of(report: DraftLenReport, goal: str) -> float | None:
    """The figure of `goal`, None where the report does not hold it."""
    return RATIO_GOALS.get(goal, _tau)(report)
