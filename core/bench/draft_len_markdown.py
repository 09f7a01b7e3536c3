"""`bench draft-len` for people: the report as Markdown."""

from __future__ import annotations

from specmon.core.bench.draft_len import DraftLenRow
from specmon.core.bench.draft_len_report import Comparison, DraftLenReport, Stage
from specmon.core.bench.markdown import (
    LAUNCHES,
    NONE,
    ceilings,
    count,
    number,
    origin,
    plain,
    speed,
    table,
    times,
)
from specmon.core.bench.statistics import RESAMPLES

_HEAD = ["", "τ", "τ of all K", "α", "hit rate", "t_d", "t_v", "t_branch", "t_sync", "round", "predicted"]
_HEAD += ["tok/s", "predicted", "÷ AR", "measured ÷ predicted", LAUNCHES]
_CHOICE = (
    "K is the best by τ of all K (acceptance by position, over the rounds of every K) ÷ round, or by τ ÷ round where "
    "a K has none."
)


def markdown(report: DraftLenReport) -> str:
    """What was found first, then the tables of both stages, and how it was measured."""
    parts = [_title(report), _found(report), _stage("Sweep", report.sweep)]
    if report.evaluation is not None:
        parts.append(_stage("Evaluation", report.evaluation))
    parts.append(_method(report))
    return "\n\n".join(part for part in parts if part) + "\n"


def _title(report: DraftLenReport) -> str:
    target = f"{report.config.target} with {report.drafter or 'no draft'}"
    graphs = "" if report.config.graphs else ", graphs off"
    devices = ", one device" if report.n_devices == 1 else ""
    lines = [f"# Draft length: {target}, {report.recipe}, {report.backend}{graphs}{devices}"]
    for stage in report.stages:
        if stage.interrupted:
            done = f"{stage.n_requests} of {stage.n_planned} requests"
            lines.append(f"**Interrupted after {done}: the figures rest on those.**")
    lines += [f"**{fault}**" for fault in report.faults]
    return "\n\n".join(lines)


def _found(report: DraftLenReport) -> str:
    lines = []
    for best in report.summary.best:
        others = [f"its parts predict K {best.predicted}"] if best.predicted else []
        if best.alone != best.draft_len:
            others.insert(0, f"by its own rounds' τ K {best.alone}")
        aside = f" ({'; '.join(others)})" if others else ""
        [row] = [r for r in report.sweep.rows if (r.decoder, r.draft_len) == (best.decoder, best.draft_len)]
        speed_up = "" if row.over_ar is None else f", {row.over_ar.median:.2f} times as fast as AR"
        lines.append(f"- {best.decoder.upper()} is fastest at K {best.draft_len}{speed_up}{aside}.")
    if report.summary.evaluation is not None:
        lines.append(f"- {_ratio(report.summary.evaluation)}.")
    elif report.summary.sweep is not None:
        lines.append(f"- {_ratio(report.summary.sweep)}, on the prompts that K was chosen on.")
    return "\n".join(lines)


def _ratio(found: Comparison) -> str:
    measured = f"SSD K{found.ssd_draft_len} over SD K{found.sd_draft_len}: {times(found.measured)}"
    if found.predicted is None:
        return measured
    of_predicted = plain(found.measured_over_predicted, 3)
    return f"{measured}, predicted {found.predicted:.3f}×, measured ÷ predicted {of_predicted}"


def _stage(name: str, stage: Stage) -> str:
    prompts = ", ".join(stage.prompts)
    return f"## {name}: {prompts}\n\n{table(_HEAD, [_row(row) for row in stage.rows])}"


def _row(row: DraftLenRow) -> list[str]:
    return [
        row.label,
        plain(row.tokens_per_round, 2),
        plain(row.chain_tokens_per_round, 2),
        plain(row.acceptance_rate, 3),
        plain(row.branch_hit_rate, 2),
        *(
            _number(ms)
            for ms in (
                row.t_d_ms,
                row.t_v_ms,
                row.t_branch_ms,
                row.t_sync_ms,
                row.round_ms,
                row.predicted_round_ms,
            )
        ),
        speed(_number(row.tokens_per_s), verified=row.verified),
        _number(row.predicted_tokens_per_s),
        "tokens differ" if row.equal is False else times(row.over_ar),
        plain(row.measured_over_predicted, 3),
        plain(row.host_launches_per_round, 1),
    ]


def _number(value: float | None) -> str:
    return NONE if value is None else number(value)


def _method(report: DraftLenReport) -> str:
    method = (
        f"{count(report.repeats, 'repeat')}, greedy, up to {report.max_new_tokens} tokens, each prompt prefilled from its "
        "first token, in an order that rotates; a warm-up before is not counted. Tokens are compared with AR's before any "
        f"time counts. Times are ms, means over all rounds. {_CHOICE} {_prediction(report)} Measured ÷ predicted "
        f"is of tok/s. {_ratios(report)}"
    )
    measured = [ceilings(device) for device in report.devices]
    measured.append(f"Ceilings: {report.ceiling_source or NONE}")
    return method + "\n\n" + origin(report.command, report.provenance, measured)


def _prediction(report: DraftLenReport) -> str:
    """How a round is predicted, by the decoders that were measured."""
    decoders = {row.decoder for row in report.sweep.rows}
    text = "Predicted round, from the parts in its row: AR t_v"
    if "sd" in decoders:
        text += "; SD K·t_d + t_v"
    if "ssd" not in decoders:
        return f"{text}."
    sync = (
        "t_sync: of rounds that a branch drafted, the time from the outcome to the start of verification, less branch "
        "drafting in it."
    )
    if report.n_devices == 1:
        alone = "SSD on one device is not predicted: branches are drafted before verification, and nothing overlaps."
        return f"{text}. {alone} {sync}"
    return f"{text}; SSD max(t_v, t_branch) + (1 − hit rate)·K·t_d + t_sync. {sync}"


def _ratios(report: DraftLenReport) -> str:
    compared = report.summary.sweep or report.summary.evaluation
    text = (
        f"÷ AR{' and SSD over SD' if compared else ''}: median of the ratios of single requests with its 95 % interval "
        f"({RESAMPLES:,} resamples of prompts and of requests within them, seed {report.bootstrap_seed})"
    )
    if compared is None or compared.predicted is None:
        return f"{text}."
    return f"{text}; predicted it is the highest predicted tok/s of SSD ÷ the highest of SD."
