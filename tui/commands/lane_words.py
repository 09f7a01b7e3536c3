"""Lanes in words: `--lane decoder=sd,draft-len=4`, or short, `--lane sd:4,recipe=bf16`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from specmon.core.errors import UsageError
from specmon.tui.commands import options
from specmon.tui.commands.numbers import whole_number
from specmon.tui.commands.option_groups import LaneOptions

if TYPE_CHECKING:
    from specmon.core.engine.messages import LaneConfig

Lanes = Annotated[
    list[str] | None,
    typer.Option(
        "--lane",
        metavar="LANE",
        help="One configuration, given twice to eight times (four in a race): decoder=ssd,draft-len=4,fan-out=2,"
        "draft=eagle3, or short, ssd:4,fan-out=2. What it leaves out is as the other options say. Default: ar, sd and ssd.",
    ),
]
KEYS = ("decoder", *(field.name.replace("_", "-") for field in fields(LaneOptions)))
_NUMBERS = ("draft-len", "draft-nodes")


def lane_configs(lanes: Sequence[str] | None, shared: LaneOptions, *, most: int = 8) -> list[LaneConfig]:
    """The lanes, two to `most`, each filled up from `shared`. Raises: UsageError."""
    words = list(lanes or ("ar", "sd", "ssd"))
    if not 2 <= len(words) <= most:
        raise UsageError(
            f"--lane names {len(words)} lane{'' if len(words) == 1 else 's'}, but 2 to {most} are compared."
        )
    return [lane_config(word, shared) for word in words]


def lane_config(text: str, shared: LaneOptions) -> LaneConfig:
    """One lane. Raises: UsageError for a key that is unknown or given twice, and for values that cannot be."""
    own = parse_values(text)
    if "" in own:
        short = _short_form(own.pop(""))
        if twice := short.keys() & own.keys():
            raise UsageError(f"--lane gives {', '.join(sorted(twice))} twice: {text!r}.")
        own |= short
    decoder = own.pop("decoder", "ar")
    return replace(shared, **{key.replace("-", "_"): _value(key, own[key]) for key in own}).config(decoder)


def parse_values(text: str) -> dict[str, str]:
    """Read "sd:4,fan-out=2,1,devices=cuda:0,cuda:1": values by key, what stands before the first key under "".

    A part without "=" goes on with the value before it, since values may hold commas.
    """
    found: dict[str, str] = {}
    key = ""
    for part in text.split(","):
        name, equals, value = part.partition("=")
        name = name.strip().replace("_", "-")
        if not equals:
            found[key] = f"{found[key]},{part}" if key in found else part
        elif name not in KEYS:
            raise UsageError(f"--lane has {name!r}, which is none of {', '.join(KEYS)}.")
        elif name in found:
            raise UsageError(f"--lane gives {name} twice: {text!r}.")
        else:
            key, found[name] = name, value
    return found


def _short_form(text: str) -> dict[str, str]:
    """Read "sd:4", or "sd", which leaves draft-len as the other options say."""
    decoder, draft_len = options.parse_lane(text, 0, "--lane")
    return {"decoder": decoder, **({"draft-len": str(draft_len)} if ":" in text else {})}


def _value(key: str, text: str) -> Any:
    if key not in _NUMBERS:
        return text
    number = whole_number(text)
    if number is None:
        raise UsageError(f"{key} is {text!r}, but it takes a whole number.")
    return number
