"""specmon's AR against Hugging Face on one GPU, same random weights: ms/token, and time to the first token.

    python tests/benchmarks/h200_hf.py

Decoding, 128 tokens after a prompt of 128: specmon, `generate` with its dynamic cache, and `generate` with a static cache,
which compiles the forward pass (a minute or so; --no-compile leaves it out). ms/token is (time of 129 tokens − time of one)
÷ 128. Prefill of 512 and 8,192 tokens: until token one is on the host, against Hugging Face's forward pass with the best
attention that is installed. Engines take turns, each turn starts with the next one, warm-ups do not count, and before any
time counts the logits after one prompt are held against each other. Needs no network and no tokenizer. Writes JSON and a
note to docs/benchmarks/, and the two figures of prefill to figures.json.
"""

from __future__ import annotations

import argparse
import json
import shlex
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import torch
from torch import Tensor

from specmon.core.bench.figures import GOALS, record_figures
from specmon.core.bench.markdown import origin, table
from specmon.core.bench.provenance import Provenance, provenance
from specmon.core.bench.statistics import Estimate, estimate
from specmon.core.ceilings import cuda_uuids, measure_ceilings
from specmon.core.decoders.choose import Chooser
from specmon.core.decoders.target import Target
from specmon.core.hardware import survey
from specmon.core.models.build import build_transformer
from specmon.core.models.config import ModelConfig
from specmon.core.models.passes import MAX_ROWS
from specmon.core.models.pool import LoadedModel, stream
from specmon.core.models.random_weights import PREFIX, RandomFile
from specmon.core.models.recipe import resolve_recipe
from specmon.core.models.source import Source

DOCS = Path(__file__).parents[2] / "docs" / "benchmarks"
PROMPT, NEW_TOKENS = 128, 128
PREFILLS = {512: "h200.prefill.over.hf.512", 8192: "h200.prefill.over.hf.8k"}
LEAST_COSINE = 0.99
GOAL_SHAPE = "qwen2.5-7b"
SPECMON, DYNAMIC, COMPILED = "specmon", "hf generate", "hf generate, static cache, compiled"

Engine = Callable[[], float]


# --- the engines -------------------------------------------------------------------------------------------------


class Specmon:
    """The target as AR lanes run it."""

    def __init__(self, file: RandomFile, device: str, context: int) -> None:
        recipe = resolve_recipe("bf16", device, file)
        model = build_transformer(
            file, recipe, device, max_positions=context + MAX_ROWS, progress=lambda what, part: None
        )
        loaded = LoadedModel(
            source=Source("random", file),
            tokenizer=None,  # type: ignore[arg-type]  # token ids in, token ids out
            model=model,
            recipe=recipe,
            context_length=context,
            streamed=stream(model, recipe),
        )
        self.backend = recipe.backend
        self.target = Target(loaded, device)
        self._passes = loaded.open(self.target.kv)

    @torch.inference_mode()
    def first_token(self, ids: list[int]) -> int:
        """Prefill from nothing; token one."""
        self.target.forget()
        *_, last = self.target.prefill(ids, 0, Chooser.greedy(), ())
        assert last.choice is not None
        return last.choice

    @torch.inference_mode()
    def decode(self, ids: list[int], n_tokens: int) -> list[int]:
        """Token one and those after it."""
        tokens = [self.first_token(ids)]
        while len(tokens) < n_tokens:
            choice = self.target.verify(tokens[-1:], Chooser.greedy(), ()).choices[0]
            self.target.keep(tokens[-1:])
            tokens.append(choice)
        return tokens

    @torch.inference_mode()
    def logits(self, ids: Tensor) -> Tensor:
        """After the last of `ids` (one chunk)."""
        self.target.forget()
        logits, _ = self._passes.prefill(ids, 0, ())
        return logits[0].float()


