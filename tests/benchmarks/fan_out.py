"""Hit rate of SSD's branches on the embedded pair: shared out as it learns, against the best that stays the same.

    python tests/benchmarks/fan_out.py --draft-len 4 --budget 16

Greedy, over the evaluation prompts. One lane runs with `--fan-out auto:BUDGET`. Another prepares WIDE branches for every
accepted_len, so that of each round the rank of its bonus is known, unless they came too late. From the others follows the
vector of the same budget that would have hit most; it is then run itself. A rate counts rounds that had a successor.
What is drafted and accepted depends on no clock, so the maths is that of any device; late branches are counted apart.
Writes a note and JSON to docs/benchmarks/; on two H200s also the figures.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from pathlib import Path

import msgspec

from specmon.core.bench.figures import record_figures
from specmon.core.bench.markdown import table
from specmon.core.bench.prompts import bench_prompts
from specmon.core.bench.provenance import provenance
from specmon.core.decoders.fan_out import DEFAULT_BUDGET
from specmon.core.decoders.lane import DecodeLane
from specmon.core.engine.messages import LaneConfig, Request
from specmon.core.events import Round
from specmon.core.hardware import survey
from specmon.core.models.pool import ModelPool

DOCS = Path(__file__).parents[2] / "docs" / "benchmarks"
WIDE = 16
FIGURES = ("h200x2.smollm2.hit_rate", "h200x2.smollm2.hit_over_static")


def decode(config: LaneConfig, n_tokens: int) -> list[list[Round]]:
    """The rounds of each evaluation prompt on one lane, whose fan-out goes on learning from prompt to prompt."""
    start = time.monotonic_ns()
    lane = DecodeLane(
        config,
        pool=ModelPool(),
        progress=lambda what, part: None,
        clock=lambda: time.monotonic_ns() - start,
        cores={"cpu:0": 0, "cpu:1": 1},
    )
    prompts = [prompt.text for prompt in bench_prompts() if prompt.set == "evaluation"]
    try:
        return [rounds_of(lane, text, turn, n_tokens) for turn, text in enumerate(prompts)]
    finally:
        lane.close()


def rounds_of(lane: DecodeLane, text: str, turn: int, n_tokens: int) -> list[Round]:
    request = Request(messages=(("user", text),), max_new_tokens=n_tokens)
    events = lane.generate(request, lane=0, turn=turn, cancelled=lambda: False)
    return [event for event in events if isinstance(event, Round)]


def with_successor(prompts: list[list[Round]]) -> list[Round]:
    return [r for rounds in prompts for r in rounds if r.hit is not None or r.miss is not None]


def best_static(rounds: list[Round], budget: int, draft_len: int) -> list[int]:
    """The vector of `budget` branches that would have hit in most of `rounds`."""
    seen = Counter(
        (r.accepted_len, r.branches[r.hit].rank)
        for r in rounds
        if r.hit is not None and r.branches[r.hit].rank
    )
    widths = [0] * (1 + draft_len)
    gains = {(a, rank): count for (a, rank), count in seen.items()}

    def best(a: int, left: int) -> tuple[int, list[int]]:
        """Most hits that `left` branches get from accepted_len a on."""
        if a == len(widths):
            return 0, []
        found = []
        for width in range(min(left, WIDE) + 1):
            hits, others = best(a + 1, left - width)
            found.append(
                (hits + sum(gains.get((a, rank), 0) for rank in range(1, width + 1)), [width, *others])
            )
        return max(found)

    return best(0, budget)[1]


def hit_rate_of(rounds: list[Round]) -> float:
    return sum(r.hit is not None for r in rounds) / len(rounds)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--draft-len", type=int, default=4)
    parser.add_argument("--budget", type=int, default=DEFAULT_BUDGET)
    parser.add_argument("--tokens", type=int, default=96)
    parser.add_argument("--draft", default="auto")
    parser.add_argument("--devices", default="cpu:0,cpu:1")
    parser.add_argument("--dry", action="store_true", help="write nothing")
    options = parser.parse_args()
    config = LaneConfig(draft=options.draft, devices=options.devices, draft_len=options.draft_len)
    learned = with_successor(decode(_with(config, branch_budget=options.budget), options.tokens))
    wide = [
        r for r in with_successor(decode(_with(config, fan_out=(WIDE,)), options.tokens)) if r.miss != "late"
    ]
    late = sum(r.miss == "late" for r in learned)
    hit_rate = hit_rate_of(learned)
    vector = best_static(wide, options.budget, options.draft_len)
    static = hit_rate_of(with_successor(decode(_with(config, fan_out=tuple(vector)), options.tokens)))
    final = learned[-1].fan_out
    result = {
        "draft_len": options.draft_len,
        "budget": options.budget,
        "draft": options.draft,
        "devices": options.devices,
        "tokens_a_prompt": options.tokens,
        "rounds": len(learned),
        "hit_rate": hit_rate,
        "late": late,
        "last_fan_out": final,
        "rounds_wide": len(wide),
        "best_static": vector,
        "best_static_hit_rate": static,
        "hit_over_static": hit_rate / static,
        "coverage_by_rank": coverage(wide),
    }
    print(json.dumps(result, indent=1))
    if options.dry:
        return
    device = survey().devices[options.devices.split(",")[0]].model
    origin = provenance(device, ("torch",))
    stem = f"{origin.date}-fan-out"
    (DOCS / f"{stem}.json").write_text(json.dumps(result | {"commit": origin.commit}, indent=1) + "\n")
    (DOCS / f"{stem}.md").write_text(note(result, device))
    if "H200" in device and options.devices.count("cuda") == 2:
        values = dict(zip(FIGURES, (hit_rate, hit_rate / static), strict=True))
        record_figures(DOCS / "figures.json", values, origin, f"docs/benchmarks/{stem}.md")


def _with(config: LaneConfig, **changes: object) -> LaneConfig:
    return msgspec.structs.replace(config, **changes)


def coverage(rounds: list[Round]) -> dict[int, list[float]]:
    """For each accepted_len how often the bonus was among the draft's first 1, 2, 4, 8, 16 other guesses."""
    found = {}
    for a in sorted({r.accepted_len for r in rounds}):
        ranks = [r.branches[r.hit].rank if r.hit is not None else None for r in rounds if r.accepted_len == a]
        found[a] = [
            sum(rank is not None and rank <= w for rank in ranks) / len(ranks) for w in (1, 2, 4, 8, 16)
        ]
    return found


