"""One decode pass against the speed of light: AR steps and verification of up to 16 rows on random weights.

    python tests/benchmarks/h200_step.py --repeats 30

A pass is a whole CUDA graph, from token ids in pinned memory to winning tokens there. Row counts alternate in one run,
each time is the median of `--repeats` replays between two events with nothing waited for inside, and the read ceiling is
measured in the same run. Before any time counts, a verification's tokens are compared with single steps'.
Writes JSON beside the note in docs/benchmarks/ and the figures of the goals to figures.json.
"""

from __future__ import annotations

import argparse
import json
import statistics
from pathlib import Path

import torch

from specmon.core.bench.figures import record_figures
from specmon.core.bench.provenance import provenance
from specmon.core.ceilings import cuda_uuids, measure_ceilings
from specmon.core.hardware import survey
from specmon.core.models.build import build_transformer
from specmon.core.models.kv import KvCache
from specmon.core.models.random_weights import PREFIX, RandomFile
from specmon.core.models.recipe import resolve_recipe
from specmon.core.models.streamed import StreamedModel, StreamedPasses

DEVICE, CONTEXT, N_SLOTS = "cuda:0", 500, 1024
ROW_COUNTS = (1, 2, 3, 4, 5, 6, 8, 9, 12, 16)
SHAPES = ("qwen2.5-7b", "qwen2.5-0.5b", "smollm2-135m")
DOCS = Path(__file__).parents[2] / "docs" / "benchmarks"


def open_passes(shape: str) -> tuple[StreamedPasses, int]:
    """Random weights of `shape` behind the streaming kernels, and the bytes of weights and KV one pass reads."""
    file = RandomFile(PREFIX + shape)
    recipe = resolve_recipe("bf16", DEVICE, file)
    model = build_transformer(file, recipe, DEVICE, max_positions=N_SLOTS, progress=lambda what, part: None)
    c = model.config
    kv = KvCache(
        n_layers=c.n_layers,
        n_kv_heads=c.n_kv_heads,
        head_dim=c.head_dim,
        n_slots=N_SLOTS,
        dtype=recipe.kv,
        device=DEVICE,
    )
    for layer in range(c.n_layers):
        kv.keys(layer).normal_()
        kv.values(layer).normal_()
    return StreamedPasses(StreamedModel(model), kv), model.weight_bytes + CONTEXT * kv.bytes_per_token


def check_rows(passes: StreamedPasses) -> None:
    """A verification of five rows names the tokens that five single steps name.

    Raises: SystemExit where it does not; then no time counts.
    """
    tokens = [11, 222, 33, 44, 555]
    together = passes.rows(tokens, CONTEXT, (), logits=False)
    alone = [passes.rows([t], CONTEXT + i, (), logits=False).greedy[0] for i, t in enumerate(tokens)]
    if together.greedy != alone:
        raise SystemExit("verification and single steps differ: no time counts")


def median_ms(passes: StreamedPasses, n_rows: int, repeats: int) -> float:
    """Median ms of a replayed pass of `n_rows` rows."""
    passes.rows([5] * n_rows, CONTEXT, (), logits=False)
    times = []
    for _ in range(repeats):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        passes.queue(n_rows)
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end))
    return statistics.median(times)


def measure(shape: str, ceiling: float, repeats: int) -> dict[str, object]:
    """Step times of one shape, in ms, with the floor at `ceiling` bytes/s."""
    passes, read_bytes = open_passes(shape)
    check_rows(passes)
    before = median_ms(passes, 1, repeats)
    rows = {n: median_ms(passes, n, repeats) for n in ROW_COUNTS}
    after = median_ms(passes, 1, repeats)
    ar_ms = statistics.median([before, rows[1], after])
    floor_ms = read_bytes / ceiling * 1e3
    return {
        "shape": shape,
        "floor_ms": floor_ms,
        "ar_ms": ar_ms,
        "ceiling_fraction": floor_ms / ar_ms,
        "rows_ms": rows,
        "rows_over_ar": {n: ms / ar_ms for n, ms in rows.items()},
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=30)
    parser.add_argument("--dry", action="store_true", help="write nothing")
    options = parser.parse_args()
    machine = survey(cuda_uuids())
    rates, source = measure_ceilings((DEVICE,), machine)
    with torch.inference_mode():
        results = {shape: measure(shape, rates[DEVICE], options.repeats) for shape in SHAPES}
    origin = provenance(f"one {machine.devices[DEVICE].model}", ("torch", "triton"))
    document = {"read_ceiling": rates[DEVICE], "ceiling_source": source, "commit": origin.commit, **results}
    print(json.dumps(document, indent=2))
    if options.dry:
        return
    (DOCS / f"{origin.date}-h200-step.json").write_text(json.dumps(document, indent=2) + "\n")
    record_figures(
        DOCS / "figures.json", _figures(results), origin, f"docs/benchmarks/{origin.date}-h200-step.md"
    )


def _figures(results: dict[str, dict[str, object]]) -> dict[str, float]:
    big = results["qwen2.5-7b"]
    over = big["rows_over_ar"]
    assert isinstance(over, dict)
    return {
        "h200.ar.bf16.7b.ceiling_fraction": float(str(big["ceiling_fraction"])),
        "h200.verify5.over.ar.bf16": over[5],
        "h200.verify16.over.ar.bf16": over[16],
        "h200.qwen05b.bf16.step_ms": float(str(results["qwen2.5-0.5b"]["ar_ms"])),
        "h200.smollm2.bf16.step_ms": float(str(results["smollm2-135m"]["ar_ms"])),
    }


if __name__ == "__main__":
    main()
