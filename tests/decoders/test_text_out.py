"""Stop strings: cut where they begin, held back while they may be beginning, given back when they were not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.tiny_models import SPECIAL, train_tokenizer

from specmon.core.decoders.text_out import TextOut
from specmon.core.models.tokenizer import Tokenizer

TOKENIZER = Tokenizer(train_tokenizer(), template=None, special={}, eos_ids=())


def say(text: str, *stops: str) -> tuple[list[str], str, bool]:
    """Push the text a byte-level token at a time, up to a stop. Returns: pieces, the rest, whether it stopped."""
    out = TextOut(TOKENIZER, stops)
    pieces = []
    for character in text:
        for token in TOKENIZER.encode(character):
            pieces.append(out.push(token))
            if out.stopped:
                return pieces, out.finish(), True
    return pieces, out.finish(), False


def test_text_without_stops_passes_at_once() -> None:
    assert say("abc") == (["a", "b", "c"], "", False)


def test_stop_string_is_cut_off() -> None:
    assert say("abXYcd", "XY") == (["a", "b", "", ""], "", True)


def test_beginning_of_a_stop_string_is_held_back_then_given_back() -> None:
    assert say("aXXb", "XXY") == (["a", "", "", "XXb"], "", False)


def test_overlapping_beginnings_find_the_stop() -> None:
    assert say("aXXXY", "XXY") == (["a", "", "", "X", ""], "", True)


def test_held_text_comes_out_at_the_end() -> None:
    assert say("abX", "XY") == (["a", "b", ""], "X", False)


@pytest.mark.parametrize("stops", [("b", "abc"), ("abc", "b")])
def test_first_stop_to_complete_wins(stops: tuple[str, ...]) -> None:
    pieces, rest, stopped = say("abc", *stops)

    assert ("".join(pieces) + rest, stopped) == ("a", True)


def test_empty_stop_string_is_ignored() -> None:
    assert say("ab", "") == (["a", "b"], "", False)


def test_stop_string_of_many_byte_characters_is_found() -> None:
    pieces, rest, stopped = say("ok 語🎈 no", "語🎈")

    assert ("".join(pieces) + rest, stopped) == ("ok ", True)


@given(st.text(alphabet="ab語", max_size=20), st.text(alphabet="ab語", min_size=1, max_size=4))
def test_released_text_ends_before_the_first_stop(text: str, stop: str) -> None:
    pieces, rest, stopped = say(text, stop)

    assert "".join(pieces) + rest == text.partition(stop)[0]
    assert stopped == (stop in text)


def test_each_token_is_named_once() -> None:
    out = TextOut(TOKENIZER, ())

    assert out.new_pieces([1, 1, 2]) == {1: SPECIAL[1], 2: SPECIAL[2]}
    assert out.new_pieces([2, 3]) == {3: SPECIAL[3]}
