"""One decode pass against the speed of light: AR steps and verification of up to 16 rows on random weights.

    python tests/benchmarks/h200_step.py --repeats 30

A pass is a whole CUDA graph, from token ids in pinned memory to winning tokens there. Row counts 1 to 16 are measured
in their order and back, each time the median of `--repeats` replays between two events with nothing waited for inside;
the read ceiling is measured in the same run. Before any time counts, a verification's and a draft's tokens are compared
with single steps'. Beside an AR step stand the same step without CUDA graphs, and what cuBLAS needs for its matmuls alone
at one row, which owes nothing to other row counts; of the draft's shape also a whole draft in one graph, beside the AR step
as many times, and one more (`steps_ms`, computed).
Writes JSON beside the note in docs/benchmarks/ and the figures of the goals to figures.json.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable
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
from specmon.core.models.transformer import Transformer
from specmon.kernels.linear import DenseLinear

DEVICE, CONTEXT, N_SLOTS = "cuda:0", 500, 1024
ROW_COUNTS = tuple(range(1, 17))
DRAFT_LEN, DRAFT_SHAPE = 4, "qwen2.5-0.5b"
CASES = (("qwen2.5-7b", "bf16"), ("qwen2.5-7b", "fp8"), ("qwen2.5-0.5b", "bf16"), ("smollm2-135m", "bf16"))
DOCS = Path(__file__).parents[2] / "docs" / "benchmarks"


def open_model(shape: str, recipe_name: str) -> tuple[Transformer, KvCache]:
    """Random weights of `shape`, and a cache of random keys and values."""
    file = RandomFile(PREFIX + shape)
    recipe = resolve_recipe(recipe_name, DEVICE, file)
    model = build_transformer(file, recipe, DEVICE, max_positions=N_SLOTS, progress=lambda what, part: None)
    c = model.config
    kv = KvCache.of(c, n_slots=N_SLOTS, dtype=recipe.kv, device=DEVICE)
    for layer in range(c.n_layers):
        kv.keys(layer).normal_()
        kv.values(layer).normal_()
    return model, kv


def check_rows(passes: StreamedPasses) -> None:
    """A verification of five rows names the tokens that five single steps name.

    Raises: SystemExit where it does not; then no time counts.
    """
    tokens = [11, 222, 33, 44, 555]
    together = passes.rows(tokens, CONTEXT, (), logits=False)
    alone = [passes.rows([t], CONTEXT + i, (), logits=False).greedy[0] for i, t in enumerate(tokens)]
    if together.greedy != alone:
        raise SystemExit("verification and single steps differ: no time counts")


def median_ms(queue: Callable[[], None], repeats: int) -> float:
    """Median ms of what `queue` queues; the first run does not count."""
    queue()
    torch.cuda.synchronize()
    times = []
    for _ in range(repeats):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        queue()
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end))
    return statistics.median(times)


def rows_ms(passes: StreamedPasses, n_rows: int, repeats: int) -> float:
    passes.rows([5] * n_rows, CONTEXT, (), logits=False)
    return median_ms(lambda: passes.queue(n_rows), repeats)


def draft_ms(passes: StreamedPasses, repeats: int) -> float:
    """A whole draft of DRAFT_LEN tokens in one graph, after one confirmed token.

    Raises: SystemExit where it does not name the tokens that single steps name.
    """
    drafted, token = passes.chain([5], CONTEXT, DRAFT_LEN, logits=False).tokens, 5
    for i, named in enumerate(drafted):
        token = passes.rows([token], CONTEXT + i, (), logits=False).greedy[0]
        if token != named:
            raise SystemExit("a whole draft and single steps differ: no time counts")
    passes.chain([5], CONTEXT, DRAFT_LEN, logits=False)
    return median_ms(lambda: passes.queue_chain(1, DRAFT_LEN), repeats)


def library_matmuls_ms(model: Transformer, repeats: int) -> float:
    """The step's matmuls alone at one row through cuBLAS, one CUDA graph."""
    weights = [linear.weight for linear in model.linears() if isinstance(linear, DenseLinear)]
    inputs = {w.shape[1]: torch.randn(1, w.shape[1], dtype=w.dtype, device=DEVICE) for w in weights}

    def multiply() -> None:
        for weight in weights:
            torch.nn.functional.linear(inputs[weight.shape[1]], weight)

    multiply()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        multiply()
    return median_ms(graph.replay, repeats)


def measure(shape: str, recipe: str, ceiling: float, repeats: int) -> dict[str, object]:
    """Step times of one shape, in ms, with the floor at `ceiling` bytes/s."""
    model, kv = open_model(shape, recipe)
    streamed = StreamedModel(model)
    passes = StreamedPasses(streamed, kv)
    check_rows(passes)
    sweeps = [{n: rows_ms(passes, n, repeats) for n in order} for order in (ROW_COUNTS, ROW_COUNTS[::-1])]
    rows = {n: statistics.mean(sweep[n] for sweep in sweeps) for n in ROW_COUNTS}
    ar_ms = rows[1]
    floor_ms = (model.weight_bytes + CONTEXT * kv.bytes_per_token) / ceiling * 1e3
    found: dict[str, object] = {
        "shape": shape,
        "recipe": recipe,
        "floor_ms": floor_ms,
        "ar_ms": ar_ms,
        "ceiling_fraction": floor_ms / ar_ms,
        "rows_ms": rows,
        "rows_over_ar": {n: ms / ar_ms for n, ms in rows.items()},
        "ar_without_graphs_ms": rows_ms(StreamedPasses(streamed, kv, graphs=False), 1, repeats),
    }
    if shape == DRAFT_SHAPE:
        found["draft"] = {
            "draft_len": DRAFT_LEN,
            "one_graph_ms": draft_ms(passes, repeats),
            "steps_ms": {n: n * ar_ms for n in (DRAFT_LEN, DRAFT_LEN + 1)},
        }
    if recipe == "bf16":
        found["library_matmuls_ms"] = library_matmuls_ms(model, repeats)
    return found


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
        results = {
            f"{shape} {recipe}": measure(shape, recipe, rates[DEVICE], options.repeats)
            for shape, recipe in CASES
        }
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
    def over_ar(case: str, n_rows: int) -> float:
        ratios = results[case]["rows_over_ar"]
        assert isinstance(ratios, dict)
        return float(ratios[n_rows])

    def number(case: str, name: str) -> float:
        return float(str(results[case][name]))

    bf16, fp8 = "qwen2.5-7b bf16", "qwen2.5-7b fp8"
    return {
        "h200.ar.bf16.7b.ceiling_fraction": number(bf16, "ceiling_fraction"),
        "h200.ar.fp8.7b.ceiling_fraction": number(fp8, "ceiling_fraction"),
        "h200.verify5.over.ar.bf16": over_ar(bf16, 5),
        "h200.verify5.over.ar.fp8": over_ar(fp8, 5),
        "h200.verify16.over.ar.bf16": over_ar(bf16, 16),
        "h200.qwen05b.bf16.step_ms": number("qwen2.5-0.5b bf16", "ar_ms"),
        "h200.smollm2.bf16.step_ms": number("smollm2-135m bf16", "ar_ms"),
    }


if __name__ == "__main__":
    main()
