"""What watching costs: ms/token under the monitor with a recording kept, against the same lane with nothing attached.

    python tests/benchmarks/monitor_overhead.py --target random:qwen2.5-7b --recipe bf16 --decoder sd --draft ngram

Watched, the whole product runs: the engine process with telemetry and recorder, and the monitor on a terminal of 160×48.
Bare, the lane decodes in a process of its own and its events are only kept. Both decode the same requests, one process
after the other in alternating order; tokens must be equal before any time counts. A request's decode time is that of its
own rounds, from token one to the last. Writes a note with JSON to docs/benchmarks and, with --figure, the goal's figure.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import msgspec
from terminal import Terminal

from specmon.core.bench.figures import GOALS, record_figures
from specmon.core.bench.prompts import bench_prompts
from specmon.core.bench.provenance import provenance
from specmon.core.bench.statistics import Estimate, estimate
from specmon.core.engine.messages import Generate, Idle, LaneConfig, Request
from specmon.core.events import Prefill, Round, TurnEnd
from specmon.core.hardware import cpu_model, resolve_devices, survey
from specmon.tui.app import SpecmonApp, run_app
from specmon.tui.feeds.feed import FeedItem
from specmon.tui.feeds.live import LiveFeed

HERE = Path(__file__).parent
DOCS = HERE.parents[1] / "docs" / "benchmarks"
FIGURE = "h200x2.monitor.overhead_pct"
WATCHED, BARE = "watched", "bare"
LONGEST_S = 300.0


class Decoded(msgspec.Struct, frozen=True):
    """One request: its tokens, and the ns from token one to the last."""

    tokens: list[int]
    decode_ns: int


class Times:
    """Takes events in and keeps what each request decoded."""

    def __init__(self) -> None:
        self.decoded: list[Decoded] = []
        self._tokens: list[int] = []
        self._began = self._ended = 0

    def feed(self, event: Any) -> None:
        if isinstance(event, Prefill):
            self._tokens, self._began = [event.token_one], event.t
        elif isinstance(event, Round):
            self._tokens += event.emitted
            self._ended = event.t1
        elif isinstance(event, TurnEnd):
            if event.error:
                raise SystemExit(event.error)
            self.decoded.append(Decoded(self._tokens, self._ended - self._began))


class AskingFeed(LiveFeed):
    """The engine's feed; asks the next request when one is done."""

    def __init__(self, requests: list[Request]) -> None:
        super().__init__()
        self.times = Times()
        self._left = requests[1:]
        self.done = False

    def poll(self) -> list[FeedItem]:
        items = super().poll()
        for item in items:
            self.times.feed(item)
            if isinstance(item, Idle) and item.of == "Generate":
                if self._left:
                    self.send(Generate(lane=0, request=self._left.pop(0)))
                else:
                    self.done = True
        return items


class AskingApp(SpecmonApp):
    """Leaves after the last request."""

    feed: AskingFeed

    def tick(self) -> None:
        super().tick()
        if self.feed.done:
            self.exit()


def requests_of(n_prompts: int, max_new_tokens: int) -> list[Request]:
    """The first evaluation prompts; one before them that does not count."""
    texts = [prompt.text for prompt in bench_prompts() if prompt.set == "evaluation"][:n_prompts]
    return [
        Request(messages=(("user", text),), max_new_tokens=max_new_tokens) for text in ["Warm up.", *texts]
    ]


def watch(config: LaneConfig, requests: list[Request], recording: str) -> Times:
    feed = AskingFeed(requests)
    app = AskingApp(feed, initial_request=requests[0], config=config, record=recording, force=True)
    if code := run_app(app):
        raise SystemExit(code)
    return feed.times


def decode_bare(config: LaneConfig, requests: list[Request]) -> Times:
    import torch

    from specmon.core.ceilings import cuda_uuids
    from specmon.core.decoders.lane import DecodeLane
    from specmon.core.models.pool import ModelPool, unwatched

    machine = survey(cuda_uuids())
    names = resolve_devices(config.devices, machine).names
    if names[0].startswith("cpu:"):  # as the engine does
        torch.set_num_threads(1)
        os.sched_setaffinity(0, {machine.core_of[names[0]]})
    zero, times = time.monotonic_ns(), Times()
    lane = DecodeLane(
        msgspec.structs.replace(config, devices=",".join(names)),
        pool=ModelPool(),
        progress=unwatched,
        clock=lambda: time.monotonic_ns() - zero,
        cores=machine.core_of,
    )
    for turn, request in enumerate(requests):
        for event in lane.generate(request, lane=0, turn=turn, cancelled=lambda: False):
            times.feed(event)
    lane.close()
    return times


def child(mode: str, config: LaneConfig, requests: list[Request], folder: Path) -> list[Decoded]:
    """Decode in a process of its own; the first request is left out."""
    report = folder / "report.json"
    job = json.dumps({"config": msgspec.to_builtins(config), "requests": msgspec.to_builtins(requests)})
    command = [sys.executable, __file__, "--child", mode, "--job", job, "--report", str(report)]
    environment = {**os.environ, "XDG_STATE_HOME": str(folder / "state"), "TERM": "xterm-256color"}
    if mode == WATCHED:
        with Terminal(command, columns=160, rows=48, environment=environment) as terminal:
            if code := terminal.wait(LONGEST_S):
                raise SystemExit(f"the monitor ended with {code}:\n{terminal.tail()}")
    else:
        subprocess.run(command, check=True, env=environment, timeout=LONGEST_S)
    return msgspec.json.decode(report.read_bytes(), type=list[Decoded])[1:]


