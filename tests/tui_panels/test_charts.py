"""Shares, bandwidth, ms/token and acceptance: the figures of the metrics, each where it belongs."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from msgspec import structs

from specmon.core.engine.messages import Recording
from specmon.core.events import AnyEvent, Decoder, Header, Lane, Telemetry
from specmon.core.metrics.bandwidth import floor_ms_per_token
from specmon.core.metrics.ledger import Ledger
from specmon.core.metrics.windows import WINDOW_SIZES, fitting_window
from specmon.tui.view import ReplayStatus, View
from specmon.tui.widgets.acceptance_panel import render_acceptance
from specmon.tui.widgets.bandwidth_panel import render_bandwidth
from specmon.tui.widgets.bars import stacked
from specmon.tui.widgets.lines import plain
from specmon.tui.widgets.ms_per_token_panel import render_ms_per_token
from specmon.tui.widgets.shares_panel import render_shares
from specmon.tui.widgets.status_line import decoder_label, render_status, short_devices
from specmon.tui.widgets.why_line import render_why

from .conftest import fed, texts
from .streams import StreamBuilder, ssd_stream


def played(decoder: Decoder = "ssd", rounds: int = 40) -> Ledger:
    return fed(StreamBuilder(decoder).header().turn().rounds(rounds).telemetry().events)


def without(events: list[AnyEvent], *kinds: type) -> Ledger:
    return fed([event for event in events if not isinstance(event, kinds)])


# --- where the round goes ----------------------------------------------------------------------------------


def test_shares_of_one_played_round_are_its_spans() -> None:
    ledger = fed(StreamBuilder("sd").header().turn().play([(2, False)]).events)
    body = texts(render_shares(View(ledger=ledger), 76, 10))
    assert re.search(r"▓ verify +3\.90 ms .* 68 %", body[2])
    assert re.search(r"d draft exposed +1\.80 ms .* 31 %", body[3])
    assert re.search(r"a accept\+handoff +0\.03 ms .* 1 %", body[4])


def test_shares_are_one_stacked_bar_of_the_whole_round() -> None:
    ledger = fed(StreamBuilder("sd").header().turn().play([(2, False)]).events)
    stack = texts(render_shares(View(ledger=ledger), 76, 10))[1]
    assert stack.startswith("│ last 1 ")
    bars = stack.split("last 1")[1].strip(" │")
    assert (bars.count("▓"), bars.count("d"), bars.count("a"), len(bars)) == (38, 17, 1, 56)


def test_shares_put_the_selected_round_below_the_mean() -> None:
    body = texts(render_shares(View(ledger=played(), selected=7), 76, 12))
    assert body[2].startswith("│ round 7 ")


@pytest.mark.parametrize(
    ("parts", "cells", "sizes"),
    [
        ([92, 6, 2, 0], 50, [46, 3, 1, 0]),
        ([1000, 1, 1], 10, [8, 1, 1]),
        ([1, 1, 1], 2, [1, 1, 0]),
        ([0, 0], 9, [0, 0]),
        ([5], 0, [0]),
    ],
)
def test_stacked_bar_is_full_and_hides_no_part(parts: list[int], cells: int, sizes: list[int]) -> None:
    assert stacked(parts, cells) == sizes


def test_shares_quote_the_formulas_with_their_figures() -> None:
    body = "\n".join(texts(render_shares(View(ledger=played()), 76, 12)))
    assert "SSD ceiling over SD (4·0.45 + 3.90) ÷ 3.90 = 1.46×" in body
    assert "break-even τ AR step not measured" in body


def test_shares_of_ar_have_no_draft_row() -> None:
    assert "draft" not in "\n".join(texts(render_shares(View(ledger=played("ar")), 76, 10)))


def test_shares_name_the_k_that_acceptance_favours() -> None:
    body = "\n".join(texts(render_shares(View(ledger=played()), 76, 16)))
    assert re.search(r"K favoured \(modelled\) at most K \d; K 5\+: never drafted, not guessed", body)


# --- bandwidth ---------------------------------------------------------------------------------------------


def test_bandwidth_bar_is_on_a_fixed_axis() -> None:
    lines = texts(render_bandwidth(View(ledger=played("ar")), 54, 11))
    whole = next(line for line in lines if "cuda:0" in line)
    share = int(re.search(r"(\d+) %", whole).group(1))  # type: ignore[union-attr]
    drawn, rest = sum(c in "█▏▎▍▌▋▊▉" for c in whole), whole.count("·")
    assert share == pytest.approx(100 * drawn / (drawn + rest), abs=3)
    assert "0 %" in lines[1]
    assert "100" in lines[1]


def test_bandwidth_names_source_and_ceiling() -> None:
    lines = texts(render_bandwidth(View(ledger=played()), 100, 12))
    assert "analytic · GPM 200 ms, whole GPU" in lines[0]
    assert any("100 % = 4,390 GB/s, read of 1 GiB" in line for line in lines)
    assert any("61 °C · 1,980 MHz · 612 W · throttle: none" in line for line in lines)


def test_bandwidth_detail_says_how_the_bytes_were_counted() -> None:
    body = "\n".join(texts(render_bandwidth(View(ledger=played(rounds=40)), 120, 16)))
    assert "analytic: weights + KV read, counted, ÷ time" in body
    assert re.search(r"cuda:0 [\d,.]+ GB in 40 rounds ÷ [\d,.]+ ms whole, [\d,.]+ ms busy", body)


def test_bandwidth_without_a_counter_says_why_and_never_zero() -> None:
    ledger = fed(StreamBuilder().header().turn().rounds(9).telemetry(None).events)
    lines = texts(render_bandwidth(View(ledger=ledger), 54, 11))
    assert "analytic" in lines[0]
    assert "GPM 200 ms" not in lines[0]
    counters = [line for line in lines if " GPM" in line]
    assert len(counters) == 2
    assert all("n/a  counter failed" in line and " 0 %" not in line for line in counters)


def test_bandwidth_without_a_ceiling_gives_no_percentage() -> None:
    body = "\n".join(texts(render_bandwidth(View(ledger=without(ssd_stream(20), Header, Telemetry)), 54, 11)))
    assert "no ceiling measured" in body
    assert not re.search(r"\d %", body.replace("0 % ", ""))


def test_bandwidth_of_cpu_cores_is_of_dram() -> None:
    events: list[AnyEvent] = []
    for event in StreamBuilder("ar").header().turn().rounds(9).events:
        if isinstance(event, Lane):
            fields = {name: getattr(event, name) for name in event.__struct_fields__}
            event = Lane(**{**fields, "devices": ("cpu:0",)})
        events.append(event)
    lines = texts(render_bandwidth(View(ledger=fed(events)), 54, 11))
    assert lines[0].startswith("┌─ 6 DRAM vs SOL ")
    assert any("GPM" in line and "no such counter on a CPU" in line for line in lines)


def test_bandwidth_in_three_lines() -> None:
    rule, first, second, foot = texts(render_bandwidth(View(ledger=played()), 40, 4))
    assert rule.startswith("─ 6 HBM vs SOL ")
    assert first.startswith(" cuda:0")
    assert second.startswith(" cuda:1")
    assert re.search(r"busy \d+ % / \d+ %   100 % = 4,390 GB/s", foot)


# --- ms/token over KV --------------------------------------------------------------------------------------


def test_ms_per_token_waits_for_its_first_window() -> None:
    ledger = fed(StreamBuilder().header().turn().play([(2, True)]).events)
    assert "first window at 64 tokens: 3 so far" in texts(render_ms_per_token(View(ledger=ledger), 58, 11))[1]


def test_ms_per_token_writes_window_cumulative_and_floor() -> None:
    ledger = played(rounds=200)
    turn = ledger.lanes[0].turns[0]
    newest = turn.windows(64)[-1]
    floor = floor_ms_per_token(turn, 64)
    body = "\n".join(texts(render_ms_per_token(View(ledger=ledger), 58, 11)))
    assert f"{newest.ms_per_token:.2f} window" in body
    assert f"{turn.ms_per_token:.2f} all" in body
    assert f"{floor:.2f} floor" in body


def test_ms_per_token_all_is_the_turns_own_figure_past_the_last_window() -> None:
    events = StreamBuilder().header().turn().play([(2, True)] * 23 + [(0, False)] * 8).end().events
    turn = fed(events).lanes[0].turns[0]
    assert f"{turn.ms_per_token:.2f}" != f"{turn.windows(64)[-1].cumulative_ms_per_token:.2f}"
    body = "\n".join(texts(render_ms_per_token(View(ledger=fed(events)), 58, 11)))
    assert f"{turn.ms_per_token:.2f} all" in body


def test_ms_per_token_of_an_ended_turn_waits_for_no_window() -> None:
    ledger = fed(StreamBuilder().header().turn().play([(2, True)]).end().events)
    said = texts(render_ms_per_token(View(ledger=ledger), 58, 11))[1]
    assert f"{ledger.lanes[0].turns[0].ms_per_token:.2f} all: ended at 3 of 64 tokens" in said


def test_ms_per_token_writes_both_figures_where_they_are_equal() -> None:
    ledger = played("ar", 64)
    turn = ledger.lanes[0].turns[0]
    newest = turn.windows(64)[-1]
    assert newest.ms_per_token == turn.ms_per_token
    for height in (5, 11):
        body = "\n".join(texts(render_ms_per_token(View(ledger=ledger), 58, height)))
        assert f"{newest.ms_per_token:.2f} window" in body
        assert f"{newest.ms_per_token:.2f} all" in body


def test_ms_per_token_of_equal_rounds_is_level() -> None:
    lines = render_ms_per_token(View(ledger=played("ar", 300), window=16), 58, 11)
    bars = [[text for text, role in line if role.startswith("device0")] for line in lines[1:8]]
    rows = ["".join(row) for row in bars if row]
    assert len({len(row) for row in rows if set(row) <= {"█"}}) <= 1


def test_ms_per_token_without_a_ceiling_starts_at_zero() -> None:
    body = texts(render_ms_per_token(View(ledger=without(ssd_stream(80), Header)), 58, 11))
    assert "floor" not in "\n".join(body)
    assert "0.00┤" in body[7]


def test_ms_per_token_gives_kv_positions_below() -> None:
    ledger = played(rounds=200)
    windows = ledger.lanes[0].turns[0].windows(64)
    axis = texts(render_ms_per_token(View(ledger=ledger), 58, 11))[9]
    assert str(windows[0].kv_len) in axis
    assert axis.rstrip(" │").endswith("KV")


def test_ms_per_token_all_shows_the_worst_of_each_column() -> None:
    ledger = played(rounds=900)
    windows = ledger.lanes[0].turns[0].windows(16)
    live = texts(render_ms_per_token(View(ledger=ledger, window=16), 58, 11))
    whole = texts(render_ms_per_token(View(ledger=ledger, window=16, mode="ALL"), 58, 11))
    assert str(windows[0].kv_len) not in live[9]
    assert "· ALL" in whole[0]
    worst = max(window.ms_per_token for window in windows)
    rows = [(float(scale), bars) for scale, bars in re.findall(r"([\d.]+)┤(.{37})", "\n".join(whole))]
    tallest = max(scale for scale, bars in rows if set(bars) & set("▁▂▃▄▅▆▇█"))
    assert tallest <= worst
    assert all(worst <= scale for scale, _ in rows if scale > tallest)


# --- acceptance --------------------------------------------------------------------------------------------


def test_acceptance_of_a_played_turn() -> None:
    outcomes = [(2, True), (0, False), (4, True), (1, True)]
    ledger = fed(StreamBuilder().header().turn().play(outcomes).events)
    body = texts(render_acceptance(View(ledger=ledger), 48, 11))
    assert "τ 2.75   α .438   4 rounds   12 tokens" in body[1]
    assert body[3].split()[1:4] == ["1", ".75", ".75"]
    assert body[4].split()[1:4] == ["2", ".50", ".67"]
    assert "hit .75    misses: rank 1" in body[8]


def test_acceptance_in_one_line() -> None:
    outcomes = [(2, True), (0, False), (4, True), (1, True)]
    ledger = fed(StreamBuilder().header().turn().play(outcomes).events)
    rule, line = texts(render_acceptance(View(ledger=ledger), 80, 2))
    assert rule.endswith("KV 84 → 95 ─")
    assert line.startswith(" τ 2.75   α .438  pos .75 .50 .25 .25  hit .75  4 rounds")


def test_acceptance_of_ar_says_that_nothing_is_drafted() -> None:
    body = "\n".join(texts(render_acceptance(View(ledger=played("ar")), 48, 11)))
    assert "nothing is drafted" in body
    assert "α" not in body


# --- the lines on top --------------------------------------------------------------------------------------


def test_why_takes_the_short_form_where_the_sentence_is_too_wide() -> None:
    view = View(ledger=played())
    assert "read ceiling" in plain(render_why(view, 160)[0])
    short = plain(render_why(view, 80)[0])
    assert "of ceiling" in short
    assert short.rstrip().endswith("[e]")


def test_status_gives_up_the_least_needed_first() -> None:
    recording = Recording(path="x.session", seconds=4.1, bytes=300_000)
    view = View(ledger=played(), recording=recording)
    wide, small = plain(render_status(view, 160)[0]), plain(render_status(view, 80)[0])
    for part in (
        "specmon",
        "SSD K4 fan 5·4·3·2·2",
        "triton-1",
        "cuda:0 + cuda:1",
        "● REC 4.1 s 0.3 MB",
        "tok/s",
    ):
        assert part in wide
    for part in ("LIVE", "SSD K4", "Qwen2.5-7B bf16 → Qwen2.5-0.5B", "● REC", "tok/s"):
        assert part in small
    assert "REC" in plain(render_status(view, 40)[0])


def test_status_says_what_is_lost_only_when_something_is() -> None:
    view = View(ledger=played())
    assert "lost" not in plain(render_status(view, 160)[0])
    behind = replace(view, lost=12, behind_ns=2_500_000_000)
    assert "behind 2.5 s · lost 12" in plain(render_status(behind, 160)[0])


def test_status_shows_an_error_of_the_recording() -> None:
    recording = Recording(path=None, seconds=0.0, bytes=0, error="disk full")
    assert "disk full" in plain(render_status(View(ledger=played(), recording=recording), 80)[0])


@pytest.mark.parametrize("whole", [True, False])
def test_status_says_that_a_recording_lacks_events(whole: bool) -> None:
    """Also where writing works again."""
    recording = Recording(path="x.session", seconds=4.1, bytes=300_000, whole=whole)
    line = plain(render_status(View(ledger=played(), recording=recording), 160)[0])
    assert ("REC incomplete 4.1 s" in line) is not whole


def test_status_of_a_replay_says_where_it_stands() -> None:
    replay = ReplayStatus(
        name="a.session", paused=True, t=412_000_000, t_end=60_884_000_000, speed=5.0, rounds=208, turns=3
    )
    line = plain(render_status(View(ledger=played(), replay=replay), 160)[0])
    for part in (
        "REPLAY ▌▌",
        "a.session",
        "turn 1/3 SSD K4",
        "0:00.412/1:00.884",
        "round 40/208",
        "5 rounds/s",
    ):
        assert part in line
    real_time = replace(replay, paused=False, real_time=True, speed=0.5)
    line = plain(render_status(View(ledger=played(), replay=real_time), 160)[0])
    assert "REPLAY ▶" in line
    assert "0.5× real time" in line


def test_status_of_a_replay_without_devices_leaves_no_empty_field() -> None:
    replay = ReplayStatus(name="a.session", paused=True, t=0, t_end=10**9, speed=5.0)
    ledger = played()
    ledger.lanes[0].lane = structs.replace(ledger.lanes[0].lane, devices=())
    line = plain(render_status(View(ledger=ledger, replay=replay), 160)[0])
    assert "Qwen2.5-7B bf16 │ turn 1/1" in line


def test_labels_of_decoder_and_devices() -> None:
    turn = played().lanes[0].turns[0]
    assert decoder_label(turn.lane, turn) == "SSD K4"
    assert decoder_label(turn.lane, turn, fan_out=True) == "SSD K4 fan 5·4·3·2·2"
    assert decoder_label(turn.lane, None) == "SSD"
    assert short_devices(("cuda:0", "cuda:1")) == "cuda:0+1"
    assert short_devices(("cpu:0",)) == "cpu:0"


# --- ms/token: the window ----------------------------------------------------------------------------------


@pytest.mark.parametrize("size", WINDOW_SIZES)
def test_ms_per_token_states_the_chosen_window(size: int) -> None:
    title = texts(render_ms_per_token(View(ledger=played(), window=size), 60, 11))[0]
    assert f"window {size:,} tok · LIVE" in title


def test_ms_per_token_says_that_the_window_fits_the_text() -> None:
    title = texts(render_ms_per_token(View(ledger=played(), window=16, window_chosen=False), 60, 11))[0]
    assert "window auto 16 tok" in title


def test_fitting_window_grows_with_the_text() -> None:
    assert [fitting_window(n) for n in (0, 640, 641, 2_561, 10_241, 10**7)] == [16, 16, 64, 256, 1_024, 1_024]


# --- acceptance against fan-out ----------------------------------------------------------------------------


def test_acceptance_sets_hit_rate_against_fan_out() -> None:
    body = texts(render_acceptance(View(ledger=played(rounds=200)), 80, 12))
    row = next(line for line in body if "a=0" in line)
    rate, fan_out, hits, rounds = re.search(r"a=0 +(\.\d\d) +(\d) +.* (\d+)/(\d+)", row).groups()  # type: ignore[union-attr]
    assert float(rate) == pytest.approx(int(hits) / int(rounds), abs=0.005)
    assert fan_out == "5"


def test_acceptance_in_one_line_gives_the_break_even_once_an_ar_step_is_measured() -> None:
    ledger = played()
    assert "break-even" not in texts(render_acceptance(View(ledger=ledger), 80, 2))[1]
    ledger.lanes[0].set_ar_step(kv_len=84, steps=32, ns=3_900_000)
    line = texts(render_acceptance(View(ledger=ledger), 80, 2))[1]
    assert re.search(r"break-even τ 1\.\d\d  40 rounds", line)


def test_panels_of_a_medium_terminal_leave_no_line_empty() -> None:
    """Six rows of bandwidth and four of acceptance say more than the smallest cockpit, and nothing twice."""
    bandwidth = texts(render_bandwidth(View(ledger=played()), 60, 6))
    assert any("612 W" in line for line in bandwidth)
    assert all(line.strip() for line in bandwidth)
    acceptance = texts(render_acceptance(View(ledger=played()), 80, 4))
    assert all(line.strip() for line in acceptance)
    assert "\n".join(acceptance).count("tok/s") == 1
    assert "tok/s" in "\n".join(texts(render_acceptance(View(ledger=played()), 120, 2)))
