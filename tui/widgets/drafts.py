"""How drafted tokens, their verdicts and their origins are written, the same in every panel."""

from __future__ import annotations

from typing import Literal

from specmon.core.events import Round
from specmon.core.metrics.fates import Origin
from specmon.core.metrics.ledger import Ledger
from specmon.tui.widgets.cells import clip, safe_text
from specmon.tui.widgets.glyphs import Glyphs
from specmon.tui.widgets.lines import Segment

Verdict = Literal["kept", "rejected", "unreached"]

VERDICT_ROLE: dict[Verdict, str] = {"kept": "accepted", "rejected": "rejected", "unreached": "muted"}
MISS_TEXT = {
    "rank": "the bonus was none of the guesses branched on",
    "late": "a branch for it was not finished in time",
    "none": "no branches were prepared",
}


def piece(ledger: Ledger, token: int | None, signs: Glyphs, cells: int = 16) -> str:
    """A token's text, safe to draw and at most `cells` wide; one that is all spaces shows them."""
    text = safe_text(ledger.piece(token), signs.ascii)
    if text.isspace():
        text = signs.space * len(text)
    return clip(text, cells, signs.ellipsis)


def quoted(ledger: Ledger, token: int | None, signs: Glyphs, cells: int = 16) -> str:
    """A token's text in quotes."""
    return f"'{piece(ledger, token, signs, cells)}'"


def verdict(round_: Round, node: int) -> Verdict:
    """What the target said to draft node `node`: beyond the first rejection it was never asked."""
    if round_.parents is None:
        if node < round_.accepted_len:
            return "kept"
        return "rejected" if node == round_.accepted_len else "unreached"
    path = round_.accepted_path or ()
    if node in path:
        return "kept"
    parent = round_.parents[node]
    return "rejected" if parent == -1 or parent in path else "unreached"


def verdict_sign(verdict: Verdict, signs: Glyphs) -> str:
    """✓ kept, ✗ rejected, – never asked."""
    return {"kept": signs.kept, "rejected": signs.rejected, "unreached": signs.unreached}[verdict]


def origin_segment(origin: Origin, signs: Glyphs) -> Segment:
    """Where a draft came from: ◆2·b1 (branch 1 for accepted_len 2), ◇late, draft, or a dash."""
    if origin.kind == "hit":
        branch = "" if origin.ordinal is None else f"{signs.dot}b{origin.ordinal}"
        return f"{signs.hit}{origin.accepted_len}{branch}", "hit"
    if origin.kind == "miss":
        return f"{signs.miss}{origin.reason}", "miss"
    return ("draft", "draft") if origin.kind == "draft" else (signs.unreached, "muted")


def outcome_segment(round_: Round, signs: Glyphs) -> Segment | None:
    """Whether the round's own outcome had a branch; None where it had no branches or no successor."""
    if round_.hit is not None:
        return f"{signs.hit} hit", "hit"
    if round_.miss is not None:
        return f"{signs.miss} miss: {round_.miss}", "miss"
    return None
