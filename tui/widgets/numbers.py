"""How figures are written, the same in every panel. Unknown is `n/a` or a dash, never 0."""

from __future__ import annotations


def ms(ns: float | None, digits: int = 2) -> str:
    """Nanoseconds as milliseconds: 3900000 -> "3.90"."""
    return "n/a" if ns is None else f"{ns / 1e6:,.{digits}f}"


def us(ns: float | None) -> str:
    """Nanoseconds as whole microseconds: 3900000 -> "3,900"."""
    return "n/a" if ns is None else f"{ns / 1e3:,.0f}"


def clock(ns: int) -> str:
    """A time of a recording to the millisecond that has passed: 1500000000 -> "0:01.500"."""
    minutes, ms = divmod(max(ns, 0) // 1_000_000, 60_000)
    return f"{minutes}:{ms // 1000:02}.{ms % 1000:03}"


def percent(fraction: float | None) -> str:
    """0.923 -> "92 %"."""
    return "n/a" if fraction is None else f"{100 * fraction:.0f} %"


def short(fraction: float | None, digits: int = 2) -> str:
    """A fraction without its leading zero: 0.385 -> ".39", 1 -> "1.00"; a dash where unknown."""
    if fraction is None:
        return "–"
    text = f"{fraction:.{digits}f}"
    return text.removeprefix("0") if text.startswith("0.") else text


def gigabytes(bytes_per_second: float | None) -> str:
    """Bytes/s as GB/s: 3.327e12 -> "3,327"; below ten with one digit more."""
    if bytes_per_second is None:
        return "n/a"
    value = bytes_per_second / 1e9
    return f"{value:,.0f}" if value >= 10 else f"{value:.1f}"


def count(number: int | None) -> str:
    """12345 -> "12,345"."""
    return "n/a" if number is None else f"{number:,}"


def size(bytes: int) -> str:
    """Bytes as kB, MB or GB: 300000 -> "0.3 MB"."""
    if bytes < 100_000:
        return f"{bytes / 1e3:.1f} kB"
    if bytes < 1_000_000_000:
        return f"{bytes / 1e6:.1f} MB"
    return f"{bytes / 1e9:.1f} GB"
