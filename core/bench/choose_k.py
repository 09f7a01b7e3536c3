"""Each lane's own best draft_len, found on the tuning prompts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import msgspec

from specmon.core.bench.pairs import Decode, ask, decode_cold
from specmon.core.bench.prompts import BenchPrompt
from specmon.core.engine.messages import LaneConfig
from specmon.core.metrics.pooled import pooled


class TunedK(msgspec.Struct, frozen=True, kw_only=True):
    """What one draft_len gave a lane on the tuning prompts, decode time ÷ decoded tokens over all of them."""

    draft_len: int
    ms_per_token: float
    tokens_per_round: float | None


def try_draft_lens(
    lane: int,
    config: LaneConfig,
    draft_lens: Sequence[int],
    prompts: Sequence[BenchPrompt],
    max_new_tokens: int,
    *,
    load: Callable[[int, LaneConfig], None],
    decode: Decode,
) -> Iterator[TunedK | None]:
    """Measure `config` with each of `draft_lens`, loaded once for the longest; None for a K that decodes nothing."""
    load(lane, msgspec.structs.replace(config, draft_len=max(draft_lens)))
    for draft_len in draft_lens:
        requests = [
            msgspec.structs.replace(ask(prompt, max_new_tokens), draft_len=draft_len) for prompt in prompts
        ]
        decode(lane, requests[0])
        figures = pooled([decode_cold(decode, lane, request) for request in requests])
        yield (
            None
            if figures.ms_per_token is None
            else TunedK(
                draft_len=draft_len,
                ms_per_token=figures.ms_per_token,
                tokens_per_round=figures.tokens_per_round,
            )
        )


def best_draft_len(tried: Sequence[TunedK]) -> int:
    """The fastest, the smaller of two equals. Raises: ValueError if nothing was tried."""
    return min(tried, key=lambda k: (k.ms_per_token, k.draft_len)).draft_len
