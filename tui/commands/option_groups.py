"""Options that several sub-commands take together, each declared once with its default.

A command decorated with `grouped` takes a group as one parameter, and has an option for each of its fields.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import MISSING, asdict, dataclass, fields, is_dataclass, replace
from functools import wraps
from typing import TYPE_CHECKING, Any, get_type_hints

from specmon.tui.commands import options, train_options
from specmon.tui.commands.numbers import bounded

if TYPE_CHECKING:
    from specmon.core.engine.messages import LaneConfig, Request
    from specmon.core.training.config import Kind, TrainSettings


@dataclass(frozen=True)
class PromptOptions:
    """Where the prompt comes from."""

    prompt: options.Prompt = None
    prompt_file: options.PromptFile = None

    def read(self) -> str | None:
        """The prompt, None where there is none. Raises: UsageError."""
        return options.read_prompt(self.prompt, self.prompt_file, stdin_is_terminal=options.keys_on_stdin())


@dataclass(frozen=True)
class LaneOptions:
    """What decodes, but for the decoder."""

    target: options.Target = "smollm2"
    draft: options.Draft = "auto"
    draft_len: options.DraftLen = 4
    draft_nodes: options.DraftNodes = 0
    fan_out: options.FanOut = "1"
    recipe: options.Recipe = "auto"
    backend: options.Backend = "auto"
    graphs: options.Graphs = "on"
    devices: options.Devices = "auto"

    def config(self, decoder: str, draft_len: int | None = None) -> LaneConfig:
        """The checked options as a lane, with a draft_len of its own if that is given. Raises: UsageError."""
        own = self if draft_len is None else replace(self, draft_len=draft_len)
        return options.lane_config(decoder=decoder, **asdict(own))


@dataclass(frozen=True)
class SamplingOptions:
    """How tokens are drawn, and when to stop."""

    max_new_tokens: options.MaxNewTokens = 256
    temperature: options.Temperature = 0.0
    top_p: options.TopP = 1.0
    top_k: options.TopK = 0
    seed: options.Seed = 0
    stop: options.Stop = None
    raw: options.Raw = False

    def request(self, prompt: str | None) -> Request:
        """The checked options as a request; without a prompt it has no message. Raises: UsageError."""
        return options.request(prompt, **asdict(self))


@dataclass(frozen=True)
class OutputOptions:
    """What is kept, and what stands in for the monitor."""

    record: options.Record = None
    force: options.Force = False
    plain: options.Plain = False
    json: options.Json = False

    def check(self) -> None:
        """Raises: UsageError if the recording could not be written."""
        options.check_record(self.record, self.force)


@dataclass(frozen=True)
class LookOptions:
    """How the monitor looks."""

    theme: options.Theme = None
    ascii: options.Ascii = False
    no_mouse: options.NoMouse = False


@dataclass(frozen=True)
class TrainOptions:
    """What trainings of every kind take: where the run is, what it learns from, how long and on what."""

    out: train_options.Out
    target: options.Target = "smollm2"
    data: train_options.Data = None
    prompts: train_options.Prompts = None
    tokens: train_options.Tokens = 50_000_000
    row_tokens: train_options.RowTokens = 512
    steps: train_options.Steps = 3000
    batch_tokens: train_options.BatchTokens = 49_152
    accept_weight: train_options.AcceptWeight = 0.0
    devices: train_options.Devices = "auto"
    seed: train_options.Seed = 0
    text_seed: train_options.TextSeed = 0
    start: train_options.From = None
    resume: train_options.Resume = False

    def settings(self, kind: Kind, learning_rate: float, **own: Any) -> TrainSettings:
        """The checked options as a run's settings, beside those of its kind. Raises: UsageError."""
        from specmon.core.training.config import TrainSettings

        return TrainSettings(
            kind=kind,
            text=train_options.text_settings(self.target, self.row_tokens, self.prompts, self.text_seed),
            tokens=bounded(self.tokens, "--tokens", 1),
            steps=bounded(self.steps, "--steps", 1),
            batch_tokens=bounded(self.batch_tokens, "--batch-tokens", 1),
            learning_rate=train_options.positive(learning_rate, "--learning-rate"),
            accept_weight=train_options.not_negative(self.accept_weight, "--accept-weight"),
            seed=train_options.seed_of(self.seed, "--seed"),
            start=str(self.start or ""),
            data=str(self.data.absolute()) if self.data else "",
            **own,
        )


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """The command with an option for each field of the groups among its parameters, as typer reads it."""
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {name: hint for name, hint in hints.items() if is_dataclass(hint)}
    parameters: list[inspect.Parameter] = []
    for name, parameter in inspect.signature(command).parameters.items():
        own = [parameter.replace(annotation=hints[name])]
        parameters += _spread(groups[name]) if name in groups else own

    @wraps(command)
    def spread(**given: Any) -> None:
        for name, group in groups.items():
            given[name] = group(**{field.name: given.pop(field.name) for field in fields(group)})
        command(**given)

    spread.__dict__["__signature__"] = inspect.Signature(parameters)
    spread.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return spread


def _spread(group: Any) -> list[inspect.Parameter]:
    hints = get_type_hints(group, include_extras=True)
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    return [
        inspect.Parameter(
            field.name,
            kind,
            default=inspect.Parameter.empty if field.default is MISSING else field.default,
            annotation=hints[field.name],
        )
        for field in fields(group)
    ]
