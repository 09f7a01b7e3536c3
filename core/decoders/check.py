"""What no model and no machine could make work is refused before anything is loaded. Torch-free."""

from __future__ import annotations

from specmon.core.decoders.fan_out import MAX_BRANCHES, FanOut, Given, Learned
from specmon.core.drafters.script_words import check_words
from specmon.core.engine.messages import LaneConfig
from specmon.core.errors import UsageError
from specmon.core.models.recipe_names import check_recipe

#: Of the rows of a target's pass one feeds the token before the draft.
MAX_DRAFT_LEN = 15


def fan_out_of(config: LaneConfig) -> FanOut:
    """How many branches each accepted_len 0 … draft_len gets; one number serves all."""
    if config.branch_budget is not None:
        return Learned(config.draft_len, config.branch_budget)
    widths = config.fan_out
    return Given(widths * (config.draft_len + 1) if len(widths) == 1 else widths)


def check_config(config: LaneConfig) -> None:
    """Raises: UsageError where names or numbers cannot work, whatever the model and the machine."""
    check_recipe(config.recipe, config.backend)
    if config.decoder == "ar":
        return
    check_words(config.draft)
    if not 1 <= config.draft_len <= MAX_DRAFT_LEN:
        raise UsageError(f"draft_len {config.draft_len} cannot work.", f"Choose 1 to {MAX_DRAFT_LEN}.")
    if config.draft_nodes:
        _check_tree(config)
    if config.decoder == "ssd":
        _check_fan_out(config)


def _check_tree(config: LaneConfig) -> None:
    if not 1 <= config.draft_nodes <= MAX_DRAFT_LEN:
        raise UsageError(
            f"A tree of {config.draft_nodes} nodes cannot work.",
            f"Choose 1 to {MAX_DRAFT_LEN}, or 0 for a chain.",
        )
    if config.decoder == "ssd":
        raise UsageError("SSD drafts chains, not trees.", "Leave out --draft-nodes, or use --decoder sd.")
    check_tree_drafter(config.draft)


def check_tree_drafter(draft: str) -> None:
    """Raises: UsageError where the drafter of that name drafts no trees."""
    if draft.partition(":")[0] in ("ngram", "suffix", "hybrid", "scripted"):
        raise UsageError(
            f"--draft {draft} drafts chains, not trees.", "Leave out --draft-nodes, or give a model."
        )


def _check_fan_out(config: LaneConfig) -> None:
    if config.branch_budget is not None:
        if not 1 <= config.branch_budget <= MAX_BRANCHES:
            raise UsageError(
                f"A budget of {config.branch_budget} branches cannot work.", f"Choose 1 to {MAX_BRANCHES}."
            )
        return
    if len(config.fan_out) not in (1, config.draft_len + 1):
        raise UsageError(
            f"fan_out has {len(config.fan_out)} entries for draft_len {config.draft_len}.",
            f"Give one for all, or {config.draft_len + 1}.",
        )
    if min(config.fan_out) < 0 or sum(config.fan_out) < 1:
        raise UsageError("fan_out must be 0 or more for each accepted_len, and more than 0 for one.")
    if (total := sum(fan_out_of(config).widths())) > MAX_BRANCHES:
        raise UsageError(
            f"fan_out {config.fan_out_words} makes {total} branches a round for draft_len {config.draft_len}.",
            f"Choose at most {MAX_BRANCHES} in all.",
        )