def hugging_face(file: RandomFile, device: str) -> Any:
    """transformers' Qwen2 with the weights of `file`.

    Raises: SystemExit where its parameters are not those of the file.
    """
    from transformers import AutoModelForCausalLM

    with torch.device(device):
        model = AutoModelForCausalLM.from_config(
            hf_config(file.config), dtype=torch.bfloat16, attn_implementation="sdpa"
        ).eval()
    parameters = dict(model.named_parameters())
    if parameters.keys() != file.names():
        raise SystemExit(f"other parameters: {sorted(parameters.keys() ^ file.names())[:4]}")
    for name, parameter in parameters.items():
        parameter.data.copy_(file.read(name).data)
    model.generation_config.eos_token_id = None
    model.generation_config.pad_token_id = 0
    return model


def hf_config(c: ModelConfig) -> Any:
    """The same shape in transformers' words."""
    from transformers import Qwen2Config

    return Qwen2Config(
        vocab_size=c.vocab_size,
        hidden_size=c.hidden_size,
        intermediate_size=c.intermediate_size,
        num_hidden_layers=c.n_layers,
        num_attention_heads=c.n_heads,
        num_key_value_heads=c.n_kv_heads,
        max_position_embeddings=c.context_length,
        rms_norm_eps=c.norm_eps,
        rope_parameters={"rope_type": "default", "rope_theta": c.rope.theta},
        tie_word_embeddings=c.tied_head,
        use_sliding_window=False,
        eos_token_id=None,
        bos_token_id=None,
        pad_token_id=None,
    )


def best_attention() -> str:
    """The fastest attention that transformers can use here."""
    from transformers.utils import is_flash_attn_2_available

    return "flash_attention_2" if is_flash_attn_2_available() else "sdpa"


def hf_first_token(model: Any, ids: Tensor) -> int:
    """Prefill with a new cache; token one."""
    return int(model(input_ids=ids[None], use_cache=True, logits_to_keep=1).logits[0, -1].argmax())


def hf_generate(model: Any, ids: Tensor, n_tokens: int, **options: Any) -> list[int]:
    """`n_tokens` greedy tokens."""
    out = model.generate(
        ids[None],
        attention_mask=torch.ones_like(ids[None]),
        max_new_tokens=n_tokens,
        do_sample=False,
        **options,
    )
    tokens: list[int] = out[0, len(ids) :].tolist()
    return tokens


# --- measuring ---------------------------------------------------------------------------------------------------


def ms(work: Callable[[], object]) -> float:
    """Milliseconds until `work` has its result on the host."""
    start = time.perf_counter()
    work()
    return (time.perf_counter() - start) * 1e3


def take_turns(engines: dict[str, Engine], repeats: int) -> list[dict[str, float]]:
    """Run every engine `repeats` times after one run each that does not count."""
    names = list(engines)
    for name in names:
        engines[name]()
    turns = []
    for turn in range(repeats):
        order = names[turn % len(names) :] + names[: turn % len(names)]
        found = {name: engines[name]() for name in order}
        turns.append(found)
        print(f"turn {turn + 1}/{repeats}: " + ", ".join(f"{n} {found[n]:.3f} ms" for n in names), flush=True)
    return turns


def check_logits(ours: Specmon, model: Any, ids: Tensor) -> float:
    """Cosine of both engines' logits after `ids`.

    Raises: SystemExit where they are not of one model; then no time counts.
    """
    theirs = model(input_ids=ids[None], use_cache=False, logits_to_keep=1).logits[0, -1].float()
    cosine = float(torch.cosine_similarity(ours.logits(ids), theirs, dim=0))
    if cosine < LEAST_COSINE:
        raise SystemExit(f"the logits differ (cosine {cosine:.4f}): no time counts")
    return cosine


def decode_engines(
    ours: Specmon, model: Any, ids: Tensor, n_tokens: int, compiled: bool
) -> dict[str, Engine]:
    """ms/token of each engine, prefill taken off."""
    listed: list[int] = ids.tolist()
    engines: dict[str, Engine] = {
        SPECMON: lambda: _per_token(lambda n: ours.decode(listed, n), n_tokens),
        DYNAMIC: lambda: _per_token(lambda n: hf_generate(model, ids, n), n_tokens),
    }
    if (
        compiled
    ):  # a static cache of another length would be compiled anew: its prefill is timed with a dynamic one
        static = {"cache_implementation": "static"}
        engines[COMPILED] = lambda: _per_token(
            lambda n: hf_generate(model, ids, n, **(static if n > 1 else {})), n_tokens
        )
    return engines


