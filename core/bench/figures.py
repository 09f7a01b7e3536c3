"""`figures.json`: one entry for every goal, written by the benchmarks and quoted by the documents."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from specmon.core.bench.provenance import Provenance
from specmon.core.errors import SpecmonError


class Goal(msgspec.Struct, frozen=True):
    """What a figure is measured in and what it should reach."""

    unit: str
    text: str


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """One measured value with everything needed to measure it again."""

    value: float
    unit: str
    goal: str
    commit: str | None
    date: str
    hardware: str
    versions: dict[str, str]
    note: str


_RATIO, _FRACTION, _MS = "ratio", "fraction", "ms"

GOALS: dict[str, Goal] = {
    "cpu.ar.over.llamacpp": Goal(_RATIO, "≥ 0.8"),
    "cpu.ar.over.hf": Goal(_RATIO, "≥ 3"),
    "h200.ar.bf16.7b.ceiling_fraction": Goal(_FRACTION, "≥ 0.80"),
    "h200.ar.fp8.7b.ceiling_fraction": Goal(_FRACTION, "≥ 0.70, stretch 0.80"),
    "h200.verify5.over.ar.bf16": Goal(_RATIO, "≤ 1.02"),
    "h200.verify5.over.ar.fp8": Goal(_RATIO, "≤ 1.02"),
    "h200.verify16.over.ar.bf16": Goal(_RATIO, "≤ 1.05"),
    "h200.qwen05b.bf16.step_ms": Goal(_MS, "≤ 0.40"),
    "h200.smollm2.bf16.step_ms": Goal(_MS, "≤ 0.25"),
    "h200.prefill.over.hf.512": Goal(_RATIO, "≤ 1.2"),
    "h200.prefill.over.hf.8k": Goal(_RATIO, "≤ 1.2"),
    "h200x2.ssd.over.sd.bf16": Goal(_RATIO, "≥ 1.46 stretch, each at its own best K ≤ 10"),
    "h200x2.ssd.model_fraction": Goal(_FRACTION, "≥ 0.90"),
    "h200x2.fp8.eagle3.scripted.tokens_per_s": Goal("tokens/s", "≥ 1000 at τ 2.54"),
    "h200x2.monitor.overhead_pct": Goal("%", "≤ 1"),
    "h200x2.smollm2.hit_rate": Goal(_FRACTION, "≥ 0.60 at K=4, budget 16"),
    "h200x2.smollm2.hit_over_static": Goal(_RATIO, "≥ 0.95"),
    "h200.context.growth_bandwidth_fraction": Goal(_FRACTION, "≥ 0.85"),
    "h200.context.first_over_short": Goal(_RATIO, "≤ 1.02"),
    "embedded.eagle3.tau_k4": Goal("tokens/round", "≥ 2.6"),
    "embedded.draft.tau_k4": Goal("tokens/round", "≥ 2.4"),
    "ui.events_per_s": Goal("events/s", "≥ 20000"),
    "ui.cpu_share": Goal(_FRACTION, "≤ 0.6"),
    "ui.first_paint_s": Goal("s", "≤ 1.0"),
    "replay.million_open_s": Goal("s", "≤ 2"),
    "replay.million_seek_ms": Goal(_MS, "≤ 100"),
}


def load_figures(path: Path) -> dict[str, Figure]:
    """The figures in `path`, none if there is no such file.

    Raises: SpecmonError for a file that is no figures file.
    """
    if not path.exists():
        return {}
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, Figure])
    except msgspec.DecodeError as error:
        raise SpecmonError(f"{path} is not a figures file: {error}.") from error


def record_figures(path: Path, values: Mapping[str, float], provenance: Provenance, note: str) -> None:
    """Put `values` (by goal name) into the file at `path`, leaving its other figures as they are.

    Args:
        note: where the measurement is written up, or how it was taken.
    Raises: ValueError for a name that is no goal.
    """
    unknown = sorted(values.keys() - GOALS.keys())
    if unknown:
        raise ValueError(f"no goal is called {', '.join(unknown)}")
    figures = load_figures(path)
    for name, value in values.items():
        figures[name] = Figure(
            value=round(value, 4),
            unit=GOALS[name].unit,
            goal=GOALS[name].text,
            commit=provenance.commit,
            date=provenance.date,
            hardware=provenance.hardware,
            versions=provenance.versions,
            note=note,
        )
    ordered = {name: figures[name] for name in sorted(figures)}
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    partial.write_bytes(msgspec.json.format(msgspec.json.encode(ordered), indent=2) + b"\n")
    partial.replace(path)
