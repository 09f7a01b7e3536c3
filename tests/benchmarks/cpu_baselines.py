"""AR on the embedded model against llama.cpp and Hugging Face's generate: same file, same cores, one run.

    python tests/benchmarks/cpu_baselines.py --cores 0 --repeats 9

The engines take turns, in an order that rotates; a ratio is the median over turns of baseline ÷ specmon, so what slows
the machine for a while slows both. Writes a note and its JSON to docs/benchmarks/ and two figures to figures.json.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from cpu_engines import ENGINES, Decoded, EngineProcess

from specmon.core import paths
from specmon.core.bench.figures import GOALS, record_figures
from specmon.core.bench.provenance import Provenance, provenance
from specmon.core.hardware import cpu_model
from specmon.core.models.fetch import embedded_model_path
from specmon.core.models.source import open_model

PROMPTS = (
    "Write a Python function that merges two sorted lists.",
    "Explain why the sky is blue to a ten-year-old.",
    "List five uses of a paper clip and say a sentence about each.",
)
PACKAGES = ("torch", "transformers", "xllamacpp")
FIGURES = {"llama.cpp": "cpu.ar.over.llamacpp", "hf": "cpu.ar.over.hf"}
DOCS = Path(__file__).resolve().parents[2] / "docs" / "benchmarks"

Turns = list[dict[str, Decoded]]


def take_turns(engines: dict[str, EngineProcess], ids: Sequence[list[int]], repeats: int, n: int) -> Turns:
    """Decode one prompt a turn on every engine; each turn starts with the next engine."""
    names = list(engines)
    for name in names:
        engines[name].decode(PROMPTS[0], ids[0], 8)
    turns: Turns = []
    for turn in range(repeats):
        k = turn % len(PROMPTS)
        order = names[turn % len(names) :] + names[: turn % len(names)]
        turns.append({name: engines[name].decode(PROMPTS[k], ids[k], n) for name in order})
        speeds = ", ".join(f"{name} {turns[-1][name].ms_per_token:.1f}" for name in names)
        print(f"turn {turn + 1}/{repeats}  ms/token: {speeds}", flush=True)
    return turns


def summary(turns: Turns) -> dict[str, Any]:
    """Medians and spreads of ms/token, and ratios turn by turn."""
    engines: dict[str, Any] = {}
    for name in turns[0]:
        times = [turn[name].ms_per_token for turn in turns]
        ratios = [turn[name].ms_per_token / turn["specmon"].ms_per_token for turn in turns]
        engines[name] = {
            "ms_per_token": statistics.median(times),
            "ms_per_token_range": [min(times), max(times)],
            "over_specmon": statistics.median(ratios),
            "over_specmon_range": [min(ratios), max(ratios)],
            "first_token_ms": statistics.median(turn[name].first_token_ms for turn in turns),
            "characters_as_specmon": [same_leading(turn[name].text, turn["specmon"].text) for turn in turns],
            "characters": [len(turn[name].text) for turn in turns],
            "n_tokens": [turn[name].n_tokens for turn in turns],
        }
    return engines


def same_leading(first: str, second: str) -> int:
    """Count the leading characters two outputs share."""
    pairs = zip(first, second, strict=False)
    return next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(first), len(second)))


def figures(engines: dict[str, Any]) -> dict[str, float]:
    """The two goals. Hugging Face counts at the faster of its two dtypes."""
    fastest_hf = min(("hf bf16", "hf fp32"), key=lambda name: float(engines[name]["ms_per_token"]))
    return {
        FIGURES["llama.cpp"]: engines["llama.cpp"]["over_specmon"],
        FIGURES["hf"]: engines[fastest_hf]["over_specmon"],
    }


def note(
    engines: dict[str, Any], values: dict[str, float], here: Provenance, command: str, turns: int
) -> str:
    """The write-up, in Markdown."""
    rows = [_row(name, engine) for name, engine in engines.items()]
    goals = [f"- `{name}`: **{value:.2f}** (goal {GOALS[name].text})" for name, value in values.items()]
    versions = ", ".join(f"{name} {version}" for name, version in here.versions.items())
    return "\n".join(
        [
            "# AR on a CPU against llama.cpp and Hugging Face",
            "",
            *goals,
            "",
            "| engine | ms/token, median | range | ÷ specmon, median | range | leading characters as specmon, median |",
            "|---|---|---|---|---|---|",
            *rows,
            "",
            f"SmolLM2-135M-Instruct, the embedded Q4_1 GGUF, greedy, {turns} alternating turns over {len(PROMPTS)} "
            "prompts. ms/token is decode time after token one ÷ tokens after token one. Engines run in processes of "
            "their own on the same cores, one thread a core, one at a time. Outputs differ where rounding does: "
            "llama.cpp quantises activations to 8 bits, Hugging Face widens the weights.",
            "",
            f"Command: `{command}`  ",
            f"Commit: {here.commit}, {here.date}  ",
            f"Hardware: {here.hardware}  ",
            f"Versions: {versions}",
            "",
        ]
    )


def _row(name: str, engine: dict[str, Any]) -> str:
    same, length = (statistics.median(engine[key]) for key in ("characters_as_specmon", "characters"))
    times = f"{engine['ms_per_token']:.2f} | {_range(engine['ms_per_token_range'])}"
    ratios = f"{engine['over_specmon']:.2f} | {_range(engine['over_specmon_range'])}"
    return f"| {name} | {times} | {ratios} | {same:.0f} of {length:.0f} |"


def _range(pair: Sequence[float]) -> str:
    return f"{pair[0]:.2f}–{pair[1]:.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cores", default="0", help="logical CPUs, comma-separated; one thread each")
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--tokens", type=int, default=96)
    parser.add_argument("--dry", action="store_true", help="print only, write nothing")
    options = parser.parse_args()
    cores = [int(core) for core in options.cores.split(",")]
    path = embedded_model_path(paths.cache_dir())
    tokenizer = open_model(str(path), paths.cache_dir()).tokenizer()
    ids = [tokenizer.encode_chat((("user", prompt),)) for prompt in PROMPTS]
    engines = {name: EngineProcess(name, path, cores) for name in ENGINES}
    try:
        turns = take_turns(engines, ids, options.repeats, options.tokens)
    finally:
        for engine in engines.values():
            engine.close()
    results = summary(turns)
    values = figures(results)
    here = provenance(f"{cpu_model()}, {len(cores)} core(s)", PACKAGES)
    command = f"python tests/benchmarks/cpu_baselines.py --cores {options.cores} --repeats {options.repeats}"
    text = note(results, values, here, command, len(turns))
    print(text)
    if options.dry:
        return
    stem = f"{here.date}-cpu-baselines"
    DOCS.mkdir(parents=True, exist_ok=True)
    (DOCS / f"{stem}.md").write_text(text)
    texts = [{name: decoded.text for name, decoded in turn.items()} for turn in turns]
    raw = {"engines": results, "figures": values, "prompts": PROMPTS, "texts": texts}
    (DOCS / f"{stem}.json").write_text(json.dumps(raw, indent=1) + "\n")
    record_figures(DOCS / "figures.json", values, here, f"docs/benchmarks/{stem}.md")


if __name__ == "__main__":
    main()
