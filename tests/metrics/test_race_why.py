from specmon.core.metrics.race import standings
from specmon.core.metrics.race_why import race_why

AR = {"decoder": "ar", "devices": ("cuda:0",)}


def why_of(ledger):
    return race_why(standings(ledger))


def test_race_why_waits_for_two_lanes(race_stream, plan, ledger_of):
    said = why_of(ledger_of(race_stream([([plan(0)] * 20, AR), ([plan(2)] * 3, {"decoder": "sd"})])))
    assert said.text == "waiting for two lanes to decode 8 rounds"


def test_race_why_says_how_much_drafting_ssd_hides(race_stream, plan, ledger_of):
    """SD: 2 + 4.1 ms. SSD: 4.1 ms, the first round 6.1. Both emit 3 tokens a round, 20 rounds."""
    lanes = [([plan(2)] * 20, {"decoder": "sd"}), ([plan(2)] * 20, {"decoder": "ssd"})]
    said = why_of(ledger_of(race_stream(lanes)))
    assert said.text == (
        "B beats A by 1.45×: 1.90 of A's 2.00 ms of drafting is hidden, ceiling 1.50×;"
        " still exposed 0.10, other 0.10."
    )
    assert said.short == "B beats A by 1.45×"
    assert [f.values for f in said.formulas] == ["84.0 ms ÷ 60", "122 ms ÷ 60"]


def test_race_why_gives_the_break_even_where_ar_wins(race_stream, plan, ledger_of):
    lanes = [([plan(0)] * 20, AR), ([plan(0)] * 20, {"decoder": "sd"})]
    said = why_of(ledger_of(race_stream(lanes)))
    assert said.text == "A beats B by 1.49×: B needs τ 1.49 to break even and has 1.00."
    assert said.short == "A beats B by 1.49× · B needs τ 1.49 to break even and has 1.00"


def test_race_why_compares_rounds_where_speculation_wins(race_stream, plan, ledger_of):
    lanes = [([plan(0)] * 60, AR), ([plan(2)] * 20, {"decoder": "sd"})]
    said = why_of(ledger_of(race_stream(lanes)))
    assert said.text.startswith("B beats A by 2.02×: τ 3.00 in rounds of 6.10 ms against τ 1.00")


def test_race_why_gives_no_ratio_across_recipes(race_stream, plan, ledger_of):
    lanes = [([plan(0)] * 20, AR), ([plan(0)] * 20, AR | {"recipe": "fp32", "verify_ns": 9_000_000})]
    said = why_of(ledger_of(race_stream(lanes)))
    assert said.text.startswith("A 4.10, B 9.10 ms/token (no ratio: different recipe)")


def test_race_why_calls_equal_lanes_level(race_stream, plan, ledger_of):
    said = why_of(ledger_of(race_stream([([plan(0)] * 20, AR), ([plan(0)] * 20, AR)])))
    assert said.text.startswith("A and B are level: ")


def test_race_why_gives_the_figures_of_the_rows_however_long_the_race(race_stream, plan, ledger_of):
    lanes = [([plan(0)] * 200, AR), ([plan(2)] * 40 + [plan(1)] * 70, {"decoder": "sd"})]
    ledger = ledger_of(race_stream(lanes))
    sd = standings(ledger).standings[1].turn
    assert f"τ {sd.tokens_per_round:.2f} in rounds of" in why_of(ledger).text
    assert sd.tokens_per_round > 2.3  # the last rounds alone would give 2
