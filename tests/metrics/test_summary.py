import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specmon.core.events import AnyEvent, Header, Prefill, Round
from specmon.core.metrics.ledger import Ledger
from specmon.core.metrics.summary import race_summary, summary
from specmon.tui.commands.report import summary_lines

FIELDS = [
    "decoder",
    "draft",
    "recipe",
    "backend",
    "devices",
    "tokens",
    "text",
    "n_tokens",
    "rounds",
    "tokens_per_round",
    "acceptance_rate",
    "branch_hit_rate",
    "prefill_ms",
    "decode_ms",
    "tokens_per_s",
    "request_tokens_per_s",
    "ms_per_token",
    "overlap_ms",
    "sol_fraction",
    "stop_reason",
    "session",
    "host_launches_per_round",
    "fan_out",
    "target",
    "draft_len",
    "draft_nodes",
]


def test_summary_prints_its_fields_in_order(stream, plan, ledger_of):
    printed = json.loads(msgspec.json.encode(summary(ledger_of(stream([plan(1)] * 2)), session="a.session")))
    assert list(printed) == FIELDS
    assert (printed["decoder"], printed["draft"], printed["stop_reason"]) == ("ssd", "draft", "length")
    assert printed["tokens"] == [1010, 1011, 1012, 1013, 1014]
    assert printed["session"] == "a.session"
    assert printed["branch_hit_rate"] == 1.0
    assert printed["overlap_ms"] == 6.0
    assert printed["host_launches_per_round"] == 3.0


def test_host_launches_are_of_the_rounds_that_know_theirs(stream, plan, ledger_of):
    def launched(*counts):
        events = iter(counts)
        return [
            msgspec.structs.replace(event, host_launches=next(events)) if isinstance(event, Round) else event
            for event in stream([plan(1)] * len(counts))
        ]

    assert summary(ledger_of(launched(2, None, 3))).host_launches_per_round == 2.5
    assert summary(ledger_of(launched(None, None))).host_launches_per_round is None
    (known, _) = summary_lines(summary(ledger_of(launched(1, 1))))
    (unknown, _) = summary_lines(summary(ledger_of(launched(None, None))))
    assert " · 1 host launch a round · " in known
    assert "launch" not in unknown


def test_ar_summary_has_null_where_nothing_applies(stream, plan, ledger_of):
    ledger = ledger_of(stream([plan(0)] * 3, decoder="ar", devices=("cuda:0",), ceiling=None)[:-1])
    printed = summary(ledger)
    absent = (
        "draft",
        "acceptance_rate",
        "branch_hit_rate",
        "overlap_ms",
        "sol_fraction",
        "stop_reason",
        "session",
    )
    assert [getattr(printed, name) for name in absent] == [None] * len(absent)


def test_redacted_summary_keeps_counts_and_times_only(stream, plan, ledger_of):
    events = []
    for event in stream([plan(1)] * 3):
        if isinstance(event, Header):
            event = msgspec.structs.replace(event, redacted=True)
        elif isinstance(event, Prefill):
            event = msgspec.structs.replace(event, token_one=None, text="")
        elif isinstance(event, Round):
            n = len(event.emitted)
            event = msgspec.structs.replace(event, emitted=(None,) * n, text=("",) * n, bonus=None)
        events.append(event)
    plain, redacted = summary(ledger_of(stream([plan(1)] * 3))), summary(ledger_of(events))
    assert (redacted.tokens, redacted.text) == (None, None)
    assert msgspec.structs.replace(plain, tokens=None, text=None) == redacted


def test_summary_of_nothing_is_a_bad_call(stream, plan, ledger_of):
    with pytest.raises(KeyError):
        summary(Ledger())
    with pytest.raises(IndexError):
        summary(ledger_of(stream([plan(1)])[:2]))
    with pytest.raises(IndexError):
        race_summary(Ledger())


def test_race_summary_compares_every_lane_with_the_first(race_stream, plan, ledger_of):
    ar, sd = {"decoder": "ar", "devices": ("cuda:0",)}, {"decoder": "sd"}
    lanes = [([plan(0)] * 24, ar), ([plan(2)] * 8, sd), ([plan(0)] * 24, ar | {"recipe": "fp32"})]
    race = race_summary(ledger_of(race_stream(lanes)))
    assert (race.equal, race.first_difference) == (True, None)
    assert race.ratios == (1.0, 98_400_000 / 48_800_000, None)
    shorter = [([plan(0)] * 24, ar), ([plan(2)] * 7, sd)]
    unequal = race_summary(ledger_of(race_stream(shorter)))
    assert (unequal.equal, unequal.first_difference, unequal.ratios) == (False, 22, (1.0, None))


def test_race_of_one_lane_has_nothing_to_compare(race_stream, plan, ledger_of):
    race = race_summary(ledger_of(race_stream([([plan(0)] * 9, {"decoder": "ar"})])))
    assert (race.equal, race.ratios) == (None, (1.0,))


@given(data=st.data())
def test_summary_survives_a_trip_through_json_to_the_last_digit(any_stream, ledger_of, data):
    events = data.draw(any_stream)
    stored = [msgspec.json.decode(msgspec.json.encode(event), type=AnyEvent) for event in events]
    live, replayed = summary(ledger_of(events)), summary(ledger_of(stored))
    assert msgspec.json.encode(live) == msgspec.json.encode(replayed)
