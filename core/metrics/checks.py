"""What a single round, or two in a row, must satisfy.

Each check returns problems as sentences without a place, and raises `Redacted` where the token ids it needs
were removed from the recording.
"""

from __future__ import annotations

from collections.abc import Sequence

from specmon.core.events import Branch, Lane, Round
from specmon.core.metrics.acceptance import drafted_len


class Redacted(Exception):
    """Token ids that a check needs are not in the recording."""


def ids(tokens: Sequence[int | None]) -> list[int]:
    """The token ids, all of them.

    Raises: Redacted if one is missing.
    """
    known = [token for token in tokens if token is not None]
    if len(known) != len(tokens):
        raise Redacted
    return known


def check_counts(round_: Round) -> list[str]:
    """Lengths: draft within what was asked, acceptance within the draft, one text a token, one bonus."""
    drafted, accepted, emitted = drafted_len(round_), round_.accepted_len, len(round_.emitted)
    problems = []
    if drafted > round_.requested_k:
        problems.append(f"drafted {drafted} tokens but {round_.requested_k} were requested")
    if not 0 <= accepted <= drafted:
        problems.append(f"accepted_len {accepted} is outside 0..{drafted}, the drafted tokens")
    if emitted > accepted + 1:
        problems.append(f"emitted {emitted} tokens, more than accepted_len {accepted} + 1")
    if emitted == 0 and not round_.discarded:
        problems.append("emitted nothing")
    if len(round_.text) != emitted:
        problems.append(f"has {len(round_.text)} texts for {emitted} emitted tokens")
    if round_.draft_probs and len(round_.draft_probs) != len(round_.draft):
        problems.append(f"has {len(round_.draft_probs)} probabilities for {len(round_.draft)} draft nodes")
    return problems


def check_tree(round_: Round) -> list[str]:
    """A tree's parents come before their nodes, and its accepted path runs down from the root."""
    if round_.parents is None:
        return []
    if len(round_.parents) != len(round_.draft):
        return [f"has {len(round_.parents)} parents for {len(round_.draft)} draft nodes"]
    if any(not -1 <= parent < node for node, parent in enumerate(round_.parents)):
        return ["has a draft node whose parent does not come before it"]
    path = round_.accepted_path
    if path is None or len(path) != round_.accepted_len:
        return [f"has no accepted path of accepted_len {round_.accepted_len}"]
    parent = -1
    for node in path:
        if not 0 <= node < len(round_.parents) or round_.parents[node] != parent:
            return [f"has accepted node {node} that is no child of node {parent}"]
        parent = node
    return []


def check_tokens(round_: Round) -> list[str]:
    """Emitted tokens are the accepted draft tokens and then the bonus.

    Raises: Redacted.
    """
    accepted, emitted = round_.accepted_len, ids(round_.emitted)
    path = range(accepted) if round_.accepted_path is None else round_.accepted_path
    draft = ids(round_.draft)
    agreed = [draft[node] for node in path if 0 <= node < len(draft)]
    problems = []
    if emitted[:accepted] != agreed[: len(emitted)]:
        problems.append("emitted other tokens than the accepted ones it drafted")
    if len(emitted) > accepted and emitted[accepted] != round_.bonus:
        problems.append(f"emitted {emitted[accepted]} where its bonus is {round_.bonus}")
    return problems


def check_whole(round_: Round) -> list[str]:
    """A round that generation did not stop in emits all it accepted and the bonus."""
    expected = round_.accepted_len + 1
    if len(round_.emitted) == expected:
        return []
    return [f"emitted {len(round_.emitted)} tokens, not accepted_len + 1 = {expected}, and another followed"]


