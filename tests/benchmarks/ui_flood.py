"""The monitor under a flood of events, on a terminal of 160×48: `python tests/benchmarks/ui_flood.py`.

Runs: 20,000 events/s for a minute, with keys pressed meanwhile; the same with the view asleep for 10 s, after which every
figure and character of every turn must equal what the recording replays to; and 400 rounds/s, where bytes to the terminal
count. Needs a quiet machine with two cores. Writes a note with JSON to docs/benchmarks and two figures.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any, cast

sys.path.insert(0, str(Path(__file__).parent))

from terminal import Terminal
from ui_view import turn_digest

from specmon.core.bench.figures import GOALS, record_figures
from specmon.core.bench.provenance import provenance
from specmon.core.events import AnyEvent, TurnEnd
from specmon.core.hardware import cpu_model
from specmon.core.metrics.ledger import Ledger
from specmon.core.session.reader import SessionReader

HERE = Path(__file__).parent
DOCS = HERE.parents[1] / "docs" / "benchmarks"
ROUNDS_A_TURN = 20_000
KEPT = 0.95  #: of the rate; where less arrived, the share of a core says nothing
KEY_EVERY_S, HELP, BACK = 3.0, b"?", b"\x1b"


def run(folder: Path, name: str, rate: int, seconds: float, stall: tuple[str, ...] = ()) -> dict[str, Any]:
    """One run of the monitor; what it reported, and what its terminal saw."""
    report, recording = folder / f"{name}.json", folder / f"{name}.session"
    prompt = f"flood {rate} {seconds:g} {ROUNDS_A_TURN if rate > 1000 else rate * 10}"
    environment = {**os.environ, "XDG_STATE_HOME": str(folder / "state"), "TERM": "xterm-256color"}
    view = [sys.executable, str(HERE / "ui_view.py"), str(report), str(recording), prompt, *stall]
    with Terminal(view, columns=160, rows=48, environment=environment) as terminal:
        keys_ms = press_keys(terminal, seconds) if rate > 1000 and not stall else []
        code = terminal.wait(seconds * 4 + 120)
    if code != 0:
        raise SystemExit(f"the monitor ended with {code}:\n{terminal.tail()}")
    result = cast("dict[str, Any]", json.loads(report.read_text()))
    result["key_to_paint_ms"] = keys_ms
    result["terminal_kb_per_s"] = terminal.bytes_between(0.1, 0.9) / 1000
    result["equal_to_replay"] = replayed(recording) == result.pop("digests")
    return result


def press_keys(terminal: Terminal, seconds: float) -> list[float]:
    """Open and close the help now and then; ms from the key to its title on the terminal."""
    waits = []
    terminal.read_until(b"rounds", 60)
    for _ in range(int(seconds / KEY_EVERY_S) - 2):
        terminal.read_for(KEY_EVERY_S - 1)
        waits.append(1000 * terminal.press(HELP, b"HELP", 5))
        terminal.read_for(1)
        terminal.press(BACK, b"", 1)
    return waits


def replayed(recording: Path) -> list[str]:
    """The digest of every turn of a recording."""
    ledger, digests = Ledger(), []
    with SessionReader.open(recording) as reader:
        for event in reader.events():
            ledger.feed(cast("AnyEvent", event))
            if isinstance(event, TurnEnd):
                digests.append(turn_digest(ledger))
    return digests


def note(results: dict[str, dict[str, Any]], where: dict[str, Any]) -> str:
    """The write-up."""
    rows = [
        "| run | events/s | cores used | key to paint, ms "
        "| kB/s to the terminal | memory, MB | lost | equal to replay |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, r in results.items():
        keys = sorted(r["key_to_paint_ms"])
        middle = f"{keys[len(keys) // 2]:.0f} (max {keys[-1]:.0f})" if keys else "–"
        rss = r["rss_mb"]
        memory = f"{rss[len(rss) // 4]:.0f} → {rss[-1]:.0f}" if rss else "–"
        rows.append(
            f"| {name} | {r['events_per_s']:,.0f} | {r['cpu_share']:.2f} | {middle} "
            f"| {r['terminal_kb_per_s']:.1f} | {memory} | {r['lost']} | {'yes' if r['equal_to_replay'] else 'NO'} |"
        )
    return "\n".join(
        [
            "# The monitor under a flood of events",
            "",
            "`python tests/benchmarks/ui_flood.py`: the real monitor on a 160×48 pseudo-terminal over the real engine",
            "process, recorder and socket; the rounds (K=4, three spans, 3.25 tokens) are synthetic. Goals: 20,000",
            "events/s, at most 0.6 of a core for the view, a key painted within 100 ms, at most 64 kB/s at 400 rounds/s,",
            "flat memory.",
            "",
            *rows,
            "",
            f"Hardware: {where['hardware']}. Commit {where['commit']}, {where['date']}. Versions: {where['versions']}.",
            "",
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--rate", type=int, default=20_000)
    parser.add_argument(
        "--only", default="", help="run names, comma-separated; figures are written with all alone"
    )
    parser.add_argument("--remark", default="", help="put into the note, as the load of the machine")
    given = parser.parse_args()
    wanted = given.only.split(",") if given.only else ["flood", "stalled", "400 rounds/s"]
    results: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in wanted:
            rate = 400 if name.startswith("400") else given.rate
            stall = (str(given.seconds / 4), "10") if name == "stalled" else ()
            results[name] = run(
                Path(folder), name.replace(" ", "-").replace("/", "-"), rate, given.seconds, stall
            )
            print(name, {k: v for k, v in results[name].items() if k != "rss_mb"}, flush=True)
    if given.only:
        return
    if results["flood"]["events_per_s"] < KEPT * given.rate:
        raise SystemExit("the machine is too busy to keep the rate: nothing is written")
    taken = provenance(
        f"{cpu_model()}, {os.cpu_count()} cores. {given.remark}".strip(), ("textual", "msgspec")
    )
    where = {k: getattr(taken, k) for k in ("hardware", "commit", "date", "versions")}
    path = DOCS / f"{taken.date}-ui-flood.md"
    path.write_text(note(results, where))
    path.with_suffix(".json").write_text(json.dumps({"runs": results, **where}, indent=2) + "\n")
    flood = results["flood"]
    figures = {"ui.events_per_s": flood["events_per_s"], "ui.cpu_share": flood["cpu_share"]}
    record_figures(DOCS / "figures.json", figures, taken, f"docs/benchmarks/{path.name}")
    for name, value in figures.items():
        print(f"{name} {value:.3g} (goal {GOALS[name].text})")


if __name__ == "__main__":
    main()
