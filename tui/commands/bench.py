"""`specmon bench`: measurements that say how sure they are. Each kind is a file of its own."""

from __future__ import annotations

import typer

from specmon.tui.commands.bench_draft_len import draft_len
from specmon.tui.commands.bench_paired import paired
from specmon.tui.commands.bench_profile import profile
from specmon.tui.ending import interrupted_once

app = typer.Typer(
    name="bench",
    help="Measure: configurations against each other, speed by draft_len, and where a pass spends its time.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


@app.callback()
def _keep_what_is_measured(ctx: typer.Context) -> None:
    ctx.with_resource(interrupted_once())


app.command("paired", short_help="Configurations against each other, alternating.")(paired)
app.command("draft-len", short_help="Speed by draft_len, measured and predicted.")(draft_len)
app.command("profile", short_help="A decode pass by groups of kernels.")(profile)
