import pytest

from specmon.core.metrics.formulas import AR_NOT_MEASURED, tau_per_ms
from specmon.core.metrics.round_time import round_time
from specmon.core.metrics.text import ms, percent
from specmon.core.metrics.why import SHORT_COLUMNS, why

MS = 1_000_000


def why_of(ledger, **options):
    lane = ledger.lanes[0]
    return why(lane, lane.turns[-1], **options)


def formula(said, name):
    return next(f for f in said.formulas if f.name.startswith(name))


def test_why_waits_for_enough_rounds(stream, plan, ledger_of):
    said = why_of(ledger_of(stream([plan(1)] * 3)[:-1]))
    assert said.text == "waiting for 8 rounds before judging: 3 so far"
    assert said.formulas == []
    ended = why_of(ledger_of(stream([plan(1)] * 3)))
    assert ended.text == "too few rounds to say what bounds them: 3 of at least 8"


def test_why_before_any_round_waits(stream, plan, ledger_of):
    assert "0 so far" in why_of(ledger_of(stream([plan(1)])[:4])).text


def test_why_verify_bound_names_its_share_of_the_ceiling(stream, plan, ledger_of):
    """19 hits after a first draft: rounds of 4.1 ms and one of 6.1, floor 2.04 ms of a 4 ms verification."""
    said = why_of(ledger_of(stream([plan(1)] * 20)))
    assert said.text == (
        "verify is 95 % of a 4.20 ms round, at 51 % of the read ceiling: 1.97 ms left to win there."
        " Drafting still exposed: 0.10 ms."
    )
    assert said.short == "verify 95 % of 4.20 ms, 51 % of ceiling · draft exposed 0.10 ms"


def test_why_gives_no_percentage_without_a_ceiling(stream, plan, ledger_of):
    said = why_of(ledger_of(stream([plan(1)] * 20, ceiling=None)))
    assert said.text.startswith(
        "verify is 95 % of a 4.20 ms round (no ceiling measured: no % of the read ceiling)."
    )
    assert formula(said, "floor").result == "n/a: no ceiling measured"


def test_why_blames_misses_where_drafting_is_exposed(stream, plan, ledger_of):
    said = why_of(ledger_of(stream([plan(4, outcome="rank")] * 20, draft_ns=9 * MS)))
    assert (
        said.text
        == "drafting is exposed for 9.00 ms, 69 % of a 13.1 ms round: 100 % of rounds missed their branches."
    )


def test_why_names_exposed_drafting_of_sd(stream, plan, ledger_of):
    said = why_of(ledger_of(stream([plan(4)] * 20, decoder="sd", draft_ns=9 * MS)))
    assert said.text == "drafting is exposed for 9.00 ms, 69 % of a 13.1 ms round; verifying takes 4.00 ms."


def test_why_says_what_sd_drafts_before_it_verifies(stream, plan, ledger_of):
    said = why_of(ledger_of(stream([plan(3)] * 20, decoder="sd")))
    assert said.text.endswith("1.95 ms left to win there. Drafting before it: 2.00 ms.")


def test_tau_per_ms_of_a_slow_round_keeps_its_digits(stream, plan, ledger_of):
    said = why_of(ledger_of(stream([plan(4)] * 20, decoder="sd", verify_ns=98 * MS)))
    assert formula(said, "τ per ms").values == "K 1 2 3 4"
    assert formula(said, "τ per ms").result == ".02 .03 .04 .05"


def test_why_says_that_speculation_loses_once_an_ar_step_is_measured(stream, plan, ledger_of):
    ledger = ledger_of(stream([plan(4)] * 20, decoder="sd"))
    assert formula(why_of(ledger), "break-even").result == AR_NOT_MEASURED
    ledger.lanes[0].set_ar_step(kv_len=84, steps=32, ns=1 * MS)
    said = why_of(ledger)
    assert said.text == (
        "SD loses against AR here: 6.10 ms a round ÷ τ 5.00 = 1.22 ms/token, an AR step takes 1.00."
        " It needs τ 6.10: verifying takes 4.00 AR steps."
    )
    assert said.short == "SD loses to AR: 1.22 ms/token against 1.00 · τ 5.00, needs 6.10"
    assert formula(said, "break-even").result == "6.10, τ is 5.00; AR step: 32 steps at KV 84"


