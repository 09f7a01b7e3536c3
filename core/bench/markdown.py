"""`bench paired` for people: the report as Markdown."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from specmon.core.bench.lanes import CONTROL
from specmon.core.bench.provenance import Provenance
from specmon.core.bench.report import DeviceCeilings, LaneFigures, LaneTuning, Pair, PairedReport, RequestRow
from specmon.core.bench.statistics import RESAMPLES, Estimate
from specmon.kernels.registry import TRITON

NONE, ONE = "n/a", "(one request)"
LAUNCHES = "host launches/round"
UNVERIFIED = "unverified"


def markdown(report: PairedReport) -> str:
    """Pairs first, then lanes, prompts, tuning, and how it was measured."""
    parts = [
        _title(report),
        _pairs(report),
        _lanes(report),
        _setups(report),
        _prompts(report),
        _tuning(report),
        _method(report),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def origin(command: str, here: Provenance, measured: Sequence[str]) -> str:
    """Command, commit, hardware, what was measured of it, and versions: a line each."""
    lines = [
        f"Command: `{command}`",
        f"Commit: {here.commit or 'not from a checkout'}, {here.date}",
        f"Hardware: {here.hardware}",
        *measured,
        f"Versions: {', '.join(f'{name} {version}' for name, version in here.versions.items())}",
    ]
    return "  \n".join(lines)


def _title(report: PairedReport) -> str:
    named = [lane for lane in report.lanes if lane.letter != CONTROL] or report.tuning
    lines = [f"# Paired: {', '.join(f'{lane.letter} {lane.label}' for lane in named)}"]
    done = len(report.requests)
    if report.interrupted and not done:
        lines.append("**Interrupted while K was chosen: nothing was compared.**")
    elif report.interrupted:
        lines.append(
            f"**Interrupted after {done} of {report.n_planned} requests: the figures rest on those.**"
        )
    lines += [f"**{fault}**" for fault in report.faults]
    return "\n\n".join(lines)


def _pairs(report: PairedReport) -> str:
    rows = [
        [
            _pair_name(report, pair),
            *(times(e) for e in (pair.decode, pair.request, pair.prefill)),
            _output(pair),
        ]
        for pair in report.pairs
    ]
    if not rows:
        return "No pair was measured."
    head = ["how many times as fast", "decode", "request, prefill included", "prefill", "outputs"]
    return (
        f"{table(head, rows)}\n\nMedian of the ratios of single requests, with its 95 % interval. "
        "An interval that holds 1 shows no difference."
    )


def _pair_name(report: PairedReport, pair: Pair) -> str:
    if pair.b == CONTROL:
        return "control: A over itself"
    by_letter = {lane.letter: lane.label for lane in report.lanes}
    return f"{pair.b} over {pair.a} ({by_letter[pair.b]} over {by_letter[pair.a]})"


def _output(pair: Pair) -> str:
    return "differ: no ratio" if pair.equal is False else pair.output


def _lanes(report: PairedReport) -> str:
    if not report.lanes:
        return ""
    head = ["lane", "ms/token", "tok/s", "request tok/s", "prefill ms", "τ", "α", "hit rate"]
    return table(
        [*head, "draft ms/round", "verify ms/round", "SOL", LAUNCHES],
        [_lane_row(lane) for lane in report.lanes],
    )


def _lane_row(lane: LaneFigures) -> list[str]:
    return [
        f"{lane.letter} {lane.label}",
        _span(lane.ms_per_token),
        speed(_middle(lane.tokens_per_s), verified=lane.verified),
        _middle(lane.request_tokens_per_s),
        _span(lane.prefill_ms),
        plain(lane.tokens_per_round, 2),
        plain(lane.acceptance_rate, 3),
        plain(lane.branch_hit_rate, 2),
        plain(lane.draft_ms, 3),
        plain(lane.verify_ms, 3),
        plain(lane.sol_fraction, 2),
        plain(lane.host_launches_per_round, 1),
    ]


def speed(words: str, *, verified: bool) -> str:
    """A speed, with a remark where no passed check says that its tokens are AR's."""
    return words if verified or words == NONE else f"{words} {UNVERIFIED}"