def note(result: dict[str, object], device: str) -> str:
    covered = result["coverage_by_rank"]
    assert isinstance(covered, dict)
    rows = [[str(a), *(f"{share:.2f}" for share in shares)] for a, shares in covered.items()]
    return "\n".join(
        [
            "# Branches shared out as SSD learns, against the best that stays the same",
            "",
            f"`python tests/benchmarks/fan_out.py` on {device}, the embedded pair, greedy, K = {result['draft_len']}, "
            f"{result['budget']} branches a round, {result['tokens_a_prompt']} tokens of each evaluation prompt.",
            "",
            f"- `--fan-out auto:{result['budget']}` hit in **{result['hit_rate']:.3f}** of {result['rounds']} rounds "
            f"({result['late']} misses were late); its last vector: {result['last_fan_out']}.",
            f"- The best static vector found afterwards (on {result['rounds_wide']} rounds), {result['best_static']}, "
            f"hit in {result['best_static_hit_rate']:.3f}: auto ÷ static **{result['hit_over_static']:.3f}** "
            "(goals: 0.60, 0.95).",
            "",
            "How often the bonus was among the draft's first guesses other than the token it proposed:",
            "",
            table(["accepted_len", "1", "2", "4", "8", "16"], rows),
            "",
        ]
    )


if __name__ == "__main__":
    main()
