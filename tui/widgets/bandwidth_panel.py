"""Panel 6: bytes a device read a second, on a fixed axis of 0 to 100 % of what it can read."""

from __future__ import annotations

from specmon.core.events import Telemetry
from specmon.core.metrics.bandwidth import (
    ANALYTIC,
    CACHE_RESIDENT,
    GPM,
    DeviceBandwidth,
    device_bandwidths,
    is_cpu,
)
from specmon.tui.view import View
from specmon.tui.widgets.bars import bar
from specmon.tui.widgets.cells import pad, safe_text
from specmon.tui.widgets.cells import width as cells_of
from specmon.tui.widgets.glyphs import Glyphs, glyphs
from specmon.tui.widgets.lines import (
    Line,
    Title,
    body_height,
    body_width,
    in_panel,
    line_width,
    while_it_fits,
)
from specmon.tui.widgets.moment import turn_of
from specmon.tui.widgets.numbers import gigabytes, percent
from specmon.tui.widgets.panel import Panel

NAME = 7
RATE = 6
PERCENT = 6
LEAST_BAR = 4
DETAIL_CELLS = 64  # from here on the counted bytes and times are given


def render_bandwidth(view: View, width: int, height: int) -> list[Line]:
    """Draw each device of the lane: whole rounds, busy time and, where there is one, its own counter."""
    signs = glyphs(view.ascii)
    turn = turn_of(view)
    if turn is None or not turn.rounds:
        title = Title(number=6, name="HBM vs SOL", note=[], keep_case=True)
        return in_panel(title, [[("no round yet", "muted")]], width, height, signs)
    devices = device_bandwidths(turn, view.ledger.telemetry, view.last_rounds)
    cells, lines = body_width(width, height), body_height(width, height)
    full = lines >= 2 + 3 * len(devices)
    counted = full and any(device.gpm_fraction is not None for device in devices)
    note: Line = [(f"{ANALYTIC} · {GPM}, whole GPU" if counted else ANALYTIC, "muted")]
    name = "DRAM vs SOL" if all(is_cpu(device.device) for device in devices) else "HBM vs SOL"
    if full:
        body = _full(view, devices, cells, signs)
    else:
        roles = _roles(devices)
        body = [_whole(device, role, cells, signs) for device, role in zip(devices, roles, strict=True)]
        body.append(_busy_and_ceiling(devices, cells, signs))
        body += [*_sensors(view, devices, signs), *_how_counted(view, devices, cells)]
    return in_panel(Title(number=6, name=name, note=note, keep_case=True), body, width, height, signs)


def _full(view: View, devices: list[DeviceBandwidth], cells: int, signs: Glyphs) -> list[Line]:
    body = [_axis(cells)]
    for device, role in zip(devices, _roles(devices), strict=True):
        body += [
            _whole(device, role, cells, signs),
            _busy(device, cells, signs),
            _counter(device, cells, signs),
        ]
    body.append(_ceiling(view, devices[0], cells, signs))
    return [*body, *_sensors(view, devices, signs), *_how_counted(view, devices, cells)]


def _sensors(view: View, devices: list[DeviceBandwidth], signs: Glyphs) -> list[Line]:
    """Temperature, clock and power of each device that tells."""
    samples = [(device.device, view.ledger.telemetry.get(device.device)) for device in devices]
    return [_telemetry(name, sample, signs) for name, sample in samples if sample is not None]


def _how_counted(view: View, devices: list[DeviceBandwidth], cells: int) -> list[Line]:
    """What the bytes are and what they are divided by; figures where the line holds them."""
    lines: list[Line] = [[("analytic: weights + KV read, counted, ÷ time", "muted")]]
    turn = turn_of(view)
    rounds = 0 if turn is None else min(view.last_rounds, turn.n_rounds)
    for device in devices if cells >= DETAIL_CELLS else ():
        counted = f"{device.n_bytes / 1e9:,.3f} GB in {rounds} rounds"
        times = f"÷ {device.whole_ns / 1e6:,.1f} ms whole, {device.busy_ns / 1e6:,.1f} ms busy"
        lines.append([(pad(safe_text(device.device), NAME), "muted"), (f"{counted} {times}", "muted")])
    return lines


def _roles(devices: list[DeviceBandwidth]) -> list[str]:
    """The target's device has one colour, all others another."""
    return ["device0", *["device1"] * (len(devices) - 1)]


