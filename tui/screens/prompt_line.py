"""The row above the hints, outside the prompt mode, and the first screen's words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from specmon.tui.screens.choices import plan_label
from specmon.tui.widgets.bars import bar
from specmon.tui.widgets.cells import safe_text
from specmon.tui.widgets.glyphs import glyphs
from specmon.tui.widgets.lines import Line, Title, in_panel

if TYPE_CHECKING:
    from specmon.tui.screens.monitor import MonitorScreen

BAR_CELLS = 24


def prompt_line(monitor: MonitorScreen) -> Line:
    """What matters most now: the engine's end, a frozen view, loading, or what the next turn will be."""
    pump = monitor.pump
    if monitor.phase == "dead":
        return [(" the engine is gone ", "error"), ("│ ctrl+r restarts it", "muted")]
    if pump.frozen:
        rounds, seconds = pump.behind
        text = f" FROZEN · {seconds:.1f} s and {rounds:,} rounds behind; decoding goes on "
        return [(text, "warning"), ("│ Space or End returns", "muted")]
    if progress := progress_line(monitor):
        return progress
    kept = monitor.prompt.text
    goes_on = "(i goes on editing your last message)" if monitor.editing else "(i goes on typing)"
    typed: Line = [(f"{safe_text(kept)[:60]} ", "text"), (goes_on, "muted")] if kept else []
    invitation: Line = [("i type · ↑ history", "muted")]
    plan = f" │ next turn: {plan_label(monitor.plan)} (o settings)"
    return [(" › ", "accent"), *(typed or invitation), (plan, "muted")]


def progress_line(monitor: MonitorScreen) -> Line:
    """What loads, with a bar where it is known how far; empty when nothing does."""
    progress = monitor.pump.progress
    if progress is None:
        return [(" starting the engine", "muted")] if monitor.phase == "starting" else []
    signs = glyphs(monitor.setup.ascii)
    line: Line = [(" ", "text")]
    if progress.fraction is not None:
        drawn = bar(progress.fraction, BAR_CELLS, signs)
        line += [(drawn, "accent"), (signs.rest * (BAR_CELLS - len(drawn)), "idle")]
        line.append((f" {100 * progress.fraction:3.0f} % ", "muted"))
    return [*line, (safe_text(progress.what), "text")]


def welcome_lines(monitor: MonitorScreen, width: int, height: int) -> list[Line]:
    """The first screen: one line of what to do, and how far loading is."""
    signs = glyphs(monitor.setup.ascii)
    target, draft = monitor.plan.config.target, monitor.plan.config.draft
    say: Line = [("Press ", "text"), ("i", "accent"), (", type a prompt, ", "text"), ("Enter", "accent")]
    say += [(" sends it.  ", "text"), ("?", "accent"), (" lists all keys.", "text")]
    if monitor.queued is not None:
        say = [("Your prompt is decoded as soon as the models are loaded.", "text")]
    about: Line = [(f"{safe_text(target)}, draft {safe_text(draft)}: {plan_label(monitor.plan)}", "muted")]
    lines = [say, about, progress_line(monitor)]
    if offer := monitor.left_behind.offer():
        lines.insert(2, offer)
    said: list[Line] = [[("  ", "text"), *line] for line in lines]
    top = max((height - 2 - len(said)) // 2, 0)
    title = Title(number=1, name="text", note=[])
    return in_panel(title, [*([[]] * top), *said], width, height, signs)