def test_why_does_not_say_it_loses_where_it_wins(stream, plan, ledger_of):
    ledger = ledger_of(stream([plan(4)] * 20, decoder="sd"))
    ledger.lanes[0].set_ar_step(kv_len=84, steps=32, ns=4 * MS)
    assert why_of(ledger).text.startswith("verify is")


def test_ssd_formulas_by_hand(stream, plan, ledger_of):
    """K·t_d = 2 ms, t_v = 4 ms, t_branch = 3 ms; every second round misses: rounds of 4.1 and 6.1 ms."""
    plans = [plan(1, outcome="hit"), plan(1, outcome="rank")] * 20
    said = why_of(ledger_of(stream(plans)), last=40)
    ceiling, now = formula(said, "SSD ceiling"), formula(said, "SSD over SD now")
    assert ceiling.values == "(4·0.50 + 4.00) ÷ 4.00"
    assert ceiling.result == "1.50×"
    assert now.result == f"{6.1 / 5.1:.2f}×"


def test_ssd_without_a_draft_from_scratch_leaves_its_ceiling_open(stream, plan, ledger_of):
    said = why_of(ledger_of(stream([plan(1)] * 40)), last=20)
    assert "not measured" in formula(said, "SSD ceiling").result
    assert "not measured" in formula(said, "SSD over SD now").result


def test_ar_has_no_speculative_formulas(stream, plan, ledger_of):
    said = why_of(ledger_of(stream([plan(0)] * 20, decoder="ar")))
    assert [f.name for f in said.formulas] == ["round", "floor", "sol_fraction"]


def test_tau_per_ms_takes_off_the_drafting_that_fewer_tokens_need(stream, plan, ledger_of):
    """All K=4 drafts accepted: τ(k) = k + 1, and a round of k tokens takes 4.1 + k · 0.5 ms."""
    turn = ledger_of(stream([plan(4)] * 20, decoder="sd")).lanes[0].turns[0]
    time = round_time(turn)
    assert time is not None
    assert tau_per_ms(time) == pytest.approx({k: (k + 1) / (4.1 + k * 0.5) for k in (1, 2, 3, 4)})


def test_tau_per_ms_takes_off_the_rows_that_fewer_tokens_need(stream, plan, ledger_of):
    """With an AR step of 1 ms, a row more costs (4 − 1) ÷ 4 ms."""
    time = round_time(ledger_of(stream([plan(4)] * 20, decoder="sd")).lanes[0].turns[0])
    assert time is not None
    by_hand = {k: (k + 1) / (6.1 - (4 - k) * (0.5 + 0.75)) for k in (1, 2, 3, 4)}
    assert tau_per_ms(time, 1 * MS) == pytest.approx(by_hand)


def test_favoured_k_is_one_that_was_drafted(stream, plan, ledger_of):
    said = why_of(ledger_of(stream([plan(2)] * 20, decoder="sd")))
    assert formula(said, "K favoured").result == "at most K 2; K 5+: never drafted, not guessed"


@pytest.mark.parametrize("draft_ns", [1, 123_456, 98_765_432_101])
@pytest.mark.parametrize("accepted", [0, 4])
@pytest.mark.parametrize("outcome", ["hit", "late", "rank"])
def test_short_form_fits_its_columns(stream, plan, ledger_of, draft_ns, accepted, outcome):
    plans = [plan(accepted, outcome=outcome)] * 12
    ledger = ledger_of(stream(plans, draft_ns=draft_ns, verify_ns=draft_ns, branch_ns=draft_ns))
    assert 0 < len(why_of(ledger).short) <= SHORT_COLUMNS
    ledger.lanes[0].set_ar_step(kv_len=84, steps=32, ns=1)
    assert 0 < len(why_of(ledger).short) <= SHORT_COLUMNS


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (0, "0.00"),
        (12_345, "0.012"),
        (250_000, "0.25"),
        (4_250_000, "4.25"),
        (13_100_000, "13.1"),
        (1.5e9, "1,500"),
    ],
)
def test_ms_keeps_about_three_digits(ns, text):
    assert ms(ns) == text


def test_percent_of_nothing_is_not_available():
    assert percent(1, 0) == "n/a"
