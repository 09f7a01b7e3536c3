"""The streams the panel tests draw are streams the product could have made."""

from __future__ import annotations

import pytest

from specmon.core.events import AnyEvent, Decoder
from specmon.core.metrics.validate import Validator

from .streams import StreamBuilder, race_stream, ssd_stream


def problems(events: list[AnyEvent]) -> tuple[str, ...]:
    validator = Validator()
    for event in events:
        validator.feed(event)
    return validator.finish().problems


@pytest.mark.parametrize("decoder", ["ar", "sd", "ssd"])
def test_builder_makes_valid_turns(decoder: Decoder) -> None:
    builder = StreamBuilder(decoder).header().turn().rounds(20).end().turn("Go on.", 120).rounds(5).end()
    assert problems(builder.events) == ()


def test_builder_makes_valid_running_turns() -> None:
    assert problems(ssd_stream(30)) == ()


def test_builder_makes_valid_races() -> None:
    assert problems(race_stream(20)) == ()
