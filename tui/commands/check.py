"""`specmon check`: whether what is computed is right. Each kind is a file of its own."""

from __future__ import annotations

import typer

from specmon.tui.commands.check_agreement import agreement
from specmon.tui.commands.check_quality import quality
from specmon.tui.commands.check_reference import reference

app = typer.Typer(
    name="check",
    help="Check decoders against each other, logits against Hugging Face, and recipes against fp32. "
    "What passes is noted, and `specmon bench` calls a speed unverified that no agreement stands behind.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
app.command("agreement", short_help="SD and SSD give AR's tokens, pattern by pattern.")(agreement)
app.command("reference", short_help="Logits against Hugging Face's, prefill and cached decode.")(reference)
app.command("quality", short_help="Perplexity and top-1 agreement of each recipe against fp32.")(quality)
