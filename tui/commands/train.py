"""`specmon train`: small drafters for a target, trained on text it writes itself."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from specmon.core.errors import UsageError
from specmon.tui.commands import train_options
from specmon.tui.commands.bench_progress import BenchProgress
from specmon.tui.commands.numbers import bounded
from specmon.tui.commands.option_groups import TrainOptions, grouped
from specmon.tui.commands.output import say, write_line
from specmon.tui.commands.prepare import EMBEDDED, RANDOM, require_engine

if TYPE_CHECKING:
    from specmon.core.training.config import TrainSettings

#: Options that say what text is, and the settings they make.
_OF_TEXT = {
    "target": ("target",),
    "row_tokens": ("row_tokens",),
    "prompts": ("prompts", "prompts_sha256"),
    "text_seed": ("seed",),
}

app = typer.Typer(help="Train a drafter for a target.", no_args_is_help=True, rich_markup_mode=None)


@app.command("draft", short_help="Train a draft model.")
@grouped
def draft(
    context: typer.Context,
    run: TrainOptions,
    learning_rate: train_options.LearningRate = 2e-3,
    hidden: Annotated[int, typer.Option(metavar="N", help="Its hidden size, a multiple of 64.")] = 256,
    layers: train_options.Layers = 4,
) -> None:
    """Train a draft model: a small Llama of the target's vocabulary that learns the target's own distribution.

    The target writes the text itself. Ctrl+c saves; the same command goes on.
    """
    if bounded(hidden, "--hidden", 1) % 64:
        raise UsageError(f"--hidden is {hidden}, but it must be a multiple of 64.")
    own = {"hidden": hidden, "layers": bounded(layers, "--layers", 1)}
    _train(run.settings("draft", learning_rate, **own), run, _options_given(context))


@app.command("eagle3", short_help="Train an EAGLE-3 head.")
@grouped
def eagle3(
    context: typer.Context,
    run: TrainOptions,
    learning_rate: train_options.LearningRate = 1e-3,
    draft_vocab: train_options.DraftVocab = 8192,
    unroll: Annotated[int, typer.Option(metavar="N", help="Steps of training-time test.")] = 4,
    taps: train_options.Taps = "",
) -> None:
    """Train an EAGLE-3 head, with training-time test: it learns to draft from its own features too.

    The target writes the text itself. Ctrl+c saves; the same command goes on.
    """
    own = {
        "draft_vocab": bounded(draft_vocab, "--draft-vocab", 1),
        "unroll": bounded(unroll, "--unroll", 1),
        "taps": train_options.layers_of(taps),
    }
    _train(run.settings("eagle3", learning_rate, **own), run, _options_given(context))


@app.command("block", short_help="Train a block drafter.")
@grouped
def block(
    context: typer.Context,
    run: TrainOptions,
    learning_rate: train_options.LearningRate = 1e-3,
    block_len: Annotated[int, typer.Option(metavar="K", help="Tokens it drafts in one pass, 4 to 15.")] = 8,
    layers: train_options.Layers = 2,
    draft_vocab: train_options.DraftVocab = 8192,
    taps: train_options.Taps = "",
) -> None:
    """Train a block drafter: it drafts all tokens in one pass, from the target's features of the text before.

    The target writes the text itself. Ctrl+c saves; the same command goes on.
    """
    if not 4 <= block_len <= 15:
        raise UsageError(f"--block-len is {block_len}, but it must be 4 to 15.")
    own = {
        "block_len": block_len,
        "layers": bounded(layers, "--layers", 1),
        "draft_vocab": bounded(draft_vocab, "--draft-vocab", 1),
        "taps": train_options.layers_of(taps),
    }
    _train(run.settings("block", learning_rate, **own), run, _options_given(context))


def _train(given: TrainSettings, run: TrainOptions, options: set[str]) -> None:
    require_engine()
    from specmon.core.paths import cache_dir
    from specmon.core.training.config import RUN, TrainSettings, read_settings
    from specmon.core.training.held_out import in_words
    from specmon.core.training.run import Place, train

    settings = given
    if run.resume:
        if not (run.out / RUN).exists():
            raise UsageError(
                f"--out is {run.out}, where no run was begun.", "Leave out --resume to begin one."
            )
        begun = read_settings(run.out / RUN, TrainSettings)
        if begun.kind != given.kind:
            raise UsageError(f"{run.out} holds a run of: specmon train {begun.kind}.")
        settings = _changed(begun, given, options)
    if settings.text.target == EMBEDDED or settings.text.target.startswith(RANDOM):
        from specmon.tui.commands.fetching import ensure_embedded_model

        ensure_embedded_model()
    place = Place(out=run.out, data=Path(settings.data or run.out / "data"), cache_dir=cache_dir())
    progress = BenchProgress()
    try:
        results = train(settings, place, train_options.devices_of(run.devices), progress)
    except KeyboardInterrupt as ended:
        progress.say(f"{str(ended) or 'Stopped.'} Go on with: {_going_on(settings.kind, run)}")
        raise
    finally:
        progress.close()
    for result in results:
        measured = f"  held out: {in_words(result.held_out)}" if result.held_out else ""
        write_line(f"{result.folder}  {result.n_bytes / 1e6:.1f} MB{measured}")
    draft = shlex.quote(str(results[-1].folder))
    target = shlex.quote(settings.text.target)
    say(
        f"Decode with it: specmon bench draft-len --target {target} --draft {draft} --draft-len 4 --decoder sd "
        "--sweep-only"
    )


def _options_given(context: typer.Context) -> set[str]:
    """Names of the options that stand on the command line."""
    sources = {name: context.get_parameter_source(name) for name in context.params}
    return {name for name, source in sources.items() if source is not None and source.name == "COMMANDLINE"}


def _changed(begun: TrainSettings, given: TrainSettings, options: set[str]) -> TrainSettings:
    """The settings of a run that was begun, with those instead that `options` give."""
    from msgspec.structs import replace

    of_text = [field for option in options for field in _OF_TEXT.get(option, ())]
    text = replace(begun.text, **{field: getattr(given.text, field) for field in of_text})
    own = options & set(given.__struct_fields__)
    return replace(begun, text=text, **{field: getattr(given, field) for field in own})


def _going_on(kind: str, run: TrainOptions) -> str:
    """The command line that goes on with a run."""
    words = ["specmon", "train", kind, "--out", str(run.out), "--resume"]
    words += ["--devices", run.devices] if run.devices != "auto" else []
    return shlex.join(words)
