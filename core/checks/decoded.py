"""A turn that a check decoded, and where it differs from AR's."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from specmon.core.drafters.scripted import Step
from specmon.core.events import Event, Prefill, Round, StopReason, Turn, TurnEnd

Piece = Callable[[int], str]


@dataclass(frozen=True, kw_only=True)
class Decoded:
    """One finished turn."""

    prompt_tokens: int
    reused_tokens: int
    tokens: tuple[int, ...]
    text: str
    stop_reason: StopReason
    rounds: tuple[Round, ...]

    @property
    def hits(self) -> int:
        """Rounds whose successor had its draft ready."""
        return sum(r.hit is not None for r in self.rounds)

    def round_of(self, index: int) -> int | None:
        """The round that emitted token `index`; None for token one, and past the end."""
        at = 1
        for number, round_ in enumerate(self.rounds):
            if at <= index < at + len(round_.emitted):
                return number
            at += len(round_.emitted)
        return None


def decoded(events: Iterable[Event]) -> Decoded:
    """Read a whole turn's events."""
    of_kind: dict[type[Event], list[Event]] = {}
    for event in events:
        of_kind.setdefault(type(event), []).append(event)
    (turn,), (prefill,), (end,) = of_kind[Turn], of_kind[Prefill], of_kind[TurnEnd]
    assert isinstance(turn, Turn)
    assert isinstance(prefill, Prefill)
    assert isinstance(end, TurnEnd)
    rounds = tuple(
        event for event in of_kind.get(Round, ()) if isinstance(event, Round) and not event.discarded
    )
    emitted = [token for round_ in rounds for token in round_.emitted if token is not None]
    said = [piece for round_ in rounds for piece in round_.text]
    assert prefill.token_one is not None
    return Decoded(
        prompt_tokens=turn.prompt_tokens,
        reused_tokens=turn.reused_tokens,
        tokens=(prefill.token_one, *emitted),
        text="".join([prefill.text or "", *said, end.text]),
        stop_reason=end.stop_reason,
        rounds=rounds,
    )


def difference(found: Decoded, ar: Decoded, piece: Piece) -> str | None:
    """Where `found` first is not what AR decoded, in words; None where it is.

    Args:
        piece: a token's text.
    """
    for index, (own, other) in enumerate(zip_longest(found.tokens, ar.tokens)):
        if own != other:
            number = found.round_of(index)
            where = "token one" if index == 0 else "the end" if number is None else f"round {number}"
            named = (_token(token, piece) for token in (own, other))
            return f"{where}, position {ar.prompt_tokens + index}: {' where AR has '.join(named)}"
    for what, own_value, other_value in (
        ("stop reason", found.stop_reason, ar.stop_reason),
        ("text", found.text, ar.text),
        ("number of reused tokens", found.reused_tokens, ar.reused_tokens),
    ):
        if own_value != other_value:
            return f"its {what} is {own_value!r} where AR has {other_value!r}"
    return None


def off_script(found: Decoded, steps: Sequence[Step]) -> str | None:
    """The first round that did not accept just what its scripted draft had right, in words; None where all did.

    The last round is left out: past the turn's end the script knows no text.
    """
    for number, round_ in enumerate(found.rounds[:-1]):
        right = min(steps[number % len(steps)].accepted, len(round_.draft))
        if round_.accepted_len != right:
            return (
                f"round {number} accepts {round_.accepted_len} tokens of a draft whose first {right} are AR's"
            )
    return None


def _token(token: int | None, piece: Piece) -> str:
    return "no token" if token is None else f"{token} {piece(token)!r}"