def compile_failure(engines: dict[str, Engine]) -> str | None:
    """Let the compiled engine compile; where it cannot, take it out and say why."""
    if COMPILED not in engines:
        return "left out"
    try:
        engines[COMPILED]()
    except Exception as failed:  # whatever it is, the other engines are still worth measuring
        del engines[COMPILED]
        return f"{type(failed).__name__}: {failed}".splitlines()[0]
    return None


def _per_token(decode: Callable[[int], object], n_tokens: int) -> float:
    whole = ms(lambda: decode(n_tokens + 1))
    return (whole - ms(lambda: decode(1))) / n_tokens


def prefill_engines(ours: Specmon, model: Any, ids: Tensor) -> dict[str, Engine]:
    """Time to the first token of each engine."""
    listed: list[int] = ids.tolist()
    return {
        SPECMON: lambda: ms(lambda: ours.first_token(listed)),
        "hf": lambda: ms(lambda: hf_first_token(model, ids)),
    }


def same_leading(a: list[int], b: list[int]) -> int:
    """Leading tokens two outputs share."""
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


def summary(turns: list[dict[str, float]]) -> dict[str, Any]:
    """Each engine's median and range in ms, and its time ÷ specmon's, turn by turn."""
    return {
        name: {
            "ms": statistics.median(turn[name] for turn in turns),
            "range": [min(turn[name] for turn in turns), max(turn[name] for turn in turns)],
            "over_specmon": _ratios([turn[name] / turn[SPECMON] for turn in turns]),
            "specmon_over": _ratios([turn[SPECMON] / turn[name] for turn in turns]),
        }
        for name in turns[0]
    }


def _ratios(values: list[float]) -> Estimate:
    found = estimate({str(i): [value] for i, value in enumerate(values)})
    assert found is not None
    return found


# --- writing it up -----------------------------------------------------------------------------------------------


def note(results: dict[str, Any], here: Provenance, command: str, ceiling: str) -> str:
    """The write-up, in Markdown."""
    goals = [
        f"- `{name}`: **{value:.2f}** (goal {GOALS[name].text})" for name, value in figures(results).items()
    ]
    decode = table(
        ["engine", "ms/token, median", "range", "÷ specmon, median [95 %]"],
        [_decode_row(name, engine) for name, engine in results["decode"].items()],
    )
    prefill = table(
        [
            "prompt",
            "specmon ms",
            f"Hugging Face ({results['attention']}) ms",
            "specmon ÷ Hugging Face [95 %]",
        ],
        [_prefill_row(length, engines) for length, engines in results["prefill"].items()],
    )
    method = (
        f"{results['shape']} with random weights in bf16, the same in both engines; backend {results['backend']}; batch 1; "
        f"{results['new_tokens']} tokens after a prompt of {PROMPT}. Logits after one prompt: cosine "
        f"{results['cosine']:.5f}. Greedy outputs share their first {results['same_leading']} tokens: rounding decides "
        "between near ties of random weights. ms/token = (time of N + 1 tokens − time of 1) ÷ N; the compiled engine's "
        "time of 1 is taken with a dynamic cache, since a static one of another length would be compiled anew."
    )
    failure = results["compile_failure"]
    parts = [
        "# AR and prefill against Hugging Face on one GPU",
        "\n".join(goals),
        decode,
        f"Compiled forward pass: {failure}." if failure else "",
        prefill,
        method,
        origin(command, here, [f"Ceiling: {ceiling}"]) + "\n",
    ]
    return "\n\n".join(part for part in parts if part)


def _decode_row(name: str, engine: dict[str, Any]) -> list[str]:
    low, high = engine["range"]
    return [name, f"{engine['ms']:.3f}", f"{low:.3f}–{high:.3f}", _interval(engine["over_specmon"])]


