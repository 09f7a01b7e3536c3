"""The log pane: the newest lines the engine logged, and where the whole log is."""

from __future__ import annotations

from specmon.tui.feeds.pump import Pump
from specmon.tui.widgets.cells import safe_text
from specmon.tui.widgets.lines import Line, fit

_ROLES = {"warning": "warning", "error": "error", "critical": "error", "debug": "muted"}


def log_lines(pump: Pump, width: int, height: int) -> list[Line]:
    """`height` lines, newest at the bottom."""
    where = f"whole log: {pump.hello.log}" if pump.hello else "no engine here"
    head: Line = [("─ log ", "title"), (f" {safe_text(where)} ", "muted")]
    lines: list[Line] = [[(f" {safe_text(text)}", "warning")] for text in pump.warnings]
    lines += [_log_line(log.t, log.level, log.text, width) for log in pump.ledger.logs]
    shown = lines[-(height - 1) :] or [[(" nothing logged yet", "muted")]]
    return [fit(head, width, "─", "border"), *shown]


def _log_line(t: int, level: str, text: str, width: int) -> Line:
    role = _ROLES.get(level.lower(), "text")
    return fit(
        [(f" {t / 1e9:9.3f} s ", "muted"), (f"{level.lower():<8}", role), (safe_text(text), role)], width
    )
