"""The checks' reports for people, as Markdown."""

from __future__ import annotations

from specmon.core.bench.markdown import NONE, origin, table
from specmon.core.checks import reference
from specmon.core.checks.reference import Run
from specmon.core.checks.reports import AgreementReport, QualityReport, ReferenceReport, Report


def agreement_markdown(report: AgreementReport) -> str:
    """A line a pattern, and their count at the end."""
    head = ["lane", "pattern", "tokens", "rounds", "hits", "against AR"]
    rows = [
        [
            p.lane,
            p.pattern,
            str(p.n_tokens),
            str(p.rounds),
            NONE if p.hits is None else str(p.hits),
            "equal" if p.fault is None else f"**{p.fault}**",
        ]
        for p in report.patterns
    ]
    equal = sum(p.fault is None for p in report.patterns)
    count = f"{equal} of {report.n_planned} patterns give AR's tokens."
    return _whole("Agreement", report, table(head, rows), count, n_done=len(report.patterns))


def reference_markdown(report: ReferenceReport) -> str:
    """A line a run, and how they are held to their bounds."""
    head = ["recipe", "path", "prefilled", "positions", "largest relative error", "TV mean", "TV largest"]
    head += ["at position", "top-1 flips", ""]
    method = (
        f"{_rounding(report)}Relative error: largest difference of a logit ÷ the standard deviation of Hugging Face's fp32 "
        "logits at that position. TV: total variation distance from its fp32. Bounds: "
        f"fp32 {reference.FP32_ERROR:g} and TV {reference.FP32_VARIATION:g}; bf16 {reference.BF16_MEAN:g} times "
        f"Hugging Face's own mean TV and {reference.BF16_MAX:g} times its largest, {reference.BF16_SLACK:g} more each."
    )
    done = len(report.runs)
    return _whole("Reference", report, table(head, [_run(run) for run in report.runs]), method, n_done=done)


def _rounding(report: ReferenceReport) -> str:
    own = report.rounding
    if own is None:
        return ""
    return (
        f"Hugging Face's own bf16 is {own.mean_total_variation:.4f} from its fp32 in the mean, "
        f"{own.max_total_variation:.4f} at most, with {own.top1_flips} flips in {own.n_positions} positions. "
    )


def _run(run: Run) -> list[str]:
    d = run.distance
    return [
        run.recipe,
        run.path,
        str(run.border),
        str(d.n_positions),
        f"{d.max_error:.2g}",
        f"{d.mean_total_variation:.2g}",
        f"{d.max_total_variation:.2g}",
        str(d.worst_position),
        str(d.top1_flips),
        "within" if run.fault is None else f"**{run.fault}**",
    ]


def quality_markdown(report: QualityReport) -> str:
    """A line a recipe, and how it is measured."""
    head = ["recipe", "backend", "perplexity", "÷ fp32", "bound", "top-1 agreement", "bound", ""]
    rows = [
        [
            q.recipe,
            q.backend,
            f"{q.perplexity:.3f}",
            f"{q.over_fp32:.4f}",
            NONE if q.bound is None else f"{q.bound.perplexity:g}",
            f"{q.top1:.4f}",
            NONE if q.bound is None else f"{q.bound.top1:g}",
            "within" if q.fault is None else f"**{q.fault}**",
        ]
        for q in report.found
    ]
    method = (
        f"{report.n_tokens:,} tokens of the shipped text, fed in decode passes of 16 rows. Perplexity: exp of the mean "
        "−ln p of the next token. Top-1 agreement: how often the best token is fp32's."
    )
    return _whole("Quality", report, table(head, rows), method, n_done=len(report.found))


def _whole(name: str, report: Report, lines: str, method: str, *, n_done: int) -> str:
    parts = [f"# {name}: {report.target}, {', '.join(report.recipes)}, {', '.join(report.backends)}"]
    if n_done < report.n_planned:
        parts.append(f"**Broken off after {n_done} of {report.n_planned} lines.**")
    parts += [f"**{fault}**" for fault in report.faults]
    parts += [
        lines,
        method,
        origin(report.command, report.provenance, [f"Devices: {' + '.join(report.devices)}"]),
    ]
    return "\n\n".join(parts) + "\n"