def check_branches(round_: Round, lane: Lane) -> list[str]:
    """Hit and miss exclude each other, and only SSD has them."""
    if lane.decoder != "ssd":
        speculated = round_.branches or round_.hit is not None or round_.miss is not None
        return [f"has branches, a hit or a miss under {lane.decoder.upper()}"] if speculated else []
    problems = []
    if round_.hit is not None and round_.miss is not None:
        problems.append("is both a hit and a miss")
    if round_.hit is not None and round_.branches and not 0 <= round_.hit < len(round_.branches):
        problems.append(f"hit branch {round_.hit} of {len(round_.branches)}")
    if any(not 0 <= b.accepted_len <= len(round_.draft) for b in round_.branches):
        problems.append("has a branch for an accepted_len that its draft cannot have")
    return problems


def check_outcome(round_: Round) -> list[str]:
    """A hit's branch was prepared for what happened and ready; a miss by rank had no such branch.

    Raises: Redacted.
    """
    if round_.hit is None and round_.miss is None:
        return []
    if round_.bonus is None or any(branch.bonus is None for branch in round_.branches):
        raise Redacted
    outcome = (round_.accepted_len, round_.bonus)
    hit = hit_branch(round_)
    problems = []
    if hit is not None and (hit.accepted_len, hit.bonus) != outcome:
        problems.append(f"hit a branch for ({hit.accepted_len}, {hit.bonus}) but its outcome is {outcome}")
    if hit is not None and hit.ready_at is None:
        problems.append("hit a branch that was never ready")
    prepared = any((branch.accepted_len, branch.bonus) == outcome for branch in round_.branches)
    if round_.miss in ("rank", "none") and prepared:
        problems.append(f"missed for {round_.miss} though a branch for {outcome} was prepared")
    if round_.miss == "late" and round_.branches and not prepared:
        problems.append(f"missed for late though no branch for {outcome} was prepared")
    outcomes = [(branch.accepted_len, branch.bonus) for branch in round_.branches]
    if len(set(outcomes)) != len(outcomes):
        problems.append("prepared two branches for one outcome")
    return problems


def check_successor(before: Round, round_: Round) -> list[str]:
    """The draft after a hit is the branch's tokens, cut to what was requested.

    Raises: Redacted.
    """
    if before.branches and before.hit is None and before.miss is None:
        return [f"follows round {before.index}, whose branches neither hit nor missed"]
    hit = hit_branch(before)
    if hit is None or not hit.tokens or round_.parents is not None:
        return []
    draft = ids(round_.draft)
    if draft != list(ids(hit.tokens))[: round_.requested_k]:
        return [f"drafted other tokens than the branch that round {before.index} hit"]
    return []


def check_kv(before: Round, round_: Round) -> list[str]:
    """The target's cursor moves by what the round added: accepted_len + 1."""
    stops_inside = len(round_.emitted) != round_.accepted_len + 1
    if not before.kv_len or not round_.kv_len or stops_inside:
        return []
    moved = round_.kv_len[0] - before.kv_len[0]
    if moved == round_.accepted_len + 1:
        return []
    return [f"moved the target's KV cursor by {moved}, not accepted_len + 1 = {round_.accepted_len + 1}"]


def check_spans(round_: Round, lane: Lane) -> list[str]:
    """Spans run forwards on the lane's devices, and verification lies inside its round."""
    problems = []
    for span in round_.spans:
        where = f"{span.kind} span on device {span.device}"
        if span.start > span.end:
            problems.append(f"has a {where} that ends before it starts")
        if not 0 <= span.device < max(1, len(lane.devices)):
            problems.append(f"has a {where} though the lane has {len(lane.devices)} devices")
        if span.kind == "verify" and not (round_.t0 <= span.start and span.end <= round_.t1):
            problems.append(f"has a {where} that leaves the round's time")
        if span.for_round != round_.index and not _may_be_for(round_, span.kind, span.for_round):
            problems.append(f"has a {where} for round {span.for_round}")
    return problems


def _may_be_for(round_: Round, kind: str, for_round: int) -> bool:
    """Only drafting, and waiting or handing over for it, works ahead for the next round."""
    return for_round == round_.index + 1 and kind != "verify"


def hit_branch(round_: Round) -> Branch | None:
    """The branch a round hit, if it is in the recording."""
    if round_.hit is None or not 0 <= round_.hit < len(round_.branches):
        return None
    return round_.branches[round_.hit]
