"""How long `specmon` takes to paint its first screen, in a 160×48 pseudo-terminal with a warm cache.

    python tests/benchmarks/ui_first_paint.py --repeats 11

The screen is there when it says what to press; models load after that. Writes a note with JSON and one figure.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from terminal import Terminal

from specmon.core.bench.figures import GOALS, record_figures
from specmon.core.bench.provenance import provenance
from specmon.core.hardware import cpu_model

DOCS = Path(__file__).resolve().parents[2] / "docs" / "benchmarks"
FIGURE = "ui.first_paint_s"
SAYS = b"Press"


def first_paint_s(state: Path) -> float:
    """Start the command, wait for its first screen, quit."""
    environment = {
        **os.environ,
        "XDG_STATE_HOME": str(state),
        "XDG_CONFIG_HOME": str(state),
        "TERM": "xterm-256color",
    }
    command = [sys.executable, "-m", "specmon.tui.commands"]
    with Terminal(command, columns=160, rows=48, environment=environment) as terminal:
        seconds = terminal.read_until(SAYS, 60)
        terminal.press(b"q", b"", 1)
        terminal.wait(30)
    if seconds is None:
        raise SystemExit(f"no first screen:\n{terminal.tail()}")
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=11)
    parser.add_argument("--remark", default="", help="put into the note, as the load of the machine")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        state = Path(folder)
        (state / "specmon").mkdir()
        (state / "specmon" / "hint-seen").touch()
        first_paint_s(state)  # warms the file cache
        times = [first_paint_s(state) for _ in range(given.repeats)]
    print(" ".join(f"{t:.2f}" for t in times), flush=True)
    median = statistics.median(times)
    taken = provenance(f"{cpu_model()}, {os.cpu_count()} cores. {given.remark}".strip(), ("textual", "typer"))
    path = DOCS / f"{taken.date}-ui-first-paint.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        f"# First paint\n\n`python tests/benchmarks/ui_first_paint.py --repeats {given.repeats}`: seconds from the "
        f"command to the first screen\non a 160×48 pseudo-terminal, files cached. Median {median:.2f}, "
        f"{min(times):.2f} to {max(times):.2f}; goal {GOALS[FIGURE].text}.\n\n"
        f"Hardware: {taken.hardware} Commit {taken.commit}, {taken.date}. Versions: {taken.versions}.\n"
    )
    path.with_suffix(".json").write_text(
        json.dumps({"seconds": times, "commit": taken.commit, "hardware": taken.hardware}) + "\n"
    )
    record_figures(DOCS / "figures.json", {FIGURE: median}, taken, f"docs/benchmarks/{path.name}")


if __name__ == "__main__":
    main()
