"""The settings as rows of choices, with the reason where one is impossible. Knows no widget."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from specmon.core.engine.messages import LaneConfig

DRAFT_LENS = tuple(range(1, 11))
FAN_OUTS = (1, 2, 3, 4, 5, 6, 8)
MAX_TOKENS = (32, 64, 96, 128, 256, 512, 1024, 2048, 4096)
DRAFTS = ("auto", "eagle3", "ngram", "scripted:0.78")


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

    def settings(self, devices: tuple[str, ...]) -> list[Setting]:
        """The rows; `devices` are the engine's, the target's first (empty while unknown)."""
        c = self.config
        no_draft = "AR drafts nothing" if c.decoder == "ar" else ""
        no_branches = "" if c.decoder == "ssd" else "only SSD prepares branches"
        return [
            _setting("decoder", "decoder", ("ar", "sd", "ssd"), c.decoder),
            _setting("draft", "drafter", DRAFTS, c.draft, _draft_reasons(c.target), no_draft),
            _setting("draft_len", "draft_len K", DRAFT_LENS, c.draft_len, {}, no_draft),
            _setting("fan_out", "fan_out", FAN_OUTS, _fan_out(c.fan_out), {}, no_branches),
            _setting("recipe", "recipe", ("auto", "q4", "bf16", "fp32"), c.recipe, _recipe_reasons(devices)),
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
        if name == "max_new_tokens":
            return Plan(self.config, int(value))
        if name == "draft_len":
            return Plan(_with_draft_len(self.config, int(value)), self.max_new_tokens)
        change: object = (int(value),) if name == "fan_out" else value
        return Plan(msgspec.structs.replace(self.config, **{name: change}), self.max_new_tokens)


def _with_draft_len(config: LaneConfig, draft_len: int) -> LaneConfig:
    """Another draft_len; a fan-out given for each accepted_len no longer fits: its first entry is kept."""
    fan_out = config.fan_out if len(config.fan_out) in (1, draft_len + 1) else config.fan_out[:1]
    return msgspec.structs.replace(config, draft_len=draft_len, fan_out=fan_out)


def _fan_out(fan_out: tuple[int, ...]) -> str:
    return "·".join(map(str, fan_out))


def _draft_reasons(target: str) -> dict[str, str]:
    return {} if target == "smollm2" else {"eagle3": "no head ships for this target"}


def _recipe_reasons(devices: tuple[str, ...]) -> dict[str, str]:
    return {"q4": "runs on CPU devices"} if devices and devices[0].startswith("cuda") else {}


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
    c = plan.config
    parts = [c.decoder.upper()]
    if c.decoder != "ar":
        parts.append(f"K{c.draft_len}")
    if c.decoder == "ssd":
        parts.append(f"fan {_fan_out(c.fan_out)}")
    if c.decoder != "ar" and c.draft != "auto":
        parts.append(c.draft)
    return f"{' '.join(parts)}, max {plan.max_new_tokens:,}"
