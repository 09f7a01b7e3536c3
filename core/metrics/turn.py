"""One request's numbers, kept up round by round."""

from __future__ import annotations

from bisect import bisect_right

from specmon.core.events import DeviceInfo, Lane, MissReason, Prefill, Round, Turn, TurnEnd
from specmon.core.metrics.acceptance import Acceptance, HitsAfter, PositionAcceptance, ratio
from specmon.core.metrics.fates import Origin, TokenFate, origin_of, round_fates
from specmon.core.metrics.turn_time import TurnTime, TurnTimeSum
from specmon.core.metrics.windows import Window, WindowSeries

NS_PER_S = 1_000_000_000
NS_PER_MS = 1_000_000


class TurnMetrics:
    """One turn of one lane.

    Every figure is a quotient of integers from the events, so a replay reads the same to the last digit; one
    that has nothing to divide by is None. Discarded rounds are kept apart and count in no total.
    """

    def __init__(self, turn: Turn, lane: Lane, devices: tuple[DeviceInfo | None, ...] = ()) -> None:
        self.turn = turn
        self.lane = lane  # as configured when the turn started
        self.devices = devices  # what the header knows of `lane.devices`, in that order
        self.prefill: Prefill | None = None
        self.rounds: list[Round] = []
        self.discarded: list[Round] = []
        self.end: TurnEnd | None = None
        self.decode_ns = 0  # the lane clock: the sum of the rounds' own times
        self.acceptance = Acceptance()
        self.clock_ns: list[int] = []  # lane clock at the end of each round
        self.tokens_by_round: list[int] = []  # n_tokens at the end of each round
        self._emitted = 0
        self._tokens: list[int | None] = []
        self._time = TurnTimeSum(len(lane.devices))
        self._texts: list[str] = []
        self._fates: list[TokenFate] = []
        self._fates_rounds = 0
        self._fates_ended = False
        self._windows: dict[int, WindowSeries] = {}

    # --- feeding --------------------------------------------------------------------------------------------

    def feed_prefill(self, prefill: Prefill) -> None:
        """Take token one."""
        self.prefill = prefill
        self._tokens.append(prefill.token_one)
        self._texts.append(prefill.text)

    def feed_round(self, round_: Round) -> None:
        """Take the next round."""
        if round_.discarded:
            self.discarded.append(round_)
            return
        self.rounds.append(round_)
        self.decode_ns += round_.t1 - round_.t0
        self._emitted += len(round_.emitted)
        self._tokens += round_.emitted
        self.clock_ns.append(self.decode_ns)
        self.tokens_by_round.append(self.n_tokens)
        self._texts.extend(round_.text)
        self.acceptance.add(round_)

    def feed_end(self, end: TurnEnd) -> None:
        """Take the end, and the text that was held back until then."""
        self.end = end
        self._texts.append(end.text)

    # --- tokens and text ------------------------------------------------------------------------------------

    @property
    def n_tokens(self) -> int:
        """Token one and all emitted tokens."""
        return (self.prefill is not None) + self._emitted

    @property
    def decoded_tokens(self) -> int:
        """Tokens that rounds emitted: all but token one."""
        return self._emitted

    @property
    def n_rounds(self) -> int:
        """Rounds that were not discarded."""
        return len(self.rounds)

    @property
    def text(self) -> str:
        """The generated text so far."""
        return "".join(self._texts)

    def tokens(self) -> list[int | None]:
        """Ids of all generated tokens so far, None where a recording had them removed. Do not change the list."""
        return self._tokens

    def token_fates(self) -> list[TokenFate]:
        """Each token's text, fate and round. The list only ever grows at its end; do not change it."""
        if not self._fates and self.prefill is not None:
            self._fates.append(TokenFate(self.prefill.text, "first", -1, False))
        for position in range(self._fates_rounds, len(self.rounds)):
            self._fates += round_fates(self._before(position), self.rounds[position], position)
        self._fates_rounds = len(self.rounds)
        if self.end is not None and not self._fates_ended:
            self._fates_ended = True
            if self.end.text and self._fates:
                self._fates.append(self._fates[-1]._replace(text=self.end.text))
        return self._fates

    def origin(self, round_index: int) -> Origin:
        """How the draft of the round at position `round_index` came about."""
        return origin_of(self._before(round_index), self.rounds[round_index])

    def _before(self, position: int) -> Round | None:
        return self.rounds[position - 1] if position > 0 else None

    # --- time -----------------------------------------------------------------------------------------------

    @property
    def prefill_ns(self) -> int | None:
        """From the start of the prefill until token one was known."""
        return None if self.prefill is None else self.prefill.t - self.prefill.t0

    @property
    def prefill_ms(self) -> float | None:
        """`prefill_ns` in milliseconds."""
        return None if self.prefill_ns is None else self.prefill_ns / NS_PER_MS

    @property
    def ttft_ms(self) -> float | None:
        """Time to first token: from the request until token one was known."""
        return None if self.prefill is None else (self.prefill.t - self.turn.t) / NS_PER_MS

    @property
    def decode_ms(self) -> float:
        """`decode_ns` in milliseconds."""
        return self.decode_ns / NS_PER_MS

    @property
    def ms_per_round(self) -> float | None:
        """Decode time ÷ rounds."""
        return ratio(self.decode_ns, NS_PER_MS * self.n_rounds)

    @property
    def ms_per_token(self) -> float | None:
        """Decode time ÷ decoded tokens, token one excluded."""
        return ratio(self.decode_ns, NS_PER_MS * self._emitted)

    @property
    def tokens_per_s(self) -> float | None:
        """Decoded tokens, token one excluded, ÷ decode time."""
        return ratio(self._emitted * NS_PER_S, self.decode_ns)

    @property
    def request_tokens_per_s(self) -> float | None:
        """All tokens ÷ prefill and decode time."""
        if self.prefill_ns is None:
            return None
        return ratio(self.n_tokens * NS_PER_S, self.prefill_ns + self.decode_ns)

    def time(self) -> TurnTime:
        """Where the time of all rounds went, and what each device read; cheap to ask for again and again."""
        return self._time.of(self.rounds)

    def windows(self, size: int) -> list[Window]:
        """Closed windows of at least `size` tokens, oldest first. The list only grows; do not change it.

        Raises: ValueError if size < 1.
        """
        series = self._windows.get(size)
        if series is None:
            series = self._windows[size] = WindowSeries(size, self.turn.prompt_tokens)
        return series.extend(self.rounds, self.tokens_by_round, self.clock_ns)

    def tokens_at(self, clock_ns: int) -> int:
        """Tokens out when the lane clock read `clock_ns`; a token is out when its round ends."""
        position = bisect_right(self.clock_ns, clock_ns)
        return self.tokens_by_round[position - 1] if position else int(self.prefill is not None)

    # --- acceptance and branches ----------------------------------------------------------------------------

    @property
    def tokens_per_round(self) -> float | None:
        """τ: emitted ÷ rounds, rounds without a draft included."""
        return ratio(self._emitted, self.n_rounds)

    @property
    def acceptance_rate(self) -> float | None:
        """α: accepted and kept ÷ drafted."""
        return ratio(self.acceptance.kept_tokens, self.acceptance.drafted_tokens)

    @property
    def branch_hit_rate(self) -> float | None:
        """Hits ÷ rounds that had branches and a successor."""
        return ratio(self.acceptance.hits, self.acceptance.branch_rounds)

    def positions(self) -> list[PositionAcceptance]:
        """Acceptance by draft position."""
        return self.acceptance.positions()

    def hits_by_accepted_len(self) -> list[HitsAfter]:
        """Hit rate by the accepted_len the branches were prepared for."""
        return self.acceptance.hits_by_accepted_len()

    def miss_reasons(self) -> dict[MissReason, int]:
        """Misses by reason, among rounds that had branches and a successor."""
        return dict(self.acceptance.misses)

    def tau_by_prefix(self) -> dict[int, float]:
        """Expected tokens per round had only the first k been drafted."""
        return self.acceptance.tau_by_prefix()
