"""The settings as rows of choices, with the reason where one is impossible. Knows no widget."""

from __future__ import annotations

from dataclasses import dataclass, replace

import msgspec

from specmon.core.engine.messages import LaneConfig, Request

DRAFT_LENS = tuple(range(1, 11))
FAN_OUTS = (1, 2, 3, 4, 5, 6, 8, "auto:16")
MAX_TOKENS = (32, 64, 96, 128, 256, 512, 1024, 2048, 4096)
TEMPERATURES = ("0", "0.3", "0.6", "0.8", "1", "1.5")
SEEDS = tuple(range(10))
DRAFTS = ("auto", "eagle3", "ngram", "suffix", "hybrid", "scripted:0.78")


@dataclass(frozen=True)
class Choice:
    """One value of a setting; `reason` says why it cannot be taken, empty where it can."""

    value: str
    reason: str = ""


@dataclass(frozen=True)
class Setting:
    """A row: label, choices in order, which is chosen, and why the row has no effect now (or empty)."""

    name: str
    label: str
    choices: tuple[Choice, ...]
    chosen: int
    idle: str = ""


@dataclass(frozen=True)
class Plan:
    """What the next turn will use."""

    config: LaneConfig
    max_new_tokens: int
    temperature: float = 0.0
    seed: int = 0

    def settings(self, devices: tuple[str, ...]) -> list[Setting]:
        """The rows; `devices` are the engine's, the target's first (empty while unknown)."""
        c = self.config
        no_draft = "AR drafts nothing" if c.decoder == "ar" else ""
        no_draw = "" if self.temperature else "greedy: nothing is drawn"
        no_branches = "" if c.decoder == "ssd" else "only SSD prepares branches"
        return [
            _setting("decoder", "decoder", ("ar", "sd", "ssd"), c.decoder),
            _setting("draft", "drafter", DRAFTS, c.draft, _draft_reasons(c.target), no_draft),
            _setting("draft_len", "draft_len K", DRAFT_LENS, c.draft_len, {}, no_draft),
            _setting("fan_out", "fan_out", FAN_OUTS, c.fan_out_words, {}, no_branches),
            _setting(
                "recipe",
                "recipe",
                ("auto", "q4", "fp8", "fp8-bf16-head", "bf16", "fp32"),
                c.recipe,
                _recipe_reasons(c.devices, devices),
            ),
            _setting("devices", "devices", _device_choices(devices), c.devices),
            _setting("temperature", "temperature", TEMPERATURES, f"{self.temperature:g}"),
            _setting("seed", "seed", SEEDS, self.seed, {}, no_draw),
            _setting("max_new_tokens", "max new tokens", MAX_TOKENS, self.max_new_tokens),
        ]

    def changed(self, name: str, by: int, devices: tuple[str, ...]) -> Plan:
        """The plan with a setting moved `by` possible choices; the same at either end."""
        setting = next(s for s in self.settings(devices) if s.name == name)
        at = setting.chosen + by
        while 0 <= at < len(setting.choices) and setting.choices[at].reason:
            at += by
        if setting.idle or not 0 <= at < len(setting.choices):
            return self
        return self._with(name, setting.choices[at].value)

    def _with(self, name: str, value: str) -> Plan:
        if name == "temperature":
            return replace(self, temperature=float(value))
        if name == "seed":
            return replace(self, seed=int(value))
        if name == "max_new_tokens":
            return replace(self, max_new_tokens=int(value))
        if name == "draft_len":
            return replace(self, config=_with_draft_len(self.config, int(value)))
        if name == "fan_out":
            return replace(self, config=_with_fan_out(self.config, value))
        return replace(self, config=msgspec.structs.replace(self.config, **{name: value}))

    def request(self, template: Request) -> Request:
        """A request as `template` but for what is planned here."""
        sampling = msgspec.structs.replace(template.sampling, temperature=self.temperature)
        return msgspec.structs.replace(
            template, max_new_tokens=self.max_new_tokens, sampling=sampling, seed=self.seed
        )


def plan_of(config: LaneConfig, request: Request) -> Plan:
    """The plan that loads `config` and decodes as `request`."""
    return Plan(config, request.max_new_tokens, request.sampling.temperature, request.seed)


def _with_draft_len(config: LaneConfig, draft_len: int) -> LaneConfig:
    """Another draft_len; a fan-out given for each accepted_len no longer fits: its first entry is kept."""
    fan_out = config.fan_out if len(config.fan_out) in (1, draft_len + 1) else config.fan_out[:1]
    return msgspec.structs.replace(config, draft_len=draft_len, fan_out=fan_out)


def _with_fan_out(config: LaneConfig, words: str) -> LaneConfig:
    """Another fan-out, as `LaneConfig.fan_out_words` tells it."""
    auto, _, budget = words.partition(":")
    if auto == "auto":
        return msgspec.structs.replace(config, branch_budget=int(budget))
    widths = tuple(int(width) for width in words.split("·"))
    return msgspec.structs.replace(config, fan_out=widths, branch_budget=None)


def _device_choices(devices: tuple[str, ...]) -> tuple[str, ...]:
    """The devices at hand, alone and as target and draft."""
    pairs = (f"{target},{draft}" for target in devices[:2] for draft in devices[:2] if target != draft)
    return ("auto", *dict.fromkeys((*devices[:2], *pairs, "cpu:0")))


def _draft_reasons(target: str) -> dict[str, str]:
    if target == "smollm2":
        return {}
    return {"eagle3": "no head ships for this target", "hybrid": "no draft model ships for this target"}


def _recipe_reasons(planned: str, devices: tuple[str, ...]) -> dict[str, str]:
    target = planned if planned != "auto" else "".join(devices[:1])
    if target.startswith("cuda"):
        return {"q4": "runs on CPU devices"}
    return dict.fromkeys(("fp8", "fp8-bf16-head"), "runs on CUDA devices")


def _setting(
    name: str,
    label: str,
    values: tuple[object, ...],
    present: object,
    reasons: dict[str, str] | None = None,
    idle: str = "",
) -> Setting:
    """A row of `values`; a present value that is none of them comes first, so that nothing given is lost."""
    texts = [str(value) for value in values]
    if str(present) not in texts:
        texts.insert(0, str(present))
    choices = tuple(Choice(text, (reasons or {}).get(text, "")) for text in texts)
    return Setting(name, label, choices, texts.index(str(present)), idle)


def plan_label(plan: Plan) -> str:
    """The plan in a few words, as the prompt line tells it: "SSD K4 fan 1, max 256"."""
    drawn = f", T {plan.temperature:g} seed {plan.seed}" if plan.temperature else ""
    return f"{config_label(plan.config)}{drawn}, max {plan.max_new_tokens:,}"


def config_label(c: LaneConfig) -> str:
    """A lane in a few words: "AR", "SSD K4 fan 1"."""
    parts = [c.decoder.upper()]
    if c.decoder != "ar":
        parts.append(f"K{c.draft_len}")
    if c.decoder == "sd" and c.draft_nodes:
        parts.append(f"tree {c.draft_nodes}")
    if c.decoder == "ssd":
        parts.append(f"fan {c.fan_out_words}")
    if c.decoder != "ar" and c.draft != "auto":
        parts.append(c.draft)
    return " ".join(parts)
