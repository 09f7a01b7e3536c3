"""`bench profile`: what it found, as data and as Markdown."""

from __future__ import annotations

import msgspec

from specmon.core.bench.markdown import NONE, origin, table
from specmon.core.bench.profile import PassProfile
from specmon.core.bench.provenance import Provenance


class ProfileReport(msgspec.Struct, frozen=True, kw_only=True):
    """Profiles of one model on one device, one for each of `row_counts`, fewer where `interrupted`.

    `read_ceiling` in bytes/s.
    """

    command: str
    provenance: Provenance
    target: str
    recipe: str
    backend: str
    graphs: bool
    device: str
    read_ceiling: float | None
    ceiling_source: str
    row_counts: tuple[int, ...]
    interrupted: bool
    profiles: tuple[PassProfile, ...]


def markdown(report: ProfileReport) -> str:
    """One table a row count, and how it was measured."""
    graphs = "graphs on" if report.graphs else "graphs off"
    title = (
        f"# Profile: {report.target}, {report.recipe}, {report.backend}, {graphs}, {report.device}\n\n"
        "Times by group are means under the profiler, which stretches a pass: above them stands what one takes without."
    )
    parts = [title]
    if report.interrupted:
        parts.append(f"**Interrupted after {len(report.profiles)} of {len(report.row_counts)} row counts.**")
    parts += [_profile(profile) for profile in report.profiles]
    parts.append(origin(report.command, report.provenance, [f"Ceiling: {report.ceiling_source}"]))
    return "\n\n".join(parts) + "\n"


def _profile(p: PassProfile) -> str:
    rows = [
        [
            g.group,
            f"{g.us:,.1f}",
            f"{100 * g.share:.1f} %",
            f"{g.kernels:.0f}" if g.kernels else "",
            NONE if g.n_bytes is None or not g.us else f"{g.n_bytes / g.us / 1e3:,.1f}",
            NONE if g.ceiling_fraction is None else f"{g.ceiling_fraction:.2f}",
        ]
        for g in p.groups
    ]
    text = (
        f"## {p.rows} row{'' if p.rows == 1 else 's'} at {p.kv_len:,} cached positions\n\n"
        f"Without the profiler **{p.unprofiled_ms:.3f} ms**, with it {p.profiled_ms:.3f} ms: stretched "
        f"{p.distortion:.2f}×. {p.passes} passes."
    )
    if p.gaps_us is not None:
        rows.append(["gaps", f"{p.gaps_us:,.1f}", f"{p.gaps_us / p.device_ms / 10:.1f} %", "", "", ""])
        text += (
            f" Of a profiled pass, {p.device_ms:.3f} ms lie between its first kernel's start and its last one's end, "
            f"{p.host_us:,.0f} µs before and after."
        )
    head = ["group", "µs a pass", "share", "kernels", "GB/s", "of the read ceiling"]
    parts = [text, table(head, rows)]
    if p.largest_other:
        parts.append(f"Largest in other: {', '.join(p.largest_other)}.")
    return "\n\n".join(parts)