def run_child(mode: str, job: dict[str, Any], report: Path) -> None:
    config = msgspec.convert(job["config"], LaneConfig)
    requests = msgspec.convert(job["requests"], list[Request])
    if mode == WATCHED:
        times = watch(config, requests, str(report.with_name("watched.session")))
    else:
        times = decode_bare(config, requests)
    report.write_bytes(msgspec.json.encode(times.decoded))


def overhead_pct(runs: list[dict[str, list[Decoded]]]) -> Estimate:
    """By how much watching lengthens decoding: the median over requests, in percent.

    Raises: SystemExit where a request's tokens differ.
    """
    by_prompt: dict[str, list[float]] = {}
    for run in runs:
        for i, (watched, bare) in enumerate(zip(run[WATCHED], run[BARE], strict=True)):
            if watched.tokens != bare.tokens:
                raise SystemExit(f"request {i}: tokens differ, so no time counts")
            by_prompt.setdefault(str(i), []).append(100 * (watched.decode_ns / bare.decode_ns - 1))
    found = estimate(by_prompt)
    assert found is not None
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--target", default="smollm2")
    parser.add_argument("--draft", default="auto")
    parser.add_argument("--decoder", default="ssd", choices=["ar", "sd", "ssd"])
    parser.add_argument("--draft-len", type=int, default=4)
    parser.add_argument("--branch-budget", type=int)
    parser.add_argument("--recipe", default="auto")
    parser.add_argument("--devices", default="auto")
    parser.add_argument("--prompts", type=int, default=4)
    parser.add_argument("--max-new-tokens", type=int, default=256)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--hardware", default="", help="as the note names it, such as two H200s")
    parser.add_argument("--figure", action="store_true")
    parser.add_argument("--child", choices=[WATCHED, BARE], help=argparse.SUPPRESS)
    parser.add_argument("--job", help=argparse.SUPPRESS)
    parser.add_argument("--report", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        run_child(given.child, json.loads(given.job), given.report)
        return
    config = LaneConfig(
        decoder=given.decoder,
        target=given.target,
        draft=given.draft,
        draft_len=given.draft_len,
        branch_budget=given.branch_budget,
        recipe=given.recipe,
        devices=given.devices,
    )
    requests = requests_of(given.prompts, given.max_new_tokens)
    runs = []
    with tempfile.TemporaryDirectory() as name:
        for repeat in range(given.repeats):
            order = [WATCHED, BARE] if repeat % 2 else [BARE, WATCHED]
            runs.append({mode: child(mode, config, requests, Path(name)) for mode in order})
            print(f"repeat {repeat + 1}/{given.repeats}: {overhead_pct(runs)}", flush=True)
    write(given, config, runs)


def write(given: argparse.Namespace, config: LaneConfig, runs: list[dict[str, list[Decoded]]]) -> None:
    """The note, its JSON and, where asked for, the figure."""
    found, goal = overhead_pct(runs), GOALS[FIGURE].text
    taken = provenance(given.hardware or f"{cpu_model()}, {os.cpu_count()} cores", ("torch", "textual"))
    path = DOCS / f"{taken.date}-monitor-overhead.md"
    ms = {
        mode: sum(d.decode_ns for run in runs for d in run[mode])
        / sum(len(d.tokens) - 1 for run in runs for d in run[mode])
        / 1e6
        for mode in (WATCHED, BARE)
    }
    path.write_text(
        "# What watching costs\n\n"
        f"Decoding under the monitor with a recording kept takes **{found.median:+.2f} %** [{found.low:+.2f}, "
        f"{found.high:+.2f}] longer than with nothing attached (goal {goal} %).\nMedian of {found.n} pairs of one "
        f"request each, equal tokens, 95 % bootstrap interval; {ms[WATCHED]:.3f} against {ms[BARE]:.3f} ms/token.\n\n"
        f"{config.decoder.upper()}, target {config.target}, draft {config.draft}, K = {config.draft_len}, recipe "
        f"{config.recipe}, devices {config.devices}; {given.prompts} prompts of up to {given.max_new_tokens} tokens, "
        f"{given.repeats} repeats.\n\n"
        f"Command: `python {shlex.join(['tests/benchmarks/monitor_overhead.py', *sys.argv[1:]])}`  \n"
        f"Commit: {taken.commit}, {taken.date}  \nHardware: {taken.hardware}  \nVersions: {taken.versions}\n"
    )
    path.with_suffix(".json").write_bytes(
        msgspec.json.encode({"overhead_pct": found, "ms_per_token": ms}) + b"\n"
    )
    print(path.read_text())
    if given.figure:
        record_figures(DOCS / "figures.json", {FIGURE: found.median}, taken, f"docs/benchmarks/{path.name}")


if __name__ == "__main__":
    main()
