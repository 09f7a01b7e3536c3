"""A race's outputs token by token, where they first differ."""

from __future__ import annotations

from dataclasses import dataclass

from specmon.core.metrics.race import Race, Standing

BEFORE, AFTER = 6, 6  # tokens shown on either side


@dataclass(frozen=True, kw_only=True)
class TokenRow:
    """Token `index` (from 0) of every lane, as (id, text); None where a lane has no such token yet.

    `differs`: for each lane whether its token is another than the reference's.
    """

    index: int
    tokens: tuple[tuple[int | None, str] | None, ...]
    differs: tuple[bool, ...]


def difference_at(race: Race) -> int | None:
    """The first token at which a lane that can be compared differs from the reference; None where none does."""
    places = (row.verdict.first_difference for row in race.standings)
    return min((place for place in places if place is not None), default=None)


def tokens_around(race: Race, index: int) -> list[TokenRow]:
    """The tokens of all lanes from a few before `index` to a few after it."""
    columns = [_tokens(row) for row in race.standings]
    longest = max(map(len, columns), default=0)
    return [
        _row(at, [column[at] if at < len(column) else None for column in columns], race.reference)
        for at in range(max(index - BEFORE, 0), min(index + AFTER + 1, longest))
    ]


def _row(index: int, tokens: list[tuple[int | None, str] | None], reference: int | None) -> TokenRow:
    right = None if reference is None else tokens[reference]
    differs = tuple(token is not None and right is not None and token[0] != right[0] for token in tokens)
    return TokenRow(index=index, tokens=tuple(tokens), differs=differs)


def _tokens(row: Standing) -> list[tuple[int | None, str]]:
    return list(zip(row.turn.tokens(), (fate.text for fate in row.turn.token_fates()), strict=False))