def _axis(cells: int) -> Line:
    """0, 50 and 100 % above the bars."""
    room = _bar_cells(cells)
    line = pad("GB/s", NAME + RATE + 2)
    if room >= 14:
        half = pad("0 %", room // 2) + "50"
        line += pad(half, max(room - 3, 0)) + "100"
    return [(line, "muted")]


def _bar_cells(cells: int) -> int:
    return cells - NAME - RATE - PERCENT - 3


def _whole(device: DeviceBandwidth, role: str, cells: int, signs: Glyphs) -> Line:
    """Name, rate, bar over whole rounds, per cent."""
    head: Line = [
        (pad(safe_text(device.device), NAME), role),
        (f"{gigabytes(device.whole):>{RATE}}  ", "text"),
    ]
    room = _bar_cells(cells)
    fraction = device.whole_fraction
    if fraction is None:
        return [*head, (device.no_fraction or "n/a", "muted")]
    if room >= LEAST_BAR:
        filled = bar(fraction, room, signs)
        head += [(filled, role), (signs.rest * (room - cells_of(filled)), "idle")]
    return [*head, (f"{percent(fraction):>{PERCENT}}", "title")]


def _marked(name: str, rate: float | None, fraction: float | None, mark: str, role: str, cells: int) -> Line:
    """A rate as one mark on the bar's axis."""
    line: Line = [(pad(name, NAME), "muted"), (f"{gigabytes(rate):>{RATE}}  ", "text")]
    room = _bar_cells(cells)
    if fraction is None:
        return line
    if room >= LEAST_BAR:
        place = min(round(fraction * room), room - 1)
        line += [(" " * place, "text"), (mark, role), (" " * (room - place - 1), "text")]
    return [*line, (f"{percent(fraction):>{PERCENT}}", "text")]


def _busy(device: DeviceBandwidth, cells: int, signs: Glyphs) -> Line:
    return _marked(" busy", device.busy, device.busy_fraction, signs.here, "sol", cells)


def _counter(device: DeviceBandwidth, cells: int, signs: Glyphs) -> Line:
    """The GPU's own counter; its fraction is of the memory's peak, not of the read ceiling."""
    if device.gpm_fraction is None:
        reason = safe_text(device.gpm_note or "", signs.ascii)
        return [(pad(" GPM", NAME), "muted"), (f"{'n/a':>{RATE}}  ", "muted"), (reason, "muted")]
    line = _marked(" GPM", None, device.gpm_fraction, signs.hit, "hit", cells)
    return [line[0], (f"{'of peak':>{RATE + 1}} ", "muted"), *line[2:]]


def _ceiling(view: View, device: DeviceBandwidth, cells: int, signs: Glyphs) -> Line:
    """What 100 % stands for, and of where that figure is from as much as there is room for."""
    if device.no_fraction == CACHE_RESIDENT:
        return [("weights + KV fit the cache: no % of memory speed", "muted")]
    if device.ceiling is None:
        return [("100 % n/a: no ceiling was measured", "muted")]
    figure: Line = [("100 % = ", "muted"), (f"{gigabytes(device.ceiling)} GB/s", "text")]
    source = view.ledger.header.ceiling_source if view.ledger.header else None
    told = ["shared by all cores"] if device.shares_ceiling else []
    told += safe_text(source, signs.ascii).split(", ") if source else []
    room = cells - line_width(figure)
    return [*figure, *while_it_fits([[(f", {part}", "muted")] for part in told], room)]


def _busy_and_ceiling(devices: list[DeviceBandwidth], cells: int, signs: Glyphs) -> Line:
    """The last line of the small panel."""
    busy = " / ".join(percent(device.busy_fraction) for device in devices)
    if devices[0].ceiling is None or devices[0].no_fraction is not None:
        return [("GB/s over whole rounds; no % of SOL", "muted")]
    line: Line = [("busy ", "muted"), (busy, "text"), ("   100 % = ", "muted")]
    return [*line, (f"{gigabytes(devices[0].ceiling)} GB/s", "text")]


def _telemetry(name: str, sample: Telemetry, signs: Glyphs) -> Line:
    parts = [
        "" if sample.temperature_c is None else f"{sample.temperature_c} °C",
        "" if sample.sm_clock_mhz is None else f"{sample.sm_clock_mhz:,} MHz",
        "" if sample.power_w is None else f"{sample.power_w:.0f} W",
    ]
    said = " · ".join(part for part in parts if part)
    line: Line = [
        (pad(safe_text(name), NAME), "muted"),
        (said or safe_text(sample.note or "no counters"), "muted"),
    ]
    if sample.throttle is None:
        return line
    reasons = safe_text(", ".join(sample.throttle), signs.ascii)
    return [*line, (" · throttle: ", "muted"), (reasons or "none", "warning" if reasons else "muted")]


class BandwidthPanel(Panel):
    """Bandwidth against the speed of light."""

    def draw(self, view: View, width: int, height: int) -> list[Line]:
        return render_bandwidth(view, width, height)
