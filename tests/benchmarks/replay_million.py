"""Opening a recording of a million rounds and going anywhere in it, as the replay screen does.

    python tests/benchmarks/replay_million.py --seeks 200

The file is made here and thrown away: 2,000 turns of 500 SD rounds on two devices, closed as a recorder closes
it. Opening is from nothing to every round known; a seek is from a key to a ledger that holds what the place shows.
One more file holds the same rounds in a single turn. Writes a note and its JSON to docs/benchmarks/ and two figures to
figures.json.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from specmon.core.bench.figures import record_figures
from specmon.core.bench.provenance import Provenance, provenance
from specmon.core.events import (
    DeviceBytes,
    DeviceInfo,
    Event,
    Header,
    Lane,
    Prefill,
    PrefillChunk,
    Round,
    Span,
    Turn,
    TurnEnd,
    Vocabulary,
)
from specmon.core.hardware import cpu_model
from specmon.core.session.writer import SessionWriter
from specmon.tui.feeds.pump import Pump
from specmon.tui.feeds.replay import ReplayFeed

DOCS = Path(__file__).resolve().parents[2] / "docs" / "benchmarks"
K = 4
US = 1_000
WORDS = (" the", " of", "\n", " return", "(", "def", " merge", " sorted", " list", ".", " and", " i")


def stream(turns: int, rounds: int, seed: int = 0) -> Iterator[Event]:
    """A recording of `turns` turns of `rounds` SD rounds each."""
    rng = random.Random(seed)
    yield Header(t=0, utc_start="2026-01-01T00:00:00Z", devices=tuple(map(_device, range(2))))
    yield Lane(
        t=0,
        decoder="sd",
        target="target",
        drafter="draft",
        drafter_kind="draft_model",
        devices=("cuda:0", "cuda:1"),
    )
    yield Vocabulary(t=0, pieces={i: WORDS[i % len(WORDS)] for i in range(5_000)})
    t = 1_000 * US
    for turn in range(turns):
        yield Turn(
            t=t,
            turn=turn,
            prompt=f"Question {turn + 1}?",
            prompt_tokens=84,
            draft_len=K,
            max_new_tokens=4_096,
        )
        chunk = PrefillChunk(0, 84, t, t + 9_000 * US)
        t += 9_000 * US
        yield Prefill(t=t, turn=turn, t0=chunk.t0, chunks=(chunk,), token_one=7, text="A")
        n_tokens = 1
        for index in range(rounds):
            round_ = _round(rng, turn, index, t, 84 + n_tokens)
            n_tokens += len(round_.emitted)
            t = round_.t1
            yield round_
        yield TurnEnd(t=t, turn=turn, stop_reason="length", n_tokens=n_tokens, rounds=rounds)
        t += 500_000 * US


def _device(index: int) -> DeviceInfo:
    return DeviceInfo(name=f"cuda:{index}", model="generated", read_ceiling=4e12)


def _round(rng: random.Random, turn: int, index: int, t0: int, kv_len: int) -> Round:
    draft = tuple(rng.choices(range(5_000), k=K))
    accepted = min(int(rng.expovariate(0.7)), K)
    bonus = rng.randrange(5_000)
    emitted = (*draft[:accepted], bonus)
    drafted, verified = t0 + rng.randrange(1_700, 1_900) * US, t0 + rng.randrange(5_600, 5_900) * US
    t1 = verified + rng.randrange(60, 120) * US
    spans = (
        Span(1, "draft", "draft", t0, drafted, index),
        Span(0, "main", "verify", drafted, verified, index),
        Span(0, "main", "accept", verified, t1, index),
    )
    return Round(
        t=t1,
        turn=turn,
        index=index,
        t0=t0,
        t1=t1,
        requested_k=K,
        drafter="draft_model",
        draft=draft,
        draft_probs=tuple(round(rng.random(), 4) for _ in draft),
        accepted_len=accepted,
        bonus=bonus,
        emitted=emitted,
        text=tuple(WORDS[token % len(WORDS)] for token in emitted),
        margin=round(rng.random(), 3),
        kv_len=(kv_len + accepted, kv_len + accepted),
        spans=spans,
        bytes=(
            DeviceBytes(0, 14_000_000_000, kv_len * 57_344, 0),
            DeviceBytes(1, 900_000_000, kv_len * 12_288, 64),
        ),
        host_launches=3,
    )


def write(path: Path, turns: int, rounds: int) -> None:
    """Record the stream at `path`."""
    with SessionWriter(path) as writer:
        for event in stream(turns, rounds):
            writer.write(event)


def opened(path: Path) -> tuple[Pump, float, float]:
    """A pump over the file with every round known, how long that took, and of that on the processor (s)."""
    began, busy = time.perf_counter(), time.process_time()
    feed = ReplayFeed(path)
    feed.playback.playing = False
    pump = Pump(feed)
    feed.start()
    while not feed.loaded:
        pump.poll()
    return pump, time.perf_counter() - began, time.process_time() - busy


def seek_ms(pump: Pump, stop: int) -> float:
    """Go to a stop and take in what it shows."""
    feed = pump.feed
    assert isinstance(feed, ReplayFeed)
    began = time.perf_counter()
    feed.playback.go(stop)
    pump.poll()
    return 1e3 * (time.perf_counter() - began)


def measure(path: Path, opens: int, seeks: int) -> dict[str, Any]:
    """Open the file a few times and seek to places spread over it."""
    times, busy = [], []
    for _ in range(opens):
        pump, seconds, cpu_s = opened(path)
        times.append(seconds)
        busy.append(cpu_s)
        pump.feed.close()
    pump, *_ = opened(path)
    assert isinstance(pump.feed, ReplayFeed)
    stops = len(pump.feed.playback.stops)
    rng = random.Random(1)
    taken = sorted(
        seek_ms(pump, stop) for stop in [0, stops - 1, *(rng.randrange(stops) for _ in range(seeks))]
    )
    pump.feed.close()
    return {
        "file_mb": path.stat().st_size / 1e6,
        "stops": stops,
        "open_s": {
            "median": statistics.median(times),
            "worst": max(times),
            "cpu_median": statistics.median(busy),
        },
        "seek_ms": {
            "median": statistics.median(taken),
            "p95": taken[int(0.95 * len(taken))],
            "worst": taken[-1],
        },
        "peak_rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3,
    }


def main() -> None:
    """Measure and write down."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--rounds", type=int, default=1_000_000)
    options.add_argument("--opens", type=int, default=5)
    options.add_argument("--seeks", type=int, default=200)
    options.add_argument("--docs", type=Path, default=DOCS)
    given = options.parse_args()
    results = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, turns in (("many turns", given.rounds // 500), ("one turn", 1)):
            path = Path(folder) / "million.session"
            write(path, turns, given.rounds // turns)
            print(f"{name}: written, measuring", flush=True)
            results[name] = measure(path, given.opens, given.seeks)
            path.unlink()
            print(name, json.dumps(results[name]), flush=True)
    record(given.docs, results, provenance(cpu_model(), ["msgspec", "zstandard"]), given.rounds)


def record(docs: Path, results: dict[str, Any], here: Provenance, rounds: int) -> None:
    """Write the JSON, the note and the figures."""
    name = f"{here.date}-replay-million"
    docs.mkdir(parents=True, exist_ok=True)
    (docs / f"{name}.json").write_text(json.dumps({"rounds": rounds, "results": results}, indent=2) + "\n")
    rows = "\n".join(
        f"| {kind} | {r['file_mb']:.1f} | {r['open_s']['median']:.2f} | {r['open_s']['worst']:.2f} "
        f"| {r['open_s']['cpu_median']:.2f} "
        f"| {r['seek_ms']['median']:.0f} | {r['seek_ms']['p95']:.0f} | {r['seek_ms']['worst']:.0f} "
        f"| {r['peak_rss_mb']:.0f} |"
        for kind, r in results.items()
    )
    (docs / f"{name}.md").write_text(
        f"""# A recording of {rounds:,} rounds: opening it, and going anywhere in it

`python tests/benchmarks/replay_million.py` on {here.hardware}, commit {here.commit}, {here.date}. {_versions(here)}.

SD rounds of K 4 on two devices, no branches, recorded and closed as a run is; the page cache is warm. Open: until every
round's place is known. Seek: until the ledger holds what the place shows, drawing excluded; first, last and
random places.

| rounds in | MB | open, median s | worst | on the processor | seek, median ms | 95 % | worst | peak RSS MB |
|---|---|---|---|---|---|---|---|---|
{rows}

A seek reads the turn it lands in from its start, and at most 2,000 rounds. In a longer turn it reads the last 2,000
before the place, and the screen says how many rounds its figures leave out. A file that was not closed has no outline
and takes about five times as long to open.
"""
    )
    many = results["many turns"]
    values = {
        "replay.million_open_s": many["open_s"]["median"],
        "replay.million_seek_ms": max(r["seek_ms"]["worst"] for r in results.values()),
    }
    record_figures(docs / "figures.json", values, here, f"docs/benchmarks/{name}.md")


def _versions(here: Provenance) -> str:
    return ", ".join(f"{package} {version}" for package, version in here.versions.items())


if __name__ == "__main__":
    main()
