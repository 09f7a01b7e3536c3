"""Speed of light: the bytes a pass must read, the least time for it, and what a round would then cost."""

from __future__ import annotations

from dataclasses import dataclass

from specmon.core.events import Decoder, Lane

NS_PER_S = 1_000_000_000


def target_bytes(lane: Lane, kv_len: int) -> int | None:
    """Bytes one target forward pass must read with `kv_len` positions cached, however many rows it has.

    Returns: weights + KV in bytes, on the first device where several share the weights; None where the lane does not say
    how large they are.
    """
    whole = lane.target_weight_bytes
    share = None if whole is None else -(-whole // lane.n_target_devices)
    return _pass_bytes(share, lane.kv_bytes_per_token, kv_len)


def draft_bytes(lane: Lane, kv_len: int) -> int | None:
    """Bytes one draft forward pass must read, as `target_bytes`."""
    return _pass_bytes(lane.draft_weight_bytes, lane.draft_kv_bytes_per_token, kv_len)


def _pass_bytes(weight_bytes: int | None, kv_bytes_per_token: int | None, kv_len: int) -> int | None:
    if weight_bytes is None:
        return None
    return weight_bytes + (kv_bytes_per_token or 0) * kv_len


def floor_ns(n_bytes: int, ceiling: float) -> float:
    """Least time (ns) in which `n_bytes` can be read at `ceiling` bytes/s."""
    return n_bytes * NS_PER_S / ceiling


def break_even_tau(round_ns: float, ar_step_ns: float) -> float:
    """Tokens per round above which rounds of `round_ns` beat AR steps of `ar_step_ns`."""
    return round_ns / ar_step_ns


def ssd_ceiling(draft_len: int, t_d: float, t_v: float, t_branch: float) -> float:
    """How much faster than SD an SSD that always hits can be, at equal draft_len and tokens per round.

    Times in any one unit: one draft forward, one verification pass, one branch draft.
    """
    return (draft_len * t_d + t_v) / max(t_v, t_branch)


@dataclass(frozen=True, kw_only=True)
class WhatIf:
    """A round imagined from measured parts. Times in ns; `other_ns` is accept, handoff and the host."""

    decoder: Decoder
    draft_len: int
    tokens_per_round: float
    t_v: float
    t_d: float = 0.0
    t_branch: float = 0.0
    hit_rate: float = 0.0
    other_ns: float = 0.0

    @property
    def round_ns(self) -> float:
        """SD drafts before it verifies; SSD prepares branches meanwhile and drafts only after a miss."""
        if self.decoder == "ar":
            return self.t_v + self.other_ns
        drafting = self.draft_len * self.t_d
        if self.decoder == "sd":
            return drafting + self.t_v + self.other_ns
        return max(self.t_v, self.t_branch) + (1.0 - self.hit_rate) * drafting + self.other_ns

    @property
    def tokens_per_s(self) -> float:
        """Decode tokens a second at that round time."""
        return self.tokens_per_round * NS_PER_S / self.round_ns
