"""A round's spans in µs from its start: in lines where there is little room, as a table where there is more."""

from __future__ import annotations

from specmon.core.events import Round, Span
from specmon.core.metrics.turn import TurnMetrics
from specmon.tui.widgets.cells import pad, safe_text
from specmon.tui.widgets.glyphs import Glyphs
from specmon.tui.widgets.lines import Line, line_width
from specmon.tui.widgets.numbers import us

LABEL = 8  # cells of the words at the left
SPAN_ROLES = frozenset({"draft", "branch_draft", "verify", "accept", "handoff", "wait"})
COLUMNS = (("kind", 14), ("on", 10), ("from", 10), ("to", 10), ("took", 10), ("for round", 11))


def span_lines(turn: TurnMetrics, round_: Round, signs: Glyphs, cells: int) -> list[Line]:
    """When each span began and how long it took, as many to a line as fit."""
    rows: list[Line] = [[(f"{'µs':<{LABEL}}", "muted")]]
    for number, span in enumerate(in_order(round_)):
        field: Line = [(f" {signs.bar} ", "border")] if number else []
        field += _short(turn, round_, span)
        if line_width(rows[-1]) + line_width(field) > cells:
            rows.append([(" " * LABEL, "muted")])
            field = _short(turn, round_, span)
        rows[-1] += field
    if round_.host_launches is not None:
        rows[-1].append((f"   host launches {round_.host_launches}", "muted"))
    return rows


def span_table(turn: TurnMetrics, round_: Round) -> list[Line]:
    """One line a span: kind, device, from and to, how long it took, and the round it worked for."""
    head = "".join(_cell(name, cells) for name, cells in COLUMNS)
    rows: list[Line] = [[(f"{'µs':<{LABEL}}", "muted"), (head, "muted")]]
    for span in in_order(round_):
        figures = (us(span.start - round_.t0), us(span.end - round_.t0), us(span.end - span.start))
        other = "" if span.for_round == round_.index else str(span.for_round)
        values = (span.kind, device_name(turn, span), *figures, other)
        line: Line = [(" " * LABEL, "muted")]
        for (name, cells), value in zip(COLUMNS, values, strict=True):
            line.append((_cell(value, cells, name), _role(span) if name == "kind" else "text"))
        rows.append(line)
    launches = [] if round_.host_launches is None else [f"host launches {round_.host_launches}"]
    return [*rows, *([(" " * LABEL, "muted"), (text, "muted")] for text in launches)]


def in_order(round_: Round) -> list[Span]:
    """The spans by their start."""
    return sorted(round_.spans, key=lambda span: (span.start, span.device))


def device_name(turn: TurnMetrics, span: Span) -> str:
    """The device a span ran on."""
    devices = turn.lane.devices
    return safe_text(devices[span.device]) if span.device < len(devices) else f"device {span.device}"


def _cell(value: str, cells: int, name: str = "") -> str:
    return pad(value, cells, "<" if name in ("kind", "on") or value in ("kind", "on") else ">")


def _role(span: Span) -> str:
    return span.kind if span.kind in SPAN_ROLES else "text"


def _short(turn: TurnMetrics, round_: Round, span: Span) -> Line:
    line: Line = [(f"{us(span.start - round_.t0)} ", "muted"), (span.kind, _role(span))]
    line.append((f" {us(span.end - span.start)}", "text"))
    return [*line, (f" on {device_name(turn, span)}", "muted")] if span.device else line