def _setups(report: PairedReport) -> str:
    if not report.lanes:
        return ""
    head = ["lane", "target", "draft", "recipe", "backend", "devices", "graphs", "checks passed"]
    return table(head, [_setup_row(lane) for lane in report.lanes if lane.letter != CONTROL])


def _setup_row(lane: LaneFigures) -> list[str]:
    captures = "on" if lane.backend == TRITON.label else "none"
    graphs = captures if lane.config.graphs else "off"
    draft = lane.drafter or "none"
    devices, checks = " + ".join(lane.devices), ", ".join(lane.checks) or "none"
    return [lane.letter, lane.target, draft, lane.recipe, lane.backend, devices, graphs, checks]


def _prompts(report: PairedReport) -> str:
    if not report.requests:
        return ""
    head = ["prompt", "tokens in", "out", *(f"{lane.letter} ms/token" for lane in report.lanes)]
    head += [f"{lane.letter} prefill ms" for lane in report.lanes]
    by_prompt = {name: [row for row in report.requests if row.prompt == name] for name in report.prompts}
    return table(head, [_prompt_row(report, rows) for rows in by_prompt.values() if rows])


def _prompt_row(report: PairedReport, rows: list[RequestRow]) -> list[str]:
    cells = [rows[0].prompt, str(rows[0].prompt_tokens), str(rows[0].n_tokens)]
    for read in ("ms_per_token", "prefill_ms"):
        for lane in report.lanes:
            values = [
                value for row in rows if row.lane == lane.letter and (value := getattr(row, read)) is not None
            ]
            cells.append(number(statistics.median(values)) if values else NONE)
    return cells


def _tuning(report: PairedReport) -> str:
    if not report.tuning:
        return ""
    head = ["K chosen on the tuning prompts", "chosen", "ms/token by K"]
    return table(head, [_tuning_row(lane) for lane in report.tuning])


def _tuning_row(lane: LaneTuning) -> list[str]:
    by_k = ", ".join(f"K{k.draft_len} {number(k.ms_per_token)}" for k in lane.tried)
    return [f"{lane.letter} {lane.label}", NONE if lane.chosen is None else str(lane.chosen), by_k]


def _method(report: PairedReport) -> str:
    counts = f"{count(len(report.prompts), 'prompt')}, {count(report.repeats, 'repeat')}"
    method = (
        f"{counts}, greedy, up to {report.max_new_tokens} tokens. The lanes decode one prompt right after each other, in "
        "an order that rotates; a warm-up before is not counted, and every prompt is prefilled from its first token. "
        "ms/token is decode time after token one ÷ tokens after it. Tokens are compared before any time counts. "
        f"Intervals: percentile bootstrap, {RESAMPLES:,} resamples of prompts and of requests within them, seed "
        f"{report.bootstrap_seed}."
    )
    measured = [ceilings(device) for device in report.devices]
    measured.append(f"Ceilings: {report.ceiling_source or NONE}")
    return method + "\n\n" + origin(report.command, report.provenance, measured)


def count(n: int, thing: str) -> str:
    """ "1 prompt", "3 prompts"."""
    return f"{n} {thing}{'' if n == 1 else 's'}"


def ceilings(device: DeviceCeilings) -> str:
    """A device's measured speeds, in words."""
    read, copy = (NONE if rate is None else f"{rate / 1e9:,.1f} GB/s" for rate in (device.read, device.copy))
    return f"{device.name}: read {read}, copy {copy} (both directions counted)"


def times(value: Estimate | None) -> str:
    """How many times as fast, with its interval."""
    if value is None:
        return NONE
    interval = ONE if value.low is None or value.high is None else f"[{value.low:.3f}, {value.high:.3f}]"
    return f"**{value.median:.3f}×** {interval}"


def _span(value: Estimate | None) -> str:
    if value is None:
        return NONE
    if value.low is None or value.high is None:
        return f"{number(value.median)} {ONE}"
    return f"{number(value.median)} [{number(value.low)}, {number(value.high)}]"


def _middle(value: Estimate | None) -> str:
    return NONE if value is None else number(value.median)


def plain(value: float | None, digits: int) -> str:
    """With so many decimals."""
    return NONE if value is None else f"{value:.{digits}f}"


def number(value: float) -> str:
    """Three digits or so."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.1f}" if value >= 100 else f"{value:.2f}"
