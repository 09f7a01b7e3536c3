"""What each kernel is meant to compile to; a kernel that is launched and not named here fails the check."""

from __future__ import annotations

from dataclasses import dataclass

from specmon.kernels.offline.launches import Launch

_FORMATS = {"bf16": "bf16", "fp16": "fp16", "fp8e4nv": "e4m3", "fp8e5": "e5m2"}


@dataclass(frozen=True, kw_only=True)
class Intent:
    """What a kernel is meant to be.

    `multiplies`: the arguments whose own format the tensor cores must run in; none for a kernel without products.
    `hot`: it runs in every pass, so it may not spill.
    """

    multiplies: tuple[str, ...] = ()
    hot: bool = True

    def families(self, launch: Launch) -> tuple[str, ...]:
        """The matrix instructions meant for `launch`; "?" says that none takes that format."""
        unit = "wgmma" if launch.arch < 100 else "tcgen05"
        formats = dict(launch.formats)
        return tuple(
            sorted({f"{unit} {_FORMATS.get(formats.get(name, ''), '?')}" for name in self.multiplies})
        )


_WEIGHTS = Intent(multiplies=("w_ptr",))

INTENTS: dict[str, Intent] = {
    "embed_kernel": Intent(),
    "qkv_kernel": _WEIGHTS,
    "attend_kernel": Intent(multiplies=("k_ptr", "v_ptr")),
    "attend_branches_kernel": Intent(multiplies=("k_ptr", "v_ptr")),
    "attend_apart_kernel": Intent(),
    "merge_kernel": Intent(),
    "residual_kernel": _WEIGHTS,
    "swiglu_kernel": _WEIGHTS,
    "head_kernel": _WEIGHTS,
    "winner_kernel": Intent(),
    "gather_kernel": Intent(),
    "likely_tiles_kernel": Intent(),
    "likely_kernel": Intent(),
    "collect_kernel": Intent(),
    "pick_kernel": Intent(),
    "grow_kernel": Intent(),
    "pair_kernel": Intent(),
    "prompt_norm_kernel": Intent(),
    "prompt_rope_kernel": Intent(),
    "prompt_attend_kernel": Intent(multiplies=("k_ptr", "v_ptr")),
    "prompt_swiglu_kernel": Intent(),
    "widen_kernel": Intent(),
    "draw_kernel": Intent(),
    "drawn_kernel": Intent(),
    "accept_chain_kernel": Intent(),
    "accept_tree_kernel": Intent(),
    "post_kernel": Intent(),
    "settle_kernel": Intent(),
    "pong_kernel": Intent(hot=False),
}