def _prefill_row(length: int, engines: dict[str, Any]) -> list[str]:
    ratio = _interval(engines["hf"]["specmon_over"])
    return [f"{length:,}", f"{engines[SPECMON]['ms']:.2f}", f"{engines['hf']['ms']:.2f}", ratio]


def _interval(found: Estimate) -> str:
    if found.low is None or found.high is None:
        return f"{found.median:.3f} (one turn)"
    return f"{found.median:.3f} [{found.low:.3f}, {found.high:.3f}]"


def figures(results: dict[str, Any]) -> dict[str, float]:
    """The goals that were measured, which are of the 7B shape on a GPU."""
    if (results["shape"], results["on_gpu"]) != (GOAL_SHAPE, True):
        return {}
    found = results["prefill"].items()
    return {
        PREFILLS[length]: engines["hf"]["specmon_over"].median
        for length, engines in found
        if length in PREFILLS
    }


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Everything that is measured, as it goes into the JSON."""
    device, file = options.device, RandomFile(PREFIX + options.shape)
    longest = max(options.prefills)
    ours = Specmon(file, device, context=max(longest, PROMPT + options.tokens) + MAX_ROWS + 2)
    model = hugging_face(file, device)
    draw = torch.Generator().manual_seed(0)
    ids = torch.randint(0, file.config.vocab_size, (longest,), generator=draw).to(device)
    cosine = check_logits(ours, model, ids[:PROMPT])
    print(f"logits agree: cosine {cosine:.5f}", flush=True)
    prompt = ids[:PROMPT]
    shared = same_leading(
        ours.decode(prompt.tolist(), options.tokens), hf_generate(model, prompt, options.tokens)
    )
    attention = best_attention()
    model.set_attn_implementation(attention)
    prefill = {
        length: summary(take_turns(prefill_engines(ours, model, ids[:length]), options.repeats))
        for length in options.prefills
    }
    model.set_attn_implementation("sdpa")
    decode = decode_engines(ours, model, prompt, options.tokens, compiled=not options.no_compile)
    failure = compile_failure(decode)
    return {
        "shape": options.shape,
        "on_gpu": device.startswith("cuda"),
        "backend": ours.backend,
        "attention": attention,
        "new_tokens": options.tokens,
        "cosine": cosine,
        "same_leading": shared,
        "prefill": prefill,
        "compile_failure": failure,
        "decode": summary(take_turns(decode, options.repeats)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--shape", default=GOAL_SHAPE)
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--tokens", type=int, default=NEW_TOKENS)
    parser.add_argument("--prefills", type=int, nargs="+", default=list(PREFILLS))
    parser.add_argument("--no-compile", action="store_true", help="leave the compiled engine out")
    parser.add_argument("--out", type=Path, default=DOCS)
    parser.add_argument("--dry", action="store_true", help="print only, write nothing")
    options = parser.parse_args()
    machine = survey(cuda_uuids())
    rates, source = measure_ceilings((options.device,), machine)
    with torch.no_grad():
        results = measure(options)
    here = provenance(machine.devices[options.device].model, ("torch", "triton", "transformers"))
    ceiling = f"{rates[options.device] / 1e9:,.1f} GB/s, {source}"
    text = note(results, here, f"python {shlex.join(sys.argv)}", ceiling)
    print(text)
    if options.dry:
        return
    stem = f"{here.date}-h200-hf"
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / f"{stem}.md").write_text(text)
    raw = {"read_ceiling": rates[options.device], "ceiling_source": source, "commit": here.commit, **results}
    (options.out / f"{stem}.json").write_text(json.dumps(raw, indent=1, default=_plain) + "\n")
    if found := figures(results):
        record_figures(options.out / "figures.json", found, here, f"docs/benchmarks/{stem}.md")


def _plain(value: Estimate) -> Any:
    return msgspec.to_builtins(value)


if __name__ == "__main__":
    main()
