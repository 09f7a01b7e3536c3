"""How a drafter that is no model is spelt: `ngram`, `suffix`, `hybrid[:MODEL]`, or a script.

A script is `scripted:ALPHA[:coverage=C1/C2/C4…][@MODEL]`. All after the first @ is the model's name, which may hold colons;
nothing in a script holds a comma.
"""

from __future__ import annotations

from dataclasses import dataclass

from specmon.core.errors import UsageError

_MOST_CHANCES = 5  # the last one is for the top 16 guesses


@dataclass(frozen=True)
class Coverage:
    """How likely the bonus is among a draft's guesses: `chances[i]` for its top 2**i, so for the top 1, 2, 4, …

    Between two of these ranks the chance grows linearly, past the last it does not grow.
    """

    chances: tuple[float, ...] = (0.60, 0.72, 0.80)

    def within(self, rank: int) -> float:
        """The chance that the bonus is among the top `rank` guesses (1, 2, …)."""
        i = rank.bit_length() - 1
        if i + 1 >= len(self.chances):
            return self.chances[-1]
        low, high = self.chances[i : i + 2]
        return low + (high - low) * (rank - (1 << i)) / (1 << i)

    def rank(self, draw: float) -> int | None:
        """The bonus's rank for a number drawn uniformly from 0 … 1; None where no guess is the bonus."""
        ranks = range(1, (1 << (len(self.chances) - 1)) + 1)
        return next((rank for rank in ranks if draw < self.within(rank)), None)

    def __str__(self) -> str:
        return "/".join(f"{chance:g}" for chance in self.chances)


@dataclass(frozen=True, kw_only=True)
class Script:
    """What is proposed right: each position with chance `alpha`. `model`: the draft whose work is done, None: none."""

    alpha: float
    coverage: Coverage = Coverage()
    model: str | None = None

    @property
    def label(self) -> str:
        return f"scripted α={self.alpha:g} ({self.coverage})"


def check_words(draft: str) -> None:
    """Raises: UsageError where what stands after the name of a drafter that is no model cannot be read."""
    kind, colon, rest = draft.partition(":")
    if kind in ("ngram", "suffix") and colon:
        raise UsageError(f"--draft is {draft!r}, but {kind} takes nothing after it.")
    if kind == "hybrid" and colon and not rest.strip():
        raise UsageError(
            f"--draft is {draft!r}, which names no model.", "Write hybrid:MODEL, or hybrid alone."
        )
    if kind == "scripted":
        parse_script(rest)


def parse_script(text: str) -> Script:
    """Read what follows "scripted:". Raises: UsageError."""
    words, at, model = text.partition("@")
    alpha, colon, more = words.partition(":")
    accuracy = _chance(alpha)
    if accuracy is None:
        raise UsageError(
            f"scripted:{text} gives no accuracy.", "Write one from 0 to 1, such as scripted:0.78."
        )
    if at and not model.strip():
        raise UsageError(f"scripted:{text} names no model after the @.", "Give one as --draft takes it.")
    coverage = _coverage(more, text) if colon else Coverage()
    return Script(alpha=accuracy, coverage=coverage, model=model if at else None)


def _coverage(words: str, text: str) -> Coverage:
    key, _, values = words.partition("=")
    if key != "coverage":
        raise UsageError(
            f"scripted:{text} has {words!r} where only coverage=… may stand.", "A model comes after an @."
        )
    chances = [_chance(value) for value in values.split("/")]
    known = [chance for chance in chances if chance is not None]
    if len(known) < len(chances) or known != sorted(known) or len(known) > _MOST_CHANCES:
        raise UsageError(
            f"scripted:{text} gives no coverage.",
            f"Write up to {_MOST_CHANCES} chances that do not fall, for the top 1, 2, 4, … guesses: "
            "coverage=0.6/0.72/0.8.",
        )
    return Coverage(tuple(known))


def _chance(text: str) -> float | None:
    """A number from 0 to 1, None where it is none."""
    try:
        chance = float(text)
    except ValueError:
        return None
    return chance if 0 <= chance <= 1 else None
