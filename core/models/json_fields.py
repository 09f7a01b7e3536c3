"""Fields of a parsed config.json, or numbers of a GGUF's metadata.

One that is missing or of another kind is refused by its name; a field that is null counts as one that is not there. All
raise SpecmonError; `where` is the file's path.
"""

from __future__ import annotations

from typing import Any

from specmon.core.errors import SpecmonError

_LARGEST = 1e18


def number(raw: dict[str, Any], key: str, where: str, default: float | None = None) -> float:
    """A finite number; `default` where there is none."""
    value = default if raw.get(key) is None else raw[key]
    if value is None:
        raise SpecmonError(f"{where} has no field {key!r}.", "It is not a complete model configuration.")
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= _LARGEST:
        raise _other_kind(where, key, value, "a number")
    return value


def whole_number(raw: dict[str, Any], key: str, where: str, default: int | None = None) -> int:
    """A number without a fraction; `default` where there is none."""
    value = number(raw, key, where, default)
    if value != int(value):
        raise _other_kind(where, key, value, "a whole number")
    return int(value)


def whole_numbers(raw: dict[str, Any], key: str, where: str) -> tuple[int, ...]:
    """Those of a list, or of a single number; none where there is nothing."""
    value = raw.get(key)
    single = [] if value is None else [value]
    listed = value if isinstance(value, list) else single
    return tuple(whole_number({key: item}, key, where) for item in listed)


def items(raw: dict[str, Any], key: str, where: str) -> list[Any]:
    """A list; an empty one where there is none."""
    value = raw.get(key) or []
    if not isinstance(value, list):
        raise _other_kind(where, key, value, "a list")
    return value


def table(raw: dict[str, Any], key: str, where: str) -> dict[str, Any]:
    """An object; an empty one where there is none."""
    value = raw.get(key) or {}
    if not isinstance(value, dict):
        raise _other_kind(where, key, value, "an object")
    return value


def _other_kind(where: str, key: str, value: object, wanted: str) -> SpecmonError:
    words = repr(value)
    short = words if len(words) <= 40 else f"{words[:40]}…"
    return SpecmonError(f"{where} has {short} as {key!r}, which is not {wanted}.")
