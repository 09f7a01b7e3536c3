"""Lanes as `specmon bench` takes them: `--lane decoder=sd,draft-len=4`, or short, `--lane sd:4,recipe=bf16`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from specmon.core.errors import UsageError
from specmon.tui.commands import options
from specmon.tui.commands.numbers import whole_number

if TYPE_CHECKING:
    from specmon.core.checks.subject import Kind
    from specmon.core.decoders.settle import Settled
    from specmon.core.engine.messages import LaneConfig

Lanes = Annotated[
    list[str] | None,
    typer.Option(
        "--lane",
        metavar="LANE",
        help="One configuration, given twice or more: decoder=ssd,draft-len=4,fan-out=2,draft=eagle3, or short, "
        "ssd:4,fan-out=2. What it leaves out is as the other options say. Default: ar, sd and ssd.",
    ),
]
KEYS = (
    "decoder",
    "target",
    "draft",
    "draft-len",
    "draft-nodes",
    "fan-out",
    "recipe",
    "backend",
    "graphs",
    "devices",
)
MAX_LANES = 8


def lane_configs(lanes: Sequence[str] | None, shared: Mapping[str, str]) -> list[LaneConfig]:
    """The lanes, each filled up from `shared` (values by name, as in KEYS). Raises: UsageError."""
    words = list(lanes or ("ar", "sd", "ssd"))
    if not 2 <= len(words) <= MAX_LANES:
        raise UsageError(
            f"--lane names {len(words)} lane{'' if len(words) == 1 else 's'}, but a comparison has two to {MAX_LANES}."
        )
    return [lane_config(word, shared) for word in words]


def lane_config(text: str, shared: Mapping[str, str]) -> LaneConfig:
    """One lane. Raises: UsageError for a key that is unknown or given twice, and for values that cannot be."""
    values = dict(shared)
    own = parse_values(text)
    if "" in own:
        short = _short_form(own.pop(""))
        if twice := short.keys() & own.keys():
            raise UsageError(f"--lane gives {', '.join(sorted(twice))} twice: {text!r}.")
        own |= short
    values |= own
    return options.lane_config(
        decoder=values["decoder"],
        target=values["target"],
        draft=values["draft"],
        recipe=values["recipe"],
        backend=values["backend"],
        devices=values["devices"],
        graphs=values["graphs"],
        draft_len=_number("draft-len", values),
        draft_nodes=_number("draft-nodes", values),
        fan_out=values["fan-out"],
    )


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


def settle_lanes(configs: Sequence[LaneConfig]) -> list[Settled]:
    """What each lane comes to on this machine. Raises: UsageError or SpecmonError for one that cannot work here."""
    from specmon.core.ceilings import cuda_uuids
    from specmon.core.decoders.settle import settle
    from specmon.core.hardware import survey
    from specmon.core.paths import cache_dir

    machine = survey(cuda_uuids())
    return [settle(config, machine, cache_dir()) for config in configs]


def lane_checks(settled: Sequence[Settled]) -> list[tuple[Kind, ...]]:
    """For each lane the checks of `specmon check` that have passed and speak for it."""
    from specmon.core.checks.identify import subject_of
    from specmon.core.checks.records import Records
    from specmon.core.paths import cache_dir

    records = Records.of_user()
    return [records.passed(subject_of(lane, cache_dir())) for lane in settled]


def _short_form(text: str) -> dict[str, str]:
    """Read "sd:4", or "sd", which leaves draft-len as the other options say."""
    decoder, draft_len = options.parse_lane(text, 0, "--lane")
    return {"decoder": decoder, **({"draft-len": str(draft_len)} if ":" in text else {})}


def _number(key: str, values: Mapping[str, str]) -> int:
    number = whole_number(values[key])
    if number is None:
        raise UsageError(f"{key} is {values[key]!r}, but it takes a whole number.")
    return number
